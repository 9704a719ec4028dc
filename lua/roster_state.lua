-- roster_state: the corp's state inside one script call. The loader puts this file in the place of the line
-- "include roster_state.lua" of every script that changes that state; allocation::model is the same in Rust, and
-- both do the same arithmetic in the same order, so that their bytes agree.
--
-- KEYS[1] is the corp's log, {corp}:v1:log; all other keys are derived from it:
--   ready        string  generation of the state; absent: closed
--   corp         packed  seq, time of the last operation, earliest lease end or alarm, turns
--   leases       zset    member -> end of his presence lease
--   alarms       zset    member -> end of a window that keeps him out of pools, see roster_limits.lua; of channels see
--                        roster_gates.lua
--   member:<m>   packed  load, tie, cap, number of least-load pools, weight in the last of them, lease, on; blocked;
--                        per pool weight, strategy, credit, id; with windows more, see roster_limits.lua
--   pool:<p>     packed  base, count, sum, waiting, strategy; per class weight, head score
--   config:<p>   text    version, strategy, members and weights; only the version when the pool was removed
--   class:<l>:<p> zset   members of one weight who can be picked -> picks, in virtual terms; a letter for each weight,
--                        'a' for the largest
--   least:<p>    zset    8 bytes of tie and the member -> load / weight
--   waiting:<p>  zset    subject -> turn; more in roster_waiting.lua
--   open:<s>     text    allocations of a subject: id, pool, member or "", holder or "", epoch, settled; of a visit, an
--                        offer, a plan more, see roster_visits.lua, roster_offers.lua, roster_route.lua, where their
--                        keys are listed, too
--   request:<id> text    time and answer
--
-- Fair pools. Virtual time V = base + count / sum moves 1 / sum (the sum of weights of all who can be picked) with
-- every pick. A member's credit is weight * V - score; a pick adds exactly 1 to his score. See model/pool.rs.

local call, pack, unpack_struct = redis.call, struct.pack, struct.unpack
local sub, rep, concat, huge = string.sub, string.rep, table.concat, math.huge
local PREFIX = sub(KEYS[1], 1, -4)
local FIELD, RECORD = '\31', '\30'
local BASE, COUNT, SUM, WAITING, STRATEGY = 1, 2, 3, 4, 5 -- then weight and head score of each class
local FAIR, LEAST = 1, 2
local OFFERS, DRIPS = 10, 20 -- added where members are asked first, and where those who waited are handed out slowly
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
    p = { id = id, v = v }
    if v[STRATEGY] > DRIPS then p.drips, v[STRATEGY] = true, v[STRATEGY] - DRIPS end
    if v[STRATEGY] > OFFERS then p.offers, v[STRATEGY] = true, v[STRATEGY] - OFFERS end
  end
  pools[id] = p
  return p
end

local function pool(id)
  local p = pools[id]
  if p == nil then p = load_pool(id, call('GET', PREFIX .. 'pool:' .. id)) end
  return p
end

-- The pool whose member an allocation has: what he is given counts there.
local function source_of(e)
  return e.source and e.source ~= '' and e.source or e.pool
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
  if v[WAITING] > 0 then
    p.barren = nil
    touch(p)
  end
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
  local mark = count(m, source_of(e))
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

-- include roster_credit.lua
-- include roster_pick_without.lua
-- include roster_gates.lua
-- include roster_route.lua

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
      local route = string.match(hold, '\31(p[^\31]*)$')
      if route then
        load_route(e, route)
        hold = sub(hold, 1, -2 - #route)
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

-- include roster_waiting.lua
-- include roster_visits.lua

-- Frees what an entry holds: its member's load, or its place in the waiting list.
local function release(e, subject)
  if e.member == '' then
    -- A person is to decide: it stands in no list.
    if not e.offer then stop_waiting(e, subject) end
  else
    take_load(known(e.member), e)
  end
end

local function drop(list, at, subject)
  list.dirty = true
  local e = table.remove(list, at)
  if e.ends then end_hold(subject, e) end
  if e.offer then end_offer(subject, e) end
  if e.ends or e.offer then unpass_gate(e) end
  release(e, subject)
end

-- Of the touched pools the queue whose oldest has waited longest.
local function longest()
  local best, of
  for i = 1, #touched do
    local p = touched[i]
    if can_wake(p) then
      local queues = queues_of(p)
      for j = 1, #queues do
        local q = queues[j]
        local at = head_of(q)
        if at and not (best and best.turn <= at) and may_serve(p, q) then best, of = q, p end
      end
    end
  end
  return best, of
end

-- Hands waiting subjects of the touched pools to free members: always the one that has waited longest.
local function wake()
  local function may(p) return not drips(p) end
  while wake_left > 0 do
    local q, p = longest()
    if not q then return end
    local subject, home = string.match(q.name, '^([^\31]*)\31?(.*)$')
    if home == '' then home = p.id end
    local list = open(subject)
    local e = find(list, home) or broken(subject .. ' waits for nothing')
    local m = serve(e, {}, may)
    if m then
      stop_waiting(e, subject)
      e.mark = assign(m, source_of(e))
      pass_gate(e)
      drip(pool(source_of(e)))
      local whence = e.holder
      if e.ends then end_hold(subject, e) end
      e.member, list.dirty = m.id, true
      local asked = pool(home)
      if e.ends then
        begin_hold(subject, e)
        whence = RECORD .. whole(e.ends) .. RECORD .. e.slot
      elseif asked and asked.offers then
        begin_offer(subject, e)
        whence = whence .. RECORD .. whole(e.offer.ends)
      end
      wake_left = wake_left - 1
      local n = #woken
      woken[n + 1], woken[n + 2], woken[n + 3], woken[n + 4], woken[n + 5] = e.id, home, subject, m.id, whence
    elseif ends_left == 0 then
      return
    else
      p.barren = p.barren or {}
      p.barren[q.needs] = true
    end
  end
end

local function may_at_once(p)
  return not must_wait(p)
end

-- A new subject gets a member, whom this answers, or has to wait. Nobody overtakes one who waits.
local function take_turn(e, subject)
  local others_wait, list = false, queues_for(e, huge)
  for i = 1, #list do
    local p = pool(list[i].pool)
    if p and p.v[WAITING] > 0 then
      touch(p)
      others_wait = true
    end
  end
  if others_wait then wake() end
  local m = serve(e, {}, may_at_once)
  if m then
    e.member, e.mark = m.id, assign(m, source_of(e))
    pass_gate(e)
    return m
  end
  wait(e, subject)
  for i = 1, e.opened or 1 do
    local p = pool(list[i].pool)
    if p then touch(p) end
  end
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
  if ends_left > 0 then sweep_gates() end
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
    if e.plan then fields[#fields + 1] = route_value(e) end
    if e.offer then fields[#fields + 1] = offer_value(e.offer) end
    records[i] = concat(fields, FIELD)
  end
  return concat(records, RECORD)
end

-- Writes what changed, and the operation into the log. Answers sequence number, time and result.
local function finish(fields)
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
      p.v[STRATEGY] = p.v[STRATEGY] + (p.offers and OFFERS or 0) + (p.drips and DRIPS or 0)
      put('pool:' .. id, pack('<' .. rep('d', #p.v), unpack(p.v)))
    end
  end
  for subject, list in pairs(opens) do
    if list.dirty then put('open:' .. subject, open_value(list)) end
  end
  if leases_changed or alarms_changed then
    lease = huge
    for _, ends in ipairs({ 'leases', 'alarms', 'gates' }) do
      lease = math.min(lease, tonumber(call('ZRANGE', PREFIX .. ends, 0, 0, 'WITHSCORES')[2] or huge))
    end
  end
  seq = seq + 1
  put('corp', pack('<dddd', seq, now, lease, turn))
  if #set_args > 1 then call(unpack(set_args)) end
  if #del_args > 1 then call(unpack(del_args)) end
  local more = '0'
  for i = 1, #touched do
    if can_wake(touched[i]) then more = '1' end
  end
  local result = more .. FIELD .. #woken / 5
  if #woken > 0 then result = result .. FIELD .. concat(woken, FIELD) end
  if #fields > 0 then result = result .. FIELD .. concat(fields, FIELD) end
  return result
end

-- Before anything else.
local function before()
  if lease <= now then sweep() end
end

-- include corp_operation.lua
