-- roster_credit: credits that change without a pick; put into roster_state.lua in the place of the line
-- "include roster_credit.lua".

-- The member's place in the pool, if he has credit there: it is fair, and he has a weight in it.
local function place_with_credit(pool_id, id)
  local m = member(id)
  if not m then return nil end
  local places = parse(m)
  for i = 1, #places do
    local place = places[i]
    if place.pool == pool_id and place.weight > 0 and place.strategy == FAIR then return place, m end
  end
end

local function add_credit(m, place, amount)
  if place.within then
    local v = pool(place.pool).v
    local class = class_of(v, place.weight)
    local key = class_key(class, place.pool)
    local score = tonumber(call('ZSCORE', key, m.id) or broken(m.id .. ' is not in ' .. place.pool)) - amount
    call('ZADD', key, score, m.id)
    v[class + 1] = tonumber(call('ZRANGE', key, 0, 0, 'WITHSCORES')[2])
    pools[place.pool].dirty = true
  else
    place.credit, m.dirty = place.credit + amount, true
  end
end

-- As if the member had been picked: who can be picked earns, and he pays.
local function charge_unasked(pool_id, id)
  local place, m = place_with_credit(pool_id, id)
  local p = place and pool(pool_id)
  if p and p.v[SUM] > 0 then
    p.v[COUNT], p.dirty = p.v[COUNT] + 1, true
    add_credit(m, place, -1)
  end
end
