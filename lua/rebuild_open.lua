#!lua
-- rebuild_open: opens a corp whose state was written anew. Its last operation is the rebuild itself, by which
-- everybody is off; its log entry is written here.
--
-- KEYS[1]  log        stream  {corp}:v1:log
-- ARGV[1]  generation integer of the rebuild under way
-- ARGV[2]  seq        integer of the written state
-- Derived  ready      string  {corp}:v1:ready
-- Derived  rebuilding string  {corp}:v1:rebuilding
-- Derived  corp       packed  {corp}:v1:corp
--
-- Returns  "OPEN"
-- Errors   STALE   another rebuild took over
-- Errors   NOT_READY   the written state is not the one meant
-- Invariant  a corp is open only with a state of the generation that `ready` names.
-- Cost     O(1)

local prefix = string.sub(KEYS[1], 1, -4)
local ready, rebuilding = prefix .. "ready", prefix .. "rebuilding"
if redis.call("GET", rebuilding) ~= ARGV[1] then
  return redis.error_reply("STALE another rebuild took over")
end
local corp = redis.call("GET", prefix .. "corp")
local seq, at
if corp then seq, at = struct.unpack("<dd", corp) end
if seq ~= tonumber(ARGV[2]) then
  return redis.error_reply("NOT_READY another state was written")
end
redis.call("XADD", KEYS[1], ARGV[2] .. "-0", "o", "rebuilt.1", "t", string.format("%.0f", at), "a", ARGV[1], "r", "0\0310")
redis.call("SET", ready, ARGV[1])
redis.call("DEL", rebuilding)
return "OPEN"
