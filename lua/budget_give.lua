#!lua
-- budget_give: a call has ended; its place is free, and what WeCom said about the quota is remembered.
--
-- KEYS[1]  budget    hash    {corp}:v1:budget:<api>   minute, hour, block, level, cap, cap_at, yield
-- KEYS[2]  flight    zset    {corp}:v1:flight:<api>   permit -> end of its lease
-- KEYS[3]  index     zset    {corp}:v1:budgets        api -> until when its budget matters
-- ARGV[1]  api       string
-- ARGV[2]  permit    string  repeats are safe
-- ARGV[3]  outcome   string  ok | failed | unused | concurrency | minute | hour | day | month | limited
-- ARGV[4]  taken_ms  integer as answered by budget_take
-- ARGV[5]  cap       integer as answered by budget_take
-- ARGV[6]  now_ms    integer "" in production: the script asks TIME
--
-- Returns  {"GIVEN", block_until_ms}   0 when this outcome set no block
-- Invariant  a block never becomes shorter; the cap never falls below 1, and one round of calls halves it once.
-- Cost  O(log parallel)

local budget, flight, index = KEYS[1], KEYS[2], KEYS[3]
local api, permit, outcome = ARGV[1], ARGV[2], ARGV[3]
local taken, cap_then = tonumber(ARGV[4]), tonumber(ARGV[5])
local now = tonumber(ARGV[6])
if not now then
  local time = redis.call("TIME")
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end

local MINUTE_MS, HOUR_MS, DAY_MS, CHINA_MS = 60000, 3600000, 86400000, 28800000
local BUDGET_TTL_MS, INDEX_TTL_MS = 7200000, 2764800000

local fields = redis.pcall("HMGET", budget, "minute", "hour", "block", "level", "cap")
if fields.err then
  redis.call("DEL", budget)
  fields = {}
end
local block, level = tonumber(fields[3] or 0) or 0, tonumber(fields[4] or 0) or 0

local removed = redis.pcall("ZREM", flight, permit)
local ours = removed == 1

-- The same window text as in budget_take: one call less in the bucket that counted it.
local function uncount(field, text, grain)
  if not text then return end
  local numbers = {}
  for word in string.gmatch(text, "%d+") do numbers[#numbers + 1] = tonumber(word) end
  local i = (numbers[1] or 0) - math.floor(taken / grain) + 2
  if i >= 2 and (numbers[i] or 0) > 0 then
    numbers[i] = numbers[i] - 1
    redis.call("HSET", budget, field, string.format("%d %s", numbers[1], table.concat(numbers, " ", 2)))
  end
end

local function end_of(rule)
  if rule == 1 then return now + MINUTE_MS end
  if rule == 2 then return now + HOUR_MS end
  if rule == 3 then return (math.floor((now + CHINA_MS) / DAY_MS) + 1) * DAY_MS - CHINA_MS end
  return now + 30 * DAY_MS
end

local rules = { minute = 1, hour = 2, day = 3, month = 4 }
local rule = rules[outcome]

if outcome == "unused" then
  -- Counted back once only: a permit without a lease (no parallel limit) is given by its one owner.
  if ours or cap_then == 0 then
    uncount("minute", fields[1], 5000)
    uncount("hour", fields[2], 300000)
  end
elseif outcome == "ok" then
  -- Only a call that went out after the block says that the block was long enough.
  if level > 0 and taken >= block then redis.call("HDEL", budget, "level") end
elseif outcome == "concurrency" then
  local target = math.max(1, math.floor(cap_then / 2))
  local cap = math.min(tonumber(fields[5] or "") or target, target)
  redis.call("HSET", budget, "cap", cap, "cap_at", now)
elseif outcome == "limited" then
  -- WeCom does not say which rule: the minute, unless it refused again within a minute after the last block.
  if block > now then
    rule = math.max(1, level)
  elseif level > 0 and now - block < MINUTE_MS then
    rule = math.min(level + 1, 3)
  else
    rule = 1
  end
end

local set = 0
if rule then
  set = math.max(block, end_of(rule))
  block = set
  redis.call("HSET", budget, "block", set, "level", rule)
  redis.call("ZADD", index, math.max(now + BUDGET_TTL_MS, set), api)
  redis.call("PEXPIRE", index, INDEX_TTL_MS)
end
redis.call("PEXPIRE", budget, math.max(BUDGET_TTL_MS, block - now + HOUR_MS))
return { "GIVEN", set }
