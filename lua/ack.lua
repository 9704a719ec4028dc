#!lua
-- ack: a group is done with these entries.
--
-- KEYS[1]   inbox   stream   {corp}:v1:inbox
-- KEYS[2]   retry   zset     {corp}:v1:inbox:retry:<group>   entry -> time and tries, see fail
-- ARGV[1]   group   string
-- ARGV[2..] entries string   their ids, one at least and no more than a Lua call takes; repeats are safe
--
-- Returns  {"ACKED", n}  how many were pending
-- Invariant  what is acknowledged is neither pending nor waiting for another try.   Cost  O(#entries)

local inbox, retry, group = KEYS[1], KEYS[2], ARGV[1]
-- One command for all: what a script writes is logged and replicated command by command.
local n = redis.call("XACK", inbox, group, unpack(ARGV, 2))
if redis.call("EXISTS", retry) == 1 then
  redis.call("ZREM", retry, unpack(ARGV, 2))
end
return {"ACKED", n}
