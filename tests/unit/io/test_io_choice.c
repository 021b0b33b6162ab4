/*
 * test_io_choice.c - around the I/O engines: which one is taken and what it calls itself, what a
 * short or failed read means, and the program's own handler of SIGBUS.
 */
#include "ioset.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* What a read that gave less, or failed, leads to: the same for every engine. */
static void short_and_failed(const struct set *s)
{
    char path[700];
    set_path(path, sizeof path, "set", 0);
    int fd = open(path, O_RDONLY);
    struct stk_file f = {.align = 512, .size = 100000, .fd = fd, .plain_fd = fd};
    uint8_t *buf = aligned_alloc(STK_IO_ALIGN, stk_io_room(20000));
    struct stk_io_req req = {.off = 1000, .len = 20000, .buf = buf, .held = &f};
    CHECK(stk_io_begin(s->files, &req));
    CHECK_INT(req.at, 512);
    CHECK_INT(req.want, 41 * 512);
    CHECK(req.data == buf + 488);
    CHECK_INT(stk_io_step(s->files, &req, -EINTR), STK_STEP_AGAIN);
    CHECK_INT(stk_io_step(s->files, &req, -EAGAIN), STK_STEP_AGAIN);
    CHECK_INT(stk_io_step(s->files, &req, 1024), STK_STEP_AGAIN);
    CHECK_INT(stk_io_step(s->files, &req, 100), STK_STEP_PLAIN); /* no place for a direct read */
    CHECK_INT(req.got, 1124);
    CHECK_INT(stk_io_step(s->files, &req, 77), STK_STEP_AGAIN);
    CHECK_INT(stk_io_step(s->files, &req, 488 + 20000 - 1201), STK_STEP_DONE);
    CHECK_INT(req.code, 0);
    req.got = 1024;
    req.buffered = false;
    CHECK_INT(stk_io_step(s->files, &req, -EINVAL), STK_STEP_PLAIN);
    CHECK(f.refuses);
    CHECK_INT(stk_io_step(s->files, &req, -EIO), STK_STEP_DONE);
    CHECK_INT(req.code, STK_E_SYS);
    CHECK_INT(req.why->sys_errno, EIO);
    CHECK_INT(req.why->offset, 512 + 1024);
    CHECK_STR(req.why->what, "read: Input/output error");
    CHECK(strstr(req.why->path, "f-00000.tfrecord") != NULL);
    free(req.why);
    free(buf);
    close(fd);
}

static void names(const struct set *s)
{
    struct stk_io *io =
        open_io(s->files, &(struct engine){.kind = STK_IO_DIRECT, .no_uring = true}, 0);
    CHECK_STR(stk_io_name(io), "direct");
    CHECK_STR(stk_io_detail(io), "direct, threads");
    CHECK_INT(stk_io_depth(io), 32);
    stk_io_close(io);
    io = open_io(s->files, &(struct engine){.kind = STK_IO_URING, .no_uring = true}, 0);
    CHECK_STR(stk_io_name(io), "threads");
    CHECK_STR(stk_io_detail(io), "threads, io_uring cannot be used here");
    stk_io_close(io);
    io = open_io(s->files, &(struct engine){.kind = STK_IO_MMAP}, 0);
    CHECK_STR(stk_io_name(io), "mmap");
    stk_io_close(io);
    /* Every name that users are offered is one of an engine that can be had. */
    struct stk_err err = {0};
    enum stk_io_kind kind;
    for (const char *const *name = stk_io_names(); *name; name++) {
        CHECK_INT(stk_io_find(*name, &kind, &err), 0);
        io = open_io(s->files, &(struct engine){.label = *name, .kind = kind}, 0);
        CHECK(strncmp(stk_io_detail(io), stk_io_name(io), strlen(stk_io_name(io))) == 0);
        many_reads(s, io, 10, 10000);
        stk_io_close(io);
    }
    CHECK_INT(stk_io_find("tape", &kind, &err), STK_E_USAGE);
    CHECK_STR(err.what, "no engine 'tape'; there are auto, direct, uring, threads, mmap");
}

/* Who can change a mapped record after its lengths were checked makes us write past a buffer. */
static void files_of_others(const struct set *s)
{
    const struct engine e = {.kind = STK_IO_MMAP};
    struct stk_io_req req;
    char path[700];
    set_path(path, sizeof path, "set", s->nfiles - 1);
    struct stk_io *io = open_io(s->files, &e, 0);
    CHECK_INT(read_one(io, 0, 0, 10, &req), 0);
    CHECK_INT(chmod(path, 0664), 0); /* since the engine was chosen */
    CHECK_INT(read_one(io, s->nfiles - 1, 0, 10, &req), STK_E_STALE);
    CHECK(req.why && strstr(req.why->path, path));
    free(req.why);
    stk_io_close(io);
    io = open_io(s->files, &e, 0);
    CHECK_STR(stk_io_detail(io), "threads, not mapped: others can change the files");
    many_reads(s, io, 10, 10000);
    stk_io_close(io);
    CHECK_INT(chmod(path, 0644), 0);
    if (geteuid() == 0) {
        CHECK_INT(chown(path, 12345, (gid_t)-1), 0);
        io = open_io(s->files, &e, 0);
        CHECK_STR(stk_io_name(io), "threads");
        stk_io_close(io);
        CHECK_INT(chown(path, 0, (gid_t)-1), 0);
    }
    io = open_io(s->files, &e, 0);
    CHECK_STR(stk_io_name(io), "mmap");
    stk_io_close(io);
}

/* Maps and locks a file, so that it is in memory whatever else happens on the machine. */
static void *lock_file(const struct set *s, unsigned i)
{
    char path[700];
    set_path(path, sizeof path, "set", i);
    int fd = open(path, O_RDONLY);
    void *p = mmap(NULL, s->bytes[i].len, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0);
    CHECK(p != MAP_FAILED && mlock(p, s->bytes[i].len) == 0);
    close(fd);
    return p;
}

static void drop_file(const struct set *s, unsigned i, void *locked)
{
    char path[700];
    munmap(locked, s->bytes[i].len);
    set_path(path, sizeof path, "set", i);
    int fd = open(path, O_RDONLY);
    fsync(fd);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
}

/* A dataset in memory would be read from the disk, or the other way round. */
static void choosing(const struct set *s)
{
    struct stk_io_config cfg = {.cache_room = 1 << 30};
    struct stk_io_choice c;
    void *locked[8];
    for (unsigned i = 0; i < s->nfiles; i++)
        locked[i] = lock_file(s, i);
    stk_io_probe(s->files, &cfg, &c);
    CHECK(c.cached < 0 || c.cached >= 1);
    if (c.cached >= 1)
        CHECK_INT(c.kind, c.network ? STK_IO_THREADS : STK_IO_MMAP);
    CHECK(strstr(c.reason, c.fs) != NULL);
    for (unsigned i = 0; i < s->nfiles; i++)
        drop_file(s, i, locked[i]);
    stk_io_probe(s->files, &cfg, &c);
    CHECK(strcmp(c.fs, "tmpfs") == 0 || c.cached < 0.9);
    if (strcmp(c.fs, "ext4") == 0) {
        CHECK_INT(c.kind, STK_IO_DIRECT);
        CHECK_STR(c.reason, "ext4, 0 % of the data is in memory");
    }
    cfg.kind = STK_IO_THREADS;
    stk_io_probe(s->files, &cfg, &c);
    CHECK_INT(c.kind, STK_IO_THREADS);
    CHECK_STR(c.reason, "");
    struct stk_io *io = open_io(s->files, &(struct engine){.kind = STK_IO_AUTO}, 0);
    many_reads(s, io, 100, 10000);
    stk_io_close(io);
}

static volatile sig_atomic_t others_faults;

static void others_handler(int sig)
{
    (void)sig;
    others_faults++;
}

/* A program's own handler of SIGBUS would be lost. */
static void other_handlers(const struct set *s)
{
    struct sigaction old, now, mine = {.sa_handler = others_handler};
    const struct engine e = {.kind = STK_IO_MMAP};
    struct stk_io_req req;
    sigaction(SIGBUS, &mine, &old);
    struct stk_io *a = open_io(s->files, &e, 2), *b = open_io(s->files, &e, 2);
    CHECK_INT(read_one(a, 0, 0, 10, &req), 0);
    raise(SIGBUS);
    CHECK_INT(others_faults, 1);
    stk_io_close(a);
    raise(SIGBUS);
    CHECK_INT(others_faults, 2);
    stk_io_close(b);
    sigaction(SIGBUS, &old, &now);
    CHECK(now.sa_handler == others_handler);
}

/* From here on this process gets EPERM for the call. */
static bool forbid(unsigned call)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog prog = {.len = sizeof code / sizeof *code, .filter = code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) == 0;
}

static int read_forbidden(const struct set *s, enum stk_io_kind kind, unsigned call, bool late)
{
    const struct engine e = {.kind = kind};
    struct stk_io *io = late ? open_io(s->files, &e, 8) : NULL;
    bool ring = io && strstr(stk_io_detail(io), "uring");
    alarm(60);
    if (ring)
        many_reads(s, io, 50, 10000);
    if (!forbid(call))
        return 77;
    if (!late)
        io = open_io(s->files, &e, 8);
    /* Only a call that is refused after the ring was opened is detected on the way. */
    CHECK(late || !strcmp(stk_io_detail(io), "direct, threads") ||
          !strcmp(stk_io_name(io), "threads"));
    many_reads(s, io, 200, 10000);
    stk_io_close(io);
    return check_failures ? 1 : 0;
}

/* A container that allows some of io_uring would make a loader wait for ever. */
static void sandboxed(const struct set *s, unsigned call, bool late)
{
    static const enum stk_io_kind kinds[] = {STK_IO_DIRECT, STK_IO_URING};
    for (int i = 0; i < 2; i++) {
        int status = -1;
        pid_t child = fork();
        if (child == 0)
            _exit(read_forbidden(s, kinds[i], call, late));
        CHECK(child > 0 && waitpid(child, &status, 0) == child);
        CHECK(status == 0 || (WIFEXITED(status) && WEXITSTATUS(status) == 77));
    }
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    static struct set s;
    scratch_begin();
    make_set(&s, "set", 5, 150000, 99991);
    CHECK_CASE("short_and_failed", NULL, short_and_failed(&s));
    CHECK_CASE("names", NULL, names(&s));
    CHECK_CASE("files_of_others", NULL, files_of_others(&s));
    CHECK_CASE("choosing", NULL, choosing(&s));
    CHECK_CASE("other_handlers", NULL, other_handlers(&s));
    static const struct {
        const char *name;
        unsigned call;
    } calls[] = {{"setup", SYS_io_uring_setup},
                 {"enter", SYS_io_uring_enter},
                 {"register", SYS_io_uring_register}};
    for (size_t i = 0; i < 3; i++) {
        CHECK_FOR(calls[i].name, sandboxed, &s, calls[i].call, false);
        char late[32];
        snprintf(late, sizeof late, "%s-later", calls[i].name);
        CHECK_FOR(late, sandboxed, &s, calls[i].call, true);
    }
    drop_set(&s);
    scratch_done();
    return CHECK_DONE();
}
