-- KEYS[1] root, [2] sessions, [3] leases. ARGV: uuid (32 hex), record, incarnation, microseconds of a lease.
local gen = redis.call('HGET', KEYS[1], 'gen')
if not gen then return {'N'} end
local uuid, record, incarnation = ARGV[1], ARGV[2], ARGV[3]
local now = redis.call('TIME')
local sid = redis.call('HGET', KEYS[2], 'u' .. uuid)
local who = sid and redis.call('HGET', KEYS[2], sid .. 'a')
local told = sid and redis.call('HGET', KEYS[2], sid .. 'n') or '0'
redis.call('HDEL', KEYS[1], '?')
-- The same call, whose answer was lost, finds its own mark and answers what it would have.
local mine = uuid .. '.' .. incarnation
if not who or string.sub(who, 1, -2) ~= mine then
  mine = mine .. (who and 'r' or 'n')
  if not who then sid = string.format('%.0f', redis.call('HINCRBY', KEYS[1], 'sid', 1)) end
  redis.call('HSET', KEYS[2], sid, uuid .. record, 'u' .. uuid, sid, sid .. 'a', mine)
  who = mine
end
local ends = tonumber(now[1]) * 1000000 + tonumber(now[2]) + tonumber(ARGV[4])
redis.call('ZADD', KEYS[3], string.format('%.0f', ends), sid)
return {'A', gen, sid, who, told}
