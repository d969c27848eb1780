-- Begins every script of a session.
-- KEYS[1] the root hash, KEYS[2] the sessions. ARGV[1] generation, ARGV[2] session, ARGV[3] its identity.
local call = redis.call
local gen = call('HGET', KEYS[1], 'gen')
if not gen then return {'N'} end
if gen ~= ARGV[1] then return {'G'} end
if call('HGET', KEYS[2], ARGV[2] .. 'a') ~= ARGV[3] then return {'F'} end
local me = ARGV[2]
local now = call('TIME')
local at = 3
local function arg()
  at = at + 1
  return ARGV[at]
end
local function number() return tonumber(arg()) end
local function key() return KEYS[tonumber(arg())] end
local function text(n) return string.format('%.0f', n) end
-- Microseconds; below 2^53 until the year 2255.
local function clock() return tonumber(now[1]) * 1000000 + tonumber(now[2]) end
-- Its first write may be refused for want of memory; after one that frees (this one finds nothing) none is.
local function free() call('HDEL', KEYS[1], '?') end
