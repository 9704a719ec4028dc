-- roster_state: the corp's state inside one script call. The loader puts this file in the place of the line
-- "include roster_state.lua" of every script that changes that state; allocation::model is the same in Rust, and
-- both do the same arithmetic in the same order, so that their bytes agree.
--
-- KEYS[1] is the corp's log, {corp}:v1:log; all other keys are derived from it:
--   ready        string  generation of the state; absent: closed
--   corp         packed  seq, time of the last operation, earliest lease end or alarm, turns
--   leases       zset    member -> end of his presence lease
--   alarms       zset    member -> end of a window that keeps him out of pools, see roster_limits.lua
--   member:<m>   packed  load, tie, cap, number of least-load pools, weight in the last of them, lease, on; blocked;
--                        per pool weight, strategy, credit, id; with windows more, see roster_limits.lua
--   pool:<p>     packed  base, count, sum, waiting, strategy; per class weight, head score
--   config:<p>   text    version, strategy, members and weights; only the version when the pool was removed
--   class:<l>:<p> zset   members of one weight who can be picked -> picks, in virtual terms; a letter for each weight,
--                        'a' for the largest
--   least:<p>    zset    8 bytes of tie and the member -> load / weight
--   waiting:<p>  zset    subject -> turn
--   open:<s>     text    allocations of a subject: id, pool, member or "", holder or "", epoch, settled; of a visit
--                        more, see roster_visits.lua, where the keys of visits are listed, too
--   request:<id> text    time and answer
--
-- Fair pools. Virtual time V = base + count / sum moves 1 / sum (the sum of weights of all who can be picked) with
-- every pick. A member's credit is weight * V - score; a pick adds exactly 1 to his score. See model/pool.rs.

local call, pack, unpack_struct = redis.call, struct.pack, struct.unpack
local sub, rep, concat, huge = string.sub, string.rep, table.concat, math.huge
local PREFIX = sub(KEYS[1], 1, -4)
local FIELD, RECORD = '\31', '\30'
local BASE, COUNT, SUM, WAITING, STRATEGY = 1, 2, 3, 4, 5 -- then weight and head score of each class
local FAIR, LEAST, OFFERS = 1, 2, 10 -- OFFERS is added where members are asked first
-- Ties: whoever was picked at turn t has TIE + t; a newcomer of turn t, never picked, TIE - t.
local TIE = 4503599627370496

local now, seq, lease, turn
local members, pools, opens, requests = {}, {}, {}, {}
local touched = {} -- pools whose waiting list may have found a member
local woken = {}
local ends_left, wake_left, leases_changed, alarms_changed = 512, 64, false, false

-- include roster_choose.lua

local function broken(what)
  error({ err = 'NOT_READY ' .. what })
end

local function whole(number)
  return string.format('%d', number)
end

local function load_pool(id, value)
  local p = false
  if value then
    local v = { unpack_struct('<' .. rep('d', #value / 8), value) }
    v[#v] = nil
    p = { id = id, v = v, offers = v[STRATEGY] > OFFERS }
    if p.offers then v[STRATEGY] = v[STRATEGY] - OFFERS end
  end
  pools[id] = p
  return p
end

local function pool(id)
  local p = pools[id]
  if p == nil then p = load_pool(id, call('GET', PREFIX .. 'pool:' .. id)) end
  return p
end

-- include roster_limits.lua
-- include roster_offers.lua

local function load_member(id, value)
  local m = false
  if value then
    local load, tie, cap, n_least, least_weight, lease_end, on = unpack_struct('<ddddddd', value)
    m = { id = id, load = load, tie = tie, cap = cap, lease = lease_end, on = on, n_least = n_least, least_weight = least_weight,
      tail = sub(value, 57) }
    if string.byte(value, 57) == 1 then parse(m) end
  end
  members[id] = m
  return m
end

local function member(id)
  local m = members[id]
  if m == nil then m = load_member(id, call('GET', PREFIX .. 'member:' .. id)) end
  return m
end

local function known(id)
  return member(id) or broken('member ' .. id .. ' is missing')
end

local function create(id)
  local m = member(id)
  if m then return m end
  turn = turn + 1
  m = { id = id, load = 0, tie = TIE - turn, cap = huge, lease = 0, on = 0, n_least = 0, least_weight = 0, blocked = '', places = {}, dirty = true }
  members[id] = m
  return m
end

-- The set of the class that stands at v[i].
local function class_key(i, id)
  local letter = (i - 4) / 2
  return PREFIX .. 'class:' .. sub('abcdefghijklmnop', letter, letter) .. ':' .. id
end

local function least_name(m)
  return pack('>I8', m.tie) .. m.id
end

local function touch(p)
  if not p.touched then
    p.touched = true
    touched[#touched + 1] = p
  end
end

-- Puts the count into the base: the sum is about to change.
local function fold(v)
  if v[COUNT] > 0 then
    v[BASE] = v[BASE] + v[COUNT] / v[SUM]
    v[COUNT] = 0
  end
end

local function class_of(v, weight)
  for i = 6, #v, 2 do
    if v[i] == weight then return i end
  end
  broken('no class of weight ' .. whole(weight))
end

-- The member cannot be picked here any more; what he is owed stays with him.
local function leave(m, place)
  local p = pool(place.pool) or broken('pool ' .. place.pool .. ' is missing')
  local v = p.v
  if v[STRATEGY] == LEAST then
    if call('ZREM', PREFIX .. 'least:' .. p.id, least_name(m)) == 0 then broken(m.id .. ' is not in ' .. p.id) end
    v[SUM] = v[SUM] - place.weight
  else
    fold(v)
    local i = class_of(v, place.weight)
    local key = class_key(i, p.id)
    local score = tonumber(call('ZSCORE', key, m.id) or broken(m.id .. ' is not in ' .. p.id))
    call('ZREM', key, m.id)
    place.credit = place.weight * v[BASE] - score
    v[SUM] = v[SUM] - place.weight
    if score == v[i + 1] then
      v[i + 1] = tonumber(call('ZRANGE', key, 0, 0, 'WITHSCORES')[2] or huge)
    end
    if v[SUM] == 0 then v[BASE] = 0 end -- nobody is left: virtual time may start over
  end
  p.dirty = true
end

local function enter(m, place)
  local p = pool(place.pool) or broken('pool ' .. place.pool .. ' is missing')
  local v = p.v
  if v[STRATEGY] == LEAST then
    call('ZADD', PREFIX .. 'least:' .. p.id, m.load * 1000 / place.weight, least_name(m))
  else
    fold(v)
    local score, i = place.weight * v[BASE] - place.credit, class_of(v, place.weight)
    place.credit = 0
    call('ZADD', class_key(i, p.id), score, m.id)
    if score < v[i + 1] then v[i + 1] = score end
  end
  v[SUM] = v[SUM] + place.weight
  p.dirty = true
  if v[WAITING] > 0 then touch(p) end
end

-- Every change of what decides about a member goes through here: he enters or leaves his pools at once, and his score in
-- least-load pools follows his load.
local function set(m, load, tie, cap, lease_end, blocked)
  local places = parse(m)
  if m.windows then roll(m) end
  local on = lease_end > 0 and blocked == '' and load < cap and not (m.windows and windows_full(m.windows)) and 1 or 0
  for i = 1, #places do
    local place = places[i]
    if place.within then
      if not belongs_in(place, on) then
        leave(m, place)
        place.within = false
      elseif place.strategy == LEAST then
        call('ZREM', PREFIX .. 'least:' .. place.pool, least_name(m))
      end
    end
  end
  m.load, m.tie, m.cap, m.lease, m.blocked, m.on, m.dirty = load, tie, cap, lease_end, blocked, on, true
  for i = 1, #places do
    local place = places[i]
    if belongs_in(place, on) then
      if not place.within then
        enter(m, place)
        place.within = true
      elseif place.strategy == LEAST then
        call('ZADD', PREFIX .. 'least:' .. place.pool, load * 1000 / place.weight, least_name(m))
      end
    end
  end
  if m.windows then set_alarm(m, next_alarm(m)) end
end

local function set_lease(m, lease_end)
  if lease_end ~= m.lease then
    leases_changed = true
    if lease_end > 0 then
      call('ZADD', PREFIX .. 'leases', lease_end, m.id)
    else
      call('ZREM', PREFIX .. 'leases', m.id)
    end
    parse(m)
    set(m, m.load, m.tie, m.cap, lease_end, m.blocked)
    if lease_end == 0 then offers_are_over(m.id) end
  end
end

-- One of the pool more, whatever his limits say; answers what the allocation bears.
local function add_load(m, pool_id)
  parse(m)
  local mark = m.windows and count(m, pool_id) or nil
  set(m, m.load + 1, m.tie, m.cap, m.lease, m.blocked)
  return mark
end

-- A hold of his begins anew: it counts in this hour and on this day, and not before. Answers what the allocation bears.
local function count_again(m, e)
  parse(m)
  if not m.windows then return e.mark end
  uncount(m, e)
  local mark = count(m, e.pool)
  set(m, m.load, m.tie, m.cap, m.lease, m.blocked)
  return mark
end

-- One of the pool less. One that was held and not confirmed came to nothing: it is as if it had not been given.
local function take_load(m, e)
  if m.load < 1 then broken('load of ' .. m.id .. ' is below zero') end
  parse(m)
  if m.windows then uncount(m, e) end
  set(m, m.load - 1, m.tie, m.cap, m.lease, m.blocked)
end

-- Chooses a member of the pool and charges him for it. Nil: nobody can be picked.
local function pick(p)
  local v = p.v
  while v[SUM] > 0 do
    local id, class, key, score, next_score
    if v[STRATEGY] == LEAST then
      id = sub(call('ZRANGE', PREFIX .. 'least:' .. p.id, 0, 0)[1] or broken('nobody in ' .. p.id), 9)
    else
      class = choose(v) or broken('nobody in ' .. p.id)
      key = class_key(class, p.id)
      local two = call('ZRANGE', key, 0, 1, 'WITHSCORES')
      id, score, next_score = two[1] or broken('nobody in ' .. p.id), v[class + 1] + 1, tonumber(two[4] or huge)
    end
    local m = known(id)
    if lease > now or m.lease > now then
      if class then
        v[COUNT] = v[COUNT] + 1
        v[class + 1] = score < next_score and score or next_score
        call('ZADD', key, score, id)
      end
      p.dirty = true
      return m
    end
    -- His lease is over and this call's sweep did not come to him.
    if ends_left == 0 then return nil end
    ends_left = ends_left - 1
    set_lease(m, 0)
  end
end

-- One more for a member who was picked; answers what the allocation bears.
local function assign(m, pool_id)
  turn = turn + 1
  if m.n_least == 0 and m.load + 1 < m.cap and not m.windows then
    m.load, m.tie, m.dirty = m.load + 1, TIE + turn, true
  else
    parse(m)
    local mark = m.windows and count(m, pool_id) or nil
    set(m, m.load + 1, TIE + turn, m.cap, m.lease, m.blocked)
    return mark
  end
end

local function load_open(subject, value)
  local list = {}
  if value then
    for record in string.gmatch(value, '[^\30]+') do
      local id, p, m, holder, epoch, settled, hold =
        string.match(record, '^([^\31]*)\31([^\31]*)\31([^\31]*)\31([^\31]*)\31([^\31]*)\31([01])(.*)$')
      local e = { id = id, pool = p, member = m, holder = holder, epoch = tonumber(epoch), settled = settled }
      local offer = string.match(hold, '\31(o[^\31]*)$')
      if offer then
        load_offer(e, offer)
        hold = sub(hold, 1, -2 - #offer)
      end
      if hold ~= '' then
        local ends, channel, slot, lasts, rest, mark =
          string.match(hold, '^\31([^\31]*)\31([^\31]*)\31([^\31]*)\31([^\31]*)\31([^\31]*)\31?([^\31]*)$')
        if ends then
          e.ends, e.channel, e.slot, e.hold, e.rest = tonumber(ends), channel, slot, tonumber(lasts), tonumber(rest)
        else
          mark = sub(hold, 2)
        end
        e.mark = tonumber(mark)
      end
      list[#list + 1] = e
    end
  end
  opens[subject] = list
  return list
end

local function open(subject)
  return opens[subject] or load_open(subject, call('GET', PREFIX .. 'open:' .. subject))
end

local function find(list, pool_id, allocation)
  for i = 1, #list do
    local e = list[i]
    if e.pool == pool_id and (not allocation or e.id == allocation) then return e, i end
  end
end

local function wait(p, subject)
  turn = turn + 1
  call('ZADD', PREFIX .. 'waiting:' .. p.id, turn, subject)
  p.v[WAITING] = p.v[WAITING] + 1
  p.dirty = true
end

local function stop_waiting(pool_id, subject)
  if call('ZREM', PREFIX .. 'waiting:' .. pool_id, subject) == 0 then broken(subject .. ' does not wait') end
  local p = pool(pool_id)
  if p then
    p.v[WAITING] = p.v[WAITING] - 1
    p.dirty, p.oldest = true, nil
  end
end

-- include roster_visits.lua

-- Frees what an entry holds: its member's load, or its place in the waiting list.
local function release(e, subject)
  if e.member == '' then
    -- A person is to decide: it stands in no list.
    if not e.offer then stop_waiting(e.pool, subject) end
  else
    take_load(known(e.member), e)
  end
end

local function drop(list, at, subject)
  list.dirty = true
  local e = table.remove(list, at)
  if e.ends then end_hold(subject, e) end
  if e.offer then end_offer(subject, e) end
  release(e, subject)
end

local function oldest(p)
  if not p.oldest then
    local first = call('ZRANGE', PREFIX .. 'waiting:' .. p.id, 0, 0, 'WITHSCORES')
    p.oldest = first[1] or broken('nobody waits in ' .. p.id)
    p.oldest_turn = tonumber(first[2])
  end
  return p.oldest_turn
end

-- Hands waiting subjects of the touched pools to free members: always the one that has waited longest.
local function wake()
  while wake_left > 0 do
    local p
    for i = 1, #touched do
      local q = touched[i]
      if q.v[WAITING] > 0 and q.v[SUM] > 0 and (not p or oldest(q) < oldest(p)) then p = q end
    end
    if not p then return end
    local m = pick(p)
    if m then
      oldest(p)
      local subject = p.oldest
      local list = open(subject)
      local e = find(list, p.id) or broken(subject .. ' waits for nothing')
      stop_waiting(p.id, subject)
      e.mark = assign(m, p.id)
      local whence = e.holder
      if e.ends then end_hold(subject, e) end
      e.member, list.dirty = m.id, true
      if e.ends then
        begin_hold(subject, e)
        whence = RECORD .. whole(e.ends) .. RECORD .. e.slot
      elseif p.offers then
        begin_offer(subject, e)
        whence = whence .. RECORD .. whole(e.offer.ends)
      end
      wake_left = wake_left - 1
      local n = #woken
      woken[n + 1], woken[n + 2], woken[n + 3], woken[n + 4], woken[n + 5] = e.id, p.id, subject, m.id, whence
    elseif ends_left == 0 then
      return
    end
  end
end

-- A new subject of the pool gets a member, whom this answers with what the allocation bears, or has to wait. Nobody overtakes one who waits.
local function take_turn(p)
  if p.v[WAITING] > 0 then
    touch(p)
    wake()
  end
  local m, mark
  if p.v[WAITING] == 0 then m = pick(p) end
  if m then mark = assign(m, p.id) else touch(p) end
  return m, mark
end

local function sweep()
  local over = call('ZRANGE', PREFIX .. 'leases', '-inf', now, 'BYSCORE', 'LIMIT', 0, ends_left)
  for i = 1, #over do set_lease(known(over[i]), 0) end
  ends_left = ends_left - #over
  -- Members whose window is over may be back in their pools.
  if ends_left == 0 then return end
  over = call('ZRANGE', PREFIX .. 'alarms', '-inf', now, 'BYSCORE', 'LIMIT', 0, ends_left)
  for i = 1, #over do
    local m = known(over[i])
    set(m, m.load, m.tie, m.cap, m.lease, m.blocked)
  end
  ends_left = ends_left - #over
end

local function member_value(m)
  local tail = m.tail
  if m.places then
    local parts = { pack('<s', m.blocked) }
    if m.windows then parts[1] = windows_value(m) .. parts[1] end
    for i = 1, #m.places do
      local place = m.places[i]
      parts[i + 1] = pack('<ddds', place.weight, place.strategy, place.credit, place.pool)
      if m.windows then parts[i + 1] = parts[i + 1] .. limits_value(place.limits) end
    end
    tail = concat(parts)
  end
  -- Nothing to remember: in no pool, nothing open, no cap, no block, not here.
  if m.load == 0 and m.lease == 0 and m.cap == huge and tail == '\0' then return nil end
  -- With windows the cap says 0, and the real one is in the tail: the short way of decide.lua leaves him alone.
  return pack('<ddddddd', m.load, m.tie, m.windows and 0 or m.cap, m.n_least, m.least_weight, m.lease, m.on) .. tail
end

local function open_value(list)
  if #list == 0 then return nil end
  local records = {}
  for i = 1, #list do
    local e = list[i]
    local fields = { e.id, e.pool, e.member, e.holder, whole(e.epoch), e.settled }
    if e.ends then
      fields[7], fields[8], fields[9], fields[10], fields[11] = whole(e.ends), e.channel, e.slot, whole(e.hold), whole(e.rest)
    end
    if e.mark then fields[#fields + 1] = whole(e.mark) end
    if e.offer then fields[#fields + 1] = offer_value(e.offer) end
    records[i] = concat(fields, FIELD)
  end
  return concat(records, RECORD)
end

-- Writes what changed, and the operation into the log. Answers sequence number, time and result.
local function finish(name, fields)
  local set_args, del_args = { 'MSET' }, { 'DEL' }
  local function put(key, value)
    local args = value and set_args or del_args
    args[#args + 1] = PREFIX .. key
    if value then args[#args + 1] = value end
    if #args > 4000 then -- a Lua call takes some 8,000 arguments
      call(unpack(args))
      for i = #args, 2, -1 do args[i] = nil end
    end
  end
  for id, m in pairs(members) do
    if m and m.dirty then put('member:' .. id, member_value(m)) end
  end
  for id, p in pairs(pools) do
    if p and p.dirty then
      if p.offers then p.v[STRATEGY] = p.v[STRATEGY] + OFFERS end
      put('pool:' .. id, pack('<' .. rep('d', #p.v), unpack(p.v)))
    end
  end
  for subject, list in pairs(opens) do
    if list.dirty then put('open:' .. subject, open_value(list)) end
  end
  if leases_changed or alarms_changed then
    lease = math.min(tonumber(call('ZRANGE', PREFIX .. 'leases', 0, 0, 'WITHSCORES')[2] or huge),
      tonumber(call('ZRANGE', PREFIX .. 'alarms', 0, 0, 'WITHSCORES')[2] or huge))
  end
  seq = seq + 1
  put('corp', pack('<dddd', seq, now, lease, turn))
  if #set_args > 1 then call(unpack(set_args)) end
  if #del_args > 1 then call(unpack(del_args)) end
  local more = '0'
  for i = 1, #touched do
    local v = touched[i].v
    if v[WAITING] > 0 and v[SUM] > 0 then more = '1' end
  end
  local result = more .. FIELD .. #woken / 5
  if #woken > 0 then result = result .. FIELD .. concat(woken, FIELD) end
  if #fields > 0 then result = result .. FIELD .. concat(fields, FIELD) end
  local at, payload = whole(now), ARGV[2]
  local id, args = whole(seq) .. '-0', concat(ARGV, FIELD, 3)
  if payload == '' then
    call('XADD', PREFIX .. 'log', id, 'o', name, 't', at, 'a', args, 'r', result)
  else
    call('XADD', PREFIX .. 'log', id, 'o', name, 't', at, 'a', args, 'r', result, 'p', payload)
  end
  return whole(seq) .. FIELD .. at .. FIELD .. result
end

-- Runs one operation: `body` answers the result's own fields. `keys` are read with the first call and given to it.
local function operation(name, keys, body)
  local got = call('MGET', PREFIX .. 'ready', PREFIX .. 'corp', unpack(keys))
  if not got[1] then return redis.error_reply('NOT_READY the corp is closed') end
  local done, answer = pcall(function()
    if not got[2] then broken('the corp is missing') end
    now = tonumber(ARGV[1])
    if not now then
      local time = call('TIME')
      now = time[1] * 1000 + math.floor(time[2] / 1000)
    end
    local at
    seq, at, lease, turn = unpack_struct('<dddd', got[2])
    if lease <= now then sweep() end
    return finish(name, body(got))
  end)
  if done then return answer end
  -- Something was not as it must be, and part of the operation may be written: closed, until it is rebuilt.
  call('DEL', PREFIX .. 'ready')
  return redis.error_reply(type(answer) == 'table' and answer.err or 'NOT_READY ' .. tostring(answer))
end
