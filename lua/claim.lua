#!lua
-- claim: hand a consumer what is due again: failed entries whose pause is over, and entries of dead consumers.
--
-- KEYS[1]   inbox     stream   {corp}:v1:inbox
-- KEYS[2]   retry     zset     {corp}:v1:inbox:retry:<group>   entry -> not_before_ms * 32 + tries
-- ARGV[1]   group     string
-- ARGV[2]   consumer  string   who gets them
-- ARGV[3]   now_ms    integer  "" in production: the script asks TIME; tests own the clock
-- ARGV[4]   idle_ms   integer  unacknowledged for so long: its consumer is dead
-- ARGV[5]   count     integer  at most so many
-- ARGV[6]   cursor    string   where to go on among the pending ones; "0-0" at first
--
-- Returns  {"CLAIMED", next_cursor, n_lost, {{entry, fields, tries}, ...}}
--          Redis itself answers NOGROUP when the group is gone
-- Invariant  an entry that has failed comes back by its pause alone, never by idleness; what was deleted from the
--            stream stops being pending and is counted as lost, once.   Cost  O(count log #retry)

local inbox, retry, group, consumer = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
local now_ms, idle_ms, count, cursor = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6]
if now_ms == "" then
  local time = redis.call("TIME")
  now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
end
local handed, n_lost = {}, 0

local due = redis.call("ZRANGE", retry, "-inf", now_ms * 32 + 31, "BYSCORE", "LIMIT", 0, count, "WITHSCORES")
for i = 1, #due, 2 do
  local id, tries = due[i], due[i + 1] % 32
  local entry = redis.call("XCLAIM", inbox, group, consumer, 0, id)[1]
  if entry then
    handed[#handed + 1] = { entry[1], entry[2], tries }
    -- Its consumer may die with it: then it is due again after the same time as any other entry.
    redis.call("ZADD", retry, (now_ms + idle_ms) * 32 + tries, id)
  else
    redis.call("ZREM", retry, id)
    if #redis.call("XRANGE", inbox, id, id) == 0 then
      n_lost = n_lost + 1
    end
  end
end

if #handed < count then
  local failing = redis.call("EXISTS", retry) == 1
  local answer = redis.call("XAUTOCLAIM", inbox, group, consumer, idle_ms, cursor, "COUNT", count - #handed)
  cursor = answer[1]
  for _, entry in ipairs(answer[2]) do
    if not (failing and redis.call("ZSCORE", retry, entry[1])) then
      handed[#handed + 1] = { entry[1], entry[2], 0 }
    end
  end
  for _, id in ipairs(answer[3]) do
    redis.call("ZREM", retry, id)
    n_lost = n_lost + 1
  end
end

return { "CLAIMED", cursor, n_lost, handed }
