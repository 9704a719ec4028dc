-- roster_visits: what holds have besides their allocation; put into roster_state.lua in the place of the line
-- "include roster_visits.lua". An open record of a visit has five more fields:
--   until        when the hold ends
--   channel      whose way the visitor sees
--   slot         "" while he waits, or when none was free
--   hold, rest   how long a hold lasts, how long a slot rests before it is lent again
--
--   holds              zset  'h' or 'p', subject, 0x1f, pool -> when the hold or the memory ends
--   past:<s>           text  memories of a visitor: pool, "L" lapsed or "M" met, allocation, member, until; if
--                            a channel counted it that channel
--   slot:<id>          text  channel, member, "F" free, "B" lent or "X" lent and gone afterwards; subject and pool that
--                            had it last
--   slots:<c>\31<m>    zset  slot that rests or is free -> since when
--   untold:<c>\31<m>   zset  subject, 0x1f, pool of a hold without slot -> turn

local VISIT_MEMORY_MS = 86400000
local pasts = {}

local function end_at(kind, subject, pool_id, at)
  local name = kind .. subject .. FIELD .. pool_id
  if at then
    call('ZADD', PREFIX .. 'holds', at, name)
  elseif call('ZREM', PREFIX .. 'holds', name) == 0 then
    broken('a hold of ' .. subject .. ' has no end')
  end
end

local function load_slot(id)
  local value = call('GET', PREFIX .. 'slot:' .. id)
  if not value then return nil end
  local channel, m, state, subject, pool_id =
    string.match(value, '^([^\31]*)\31([^\31]*)\31([^\31]*)\31([^\31]*)\31([^\31]*)$')
  return { channel = channel, member = m, state = state, subject = subject, pool = pool_id }
end

local function save_slot(id, s)
  call('SET', PREFIX .. 'slot:' .. id, concat({ s.channel, s.member, s.state, s.subject, s.pool }, FIELD))
end

local function free_key(channel, m)
  return PREFIX .. 'slots:' .. channel .. FIELD .. m
end

local function past_list(subject)
  local list = pasts[subject]
  if not list then
    list = {}
    for record in string.gmatch(call('GET', PREFIX .. 'past:' .. subject) or '', '[^\30]+') do
      local p, kind, allocation, m, ends, through =
        string.match(record, '^([^\31]*)\31([^\31]*)\31([^\31]*)\31([^\31]*)\31([^\31]*)\31?([^\31]*)$')
      list[#list + 1] = { pool = p, kind = kind, id = allocation, member = m, ends = tonumber(ends), gate = through }
    end
    pasts[subject] = list
  end
  return list
end

local function save_pasts(subject, list)
  local key, records = PREFIX .. 'past:' .. subject, {}
  for i = 1, #list do
    local past = list[i]
    records[i] = concat({ past.pool, past.kind, past.id, past.member, whole(past.ends) }, FIELD)
    if past.gate ~= '' then records[i] = records[i] .. FIELD .. past.gate end
  end
  if #records == 0 then call('DEL', key) else call('SET', key, concat(records, RECORD)) end
end

-- What is remembered of the visitor in a pool, if it is not over.
local function find_past(subject, pool_id)
  local list = past_list(subject)
  for i = 1, #list do
    if list[i].pool == pool_id then return list[i].ends > now and list[i] or nil end
  end
end

local function forget(subject, pool_id, keep)
  local list = past_list(subject)
  for i = 1, #list do
    if list[i].pool == pool_id then
      table.remove(list, i)
      end_at('p', subject, pool_id)
      if not keep then save_pasts(subject, list) end
      return
    end
  end
end

local function remember_past(subject, pool_id, kind, allocation, m, through)
  forget(subject, pool_id, true)
  local list, ends = past_list(subject), now + VISIT_MEMORY_MS
  list[#list + 1] = { pool = pool_id, kind = kind, id = allocation, member = m, ends = ends, gate = through or '' }
  save_pasts(subject, list)
  end_at('p', subject, pool_id, ends)
end

-- The member is held for the visitor from now on, with the slot of his that rested longest.
local function begin_hold(subject, e)
  local key = free_key(e.channel, e.member)
  local first = call('ZRANGE', key, 0, 0, 'WITHSCORES')
  if first[1] and tonumber(first[2]) + e.rest <= now then
    local s = load_slot(first[1]) or broken('slot ' .. first[1] .. ' is missing')
    call('ZREM', key, first[1])
    s.state, s.subject, s.pool = 'B', subject, e.pool
    save_slot(first[1], s)
    e.slot = first[1]
  else
    turn = turn + 1
    call('ZADD', PREFIX .. 'untold:' .. e.channel .. FIELD .. e.member, turn, subject .. FIELD .. e.pool)
  end
  e.ends = now + e.hold
  end_at('h', subject, e.pool, e.ends)
end

-- What the hold had besides its allocation is free.
local function end_hold(subject, e)
  end_at('h', subject, e.pool)
  if e.member == '' then return end
  if e.slot == '' then
    if call('ZREM', PREFIX .. 'untold:' .. e.channel .. FIELD .. e.member, subject .. FIELD .. e.pool) == 0 then
      broken('a hold of ' .. subject .. ' is not in its list')
    end
    return
  end
  local s = load_slot(e.slot) or broken('slot ' .. e.slot .. ' is missing')
  if s.state == 'X' then
    call('DEL', PREFIX .. 'slot:' .. e.slot)
  else
    s.state = 'F'
    save_slot(e.slot, s)
    call('ZADD', free_key(s.channel, s.member), now, e.slot)
  end
end
