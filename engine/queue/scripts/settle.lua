-- settle: drop the run's keys and leave the mark.
-- KEYS: all    ARGV: how many seconds the mark stays, 0 for no mark
-- Atomic: a worker finds the keys, or the mark. Returns 1.
if ARGV[1] == '0' then
  redis.call('UNLINK', unpack(KEYS))
else
  redis.call('SET', SETTLED, '1', 'EX', ARGV[1])
  redis.call('UNLINK', META, ITEMS, DELAYED, RECORDS, TOTALS, CELLS, SKETCHES, CHUNKS, WAKE, PLAN)
end
return 1
