#!lua
-- set_channel: how many who came through a channel are given a member in an hour and on a day.
--
-- KEYS[1]  log      stream  {corp}:v1:log   the other keys: see roster_state.lua and roster_gates.lua
-- ARGV[1]  now_ms   integer "" in production: the script asks TIME
-- ARGV[2]  payload  string  into the log, not read
-- ARGV[3]  channel  string
-- ARGV[4]  hour     integer most in one hour; "" = no limit
-- ARGV[5]  day      integer most on one day; "" = no limit
-- ARGV[6]  day_end  integer milliseconds, when the day ends; "" = at midnight UTC
-- ARGV[7]  in_hour  integer what it gave in this hour, where nothing was counted so far
-- ARGV[8]  on_day   integer the same of this day
--
-- Returns  seq, now_ms, then the result, joined by 0x1f: more, n woken, five for each woken, then "CHANGED" | "SAME"
-- Errors   NOT_READY   the corp is closed, or was found broken and is closed now
-- Invariant  a limit below what was given takes nothing away; whoever comes next waits.
-- Cost     O(queues of those who came through it + woken * log members)

-- include roster_state.lua

return operation('set_channel.1', {}, function()
  local channel, per_hour, per_day, day_end = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
  local g = gate(channel)
  if not per_hour and not per_day then
    if not g then return { 'SAME' } end
    g.per_hour, g.per_day = huge, huge
    save_gate(g)
    call('DEL', PREFIX .. 'gate:' .. channel)
    gates[channel] = false
    wake()
    return { 'CHANGED' }
  end
  local before = g and gate_value(g)
  if not g then
    g = { id = channel, hour_n = tonumber(ARGV[7]), day_n = tonumber(ARGV[8]), alarm = 0 }
    g.day_end, g.hour_end = window_ends(day_end or DAY_MS)
    gates[channel] = g
  end
  roll_gate(g)
  if day_end then g.day_end, g.hour_end = window_ends(day_end) end
  g.told, g.per_hour, g.per_day = day_end and 1 or 0, per_hour or huge, per_day or huge
  save_gate(g)
  if gate_value(g) == before then return { 'SAME' } end
  wake()
  return { 'CHANGED' }
end)
