-- Gives a slot whose last commit was given up a new operation: a late copy of that commit finds it closed.
-- KEYS[3] this session. ARGV[4] slot, [5] operation.
local slot, op = arg(), arg()
free()
call('HSET', KEYS[3], slot, op .. ' -')
return {'A'}
