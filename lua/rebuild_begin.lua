#!lua
-- rebuild_begin: closes the corp for a rebuild.
--
-- KEYS[1]  log        stream  {corp}:v1:log
-- ARGV[1]  generation integer the rebuilder's, from the ledger
-- Derived  ready      string  {corp}:v1:ready
-- Derived  rebuilding string  {corp}:v1:rebuilding
--
-- Returns  "CLOSED"
-- Errors   STALE   a newer generation is open, or being written
-- Invariant  of two rebuilders the one with the newer generation goes on.
-- Cost     O(1)

local prefix, generation = string.sub(KEYS[1], 1, -4), tonumber(ARGV[1])
local ready, rebuilding = prefix .. "ready", prefix .. "rebuilding"
local values = redis.call("MGET", ready, rebuilding)
if (tonumber(values[1]) or 0) > generation or (tonumber(values[2]) or 0) > generation then
  return redis.error_reply("STALE a newer generation exists")
end
redis.call("DEL", ready)
redis.call("SET", rebuilding, ARGV[1])
return "CLOSED"
