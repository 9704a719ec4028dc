#!lua
-- visit: whom each of these visitors sees.
--
-- KEYS[1]   log      stream  {corp}:v1:log   the other keys: see roster_state.lua and roster_visits.lua
-- ARGV[1]   now_ms   integer "" in production: the script asks TIME
-- ARGV[2]   payload  string  into the log, not read
-- ARGV[3..] visits   six for each: allocation, pool and its plan (see roster_route.lua), subject, channel, how long the hold lasts, how long a slot rests
--
-- Returns  seq, now_ms, then the result, joined by 0x1f: more, n woken, five for each woken, then five for each visit:
--          "HELD" allocation member slot until | "WAITING" allocation "" "" until |
--          "AGAIN" allocation member slot until | "MET" allocation member "" "" | "NO_POOL" and four ""
-- Errors   NOT_READY   the corp is closed, or was found broken and is closed now
-- Invariant  a visitor who comes again keeps what he has; a slot is lent to one hold at a time, and rests in between.
-- Cost     O(visits * (classes + log members + log slots)); of one that avoids members O(they * log members)

-- include roster_state.lua

local name = 'visit.1'
for i = 4, #ARGV, 6 do
  if string.find(ARGV[i], '\28', 1, true) then name = 'visit.2' end
end

-- One who waits and asks again avoids others than before: he stands in other queues, where he has waited as long, and is
-- perhaps served at once.
local function avoid_anew(e, subject, plan)
  local avoid = plan and concat(plan.avoid, '\26') or ''
  if avoid == (e.plan and concat(e.plan.avoid, '\26') or '') then return end
  local at = turn_of(e, subject)
  stop_waiting(e, subject)
  if e.plan then
    e.plan = avoiding(e.plan, avoid)
  else
    begin_route(e, plan)
    e.opened = steps_due(e)
  end
  local list = queues_for(e, e.opened)
  for i = 1, #list do
    stand_in(e, subject, list[i], at)
    local p = pool(list[i].pool)
    if p then touch(p) end
  end
  set_patience(e, subject, true)
  wake()
end

return operation(name, {}, function()
  local out = {}

  local function visit(allocation, pool_field, subject, channel, hold, rest)
    local pool_id, plan = split_plan(pool_field)
    local p = pool(pool_id)
    if not p then return 'NO_POOL', '', '', '', '' end
    local list = open(subject)
    local e = find(list, pool_id)
    if e then
      -- Who waits keeps his place as long as he asks; a hold that is over and was not swept yet begins anew.
      if e.ends and (e.member == '' or e.ends <= now) then
        if e.member ~= '' then
          e.mark = count_again(known(e.member), e)
          unpass_gate(e)
          pass_gate(e)
        end
        e.ends, list.dirty = now + e.hold, true
        end_at('h', subject, pool_id, e.ends)
        if e.member == '' then avoid_anew(e, subject, plan) end
      end
      return 'AGAIN', e.id, e.member, e.slot or '', whole(e.ends or 0)
    end
    local past = find_past(subject, pool_id)
    if past and past.kind == 'M' then return 'MET', past.id, past.member, '', '' end
    forget(subject, pool_id)
    e = begin_route({ id = allocation, pool = pool_id, member = '', holder = '', epoch = 0, settled = '0',
      channel = channel, slot = '', hold = hold, rest = rest }, plan)
    local m = take_turn(e, subject)
    if m then
      begin_hold(subject, e)
    else
      e.ends = now + hold
      end_at('h', subject, pool_id, e.ends)
    end
    list.dirty = true
    list[#list + 1] = e
    return m and 'HELD' or 'WAITING', allocation, e.member, e.slot, whole(e.ends)
  end

  for i = 3, #ARGV, 6 do
    local n = #out
    out[n + 1], out[n + 2], out[n + 3], out[n + 4], out[n + 5] =
      visit(ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], tonumber(ARGV[i + 4]), tonumber(ARGV[i + 5]))
  end
  return out
end)
