-- roster_route: serving an allocation by its plan; put into roster_state.lua in the place of the line
-- "include roster_route.lua". model/route.rs says how. Behind a pool in arguments stands 0x1c and the plan:
--
--   after how long a person must decide or "", 0x1d, members who are preferred joined by 0x1a; if members are avoided, or a
--   channel limits it, 0x1d and they, joined by 0x1a; if a channel does 0x1d and that channel; then for each step 0x1c,
--   pool, 0x1d, after how long, 0x1d, skills that are needed joined by 0x1a
--
-- An open record with a plan has a field for it, before that of an offer: 'p', when it was asked, 0x1d, in the queues of how
-- many steps it stands, 0x1d, pool of its member or "" for the one that was asked, and where a channel counts it 0x1d and
-- since when; 0x1c, plan.
--
--   skills:<m>   text  what a member can do
--   skill:<s>    zset  member who can do it -> 0
--   patience     zset  subject, 0x1f, pool -> when the plan of one who waits goes on

local function parse_plan(text)
  local plan = { text = text, prefer = {}, avoid = {}, steps = {} }
  local head, rest = string.match(text, '^([^\28]*)\28(.*)$')
  local person, prefer, avoid, through = string.match(head, '^([^\29]*)\29([^\29]*)\29?([^\29]*)\29?(.*)$')
  plan.person, plan.gate = person ~= '' and tonumber(person) or nil, through
  for id in string.gmatch(prefer, '[^\26]+') do plan.prefer[#plan.prefer + 1] = id end
  for id in string.gmatch(avoid, '[^\26]+') do plan.avoid[#plan.avoid + 1] = id end
  for step in string.gmatch(rest, '[^\28]+') do
    local s = { skills = {} }
    local after
    s.pool, after, s.needs = string.match(step, '^([^\29]*)\29([^\29]*)\29(.*)$')
    s.after = tonumber(after)
    for skill in string.gmatch(s.needs, '[^\26]+') do s.skills[#s.skills + 1] = skill end
    -- As the name of a queue it says whom they avoid, and the channel that limits them, too.
    if avoid ~= '' then s.needs = s.needs .. '\27' .. avoid end
    if through ~= '' then s.needs, s.gate = s.needs .. '\25' .. through, through end
    plan.steps[#plan.steps + 1] = s
  end
  return plan
end

-- The same plan, but for whom it avoids.
local function avoiding(plan, avoid)
  local head, rest = string.match(plan.text, '^([^\28]*)\28(.*)$')
  head = string.match(head, '^[^\29]*\29[^\29]*')
  if avoid ~= '' or plan.gate ~= '' then head = head .. '\29' .. avoid end
  if plan.gate ~= '' then head = head .. '\29' .. plan.gate end
  return parse_plan(head .. '\28' .. rest)
end

-- The field of a pool with what stands behind it.
local function split_plan(field)
  local pool_id, plan = string.match(field, '^([^\28]*)\28(.*)$')
  if pool_id then return pool_id, parse_plan(plan) end
  return field, nil
end

local function begin_route(e, plan)
  if plan then e.plan, e.since, e.opened, e.source = plan, now, 0, '' end
  return e
end

local function load_route(e, text)
  local since, opened, source, given, plan =
    string.match(text, '^p([^\29]*)\29([^\29]*)\29([^\28\29]*)\29?([^\28]*)\28(.*)$')
  e.plan, e.since, e.opened, e.source, e.given = parse_plan(plan), tonumber(since), tonumber(opened), source, tonumber(given)
end

local function route_value(e)
  local given = e.given and '\29' .. whole(e.given) or ''
  return 'p' .. whole(e.since) .. '\29' .. whole(e.opened) .. '\29' .. e.source .. given .. '\28' .. e.plan.text
end

-- So many steps are open.
local function steps_due(e)
  local due = math.max(e.opened, 1)
  while e.plan.steps[due + 1] and e.since + e.plan.steps[due + 1].after <= now do due = due + 1 end
  return due
end

local function skill_keys(skills)
  local keys = {}
  for i = 1, #skills do keys[i] = PREFIX .. 'skill:' .. skills[i] end
  return keys
end

local function is_able(id, keys)
  for i = 1, #keys do
    if not call('ZSCORE', keys[i], id) then return false end
  end
  return true
end

-- Of least load only the first who can do it: nobody pays there.
local function first_able(p, keys)
  -- Where nobody at all has one of the skills, thousands need not be asked one by one.
  if call('EXISTS', unpack(keys)) < #keys then return nil end
  local from = 0
  while true do
    local names = call('ZRANGE', PREFIX .. 'least:' .. p.id, from, from + 63)
    for i = 1, #names do
      local id = sub(names[i], 9)
      if is_able(id, keys) then return id end
    end
    if #names < 64 then return nil end
    from = from + 64
  end
end

-- Those of a fair pool who can be picked and can do it, by class and score, and the sum of their weights.
local function all_able(p, keys)
  local v, able, sum = p.v, {}, 0
  for i = 6, #v, 2 do
    if v[i + 1] < huge then
      local args = { 'ZINTER', #keys + 1, class_key(i, p.id) }
      for j = 1, #keys do args[#args + 1] = keys[j] end
      args[#args + 1], args[#args + 2] = 'WEIGHTS', 1
      for _ = 1, #keys do args[#args + 1] = 0 end
      args[#args + 1] = 'WITHSCORES'
      local flat = call(unpack(args))
      for j = 1, #flat, 2 do
        able[#able + 1] = { id = flat[j], class = i, score = tonumber(flat[j + 1]) }
        sum = sum + v[i]
      end
    end
  end
  return able, sum
end

local function next_able(v, able, part)
  local base, count, sum = v[BASE], v[COUNT], v[SUM]
  local best, soonest, any, most = nil, huge, nil, -huge
  for i = 1, #able do
    local one = able[i]
    local weight = v[one.class]
    local credit = weight * base + weight * count / sum - one.score + weight / part
    if credit > most then any, most = one, credit end
    if credit > 1e-9 then
      local deadline = (one.score + 1) / weight - base
      if deadline < soonest then best, soonest = one, deadline end
    end
  end
  return best or any
end

-- These earn, and this one of them pays.
local function charge_among(p, able, part, id)
  local v, classes = p.v, {}
  for i = 1, #able do
    local one = able[i]
    local score = one.score - v[one.class] / part
    if one.id == id then score = score + 1 end
    local args = classes[one.class]
    if not args or #args > 2000 then
      if args then call(unpack(args)) end
      args = { 'ZADD', class_key(one.class, p.id) }
      classes[one.class] = args
    end
    args[#args + 1], args[#args + 2] = score, one.id
  end
  for class, args in pairs(classes) do
    call(unpack(args))
    v[class + 1] = tonumber(call('ZRANGE', args[2], 0, 0, 'WITHSCORES')[2])
  end
  p.dirty = true
end

-- His lease is over and this call's sweep did not come to him. Answers false when this call may end no more leases.
local function end_stale(m)
  if ends_left == 0 then return false end
  ends_left = ends_left - 1
  set_lease(m, 0)
  return true
end

local function pick_named(p, id, keys)
  local m = member(id)
  if not m then return nil end
  local place
  local places = parse(m)
  for i = 1, #places do
    if places[i].pool == p.id and places[i].within and not places[i].hidden then place = places[i] end
  end
  if not place then return nil end
  if lease <= now and m.lease <= now then
    end_stale(m)
    return nil
  end
  if not is_able(id, keys) then return nil end
  if #keys == 0 then
    charge_unasked(p.id, id)
  elseif place.strategy == FAIR then
    local able, part = all_able(p, keys)
    charge_among(p, able, part, id)
  end
  return m
end

local function pick_able(p, keys)
  while true do
    local id, able, part
    if p.v[STRATEGY] == LEAST then
      id = first_able(p, keys)
    else
      able, part = all_able(p, keys)
      local one = next_able(p.v, able, part)
      id = one and one.id
    end
    if not id then return nil end
    local m = known(id)
    if lease > now or m.lease > now then
      if able then charge_among(p, able, part, id) end
      return m
    end
    if not end_stale(m) then return nil end
  end
end

-- Chooses a member for the allocation, by its plan if it has one, and charges him. `may` says of a pool whether it may serve
-- now.
local function serve(e, left_out, may)
  if not e.plan then
    local p = pool(e.pool)
    if p and may(p) then return pick(p) end
    return nil
  end
  if e.plan.gate ~= '' and not e.given and gate_is_full(e.plan.gate) then return nil end
  local steps, due, out = e.plan.steps, steps_due(e), {}
  if #e.plan.avoid > 0 then
    local all = {}
    for i = 1, #left_out do all[i] = left_out[i] end
    for i = 1, #e.plan.avoid do all[#all + 1] = e.plan.avoid[i] end
    left_out = all
  end
  local function try(s, named)
    local p = pool(s.pool)
    if not p or p.v[SUM] == 0 or not may(p) then return nil end
    local hidden, m = hide(p, left_out), nil
    if named then
      m = pick_named(p, named, skill_keys(s.skills))
    elseif #s.skills == 0 then
      m = pick(p)
    else
      m = pick_able(p, skill_keys(s.skills))
    end
    show(p, hidden)
    if m then e.source = s.pool ~= e.pool and s.pool or '' end
    return m
  end
  for i = 1, #left_out do out[left_out[i]] = true end
  for i = 1, #e.plan.prefer do
    local id = e.plan.prefer[i]
    for j = 1, out[id] and 0 or due do
      local m = try(steps[j], id)
      if m then return m end
    end
  end
  for j = 1, due do
    local m = try(steps[j])
    if m then return m end
  end
end

-- Instead of those who are left out.
local function serve_without(e, left_out)
  if e.plan then return serve(e, left_out, function() return true end) end
  return pick_without(e.pool, left_out)
end

-- When the plan of one who waits goes on: a step opens, or a person must decide, which never happens to a visit.
local function set_patience(e, subject, waits)
  if not e.plan then return end
  local step, person = e.plan.steps[math.max(e.opened, 1) + 1], not e.hold and e.plan.person
  local after = math.min(step and step.after or huge, person or huge)
  if after == huge then return end
  local name = subject .. FIELD .. e.pool
  if waits then
    call('ZADD', PREFIX .. 'patience', e.since + after, name)
  elseif call('ZREM', PREFIX .. 'patience', name) == 0 then
    broken('the plan of ' .. subject .. ' does not go on')
  end
end
