#!lua flags=no-writes
-- inbox_stats: how full the inbox is and how far each group has come.
--
-- KEYS[1]   inbox   stream   {corp}:v1:inbox
-- KEYS[2]   dead    stream   {corp}:v1:inbox:dead
-- ARGV[1]   now_ms  integer  "" in production: the script asks TIME; tests own the clock
-- ARGV[2..] groups  string
--
-- Returns  {"STATS", length, dead_length, bytes, oldest_age_ms, {{pending, unread, consumers}, ...}}
--          one triple a group, {-1, -1, 0} for one that does not exist; unread is -1 when Redis cannot tell
-- Invariant  nothing is written.   Cost  O(#groups)

local inbox, dead, now_ms = KEYS[1], KEYS[2], ARGV[1]
if now_ms == "" then
  local time = redis.call("TIME")
  now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
end
local known = {}
local oldest_age_ms = 0
if redis.call("EXISTS", inbox) == 1 then
  for _, info in ipairs(redis.call("XINFO", "GROUPS", inbox)) do
    local fields = {}
    for i = 1, #info, 2 do
      fields[info[i]] = info[i + 1]
    end
    known[fields["name"]] = fields
  end
  local first = redis.call("XRANGE", inbox, "-", "+", "COUNT", 1)[1]
  if first then
    oldest_age_ms = math.max(0, now_ms - string.match(first[1], "^%d+"))
  end
end

local groups = {}
for i = 2, #ARGV do
  local fields = known[ARGV[i]]
  groups[#groups + 1] = fields and { fields["pending"], fields["lag"] or -1, fields["consumers"] } or { -1, -1, 0 }
end
local bytes = redis.call("MEMORY", "USAGE", inbox) or 0
return { "STATS", redis.call("XLEN", inbox), redis.call("XLEN", dead), bytes, oldest_age_ms, groups }
