#!lua
-- dirty_take: lease dirty entities that are due.
--
-- KEYS[1]  dirty     zset     {corp}:v1:dirty:<kind>         entity -> due_ms
-- KEYS[2]  taken     zset     {corp}:v1:dirty:<kind>:taken   entity -> lease_until_ms
-- ARGV[1]  now_ms    integer  "" in production: the script asks TIME; tests own the clock
-- ARGV[2]  count     integer  at most so many
-- ARGV[3]  lease_ms  integer  more than 0
--
-- Returns  {"TAKEN", lease_until_ms, {entity, ...}}  longest due first
-- Invariant  an entity is leased to one at a time; a mark made while it is leased stays and is due again after the
--            lease ends; a lease that ran out is a mark again.   Cost  O((count + #taken) log n)

local dirty, taken, now_ms = KEYS[1], KEYS[2], ARGV[1]
local count, lease_ms = tonumber(ARGV[2]), tonumber(ARGV[3])
if now_ms == "" then
  local time = redis.call("TIME")
  now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
end
now_ms = tonumber(now_ms)

local over = redis.call("ZRANGE", taken, "-inf", now_ms, "BYSCORE", "LIMIT", 0, count, "WITHSCORES")
for i = 1, #over, 2 do
  redis.call("ZADD", dirty, "LT", over[i + 1], over[i])
  redis.call("ZREM", taken, over[i])
end

local entities = {}
local most = count + redis.call("ZCARD", taken)
for _, entity in ipairs(redis.call("ZRANGE", dirty, "-inf", now_ms, "BYSCORE", "LIMIT", 0, most)) do
  if #entities == count then
    break
  end
  if not redis.call("ZSCORE", taken, entity) then
    redis.call("ZREM", dirty, entity)
    redis.call("ZADD", taken, now_ms + lease_ms, entity)
    entities[#entities + 1] = entity
  end
end
return { "TAKEN", now_ms + lease_ms, entities }
