// Storage that fails when told to. Loaded with LD_PRELOAD into the program under test, it stands between the
// program and the system for all calls that change files under $FAULT_ROOT, numbers them from 1, and
//   FAULT_AT     the number of the first call to disturb; none without it
//   FAULT_KIND   counts calls of this kind only: open, mkdir, write, sync, rename, truncate, unlink
//   FAULT_DO     ENOSPC, EDQUOT, EIO: the call fails so, and nothing is done
//                SHORT: a write takes half of its bytes (at least 1); other calls are left alone
//                KILL: a write takes half of its bytes, then the process is killed; other calls not even begin
//   FAULT_TIMES  how many calls in a row are disturbed, 0 for all that follow; 1 without it
//   FAULT_LOG    a file that gets a record of every call, for those who rebuild the disk from it
//
// A record: number, kind, result, descriptor, offset, bytes, path, new path, separated by tabs; a newline; then
// as many bytes as the record says were written. Number 0 has what only tells which file a descriptor is.
//
// Syncs are counted and can fail, but are not handed on: a killed process loses nothing that the system has, and
// the tests would spend most of their time waiting for a disk.
//
// 64-bit Linux: off_t and off64_t are one type there, so that each pair of names shares one function.

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

_Static_assert(sizeof(off_t) == 8 && sizeof(long) == 8, "64-bit Linux only");

#define DESCRIPTORS 1024
#define SAME_AS(name) __attribute__((alias(#name)))

static const char *root, *kind_counted, *what;
static long first, times, calls;
static int log_file = -1;
static char inside[DESCRIPTORS];
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;

static long number(const char *name, long otherwise)
{
    const char *text = getenv(name);
    return text ? atol(text) : otherwise;
}

__attribute__((constructor)) static void begin(void)
{
    root = getenv("FAULT_ROOT");
    kind_counted = getenv("FAULT_KIND");
    what = getenv("FAULT_DO");
    first = number("FAULT_AT", 0);
    times = number("FAULT_TIMES", 1);
    if (getenv("FAULT_LOG"))
        log_file = syscall(SYS_openat, AT_FDCWD, getenv("FAULT_LOG"),
                           O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
}

static int is_ours(const char *path)
{
    size_t length = root ? strlen(root) : 0;
    return length && !strncmp(path, root, length) && (path[length] == '/' || !path[length]);
}

static int is_open_inside(int fd) { return fd >= 0 && fd < DESCRIPTORS && inside[fd]; }

// The kinds of disturbance; 0 is none, and an errno is that failure.
enum { SHORT = -1, KILL = -2 };

// Counts a call and says what is to happen to it.
static int disturbance(const char *kind, long *count)
{
    *count = 0;
    if (kind_counted && strcmp(kind, kind_counted))
        return 0;
    *count = __atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST);
    if (!what || !first || *count < first || (times && *count >= first + times))
        return 0;
    return !strcmp(what, "ENOSPC")   ? ENOSPC
           : !strcmp(what, "EDQUOT") ? EDQUOT
           : !strcmp(what, "EIO")    ? EIO
           : !strcmp(what, "SHORT")  ? SHORT
           : !strcmp(what, "KILL")   ? KILL
                                     : 0;
}

static void die(void)
{
    syscall(SYS_kill, getpid(), SIGKILL);
    for (;;)
        pause();
}

static void record(long count, const char *kind, long result, int fd, long offset, const char *path,
                   const char *new_path, const void *bytes)
{
    if (log_file < 0)
        return;
    int error = errno;
    char line[8192];
    long length = bytes && result > 0 ? result : 0;
    int size = snprintf(line, sizeof line, "%ld\t%s\t%ld\t%d\t%ld\t%ld\t%s\t%s\n", count, kind, result, fd,
                        offset, length, path, new_path);
    pthread_mutex_lock(&turn);
    syscall(SYS_write, log_file, line, size);
    if (length)
        syscall(SYS_write, log_file, bytes, length);
    pthread_mutex_unlock(&turn);
    errno = error;
}

// A call that is done whole or not at all: counted, perhaps refused, and recorded.
#define WHOLE(kind, fd, argument, path, new_path, call)                          \
    do {                                                                         \
        long count, result;                                                      \
        int fault = disturbance(kind, &count);                                   \
        if (fault == KILL)                                                       \
            die();                                                               \
        if (fault > 0)                                                           \
            errno = fault, result = -1;                                          \
        else                                                                     \
            result = (call);                                                     \
        record(count, kind, result, fd, argument, path, new_path, NULL);         \
        return result;                                                           \
    } while (0)

static int opened(int folder, const char *path, int flags, mode_t mode)
{
    if (!is_ours(path))
        return syscall(SYS_openat, folder, path, flags, mode);
    long count = 0;
    int fault = flags & O_CREAT ? disturbance("open", &count) : 0, fd = -1;
    if (fault == KILL)
        die();
    if (fault > 0)
        errno = fault;
    else
        fd = syscall(SYS_openat, folder, path, flags, mode);
    if (fd >= 0 && fd < DESCRIPTORS)
        inside[fd] = 1;
    // The offset's place tells whether the file was emptied (2) or may have been made (1).
    record(count, "open", fd, fd, flags & O_TRUNC ? 2 : flags & O_CREAT ? 1 : 0, path, "", NULL);
    return fd;
}

static mode_t mode_of(int flags, va_list more) { return flags & O_CREAT ? va_arg(more, mode_t) : 0; }

int open(const char *path, int flags, ...)
{
    va_list more;
    va_start(more, flags);
    mode_t mode = mode_of(flags, more);
    va_end(more);
    return opened(AT_FDCWD, path, flags, mode);
}
int open64(const char *path, int flags, ...) SAME_AS(open);

int openat(int folder, const char *path, int flags, ...)
{
    va_list more;
    va_start(more, flags);
    mode_t mode = mode_of(flags, more);
    va_end(more);
    return opened(folder, path, flags, mode);
}
int openat64(int folder, const char *path, int flags, ...) SAME_AS(openat);

int close(int fd)
{
    if (is_open_inside(fd))
        inside[fd] = 0;
    return syscall(SYS_close, fd);
}

// A write at `offset`, or where the file stands.
static ssize_t written(int fd, const void *bytes, size_t length, off_t offset)
{
    int is_placed = offset >= 0;
    if (!is_open_inside(fd))
        return is_placed ? syscall(SYS_pwrite64, fd, bytes, length, offset)
                         : syscall(SYS_write, fd, bytes, length);
    if (!is_placed)
        offset = lseek(fd, 0, SEEK_CUR);
    long count;
    int fault = disturbance("write", &count);
    if ((fault == SHORT || fault == KILL) && length > 1)
        length /= 2;
    ssize_t result = -1;
    if (fault > 0)
        errno = fault;
    else
        result = is_placed ? syscall(SYS_pwrite64, fd, bytes, length, offset)
                           : syscall(SYS_write, fd, bytes, length);
    record(count, "write", result, fd, offset, "", "", bytes);
    if (fault == KILL)
        die();
    return result;
}

ssize_t write(int fd, const void *bytes, size_t length) { return written(fd, bytes, length, -1); }
ssize_t pwrite(int fd, const void *bytes, size_t length, off_t at) { return written(fd, bytes, length, at); }
ssize_t pwrite64(int fd, const void *bytes, size_t length, off_t at) SAME_AS(pwrite);

// The first part only, as the system may: the caller comes back with the rest.
ssize_t writev(int fd, const struct iovec *parts, int count)
{
    if (!is_open_inside(fd))
        return syscall(SYS_writev, fd, parts, count);
    for (int k = 0; k < count; k++)
        if (parts[k].iov_len)
            return written(fd, parts[k].iov_base, parts[k].iov_len, -1);
    return 0;
}

// What a library might use to get bytes into a file past the calls above: not offered, so that it uses those.
ssize_t copy_file_range(int from, off64_t *at, int to, off64_t *to_at, size_t length, unsigned flags)
{
    if (is_open_inside(to))
        return errno = ENOSYS, -1;
    return syscall(SYS_copy_file_range, from, at, to, to_at, length, flags);
}

int fsync(int fd)
{
    if (!is_open_inside(fd))
        return syscall(SYS_fsync, fd);
    WHOLE("sync", fd, 0, "", "", 0);
}
int fdatasync(int fd) SAME_AS(fsync);

int ftruncate(int fd, off_t length)
{
    if (!is_open_inside(fd))
        return syscall(SYS_ftruncate, fd, length);
    WHOLE("truncate", fd, length, "", "", syscall(SYS_ftruncate, fd, length));
}
int ftruncate64(int fd, off_t length) SAME_AS(ftruncate);

int renameat2(int from, const char *path, int to, const char *new_path, unsigned flags)
{
    if (!is_ours(path) && !is_ours(new_path))
        return syscall(SYS_renameat2, from, path, to, new_path, flags);
    WHOLE("rename", -1, 0, path, new_path, syscall(SYS_renameat2, from, path, to, new_path, flags));
}
int renameat(int from, const char *path, int to, const char *new_path)
{
    return renameat2(from, path, to, new_path, 0);
}
int rename(const char *path, const char *new_path)
{
    return renameat2(AT_FDCWD, path, AT_FDCWD, new_path, 0);
}

int unlinkat(int folder, const char *path, int flags)
{
    if (!is_ours(path))
        return syscall(SYS_unlinkat, folder, path, flags);
    WHOLE("unlink", -1, 0, path, "", syscall(SYS_unlinkat, folder, path, flags));
}
int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }

int mkdirat(int folder, const char *path, mode_t mode)
{
    if (!is_ours(path))
        return syscall(SYS_mkdirat, folder, path, mode);
    WHOLE("mkdir", -1, 0, path, "", syscall(SYS_mkdirat, folder, path, mode));
}
int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }
