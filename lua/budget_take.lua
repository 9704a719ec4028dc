#!lua
-- budget_take: one call of one WeCom API, unless a block, a window or the calls in flight forbid it.
--
-- KEYS[1]  budget    hash    {corp}:v1:budget:<api>   minute, hour, block, level, cap, cap_at, yield
-- KEYS[2]  flight    zset    {corp}:v1:flight:<api>   permit -> end of its lease
-- KEYS[3]  index     zset    {corp}:v1:budgets        api -> until when its budget matters (budgets:members: of one member)
-- KEYS[4]  fence     hash    {corp}:v1:fence          only for the budget of a corp: absent = Redis was emptied
-- ARGV[1]  api       string
-- ARGV[2]  permit    string  random
-- ARGV[3]  lease_ms  integer after it the place is free again, unless budget_renew prolonged it
-- ARGV[4]  minute    integer most calls in any 60 s
-- ARGV[5]  hour      integer most calls in any 60 min
-- ARGV[6]  parallel  integer most calls in flight; 0 = no limit
-- ARGV[7]  grow_ms   integer after a shrink one more place returns in this time
-- ARGV[8]  urgent    string  "1": ordinary calls step back until this one has its place
-- ARGV[9]  now_ms    integer "" in production: the script asks TIME
--
-- Returns  {"TAKEN", now_ms, cap} | {"WAIT", until_ms, why}   why: blocked, minute, hour, urgent, flight
-- Errors   CLOSED    the corp's quota was not seeded after Redis lost it
-- Invariant  in any 60 s (60 min) at most `minute` (`hour`) calls are taken, and none while `cap` leases live.
-- Cost  O(log parallel)

local budget, flight, index = KEYS[1], KEYS[2], KEYS[3]
local api, permit, lease_ms = ARGV[1], ARGV[2], tonumber(ARGV[3])
local minute_limit, hour_limit = tonumber(ARGV[4]), tonumber(ARGV[5])
local parallel, grow_ms, urgent = tonumber(ARGV[6]), tonumber(ARGV[7]), ARGV[8] == "1"
local now = tonumber(ARGV[9])
if not now then
  local time = redis.call("TIME")
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end

-- A window of 12 parts is counted in 13 buckets: whatever 60 s WeCom looks at, ours contain them.
local BUCKETS, MINUTE, HOUR = 13, 5000, 300000
local RETRY_MS, YIELD_MS = 50, 250
local BUDGET_TTL_MS, INDEX_TTL_MS = 7200000, 2764800000

if KEYS[4] and redis.call("EXISTS", KEYS[4]) == 0 then
  return redis.error_reply("CLOSED the quota of this corp is not seeded")
end

-- Anything else under our name is not ours: a limiter must recover from it.
local fields = redis.pcall("HMGET", budget, "minute", "hour", "block", "cap", "cap_at", "yield")
if fields.err then
  redis.call("DEL", budget)
  fields = {}
end
local block, yield = tonumber(fields[3] or 0) or 0, tonumber(fields[6] or 0) or 0

local function written(w)
  return string.format("%d %s", w.bucket, table.concat(w.counts, " "))
end

-- "<newest bucket> <its count> <the count before> …". Counts from a future bucket (the clock was set back)
-- are kept as if they were of now.
local function window(field, text, grain)
  local bucket, newest, kept = math.floor(now / grain), nil, {}
  for word in string.gmatch(text or "", "%d+") do
    if newest then kept[#kept + 1] = tonumber(word) else newest = tonumber(word) end
  end
  local shift, counts, total = math.max(0, bucket - (newest or bucket)), {}, 0
  for i = 1, BUCKETS do
    counts[i] = kept[i - shift] or 0
    total = total + counts[i]
  end
  local w = { bucket = bucket, grain = grain, counts = counts, total = total }
  if newest and newest > bucket then redis.call("HSET", budget, field, written(w)) end
  return w
end

local function full_until(w, limit)
  local left = w.total
  if left < limit then return 0 end
  for i = BUCKETS, 1, -1 do
    left = left - w.counts[i]
    if left < limit then return (w.bucket - i + 1 + BUCKETS) * w.grain end
  end
  return now + w.grain
end

local function expiries()
  redis.call("PEXPIRE", budget, math.max(BUDGET_TTL_MS, block - now + 3600000))
  if parallel > 0 then redis.call("PEXPIRE", flight, 2 * lease_ms) end
end

local function wait(until_ms, why)
  expiries()
  return { "WAIT", until_ms, why }
end

if block > now then return wait(block, "blocked") end

local minute, hour = window("minute", fields[1], MINUTE), window("hour", fields[2], HOUR)
local hour_until, minute_until = full_until(hour, hour_limit), full_until(minute, minute_limit)
if hour_until > 0 and hour_until >= minute_until then return wait(hour_until, "hour") end
if minute_until > 0 then return wait(minute_until, "minute") end

local cap = parallel
if parallel > 0 then
  local shrunk, shrunk_at = tonumber(fields[4] or ""), tonumber(fields[5] or 0) or 0
  if shrunk then
    cap = math.min(parallel, shrunk + math.max(0, math.floor((now - shrunk_at) / grow_ms)))
  end
  if not urgent and yield > now and yield <= now + YIELD_MS then return wait(yield, "urgent") end
  local over = redis.pcall("ZREMRANGEBYSCORE", flight, "-inf", now)
  if type(over) == "table" then redis.call("DEL", flight) end
  -- No lease can end later than that: the clock was set back, or somebody else wrote it.
  redis.call("ZREMRANGEBYSCORE", flight, "(" .. (now + 2 * lease_ms), "+inf")
  if redis.call("ZCARD", flight) >= cap then
    if urgent then redis.call("HSET", budget, "yield", now + YIELD_MS) end
    return wait(now + RETRY_MS, "flight")
  end
  if urgent and yield > 0 then redis.call("HDEL", budget, "yield") end
  redis.call("ZADD", flight, now + lease_ms, permit)
end

minute.counts[1], hour.counts[1] = minute.counts[1] + 1, hour.counts[1] + 1
redis.call("HSET", budget, "minute", written(minute), "hour", written(hour))
redis.call("ZADD", index, math.max(now + BUDGET_TTL_MS, block), api)
redis.call("PEXPIRE", index, INDEX_TTL_MS)
expiries()
return { "TAKEN", now, cap }
