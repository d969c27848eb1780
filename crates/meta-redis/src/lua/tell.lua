-- Counts and sends a message; nothing if the session is dead.
local function tell(sid, message)
  local who = redis.call('HGET', KEYS[2], sid .. 'a')
  if who then
    local n = redis.call('HINCRBY', KEYS[2], sid .. 'n', 1)
    redis.call('PUBLISH', KEYS[1] .. 'm' .. who, text(n) .. ' ' .. message)
  end
end
