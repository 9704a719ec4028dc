#!lua
-- close: ends open and waiting allocations of subjects.
--
-- KEYS[1]   log      stream  {corp}:v1:log   the other keys: see roster_state.lua
-- ARGV[1]   now_ms   integer "" in production: the script asks TIME
-- ARGV[2]   payload  string  into the log, not read
-- ARGV[3..] closings five for each: subject, then what must match (pool, member, allocation, each "" for any), reason
--
-- Returns  seq, now_ms, then the result, joined by 0x1f: more, n woken, five for each woken, then four for each
--          that ended: allocation, pool, subject, member ("" = it waited)
-- Errors   NOT_READY   the corp is closed, or was found broken and is closed now
-- Invariant  load falls by one for each open allocation that ended; what does not match stays.
-- Cost     O(closings + woken * log members)

-- include roster_state.lua

return operation('close.1', {}, function()
  local out = {}
  for i = 3, #ARGV, 5 do
    local subject, pool_id, member_id, allocation = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
    local list = open(subject)
    local at = 1
    while at <= #list do
      local e = list[at]
      if (pool_id == '' or e.pool == pool_id) and (member_id == '' or e.member == member_id)
        and (allocation == '' or e.id == allocation) then
        drop(list, at, subject)
        local n = #out
        out[n + 1], out[n + 2], out[n + 3], out[n + 4] = e.id, e.pool, subject, e.member
      else
        at = at + 1
      end
    end
  end
  wake()
  return out
end)
