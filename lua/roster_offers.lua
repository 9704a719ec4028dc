-- roster_offers: members who are asked first; put into roster_state.lua in the place of the line
-- "include roster_offers.lua". An open record whose member has not accepted has one more field at its end: 'o', when the
-- offer ends (0: a person must decide), since when it stands, and who was asked before, joined by 0x1d.
--
--   offer:<p>     text  how long a member may think, how many are asked; missing: the pool does not ask
--   offers        zset  subject, 0x1f, pool -> when the offer ends
--   offered:<m>   zset  the same -> 0, of one member

local function load_offer(e, text)
  local parts = {}
  for part in string.gmatch(sub(text, 2), '[^\29]+') do parts[#parts + 1] = part end
  e.offer = { ends = tonumber(parts[1]), since = tonumber(parts[2]), tried = {} }
  for i = 3, #parts do e.offer.tried[i - 2] = parts[i] end
end

local function offer_value(offer)
  local text = 'o' .. whole(offer.ends) .. '\29' .. whole(offer.since)
  if #offer.tried > 0 then text = text .. '\29' .. concat(offer.tried, '\29') end
  return text
end

-- How long a member may think, and how many are asked.
local function offer_rule(pool_id)
  local value = call('GET', PREFIX .. 'offer:' .. pool_id)
  if not value then return nil, 0 end
  local accept, tries = string.match(value, '^([^\31]*)\31([^\31]*)$')
  return tonumber(accept), tonumber(tries)
end

-- The member of this allocation is asked; the pool wants that.
local function begin_offer(subject, e)
  local accept = offer_rule(e.pool) or broken('pool ' .. e.pool .. ' has no rule for offers')
  local name = subject .. FIELD .. e.pool
  e.offer = { ends = now + accept, since = now, tried = e.offer and e.offer.tried or {} }
  call('ZADD', PREFIX .. 'offers', e.offer.ends, name)
  call('ZADD', PREFIX .. 'offered:' .. e.member, 0, name)
end

-- Nobody is asked any more.
local function end_offer(subject, e)
  if e.member == '' then return end
  local name = subject .. FIELD .. e.pool
  if call('ZREM', PREFIX .. 'offers', name) == 0 then broken('the offer of ' .. subject .. ' has no end') end
  call('ZREM', PREFIX .. 'offered:' .. e.member, name)
end

-- Who goes is not asked any more: what he was offered is over at once, and moves when it is reclaimed.
local function offers_are_over(id)
  local names = call('ZRANGE', PREFIX .. 'offered:' .. id, 0, -1)
  for i = 1, #names do call('ZADD', PREFIX .. 'offers', now, names[i]) end
end
