#!lua
-- set_group_pool: makes a group pool what its configuration says.
--
-- KEYS[1]  log      stream  {corp}:v1:log   the other keys: see seats_state.lua
-- ARGV[1]  now_ms   integer "" in production: the script asks TIME
-- ARGV[2]  payload  string  into the log, not read
-- ARGV[3]  pool     string
-- ARGV[4]  version  integer
-- ARGV[5]  strategy string  fill_first, spread or least_filled
--
-- Returns  seq, now_ms, then the result, joined by 0x1f: more, 0, n woken, five for each woken, n lapsed, four for each
--          lapsed, then "CHANGED" "" | "SAME" "" | "STALE" version
-- Errors   NOT_READY   the corp is closed, or was found broken and is closed now
-- Invariant  an older configuration changes nothing, nor does it bring a removed pool back.
-- Cost     O(available groups * tags * log groups) when the strategy changes

-- include seats_state.lua

return operation('set_group_pool.1', {}, function()
  local id, version, strategy = ARGV[3], tonumber(ARGV[4]), ARGV[5]
  local value = call('GET', PREFIX .. 'gpool:' .. id)
  local p = load_pool(id, value)
  if not p then
    if value and version <= tonumber(value) then return { 'STALE', value } end
    local waiting, tags = 0, call('ZRANGE', PREFIX .. 'gqueues:' .. id, 0, -1)
    for i = 1, #tags do waiting = waiting + call('ZCARD', queue_key(id, tags[i])) end
    pools[id] = { id = id, version = version, strategy = strategy, free = 0, waiting = waiting, first = {}, dirty = true }
    return { 'CHANGED', '' }
  end
  if version < p.version or version == p.version and strategy ~= p.strategy then return { 'STALE', whole(p.version) } end
  p.version, p.dirty = version, true
  if strategy == p.strategy then return { 'SAME', '' } end
  local names, list = call('ZRANGE', PREFIX .. 'gfree:' .. id, 0, -1), {}
  for i = 1, #names do
    list[i] = known_group(sub(names[i], TIE_DIGITS + 1))
    out_of_orders(list[i])
  end
  p.strategy = strategy
  for i = 1, #list do settle(list[i]) end
  return { 'CHANGED', '' }
end)
