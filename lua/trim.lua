#!lua
-- trim: remove the entries that every group has acknowledged.
--
-- KEYS[1]   inbox   stream   {corp}:v1:inbox
-- ARGV[1..] groups  string   all that must have acknowledged
--
-- Returns  {"TRIMMED", n} | {"UNREAD", 0}  UNREAD: one of the groups does not exist, so nobody knows what it has read
-- Invariant  an entry that is pending in a group, or that a group was never given, stays.
--            Cost  O(#groups + n); it goes from the front, so one entry that is pending for long holds back those behind it.

local inbox = KEYS[1]

-- The first entry that group still needs; everything before it is done.
local function needed(group, last_delivered)
  local pending = redis.call("XPENDING", inbox, group)
  if pending[1] > 0 then
    return pending[2]
  end
  local ms, seq = string.match(last_delivered, "^(%d+)-(%d+)$")
  return ms .. "-" .. string.format("%.0f", seq + 1)
end

local function before(a, b)
  local a_ms, a_seq = string.match(a, "^(%d+)-(%d+)$")
  local b_ms, b_seq = string.match(b, "^(%d+)-(%d+)$")
  a_ms, a_seq, b_ms, b_seq = tonumber(a_ms), tonumber(a_seq), tonumber(b_ms), tonumber(b_seq)
  return a_ms < b_ms or (a_ms == b_ms and a_seq < b_seq)
end

if redis.call("EXISTS", inbox) == 0 then
  return { "TRIMMED", 0 }
end
local last = {}
for _, info in ipairs(redis.call("XINFO", "GROUPS", inbox)) do
  local fields = {}
  for i = 1, #info, 2 do
    fields[info[i]] = info[i + 1]
  end
  last[fields["name"]] = fields["last-delivered-id"]
end

local from
for _, group in ipairs(ARGV) do
  if not last[group] then
    return { "UNREAD", 0 }
  end
  local first = needed(group, last[group])
  if not from or before(first, from) then
    from = first
  end
end
return { "TRIMMED", redis.call("XTRIM", inbox, "MINID", "=", from) }
