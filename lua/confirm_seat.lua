#!lua
-- confirm_seat: people came into a group or left it, and whose seats that confirms or frees.
--
-- KEYS[1]   log      stream  {corp}:v1:log   the other keys: see seats_state.lua
-- ARGV[1]   now_ms   integer "" in production: the script asks TIME
-- ARGV[2]   payload  string  into the log, not read
-- ARGV[3]   group    string
-- ARGV[4]   from     string  the version that the change follows; "" if the group was never read
-- ARGV[5]   version  string  the one that it leads to
-- ARGV[6]   force    string  "1": whatever is known, else ""
-- ARGV[7]   n_left   integer
-- ARGV[8..] people   those who left; then five for each who joined: person, "1" if he is identified, "?" if only a read that
--           may be old says that he is in it, else "", "1" if he scanned a code else "", the State of his way or "", seats that
--           may be his joined by 0x1a, each how it is known, campaign and subject joined by 0x1d
--
-- Returns  seq, now_ms, then the result, joined by 0x1f: more, 0, n woken, five for each woken, n lapsed, four for each
--          lapsed, then "STALE" version | "UNKNOWN" | "COUNTED" people held free oversold, "1" if there are more people, n
--          who left a seat and for each person seat campaign subject, then eight for each who was identified: his place,
--          "CONFIRMED", "LATE", "MOVED" or "ALREADY", how it is known, seat, campaign, subject, what it was, another group
--          or "" | his place, "DIRECT" and six ""
-- Errors   NOT_READY   the corp is closed, or was found broken and is closed now
-- Invariant  everybody who is in a group takes room in it, once; a seat is confirmed at most once, and who is in a group
--          because of it is in the group.
-- Cost     O(people * names + tags * log groups + woken * (queues + tags * log groups)); O(all people) above the cap

-- include seats_state.lua

return operation('confirm_seat.1', {}, function()
  local id, from, version, n_left = ARGV[3], ARGV[4], ARGV[5], tonumber(ARGV[7])
  local g = group(id)
  if not g then return { 'UNKNOWN' } end
  if g.seen ~= from and g.seen ~= version and ARGV[6] ~= '1' then return { 'STALE', g.seen } end
  local people_key = PREFIX .. 'people:' .. id
  local n_before = g.people
  if call('HLEN', people_key) ~= n_before then broken('people of ' .. id .. ' are missing') end
  local out, changed, gone = {}, {}, {}

  -- What is known of these people: false if they are not in it.
  local is = {}
  local function read(persons)
    for first = 1, #persons, 500 do
      local values = call('HMGET', people_key, unpack(persons, first, math.min(first + 499, #persons)))
      for i = 1, #values do is[persons[first + i - 1]] = values[i] end
    end
  end
  local persons = {}
  for i = 8, 7 + n_left do persons[#persons + 1] = ARGV[i] end
  for i = 8 + n_left, #ARGV, 5 do persons[#persons + 1] = ARGV[i] end
  read(persons)

  local function set_person(person, value)
    is[person] = value
    changed[person] = value
  end

  local n_freed = 0
  for i = 8, 7 + n_left do
    local person = ARGV[i]
    local value = is[person]
    if value then
      g.people = g.people - 1
      set_person(person, false)
      if value ~= '' and value ~= PENDING and value ~= DOUBTED then
        local s = seat_now(value)
        if not s or s.person ~= person then broken('the seat of ' .. person .. ' is missing') end
        drop_seat(value)
        n_freed = n_freed + 1
        local campaign, subject = match(value, '^([^\31]*)\31(.*)$')
        local n = #gone
        gone[n + 1], gone[n + 2], gone[n + 3], gone[n + 4] = person, s.id, campaign, subject
      end
    end
  end
  g.seen = version

  -- Which of several seats is meant, the lowest first: see model/seats/confirm.rs.
  local function rank(s)
    if not s then return nil end
    if s.kind == 'H' or s.kind == 'E' then
      if s.kind == 'E' and s.ends <= now then return nil end
      return s.group == id and 0 or 1
    end
    return s.kind == 'W' and 1 or 2
  end

  local function find(scanned, state, names)
    local best, best_how, best_name
    for part in string.gmatch(names, '[^\26]+') do
      local how, campaign, subject = match(part, '^([^\29]*)\29([^\29]*)\29([^\29]*)$')
      local name = campaign .. FIELD .. subject
      local r = rank(seat_now(name))
      if r and not (best and best <= r) then best, best_how, best_name = r, how, name end
    end
    if best then return best_how, best_name end
    if state == '' and scanned ~= '1' then return end
    local key = PREFIX .. 'ganon:' .. id
    local first = call('ZRANGE', state == '' and key or key .. FIELD .. state, 0, 0)[1]
    if first then return state == '' and 'count' or 'state', first end
  end

  -- Answers what is kept of him.
  local function take(index, person, scanned, state, names)
    local n = #out
    out[n + 1] = whole(index)
    local how, name = find(scanned, state, names)
    if not name then
      out[n + 2], out[n + 3], out[n + 4], out[n + 5], out[n + 6], out[n + 7], out[n + 8] = 'DIRECT', '', '', '', '', '', ''
      return ''
    end
    local s = seat_now(name) or broken(name .. ' is held by nobody')
    local campaign, subject = match(name, '^([^\31]*)\31(.*)$')
    local other = s.group and s.group ~= id and s.group or ''
    local word = s.kind == 'E' and 'LATE' or s.kind == 'H' and other ~= '' and 'MOVED' or 'CONFIRMED'
    if s.kind == 'C' or s.kind == 'L' then word, other = 'ALREADY', s.group end
    out[n + 2], out[n + 3], out[n + 4], out[n + 5], out[n + 6], out[n + 7], out[n + 8] =
      word, how, s.id, campaign, subject, STATES[s.kind], other
    if word == 'ALREADY' then return '' end
    if s.kind == 'H' then
      unhold(name, s, s.group == id)
    elseif s.kind == 'W' then
      stop_waiting(name, s)
    else
      pasts[name] = false
    end
    put_seat(name, { kind = s.kind == 'E' and 'L' or 'C', id = s.id, group = id, person = person })
    return name
  end

  for i = 8 + n_left, #ARGV, 5 do
    local person = ARGV[i]
    local value = is[person]
    if not value or value == PENDING or value == DOUBTED then
      if not value then g.people = g.people + 1 end
      if ARGV[i + 1] == '1' then
        set_person(person, take((i - 8 - n_left) / 5, person, ARGV[i + 2], ARGV[i + 3], ARGV[i + 4]))
      elseif ARGV[i + 1] ~= '?' then
        set_person(person, PENDING)
      elseif not value then
        set_person(person, DOUBTED)
      end
    end
  end
  if g.people < 0 then broken('people of ' .. id .. ' are below zero') end

  local set_args, del_args = { 'HSET', people_key }, { 'HDEL', people_key }
  for person, value in pairs(changed) do
    if value then
      set_args[#set_args + 1] = person
      set_args[#set_args + 1] = value
    else
      del_args[#del_args + 1] = person
    end
  end
  if #del_args > 2 then call(unpack(del_args)) end
  if #set_args > 2 then call(unpack(set_args)) end
  settle(g)

  local taken = g.people + g.held
  local excess = math.max(0, taken - g.cap)
  if excess > 0 and g.held > 0 then
    -- Whoever has no name yet may have one of the holds here: those two are one until a read tells.
    local unnamed, values = 0, call('HVALS', people_key)
    for i = 1, #values do
      if values[i] == PENDING or values[i] == DOUBTED then unnamed = unnamed + 1 end
    end
    excess = math.max(0, excess - math.min(unnamed, g.held))
  end
  local answer = { 'COUNTED', whole(g.people), whole(g.held), whole(math.max(0, g.cap - g.buffer - taken)),
    whole(excess), g.people > n_before and '1' or '', whole(n_freed) }
  for i = 1, #gone do answer[#answer + 1] = gone[i] end
  for i = 1, #out do answer[#answer + 1] = out[i] end
  wake()
  return answer
end)
