-- KEYS[5] the victim. ARGV[4] its number, [5] microseconds of grace.
local victim, grace = arg(), number()
local ends = call('ZSCORE', KEYS[3], victim)
if not ends then return {'A', 1} end
if tonumber(ends) + grace >= clock() then return {'A', 0} end
finish(victim, KEYS[5])
return {'A', 1}
