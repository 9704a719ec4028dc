-- corp_operation: how an operation on a corp's state runs and is logged, whatever it changes. Included by roster_state.lua and
-- seats_state.lua behind what they read; `before` and `finish` are theirs.

-- Appends what was done; `result` is what it answers beside its number and time.
local function logged(name, result)
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
    before()
    return logged(name, finish(body(got)))
  end)
  if done then return answer end
  -- Something was not as it must be, and part of the operation may be written: closed, until it is rebuilt.
  call('DEL', PREFIX .. 'ready')
  return redis.error_reply(type(answer) == 'table' and answer.err or 'NOT_READY ' .. tostring(answer))
end
