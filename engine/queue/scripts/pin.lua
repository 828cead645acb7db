-- pin: create the run's meta and consumer group, or find them unchanged.
-- KEYS: meta, settled, items, delayed, chunks    ARGV: plan digest, items, budget in nano-USD or '', installation
-- Atomic: a run has one digest for life. Where only the meta was lost, records stay, and what was queued is put anew. Returns 1; the error ARENAREFUSED when it has another; ARENASETTLED when it is over.
local known = redis.call('HMGET', META, 'digest', 'items')
if known[1] then
  if known[1] ~= ARGV[1] or known[2] ~= ARGV[2] then
    return redis.error_reply('ARENAREFUSED the run is pinned to plan ' .. known[1] .. ' with ' .. known[2] .. ' items')
  end
  return 1
end
if redis.call('EXISTS', SETTLED) == 1 then return redis.error_reply('ARENASETTLED the run is settled') end
redis.call('HSET', META, 'digest', ARGV[1], 'items', ARGV[2], 'installation', ARGV[4])
if ARGV[3] ~= '' then redis.call('HSET', META, 'budget', ARGV[3]) end
redis.call('DEL', ITEMS, DELAYED, CHUNKS)
redis.call('XGROUP', 'CREATE', ITEMS, GROUP, '0', 'MKSTREAM')
return 1
