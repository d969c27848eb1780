-- ARGV[4] which counter, [5] by how much.
local what, by = arg(), arg()
return {'A', text(call('HINCRBY', KEYS[1], what, by))}
