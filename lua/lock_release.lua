#!lua
-- lock_release: free the names that this owner has; those of others stay.
--
-- KEYS[1..] locks   string  {corp}:v1:lock:<what>   "<owner> <lease end> <ms from there to the longest end>"
-- ARGV[1]   owner   string
--
-- Returns  {"RELEASED", n}
-- Invariant  a lock of another owner is not touched; twice is once.   Cost  O(#locks)

local owner, n = ARGV[1], 0
for i = 1, #KEYS do
  local held_by = string.match(redis.call("GET", KEYS[i]) or "", "^(%S+) ")
  if held_by == owner then n = n + redis.call("DEL", KEYS[i]) end
end
return { "RELEASED", n }
