-- Changes this session's marks: s no longer alone, l leave, f flushing, c no longer flushing.
local change = {
  s = {['!'] = '.', ['F'] = 'f'},
  f = {['.'] = 'f', ['!'] = 'F'},
  c = {['f'] = '.', ['F'] = '!'},
}
local todo = {}
for i = 1, number() do
  local k, f, what = key(), arg(), arg()
  todo[i] = {k, f, what}
end
free()
for _, t in ipairs(todo) do
  local list = call('HGET', t[1], t[2])
  if list then
    local new = ''
    for sid, mark in string.gmatch(list, ';(%d+)(.)') do
      if sid ~= me then
        if lives(sid) then new = new .. ';' .. sid .. mark end
      elseif t[3] ~= 'l' then
        new = new .. ';' .. sid .. (change[t[3]][mark] or mark)
      end
    end
    if new == '' then
      call('HDEL', t[1], t[2])
    elseif new ~= list then
      call('HSET', t[1], t[2], new)
    end
  end
end
return {'A'}
