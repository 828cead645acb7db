-- plan: read the plan and the digest it must have.
-- KEYS: meta, settled, plan    Returns {digest, bytes or nil}.
local failure = absent()
if failure then return failure end
return {redis.call('HGET', META, 'digest'), redis.call('GET', PLAN)}
