#!lua
-- reclaim: moves on offers whose time is over, or whose member has gone.
--
-- KEYS[1]  log      stream  {corp}:v1:log   the other keys: see roster_state.lua and roster_offers.lua
-- ARGV[1]  now_ms   integer "" in production: the script asks TIME
-- ARGV[2]  payload  string  into the log, not read
-- ARGV[3]  limit    integer count
--
-- Returns  seq, now_ms, then the result, joined by 0x1f: more, n woken, five for each woken, then eight for each offer:
--          allocation, pool, subject, member who was asked, member who is asked now or "", epoch, until or 0, holder
-- Errors   NOT_READY   the corp is closed, or was found broken and is closed now
-- Invariant  an offer moves once; whoever was asked once is not asked again.
-- Cost     O(limit * log members * members asked)

-- include roster_state.lua
-- include roster_move_on.lua

return operation('reclaim.1', {}, function()
  local due = call('ZRANGE', PREFIX .. 'offers', '-inf', now, 'BYSCORE', 'LIMIT', 0, ARGV[3])
  local out = {}
  for i = 1, #due do
    local subject, pool_id = string.match(due[i], '^([^\31]*)\31(.*)$')
    local list = open(subject)
    local e = find(list, pool_id)
    if not (e and e.offer) then broken('the offer of ' .. subject .. ' is missing') end
    local n, from = #out, e.member
    out[n + 1], out[n + 2], out[n + 3], out[n + 4] = e.id, pool_id, subject, from
    out[n + 5], out[n + 6], out[n + 7] = move_on(subject, list, e)
    out[n + 8] = e.holder
  end
  wake()
  return out
end)
