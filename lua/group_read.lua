#!lua flags=no-writes
-- group_read: a group and who is in it, as of one moment.
--
-- KEYS[1]  log      stream  {corp}:v1:log   the other keys: see seats_state.lua
-- ARGV[1]  group    string
-- Derived  group    text    {corp}:v1:group:<c>
-- Derived  people   hash    {corp}:v1:people:<c>
--
-- Returns  {group or nil, {person, what is known of him, …}}
-- Invariant  the people are those of the version that the group names.
-- Cost     O(people)

local prefix = string.sub(KEYS[1], 1, -4)
local group = redis.call("GET", prefix .. "group:" .. ARGV[1])
return { group, redis.call("HGETALL", prefix .. "people:" .. ARGV[1]) }
