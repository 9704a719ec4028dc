-- roster_pick_without: put into roster_state.lua in the place of the line "include roster_pick_without.lua".

-- Takes members out of the pool for the moment of a pick: whoever is left out earns nothing by it and loses nothing. Answers
-- who was in it, and their places.
local function hide(p, left_out)
  local hidden = {}
  for i = 1, #left_out do
    local x = left_out[i] ~= '' and member(left_out[i])
    if x then
      local places = parse(x)
      for j = 1, #places do
        local place = places[j]
        if place.pool == p.id and place.within and not place.hidden then
          leave(x, place)
          place.hidden, x.dirty = true, true
          hidden[#hidden + 1] = { x, place }
        end
      end
    end
  end
  return hidden
end

-- Nobody comes by it who was not there before: whom nobody of the pool could serve, nobody can serve now.
local function show(p, hidden)
  local barren = p.barren
  for i = 1, #hidden do
    enter(hidden[i][1], hidden[i][2])
    hidden[i][2].hidden = nil
  end
  p.barren = barren
end

-- Chooses a member of the pool who is none of these, and charges him.
local function pick_without(pool_id, left_out)
  local p = pool(pool_id)
  if not p then return nil end
  local hidden = hide(p, left_out)
  local m = pick(p)
  show(p, hidden)
  return m
end
