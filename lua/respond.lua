#!lua
-- respond: a member accepts or declines an offer.
--
-- KEYS[1]  log        stream  {corp}:v1:log   the other keys: see roster_state.lua and roster_offers.lua
-- ARGV[1]  now_ms     integer "" in production: the script asks TIME
-- ARGV[2]  payload    string  into the log, not read
-- ARGV[3]  allocation string
-- ARGV[4]  pool       string
-- ARGV[5]  subject    string
-- ARGV[6]  member     string
-- ARGV[7]  epoch      integer of the offer he means
-- ARGV[8]  declined   string  reason; "" = he accepts
--
-- Returns  seq, now_ms, then the result, joined by 0x1f: more, n woken, five for each woken, then
--          "ACCEPTED" "" "" "" | "DECLINED" or "LATE" member or "", epoch, until or 0 | "ALREADY" "" "" "" |
--          "STALE" present member, epoch, "" | "UNKNOWN" "" "" ""
-- Errors   NOT_READY   the corp is closed, or was found broken and is closed now
-- Invariant  only the offer of that epoch is answered, and only before its end; whoever was asked once is not asked again.
-- Cost     O(log members * members asked)

-- include roster_state.lua
-- include roster_move_on.lua

return operation('respond.1', {}, function()
  local subject, pool_id, declined = ARGV[5], ARGV[4], ARGV[8] ~= ''
  local list = open(subject)
  local e = find(list, pool_id, ARGV[3])
  if not e then return { 'UNKNOWN', '', '', '' } end
  if e.epoch ~= tonumber(ARGV[7]) or e.member ~= ARGV[6] then return { 'STALE', e.member, whole(e.epoch), '' } end
  if not e.offer then return { (declined or e.ends) and 'UNKNOWN' or 'ALREADY', '', '', '' } end
  local ends = tonumber(call('ZSCORE', PREFIX .. 'offers', subject .. FIELD .. pool_id) or 0)
  if ends > now and not declined then
    end_offer(subject, e)
    e.offer, list.dirty = nil, true
    return { 'ACCEPTED', '', '', '' }
  end
  local out = { ends > now and 'DECLINED' or 'LATE', move_on(subject, list, e) }
  wake()
  return out
end)
