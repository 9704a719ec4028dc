#!lua
-- wake_seats: gives free seats of a pool to those who wait for one.
--
-- KEYS[1]  log      stream  {corp}:v1:log   the other keys: see seats_state.lua
-- ARGV[1]  now_ms   integer "" in production: the script asks TIME
-- ARGV[2]  payload  string  into the log, not read
-- ARGV[3]  pool     string
-- ARGV[4]  limit    integer at most 64 are served
--
-- Returns  seq, now_ms, then the result, joined by 0x1f: more, 0, n woken, five for each woken, n lapsed, four for each
--          lapsed
-- Errors   NOT_READY   the corp is closed, or was found broken and is closed now
-- Invariant  of those who can be served the one who has waited longest is first.
-- Cost     O(limit * (queues + tags * log groups))

-- include seats_state.lua

return operation('wake_seats.1', {}, function()
  local p = pool(ARGV[3])
  if p then
    wake_left = math.min(wake_left, tonumber(ARGV[4]))
    touch(p)
    wake()
  end
  return {}
end)
