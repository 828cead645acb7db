-- renew: extend the leases that still are this consumer's at this delivery count, and no others.
-- KEYS: meta, settled, items    ARGV: consumer, first entry, last entry, then entry, deliveries …
-- Atomic: a lease that another consumer took over is not taken back. Returns the positions (from 1) of the lost ones.
local failure = absent()
if failure then return failure end
local pending, held, lost = pending_of(ARGV[1], ARGV[2], ARGV[3]), {}, {}
for at = 4, #ARGV, 2 do
  if pending[ARGV[at]] == tonumber(ARGV[at + 1]) then held[#held + 1] = ARGV[at] else lost[#lost + 1] = (at - 2) / 2 end
end
if #held > 0 then
  held[#held + 1] = 'JUSTID'
  redis.call('XCLAIM', ITEMS, GROUP, ARGV[1], 0, unpack(held))
end
return lost
