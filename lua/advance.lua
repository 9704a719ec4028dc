#!lua
-- advance: plans of those who wait go on.
--
-- KEYS[1]  log      stream  {corp}:v1:log   the other keys: see roster_state.lua and roster_route.lua
-- ARGV[1]  now_ms   integer "" in production: the script asks TIME
-- ARGV[2]  payload  string  into the log, not read
-- ARGV[3]  limit    integer of those who wait
--
-- Returns  seq, now_ms, then the result, joined by 0x1f: more, n woken, five for each woken, then four for each whose plan
--          went on: allocation, pool, subject, "STEPS" or "PERSON"
-- Errors   NOT_READY   the corp is closed, or was found broken and is closed now
-- Invariant  who finds more queues keeps his turn in all of them; who is left to a person stands in none.
-- Cost     O(limit * steps * log waiting + woken * log members)

-- include roster_state.lua

return operation('advance.1', {}, function()
  local due = call('ZRANGE', PREFIX .. 'patience', '-inf', now, 'BYSCORE', 'LIMIT', 0, ARGV[3])
  local out = {}
  for i = 1, #due do
    local subject, pool_id = string.match(due[i], '^([^\31]*)\31(.*)$')
    local list = open(subject)
    local e = find(list, pool_id)
    if not (e and e.plan) then broken('the plan of ' .. subject .. ' is missing') end
    local word = 'STEPS'
    if not e.hold and e.plan.person and e.since + e.plan.person <= now then
      stop_waiting(e, subject)
      e.offer = { ends = 0, since = 0, tried = {} }
      word = 'PERSON'
    else
      set_patience(e, subject, false)
      open_steps(e, subject, steps_due(e))
      set_patience(e, subject, true)
    end
    list.dirty = true
    local n = #out
    out[n + 1], out[n + 2], out[n + 3], out[n + 4] = e.id, pool_id, subject, word
  end
  wake()
  return out
end)
