#!lua
-- set_skills: what a member can do, all of it.
--
-- KEYS[1]   log      stream  {corp}:v1:log   the other keys: see roster_state.lua and roster_route.lua
-- ARGV[1]   now_ms   integer "" in production: the script asks TIME
-- ARGV[2]   payload  string  into the log, not read
-- ARGV[3]   member   string
-- ARGV[4..] skills   string  sorted
--
-- Returns  seq, now_ms, then the result, joined by 0x1f: more, n woken, five for each woken, then "CHANGED" | "SAME"
-- Errors   NOT_READY   the corp is closed, or was found broken and is closed now
-- Invariant  what he was given before stays with him; who waits for what he can do now may come to him at once.
-- Cost     O(skills + woken * log members)

-- include roster_state.lua

return operation('set_skills.1', {}, function()
  local id, key = ARGV[3], PREFIX .. 'skills:' .. ARGV[3]
  local before, after = call('GET', key) or '', concat(ARGV, FIELD, 4)
  if before == after then return { 'SAME' } end
  for skill in string.gmatch(before, '[^\31]+') do call('ZREM', PREFIX .. 'skill:' .. skill, id) end
  for i = 4, #ARGV do call('ZADD', PREFIX .. 'skill:' .. ARGV[i], 0, id) end
  if after == '' then call('DEL', key) else call('SET', key, after) end
  local m = member(id)
  local places = m and parse(m) or {}
  for i = 1, #places do
    local p = places[i].within and pool(places[i].pool)
    if p and p.v[WAITING] > 0 then touch(p) end
  end
  wake()
  return { 'CHANGED' }
end)
