-- KEYS[1] a queue by microseconds. ARGV[1] at most so many, [2] all from this time on, or empty for what is due now.
local now = redis.call('TIME')
local from, to = ARGV[2], '+inf'
if from == '' then from, to = '-inf', string.format('%.0f', tonumber(now[1]) * 1000000 + tonumber(now[2])) end
return {now[1], now[2], redis.call('ZRANGEBYSCORE', KEYS[1], from, to, 'WITHSCORES', 'LIMIT', 0, ARGV[1])}
