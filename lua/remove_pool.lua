#!lua
-- remove_pool: everybody leaves the pool, and it is no more.
--
-- KEYS[1]  log      stream  {corp}:v1:log   the other keys: see roster_state.lua
-- ARGV[1]  now_ms   integer "" in production: the script asks TIME
-- ARGV[2]  payload  string  into the log, not read
-- ARGV[3]  pool     string
-- ARGV[4]  version  integer not below the pool's
--
-- Returns  seq, now_ms, then the result, joined by 0x1f: more, n woken, five for each woken, then
--          "CHANGED" "" | "UNKNOWN" "" | "STALE" version
-- Errors   NOT_READY   the corp is closed, or was found broken and is closed now
-- Invariant  open allocations and the waiting list stay: nobody is lost by it. An older configuration does not bring
--          the pool back.
-- Cost     O(members)

-- include roster_state.lua
-- include roster_pool.lua

return operation('remove_pool.1', {}, function()
  local id, version = ARGV[3], tonumber(ARGV[4])
  local stored_version, stored_content = stored_config(id)
  if not stored_content then return { 'UNKNOWN', '' } end
  if version < stored_version then return { 'STALE', whole(stored_version) } end
  local former = vacate(id, stored_content)
  for i = 1, #former do tidy(known(former[i])) end
  pools[id] = false
  call('DEL', PREFIX .. 'pool:' .. id, PREFIX .. 'offer:' .. id, PREFIX .. 'drip:' .. id)
  call('SET', PREFIX .. 'config:' .. id, ARGV[4])
  return { 'CHANGED', '' }
end)
