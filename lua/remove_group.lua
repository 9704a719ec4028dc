#!lua
-- remove_group: a group was dismissed, or is no longer ours to fill; its people and seats end.
--
-- KEYS[1]  log      stream  {corp}:v1:log   the other keys: see seats_state.lua
-- ARGV[1]  now_ms   integer "" in production: the script asks TIME
-- ARGV[2]  payload  string  into the log, not read
-- ARGV[3]  group    string
-- ARGV[4]  version  integer
--
-- Returns  seq, now_ms, then the result, joined by 0x1f: more, 0, n woken, five for each woken, n lapsed, four for each
--          lapsed, then "CHANGED" "" | "UNKNOWN" "" | "STALE" version, then four for each seat that ended: seat, campaign,
--          subject, what it was
-- Errors   NOT_READY   the corp is closed, or was found broken and is closed now
-- Invariant  nobody has a seat in a group that is not there.
-- Cost     O(people + held): a group has a few hundred

-- include seats_state.lua

return operation('remove_group.1', {}, function()
  local id, version = ARGV[3], tonumber(ARGV[4])
  local g = group(id)
  if not g then return { 'UNKNOWN', '' } end
  if version < g.version then return { 'STALE', whole(g.version) } end
  leave_orders(g)
  call('ZREM', PREFIX .. 'groups:' .. g.pool, id)
  local out = { 'CHANGED', '' }
  local held = call('ZRANGE', PREFIX .. 'gheld:' .. id, 0, -1)
  for i = 1, #held do
    local s = seat_now(held[i]) or broken(held[i] .. ' is missing')
    unhold(held[i], s, true)
    add_ended(out, s, held[i])
    drop_seat(held[i])
  end
  local people, persons, names = call('HGETALL', PREFIX .. 'people:' .. id), {}, {}
  if #people ~= 2 * g.people then broken('people of ' .. id .. ' are missing') end
  for i = 1, #people, 2 do
    if people[i + 1] ~= '' and people[i + 1] ~= PENDING and people[i + 1] ~= DOUBTED then
      persons[#persons + 1] = people[i]
      names[people[i]] = people[i + 1]
    end
  end
  table.sort(persons)
  for i = 1, #persons do
    local name = names[persons[i]]
    add_ended(out, seat_now(name) or broken(name .. ' is missing'), name)
    drop_seat(name)
  end
  groups[id] = false
  call('DEL', PREFIX .. 'people:' .. id)
  call('SET', PREFIX .. 'group:' .. id, whole(version))
  return out
end)
