-- KEYS[2] sessions, the rest buckets without records: gone, unless a living session watches them.
for i = 3, #KEYS do
  local fields, keep = redis.call('HGETALL', KEYS[i]), false
  for f = 1, #fields, 2 do
    if not string.find(fields[f], '^%d*w$') then keep = true break end
    for sid in string.gmatch(fields[f + 1], ';(%d+)') do
      if redis.call('HEXISTS', KEYS[2], sid .. 'a') == 1 then keep = true break end
    end
  end
  if not keep then redis.call('DEL', KEYS[i]) end
end
return {'A'}
