#!lua
-- decide: who gets each of these subjects.
--
-- KEYS[1]   log      stream  {corp}:v1:log   the other keys: see roster_state.lua
-- ARGV[1]   now_ms   integer "" in production: the script asks TIME
-- ARGV[2]   payload  string  into the log, not read
-- ARGV[3..] requests six for each: allocation, pool, subject, holder or "", request id or "", "1" for an event that
--           names its holder, else ""
--
-- Returns  {seq, now_ms, result}   result, joined by 0x1f: more, n woken, five for each woken, then three for each
--          request: "ASSIGNED" allocation member | "WAITING" allocation | "ALREADY" allocation member |
--          "ECHO" allocation pool | "NO_POOL", or one of them after REPEATED_
-- Errors   NOT_READY   the corp is closed, or was found broken and is closed now
-- Invariant  one open allocation for each pool and subject; nobody is picked who is full, away or blocked; a subject
--          never overtakes one that waits in its pool.
-- Cost     O(requests * (classes + log members))

-- include roster_state.lua

local REQUEST_MEMORY_MS, REQUEST_TTL_MS = 86400000, 90000000

local keys, at_key = {}, {}
local function want(key)
  if not at_key[key] then
    keys[#keys + 1] = PREFIX .. key
    at_key[key] = #keys + 2
  end
end
for i = 3, #ARGV, 6 do
  want('pool:' .. ARGV[i + 1])
  want('open:' .. ARGV[i + 2])
  if ARGV[i + 4] ~= '' then want('request:' .. ARGV[i + 4]) end
end

return operation('decide.1', keys, function(got)
  local out = {}

  local function remembered(request)
    local value = requests[request] or got[at_key['request:' .. request]]
    if not value then return nil end
    local at, word, allocation, extra = string.match(value, '^([^\31]*)\31([^\31]*)\31([^\31]*)\31([^\31]*)$')
    if tonumber(at) + REQUEST_MEMORY_MS > now then return 'REPEATED_' .. word, allocation, extra end
  end

  local function decide(allocation, pool_id, subject, holder, echo)
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
    local m
    if p.v[WAITING] > 0 then
      touch(p)
      wake()
    end
    if p.v[WAITING] == 0 then m = pick(p) end
    list.dirty = true
    if m then
      assign(m)
      list[#list + 1] = { id = allocation, pool = pool_id, member = m.id, holder = holder, epoch = 0, settled = '0' }
      return 'ASSIGNED', allocation, m.id
    end
    wait(p, subject)
    touch(p)
    list[#list + 1] = { id = allocation, pool = pool_id, member = '', holder = holder, epoch = 0, settled = '0' }
    return 'WAITING', allocation, ''
  end

  for i = 3, #ARGV, 6 do
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
