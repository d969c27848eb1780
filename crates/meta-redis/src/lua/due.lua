-- KEYS[1] a queue by microseconds. ARGV[1] at most so many, [2] `1` for those whose time has not come too.
local now = redis.call('TIME')
local to = '+inf'
if ARGV[2] ~= '1' then to = string.format('%.0f', tonumber(now[1]) * 1000000 + tonumber(now[2])) end
return {now[1], now[2], redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', to, 'WITHSCORES', 'LIMIT', 0, ARGV[1])}
