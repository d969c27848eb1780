-- Watcher lists: `;<session><mark>` each; mark `.` none, `!` sole, `f` flushing, `F` both.
local known = {}
local function lives(sid)
  local l = known[sid]
  if l == nil then
    l = call('HEXISTS', KEYS[2], sid .. 'a') == 1
    known[sid] = l
  end
  return l
end
-- The other living sessions, and the one among them that holds the key alone.
local function others(list, flushing_too)
  local found, sole = {}, nil
  if list then
    for sid, mark in string.gmatch(list, ';(%d+)(.)') do
      if sid ~= me and lives(sid) then
        if mark == '!' or mark == 'F' then sole = sid end
        if flushing_too or (mark ~= 'f' and mark ~= 'F') then found[#found + 1] = sid end
      end
    end
  end
  return found, sole
end
-- The list with this session enlisted, and whether it stands alone in it.
local function enlisted(list)
  local rest, mine = '', '.'
  if list then
    for sid, mark in string.gmatch(list, ';(%d+)(.)') do
      if sid == me then
        mine = mark
      elseif lives(sid) then
        rest = rest .. ';' .. sid .. mark
      end
    end
  end
  local flushing = mine == 'f' or mine == 'F'
  if rest == '' then return ';' .. me .. (flushing and 'F' or '!'), true end
  return rest .. ';' .. me .. (flushing and 'f' or '.'), false
end
