#!lua
-- token_release: give back the right to renew, if it is still this owner's.
--
-- KEYS[1]  lease   string  {corp}:v1:tokenlease:<app>   "<owner> <end>"
-- ARGV[1]  owner   string
--
-- Returns  {"RELEASED", n}
-- Invariant  another owner's lease is not touched.   Cost  O(1)

local lease, owner, n = KEYS[1], ARGV[1], 0
local held_by = string.match(redis.call("GET", lease) or "", "^(%S+) ")
if held_by == owner then n = redis.call("DEL", lease) end
return { "RELEASED", n }
