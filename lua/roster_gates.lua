-- roster_gates: how many a channel may give in an hour and on a day; put into roster_state.lua in the place of the line
-- "include roster_gates.lua". model/gates.rs says what is counted and when. A plan names the channel it comes through; while
-- that channel gave what it may, whoever came through it is passed over, in all his queues.
--
--   gate:<c>    packed  most in an hour, most on a day, in this hour, its end, on this day, its end, 1 if the end of the day
--                       was told, the alarm or 0; missing: nothing is limited, and nothing counted
--   gates       zset    channel that gave what it may -> when it may again
--   gated:<c>   zset    pool, 0x1f and needs of a queue of those who came through it -> 0

local gates = {}

local function gate(channel)
  local g = gates[channel]
  if g == nil then
    local value = call('GET', PREFIX .. 'gate:' .. channel)
    g = false
    if value then
      g = { id = channel }
      g.per_hour, g.per_day, g.hour_n, g.hour_end, g.day_n, g.day_end, g.told, g.alarm = unpack_struct('<dddddddd', value)
    end
    gates[channel] = g
  end
  return g
end

local function gate_value(g)
  return pack('<dddddddd', g.per_hour, g.per_day, g.hour_n, g.hour_end, g.day_n, g.day_end, g.told, g.alarm)
end

-- Changes nothing: what was counted in a window that is over counts no more.
local function gate_is_full(channel)
  local g = gate(channel)
  if not g then return false end
  return now < g.hour_end and g.hour_n >= g.per_hour or now < g.day_end and g.day_n >= g.per_day
end

local function roll_gate(g)
  if now < g.hour_end then return end
  g.hour_n = 0
  if now >= g.day_end then g.day_n = 0 end
  g.day_end, g.hour_end = window_ends(g.day_end)
end

-- Those who came through the channel may be served again.
local function open_gate(channel)
  local names = call('ZRANGE', PREFIX .. 'gated:' .. channel, 0, -1)
  for i = 1, #names do
    local p = pool(string.match(names[i], '^([^\31]*)'))
    if p then touch(p) end
  end
end

-- After every change of what is counted or limited.
local function save_gate(g)
  local alarm = g.hour_n >= g.per_hour and g.hour_end or g.day_n >= g.per_day and g.day_end or 0
  if alarm ~= g.alarm then
    alarms_changed = true
    if alarm > 0 then
      call('ZADD', PREFIX .. 'gates', alarm, g.id)
    else
      call('ZREM', PREFIX .. 'gates', g.id)
      open_gate(g.id)
    end
    g.alarm = alarm
  end
  call('SET', PREFIX .. 'gate:' .. g.id, gate_value(g))
end

-- Somebody who came through this channel has a member, whatever its limits say.
local function count_through(channel)
  local g = gate(channel)
  if not g then return end
  roll_gate(g)
  g.hour_n, g.day_n = g.hour_n + 1, g.day_n + 1
  save_gate(g)
end

-- The allocation has a member; it counts once, however often it moves.
local function pass_gate(e)
  if not e.plan or e.plan.gate == '' or e.given then return end
  e.given = now
  count_through(e.plan.gate)
end

-- It came to nothing: it is as if it had not been given.
local function unpass_gate(e)
  if not e.given then return end
  local g, given = gate(e.plan.gate), e.given
  e.given = nil
  if not g then return end
  roll_gate(g)
  if given + HOUR_MS >= g.hour_end then g.hour_n = math.max(g.hour_n - 1, 0) end
  if given + DAY_MS >= g.day_end then g.day_n = math.max(g.day_n - 1, 0) end
  save_gate(g)
end

local function sweep_gates()
  local over = call('ZRANGE', PREFIX .. 'gates', '-inf', now, 'BYSCORE', 'LIMIT', 0, ends_left)
  for i = 1, #over do
    local g = gate(over[i]) or broken('gate ' .. over[i] .. ' is missing')
    roll_gate(g)
    save_gate(g)
  end
  ends_left = ends_left - #over
end
