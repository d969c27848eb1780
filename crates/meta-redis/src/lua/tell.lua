-- Counts and sends a message; nothing if the session is dead.
local function tell(sid, message)
  local who = call('HGET', KEYS[2], sid .. 'a')
  if who then
    local n = call('HINCRBY', KEYS[2], sid .. 'n', 1)
    call('PUBLISH', KEYS[1] .. 'm' .. who, text(n) .. ' ' .. message)
  end
end
