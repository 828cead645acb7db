-- complete: count items and release their leases, or refuse stale ones.
-- KEYS: meta, settled, items, records, totals, cells, sketches, wake
-- ARGV: consumer, first entry, last entry, then eleven an item: entry, deliveries, and the nine of `count`
-- Atomic: an item's record, its sums, its acknowledgement, and the budget's stop. Returns for each item 1 counted, 2 duplicate (it has a record) or
-- 3 stale (the lease is another's, or gone); the last two change no sum.
local failure = absent()
if failure then return failure end
local consumer, indexes = ARGV[1], {}
for at = 4, #ARGV, 11 do indexes[#indexes + 1] = ARGV[at + 2] end
local pending, done = pending_of(consumer, ARGV[2], ARGV[3]), recorded(indexes)
local answers, chosen, ended = {}, {}, {}
for at = 4, #ARGV, 11 do
  local entry, index = ARGV[at], ARGV[at + 2]
  local mine = pending[entry] == tonumber(ARGV[at + 1])
  local answer = done[index] and 2 or (mine and 1 or 3)
  if mine then ended[#ended + 1] = entry end
  if answer == 1 then
    done[index] = true
    chosen[#chosen + 1] = at + 2
  end
  answers[#answers + 1] = answer
end
release(ended)
count(chosen)
return answers
