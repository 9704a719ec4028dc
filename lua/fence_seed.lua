#!lua
-- fence_seed: open a corp's quota after Redis was new or emptied: fence numbers go on above the ledger's greatest.
--
-- KEYS[1]  fence       hash    {corp}:v1:fence   generation, counter; never expires: it is what must not be forgotten
-- ARGV[1]  generation  integer of the corp's row in the ledger
-- ARGV[2]  least       integer the ledger's greatest counter
--
-- Returns  {"SEEDED", generation, counter} | {"OLDER", generation, counter}   OLDER: Redis already has a later generation
-- Invariant  (generation, counter) never goes back.   Cost  O(1)

local fence = KEYS[1]
local generation, least = tonumber(ARGV[1]), tonumber(ARGV[2])

local stored = redis.call("HMGET", fence, "generation", "counter")
local old, counter = tonumber(stored[1] or -1), tonumber(stored[2] or 0)
if generation < old then return { "OLDER", old, counter } end
counter = math.max(counter, least)
redis.call("HSET", fence, "generation", generation, "counter", string.format("%d", counter))
return { "SEEDED", generation, counter }
