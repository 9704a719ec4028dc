#!lua
-- reassign: gives one allocation to another member.
--
-- KEYS[1]   log        stream  {corp}:v1:log   the other keys: see roster_state.lua
-- ARGV[1]   now_ms     integer "" in production: the script asks TIME
-- ARGV[2]   payload    string  into the log, not read
-- ARGV[3]   allocation string
-- ARGV[4]   pool       string
-- ARGV[5]   subject    string
-- ARGV[6]   to         string  the member; "" = the pool picks, the present member left out. He may be away
-- ARGV[7]   epoch      integer that the caller knows
-- ARGV[8..] exclude    string  members that are not picked
--
-- Returns  seq, now_ms, then the result, joined by 0x1f: more, n woken, five for each woken, then
--          "MOVED" member epoch | "SAME" "" epoch | "NOBODY" | "FULL" | "BLOCKED" | "STALE" member epoch | "UNKNOWN"
-- Errors   NOT_READY   the corp is closed, or was found broken and is closed now
-- Invariant  the epoch rises with every move, so of two callers who know one epoch one moves it; who is left out of
--          the pick earns nothing by it and loses nothing.
-- Cost     O((1 + exclude) * log members)

-- include roster_state.lua

return operation('reassign.1', {}, function()
  local allocation, pool_id, subject, to, epoch = ARGV[3], ARGV[4], ARGV[5], ARGV[6], tonumber(ARGV[7])
  local list = open(subject)
  local e = find(list, pool_id, allocation)
  -- A visitor sees one member's code: another one would be no use to him.
  if not e or e.ends then return { 'UNKNOWN', '', '' } end
  if e.epoch ~= epoch then return { 'STALE', e.member, whole(e.epoch) } end
  local m, source = nil, e.source
  if to ~= '' then
    if to == e.member then return { 'SAME', '', whole(e.epoch) } end
    m = create(to)
    parse(m)
    if m.blocked ~= '' then return { 'BLOCKED', '', '' } end
    local l = m.windows and limits_in(m, pool_id)
    if m.load >= m.cap or m.windows and windows_full(m.windows) or l and limits_full(l) then return { 'FULL', '', '' } end
  else
    local left_out = { e.member }
    for i = 8, #ARGV do left_out[#left_out + 1] = ARGV[i] end
    for i = 1, e.offer and #e.offer.tried or 0 do left_out[#left_out + 1] = e.offer.tried[i] end
    m = serve_without(e, left_out)
    if not m then return { 'NOBODY', '', '' } end
  end
  local holder = e.settled == '1' and e.member or e.holder
  if e.offer then end_offer(subject, e) end
  local new_source = to == '' and e.source or e.plan and '' or nil
  e.source = source
  release(e, subject)
  e.offer, e.source = nil, new_source
  e.mark = assign(m, source_of(e))
  pass_gate(e)
  e.member, e.holder, e.epoch, e.settled, list.dirty = m.id, holder, e.epoch + 1, '0', true
  wake()
  return { 'MOVED', m.id, whole(e.epoch) }
end)
