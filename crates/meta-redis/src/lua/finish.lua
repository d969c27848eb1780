-- Ends a session. KEYS[3] leases, KEYS[4] quotas.
local function finish(sid, own)
  local who = call('HGET', KEYS[2], sid .. 'a')
  local fields = call('HGETALL', own)
  free()
  for i = 1, #fields, 2 do
    if string.sub(fields[i], 1, 1) == 'r' then
      local q, sum = string.sub(fields[i], 2), fields[i + 1]
      local back = string.sub(sum, 1, 1) == '-' and string.sub(sum, 2) or '-' .. sum
      if call('HEXISTS', KEYS[4], q .. 'b') == 1 then
        call('HINCRBY', KEYS[4], q .. 'b', sum)
        call('HINCRBY', KEYS[4], q .. 'r', back)
      end
    end
  end
  call('DEL', own)
  call('ZREM', KEYS[3], sid)
  call('HDEL', KEYS[2], sid .. 'a', sid .. 'n')
  if who then call('HDEL', KEYS[2], 'u' .. string.sub(who, 1, 32)) end
end
