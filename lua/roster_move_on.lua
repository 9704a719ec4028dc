-- roster_move_on: put in the place of the line "include roster_move_on.lua", after roster_state.lua.

-- The next member is asked, one who was not yet; or nobody, and a person must decide. Answers whom, the epoch, and when
-- the new offer ends.
local function move_on(subject, list, e)
  end_offer(subject, e)
  release(e, subject)
  local tried = e.offer.tried
  tried[#tried + 1] = e.member
  local _, tries = offer_rule(e.pool)
  local m
  if #tried < tries then m = serve_without(e, tried) end
  e.epoch, e.settled, list.dirty, e.mark = e.epoch + 1, '0', true, nil
  if m then
    e.mark = assign(m, source_of(e))
    pass_gate(e)
  end
  e.member = m and m.id or ''
  e.offer = { ends = 0, since = 0, tried = tried }
  if m then begin_offer(subject, e) end
  return e.member, whole(e.epoch), whole(e.offer.ends)
end
