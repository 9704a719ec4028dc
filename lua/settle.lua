#!lua
-- settle: what became of one assignment of an allocation. Twice is once.
--
-- KEYS[1]  log        stream  {corp}:v1:log   the other keys: see roster_state.lua
-- ARGV[1]  now_ms     integer "" in production: the script asks TIME
-- ARGV[2]  payload    string  into the log, not read
-- ARGV[3]  allocation string
-- ARGV[4]  pool       string
-- ARGV[5]  subject    string
-- ARGV[6]  outcome    string  DONE: the member has the customer. KEPT: the member of ARGV[7] kept him and has the load,
--                             whatever his cap says. VOID: it ends
-- ARGV[7]  value      string  member for KEPT, reason for VOID
-- ARGV[8]  member     string  whose it is as the caller knows it; "" = it waits
-- ARGV[9]  epoch      integer that the caller knows; "" = whoever's it is
--
-- Returns  seq, now_ms, then the result, joined by 0x1f: more, n woken, five for each woken, then
--          "DONE" member | "KEPT" former member | "VOID" member | "STALE" present member | "ALREADY" "" |
--          "UNKNOWN" ""
-- Errors   NOT_READY   the corp is closed, or was found broken and is closed now
-- Invariant  only the allocation's own entry is read, so a repeat changes nothing, nor does a late answer about a member
--          who has it no more.
-- Cost     O(log members)

-- include roster_state.lua

return operation('settle.2', {}, function()
  local allocation, pool_id, subject, outcome, value = ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]
  local list = open(subject)
  local e, at = find(list, pool_id, allocation)
  if not e then return { 'UNKNOWN', '' } end
  local former = e.member
  if ARGV[9] ~= '' and (former ~= ARGV[8] or e.epoch ~= tonumber(ARGV[9])) then return { 'STALE', former } end
  if outcome == 'VOID' then
    drop(list, at, subject)
    wake()
    return { 'VOID', former }
  end
  -- Only the customer's coming says what becomes of a visit, and the member of an offer.
  if e.ends or e.offer then return { 'UNKNOWN', '' } end
  if outcome == 'DONE' then
    if former == '' then return { 'UNKNOWN', '' } end
    if e.settled == '1' then return { 'ALREADY', '' } end
    e.settled, list.dirty = '1', true
    return { 'DONE', former }
  end
  if former == value and e.settled == '1' then return { 'ALREADY', '' } end
  if former ~= value then
    release(e, subject)
    e.mark = add_load(create(value), pool_id)
    e.member, e.epoch = value, e.epoch + 1
    if e.plan then e.source = '' end
  end
  e.holder, e.settled, list.dirty = value, '1', true
  wake()
  return { 'KEPT', former }
end)
