#!lua
-- rebuild_restore: writes a part of a corp's state.
--
-- KEYS[1]   log        stream  {corp}:v1:log
-- ARGV[1]   generation integer of the rebuild under way
-- ARGV[2..] values     any number: "s", name, value | "z", name, n, then n times score, member |
--                              "h", name, n, then n times field, value
-- Derived   rebuilding string  {corp}:v1:rebuilding
-- Derived   requests   text    {corp}:v1:request:<id>
--
-- Returns  "WRITTEN"
-- Errors   STALE   another rebuild took over
-- Invariant  nothing is written for a rebuilder that was overtaken.
-- Cost     O(values * log size)

local prefix = string.sub(KEYS[1], 1, -4)
if redis.call("GET", prefix .. "rebuilding") ~= ARGV[1] then
  return redis.error_reply("STALE another rebuild took over")
end
local REQUEST_TTL_MS = 90000000 -- as in decide
local at = 2
while at <= #ARGV do
  local name = ARGV[at + 1]
  if ARGV[at] == "s" then
    if string.sub(name, 1, 8) == "request:" then
      redis.call("SET", prefix .. name, ARGV[at + 2], "PX", REQUEST_TTL_MS)
    else
      redis.call("SET", prefix .. name, ARGV[at + 2])
    end
    at = at + 3
  else
    local n = 2 * tonumber(ARGV[at + 2])
    redis.call(ARGV[at] == "h" and "HSET" or "ZADD", prefix .. name, unpack(ARGV, at + 3, at + 2 + n))
    at = at + 3 + n
  end
end
return "WRITTEN"
