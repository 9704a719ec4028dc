#!lua
-- reassign: gives one allocation to another member.
--
-- KEYS[1]   log        stream  {corp}:v1:log   the other keys: see roster_state.lua
-- ARGV[1]   now_ms     integer "" in production: the script asks TIME
-- ARGV[2]   payload    string  into the log, not read
-- ARGV[3]   allocation string
-- ARGV[4]   pool       string
-- ARGV[5]   subject    string
-- ARGV[6]   to         string  the member; "" = the pool picks, the present member left out. He may be away
-- ARGV[7]   epoch      integer that the caller knows
-- ARGV[8..] exclude    string  members that are not picked
--
-- Returns  seq, now_ms, then the result, joined by 0x1f: more, n woken, five for each woken, then
--          "MOVED" member epoch | "SAME" "" epoch | "NOBODY" | "FULL" | "BLOCKED" | "STALE" member epoch | "UNKNOWN"
-- Errors   NOT_READY   the corp is closed, or was found broken and is closed now
-- Invariant  the epoch rises with every move, so of two callers who know one epoch one moves it; who is left out of
--          the pick earns nothing by it and loses nothing.
-- Cost     O((1 + exclude) * log members)

-- include roster_state.lua

return operation('reassign.1', {}, function()
  local allocation, pool_id, subject, to, epoch = ARGV[3], ARGV[4], ARGV[5], ARGV[6], tonumber(ARGV[7])
  local list = open(subject)
  local e = find(list, pool_id, allocation)
  -- A visitor sees one member's code: another one would be no use to him.
  if not e or e.ends then return { 'UNKNOWN', '', '' } end
  if e.epoch ~= epoch then return { 'STALE', e.member, whole(e.epoch) } end
  local m
  if to ~= '' then
    if to == e.member then return { 'SAME', '', whole(e.epoch) } end
    m = create(to)
    parse(m)
    if m.blocked ~= '' then return { 'BLOCKED', '', '' } end
    local l = m.windows and limits_in(m, pool_id)
    if m.load >= m.cap or m.windows and windows_full(m.windows) or l and limits_full(l) then return { 'FULL', '', '' } end
  else
    local p = pool(pool_id)
    if not p then return { 'NOBODY', '', '' } end
    local hidden, left_out = {}, { e.member }
    for i = 8, #ARGV do left_out[#left_out + 1] = ARGV[i] end
    for i = 1, #left_out do
      local x = left_out[i] ~= '' and member(left_out[i])
      if x and not x.hidden then
        local places = parse(x)
        for j = 1, #places do
          if places[j].pool == pool_id and places[j].within then
            leave(x, places[j])
            x.hidden, x.dirty = true, true
            hidden[#hidden + 1] = { x, places[j] }
          end
        end
      end
    end
    m = pick(p)
    for i = 1, #hidden do enter(hidden[i][1], hidden[i][2]) end
    if not m then return { 'NOBODY', '', '' } end
  end
  local holder = e.settled == '1' and e.member or e.holder
  release(e, subject)
  e.mark = assign(m, pool_id)
  e.member, e.holder, e.epoch, e.settled, list.dirty = m.id, holder, e.epoch + 1, '0', true
  wake()
  return { 'MOVED', m.id, whole(e.epoch) }
end)
