#!lua
-- forget_seats: ends places in the waiting room and memories whose time is over.
--
-- KEYS[1]  log      stream  {corp}:v1:log   the other keys: see seats_state.lua
-- ARGV[1]  now_ms   integer "" in production: the script asks TIME
-- ARGV[2]  payload  string  into the log, not read
-- ARGV[3]  limit    integer of places and memories
--
-- Returns  seq, now_ms, then the result, joined by 0x1f: more, 0, n woken, five for each woken, n lapsed, four for each
--          lapsed, then how many were taken
-- Errors   NOT_READY   the corp is closed, or was found broken and is closed now
-- Invariant  nothing ends before its time; a held seat does not end here.
-- Cost     O(limit * log ends)

-- include seats_state.lua

return operation('forget_seats.1', {}, function()
  local due = call('ZRANGE', PREFIX .. 'gpast', '-inf', now, 'BYSCORE', 'LIMIT', 0, ARGV[3])
  for i = 1, #due do
    local name = due[i]
    local s = seat_now(name)
    if not s or s.kind ~= 'W' and s.kind ~= 'E' then broken(name .. ' ends and is not there') end
    if s.kind == 'W' then
      stop_waiting(name, s)
      add_ended(lapsed, s, name)
    else
      pasts[name] = false
    end
    drop_seat(name)
  end
  return { whole(#due) }
end)
