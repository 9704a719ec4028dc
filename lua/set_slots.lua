#!lua
-- set_slots: slots that may be lent from now on, or must not be lent any more.
--
-- KEYS[1]   log      stream  {corp}:v1:log   the other keys: see roster_state.lua and roster_visits.lua
-- ARGV[1]   now_ms   integer "" in production: the script asks TIME
-- ARGV[2]   payload  string  into the log, not read
-- ARGV[3]   channel  string
-- ARGV[4]   member   string
-- ARGV[5]   n        integer slots to add
-- ARGV[6..] slots    two for each to add: slot, since when it rests (0: never used); then one for each to remove
--
-- Returns  seq, now_ms, then the result, joined by 0x1f: more, n woken, five for each woken, then how many were added
--          and removed
-- Errors   NOT_READY   the corp is closed, or was found broken and is closed now
-- Invariant  doing it twice is doing it once; a slot that is lent leaves when its hold ends.
-- Cost     O(slots * log slots)

-- include roster_state.lua

return operation('set_slots.1', {}, function()
  local channel, m, n, added, removed = ARGV[3], ARGV[4], tonumber(ARGV[5]), 0, 0
  for i = 6, 5 + 2 * n, 2 do
    local id = ARGV[i]
    local s = load_slot(id)
    if not s then
      save_slot(id, { channel = channel, member = m, state = 'F', subject = '', pool = '' })
      call('ZADD', free_key(channel, m), ARGV[i + 1], id)
      added = added + 1
    elseif s.state == 'X' then
      s.state = 'B'
      save_slot(id, s)
      added = added + 1
    end
  end
  for i = 6 + 2 * n, #ARGV do
    local id = ARGV[i]
    local s = load_slot(id)
    if s and s.state == 'F' then
      call('ZREM', free_key(s.channel, s.member), id)
      call('DEL', PREFIX .. 'slot:' .. id)
      removed = removed + 1
    elseif s and s.state == 'B' then
      s.state = 'X'
      save_slot(id, s)
      removed = removed + 1
    end
  end
  return { whole(added), whole(removed) }
end)
