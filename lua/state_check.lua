#!lua
-- state_check: closes the corp unless its state is of this generation and not behind the ledger.
--
-- KEYS[1]  log        stream  {corp}:v1:log
-- ARGV[1]  generation integer the ledger's
-- ARGV[2]  seq        integer the last one the ledger has
-- Derived  ready      string  {corp}:v1:ready
-- Derived  corp       packed  {corp}:v1:corp
--
-- Returns  1 = open | 0 = closed
-- Invariant  a state that lost its tail decides nothing more; one of a newer generation than the caller's is left alone.
-- Cost     O(1)

local prefix = string.sub(KEYS[1], 1, -4)
local ready = prefix .. "ready"
local values = redis.call("MGET", ready, prefix .. "corp")
local generation = tonumber(values[1])
if not generation then return 0 end
if generation > tonumber(ARGV[1]) then return 0 end
local seq = values[2] and struct.unpack("<d", values[2]) or -1
if generation == tonumber(ARGV[1]) and seq >= tonumber(ARGV[2]) then return 1 end
redis.call("DEL", ready)
return 0
