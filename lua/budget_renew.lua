#!lua
-- budget_renew: a call is still in flight; its place is taken for another lease.
--
-- KEYS[1]  flight    zset    {corp}:v1:flight:<api>   permit -> end of its lease
-- ARGV[1]  permit    string  as given to budget_take
-- ARGV[2]  lease_ms  integer as given to budget_take
-- ARGV[3]  before_ms integer from then on this renewal does nothing: its sender has given up on it
-- ARGV[4]  now_ms    integer "" in production: the script asks TIME
--
-- Returns  {"RENEWED", now_ms} | {"RETAKEN", now_ms} | {"LATE", now_ms}   RETAKEN: the place had been lost meanwhile
-- Invariant  a call in flight is counted: a lost place is taken again even when there are `cap` others, for its call
--            is at WeCom all the same. A place that was given back stays free: its holder gives only when each
--            renewal of his was answered or is too late to act.
-- Cost  O(log parallel)

local flight, permit = KEYS[1], ARGV[1]
local lease_ms, before_ms = tonumber(ARGV[2]), tonumber(ARGV[3])
local now = tonumber(ARGV[4])
if not now then
  local time = redis.call("TIME")
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end

if now >= before_ms then return { "LATE", now } end

-- Anything else under our name is not ours: a limiter must recover from it.
local ends = redis.pcall("ZSCORE", flight, permit)
if type(ends) == "table" then
  redis.call("DEL", flight)
  ends = nil
end
redis.call("ZADD", flight, now + lease_ms, permit)
redis.call("PEXPIRE", flight, 2 * lease_ms)
if ends and tonumber(ends) > now then return { "RENEWED", now } end
return { "RETAKEN", now }
