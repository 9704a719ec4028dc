#!lua
-- note: writes a payload into the log, for what asked for nothing.
--
-- KEYS[1]  log      stream  {corp}:v1:log   the other keys: see roster_state.lua
-- ARGV[1]  now_ms   integer "" in production: the script asks TIME
-- ARGV[2]  payload  string  into the log, not read
--
-- Returns  seq, now_ms, then the result, joined by 0x1f: more, n woken
-- Errors   NOT_READY   the corp is closed, or was found broken and is closed now
-- Invariant  nothing changes but the sequence number, the time and leases that are over.
-- Cost     O(1)

-- include roster_state.lua

return operation('note.1', {}, function() return {} end)
