#!lua flags=no-writes
-- budget_read: what is used and what is blocked, for people.
--
-- KEYS[1]  index     zset    {corp}:v1:budgets        api -> until when its budget matters
-- ARGV[1]  now_ms    integer "" in production: the script asks TIME
-- Derived  budget    hash    {corp}:v1:budget:<api>
-- Derived  flight    zset    {corp}:v1:flight:<api>
--
-- Returns  {"READ", now_ms, api, minute, hour, in_flight, block, level, cap, cap_at, …}   eight values for each api;
--          minute and hour as budget_take keeps them, cap and cap_at "" unless shrunk
-- Invariant  writes nothing.   Cost  O(apis), at most 500

local index = KEYS[1]
local now = tonumber(ARGV[1])
if not now then
  local time = redis.call("TIME")
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end

local prefix = string.gsub(index, "budgets$", "")
local answer = { "READ", now }
for _, api in ipairs(redis.call("ZRANGEBYSCORE", index, now, "+inf", "LIMIT", 0, 500)) do
  local fields = redis.pcall("HMGET", prefix .. "budget:" .. api, "minute", "hour", "block", "level", "cap", "cap_at")
  local live = redis.pcall("ZCOUNT", prefix .. "flight:" .. api, "(" .. now, "+inf")
  if not fields.err and type(live) == "number" then
    answer[#answer + 1] = api
    answer[#answer + 1] = fields[1] or ""
    answer[#answer + 1] = fields[2] or ""
    answer[#answer + 1] = live
    answer[#answer + 1] = tonumber(fields[3] or 0) or 0
    answer[#answer + 1] = tonumber(fields[4] or 0) or 0
    answer[#answer + 1] = fields[5] or ""
    answer[#answer + 1] = fields[6] or ""
  end
end
return answer
