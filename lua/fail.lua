#!lua
-- fail: entries that could not be handled by their own fault wait longer each time, then become dead letters.
--
-- KEYS[1]   inbox      stream   {corp}:v1:inbox
-- KEYS[2]   dead       stream   {corp}:v1:inbox:dead   g group, i entry, n tries, r reason, f failed_ms, then the entry's fields
-- KEYS[3]   retry      zset     {corp}:v1:inbox:retry:<group>   entry -> not_before_ms * 32 + tries
-- ARGV[1]   group      string
-- ARGV[2]   now_ms     integer  "" in production: the script asks TIME; tests own the clock
-- ARGV[3]   max_tries  integer  1 to 31
-- ARGV[4]   pause_ms   integer  after the first failure; five times as long after each further one
-- ARGV[5]   longest_ms integer  but never longer than this
-- ARGV[6]   reason     string   for people
-- ARGV[7..] entries    string   their ids
--
-- Returns  {"FAILED", letters}  one letter an entry: R waits for another try, D dead letter, G not pending any more,
--          L its content is gone from the stream
-- Invariant  an entry is pending, or a dead letter of the group, never both; its dead letter has all of its fields.
--            Cost  O(#entries log #retry)

local inbox, dead, retry = KEYS[1], KEYS[2], KEYS[3]
local group, now_ms, max_tries = ARGV[1], ARGV[2], tonumber(ARGV[3])
local pause_ms, longest_ms, reason = tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6]
if now_ms == "" then
  local time = redis.call("TIME")
  now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
end
local letters = {}

for i = 7, #ARGV do
  local id = ARGV[i]
  local letter = "G"
  -- pcall: in a group that is gone nothing is pending, and the entry comes again.
  local pending = redis.pcall("XPENDING", inbox, group, id, id, 1)
  if not pending.err and #pending == 1 then
    local entry = redis.call("XRANGE", inbox, id, id)[1]
    local tries = (redis.call("ZSCORE", retry, id) or 0) % 32 + 1
    if not entry then
      letter = "L"
    elseif tries >= max_tries then
      redis.call("XADD", dead, "*", "g", group, "i", id, "n", tries, "r", reason, "f", now_ms, unpack(entry[2]))
      letter = "D"
    else
      local pause = math.min(pause_ms * 5 ^ (tries - 1), longest_ms)
      redis.call("ZADD", retry, (now_ms + pause) * 32 + tries, id)
      letter = "R"
    end
  end
  if letter ~= "R" then
    redis.call("XACK", inbox, group, id)
    redis.call("ZREM", retry, id)
  end
  letters[#letters + 1] = letter
end

return { "FAILED", table.concat(letters) }
