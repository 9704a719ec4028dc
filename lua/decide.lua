#!lua
-- decide: who gets each of these subjects.
--
-- KEYS[1]   log      stream  {corp}:v1:log   the other keys: see roster_state.lua
-- ARGV[1]   now_ms   integer "" in production: the script asks TIME
-- ARGV[2]   payload  string  into the log, not read
-- ARGV[3..] requests six for each: allocation, pool and its plan (see roster_route.lua), subject, holder or "", request id or "", "1" for an event that
--           names its holder, else ""
--
-- Returns  seq, now_ms, then the result, joined by 0x1f: more, n woken, five for each woken, then three for each
--          request: "ASSIGNED" allocation member | "OFFERED" allocation, member 0x1e until | "WAITING" allocation | "ALREADY" allocation member |
--          "ECHO" allocation pool | "NO_POOL", or one of them after REPEATED_
-- Errors   NOT_READY   the corp is closed, or was found broken and is closed now
-- Invariant  one open allocation for each pool and subject; nobody is picked who is full, away or blocked; a subject
--          never overtakes one that waits in its pool.
-- Cost     O(requests * (classes + log members)); of one that needs skills O(members who have them), of one that avoids
--          members O(they * log members)

-- Most requests are plain: a new subject, somebody free in its pool, and he stays free. Those are decided in the loop
-- at the end, without the machinery of roster_state.lua, which costs more than the decision. The first request that is
-- not plain, or a value that is not as it must be, hands over to `general`, with everything before it written. Both ways
-- give the same bytes. No closure is made for the plain way, and values are patched, not packed anew: that is half
-- of its speed.

local call, pack, unpack_struct = redis.call, struct.pack, struct.unpack
local sub, format, concat = string.sub, string.format, table.concat
local PREFIX, FIELD = sub(KEYS[1], 1, -4), '\31'
local LEAST = 2
local TIE = 4503599627370496 -- as in roster_state.lua
local LETTERS = 'abcdefghijklmnop'
local DOUBLES = '<ddddddddddddddddddddddddddddddddddddd' -- as many as a pool has at most

-- include roster_choose.lua

-- Decides the requests from `first` on; `out` has the answers to those before.
local function general(first, out)
-- include roster_state.lua
  local REQUEST_MEMORY_MS, REQUEST_TTL_MS = 86400000, 90000000
  local keys, at_key = {}, {}
  local function want(key)
    if not at_key[key] then
      keys[#keys + 1] = PREFIX .. key
      at_key[key] = #keys + 2
    end
  end
  for i = first, #ARGV, 6 do
    want('pool:' .. string.match(ARGV[i + 1], '^[^\28]*'))
    want('open:' .. ARGV[i + 2])
    if ARGV[i + 4] ~= '' then want('request:' .. ARGV[i + 4]) end
  end

  local name = 'decide.1'
  for i = 4, #ARGV, 6 do
    if string.find(ARGV[i], '\28', 1, true) then name = 'decide.2' end
  end

  return operation(name, keys, function(got)
    local function remembered(request)
      local value = requests[request] or got[at_key['request:' .. request]]
      if not value then return nil end
      local at, word, allocation, extra = string.match(value, '^([^\31]*)\31([^\31]*)\31([^\31]*)\31([^\31]*)$')
      if tonumber(at) + REQUEST_MEMORY_MS > now then return 'REPEATED_' .. word, allocation, extra end
    end

    local function decide(allocation, pool_field, subject, holder, echo)
      local pool_id, plan = split_plan(pool_field)
      local list = opens[subject] or load_open(subject, got[at_key['open:' .. subject]])
      if echo == '1' and holder ~= '' then
        for i = 1, #list do
          local e = list[i]
          if e.member == holder and e.holder ~= '' and e.holder ~= holder then return 'ECHO', e.id, e.pool end
        end
      end
      local p = pools[pool_id]
      if p == nil then p = load_pool(pool_id, got[at_key['pool:' .. pool_id]]) end
      if not p then return 'NO_POOL', '', '' end
      local e = find(list, pool_id)
      if e then return 'ALREADY', e.id, e.member end
      e = begin_route({ id = allocation, pool = pool_id, member = '', holder = holder, epoch = 0, settled = '0' }, plan)
      local m = take_turn(e, subject)
      list.dirty = true
      list[#list + 1] = e
      if not m then return 'WAITING', allocation, '' end
      if not p.offers then return 'ASSIGNED', allocation, m.id end
      begin_offer(subject, e)
      return 'OFFERED', allocation, m.id .. RECORD .. whole(e.offer.ends)
    end

    for i = first, #ARGV, 6 do
      local request = ARGV[i + 4]
      local word, allocation, extra
      if request ~= '' then word, allocation, extra = remembered(request) end
      if not word then
        word, allocation, extra = decide(ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 5])
        if request ~= '' and word ~= 'NO_POOL' then
          local value = concat({ whole(now), word, allocation, extra }, FIELD)
          requests[request] = value
          call('SET', PREFIX .. 'request:' .. request, value, 'PX', REQUEST_TTL_MS)
        end
      end
      local n = #out
      out[n + 1], out[n + 2], out[n + 3] = word, allocation, extra
    end
    return out
  end)
end

local n_args = #ARGV
if n_args == 2 then return general(3, {}) end
local many = n_args > 8
local corp_key, first_pool, first_open = PREFIX .. 'corp', PREFIX .. 'pool:' .. ARGV[4], PREFIX .. 'open:' .. ARGV[5]
local got
if many then
  local keys = { PREFIX .. 'ready', corp_key, first_pool }
  for i = 5, n_args, 6 do keys[#keys + 1] = PREFIX .. 'open:' .. ARGV[i] end
  got = call('MGET', unpack(keys))
else
  got = call('MGET', PREFIX .. 'ready', corp_key, first_pool, first_open)
end
if not got[1] then return redis.error_reply('NOT_READY the corp is closed') end
if not got[2] or #got[2] < 32 then return general(3, {}) end
local at = ARGV[1]
local now = tonumber(at)
if not now then
  local time = call('TIME') -- seconds and microseconds, as text
  at = time[1] .. (#time[2] == 6 and sub(time[2], 1, 3) or sub('00000' .. time[2], -6, -4))
  now = tonumber(at)
  ARGV[1] = at
end
local seq, before, lease, turn = unpack_struct('<dddd', got[2])
if lease <= now then return general(3, {}) end

-- What a call for many must find again is kept in tables; one request is cheaper without.
local pools, numbers, members, seen, out, set
if many then pools, numbers, members, seen, out, set = {}, {}, {}, {}, {}, { 'MSET', corp_key, '' } end
local left, result -- the first request that is not plain; the answer to one
for i = 3, n_args, 6 do
  left = i
  local allocation, pool_id, subject, request = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 4]
  if got[3.5 + i / 6] or many and seen[subject] then break end
  if request ~= '' and call('EXISTS', PREFIX .. 'request:' .. request) == 1 then break end
  local pool, v
  if many then pool, v = pools[pool_id], numbers[pool_id] end
  if not v then
    pool = i == 3 and got[3] or call('GET', PREFIX .. 'pool:' .. pool_id)
    if not pool or #pool < 40 or #pool % 16 ~= 8 then break end
    v = { unpack_struct(sub(DOUBLES, 1, 1 + #pool / 8), pool) }
    v[#v] = nil
    if many then numbers[pool_id] = v end
  end
  if v[3] == 0 or v[4] > 0 or v[5] > LEAST then break end -- nobody can be picked, somebody waits, members are asked
  local id, key, popped, class, next_score
  if v[5] == LEAST then
    key = PREFIX .. 'least:' .. pool_id
    popped = call('ZPOPMIN', key) -- he goes back with another name, or as he was
    if not popped[1] then break end
    id = sub(popped[1], 9)
  else
    class = choose(v)
    if not class then break end
    local letter = (class - 4) / 2
    key = PREFIX .. 'class:' .. sub(LETTERS, letter, letter) .. ':' .. pool_id
    local two = call('ZRANGE', key, 0, 1, 'WITHSCORES')
    id, next_score = two[1], tonumber(two[4] or 1 / 0)
    if not id then break end
  end
  local member_key = PREFIX .. 'member:' .. id
  local member = many and members[member_key] or call('GET', member_key)
  local load, _, cap, n_least, weight
  if member and #member > 56 then
    load, _, cap, n_least, weight = unpack_struct(popped and '<ddddd' or '<dddd', member)
    load = load + 1
  end
  if not load or load >= cap or n_least ~= (popped and 1 or 0) then
    if popped then call('ZADD', key, popped[2], popped[1]) end
    break
  end

  left = nil
  turn = turn + 1
  -- Whole scores, which most are, have a shorter way to the same text.
  if popped then
    local score = load * 1000 / weight
    call('ZADD', key, score % 1 == 0 and format('%d', score) or score, pack('>I8', TIE + turn) .. id)
  else
    local score, head = v[class + 1] + 1, 8 * class
    v[2], v[class + 1] = v[2] + 1, score < next_score and score or next_score
    pool = sub(pool, 1, 8) .. pack('<d', v[2]) .. sub(pool, 17, head) .. pack('<d', v[class + 1]) .. sub(pool, head + 9)
    call('ZADD', key, score % 1 == 0 and format('%d', score) or score, id)
  end
  member = pack('<dd', load, TIE + turn) .. sub(member, 17)
  local open = allocation .. FIELD .. pool_id .. FIELD .. id .. FIELD .. ARGV[i + 3] .. '\0310\0310'
  if request ~= '' then
    call('SET', PREFIX .. 'request:' .. request, at .. '\31ASSIGNED\31' .. allocation .. FIELD .. id, 'PX', 90000000)
  end
  if many then
    seen[subject], members[member_key], pools[pool_id] = true, member, pool
    local n = #set
    set[n + 1], set[n + 2] = PREFIX .. 'open:' .. subject, open
    n = #out
    out[n + 1], out[n + 2], out[n + 3] = 'ASSIGNED', allocation, id
  else
    seq = seq + 1
    local corp = pack('<dddd', seq, now, lease, turn)
    if popped then
      call('MSET', corp_key, corp, first_open, open, member_key, member)
    else
      call('MSET', corp_key, corp, first_open, open, member_key, member, first_pool, pool)
    end
    result = '0\0310\31ASSIGNED\31' .. allocation .. FIELD .. id
  end
end

local args
if many then
  if #out == 0 then return general(3, out) end
  for id, pool in pairs(pools) do
    local n = #set
    set[n + 1], set[n + 2] = PREFIX .. 'pool:' .. id, pool
  end
  for key, member in pairs(members) do
    local n = #set
    set[n + 1], set[n + 2] = key, member
  end
  if left then
    set[3] = pack('<dddd', seq, before, lease, turn)
    call(unpack(set))
    return general(left, out)
  end
  seq = seq + 1
  set[3] = pack('<dddd', seq, now, lease, turn)
  call(unpack(set))
  result = '0\0310\31' .. concat(out, FIELD)
  args = concat(ARGV, FIELD, 3)
else
  if left then return general(3, {}) end
  args = ARGV[3] .. FIELD .. ARGV[4] .. FIELD .. ARGV[5] .. FIELD .. ARGV[6] .. FIELD .. ARGV[7] .. FIELD .. ARGV[8]
end
local entry, logged = format('%d-0', seq), nil
if ARGV[2] == '' then
  logged = redis.pcall('XADD', KEYS[1], entry, 'o', 'decide.1', 't', at, 'a', args, 'r', result)
else
  logged = redis.pcall('XADD', KEYS[1], entry, 'o', 'decide.1', 't', at, 'a', args, 'r', result, 'p', ARGV[2])
end
if type(logged) == 'table' then
  -- Decided and not in the log: closed, until it is rebuilt.
  call('DEL', PREFIX .. 'ready')
  return redis.error_reply('NOT_READY ' .. logged.err)
end
return sub(entry, 1, -3) .. FIELD .. at .. FIELD .. result
