#!lua
-- reserve_seat: which group each of these visitors is shown.
--
-- KEYS[1]   log      stream  {corp}:v1:log   the other keys: see seats_state.lua
-- ARGV[1]   now_ms   integer "" in production: the script asks TIME
-- ARGV[2]   payload  string  into the log, not read
-- ARGV[3..] visitors nine for each: seat, campaign, group pool, subject, "1" if nothing names him else "", way or "", tags
--           of groups that are right for him joined by 0x1a (the last one empty: any), how long a seat is held, how long a
--           place in the waiting room lasts
--
-- Returns  seq, now_ms, then the result, joined by 0x1f: more, 0, n woken, five for each woken, n lapsed, four for each
--          lapsed, then four for each visitor: "HELD" seat group until | "AGAIN" seat group until | "JOINED" seat group "" |
--          "WAITING" or, who waited before, "STILL" seat position until | "NO_POOL" and three ""
-- Errors   NOT_READY   the corp is closed, or was found broken and is closed now
-- Invariant  one seat for each campaign and visitor; nobody is shown a group without a free seat; nobody is overtaken for
--          whom the same groups are right.
-- Cost     O(visitors * tags * log groups + woken * (queues + tags * log groups))

-- include seats_state.lua

local keys, at_key = {}, {}
local function want(key)
  if not at_key[key] then
    keys[#keys + 1] = PREFIX .. key
    at_key[key] = #keys + 2
  end
end
for i = 3, #ARGV, 9 do
  want('gpool:' .. ARGV[i + 2])
  want('seat:' .. ARGV[i + 1] .. FIELD .. ARGV[i + 3])
end

return operation('reserve_seat.1', keys, function(got)
  local out = {}

  -- Stands where his turn says, and gets a seat at once if it is his turn.
  local function wait_since(p, name, id, at, anonymous, via, tags, hold_ms, wait_ms, word)
    local w = { kind = 'W', id = id, pool = p.id, anonymous = anonymous, via = via, ends = now + wait_ms, turn = at, tags = tags,
      hold = hold_ms }
    wait(name, w)
    touch(p)
    wake()
    local is = seat_now(name)
    -- He is among the woken.
    if is.kind == 'H' then return 'AGAIN', is.id, is.group, whole(is.ends) end
    return word, id, whole(position_of(name, w)), whole(w.ends)
  end

  -- A hold that is over and was not given back yet begins anew; what counts of the ways that he was shown is the last one.
  local function hold_again(name, s, via, hold_ms)
    if s.ends <= now then
      s.ends = now + hold_ms
      ends[name] = s.ends
      put_seat(name, s)
    end
    if via ~= '' and via ~= s.via then
      unknow(name, s)
      s.via = via
      know(name, s)
      put_seat(name, s)
    end
    return 'AGAIN', s.id, s.group, whole(s.ends)
  end

  local function reserve(id, campaign, p_id, subject, anonymous, via, tags, hold_ms, wait_ms)
    local name = campaign .. FIELD .. subject
    local s = seats[name]
    if s == nil then s = load_seat(name, got[at_key['seat:' .. name]]) end
    s = s and not s.gone and s
    local p = pools[p_id]
    if p == nil then p = load_pool(p_id, got[at_key['gpool:' .. p_id]]) end
    if s and s.kind == 'H' then
      local g = known_group(s.group)
      -- Nobody can scan his way into this group: as if he had waited since he was shown it.
      if not p or g.people < g.cap then return hold_again(name, s, via, hold_ms) end
      unhold(name, s)
      return wait_since(p, name, s.id, s.turn, anonymous, via, tags, hold_ms, wait_ms, 'WAITING')
    end
    if s and (s.kind == 'C' or s.kind == 'L') then return 'JOINED', s.id, s.group, '' end
    if not p then return 'NO_POOL', '', '', '' end
    if s and s.kind == 'W' then
      -- Who waits keeps his turn as long as he asks, also where he wants something else by now.
      stop_waiting(name, s)
      return wait_since(p, name, s.id, s.turn, anonymous, via, tags, hold_ms, wait_ms, 'STILL')
    end
    if s then
      pasts[name] = false
      drop_seat(name)
    end
    if p.waiting > 0 then
      touch(p)
      wake()
    end
    -- If more wait than one call serves he waits behind them.
    local group_id = not next_queue(p) and choose_group(p, split(tags, ITEM))
    if group_id then return 'HELD', id, group_id, whole(hold(name, id, group_id, anonymous, via, hold_ms)) end
    turn = turn + 1
    local w = { kind = 'W', id = id, pool = p_id, anonymous = anonymous, via = via, ends = now + wait_ms, turn = turn,
      tags = tags, hold = hold_ms }
    wait(name, w)
    return 'WAITING', id, whole(position_of(name, w)), whole(w.ends)
  end

  for i = 3, #ARGV, 9 do
    local n = #out
    out[n + 1], out[n + 2], out[n + 3], out[n + 4] = reserve(ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4],
      ARGV[i + 5], ARGV[i + 6], tonumber(ARGV[i + 7]), math.max(1, tonumber(ARGV[i + 8])))
  end
  return out
end)
