-- publish: lay the plan where workers find it.
-- KEYS: meta, settled, plan    ARGV: digest of the bytes, the bytes
-- Atomic: only the pinned plan can be published. Returns 1, or the error ARENAREFUSED.
local failure = absent()
if failure then return failure end
local digest = redis.call('HGET', META, 'digest')
if digest ~= ARGV[1] then return redis.error_reply('ARENAREFUSED the run is pinned to plan ' .. digest) end
redis.call('SET', PLAN, ARGV[2])
return 1
