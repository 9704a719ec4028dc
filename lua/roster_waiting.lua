-- roster_waiting: who waits; put into roster_state.lua in the place of the line "include roster_waiting.lua".
-- model/waiting.rs says what queues there are.
--
--   waiting:<p>             zset  subject -> turn; behind the subject of another pool 0x1f and that pool
--   waiting:<p>\31<needs>   zset  the same, of those who need skills, joined by 0x1a, or avoid members: 0x1b and they, joined
--                                 by 0x1a; or came through a channel that limits them: 0x19 and it
--   queues:<p>              zset  needs of which there is a queue -> 0
--   drip:<p>                text  how slowly those who waited are handed out, until when nobody is; only where a pool
--                                 wants that

local function queues_of(p)
  if not p.queues then
    local key = PREFIX .. 'waiting:' .. p.id
    local list, more = { { needs = '', key = key } }, call('ZRANGE', PREFIX .. 'queues:' .. p.id, 0, -1)
    for i = 1, #more do
      list[i + 1] = { needs = more[i], key = key .. FIELD .. more[i], gate = string.match(more[i], '\25(.*)$') }
    end
    p.queues = list
  end
  return p.queues
end

-- The turn of the oldest; false where nobody waits.
local function head_of(q)
  if q.turn == nil then
    local first = call('ZRANGE', q.key, 0, 0, 'WITHSCORES')
    q.turn, q.name = first[2] and tonumber(first[2]) or false, first[1]
  end
  return q.turn
end

local function drip_of(p)
  if not p.drip then
    local every, next_at = string.match(call('GET', PREFIX .. 'drip:' .. p.id) or broken('no drip of ' .. p.id), '^(.*)\31(.*)$')
    p.drip = { every = tonumber(every), next_at = tonumber(next_at) }
  end
  return p.drip
end

local function drips(p)
  return p.drips and drip_of(p).next_at > now
end

local function save_drip(p)
  call('SET', PREFIX .. 'drip:' .. p.id, whole(p.drip.every) .. FIELD .. whole(p.drip.next_at))
end

-- One who waited was handed to a member of this pool.
local function drip(p)
  if not p or not p.drips then return end
  local free = 0
  if p.v[STRATEGY] == LEAST then
    free = call('ZCARD', PREFIX .. 'least:' .. p.id)
  else
    for i = 6, #p.v, 2 do free = free + call('ZCARD', class_key(i, p.id)) end
  end
  local d = drip_of(p)
  d.next_at = math.max(d.next_at, now) + math.max(math.floor(d.every / math.max(free, 1)), 1)
  save_drip(p)
end

-- Whether anybody of the pool may serve this queue.
local function may_serve(p, q)
  return not (p.barren and p.barren[q.needs]) and not (q.gate and gate_is_full(q.gate))
end

-- Somebody waits whom somebody free may serve: who comes now may not overtake him.
local function must_wait(p)
  if p.v[WAITING] == 0 or p.v[SUM] == 0 then return false end
  local queues = queues_of(p)
  for i = 1, #queues do
    if may_serve(p, queues[i]) and head_of(queues[i]) then return true end
  end
  return false
end

local function can_wake(p)
  return must_wait(p) and not drips(p)
end

-- The queues of the first so many steps of its plan, each a pool and its needs; without a plan the one of its pool.
local function queues_for(e, steps)
  if not e.plan then return { { pool = e.pool, needs = '' } } end
  local list = {}
  for i = 1, math.min(steps, #e.plan.steps) do list[i] = e.plan.steps[i] end
  return list
end

local function waiting_name(e, subject, pool_id)
  return e.pool == pool_id and subject or subject .. FIELD .. e.pool
end

local function queue_key(pool_id, needs)
  local key = PREFIX .. 'waiting:' .. pool_id
  return needs == '' and key or key .. FIELD .. needs
end

local function stand_in(e, subject, q, at)
  if q.needs ~= '' then call('ZADD', PREFIX .. 'queues:' .. q.pool, 0, q.needs) end
  if q.gate then call('ZADD', PREFIX .. 'gated:' .. q.gate, 0, q.pool .. FIELD .. q.needs) end
  call('ZADD', queue_key(q.pool, q.needs), at, waiting_name(e, subject, q.pool))
  local p = pool(q.pool)
  if p then
    p.v[WAITING] = p.v[WAITING] + 1
    p.dirty, p.queues = true, nil
  end
end

-- Stands in the queues of the steps that are open to it.
local function wait(e, subject)
  turn = turn + 1
  if e.plan then e.opened = steps_due(e) end
  local list = queues_for(e, e.opened)
  for i = 1, #list do stand_in(e, subject, list[i], turn) end
  set_patience(e, subject, true)
end

-- The turn that it took when it came.
local function turn_of(e, subject)
  local first = queues_for(e, 1)[1]
  local at = call('ZSCORE', queue_key(first.pool, first.needs), waiting_name(e, subject, first.pool))
  return tonumber(at or broken(subject .. ' does not wait'))
end

-- More steps are open: it stands in their queues, too, and has waited there as long as in the others.
local function open_steps(e, subject, opened)
  local list, at = queues_for(e, opened), turn_of(e, subject)
  for i = e.opened + 1, #list do
    stand_in(e, subject, list[i], at)
    local p = pool(list[i].pool)
    if p then touch(p) end
  end
  e.opened = opened
end

local function stop_waiting(e, subject)
  local list = queues_for(e, e.opened)
  for i = 1, #list do
    local q = list[i]
    local key = queue_key(q.pool, q.needs)
    if call('ZREM', key, waiting_name(e, subject, q.pool)) == 0 then broken(subject .. ' does not wait') end
    if q.needs ~= '' and call('EXISTS', key) == 0 then
      call('ZREM', PREFIX .. 'queues:' .. q.pool, q.needs)
      if q.gate then call('ZREM', PREFIX .. 'gated:' .. q.gate, q.pool .. FIELD .. q.needs) end
    end
    local p = pool(q.pool)
    if p then
      p.v[WAITING] = p.v[WAITING] - 1
      p.dirty = true
      for j = 1, p.queues and #p.queues or 0 do
        if p.queues[j].needs == q.needs then p.queues[j].turn = nil end
      end
    end
  end
  set_patience(e, subject, false)
end
