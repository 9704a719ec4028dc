#!lua
-- remove_group_pool: takes away a group pool that has no groups any more.
--
-- KEYS[1]  log      stream  {corp}:v1:log   the other keys: see seats_state.lua
-- ARGV[1]  now_ms   integer "" in production: the script asks TIME
-- ARGV[2]  payload  string  into the log, not read
-- ARGV[3]  pool     string
-- ARGV[4]  version  integer
--
-- Returns  seq, now_ms, then the result, joined by 0x1f: more, 0, n woken, five for each woken, n lapsed, four for each
--          lapsed, then "CHANGED" "" | "UNKNOWN" "" | "STALE" version | "IN_USE" ""
-- Errors   NOT_READY   the corp is closed, or was found broken and is closed now
-- Invariant  every group has its pool; who waits for a pool that is gone waits for one of that name to come.
-- Cost     O(1)

-- include seats_state.lua

return operation('remove_group_pool.1', {}, function()
  local id, version = ARGV[3], tonumber(ARGV[4])
  local p = pool(id)
  if not p then return { 'UNKNOWN', '' } end
  if version < p.version then return { 'STALE', whole(p.version) } end
  if call('EXISTS', PREFIX .. 'groups:' .. id) == 1 then return { 'IN_USE', '' } end
  pools[id] = false
  call('SET', PREFIX .. 'gpool:' .. id, whole(version))
  return { 'CHANGED', '' }
end)
