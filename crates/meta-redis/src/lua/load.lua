-- KEYS[4] quotas.
local records, buckets, names, lists, quotas = {}, {}, {}, {}, {}
for i = 1, number() do records[i] = call('HGET', key(), arg()) end
for i = 1, number() do buckets[i] = call('HGETALL', key()) end
for i = 1, number() do
  local k, from, to = key(), arg(), arg()
  names[i] = call('ZRANGEBYLEX', k, from, to, 'LIMIT', 0, 1)[1] or false
end
for i = 1, number() do
  local k, from, limit = key(), arg(), arg()
  lists[i] = call('ZRANGEBYLEX', k, from, '+', 'LIMIT', 0, limit)
end
for i = 1, number() do
  local q = arg()
  quotas[i] = call('HMGET', KEYS[4], q, q .. 'b', q .. 'i', q .. 'r')
end
local seq = call('HGET', KEYS[1], 'seq')

-- Where it stands: `-` held by another, `!` alone, `.` with others, `_` only read. Reads end here.
local standing, ask, change = {}, {}, {}
for i = 1, number() do
  local k, f, name, watch = key(), arg(), arg(), arg()
  local list = call('HGET', k, f)
  local found, sole = others(list, true)
  if sole then
    standing[i] = '-'
    ask[#ask + 1] = {sole, name}
  elseif watch == '1' then
    local new, alone = enlisted(list)
    standing[i] = alone and '!' or '.'
    if new ~= list then change[#change + 1] = {k, f, new} end
  else
    standing[i] = '_'
  end
end
if #ask + #change > 0 then free() end
for _, c in ipairs(change) do call('HSET', c[1], c[2], c[3]) end
for _, s in ipairs(ask) do tell(s[1], 'S ' .. s[2]) end
return {'A', seq, now[1], now[2], records, buckets, names, lists, quotas, table.concat(standing)}
