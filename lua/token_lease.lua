#!lua
-- token_lease: the right to ask WeCom for a new access token, for one process at a time.
--
-- KEYS[1]  lease     string  {corp}:v1:tokenlease:<app>   "<owner> <end>"
-- ARGV[1]  owner     string  no spaces; the same owner may take it again
-- ARGV[2]  lease_ms  integer
-- ARGV[3]  now_ms    integer "" in production: the script asks TIME
--
-- Returns  {"LEASED", until_ms} | {"BUSY", until_ms}
-- Invariant  one live owner; a dead one's lease ends by itself.   Cost  O(1)

local lease, owner, lease_ms = KEYS[1], ARGV[1], tonumber(ARGV[2])
local now = tonumber(ARGV[3])
if not now then
  local time = redis.call("TIME")
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end

local held_by, until_ms = string.match(redis.call("GET", lease) or "", "^(%S+) (%d+)$")
if held_by and held_by ~= owner and tonumber(until_ms) > now then return { "BUSY", tonumber(until_ms) } end
redis.call("SET", lease, string.format("%s %d", owner, now + lease_ms), "PX", lease_ms)
return { "LEASED", now + lease_ms }
