#!lua
-- adjust: a member of a fair pool is owed more, or less.
--
-- KEYS[1]  log      stream  {corp}:v1:log   the other keys: see roster_state.lua
-- ARGV[1]  now_ms   integer "" in production: the script asks TIME
-- ARGV[2]  payload  string  into the log, not read
-- ARGV[3]  pool     string
-- ARGV[4]  member   string
-- ARGV[5]  amount   integer thousandths of a customer, below 0 for less
--
-- Returns  seq, now_ms, then the result, joined by 0x1f: more, n woken, five for each woken, then
--          "ADJUSTED" | "NO_POOL" | "NOT_FAIR" | "NOT_MEMBER" | "NOBODY"
-- Errors   NOT_READY   the corp is closed, or was found broken and is closed now
-- Invariant  whoever can be picked pays by weight, so credits still sum to 0.
-- Cost     O(log members)

-- include roster_state.lua

return operation('adjust.1', {}, function()
  local p = pool(ARGV[3])
  if not p then return { 'NO_POOL' } end
  if p.v[STRATEGY] ~= FAIR then return { 'NOT_FAIR' } end
  local place, m = place_with_credit(p.id, ARGV[4])
  if not place then return { 'NOT_MEMBER' } end
  if p.v[SUM] == 0 then return { 'NOBODY' } end
  local amount = tonumber(ARGV[5]) / 1000
  fold(p.v)
  p.v[BASE], p.dirty = p.v[BASE] - amount / p.v[SUM], true
  add_credit(m, place, amount)
  return { 'ADJUSTED' }
end)
