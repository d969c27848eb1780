/* Answers pathconf(_PC_LINK_MAX) for FUSE with the limit of Carafe. The C library takes the answer from a table of file system
 * types; FUSE is not in it, and pjdfstest skips its test of EMLINK where the limit is unknown. Preloaded into that suite only. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <sys/vfs.h>
#include <unistd.h>

#define FUSE_SUPER_MAGIC 0x65735546

long pathconf(const char *path, int name)
{
	static long (*next)(const char *, int);
	struct statfs fs;

	if (name == _PC_LINK_MAX && statfs(path, &fs) == 0 && fs.f_type == FUSE_SUPER_MAGIC)
		return LINK_MAX_OF_CARAFE;
	if (next == NULL)
		next = (long (*)(const char *, int))dlsym(RTLD_NEXT, "pathconf");
	return next(path, name);
}
