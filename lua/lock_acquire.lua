#!lua
-- lock_acquire: all of some names for one owner, or none of them, with a new fence number.
--
-- KEYS[1]   fence      hash    {corp}:v1:fence         generation, counter
-- KEYS[2..] locks      string  {corp}:v1:lock:<what>   at most 16
--                              "<owner> <lease end> <ms from there to the longest end>"
-- ARGV[1]   owner      string  random, new for every attempt, no spaces
-- ARGV[2]   lease_ms   integer
-- ARGV[3]   longest_ms integer renewals cannot go beyond this
-- ARGV[4]   now_ms     integer "" in production: the script asks TIME
--
-- Returns  {"HELD", generation, counter, left_ms} | {"BUSY", which, until_ms}   which counts from 0
-- Errors   CLOSED      the fence is unknown: a number could repeat an old one
-- Invariant  one live owner per name; fence numbers only grow. The time to live of a lock is its lease: a dead
--            owner's key is gone at the moment its stored end says so.   Cost  O(#locks)

local fence = KEYS[1]
local owner, lease_ms, longest_ms = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local now = tonumber(ARGV[4])
if not now then
  local time = redis.call("TIME")
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end

if redis.call("EXISTS", fence) == 0 then
  return redis.error_reply("CLOSED the fence of this corp is not seeded")
end
for i = 2, #KEYS do
  local lock = redis.call("GET", KEYS[i])
  local until_ms = lock and tonumber(string.match(lock, "^%S+ (%d+)"))
  if until_ms and until_ms > now then return { "BUSY", i - 2, until_ms } end
end

local counter = redis.call("HINCRBY", fence, "counter", 1)
local generation = tonumber(redis.call("HGET", fence, "generation"))
local left = math.min(lease_ms, longest_ms)
-- At most 28 bytes: one more would cost 16 more of memory.
local value = string.format("%s %d %d", owner, now + left, longest_ms - left)
for i = 2, #KEYS do
  redis.call("SET", KEYS[i], value, "PX", left)
end
return { "HELD", generation, counter, left }
