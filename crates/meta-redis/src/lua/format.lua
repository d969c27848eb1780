-- KEYS[1] root, then whatever the records need. ARGV: superblock, generation, inline budget, first inode.
local old = redis.call('HMGET', KEYS[1], 'fmt', 'gen')
if old[1] or old[2] then return {'X', old[1] or ''} end
redis.call('HSET', KEYS[1], 'fmt', ARGV[1], 'gen', ARGV[2], 'seq', '0', 'inline', ARGV[3], 'ino', ARGV[4])
for i = 5, #ARGV, 3 do redis.call('HSET', KEYS[tonumber(ARGV[i])], ARGV[i + 1], ARGV[i + 2]) end
return {'A'}
