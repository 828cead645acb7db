-- record: count items that no lease stands behind, and drop the places where they were found.
-- KEYS: meta, settled, items, delayed, records, totals, cells, sketches, wake    ARGV: ten an item: place ('' for none), and the nine of `count`
-- Atomic: an item that has a record is not counted again. Returns how many were counted.
local failure = absent()
if failure then return failure end
local indexes, entries, chosen = {}, {}, {}
for at = 1, #ARGV, 10 do indexes[#indexes + 1] = ARGV[at + 1] end
local done = recorded(indexes)
for at = 1, #ARGV, 10 do
  local place, index = ARGV[at], ARGV[at + 1]
  if string.sub(place, 1, 1) == 'd' then
    redis.call('ZREM', DELAYED, string.sub(place, 2))
  elseif place ~= '' then
    entries[#entries + 1] = place
  end
  if not done[index] then
    done[index] = true
    chosen[#chosen + 1] = at + 1
  end
end
release(entries)
count(chosen)
return #chosen
