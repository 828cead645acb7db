-- state: one consistent look at the run.
-- KEYS: meta, settled, items, delayed, records, totals    Returns {meta as pairs, totals as pairs, entries, pending, handed back, delayed, recorded}.
local failure = absent()
if failure then return failure end
local summary, returned = redis.call('XPENDING', ITEMS, GROUP), 0
for _, row in ipairs(summary[4] or {}) do
  if row[1] == RETURNED or row[1] == STOPPED then returned = returned + tonumber(row[2]) end
end
return {
  redis.call('HGETALL', META), redis.call('HGETALL', TOTALS), redis.call('XLEN', ITEMS), summary[1], returned,
  redis.call('ZCARD', DELAYED), redis.call('HLEN', RECORDS),
}
