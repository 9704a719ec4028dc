#!lua
-- wake: hands waiting subjects of a pool to free members, oldest first.
--
-- KEYS[1]  log      stream  {corp}:v1:log   the other keys: see roster_state.lua
-- ARGV[1]  now_ms   integer "" in production: the script asks TIME
-- ARGV[2]  payload  string  into the log, not read
-- ARGV[3]  pool     string
-- ARGV[4]  limit    integer at most 64 count
--
-- Returns  seq, now_ms, then the result, joined by 0x1f: more, n woken, five for each woken
-- Errors   NOT_READY   the corp is closed, or was found broken and is closed now
-- Invariant  nobody is woken before one who has waited longer in that pool.
-- Cost     O(woken * log members)

-- include roster_state.lua

return operation('wake.1', {}, function()
  local p = pool(ARGV[3])
  if p then
    wake_left = math.min(wake_left, tonumber(ARGV[4]))
    touch(p)
    wake()
  end
  return {}
end)
