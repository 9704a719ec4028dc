#!lua
-- token_store: a new access token takes the place of the one that failed, and of no other.
--
-- KEYS[1]  token       string  {corp}:v1:token:<app>   "<expires_at_ms> <value>"
-- ARGV[1]  failed      string  the value that WeCom refused; "" = there was none
-- ARGV[2]  value       string
-- ARGV[3]  expires_ms  integer
-- ARGV[4]  now_ms      integer "" in production: the script asks TIME
--
-- Returns  {"STORED", expires_at_ms, value} | {"KEPT", expires_at_ms, value}   KEPT: somebody was faster, use his
--          {"EXPIRED", 0, ""}   not worth keeping
-- Invariant  always a time to live, at most 7,140 s (WeCom says 7,200); a live token other than `failed` is never overwritten.   Cost  O(1)

local token, failed, value, expires_at = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3])
local now = tonumber(ARGV[4])
if not now then
  local time = redis.call("TIME")
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end

local old_expires, old = string.match(redis.call("GET", token) or "", "^(%d+) (.+)$")
if old and tonumber(old_expires) > now and old ~= failed then
  return { "KEPT", tonumber(old_expires), old }
end
expires_at = math.min(expires_at, now + 7140000)
if expires_at <= now then return { "EXPIRED", 0, "" } end
redis.call("SET", token, string.format("%d %s", expires_at, value), "PX", expires_at - now)
return { "STORED", expires_at, value }
