-- refuse: stop the run because a worker cannot begin it, and keep why; a run that is stopped already keeps its reason.
-- KEYS: meta, settled, wake    ARGV: kind, message    Returns the reason that stands.
local failure = absent()
if failure then return failure end
if redis.call('HEXISTS', META, 'stopped') == 0 then
  redis.call('HSET', META, 'refusal_kind', ARGV[1], 'refusal', ARGV[2])
  stop('refused')
end
return redis.call('HGET', META, 'stopped')
