#!lua
-- ack: a group is done with these entries.
--
-- KEYS[1]   inbox   stream   {corp}:v1:inbox
-- KEYS[2]   retry   zset     {corp}:v1:inbox:retry:<group>   entry -> time and tries, see fail
-- ARGV[1]   group   string
-- ARGV[2..] entries string   their ids; repeats are safe
--
-- Returns  {"ACKED", n}  how many were pending
-- Invariant  what is acknowledged is neither pending nor waiting for another try.   Cost  O(#entries)

local inbox, retry, group = KEYS[1], KEYS[2], ARGV[1]
local failed = redis.call("EXISTS", retry) == 1
local n = 0
for i = 2, #ARGV do
  n = n + redis.call("XACK", inbox, group, ARGV[i])
  if failed then
    redis.call("ZREM", retry, ARGV[i])
  end
end
return {"ACKED", n}
