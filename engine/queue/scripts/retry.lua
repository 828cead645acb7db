-- retry: give an item back for another attempt at a later time.
-- KEYS: meta, settled, items, delayed, records, totals, wake    ARGV: consumer, entry, deliveries, delay in ms, error kind, index, attempt, crashes, item id
-- Atomic: the lease ends as the retry begins. Returns 1, or 0 when the run is stopped, the lease is stale or the item is counted.
local failure = absent()
if failure then return failure end
if redis.call('HEXISTS', META, 'stopped') == 1 then return 0 end
local entry = ARGV[2]
if pending_of(ARGV[1], entry, entry)[entry] ~= tonumber(ARGV[3]) then return 0 end
release({entry})
if redis.call('HEXISTS', RECORDS, ARGV[6]) == 1 then return 0 end
redis.call('ZADD', DELAYED, now_ms() + tonumber(ARGV[4]), table.concat({ARGV[6], ARGV[7], ARGV[8], ARGV[9]}, SEPARATOR))
redis.call('HINCRBY', TOTALS, 'retries:' .. ARGV[5], 1)
wake()
return 1
