#!lua
-- dirty_done: end leases of dirty entities.
--
-- KEYS[1]   dirty     zset     {corp}:v1:dirty:<kind>         entity -> due_ms
-- KEYS[2]   taken     zset     {corp}:v1:dirty:<kind>:taken   entity -> lease_until_ms
-- ARGV[1]   again_ms  integer  "" when they were read; else they are due again then, unless they are anyway before
-- ARGV[2..] leases             two each: entity, lease_until_ms as it was told
--
-- Returns  {"DONE", n}  how many leases were still ours; the others were over, and nothing was done for them
-- Invariant  whoever holds a later lease of the entity is not disturbed.   Cost  O(#leases log n)

local dirty, taken, again_ms = KEYS[1], KEYS[2], ARGV[1]
local n = 0
for i = 2, #ARGV, 2 do
  local lease = redis.call("ZSCORE", taken, ARGV[i])
  if lease and tonumber(lease) == tonumber(ARGV[i + 1]) then
    redis.call("ZREM", taken, ARGV[i])
    if again_ms ~= "" then
      redis.call("ZADD", dirty, "LT", again_ms, ARGV[i])
    end
    n = n + 1
  end
end
return { "DONE", n }
