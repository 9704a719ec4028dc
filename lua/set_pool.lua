#!lua
-- set_pool: makes a pool what its configuration says.
--
-- KEYS[1]   log      stream  {corp}:v1:log   the other keys: see roster_state.lua
-- ARGV[1]   now_ms   integer "" in production: the script asks TIME
-- ARGV[2]   payload  string  into the log, not read
-- ARGV[3]   pool     string
-- ARGV[4]   version  integer
-- ARGV[5]   strategy string  weighted_round_robin or least_load; then, where members are asked first, @, how long they
--                    may think, / and how many are asked; then, where those who waited are handed out slowly, ~ and in
--                    which time each member gets one; then a + where limits follow
-- ARGV[6..] members  two for each, sorted by id: member, weight in thousandths (at most 16 distinct ones above 0); with a +
--                    five: also the most at a time, in an hour and on a day, each "" for no limit
--
-- Returns  seq, now_ms, then the result, joined by 0x1f: more, n woken, five for each woken, then
--          "CHANGED" "" | "SAME" "" | "STALE" version
-- Errors   NOT_READY   the corp is closed, or was found broken and is closed now
-- Invariant  unchanged content changes no share; who stays keeps his credit, and what the removed ones were owed
--          is spread by weight, so that credits still sum to 0.
-- Cost     O(members * log members)

-- include roster_state.lua
-- include roster_pool.lua

return operation(string.find(ARGV[5], '[@+~]') and 'set_pool.2' or 'set_pool.1', {}, function()
  local id, version, content = ARGV[3], tonumber(ARGV[4]), concat(ARGV, FIELD, 5)
  local strategy = sub(ARGV[5], 1, 10) == 'least_load' and LEAST or FAIR
  local config_key, config = PREFIX .. 'config:' .. id, ARGV[4] .. FIELD .. content
  local stored_version, stored_content = stored_config(id)
  if stored_version and (version < stored_version or version == stored_version and content ~= stored_content) then
    return { 'STALE', whole(stored_version) }
  end
  if content == stored_content then
    call('SET', config_key, config)
    return { 'SAME', '' }
  end
  local former, credits, counted = {}, {}, {}
  if stored_content then former, credits, counted = vacate(id, stored_content) end
  local ids, weights, limits = members_of(content)
  load_members(ids)

  local lost, sum, distinct, classes = 0, 0, {}, {}
  for i = 1, #former do
    if not weights[former[i]] then lost = lost + credits[former[i]] end
  end
  for i = 1, #ids do
    local weight = weights[ids[i]]
    sum = sum + weight
    if strategy == FAIR and weight > 0 and not distinct[weight] then
      distinct[weight] = true
      classes[#classes + 1] = weight
    end
  end
  table.sort(classes, function(a, b) return a > b end)
  local n_waiting, queues = call('ZCARD', PREFIX .. 'waiting:' .. id), call('ZRANGE', PREFIX .. 'queues:' .. id, 0, -1)
  for i = 1, #queues do n_waiting = n_waiting + call('ZCARD', queue_key(id, queues[i])) end
  local v = { 0, 0, 0, n_waiting, strategy }
  for i = 1, #classes do
    v[#v + 1], v[#v + 2] = classes[i], huge
  end
  local accept, tries = string.match(ARGV[5], '@(%d+)/(%d+)')
  if accept then
    call('SET', PREFIX .. 'offer:' .. id, accept .. FIELD .. tries)
  else
    call('DEL', PREFIX .. 'offer:' .. id)
  end
  local p = { id = id, v = v, offers = accept ~= nil, dirty = true }
  pools[id] = p
  for i = 1, #touched do
    if touched[i].id == id then p.touched, touched[i] = true, p end
  end
  local every = string.match(ARGV[5], '~(%d+)')
  if every then
    local drip_value = call('GET', PREFIX .. 'drip:' .. id)
    p.drips, p.drip = true, { every = tonumber(every), next_at = tonumber(drip_value and string.match(drip_value, '\31(.*)$') or 0) }
    save_drip(p)
  else
    call('DEL', PREFIX .. 'drip:' .. id)
  end

  for i = 1, #ids do
    local m, weight = create(ids[i]), weights[ids[i]]
    local credit = 0 -- where nobody can be picked all start over
    if sum > 0 then credit = (credits[m.id] or 0) + lost * weight / sum end
    local l = limits[m.id]
    if l then
      local before = counted[m.id]
      if before then
        l.load, l.hour_n, l.day_n, l.since = before.load, before.hour_n, before.day_n, before.since
      else
        turn = turn + 1
        l.load, l.hour_n, l.day_n, l.since = 0, 0, 0, turn
      end
    end
    local place = { weight = weight, strategy = strategy, credit = credit, pool = id, limits = l, within = false }
    local places = parse(m)
    if l then windows_of(m) end
    places[#places + 1] = place
    count_least(m)
    m.dirty = true
    if m.windows then
      set(m, m.load, m.tie, m.cap, m.lease, m.blocked)
    elseif m.on == 1 and weight > 0 then
      enter(m, place)
      place.within = true
    end
  end
  for i = 1, #former do tidy(known(former[i])) end
  for i = 1, #ids do tidy(known(ids[i])) end
  call('SET', config_key, config)
  wake()
  return { 'CHANGED', '' }
end)
