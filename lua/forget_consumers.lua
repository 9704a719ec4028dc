#!lua
-- forget_consumers: remove the names of consumers that died long ago and hold nothing.
--
-- KEYS[1]  inbox    stream   {corp}:v1:inbox
-- ARGV[1]  group    string
-- ARGV[2]  idle_ms  integer  silent for so long
--
-- Returns  {"FORGOTTEN", n}
--          Redis itself answers NOGROUP when the group is gone
-- Invariant  a consumer with pending entries is never removed, for they would go with it.   Cost  O(#consumers)

local inbox, group, idle_ms = KEYS[1], ARGV[1], tonumber(ARGV[2])
local n = 0
for _, info in ipairs(redis.call("XINFO", "CONSUMERS", inbox, group)) do
  local fields = {}
  for i = 1, #info, 2 do
    fields[info[i]] = info[i + 1]
  end
  if fields["pending"] == 0 and fields["idle"] >= idle_ms then
    redis.call("XGROUP", "DELCONSUMER", inbox, group, fields["name"])
    n = n + 1
  end
end
return { "FORGOTTEN", n }
