#!lua flags=no-writes
-- state_scan: a page of the corp's state, for comparing and looking.
--
-- KEYS[1]  log      stream  {corp}:v1:log   and every key that roster_state.lua and seats_state.lua list
-- ARGV[1]  cursor   string  "0" to begin
-- Derived  leases   zset    {corp}:v1:leases
-- Derived  texts    string  {corp}:v1:member:<m>
-- Derived  texts    string  {corp}:v1:pool:<p>
-- Derived  texts    string  {corp}:v1:config:<p>
-- Derived  texts    string  {corp}:v1:open:<s>
-- Derived  texts    string  {corp}:v1:request:<id>
-- Derived  texts    string  {corp}:v1:past:<s>
-- Derived  texts    string  {corp}:v1:slot:<id>
-- Derived  holds    zset    {corp}:v1:holds
-- Derived  alarms   zset    {corp}:v1:alarms
-- Derived  gates    zset    {corp}:v1:gates
-- Derived  texts    string  {corp}:v1:gate:<c>
-- Derived  sets     zset    {corp}:v1:gated:<c>
-- Derived  offers   zset    {corp}:v1:offers
-- Derived  texts    string  {corp}:v1:offer:<p>
-- Derived  patience zset    {corp}:v1:patience
-- Derived  texts    string  {corp}:v1:drip:<p>
-- Derived  texts    string  {corp}:v1:skills:<m>
-- Derived  sets     zset    {corp}:v1:offered:<m>
-- Derived  sets     zset    {corp}:v1:queues:<p>
-- Derived  sets     zset    {corp}:v1:skill:<s>
-- Derived  sets     zset    {corp}:v1:class:<l>:<p>
-- Derived  sets     zset    {corp}:v1:least:<p>
-- Derived  sets     zset    {corp}:v1:waiting:<p>
-- Derived  sets     zset    {corp}:v1:slots:<c>\31<m>
-- Derived  sets     zset    {corp}:v1:untold:<c>\31<m>
-- Derived  texts    string  {corp}:v1:gpool:<p>
-- Derived  texts    string  {corp}:v1:group:<c>
-- Derived  texts    string  {corp}:v1:seat:<s>
-- Derived  sets     zset    {corp}:v1:groups:<p>
-- Derived  sets     zset    {corp}:v1:gfree:<p>
-- Derived  sets     zset    {corp}:v1:gheld:<c>
-- Derived  sets     zset    {corp}:v1:ganon:<c>
-- Derived  sets     zset    {corp}:v1:gwait:<p>
-- Derived  sets     zset    {corp}:v1:gqueues:<p>
-- Derived  gends    zset    {corp}:v1:gends
-- Derived  gpast    zset    {corp}:v1:gpast
-- Derived  hashes   hash    {corp}:v1:people:<c>
--
-- Returns  {cursor, {{name, value}, …}, {{name, {member, score, …}}, …}, {{name, {field, value, …}}, …}}   cursor "0" after the last page
-- Invariant  the log, `ready` and `rebuilding` are not part of it, nor are keys of other crates.
-- Cost     O(page and what it holds)

local prefix = string.sub(KEYS[1], 1, -4)
local texts = { "member:", "pool:", "config:", "open:", "request:", "past:", "slot:", "offer:", "drip:", "skills:", "gate:",
  "gpool:", "group:", "seat:" }
local sets = { "class:", "least:", "waiting:", "slots:", "untold:", "offered:", "queues:", "skill:", "gated:",
  "groups:", "gfree:", "gheld:", "ganon:", "gwait:", "gqueues:" }
local single = { leases = true, alarms = true, gates = true, offers = true, holds = true, patience = true, gends = true, gpast = true }
local function one_of(name, families)
  for _, family in ipairs(families) do
    if string.sub(name, 1, #family) == family then return true end
  end
  return false
end
local page = redis.call("SCAN", ARGV[1], "MATCH", prefix .. "*", "COUNT", 1000)
local strings, sorted, hashes = {}, {}, {}
for _, key in ipairs(page[2]) do
  local name = string.sub(key, #prefix + 1)
  if name == "corp" or one_of(name, texts) then
    local value = redis.call("GET", key)
    if value then strings[#strings + 1] = { name, value } end
  elseif single[name] or one_of(name, sets) then
    sorted[#sorted + 1] = { name, redis.call("ZRANGE", key, 0, -1, "WITHSCORES") }
  elseif one_of(name, { "people:" }) then
    hashes[#hashes + 1] = { name, redis.call("HGETALL", key) }
  end
end
return { page[1], strings, sorted, hashes }
