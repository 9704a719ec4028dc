#!lua
-- set_member: a member's limits over all pools, and whether he is blocked.
--
-- KEYS[1]  log      stream  {corp}:v1:log   the other keys: see roster_state.lua
-- ARGV[1]  now_ms   integer "" in production: the script asks TIME
-- ARGV[2]  payload  string  into the log, not read
-- ARGV[3]  member   string
-- ARGV[4]  cap      integer open allocations at a time; "" = no limit
-- ARGV[5]  blocked  string  reason; "" = not blocked
-- ARGV[6]  hour     integer most in one hour; "" = no limit; this and what follows may be missing
-- ARGV[7]  day      integer most on one day; "" = no limit
-- ARGV[8]  day_end  integer milliseconds, when the day ends; "" = at midnight UTC
-- ARGV[9]  in_hour  integer what he was given in this hour, where nothing was counted so far; this and the next may be missing
-- ARGV[10] on_day   integer the same of this day
--
-- Returns  seq, now_ms, then the result, joined by 0x1f: more, n woken, five for each woken, then "CHANGED" | "SAME"
-- Errors   NOT_READY   the corp is closed, or was found broken and is closed now
-- Invariant  a cap below the load takes nothing away; it only keeps him from being picked.
-- Cost     O(pools of the member * log members + woken * log members)

-- include roster_state.lua

return operation(ARGV[9] and 'set_member.3' or ARGV[6] and 'set_member.2' or 'set_member.1', {}, function()
  local m, cap, blocked = create(ARGV[3]), tonumber(ARGV[4]) or huge, ARGV[5]
  parse(m)
  local before = member_value(m)
  if ARGV[6] or m.windows then
    local counted = m.windows
    local w = windows_of(m)
    roll(m)
    if ARGV[9] and not counted then w.hour_n, w.day_n = tonumber(ARGV[9]), tonumber(ARGV[10]) end
    local day_end = tonumber(ARGV[8] or '')
    w.told = day_end and 1 or 0
    if day_end then w.day_end, w.hour_end = window_ends(day_end) end
    w.per_hour, w.per_day = tonumber(ARGV[6] or '') or huge, tonumber(ARGV[7] or '') or huge
  end
  set(m, m.load, m.tie, cap, m.lease, blocked)
  tidy(m)
  if blocked ~= '' then offers_are_over(m.id) end
  if member_value(m) == before then return { 'SAME' } end
  wake()
  return { 'CHANGED' }
end)
