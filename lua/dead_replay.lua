#!lua
-- dead_replay: give dead letters back to the group that gave them up.
--
-- KEYS[1]   inbox    stream   {corp}:v1:inbox        an entry with field g is for that group alone
-- KEYS[2]   dead     stream   {corp}:v1:inbox:dead   see fail
-- ARGV[1..] letters  string   their ids in the stream of the dead
--
-- Returns  {"REPLAYED", n}  those that are no dead letters any more are left out
-- Invariant  a letter is in exactly one of the two streams.   Cost  O(#letters)

local inbox, dead = KEYS[1], KEYS[2]
local ours = { g = true, i = true, n = true, r = true, f = true }
local n = 0
for _, id in ipairs(ARGV) do
  local letter = redis.call("XRANGE", dead, id, id)[1]
  if letter then
    -- The first g is the group that gave it up; an entry that was replayed before has another one behind it.
    local fields = { "g", letter[2][2] }
    for i = 1, #letter[2], 2 do
      if not ours[letter[2][i]] then
        fields[#fields + 1] = letter[2][i]
        fields[#fields + 1] = letter[2][i + 1]
      end
    end
    redis.call("XADD", inbox, "*", unpack(fields))
    redis.call("XDEL", dead, id)
    n = n + 1
  end
end
return { "REPLAYED", n }
