-- roster_choose: the rule of fair pools, put in the place of the line "include roster_choose.lua". Takes the numbers of
-- a pool (base, count, sum, waiting, strategy, then weight and head score of each class) and answers where the class
-- stands whose head is next; why it is so: allocation, model/pool.rs.

local function choose(v)
  local base, count, sum = v[1], v[2] + 1, v[3]
  local best, soonest, any, most = nil, 1 / 0, nil, -1 / 0
  for i = 6, #v, 2 do
    local weight, head = v[i], v[i + 1]
    local credit = weight * base + weight * count / sum - head
    if credit > most then any, most = i, credit end
    if credit > 1e-9 then
      local deadline = (head + 1) / weight - base
      if deadline < soonest then best, soonest = i, deadline end
    end
  end
  return best or any
end
