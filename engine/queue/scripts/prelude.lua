-- prelude: opens every script. The names of the run's keys, and the steps that several scripts share.
-- KEYS, the same for every script: meta, settled, items, delayed, records, totals, cells, sketches, chunks, wake, plan.
local META, SETTLED, ITEMS, DELAYED, RECORDS, TOTALS, CELLS, SKETCHES, CHUNKS, WAKE, PLAN = unpack(KEYS)
-- GROUP and RETURNED are those of keys.py. STOPPED holds what a stopped run took away from workers that are gone, until it is recorded.
local GROUP, RETURNED, STOPPED = 'workers', '~returned', '~stopped'
local SEPARATOR = '\31'
local MANY = 1000000

-- Returns nil when the run is here, otherwise the error to answer with. A stream that the store dropped is there again, empty: its items are in no
-- set then, which `state` shows.
local function absent()
  if redis.call('EXISTS', META) == 1 then
    if redis.call('EXISTS', ITEMS) == 0 then redis.call('XGROUP', 'CREATE', ITEMS, GROUP, '0', 'MKSTREAM') end
    return nil
  end
  if redis.call('EXISTS', SETTLED) == 1 then return redis.error_reply('ARENASETTLED the run is settled') end
  return redis.error_reply('ARENAUNKNOWN no such run')
end

local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- Wakes everybody who waits for a change of the run.
local function wake()
  redis.call('XADD', WAKE, 'MAXLEN', 1, '*', 'w', '1')
end

local function stop(reason)
  if redis.call('HSETNX', META, 'stopped', reason) == 1 then wake() end
end

-- Returns entry -> delivery count of what `consumer` has pending from entry `first` to entry `last`.
local function pending_of(consumer, first, last)
  local pending = {}
  for _, row in ipairs(redis.call('XPENDING', ITEMS, GROUP, first, last, MANY, consumer)) do pending[row[1]] = row[4] end
  return pending
end

-- Reads an entry's fields: index, item id, attempt, crashes before this entry.
local function fields_of(fields)
  return fields[2], fields[4], tonumber(fields[6] or 1), tonumber(fields[8] or 0)
end

-- Reads a delayed member: index, item id, attempt, crashes.
local function delayed_of(member)
  local index, attempt, crashes, item = string.match(member, '^(%d+)\31(%d+)\31(%d+)\31(.*)$')
  return index, item, attempt, crashes
end

local function add(sums, field, amount)
  sums[field] = (sums[field] or 0) + amount
end

local function increase(key, sums)
  for field, amount in pairs(sums) do
    if amount ~= 0 then redis.call('HINCRBY', key, field, string.format('%.0f', amount)) end
  end
end

-- Counts items that have no record yet: stores the records and adds their shares to totals, cells and sketches, each sum once a call.
-- Stops the run when the spend crosses the budget, and wakes the workers when the run is drained.
-- ARGV from `from`, nine an item: index, verdict, cell, bucket, cost in nano-USD, 1 if that lacks something, input tokens, output tokens, record. `chosen`: offsets to count.
local function count(chosen)
  if #chosen == 0 then return end
  local rows, totals, cells, sketches = {}, {}, {}, {}
  for _, at in ipairs(chosen) do
    local verdict, cell, bucket, cost = ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], tonumber(ARGV[at + 4])
    rows[#rows + 1] = ARGV[at]
    rows[#rows + 1] = ARGV[at + 8]
    add(totals, verdict, 1)
    add(totals, 'cost', cost)
    add(totals, 'partial', tonumber(ARGV[at + 5]))
    add(totals, 'input_tokens', tonumber(ARGV[at + 6]))
    add(totals, 'output_tokens', tonumber(ARGV[at + 7]))
    add(cells, cell .. SEPARATOR .. verdict, 1)
    add(cells, cell .. SEPARATOR .. 'cost', cost)
    if bucket ~= '' then add(sketches, cell .. SEPARATOR .. bucket, 1) end
  end
  redis.call('HSET', RECORDS, unpack(rows))
  increase(TOTALS, totals)
  increase(CELLS, cells)
  increase(SKETCHES, sketches)
  local meta = redis.call('HMGET', META, 'budget', 'complete', 'items')
  if meta[1] and tonumber(redis.call('HGET', TOTALS, 'cost') or 0) > tonumber(meta[1]) then stop('budget') end
  if meta[2] and redis.call('HLEN', RECORDS) >= tonumber(meta[3]) then wake() end
end

-- Returns index -> true of those of `indexes` that have a record.
local function recorded(indexes)
  local found = {}
  if #indexes == 0 then return found end
  for position, record in ipairs(redis.call('HMGET', RECORDS, unpack(indexes))) do
    if record then found[indexes[position]] = true end
  end
  return found
end

local function release(entries)
  if #entries == 0 then return end
  redis.call('XACK', ITEMS, GROUP, unpack(entries))
  redis.call('XDEL', ITEMS, unpack(entries))
end
