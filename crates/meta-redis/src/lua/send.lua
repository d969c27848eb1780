local to, message = arg(), arg()
free()
tell(to, message)
return {'A'}
