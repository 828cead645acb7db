-- lease: promote due retries, then take what was handed back, what has run out, and what is new.
-- KEYS: meta, settled, items, delayed    ARGV: consumer, limit, lease time in ms, '1' to take over expired leases, '1' to find again what the consumer has
-- Atomic: a stopped run leases nothing; one entry goes to one consumer. A crash is a take-over: it raises the delivery count, which is part of the token.
-- Returns {now in ms, entry, deliveries, index, item id, attempt, crashes, entry, …}.
local failure = absent()
if failure then return failure end
local consumer, limit, lease_ms = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local now = now_ms()
local leases = {now}
local meta = redis.call('HMGET', META, 'stopped', 'lease_ms')
if meta[1] then return leases end
if meta[2] ~= lease_ms then redis.call('HSET', META, 'lease_ms', lease_ms) end
local room = limit

local function take(entry, fields, deliveries)
  local index, item, attempt, crashes = fields_of(fields)
  for _, value in ipairs({entry, deliveries, index, item, attempt, crashes + deliveries - 1}) do leases[#leases + 1] = value end
  room = room - 1
end

-- Give the consumer its own entry again under the same token: it may not know that it has it.
local function find_again(entry, deliveries)
  local found = redis.call('XRANGE', ITEMS, entry, entry)[1]
  if not found then return end
  redis.call('XCLAIM', ITEMS, GROUP, consumer, 0, entry, 'JUSTID')
  take(entry, found[2], deliveries)
end

local function take_over(entry, deliveries)
  local found = redis.call('XCLAIM', ITEMS, GROUP, consumer, 0, entry)[1]
  if found and found[2] then take(entry, found[2], deliveries + 1) end
end

for _, member in ipairs(redis.call('ZRANGEBYSCORE', DELAYED, '-inf', now, 'LIMIT', 0, limit)) do
  local index, item, attempt, crashes = delayed_of(member)
  redis.call('XADD', ITEMS, '*', 'i', index, 'n', item, 'a', attempt, 'c', crashes)
  redis.call('ZREM', DELAYED, member)
end
if ARGV[5] == '1' then
  for _, row in ipairs(redis.call('XPENDING', ITEMS, GROUP, '-', '+', MANY, consumer)) do find_again(row[1], row[4]) end
end
if room > 0 then
  for _, row in ipairs(redis.call('XPENDING', ITEMS, GROUP, '-', '+', room, RETURNED)) do take_over(row[1], row[4]) end
end
if room > 0 and ARGV[4] == '1' then
  for _, row in ipairs(redis.call('XPENDING', ITEMS, GROUP, 'IDLE', lease_ms, '-', '+', room)) do
    if row[2] == consumer then find_again(row[1], row[4]) else take_over(row[1], row[4]) end
  end
end
if room > 0 then
  local reply = redis.call('XREADGROUP', 'GROUP', GROUP, consumer, 'COUNT', room, 'STREAMS', ITEMS, '>')
  if reply then
    for _, row in ipairs(reply[1][2]) do take(row[1], row[2], 1) end
  end
end
return leases
