#!lua
-- set_group: makes a group what its configuration says.
--
-- KEYS[1]  log      stream  {corp}:v1:log   the other keys: see seats_state.lua
-- ARGV[1]  now_ms   integer "" in production: the script asks TIME
-- ARGV[2]  payload  string  into the log, not read
-- ARGV[3]  group    string
-- ARGV[4]  version  integer
-- ARGV[5]  pool     string
-- ARGV[6]  rank     integer the lowest is filled first, where the pool fills one after the other
-- ARGV[7]  scan_cap integer
-- ARGV[8]  buffer   integer
-- ARGV[9]  tags     string  joined by 0x1a, sorted
-- ARGV[10] open     string  "1", or "" where nobody may be shown it
--
-- Returns  seq, now_ms, then the result, joined by 0x1f: more, 0, n woken, five for each woken, n lapsed, four for each
--          lapsed, then "CHANGED" "" | "SAME" "" | "STALE" version | "NO_POOL" "" | "FULL" ""
-- Errors   NOT_READY   the corp is closed, or was found broken and is closed now
-- Invariant  people and holds of a group stay whatever it is told to be; an older configuration changes nothing, nor does it
--          bring a removed group back.
-- Cost     O(tags * log groups + woken * (queues + tags * log groups))

-- include seats_state.lua

local MOST_GROUPS = 10000

return operation('set_group.1', {}, function()
  local id, version, p_id, rank, cap, buffer, tags, open =
    ARGV[3], tonumber(ARGV[4]), ARGV[5], tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8]), ARGV[9], ARGV[10] == '1'
  local g = group(id)
  local stored = g and g.version or tonumber(call('GET', PREFIX .. 'group:' .. id) or nil)
  local same = g and g.pool == p_id and g.rank == rank and g.cap == cap and g.buffer == buffer and g.tags_text == tags and g.open == open
  if stored and (version < stored or version == stored and not same) then return { 'STALE', whole(stored) } end
  if same then
    g.version, g.dirty = version, true
    return { 'SAME', '' }
  end
  if not pool(p_id) then return { 'NO_POOL', '' } end
  if not (g and g.pool == p_id) and call('ZCARD', PREFIX .. 'groups:' .. p_id) >= MOST_GROUPS then return { 'FULL', '' } end
  if g then
    leave_orders(g)
    call('ZREM', PREFIX .. 'groups:' .. g.pool, id)
  else
    g = { id = id, seen = '', people = 0, held = 0, picked = 0, free = 0 }
    groups[id] = g
  end
  g.version, g.pool, g.rank, g.cap, g.buffer, g.open = version, p_id, rank, cap, buffer, open
  g.tags_text, g.tags = tags, tags == '' and {} or split(tags, ITEM)
  call('ZADD', PREFIX .. 'groups:' .. p_id, 0, id)
  settle(g)
  wake()
  return { 'CHANGED', '' }
end)
