-- missing: find indexes of a complete run that are in no set.
-- KEYS: meta, settled, items, delayed, records    Returns the indexes, ascending. Reads all, so call it only when the sums of `state` disagree.
local failure = absent()
if failure then return failure end
local meta = redis.call('HMGET', META, 'complete', 'items')
local seen, lost = {}, {}
if not meta[1] then return lost end
for _, index in ipairs(redis.call('HKEYS', RECORDS)) do seen[index] = true end
for _, row in ipairs(redis.call('XRANGE', ITEMS, '-', '+')) do seen[row[2][2]] = true end
for _, member in ipairs(redis.call('ZRANGE', DELAYED, 0, -1)) do seen[delayed_of(member)] = true end
for index = 0, tonumber(meta[2]) - 1 do
  if not seen[tostring(index)] then lost[#lost + 1] = index end
end
return lost
