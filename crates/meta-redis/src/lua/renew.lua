-- KEYS[3] leases, KEYS[4] quotas. ARGV[4] microseconds of a lease, [5] of grace.
local lease, grace = number(), number()
local root = call('HMGET', KEYS[1], 'seq', 'inline')
local quotas = call('HGETALL', KEYS[4])
local expired = call('ZRANGEBYSCORE', KEYS[3], '-inf', '(' .. text(clock() - grace))
local told = call('HGET', KEYS[2], me .. 'n')
free()
call('ZADD', KEYS[3], text(clock() + lease), me)
local rest = {}
for _, sid in ipairs(expired) do
  if sid ~= me then rest[#rest + 1] = sid end
end
return {'A', root[1], now[1], now[2], root[2] or '0', quotas, rest, told or '0'}
