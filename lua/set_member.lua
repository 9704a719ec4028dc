#!lua
-- set_member: a member's cap over all pools, and whether he is blocked.
--
-- KEYS[1]  log      stream  {corp}:v1:log   the other keys: see roster_state.lua
-- ARGV[1]  now_ms   integer "" in production: the script asks TIME
-- ARGV[2]  payload  string  into the log, not read
-- ARGV[3]  member   string
-- ARGV[4]  cap      integer open allocations at a time; "" = no limit
-- ARGV[5]  blocked  string  reason; "" = not blocked
--
-- Returns  seq, now_ms, then the result, joined by 0x1f: more, n woken, five for each woken, then "CHANGED" | "SAME"
-- Errors   NOT_READY   the corp is closed, or was found broken and is closed now
-- Invariant  a cap below the load takes nothing away; it only keeps him from being picked.
-- Cost     O(pools of the member * log members + woken * log members)

-- include roster_state.lua

return operation('set_member.1', {}, function()
  local m, cap, blocked = create(ARGV[3]), tonumber(ARGV[4]) or huge, ARGV[5]
  parse(m)
  if m.cap == cap and m.blocked == blocked then return { 'SAME' } end
  set(m, m.load, m.tie, cap, m.lease, blocked)
  wake()
  return { 'CHANGED' }
end)
