#!lua
-- release_seat: gives back seats that nobody came for, and places in the waiting room.
--
-- KEYS[1]   log      stream  {corp}:v1:log   the other keys: see seats_state.lua
-- ARGV[1]   now_ms   integer "" in production: the script asks TIME
-- ARGV[2]   payload  string  into the log, not read
-- ARGV[3..] seats    six for each: campaign, subject, seat, the end that it must have or "", reason, how long it is remembered
--
-- Returns  seq, now_ms, then the result, joined by 0x1f: more, 0, n woken, five for each woken, n lapsed, four for each
--          lapsed, then two for each seat: "RELEASED" group | "GAVE_UP" "" | "STALE" "" | "UNKNOWN" ""
-- Errors   NOT_READY   the corp is closed, or was found broken and is closed now
-- Invariant  a seat is given back at most once; one that was asked for again, confirmed or replaced meanwhile stays.
-- Cost     O(seats * tags * log groups + woken * (queues + tags * log groups))

-- include seats_state.lua

local keys = {}
for i = 3, #ARGV, 6 do keys[#keys + 1] = PREFIX .. 'seat:' .. ARGV[i] .. FIELD .. ARGV[i + 1] end

return operation('release_seat.1', keys, function(got)
  local out = {}

  local function release(name, s, id, expect, memory)
    if not s or s.gone or s.kind == 'E' then return 'UNKNOWN', '' end
    if s.id ~= id or s.kind == 'C' or s.kind == 'L' or expect ~= '' and tonumber(expect) ~= s.ends then return 'STALE', '' end
    if s.kind == 'W' then
      stop_waiting(name, s)
      drop_seat(name)
      return 'GAVE_UP', ''
    end
    unhold(name, s)
    if memory > 0 then
      pasts[name] = now + memory
      put_seat(name, { kind = 'E', id = id, group = s.group, ends = now + memory })
    else
      drop_seat(name)
    end
    return 'RELEASED', s.group
  end

  for i = 3, #ARGV, 6 do
    local name, n = ARGV[i] .. FIELD .. ARGV[i + 1], #out
    local s = seats[name]
    if s == nil then s = load_seat(name, got[2 + (i + 3) / 6]) end
    out[n + 1], out[n + 2] = release(name, s, ARGV[i + 2], ARGV[i + 3], tonumber(ARGV[i + 5]))
  end
  wake()
  return out
end)
