/* A disk with one bad sector: reading the byte BAD_OFFSET of the file with inode BAD_INODE fails with EIO.
   Preloaded into a process; covers what kboot reads and copies files with. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static int is_bad(int fd, off64_t offset, size_t size) {
    const char *inode = getenv("BAD_INODE"), *at = getenv("BAD_OFFSET");
    struct stat found;
    if (!inode || !at || fstat(fd, &found) || found.st_ino != strtoull(inode, NULL, 10)) return 0;
    off64_t bad = strtoll(at, NULL, 10);
    return offset <= bad && bad < offset + (off64_t)size;
}

static size_t total(const struct iovec *parts, int count) {
    size_t size = 0;
    for (int n = 0; n < count; n++) size += parts[n].iov_len;
    return size;
}

ssize_t preadv64(int fd, const struct iovec *parts, int count, off64_t offset) {
    ssize_t (*real)(int, const struct iovec *, int, off64_t) = dlsym(RTLD_NEXT, "preadv64");
    if (is_bad(fd, offset, total(parts, count))) { errno = EIO; return -1; }
    return real(fd, parts, count, offset);
}

ssize_t preadv64v2(int fd, const struct iovec *parts, int count, off64_t offset, int flags) {
    ssize_t (*real)(int, const struct iovec *, int, off64_t, int) = dlsym(RTLD_NEXT, "preadv64v2");
    if (is_bad(fd, offset, total(parts, count))) { errno = EIO; return -1; }
    return real(fd, parts, count, offset, flags);
}

ssize_t pread64(int fd, void *buffer, size_t size, off64_t offset) {
    ssize_t (*real)(int, void *, size_t, off64_t) = dlsym(RTLD_NEXT, "pread64");
    if (is_bad(fd, offset, size)) { errno = EIO; return -1; }
    return real(fd, buffer, size, offset);
}

ssize_t copy_file_range(int in, off64_t *from, int out, off64_t *to, size_t size, unsigned int flags) {
    ssize_t (*real)(int, off64_t *, int, off64_t *, size_t, unsigned int) = dlsym(RTLD_NEXT, "copy_file_range");
    off64_t start = from ? *from : lseek64(in, 0, SEEK_CUR);
    if (is_bad(in, start, size)) { errno = EIO; return -1; }
    return real(in, from, out, to, size, flags);
}
