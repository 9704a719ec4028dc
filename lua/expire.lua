#!lua
-- expire: ends holds whose time is over, and forgets what was remembered long enough.
--
-- KEYS[1]  log      stream  {corp}:v1:log   the other keys: see roster_state.lua and roster_visits.lua
-- ARGV[1]  now_ms   integer "" in production: the script asks TIME
-- ARGV[2]  payload  string  into the log, not read
-- ARGV[3]  limit    integer of holds and memories
--
-- Returns  seq, now_ms, then the result, joined by 0x1f: more, n woken, five for each woken, then how many were taken,
--          then four for each hold that ended: allocation, pool, subject, member or ""
-- Errors   NOT_READY   the corp is closed, or was found broken and is closed now
-- Invariant  nothing ends before its time; what a hold had is free afterwards, once.
-- Cost     O(limit * log holds)

-- include roster_state.lua

return operation('expire.1', {}, function()
  local due = call('ZRANGE', PREFIX .. 'holds', '-inf', now, 'BYSCORE', 'LIMIT', 0, ARGV[3])
  local out = { whole(#due) }
  for i = 1, #due do
    local kind, subject, pool_id = string.match(due[i], '^(.)([^\31]*)\31(.*)$')
    if kind == 'p' then
      forget(subject, pool_id)
    else
      local list = open(subject)
      local e, at = find(list, pool_id)
      if not e then broken('the hold of ' .. subject .. ' is missing') end
      local through = e.given and e.plan.gate
      drop(list, at, subject)
      if e.member ~= '' then remember_past(subject, pool_id, 'L', e.id, e.member, through) end
      local n = #out
      out[n + 1], out[n + 2], out[n + 3], out[n + 4] = e.id, pool_id, subject, e.member
    end
  end
  wake()
  return out
end)
