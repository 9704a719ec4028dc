-- roster_pool: what set_pool and remove_pool share; put in the place of the line "include roster_pool.lua", after
-- roster_state.lua. A stored configuration is version, strategy, then member and weight, joined; of a removed pool only
-- the version is left, so that an old configuration does not bring it back.

local function stored_config(id)
  local value = call('GET', PREFIX .. 'config:' .. id)
  if not value then return nil, nil end
  local version, content = string.match(value, '^([^\31]*)\31?(.*)$')
  return tonumber(version), content ~= '' and content or nil
end

-- Members of a configuration without its version: their ids in order, their weights, and limits of those who have any:
-- where the strategy ends with a plus, three follow each weight.
local function members_of(content)
  local ids, weights, limits = {}, {}, {}
  local strategy, rest = string.match(content, '^([^\31]*)\31?(.*)$')
  if sub(strategy, -1) == '+' then
    for id, weight, cap, hour, day in
      string.gmatch(rest, '([^\31]*)\31([^\31]*)\31([^\31]*)\31([^\31]*)\31([^\31]*)\31?') do
      ids[#ids + 1], weights[id] = id, tonumber(weight)
      if cap ~= '' or hour ~= '' or day ~= '' then
        limits[id] = { cap = tonumber(cap) or huge, per_hour = tonumber(hour) or huge, per_day = tonumber(day) or huge }
      end
    end
    return ids, weights, limits
  end
  local id
  for field in string.gmatch(rest, '[^\31]+') do
    if id then
      ids[#ids + 1], weights[id], id = id, tonumber(field), nil
    else
      id = field
    end
  end
  return ids, weights, limits
end

-- Reads many members with few calls.
local function load_members(ids)
  for from = 1, #ids, 1000 do
    local keys, wanted = {}, {}
    for i = from, math.min(from + 999, #ids) do
      if members[ids[i]] == nil then
        keys[#keys + 1] = PREFIX .. 'member:' .. ids[i]
        wanted[#wanted + 1] = ids[i]
      end
    end
    local values = #keys > 0 and call('MGET', unpack(keys)) or {}
    for i = 1, #wanted do load_member(wanted[i], values[i]) end
  end
end

local function count_least(m)
  m.n_least, m.least_weight = 0, 0
  for i = 1, #m.places do
    local place = m.places[i]
    if place.strategy == LEAST and place.weight > 0 then
      m.n_least, m.least_weight = m.n_least + 1, place.weight
    end
  end
end

-- Takes everybody out of the pool. Answers who they were, in order, the credit of each, and what counts against their
-- limits.
local function vacate(id, content)
  local ids, credits, scores, counted = members_of(content), {}, {}, {}
  load_members(ids)
  local p = pool(id) or broken('pool ' .. id .. ' is missing')
  local v = p.v
  if v[STRATEGY] == LEAST then
    call('DEL', PREFIX .. 'least:' .. id)
  else
    fold(v)
    for i = 6, #v, 2 do
      local key = class_key(i, id)
      local flat = call('ZRANGE', key, 0, -1, 'WITHSCORES')
      for j = 1, #flat, 2 do scores[flat[j]] = tonumber(flat[j + 1]) end
      call('DEL', key)
    end
  end
  for i = 1, #ids do
    local m = known(ids[i])
    local places = parse(m)
    for j = 1, #places do
      local place = places[j]
      if place.pool == id then
        local score = scores[m.id]
        credits[m.id] = score and place.weight * v[BASE] - score or place.credit
        counted[m.id] = place.limits
        table.remove(places, j)
        break
      end
    end
    if not credits[m.id] then broken(m.id .. ' is not in ' .. id) end
    count_least(m)
    m.dirty = true
  end
  return ids, credits, counted
end
