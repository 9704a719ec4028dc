#!lua
-- append: store deliveries, each once.
--
-- KEYS[1]   inbox      stream   {corp}:v1:inbox   e endpoint, t received_ms, x plaintext
-- ARGV[1]   max_length integer  entries the stream may hold
-- ARGV[2]   seen_ms    integer  how long a delivery is remembered
-- ARGV[3]   touch      0 | 1    write for a duplicate too, so that a WAIT behind this call waits for its first write
-- ARGV[4]   delay_ms   integer  a dirty mark is due this long after received_ms
-- ARGV[5..] deliveries          six each: id (hex), endpoint, received_ms, plaintext, dirty kind ("" for none), entity
-- Derived   seen       string   {corp}:v1:seen:<id>     exists while the delivery is remembered
-- Derived   dirty      zset     {corp}:v1:dirty:<kind>  entity -> due_ms
--
-- Returns  {"APPENDED", letters}  one letter a delivery: N new, D duplicate, F full and not stored
-- Invariant  an entry is in the stream if and only if its seen key was set by the same call; nothing unread is dropped.
--            Cost  two calls a delivery. The TTL of seen is the rule itself: a delivery is kept in mind at least so long.

-- One look-up of redis.call, not two a delivery: this script runs for every callback.
local call = redis.call
local inbox, max_length, seen_ms, touch, delay_ms = KEYS[1], tonumber(ARGV[1]), ARGV[2], ARGV[3], tonumber(ARGV[4])
local prefix = string.sub(inbox, 1, -6)
local room = max_length - call("XLEN", inbox)
local letters, n = {}, 0

for i = 5, #ARGV, 6 do
  local seen = prefix .. "seen:" .. ARGV[i]
  local letter
  if room > 0 then
    letter = call("SET", seen, "1", "NX", "PX", seen_ms) and "N" or "D"
  else
    letter = call("EXISTS", seen) == 1 and "D" or "F"
  end
  if letter == "N" then
    call("XADD", inbox, "*", "e", ARGV[i + 1], "t", ARGV[i + 2], "x", ARGV[i + 3])
    room = room - 1
  elseif letter == "D" then
    if ARGV[i + 4] ~= "" then
      call("ZADD", prefix .. "dirty:" .. ARGV[i + 4], "LT", tonumber(ARGV[i + 2]) + delay_ms, ARGV[i + 5])
    end
    if touch == "1" then
      call("SET", seen, "1", "XX", "KEEPTTL")
    end
  end
  n = n + 1
  letters[n] = letter
end

return {"APPENDED", table.concat(letters)}
