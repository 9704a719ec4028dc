-- roster_limits: what a member was given in this hour and on this day; put into roster_state.lua in the place of the line
-- "include roster_limits.lua". model/windows.rs says what is counted and when. Only members with a limit by the hour, by
-- the day or in one pool have windows. Their record says 0 for the cap, and after its numbers come
--   a byte 1; the cap, most in an hour, most on a day, in this hour, its end, on this day, its end, 1 if the end of the day
--   was told, the alarm or 0; and after the id of each pool 0, or 1 and load, cap, most in an hour, most on a day, in this
--   hour, on this day, turn since which is counted.
-- An open record bears that turn as its last field when it counts in its member's limits of the pool.

local HOUR_MS, DAY_MS = 3600000, 86400000

local function limits_full(l)
  return l.load >= l.cap or l.hour_n >= l.per_hour or l.day_n >= l.per_day
end

local function windows_full(w)
  return w.hour_n >= w.per_hour or w.day_n >= w.per_day
end

-- Whether a member who is on can be picked in the pool of this place.
local function belongs_in(place, on)
  return on == 1 and place.weight > 0 and not (place.limits and limits_full(place.limits))
end

-- Blocked and the pools of a member are read only when they are needed.
local function parse(m)
  if m.places then return m.places end
  local tail, places, at = m.tail, {}, 1
  if string.byte(tail) == 1 then
    local w = { }
    m.cap, w.per_hour, w.per_day, w.hour_n, w.hour_end, w.day_n, w.day_end, w.told, w.alarm =
      unpack_struct('<ddddddddd', tail, 2)
    m.windows, at = w, 74
  end
  m.blocked, at = unpack_struct('<s', tail, at)
  while at <= #tail do
    local place, limited = {}, nil
    place.weight, place.strategy, place.credit, place.pool, at = unpack_struct('<ddds', tail, at)
    if m.windows then
      limited, at = unpack_struct('<d', tail, at)
      if limited == 1 then
        local l = {}
        l.load, l.cap, l.per_hour, l.per_day, l.hour_n, l.day_n, l.since, at = unpack_struct('<ddddddd', tail, at)
        place.limits = l
      end
    end
    place.within = belongs_in(place, m.on)
    places[#places + 1] = place
  end
  m.places = places
  return places
end

local function windows_value(m)
  local w = m.windows
  return '\1' .. pack('<ddddddddd', m.cap, w.per_hour, w.per_day, w.hour_n, w.hour_end, w.day_n, w.day_end, w.told, w.alarm)
end

local function limits_value(l)
  if not l then return pack('<d', 0) end
  return pack('<dddddddd', 1, l.load, l.cap, l.per_hour, l.per_day, l.hour_n, l.day_n, l.since)
end

-- The ends of the day and of the hour that it is; some day ends at `day_end`.
local function window_ends(day_end)
  if now >= day_end then day_end = day_end + math.ceil((now - day_end + 1) / DAY_MS) * DAY_MS end
  return day_end, day_end - (math.ceil((day_end - now) / HOUR_MS) - 1) * HOUR_MS
end

local function windows_of(m)
  if not m.windows then
    local w = { per_hour = huge, per_day = huge, hour_n = 0, day_n = 0, told = 0, alarm = 0 }
    w.day_end, w.hour_end = window_ends(DAY_MS)
    m.windows = w
  end
  return m.windows
end

-- What is counted begins anew when a window is over.
local function roll(m)
  local w = m.windows
  if now < w.hour_end then return end
  local new_day = now >= w.day_end
  w.hour_n = 0
  if new_day then w.day_n = 0 end
  w.day_end, w.hour_end = window_ends(w.day_end)
  for i = 1, #m.places do
    local l = m.places[i].limits
    if l then
      l.hour_n = 0
      if new_day then l.day_n = 0 end
    end
  end
end

local function limits_in(m, pool_id)
  for i = 1, #m.places do
    if m.places[i].pool == pool_id then return m.places[i].limits end
  end
end

-- He was given one of this pool; answers what the allocation bears.
local function count(m, pool_id)
  roll(m)
  local w, l = m.windows, limits_in(m, pool_id)
  w.hour_n, w.day_n = w.hour_n + 1, w.day_n + 1
  if not l then return nil end
  l.load, l.hour_n, l.day_n = l.load + 1, l.hour_n + 1, l.day_n + 1
  return l.since
end

-- One of this pool ended.
local function uncount(m, e)
  roll(m)
  local w, of_hour, of_day = m.windows, 0, 0
  -- One that was held and not confirmed, or offered and not accepted, came to nothing.
  local given = e.ends and e.ends - e.hold or e.offer and e.offer.since
  if given then
    if given + HOUR_MS >= w.hour_end then of_hour = 1 end
    if given + DAY_MS >= w.day_end then of_day = 1 end
  end
  w.hour_n, w.day_n = math.max(w.hour_n - of_hour, 0), math.max(w.day_n - of_day, 0)
  local l = limits_in(m, source_of(e))
  if l and e.mark == l.since then
    l.load = l.load - 1
    l.hour_n, l.day_n = math.max(l.hour_n - of_hour, 0), math.max(l.day_n - of_day, 0)
  end
end

-- When he must be looked at because a window that is full ends; 0: never.
local function next_alarm(m)
  local w = m.windows
  if m.lease == 0 then return 0 end
  local hour, day = w.hour_n >= w.per_hour, w.day_n >= w.per_day
  for i = 1, #m.places do
    local l = m.places[i].limits
    if l then
      hour = hour or l.hour_n >= l.per_hour
      day = day or l.day_n >= l.per_day
    end
  end
  return hour and w.hour_end or day and w.day_end or 0
end

local function set_alarm(m, alarm)
  local w = m.windows
  if w.alarm == alarm then return end
  w.alarm, alarms_changed = alarm, true
  if alarm > 0 then
    call('ZADD', PREFIX .. 'alarms', alarm, m.id)
  else
    call('ZREM', PREFIX .. 'alarms', m.id)
  end
end

-- Forgets windows that limit nothing.
local function tidy(m)
  local w = m.windows
  if not w or w.told == 1 or w.per_hour < huge or w.per_day < huge then return end
  for i = 1, #m.places do
    if m.places[i].limits then return end
  end
  set_alarm(m, 0)
  m.windows = nil
end
