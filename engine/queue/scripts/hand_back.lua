-- hand_back: return entries that were not run to their end, without a crash on their account.
-- KEYS: meta, settled, items, wake    ARGV: consumer, first entry, last entry, then entry, deliveries …
-- Atomic: the old token is void when the entry can be leased. Returns how many were returned; stale ones are left alone.
local failure = absent()
if failure then return failure end
local pending, returned = pending_of(ARGV[1], ARGV[2], ARGV[3]), 0
for at = 4, #ARGV, 2 do
  local deliveries = tonumber(ARGV[at + 1])
  if pending[ARGV[at]] == deliveries then
    redis.call('XCLAIM', ITEMS, GROUP, RETURNED, 0, ARGV[at], 'IDLE', 0, 'RETRYCOUNT', deliveries - 1, 'JUSTID')
    returned = returned + 1
  end
end
if returned > 0 then wake() end
return returned
