-- seats_state: seats of customer groups inside one script call. The loader puts this file in the place of the line
-- "include seats_state.lua" of every script that changes seats; allocation::model::seats is the same in Rust and the place
-- to read the rules.
--
-- KEYS[1] is the corp's log, {corp}:v1:log; all other keys are derived from it:
--   ready             string  generation of the state; absent: closed
--   corp              packed  seq, time of the last operation, earliest lease end or alarm, turns; see roster_state.lua
--   gpool:<p>         text    a group pool: version, strategy, free seats of its available groups, number of those who wait;
--                             only the version when it was removed
--   groups:<p>        zset    its groups -> 0
--   gfree:<p>         zset    its available groups, the next one first: 16 digits that decide between those of one score,
--                             and the group -> rank, turn of the last pick, or share taken
--   gfree:<p>\31<tag> zset    the same, of those with a tag
--   group:<c>         text    a group: version, pool, rank, scan cap, buffer, tags, open, version at WeCom or "", people,
--                             held, turn of the last pick; only the version when it was removed
--   people:<c>        hash    who is in it -> "" | "?" until a read says who it is, "~" if only one that may be old
--                             says that he is in it | whose seat it is
--   seat:<s>          text    the seat of a campaign's visitor (campaign, 0x1f, subject):
--                             H, id, group, anonymous, way, end, turn | W, id, pool, anonymous, way, end, turn, tags, how long
--                             it will be held | C or L, id, group, person | E, id, group, end
--   gheld:<c>         zset    held seats of a group -> turn
--   ganon:<c>         zset    those of them that nothing names -> turn
--   ganon:<c>\31<via> zset    the same, of those who were shown one way
--   gwait:<p>\31<tags> zset   those who wait for a group with one of these tags -> turn
--   gqueues:<p>       zset    tags of which there is a queue -> 0
--   gends             zset    held seats -> end
--   gpast             zset    places in the waiting room and memories -> end
--
-- Nothing of members and their pools is read or written, and no presence lease is ended: the third number of `corp` stays.

local call, pack, unpack_struct = redis.call, struct.pack, struct.unpack
local sub, match, format, concat = string.sub, string.match, string.format, table.concat
local PREFIX = sub(KEYS[1], 1, -4)
local FIELD, ITEM, PENDING, DOUBTED = '\31', '\26', '?', '~'
local TIE_DIGITS = 16

local now, seq, lease, turn
local pools, groups, seats = {}, {}, {}
local ends, pasts = {}, {} -- new ends of holds, of places and memories; false: none any more
local touched = {} -- pools in which there is more room than before, or which were asked about
local woken, lapsed = {}, {}
local wake_left, lapses_left = 64, 256

local function broken(what)
  error({ err = 'NOT_READY ' .. what })
end

local function whole(number)
  return format('%d', number)
end

local function split(text, separator)
  local list, from = {}, 1
  while true do
    local at = string.find(text, separator, from, true)
    if not at then
      list[#list + 1] = sub(text, from)
      return list
    end
    list[#list + 1] = sub(text, from, at - 1)
    from = at + 1
  end
end

local function load_pool(id, value)
  local p = false
  if value then
    local version, strategy, free, waiting = match(value, '^(%d+)\31([^\31]*)\31(%d+)\31(%d+)$')
    if version then
      p = { id = id, version = tonumber(version), strategy = strategy, free = tonumber(free), waiting = tonumber(waiting), first = {} }
    elseif not tonumber(value) then
      broken('pool ' .. id .. ' cannot be read')
    end
  end
  pools[id] = p
  return p
end

local function pool(id)
  local p = pools[id]
  if p == nil then p = load_pool(id, call('GET', PREFIX .. 'gpool:' .. id)) end
  return p
end

local function touch(p)
  if not p.touched then
    p.touched = true
    touched[#touched + 1] = p
  end
end

-- Seats that may be given away.
local function free_of(g)
  if not g.open or g.seen == '' then return 0 end
  return math.max(0, g.cap - g.buffer - g.people - g.held)
end

-- Its place in the orders of its pool.
local function place_of(g, p)
  if p.strategy == 'least_filled' then
    return (g.people + g.held) / (g.cap - g.buffer), format('%016d', g.picked) .. g.id
  end
  return p.strategy == 'spread' and g.picked or g.rank, '0000000000000000' .. g.id
end

local function pool_of(g)
  return pool(g.pool) or broken('pool ' .. g.pool .. ' is missing')
end

local function group(id)
  local g = groups[id]
  if g == nil then
    local value = call('GET', PREFIX .. 'group:' .. id)
    local version, of, rank, cap, buffer, tags, open, seen, people, held, picked = match(value or '',
      '^(%d+)\31([^\31]*)\31(%d+)\31(%d+)\31(%d+)\31([^\31]*)\31(1?)\31([^\31]*)\31(%d+)\31(%d+)\31(%d+)$')
    g = false
    if version then
      g = { id = id, version = tonumber(version), pool = of, rank = tonumber(rank), cap = tonumber(cap), buffer = tonumber(buffer),
        tags = tags == '' and {} or split(tags, ITEM), tags_text = tags, open = open == '1', seen = seen, people = tonumber(people),
        held = tonumber(held), picked = tonumber(picked) }
      g.free = free_of(g)
      if g.free > 0 then g.score, g.name = place_of(g, pool_of(g)) end
    elseif value and not tonumber(value) then
      broken('group ' .. id .. ' cannot be read')
    end
    groups[id] = g
  end
  return g
end

local function known_group(id)
  return group(id) or broken('group ' .. id .. ' is missing')
end

local function out_of_orders(g)
  local key = PREFIX .. 'gfree:' .. g.pool
  if call('ZREM', key, g.name) == 0 then broken(g.id .. ' is not in ' .. g.pool) end
  for i = 1, #g.tags do call('ZREM', key .. FIELD .. g.tags[i], g.name) end
  g.name = nil
end

-- Its numbers changed: it stands where they say. More room than before may be somebody's who waits.
local function settle(g)
  local p, free = pool_of(g), free_of(g)
  local score, name
  if free > 0 then score, name = place_of(g, p) end
  if g.name and g.name ~= name then out_of_orders(g) end
  if name and (g.name ~= name or g.score ~= score) then
    local key = PREFIX .. 'gfree:' .. g.pool
    call('ZADD', key, score, name)
    for i = 1, #g.tags do call('ZADD', key .. FIELD .. g.tags[i], score, name) end
  end
  if free ~= g.free then
    p.free, p.dirty = p.free + free - g.free, true
    if free > g.free then touch(p) end
  end
  if g.name ~= name or g.score ~= score then p.first = {} end
  g.free, g.score, g.name, g.dirty = free, score, name, true
end

-- Its pool, tags or strategy are about to change, or it goes.
local function leave_orders(g)
  local p = pool_of(g)
  if g.name then out_of_orders(g) end
  p.free, p.dirty, p.first = p.free - g.free, true, {}
  g.free = 0
end

-- The first available group of a pool, or of those with a tag; false: there is none.
local function first_of(p, tag)
  local first = p.first[tag]
  if first == nil then
    local name = call('ZRANGE', PREFIX .. 'gfree:' .. p.id .. (tag == '' and '' or FIELD .. tag), 0, 0)[1]
    first = name and sub(name, TIE_DIGITS + 1) or false
    if not first and tag == '' and p.free > 0 then broken('free groups of ' .. p.id .. ' are missing') end
    p.first[tag] = first
  end
  return first
end

-- The group that is shown next to somebody with these wishes; a wish without name is for any.
local function choose_group(p, wishes)
  for i = 1, #wishes do
    local first = first_of(p, wishes[i])
    if first then return first end
  end
end

local function load_seat(name, value)
  local s = false
  if value then
    local f = split(value, FIELD)
    local kind = f[1]
    if kind == 'H' then
      s = { kind = kind, id = f[2], group = f[3], anonymous = f[4], via = f[5], ends = tonumber(f[6]), turn = tonumber(f[7]) }
    elseif kind == 'W' then
      s = { kind = kind, id = f[2], pool = f[3], anonymous = f[4], via = f[5], ends = tonumber(f[6]), turn = tonumber(f[7]),
        tags = f[8], hold = tonumber(f[9]) }
    elseif kind == 'C' or kind == 'L' then
      s = { kind = kind, id = f[2], group = f[3], person = f[4] }
    elseif kind == 'E' then
      s = { kind = kind, id = f[2], group = f[3], ends = tonumber(f[4]) }
    else
      broken('seat ' .. name .. ' cannot be read')
    end
  end
  seats[name] = s
  return s
end

local function seat(name)
  local s = seats[name]
  if s == nil then s = load_seat(name, call('GET', PREFIX .. 'seat:' .. name)) end
  return s
end

local function seat_value(s)
  if s.kind == 'H' then
    return concat({ 'H', s.id, s.group, s.anonymous, s.via, whole(s.ends), whole(s.turn) }, FIELD)
  elseif s.kind == 'W' then
    return concat({ 'W', s.id, s.pool, s.anonymous, s.via, whole(s.ends), whole(s.turn), s.tags, whole(s.hold) }, FIELD)
  elseif s.kind == 'E' then
    return concat({ 'E', s.id, s.group, whole(s.ends) }, FIELD)
  end
  return concat({ s.kind, s.id, s.group, s.person }, FIELD)
end

local STATES = { H = 'HELD', W = 'WAITING', C = 'CONFIRMED', L = 'LATE', E = 'EXPIRED' }

-- Four fields of a seat that is no more.
local function add_ended(list, s, name)
  local n = #list
  local campaign, subject = match(name, '^([^\31]*)\31(.*)$')
  list[n + 1], list[n + 2], list[n + 3], list[n + 4] = s.id, campaign, subject, STATES[s.kind]
end

local function put_seat(name, s)
  s.dirty = true
  seats[name] = s
end

local function drop_seat(name)
  seats[name] = { gone = true, dirty = true }
end

-- As `seat`, and one that went in this call is none.
local function seat_now(name)
  local s = seat(name)
  return s and not s.gone and s
end

-- A hold can be found by its group and, if nothing names it, by the way that was shown.
local function know(name, s)
  call('ZADD', PREFIX .. 'gheld:' .. s.group, s.turn, name)
  if s.anonymous == '1' then
    local key = PREFIX .. 'ganon:' .. s.group
    call('ZADD', key, s.turn, name)
    if s.via ~= '' then call('ZADD', key .. FIELD .. s.via, s.turn, name) end
  end
end

local function unknow(name, s)
  if call('ZREM', PREFIX .. 'gheld:' .. s.group, name) == 0 then broken(name .. ' is not held in ' .. s.group) end
  if s.anonymous == '1' then
    local key = PREFIX .. 'ganon:' .. s.group
    call('ZREM', key, name)
    if s.via ~= '' then call('ZREM', key .. FIELD .. s.via, name) end
  end
end

-- Gives a seat of the group away. Answers when the hold ends.
local function hold(name, id, group_id, anonymous, via, lasts)
  turn = turn + 1
  local g = known_group(group_id)
  g.held, g.picked = g.held + 1, turn
  settle(g)
  local s = { kind = 'H', id = id, group = group_id, anonymous = anonymous, via = via, ends = now + lasts, turn = turn }
  ends[name] = s.ends
  know(name, s)
  put_seat(name, s)
  return s.ends
end

-- Takes a hold away; what becomes of the seat is the caller's. `later`: the caller settles its group.
local function unhold(name, s, later)
  ends[name] = false
  unknow(name, s)
  local g = known_group(s.group)
  if g.held < 1 then broken('holds of ' .. g.id .. ' are below zero') end
  g.held = g.held - 1
  if not later then settle(g) end
end

-- include seats_waiting.lua

-- Writes changed ends: some at a time, a Lua call takes some 8,000 arguments.
local function write_ends(key, changed)
  local add, remove = { 'ZADD', key }, { 'ZREM', key }
  local function write(args)
    if #args > 2 then call(unpack(args)) end
    for i = #args, 3, -1 do args[i] = nil end
  end
  for name, at in pairs(changed) do
    if at then
      local n = #add
      add[n + 1], add[n + 2] = at, name
    else
      remove[#remove + 1] = name
    end
    if #add > 4000 then write(add) end
    if #remove > 4000 then write(remove) end
  end
  write(add)
  write(remove)
end

-- Writes what changed, and the operation into the log. Answers sequence number, time and result.
local function finish(fields)
  local set_args, del_args = { 'MSET' }, { 'DEL' }
  local function put(key, value)
    local args = value and set_args or del_args
    args[#args + 1] = PREFIX .. key
    if value then args[#args + 1] = value end
    if #args > 4000 then
      call(unpack(args))
      for i = #args, 2, -1 do args[i] = nil end
    end
  end
  for id, p in pairs(pools) do
    if p and p.dirty then
      if p.free < 0 or p.waiting < 0 then broken('numbers of pool ' .. id .. ' are below zero') end
      put('gpool:' .. id, concat({ whole(p.version), p.strategy, whole(p.free), whole(p.waiting) }, FIELD))
    end
  end
  for id, g in pairs(groups) do
    if g and g.dirty then
      put('group:' .. id, concat({ whole(g.version), g.pool, whole(g.rank), whole(g.cap), whole(g.buffer), g.tags_text,
        g.open and '1' or '', g.seen, whole(g.people), whole(g.held), whole(g.picked) }, FIELD))
    end
  end
  for s_name, s in pairs(seats) do
    if s and s.dirty then put('seat:' .. s_name, not s.gone and seat_value(s) or nil) end
  end
  write_ends(PREFIX .. 'gends', ends)
  write_ends(PREFIX .. 'gpast', pasts)
  seq = seq + 1
  put('corp', pack('<dddd', seq, now, lease, turn))
  if #set_args > 1 then call(unpack(set_args)) end
  if #del_args > 1 then call(unpack(del_args)) end
  local more = '0'
  for i = 1, #touched do
    if next_queue(touched[i]) then more = '1' end
  end
  local result = more .. FIELD .. '0' .. FIELD .. #woken / 5
  if #woken > 0 then result = result .. FIELD .. concat(woken, FIELD) end
  result = result .. FIELD .. #lapsed / 4
  if #lapsed > 0 then result = result .. FIELD .. concat(lapsed, FIELD) end
  if #fields > 0 then result = result .. FIELD .. concat(fields, FIELD) end
  return result
end

-- No lease ends here.
local function before() end

-- include corp_operation.lua
