#!lua
-- budget_block: no call of one API until a time, as restored from the ledger or wanted by a person; or none any more.
--
-- KEYS[1]  budget    hash    {corp}:v1:budget:<api>   block, level
-- KEYS[2]  index     zset    {corp}:v1:budgets        api -> until when its budget matters
-- ARGV[1]  api       string
-- ARGV[2]  until_ms  integer at most 31 days ahead, later is cut
-- ARGV[3]  mode      string  RAISE: never shortens | SET: exactly this, 0 lifts the block
-- ARGV[4]  now_ms    integer "" in production: the script asks TIME
--
-- Returns  {"BLOCKED", until_ms} | {"FREE", 0}
-- Invariant  RAISE never makes a block shorter.   Cost  O(1)

local budget, index = KEYS[1], KEYS[2]
local api, until_ms, mode = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local now = tonumber(ARGV[4])
if not now then
  local time = redis.call("TIME")
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end

local BUDGET_TTL_MS, INDEX_TTL_MS = 7200000, 2764800000
local old = redis.pcall("HGET", budget, "block")
if type(old) == "table" then
  redis.call("DEL", budget)
  old = nil
end
local block = math.min(until_ms, now + 31 * 86400000)
if mode == "RAISE" then block = math.max(block, tonumber(old or 0) or 0) end

redis.call("HSET", budget, "block", block)
if block <= now then redis.call("HDEL", budget, "block", "level") end
redis.call("PEXPIRE", budget, math.max(BUDGET_TTL_MS, block - now + 3600000))
redis.call("ZADD", index, math.max(now + BUDGET_TTL_MS, block), api)
redis.call("PEXPIRE", index, INDEX_TTL_MS)
if block <= now then return { "FREE", 0 } end
return { "BLOCKED", block }
