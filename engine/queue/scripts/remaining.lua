-- remaining: list items of a stopped run that no living worker has begun, and void the leases of those whose worker is gone.
-- KEYS: meta, settled, items, delayed    ARGV: limit, '1' to include expired leases, '1' to include all leases
-- Atomic: nothing listed can be leased or completed any more (a stopped run leases nothing; taken entries belong to ~stopped).
-- Returns place, index, item id, crashes …; the place is the entry, or 'd' and the delayed member. The error ARENARUNNING unless stopped.
local failure = absent()
if failure then return failure end
local meta = redis.call('HMGET', META, 'stopped', 'lease_ms')
if not meta[1] then return redis.error_reply('ARENARUNNING the run is not stopped') end
local room, found = tonumber(ARGV[1]), {}

local function list(place, index, item, crashes)
  for _, value in ipairs({place, index, item, crashes}) do found[#found + 1] = value end
  room = room - 1
end

local function list_pending(rows)
  for _, row in ipairs(rows) do
    local entry = redis.call('XRANGE', ITEMS, row[1], row[1])[1]
    local index, item, _, crashes = fields_of(entry[2])
    list(row[1], index, item, crashes + row[4])
  end
end

-- Takes entries away from workers: each counts as one more crash.
local function list_taken(rows)
  local taken = {}
  for _, row in ipairs(rows) do
    if row[2] ~= STOPPED and row[2] ~= RETURNED and #taken < room then
      redis.call('XCLAIM', ITEMS, GROUP, STOPPED, 0, row[1], 'JUSTID')
      taken[#taken + 1] = row
    end
  end
  list_pending(taken)
end

local group = redis.call('XINFO', 'GROUPS', ITEMS)[1]
local delivered = '0-0'
for at = 1, #group, 2 do
  if group[at] == 'last-delivered-id' then delivered = group[at + 1] end
end
for _, row in ipairs(redis.call('XRANGE', ITEMS, '(' .. delivered, '+', 'COUNT', room)) do
  local index, item, _, crashes = fields_of(row[2])
  list(row[1], index, item, crashes)
end
if room > 0 then
  for _, member in ipairs(redis.call('ZRANGE', DELAYED, 0, room - 1)) do
    local index, item, _, crashes = delayed_of(member)
    list('d' .. member, index, item, crashes)
  end
end
for _, consumer in ipairs({STOPPED, RETURNED}) do
  if room > 0 then list_pending(redis.call('XPENDING', ITEMS, GROUP, '-', '+', room, consumer)) end
end
if room > 0 and ARGV[3] == '1' then
  list_taken(redis.call('XPENDING', ITEMS, GROUP, '-', '+', room + #found))
elseif room > 0 and ARGV[2] == '1' and meta[2] then
  list_taken(redis.call('XPENDING', ITEMS, GROUP, 'IDLE', meta[2], '-', '+', room + #found))
end
return found
