#!lua
-- confirm: whose visit it was that brought each of these customers to a member.
--
-- KEYS[1]   log      stream  {corp}:v1:log   the other keys: see roster_state.lua and roster_visits.lua
-- ARGV[1]   now_ms   integer "" in production: the script asks TIME
-- ARGV[2]   payload  string  into the log, not read
-- ARGV[3..] customers seven for each: allocation, pool where no visit explains him, subject, member who has him,
--           visitor or "", slot whose way was used or "", channel whose plain way was used or ""
--
-- Returns  seq, now_ms, then the result, joined by 0x1f: more, n woken, five for each woken, then five for each:
--          "CONFIRMED", "LATE" or "MISMATCHED", allocation, that of the visit, "visitor", "slot" or "time", pool of the visit
--          ("" for CONFIRMED) |
--          "ALREADY" allocation, allocation of the visit or "", by what or "", "" | "DIRECT" allocation "" "" "" |
--          "ECHO" allocation pool "" "" | "NO_POOL" and four ""
-- Errors   NOT_READY   the corp is closed, or was found broken and is closed now
-- Invariant  one open allocation for each pool and customer; a hold is confirmed at most once; credits sum to 0.
-- Cost     O(customers * log members + woken * log members)

-- include roster_state.lua

return operation('confirm.1', {}, function()
  local out = {}

  -- The hold or the memory of a visitor in a pool.
  local function trace_in(visitor, pool_id, by)
    local e, at = find(open(visitor), pool_id)
    if e and e.ends then return { visitor = visitor, by = by, e = e, at = at, member = e.member } end
    local past = find_past(visitor, pool_id)
    if past and past.kind == 'L' then return { visitor = visitor, by = by, e = past, member = past.member } end
  end

  local function trace(pool_id, member_id, visitor, slot, channel)
    if visitor ~= '' then
      local first
      local list = open(visitor)
      for i = 1, #list do
        if list[i].ends and (not first or list[i].pool == pool_id and first ~= pool_id) then first = list[i].pool end
      end
      if not first then
        list = past_list(visitor)
        for i = 1, #list do
          local past = list[i]
          if past.kind == 'L' and past.ends > now and (not first or past.pool == pool_id) then first = past.pool end
        end
      end
      if first then return trace_in(visitor, first, 'visitor') end
    end
    if slot ~= '' then
      local s = load_slot(slot)
      return s and s.subject ~= '' and trace_in(s.subject, s.pool, 'slot')
    end
    if channel ~= '' then
      local first = call('ZRANGE', PREFIX .. 'untold:' .. channel .. FIELD .. member_id, 0, 0)[1]
      if first then
        local subject, of = string.match(first, '^([^\31]*)\31(.*)$')
        return trace_in(subject, of, 'time')
      end
    end
  end

  local function open_for(list, allocation, pool_id, member_id, mark)
    list.dirty = true
    list[#list + 1] = { id = allocation, pool = pool_id, member = member_id, holder = member_id, epoch = 0, settled = '1', mark = mark }
  end

  local function confirm(allocation, pool_id, subject, member_id, visitor, slot, channel)
    local list = open(subject)
    for i = 1, #list do
      local e = list[i]
      if e.member == member_id and e.holder ~= '' and e.holder ~= member_id then return 'ECHO', e.id, e.pool, '', '' end
    end
    local found = trace(pool_id, member_id, visitor, slot, channel)
    if not found then
      if not pool(pool_id) then return 'NO_POOL', '', '', '', '' end
      local e = find(list, pool_id)
      if e then return 'ALREADY', e.id, '', '', '' end
      local m = create(member_id)
      charge_unasked(pool_id, member_id)
      open_for(list, allocation, pool_id, member_id, assign(m, pool_id))
      return 'DIRECT', allocation, '', '', ''
    end
    local held, by, of = found.e, found.by, found.e.pool
    local own = found.visitor ~= subject and find(list, of)
    if own then
      if found.at then drop(open(found.visitor), found.at, found.visitor) end
      remember_past(found.visitor, of, 'M', own.id, own.member ~= '' and own.member or member_id)
      return 'ALREADY', own.id, held.id, by, ''
    end
    if found.at and found.member == member_id then
      local from = open(found.visitor)
      end_hold(found.visitor, held)
      table.remove(from, found.at)
      from.dirty, list.dirty = true, true
      list[#list + 1] = { id = held.id, pool = of, member = member_id, holder = member_id, epoch = held.epoch, settled = '1',
        mark = held.mark, plan = held.plan, since = held.since, opened = held.opened, source = held.source, given = held.given }
      remember_past(found.visitor, of, 'M', held.id, member_id)
      return 'CONFIRMED', held.id, held.id, by, ''
    end
    -- What it counts where it came through stays with who has him.
    local word, mark, through = 'LATE', nil, held.plan and held.plan.gate or held.gate or ''
    if not found.at and found.member == member_id then
      create(member_id)
      mark = add_load(known(member_id), of)
    else
      word = 'MISMATCHED'
      if found.at then drop(open(found.visitor), found.at, found.visitor) end
      local m = create(member_id)
      if found.member == '' then
        charge_unasked(of, member_id)
      else
        local seen_place, seen = place_with_credit(of, found.member)
        local place = place_with_credit(of, member_id)
        if seen_place and place then
          add_credit(seen, seen_place, 1)
          add_credit(m, place, -1)
        end
      end
      mark = assign(m, of)
    end
    if through ~= '' then count_through(through) end
    open_for(list, allocation, of, member_id, mark)
    remember_past(found.visitor, of, 'M', allocation, member_id)
    return word, allocation, held.id, by, of
  end

  for i = 3, #ARGV, 7 do
    local n = #out
    out[n + 1], out[n + 2], out[n + 3], out[n + 4], out[n + 5] =
      confirm(ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4], ARGV[i + 5], ARGV[i + 6])
  end
  wake()
  return out
end)
