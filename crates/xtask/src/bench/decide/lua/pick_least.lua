#!lua
-- pick_least: the pick of a least-load pool and nothing else, as decide makes it.
--
-- KEYS[1]  pool    zset    8 bytes of tie and the member -> load / weight
-- Derived  <pool>:turn     packed  the last turn
-- Derived  <pool>:<member> packed  load, tie, weight
--
-- Returns  the member

local key, TIE = KEYS[1], 4503599627370496
local name = redis.call('ZRANGE', key, 0, 0)[1]
local id = string.sub(name, 9)
local turn_key, member_key = key .. ':turn', key .. ':' .. id
local values = redis.call('MGET', turn_key, member_key)
local turn = struct.unpack('<d', values[1]) + 1
local load, _, weight = struct.unpack('<ddd', values[2])
redis.call('ZREM', key, name)
redis.call('ZADD', key, (load + 1) / weight, struct.pack('>I8', TIE + turn) .. id)
redis.call('MSET', turn_key, struct.pack('<d', turn), member_key, struct.pack('<ddd', load + 1, TIE + turn, weight))
return id
