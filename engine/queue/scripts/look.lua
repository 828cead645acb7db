-- look: what a waiting worker compares.
-- KEYS: items, delayed, wake    Returns {last entry put, last wake-up, ms until the next retry is due or -1}; '' for a stream that is not there.
local function last_of(stream)
  if redis.call('EXISTS', stream) == 0 then return '' end
  local info = redis.call('XINFO', 'STREAM', stream)
  for at = 1, #info, 2 do
    if info[at] == 'last-generated-id' then return info[at + 1] end
  end
  return ''
end
local due = redis.call('ZRANGE', DELAYED, 0, 0, 'WITHSCORES')[2]
return {last_of(ITEMS), last_of(WAKE), due and math.max(0, due - now_ms()) or -1}
