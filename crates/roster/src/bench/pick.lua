#!lua
-- pick: the choice of a member alone, for benchmarks: no allocation, no load corp-wide, no log. Not part of the product.
--
-- KEYS[1]  log   stream  {corp}:v1:log   the pool's keys are those of roster_state.lua
-- ARGV[1]  pool  string
--
-- Returns  the member
-- Invariant  the member is the one whom decide would pick.

-- include roster_choose.lua

local call, pack, unpack_struct, sub = redis.call, struct.pack, struct.unpack, string.sub
local prefix, pool_id = sub(KEYS[1], 1, -4), ARGV[1]
local pool_key = prefix .. 'pool:' .. pool_id
local pool = call('GET', pool_key)
local v = { unpack_struct('<' .. string.rep('d', #pool / 8), pool) }
v[#v] = nil
if v[5] == 2 then
  local key = prefix .. 'least:' .. pool_id
  local popped = call('ZPOPMIN', key)
  local id = sub(popped[1], 9)
  local member_key = prefix .. 'member:' .. id
  local member = call('GET', member_key)
  local load, tie, _, _, weight = unpack_struct('<ddddd', member)
  load = load + 1
  call('ZADD', key, load * 1000 / weight, pack('>I8', tie + 100000) .. id)
  call('SET', member_key, pack('<dd', load, tie + 100000) .. sub(member, 17))
  return id
end
local class = choose(v)
local letter = (class - 4) / 2
local key = prefix .. 'class:' .. sub('abcdefghijklmnop', letter, letter) .. ':' .. pool_id
local two = call('ZRANGE', key, 0, 1, 'WITHSCORES')
local score, head = v[class + 1] + 1, 8 * class
call('ZADD', key, score, two[1])
pool = sub(pool, 1, 8) .. pack('<d', v[2] + 1) .. sub(pool, 17, head)
  .. pack('<d', math.min(score, tonumber(two[4] or 1 / 0))) .. sub(pool, head + 9)
call('SET', pool_key, pool)
return two[1]
