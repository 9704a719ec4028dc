#!lua
-- rebuild_wipe: deletes a page of the corp's state, log included, before it is written anew.
--
-- KEYS[1]  log        stream  {corp}:v1:log   and every key that roster_state.lua and seats_state.lua list
-- ARGV[1]  generation integer of the rebuild under way
-- ARGV[2]  cursor     string  "0" to begin
-- Derived  rebuilding string  {corp}:v1:rebuilding
-- Derived  state      any     {corp}:v1:member:<m>
-- Derived  state      any     {corp}:v1:pool:<p>
-- Derived  state      any     {corp}:v1:config:<p>
-- Derived  state      any     {corp}:v1:class:<l>:<p>
-- Derived  state      any     {corp}:v1:least:<p>
-- Derived  state      any     {corp}:v1:waiting:<p>
-- Derived  state      any     {corp}:v1:open:<s>
-- Derived  state      any     {corp}:v1:request:<id>
-- Derived  state      any     {corp}:v1:past:<s>
-- Derived  state      any     {corp}:v1:gate:<c>
-- Derived  state      any     {corp}:v1:gated:<c>
-- Derived  state      any     {corp}:v1:offer:<p>
-- Derived  state      any     {corp}:v1:offered:<m>
-- Derived  state      any     {corp}:v1:drip:<p>
-- Derived  state      any     {corp}:v1:queues:<p>
-- Derived  state      any     {corp}:v1:skills:<m>
-- Derived  state      any     {corp}:v1:skill:<s>
-- Derived  state      any     {corp}:v1:slot:<id>
-- Derived  state      any     {corp}:v1:slots:<c>\31<m>
-- Derived  state      any     {corp}:v1:untold:<c>\31<m>
-- Derived  state      any     {corp}:v1:gpool:<p>
-- Derived  state      any     {corp}:v1:groups:<p>
-- Derived  state      any     {corp}:v1:gfree:<p>
-- Derived  state      any     {corp}:v1:group:<c>
-- Derived  state      any     {corp}:v1:people:<c>
-- Derived  state      any     {corp}:v1:seat:<s>
-- Derived  state      any     {corp}:v1:gheld:<c>
-- Derived  state      any     {corp}:v1:ganon:<c>
-- Derived  state      any     {corp}:v1:gwait:<p>
-- Derived  state      any     {corp}:v1:gqueues:<p>
--
-- Returns  the next cursor, "0" after the last page
-- Errors   STALE   another rebuild took over
-- Invariant  keys of other crates under the corp's prefix stay.
-- Cost     O(page)

local prefix = string.sub(KEYS[1], 1, -4)
if redis.call("GET", prefix .. "rebuilding") ~= ARGV[1] then
  return redis.error_reply("STALE another rebuild took over")
end
local families = { "member:", "pool:", "config:", "class:", "least:", "waiting:", "open:", "request:", "past:",
  "slot:", "slots:", "untold:", "offer:", "offered:", "drip:", "skills:", "queues:", "skill:", "gate:", "gated:",
  "gpool:", "groups:", "gfree:", "group:", "people:", "seat:", "gheld:", "ganon:", "gwait:", "gqueues:" }
local page = redis.call("SCAN", ARGV[2], "MATCH", prefix .. "*", "COUNT", 1000)
for _, key in ipairs(page[2]) do
  local name = string.sub(key, #prefix + 1)
  local ours = name == "corp" or name == "leases" or name == "alarms" or name == "gates" or name == "offers" or name == "holds" or name == "patience"
    or name == "gends" or name == "gpast" or name == "log"
  for _, family in ipairs(families) do
    ours = ours or string.sub(name, 1, #family) == family
  end
  if ours then redis.call("UNLINK", key) end
end
return page[1]
