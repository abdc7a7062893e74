/* Preloaded into a command: fails the n-th call of one kind on files below a folder, or breaks the
   connection to a server at its n-th message.

   Nothing is counted before `faults_arm`. Counts and the path of the first failed call are in a
   shared file, so that they survive the process. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

/* In the order of `KINDS` in shim.py. */
enum { OPEN, WRITE, PWRITE, FSYNC, FDATASYNC, RENAME, FTRUNCATE, SEND, KINDS };

/* As `RECORD` in shim.py. */
struct record {
    _Atomic long counts[KINDS];
    _Atomic long failed;
    char path[PATH_MAX];
};

/* Instead of an error: half of the bytes are written, and the call succeeds. */
#define SHORT (-1)
/* The message is sent, and its answer is lost. */
#define UNANSWERED (-2)

static struct record *record;
static char folder[PATH_MAX];
static long number;
static int port, kind, error, lasting;

int faults_arm(const char *below, int server, const char *file, int which, long nth, int with,
               int lasts) {
    int handle = open(file, O_RDWR);
    if (handle < 0) return -1;
    void *at = mmap(NULL, sizeof *record, PROT_READ | PROT_WRITE, MAP_SHARED, handle, 0);
    close(handle);
    if (at == MAP_FAILED) return -1;
    snprintf(folder, sizeof folder, "%s/", below);
    port = server, kind = which, number = nth, error = with, lasting = lasts;
    record = at;
    return 0;
}

/* Count a call; return 0, or the error that it shall have. */
static int judge_any(int which, const char *path) {
    long count = atomic_fetch_add(&record->counts[which], 1) + 1;
    if (which != kind || (lasting ? count < number : count != number)) return 0;
    if (atomic_fetch_add(&record->failed, 1) == 0)
        snprintf(record->path, sizeof record->path, "%s", path);
    return error;
}

static int judge(int which, const char *path) {
    return strncmp(path, folder, strlen(folder)) == 0 ? judge_any(which, path) : 0;
}

static int judge_handle(int which, int handle) {
    if (!record) return 0;
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", handle);
    int saved = errno;
    ssize_t length = readlink(link, path, sizeof path - 1);
    errno = saved;
    if (length <= 0) return 0;
    path[length] = 0;
    return judge(which, path);
}

static int judge_path(int which, int at, const char *path) {
    if (!record) return 0;
    if (path[0] == '/') return judge(which, path);
    char link[64], base[PATH_MAX], whole[2 * PATH_MAX];
    if (at == AT_FDCWD) snprintf(link, sizeof link, "/proc/self/cwd");
    else snprintf(link, sizeof link, "/proc/self/fd/%d", at);
    ssize_t length = readlink(link, base, sizeof base - 1);
    if (length <= 0) return 0;
    base[length] = 0;
    snprintf(whole, sizeof whole, "%s/%s", base, path);
    return judge(which, whole);
}

/* Return 0, or the error of a message to the server; the connection is broken then. */
static int judge_socket(int handle) {
    if (!record || !port) return 0;
    struct sockaddr_in peer;
    socklen_t size = sizeof peer;
    int saved = errno, is_other = getpeername(handle, (struct sockaddr *)&peer, &size) != 0;
    errno = saved;
    if (is_other || peer.sin_family != AF_INET || ntohs(peer.sin_port) != port) return 0;
    int with = judge_any(SEND, "the connection");
    if (with > 0) shutdown(handle, SHUT_RDWR);
    return with;
}

#define REAL(name) \
    static __typeof__(&name) real; \
    if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

#define FAIL(with) return errno = (with), -1

#define OPENING(name) \
    int name(const char *path, int flags, ...) { \
        REAL(name); \
        va_list rest; \
        va_start(rest, flags); \
        mode_t mode = va_arg(rest, mode_t); \
        va_end(rest); \
        int with = judge_path(OPEN, AT_FDCWD, path); \
        if (with > 0) FAIL(with); \
        return real(path, flags, mode); \
    }
OPENING(open)
OPENING(open64)

#define OPENING_AT(name) \
    int name(int at, const char *path, int flags, ...) { \
        REAL(name); \
        va_list rest; \
        va_start(rest, flags); \
        mode_t mode = va_arg(rest, mode_t); \
        va_end(rest); \
        int with = judge_path(OPEN, at, path); \
        if (with > 0) FAIL(with); \
        return real(at, path, flags, mode); \
    }
OPENING_AT(openat)
OPENING_AT(openat64)

#define SENDING(call) \
    int with = judge_socket(handle); \
    if (with > 0) FAIL(with); \
    ssize_t sent = call; \
    if (with == UNANSWERED) shutdown(handle, SHUT_RDWR); \
    return sent

ssize_t write(int handle, const void *data, size_t size) {
    REAL(write);
    int failing = judge_handle(WRITE, handle);
    if (failing > 0) FAIL(failing);
    if (failing == SHORT && size > 1) return real(handle, data, size / 2);
    SENDING(real(handle, data, size));
}

ssize_t writev(int handle, const struct iovec *parts, int count) {
    REAL(writev);
    SENDING(real(handle, parts, count));
}

ssize_t send(int handle, const void *data, size_t size, int flags) {
    REAL(send);
    SENDING(real(handle, data, size, flags));
}

ssize_t sendmsg(int handle, const struct msghdr *message, int flags) {
    REAL(sendmsg);
    SENDING(real(handle, message, flags));
}

#define WRITING_AT(name, type) \
    ssize_t name(int handle, const void *data, size_t size, type offset) { \
        REAL(name); \
        int with = judge_handle(PWRITE, handle); \
        if (with > 0) FAIL(with); \
        return real(handle, data, with == SHORT && size > 1 ? size / 2 : size, offset); \
    }
WRITING_AT(pwrite, off_t)
WRITING_AT(pwrite64, off64_t)

#define COPYING(name, type) \
    ssize_t name(int target, int source, type *offset, size_t size) { \
        REAL(name); \
        int with = judge_handle(WRITE, target); \
        if (with > 0) FAIL(with); \
        return real(target, source, offset, with == SHORT && size > 1 ? size / 2 : size); \
    }
ssize_t sendfile(int, int, off_t *, size_t);
ssize_t sendfile64(int, int, off64_t *, size_t);
COPYING(sendfile, off_t)
COPYING(sendfile64, off64_t)

#define SYNCING(name, which) \
    int name(int handle) { \
        REAL(name); \
        int with = judge_handle(which, handle); \
        if (with > 0) FAIL(with); \
        return real(handle); \
    }
SYNCING(fsync, FSYNC)
SYNCING(fdatasync, FDATASYNC)

int rename(const char *old, const char *new) {
    REAL(rename);
    int with = judge_path(RENAME, AT_FDCWD, new);
    if (with > 0) FAIL(with);
    return real(old, new);
}

#define CUTTING(name, type) \
    int name(int handle, type size) { \
        REAL(name); \
        int with = judge_handle(FTRUNCATE, handle); \
        if (with > 0) FAIL(with); \
        return real(handle, size); \
    }
CUTTING(ftruncate, off_t)
CUTTING(ftruncate64, off64_t)
