-- put: queue one chunk of items, once.
-- KEYS: meta, settled, items, records, chunks, wake    ARGV: chunk number or '' (no chunk: always put), '1' for the last chunk, then index, item id …
-- Atomic: the chunk's mark, its items and the mark of completeness. Returns how many were queued; the error ARENASTOPPED after a stop.
local failure = absent()
if failure then return failure end
if redis.call('HEXISTS', META, 'stopped') == 1 then return redis.error_reply('ARENASTOPPED the run is stopped') end
local queued = 0
if ARGV[1] == '' or redis.call('SADD', CHUNKS, ARGV[1]) == 1 then
  local counted = redis.call('HLEN', RECORDS) > 0
  for at = 3, #ARGV, 2 do
    if not (counted and redis.call('HEXISTS', RECORDS, ARGV[at]) == 1) then
      redis.call('XADD', ITEMS, '*', 'i', ARGV[at], 'n', ARGV[at + 1])
      queued = queued + 1
    end
  end
end
if ARGV[2] == '1' then
  redis.call('HSET', META, 'complete', '1')
  wake()
end
return queued
