#!lua
-- presence: members are there until a time, or off.
--
-- KEYS[1]   log      stream  {corp}:v1:log   the other keys: see roster_state.lua
-- ARGV[1]   now_ms   integer "" in production: the script asks TIME
-- ARGV[2]   payload  string  into the log, not read
-- ARGV[3..] changes  two for each: member, end of his lease in milliseconds (0, or not after now: off)
--
-- Returns  seq, now_ms, then the result, joined by 0x1f: more, n woken, five for each woken
-- Errors   NOT_READY   the corp is closed, or was found broken and is closed now
-- Invariant  whoever goes keeps his credit in every pool; whoever comes finds it, and earned nothing meanwhile.
-- Cost     O(changes * pools of the member * log members + woken * log members)

-- include roster_state.lua

return operation('presence.1', {}, function()
  for i = 3, #ARGV, 2 do
    local lease_end = tonumber(ARGV[i + 1])
    if lease_end <= now then lease_end = 0 end
    if lease_end > 0 or member(ARGV[i]) then set_lease(create(ARGV[i]), lease_end) end
  end
  wake()
  return {}
end)
