-- KEYS[3] this session, KEYS[4] quotas. ARGV[4] slot, [5] its last operation, [6] this one, [7] flags.
local slot, last, op, flags = arg(), arg(), arg(), arg()
local again = string.find(flags, 'a', 1, true)
local kept = redis.call('HGET', KEYS[3], slot)
if kept then
  local gap = string.find(kept, ' ', 1, true)
  local done = string.sub(kept, 1, gap - 1)
  if done == op then return {'K', string.sub(kept, gap + 1)} end
  if done ~= last then return {'L'} end
elseif last ~= '' then
  return {'L'}
end
-- A copy of this commit may still be under way: it must not find the slot open when it arrives.
local function refuse(answer)
  if again then
    free()
    redis.call('HSET', KEYS[3], slot, op .. ' -')
  end
  return answer
end

-- 1. Keys that another session holds alone, and new ones where another stands.
local held = {'H'}
for i = 1, number() do
  local found, sole = others(redis.call('HGET', key(), arg()), true)
  if sole then held[#held + 1] = i end
end
local enlist = {}
for i = 1, number() do
  local k, f = key(), arg()
  local list = redis.call('HGET', k, f)
  if #others(list, true) > 0 then held[#held + 1] = -i end
  enlist[i] = {k, f, (enlisted(list))}
end
if #held > 1 then return refuse(held) end

-- 2. Checks.
local fresh, failed = {'C'}, false
for _ = 1, number() do
  local kind, k, a, b = arg(), key(), arg(), arg()
  local bad, value
  if kind == 'r' then
    value = redis.call('HGET', k, a)
    bad = (value and '+' .. value or '-') ~= b
  elseif kind == 'n' then
    value = redis.call('ZRANGEBYLEX', k, a, b, 'LIMIT', 0, 1)[1]
    bad = (value or '') ~= arg()
    value = value or false
  elseif kind == 'z' then
    value = redis.call('ZCARD', k)
    bad = value ~= 0
  else
    value = others(redis.call('HGET', k, a), kind == 'a')
    bad = #value > 0
  end
  if bad then failed = true end
  fresh[#fresh + 1] = bad and 1 or 0
  fresh[#fresh + 1] = value
end
if failed then return refuse(fresh) end

-- 3. Takes. Decimal strings are compared in two halves: a double holds 2^53 only.
local function lacks(left, take)
  if string.sub(left, 1, 1) == '-' then return true end
  if #left ~= #take then return #left < #take end
  local cut = #left - 9
  if cut < 1 then return tonumber(left) < tonumber(take) end
  local lh, th = tonumber(string.sub(left, 1, cut)), tonumber(string.sub(take, 1, cut))
  if lh ~= th then return lh < th end
  return tonumber(string.sub(left, cut + 1)) < tonumber(string.sub(take, cut + 1))
end
local function positive(n) return n ~= '0' and string.sub(n, 1, 1) ~= '-' end
local takes = {}
for i = 1, number() do
  local q, bytes, back, inodes, inodes_back = arg(), arg(), arg(), arg(), arg()
  local left = redis.call('HMGET', KEYS[4], q .. 'b', q .. 'i')
  if positive(bytes) and lacks(left[1] or '0', bytes) then return refuse({'S', q}) end
  if positive(inodes) and lacks(left[2] or '0', inodes) then return refuse({'S', q}) end
  if left[1] then takes[#takes + 1] = {q, back, inodes_back} end
end
local inline, inline_back = arg(), arg()
if positive(inline) and lacks(redis.call('HGET', KEYS[1], 'inline') or '0', inline) then return refuse({'I'}) end

-- 4. The first write, then all others.
if again or string.find(flags, 'f', 1, true) then free() end
local seq = text(redis.call('HINCRBY', KEYS[1], 'seq', 1))
redis.call('HSET', KEYS[3], slot, op .. ' ' .. seq .. ' ' .. now[1] .. ' ' .. now[2])
for _, take in ipairs(takes) do
  redis.call('HINCRBY', KEYS[4], take[1] .. 'b', take[2])
  redis.call('HINCRBY', KEYS[4], take[1] .. 'i', take[3])
end
if inline ~= '0' then redis.call('HINCRBY', KEYS[1], 'inline', inline_back) end

local function due(after_ms) return text(clock() + tonumber(after_ms) * 1000) end
local function add(k, field, by)
  local n = redis.call('HINCRBY', k, field, by)
  if n == 0 then redis.call('HDEL', k, field) end
  return n
end
local function holders(k, field)
  local rest = ''
  for sid in string.gmatch(redis.call('HGET', k, field) or '', ';(%d+)') do
    if sid ~= me then rest = rest .. ';' .. sid end
  end
  return rest
end
local function keep(k, field, value)
  if value == '' then redis.call('HDEL', k, field) else redis.call('HSET', k, field, value) end
end
local write = {
  h = function(k) redis.call('HSET', k, arg(), arg()) end,
  d = function(k) redis.call('HDEL', k, arg()) end,
  l = function(k) redis.call('ZADD', k, '0', arg()) end,
  u = function(k) redis.call('ZREM', k, arg()) end,
  t = function(k) redis.call('HSET', k, arg(), now[1] .. ' ' .. now[2]) end,
  s = function(k) add(k, arg(), arg()) end,
  r = function(k)
    local field, queue, member, after = arg(), key(), arg(), arg()
    if add(k, field, -1) < 0 then
      redis.call('HDEL', k, field)
      redis.call('ZADD', queue, due(after), member)
    end
  end,
  p = function(k)
    local field, by, queue, member, after = arg(), arg(), key(), arg(), arg()
    local n = add(k, field, by)
    if n <= 0 then
      redis.call('HDEL', k, field)
      redis.call('ZADD', queue, due(after), member)
    elseif n == tonumber(by) then
      redis.call('ZREM', queue, member)
    end
  end,
  k = function(k)
    local member, after = arg(), arg()
    redis.call('ZADD', k, due(after), member)
  end,
  o = function(k)
    local field = arg()
    redis.call('HSET', k, field, holders(k, field) .. ';' .. me)
  end,
  x = function(k)
    local field = arg()
    keep(k, field, holders(k, field))
  end,
  v = function(k)
    local q, by = arg(), arg()
    if redis.call('HEXISTS', k, q .. 'b') == 1 then redis.call('HINCRBY', k, q .. 'r', by) end
    add(KEYS[3], 'r' .. q, by)
  end,
  q = function(k)
    local q, bytes, inodes = arg(), arg(), arg()
    redis.call('HSET', k, q .. 'b', bytes, q .. 'i', inodes, q .. 'r', '0')
  end,
  z = function(k)
    local q = arg()
    redis.call('HDEL', k, q .. 'b', q .. 'i', q .. 'r')
  end,
}
for _ = 1, number() do
  local kind = arg()
  write[kind](key())
end
for _, e in ipairs(enlist) do redis.call('HSET', e[1], e[2], e[3]) end
for _ = 1, number() do
  local to = arg()
  tell(to, arg())
end
return {'D', seq, now[1], now[2]}
