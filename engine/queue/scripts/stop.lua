-- stop: refuse put, lease and retry from now on; the first reason stays.
-- KEYS: meta, settled, wake    ARGV: reason    Returns the reason that stands.
local failure = absent()
if failure then return failure end
stop(ARGV[1])
return redis.call('HGET', META, 'stopped')
