#!lua flags=no-writes
-- token_load: the access token that all processes share, while it lasts.
--
-- KEYS[1]  token   string  {corp}:v1:token:<app>   "<expires_at_ms> <value>"
-- ARGV[1]  now_ms  integer "" in production: the script asks TIME
--
-- Returns  {"TOKEN", expires_at_ms, value} | {"NONE", 0, ""}
-- Invariant  an expired token is none.   Cost  O(1)

local now = tonumber(ARGV[1])
if not now then
  local time = redis.call("TIME")
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
local expires_at, value = string.match(redis.call("GET", KEYS[1]) or "", "^(%d+) (.+)$")
if not expires_at or tonumber(expires_at) <= now then return { "NONE", 0, "" } end
return { "TOKEN", tonumber(expires_at), value }
