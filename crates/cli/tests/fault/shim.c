// Storage with faults on request, loaded with LD_PRELOAD into the program under test. The shim
// intercepts all calls that change files under $FAULT_ROOT and numbers them from 1. Its settings:
//   FAULT_AT     number of the first call to disturb, none by default
//   FAULT_KIND   counts only calls of this kind: open, mkdir, write, sync, rename, truncate, unlink,
//                or log. Calls that open or write run.log are of the kind log. Only FAULT_KIND=log
//                counts them, and they have no record, because the log is no part of the results
//   FAULT_DO     ENOSPC, EDQUOT, EIO: the call fails with this error and has no effect
//                SHORT: a write stores half of its bytes (at least 1), other calls are not disturbed
//                KILL: a write stores half of its bytes, then the process is killed. Before other
//                calls the process is killed at once
//                STOP: before the call the process stops until it receives SIGCONT
//                TERM: before the call the process creates $FAULT_ROOT/waiting, and waits until its
//                handler of SIGTERM has returned
//   FAULT_TIMES  number of consecutive calls to disturb, 1 by default, 0 for all that follow
//   FAULT_LOCK   ENOLCK, ENOSYS or EOPNOTSUPP: files inside cannot be locked, and no call is counted
//   FAULT_LOG    file that receives a record of every call, from which the tests rebuild the disk
//
// A record has the fields number, kind, result, descriptor, offset, length, path and new path,
// separated by tabs. After a newline follow `length` bytes, those that were written. Calls with
// number 0 are not counted and only map a descriptor to a file.
//
// Syncs are counted and can fail, but are not executed. A killed process loses no data that the
// system already has, and the tests would spend most of their time waiting for the disk.
//
// 64-bit Linux only: off_t and off64_t are the same type there, so both versions of a call share
// one function.

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

static const char *root, *kind_counted, *action;
static long first_call, times, call_count;
static int log_file = -1;
// 0 for files outside of the root, 1 for files inside, 2 for run.log.
static char inside[DESCRIPTORS];
static pthread_mutex_t log_mutex = PTHREAD_MUTEX_INITIALIZER;

static long integer_from_environment(const char *name, long fallback)
{
    const char *text = getenv(name);
    return text ? atol(text) : fallback;
}

__attribute__((constructor)) static void read_settings(void)
{
    root = getenv("FAULT_ROOT");
    kind_counted = getenv("FAULT_KIND");
    action = getenv("FAULT_DO");
    first_call = integer_from_environment("FAULT_AT", 0);
    times = integer_from_environment("FAULT_TIMES", 1);
    if (getenv("FAULT_LOG"))
        log_file = syscall(SYS_openat, AT_FDCWD, getenv("FAULT_LOG"),
                           O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
}

static int is_inside_root(const char *path)
{
    size_t length = root ? strlen(root) : 0;
    return length && !strncmp(path, root, length) && (path[length] == '/' || !path[length]);
}

static int is_run_log(const char *path)
{
    const char *name = strrchr(path, '/');
    return name && !strcmp(name, "/run.log");
}

static int is_open_inside(int fd) { return fd >= 0 && fd < DESCRIPTORS && inside[fd]; }

// Faults that are not an errno. 0 means no fault, a positive number is an errno.
enum { SHORT = -1, KILL = -2 };

static void (*handle_sigterm)(int, siginfo_t *, void *);
static volatile sig_atomic_t has_sigterm;

static void handle_and_note_sigterm(int signal, siginfo_t *information, void *context)
{
    handle_sigterm(signal, information, context);
    has_sigterm = 1;
}

static void wait_for_sigterm(void)
{
    struct sigaction handler;
    sigaction(SIGTERM, NULL, &handler);
    handle_sigterm = handler.sa_sigaction;
    handler.sa_sigaction = handle_and_note_sigterm;
    sigaction(SIGTERM, &handler, NULL);
    char path[4096];
    snprintf(path, sizeof path, "%s/waiting", root);
    syscall(SYS_close, syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT, 0666));
    while (!has_sigterm)
        usleep(1000);
}

// Counts a call and returns its fault.
static int next_fault(const char *kind, long *count)
{
    *count = 0;
    if (kind_counted ? strcmp(kind, kind_counted) : !strcmp(kind, "log"))
        return 0;
    *count = __atomic_add_fetch(&call_count, 1, __ATOMIC_SEQ_CST);
    if (!action || !first_call || *count < first_call || (times && *count >= first_call + times))
        return 0;
    if (!strcmp(action, "STOP"))
        syscall(SYS_kill, getpid(), SIGSTOP);
    if (!strcmp(action, "TERM"))
        wait_for_sigterm();
    return !strcmp(action, "ENOSPC")   ? ENOSPC
           : !strcmp(action, "EDQUOT") ? EDQUOT
           : !strcmp(action, "EIO")    ? EIO
           : !strcmp(action, "SHORT")  ? SHORT
           : !strcmp(action, "KILL")   ? KILL
                                     : 0;
}

static void kill_process(void)
{
    syscall(SYS_kill, getpid(), SIGKILL);
    for (;;)
        pause();
}

static void log_call(long count, const char *kind, long result, int fd, long offset, const char *path,
                     const char *new_path, const void *bytes)
{
    if (log_file < 0)
        return;
    int error = errno;
    char line[8192];
    long length = bytes && result > 0 ? result : 0;
    int size = snprintf(line, sizeof line, "%ld\t%s\t%ld\t%d\t%ld\t%ld\t%s\t%s\n", count, kind, result, fd,
                        offset, length, path, new_path);
    pthread_mutex_lock(&log_mutex);
    syscall(SYS_write, log_file, line, size);
    if (length)
        syscall(SYS_write, log_file, bytes, length);
    pthread_mutex_unlock(&log_mutex);
    errno = error;
}

// Counts, executes or refuses, and logs a call that has no partial effect.
#define ATOMIC_CALL(kind, fd, argument, path, new_path, call)                   \
    do {                                                                        \
        long count, result;                                                     \
        int fault = next_fault(kind, &count);                                   \
        if (fault == KILL)                                                      \
            kill_process();                                                     \
        if (fault > 0)                                                          \
            errno = fault, result = -1;                                         \
        else                                                                    \
            result = (call);                                                    \
        log_call(count, kind, result, fd, argument, path, new_path, NULL);      \
        return result;                                                          \
    } while (0)

static int open_and_log(int folder, const char *path, int flags, mode_t mode)
{
    if (!is_inside_root(path))
        return syscall(SYS_openat, folder, path, flags, mode);
    long count = 0;
    int is_log = is_run_log(path);
    int fault = flags & O_CREAT ? next_fault(is_log ? "log" : "open", &count) : 0, fd = -1;
    if (fault == KILL)
        kill_process();
    if (fault > 0)
        errno = fault;
    else
        fd = syscall(SYS_openat, folder, path, flags, mode);
    if (fd >= 0 && fd < DESCRIPTORS)
        inside[fd] = is_log ? 2 : 1;
    // The offset field is 2 if the file was truncated, 1 if it may have been created.
    if (!is_log)
        log_call(count, "open", fd, fd, flags & O_TRUNC ? 2 : flags & O_CREAT ? 1 : 0, path, "", NULL);
    return fd;
}

static mode_t mode_argument(int flags, va_list more) { return flags & O_CREAT ? va_arg(more, mode_t) : 0; }

int open(const char *path, int flags, ...)
{
    va_list more;
    va_start(more, flags);
    mode_t mode = mode_argument(flags, more);
    va_end(more);
    return open_and_log(AT_FDCWD, path, flags, mode);
}
int open64(const char *path, int flags, ...) SAME_AS(open);

int openat(int folder, const char *path, int flags, ...)
{
    va_list more;
    va_start(more, flags);
    mode_t mode = mode_argument(flags, more);
    va_end(more);
    return open_and_log(folder, path, flags, mode);
}
int openat64(int folder, const char *path, int flags, ...) SAME_AS(openat);

int close(int fd)
{
    if (is_open_inside(fd))
        inside[fd] = 0;
    return syscall(SYS_close, fd);
}

// Writes at `offset`, or at the current position if `offset` is negative.
static ssize_t write_and_log(int fd, const void *bytes, size_t length, off_t offset)
{
    int has_offset = offset >= 0;
    if (!is_open_inside(fd))
        return has_offset ? syscall(SYS_pwrite64, fd, bytes, length, offset)
                         : syscall(SYS_write, fd, bytes, length);
    if (!has_offset)
        offset = lseek(fd, 0, SEEK_CUR);
    long count;
    int is_log = inside[fd] == 2, fault = next_fault(is_log ? "log" : "write", &count);
    if ((fault == SHORT || fault == KILL) && length > 1)
        length /= 2;
    ssize_t result = -1;
    if (fault > 0)
        errno = fault;
    else
        result = has_offset ? syscall(SYS_pwrite64, fd, bytes, length, offset)
                           : syscall(SYS_write, fd, bytes, length);
    if (!is_log)
        log_call(count, "write", result, fd, offset, "", "", bytes);
    if (fault == KILL)
        kill_process();
    return result;
}

ssize_t write(int fd, const void *bytes, size_t length) { return write_and_log(fd, bytes, length, -1); }
ssize_t pwrite(int fd, const void *bytes, size_t length, off_t at) { return write_and_log(fd, bytes, length, at); }
ssize_t pwrite64(int fd, const void *bytes, size_t length, off_t at) SAME_AS(pwrite);

// Writes the first part only, which POSIX allows. The caller then writes the rest.
ssize_t writev(int fd, const struct iovec *parts, int count)
{
    if (!is_open_inside(fd))
        return syscall(SYS_writev, fd, parts, count);
    for (int k = 0; k < count; k++)
        if (parts[k].iov_len)
            return write_and_log(fd, parts[k].iov_base, parts[k].iov_len, -1);
    return 0;
}

// A library could use this call to write to a file past the shim. It fails, so that the library
// uses the calls above.
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
    ATOMIC_CALL("sync", fd, 0, "", "", 0);
}
int fdatasync(int fd) SAME_AS(fsync);

// The error of a file system without locks, if there is one.
int flock(int fd, int operation)
{
    const char *error = getenv("FAULT_LOCK");
    if (!is_open_inside(fd) || !error)
        return syscall(SYS_flock, fd, operation);
    return errno = !strcmp(error, "ENOLCK") ? ENOLCK : !strcmp(error, "ENOSYS") ? ENOSYS : EOPNOTSUPP, -1;
}

int ftruncate(int fd, off_t length)
{
    if (!is_open_inside(fd))
        return syscall(SYS_ftruncate, fd, length);
    ATOMIC_CALL("truncate", fd, length, "", "", syscall(SYS_ftruncate, fd, length));
}
int ftruncate64(int fd, off_t length) SAME_AS(ftruncate);

int renameat2(int from, const char *path, int to, const char *new_path, unsigned flags)
{
    if (!is_inside_root(path) && !is_inside_root(new_path))
        return syscall(SYS_renameat2, from, path, to, new_path, flags);
    ATOMIC_CALL("rename", -1, 0, path, new_path, syscall(SYS_renameat2, from, path, to, new_path, flags));
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
    if (!is_inside_root(path))
        return syscall(SYS_unlinkat, folder, path, flags);
    ATOMIC_CALL("unlink", -1, 0, path, "", syscall(SYS_unlinkat, folder, path, flags));
}
int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }

int mkdirat(int folder, const char *path, mode_t mode)
{
    if (!is_inside_root(path))
        return syscall(SYS_mkdirat, folder, path, mode);
    ATOMIC_CALL("mkdir", -1, 0, path, "", syscall(SYS_mkdirat, folder, path, mode));
}
int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }
