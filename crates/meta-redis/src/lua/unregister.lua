-- KEYS[5] this session.
finish(me, KEYS[5])
return {'A'}
