-- KEYS[3] this session, KEYS[4] quotas. ARGV[4] slot, [5] its last operation, [6] this one, [7] flags.
local slot, last, op, flags = arg(), arg(), arg(), arg()
local again = string.find(flags, 'a', 1, true)
local kept = call('HGET', KEYS[3], slot)
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
    call('HSET', KEYS[3], slot, op .. ' -')
  end
  return answer
end

-- 1. Keys that another session holds alone, and new ones where another stands.
local held = {'H'}
for i = 1, number() do
  local found, sole = others(call('HGET', key(), arg()), true)
  if sole then held[#held + 1] = i end
end
local enlist = {}
for i = 1, number() do
  local k, f = key(), arg()
  local list = call('HGET', k, f)
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
    value = call('HGET', k, a)
    bad = (value and '+' .. value or '-') ~= b
  elseif kind == 'n' then
    value = call('ZRANGEBYLEX', k, a, b, 'LIMIT', 0, 1)[1]
    bad = (value or '') ~= arg()
    value = value or false
  elseif kind == 'z' then
    value = call('ZCARD', k)
    bad = value ~= 0
  else
    value = others(call('HGET', k, a), kind == 'a')
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
  local left = call('HMGET', KEYS[4], q .. 'b', q .. 'i')
  if positive(bytes) and lacks(left[1] or '0', bytes) then return refuse({'S', q}) end
  if positive(inodes) and lacks(left[2] or '0', inodes) then return refuse({'S', q}) end
  if left[1] then takes[#takes + 1] = {q, back, inodes_back} end
end
local inline, inline_back = arg(), arg()
if positive(inline) and lacks(call('HGET', KEYS[1], 'inline') or '0', inline) then return refuse({'I'}) end

-- 4. The first write, then all others.
if again or string.find(flags, 'f', 1, true) then free() end
local seq = text(call('HINCRBY', KEYS[1], 'seq', 1))
call('HSET', KEYS[3], slot, op .. ' ' .. seq .. ' ' .. now[1] .. ' ' .. now[2])
for _, take in ipairs(takes) do
  if take[2] ~= '0' then call('HINCRBY', KEYS[4], take[1] .. 'b', take[2]) end
  if take[3] ~= '0' then call('HINCRBY', KEYS[4], take[1] .. 'i', take[3]) end
end
if inline ~= '0' then call('HINCRBY', KEYS[1], 'inline', inline_back) end

local function due(after_ms) return text(clock() + tonumber(after_ms) * 1000) end
local function add(k, field, by)
  local n = call('HINCRBY', k, field, by)
  if n == 0 then call('HDEL', k, field) end
  return n
end
local function holders(k, field)
  local rest = ''
  for sid in string.gmatch(call('HGET', k, field) or '', ';(%d+)') do
    if sid ~= me then rest = rest .. ';' .. sid end
  end
  return rest
end
-- Frequent ones first; a chain of ifs costs less than a table of functions made anew in each call.
for _ = 1, number() do
  local kind, k, f = arg(), key(), arg()
  if kind == 'h' then
    call('HSET', k, f, arg())
  elseif kind == 'l' then
    call('ZADD', k, '0', f)
  elseif kind == 't' then
    call('HSET', k, f, now[1] .. ' ' .. now[2])
  elseif kind == 'u' then
    call('ZREM', k, f)
  elseif kind == 'd' then
    call('HDEL', k, f)
  elseif kind == 'p' then
    local by, queue, member, after = arg(), key(), arg(), arg()
    local n = add(k, f, by)
    if n <= 0 then
      call('HDEL', k, f)
      call('ZADD', queue, due(after), member)
    elseif n == tonumber(by) then
      call('ZREM', queue, member)
    end
  elseif kind == 'v' then
    local by = arg()
    if call('HEXISTS', k, f .. 'b') == 1 then call('HINCRBY', k, f .. 'r', by) end
    add(KEYS[3], 'r' .. f, by)
  elseif kind == 's' then
    add(k, f, arg())
  elseif kind == 'r' then
    local queue, member, after = key(), arg(), arg()
    if add(k, f, -1) < 0 then
      call('HDEL', k, f)
      call('ZADD', queue, due(after), member)
    end
  elseif kind == 'k' then
    call('ZADD', k, due(arg()), f)
  elseif kind == 'o' then
    call('HSET', k, f, holders(k, f) .. ';' .. me)
  elseif kind == 'x' then
    local rest = holders(k, f)
    if rest == '' then call('HDEL', k, f) else call('HSET', k, f, rest) end
  elseif kind == 'q' then
    call('HSET', k, f .. 'b', arg(), f .. 'i', arg(), f .. 'r', '0')
  elseif kind == 'z' then
    call('HDEL', k, f .. 'b', f .. 'i', f .. 'r')
  end
end
for _, e in ipairs(enlist) do call('HSET', e[1], e[2], e[3]) end
for _ = 1, number() do
  local to = arg()
  tell(to, arg())
end
return {'D', seq, now[1], now[2]}
