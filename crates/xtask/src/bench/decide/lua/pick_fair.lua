#!lua
-- pick_fair: the pick of a fair pool and nothing else, as decide makes it.
--
-- KEYS[1]  pool    packed  base, count, sum, waiting, strategy, then weight and head score of each class
-- Derived  <pool>:<place>  zset, the members of the class at that place -> picks
--
-- Returns  the member

-- include roster_choose.lua

local key = KEYS[1]
local value = redis.call('GET', key)
local v = { struct.unpack('<' .. string.rep('d', #value / 8), value) }
v[#v] = nil
local class = choose(v)
local members = key .. ':' .. class
local two = redis.call('ZRANGE', members, 0, 1, 'WITHSCORES')
local id, next_score = two[1], tonumber(two[4] or 1 / 0)
local score = v[class + 1] + 1
v[2], v[class + 1] = v[2] + 1, score < next_score and score or next_score
redis.call('ZADD', members, score, id)
redis.call('SET', key, struct.pack('<' .. string.rep('d', #v), unpack(v)))
return id
