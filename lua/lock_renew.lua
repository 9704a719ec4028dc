#!lua
-- lock_renew: another lease for the names of one owner, if he still has all of them. Never takes one again.
--
-- KEYS[1..] locks     string  {corp}:v1:lock:<what>   "<owner> <lease end> <ms from there to the longest end>"
-- ARGV[1]   owner     string
-- ARGV[2]   lease_ms  integer
-- ARGV[3]   now_ms    integer "" in production: the script asks TIME
--
-- Returns  {"RENEWED", left_ms} | {"LOST", which}   left_ms < lease_ms: the longest hold ends then
-- Invariant  a lock whose lease has ended, or that another owner has, is not touched.   Cost  O(#locks)

local owner, lease_ms = ARGV[1], tonumber(ARGV[2])
local now = tonumber(ARGV[3])
if not now then
  local time = redis.call("TIME")
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end

local left, ends = lease_ms, {}
for i = 1, #KEYS do
  local held_by, until_ms, more_ms = string.match(redis.call("GET", KEYS[i]) or "", "^(%S+) (%d+) (%d+)$")
  if held_by ~= owner or tonumber(until_ms) <= now then return { "LOST", i - 1 } end
  ends[i] = until_ms + more_ms
  left = math.min(left, ends[i] - now)
end
for i = 1, #KEYS do
  redis.call("SET", KEYS[i], string.format("%s %d %d", owner, now + left, ends[i] - now - left), "PX", left)
end
return { "RENEWED", left }
