-- seats_waiting: who waits for a seat; put into seats_state.lua in the place of the line "include seats_waiting.lua".
-- model/seats/waiting.rs says what queues there are; their keys are listed in seats_state.lua.

local function queue_key(p_id, tags)
  return PREFIX .. 'gwait:' .. p_id .. FIELD .. tags
end

-- The queues of a pool: tags, wishes, turn and name of the first.
local function queues_of(p)
  if not p.queues then
    local list, tags = {}, call('ZRANGE', PREFIX .. 'gqueues:' .. p.id, 0, -1)
    for i = 1, #tags do list[i] = { tags = tags[i], wishes = split(tags[i], ITEM) } end
    p.queues = list
  end
  return p.queues
end

local function head_of(p, q)
  if q.turn == nil then
    local first = call('ZRANGE', queue_key(p.id, q.tags), 0, 0, 'WITHSCORES')
    q.turn, q.name = tonumber(first[2] or broken('a queue of ' .. p.id .. ' is missing')), first[1]
  end
  return q.turn
end

-- Of the queues that a free group is right for the one whose first has waited longest.
local function next_queue(p)
  if p.waiting == 0 then return nil end
  local best
  local queues = queues_of(p)
  if #queues == 0 then broken('the queues of ' .. p.id .. ' are missing') end
  for i = 1, #queues do
    local q = queues[i]
    if choose_group(p, q.wishes) then
      local at = head_of(p, q)
      if not (best and best.turn <= at) then best = q end
    end
  end
  return best
end

-- Stands in his queue from now on, with the turn that he has.
local function wait(name, s)
  call('ZADD', queue_key(s.pool, s.tags), s.turn, name)
  call('ZADD', PREFIX .. 'gqueues:' .. s.pool, 0, s.tags)
  pasts[name] = s.ends
  put_seat(name, s)
  local p = pool(s.pool)
  if p then p.waiting, p.dirty, p.queues = p.waiting + 1, true, nil end
end

-- He leaves the queue; what becomes of his record is the caller's.
local function stop_waiting(name, s)
  local key = queue_key(s.pool, s.tags)
  if call('ZREM', key, name) == 0 then broken(name .. ' does not wait') end
  local is_empty = call('EXISTS', key) == 0
  if is_empty then call('ZREM', PREFIX .. 'gqueues:' .. s.pool, s.tags) end
  pasts[name] = false
  local p = pool(s.pool)
  if p then
    p.waiting, p.dirty = p.waiting - 1, true
    if is_empty then p.queues = nil end
    for i = 1, p.queues and #p.queues or 0 do
      if p.queues[i].tags == s.tags then p.queues[i].turn = nil end
    end
  end
end

local function position_of(name, s)
  return 1 + (call('ZRANK', queue_key(s.pool, s.tags), name) or broken(name .. ' does not wait'))
end

-- The first of a queue gets a seat, or goes if his time is over. False: this call did enough.
local function serve_first(p, q)
  local name = q.name
  local s = seat_now(name)
  if not s or s.kind ~= 'W' then broken(name .. ' waits for nothing') end
  if s.ends <= now then
    if lapses_left == 0 then return false end
    lapses_left = lapses_left - 1
    stop_waiting(name, s)
    drop_seat(name)
    add_ended(lapsed, s, name)
    return true
  end
  if wake_left == 0 then return false end
  wake_left = wake_left - 1
  stop_waiting(name, s)
  local group_id = choose_group(p, q.wishes)
  local until_ms = hold(name, s.id, group_id, s.anonymous, s.via, s.hold)
  local campaign, subject = match(name, '^([^\31]*)\31(.*)$')
  local n = #woken
  woken[n + 1], woken[n + 2], woken[n + 3], woken[n + 4], woken[n + 5] = s.id, campaign, subject, group_id, whole(until_ms)
  return true
end

-- Gives free seats of the touched pools to those who wait.
local function wake()
  for i = 1, #touched do
    local p = touched[i]
    local q = next_queue(p)
    while q do
      if not serve_first(p, q) then return end
      q = next_queue(p)
    end
  end
end
