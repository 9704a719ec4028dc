-- roster_pick_without: put in the place of the line "include roster_pick_without.lua", after roster_state.lua.

-- Chooses a member of the pool who is none of these, and charges him. Whoever is left out is away for the moment of the
-- pick: he earns nothing by it and loses nothing.
local function pick_without(pool_id, left_out)
  local p = pool(pool_id)
  if not p then return nil end
  local hidden = {}
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
  local m = pick(p)
  for i = 1, #hidden do
    enter(hidden[i][1], hidden[i][2])
    hidden[i][1].hidden = nil
  end
  return m
end
