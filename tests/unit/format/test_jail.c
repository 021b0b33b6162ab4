/*
 * test_jail.c - listing in a child process: events arrive unchanged and in order, and whatever the
 * child does (crash, hang, lie, leave) is an error message here, never our own end.
 */
#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/helper.h"
#include "format/jail.h"

struct counting_sink {
    struct stk_sink sink;
    uint64_t events, extents, problems, sum;
    uint64_t stop_after; /* events, 0: never */
    char key[32], problem[64];
    struct stk_chain chain;
};

static int count_event(struct stk_sink *sink, const struct stk_event *e, struct stk_err *err)
{
    struct counting_sink *c = (struct counting_sink *)sink;
    c->events++;
    if (e->type == STK_EV_EXTENT) {
        /* Order matters: an extent's number is its place. */
        c->sum += e->a == c->extents * 100 && e->b == 100;
        c->extents++;
    }
    if (e->type == STK_EV_SAMPLE && e->has_key)
        snprintf(c->key, sizeof c->key, "%.*s", (int)e->blob_len, (const char *)e->blob);
    if (e->type == STK_EV_CHAIN)
        memcpy(&c->chain, e->blob, sizeof c->chain);
    if (e->type == STK_EV_PROBLEM) {
        c->problems++;
        snprintf(c->problem, sizeof c->problem, "%.*s", (int)e->blob_len, (const char *)e->blob);
    }
    if (c->stop_after && c->events >= c->stop_after)
        return stk_err_set(err, STK_E_STOPPED, NULL, -1, "enough");
    return 0;
}

static struct stk_src *open_self(void)
{
    struct stk_src *src = NULL;
    CHECK_INT(stk_src_open(open("/proc/self/exe", O_RDONLY | O_CLOEXEC), "/proc/self/exe", "self",
                           false, &src, NULL),
              0);
    return src;
}

static int run_sink(int (*list)(struct stk_lister *, struct stk_src *, struct stk_err *),
                    double silence_s, struct counting_sink *c, struct stk_err *err)
{
    static const struct stk_list_options opts = {.payload = "auto"};
    const struct stk_format f = {.name = "hdf5", .list = list};
    struct stk_src *src = open_self();
    struct stk_lister l;
    c->sink.event = count_event;
    *err = (struct stk_err){.offset = -1};
    stk_lister_init(&l, &c->sink, src, &opts);
    int rc = stk_jail_list_within(&f, &l, src, silence_s, err);
    stk_lister_release(&l);
    stk_src_close(src);
    return rc;
}

static void no_children_left(void)
{
    CHECK(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD);
}

/* ---- a child that behaves ---- */

static int list_good(struct stk_lister *l, struct stk_src *src, struct stk_err *err)
{
    (void)src;
    struct stk_field_spec spec = {.name = "data", .kind = STK_BYTES};
    struct stk_chain chain = {.nsteps = 1, .step[0].id = STK_FILTER_ZLIB, .max_decoded = 7};
    int field = stk_list_field(l, &spec, err);
    int64_t extent = stk_list_extent(l, 0, 100, &chain, err);
    int rc = stk_list_sample(l, "the key", 7, err);
    if (rc == 0)
        rc = stk_list_part(l, field, extent, 1, 2, err);
    return rc < 0 ? rc : stk_list_problem(l, 5, err, "problem %d", 1);
}

static void test_events_arrive(void)
{
    struct counting_sink c = {0};
    struct stk_err err;
    CHECK_INT(run_sink(list_good, 60, &c, &err), 0);
    CHECK_INT(c.events, 6); /* field, chain, extent, sample, part, problem */
    CHECK_STR(c.key, "the key");
    CHECK_STR(c.problem, "problem 1");
    CHECK_INT(c.chain.step[0].id, STK_FILTER_ZLIB);
    CHECK_INT(c.chain.max_decoded, 7);
    no_children_left();
}

static int list_chatty(struct stk_lister *l, struct stk_src *src, struct stk_err *err)
{
    static const char text[] = "HDF5-DIAG: this is not an event, whatever it says\n";
    for (int fd = 1; fd <= 2; fd++)
        if (write(fd, text, sizeof text) != sizeof text)
            return stk_err_sys(err, NULL, "write");
    return list_good(l, src, err);
}

/* A library that prints must not be taken for a damaged file. */
static void test_what_it_prints_is_dropped(void)
{
    struct counting_sink c = {0};
    struct stk_err err;
    CHECK_INT(run_sink(list_chatty, 60, &c, &err), 0);
    CHECK_INT(c.events, 6);
}

#define MANY 2000000

static int list_many(struct stk_lister *l, struct stk_src *src, struct stk_err *err)
{
    (void)src;
    for (uint64_t i = 0; i < MANY; i++) {
        int64_t extent = stk_list_extent(l, i * 100, 100, NULL, err);
        if (extent < 0)
            return (int)extent;
    }
    return 0;
}

static void test_millions_of_events_in_order(void)
{
    struct counting_sink c = {0};
    struct stk_err err;
    CHECK_INT(run_sink(list_many, 60, &c, &err), 0);
    CHECK_INT(c.extents, MANY);
    CHECK_INT(c.sum, MANY);
}

static int list_error(struct stk_lister *l, struct stk_src *src, struct stk_err *err)
{
    (void)l;
    return stk_err_set(err, STK_E_UNSUPPORTED, stk_src_path(src), 42, "cannot do it");
}

static void test_childs_error_comes_through(void)
{
    struct counting_sink c = {0};
    struct stk_err err;
    CHECK_INT(run_sink(list_error, 60, &c, &err), STK_E_UNSUPPORTED);
    CHECK_INT(err.code, STK_E_UNSUPPORTED);
    CHECK_INT(err.offset, 42);
    CHECK_STR(err.path, "self");
    CHECK_STR(err.what, "cannot do it");
}

/* ---- a child that does not ---- */

static int die_of(struct stk_lister *l, int sig, struct stk_err *err)
{
    int64_t extent = stk_list_extent(l, 0, 100, NULL, err);
    if (extent >= 0)
        raise(sig);
    return 0;
}

static int list_segv(struct stk_lister *l, struct stk_src *src, struct stk_err *err)
{
    (void)src;
    return die_of(l, SIGSEGV, err);
}

static int list_bus(struct stk_lister *l, struct stk_src *src, struct stk_err *err)
{
    (void)src;
    return die_of(l, SIGBUS, err);
}

static int list_exit(struct stk_lister *l, struct stk_src *src, struct stk_err *err)
{
    (void)l, (void)src, (void)err;
    _exit(3);
    return 0;
}

static void test_crashes_are_messages(void)
{
    struct counting_sink c = {0};
    struct stk_err err;
    CHECK_INT(run_sink(list_segv, 60, &c, &err), STK_E_CORRUPT);
    CHECK_STR(err.what, "libhdf5 crashed on this file (SIGSEGV): it is damaged");
    CHECK_STR(err.path, "self");
    CHECK_INT(run_sink(list_bus, 60, &c, &err), STK_E_CORRUPT);
    CHECK_STR(err.what, "libhdf5 crashed on this file (SIGBUS): it is damaged");
    CHECK_INT(run_sink(list_exit, 60, &c, &err), STK_E_CORRUPT);
    CHECK_STR(err.what, "libhdf5 gave up on this file (exit status 3): it is damaged");
    no_children_left();
}

static int list_hang(struct stk_lister *l, struct stk_src *src, struct stk_err *err)
{
    (void)src;
    (void)stk_list_extent(l, 0, 100, NULL, err);
    while (pause() < 0)
        ;
    return 0;
}

static void test_hanging_child_is_killed(void)
{
    struct counting_sink c = {0};
    struct stk_err err;
    CHECK_INT(run_sink(list_hang, 0.3, &c, &err), STK_E_CORRUPT);
    CHECK(strstr(err.what, "did nothing for 0.3 s") != NULL);
    no_children_left();
}

static int list_slow(struct stk_lister *l, struct stk_src *src, struct stk_err *err)
{
    (void)src, (void)err;
    for (int i = 0; i < 35; i++) {
        usleep(100000);
        stk_list_alive(l);
    }
    return 0;
}

static void test_slow_child_that_says_so_is_not(void)
{
    struct counting_sink c = {0};
    struct stk_err err;
    CHECK_INT(run_sink(list_slow, 2.5, &c, &err), 0);
    CHECK_INT(c.events, 0);
}

/* Sends events a sound lister never makes, as a child with a trampled heap might. */
static int lie(struct stk_lister *l, const struct stk_event *e, struct stk_err *err)
{
    return l->sink->event(l->sink, e, err);
}

static int list_lie_part(struct stk_lister *l, struct stk_src *src, struct stk_err *err)
{
    (void)src;
    return lie(l, &(struct stk_event){.type = STK_EV_PART, .field = 9, .c = 1000}, err);
}

static int list_lie_column(struct stk_lister *l, struct stk_src *src, struct stk_err *err)
{
    (void)src;
    struct stk_field_spec spec = {.name = "x", .kind = STK_BYTES};
    struct stk_stripe column = {.field = stk_list_field(l, &spec, err), .per_extent = 1};
    return stk_list_column(l, &column, 5, err); /* five extents, none of them listed */
}

static int list_lie_type(struct stk_lister *l, struct stk_src *src, struct stk_err *err)
{
    (void)src;
    return lie(l, &(struct stk_event){.type = 77}, err);
}

static int list_lie_field(struct stk_lister *l, struct stk_src *src, struct stk_err *err)
{
    (void)src;
    return lie(l, &(struct stk_event){.type = STK_EV_FIELD, .blob = "ab", .blob_len = 2}, err);
}

static void test_lies_are_found_out(void)
{
    struct counting_sink c = {0};
    struct stk_err err;
    CHECK_INT(run_sink(list_lie_part, 60, &c, &err), STK_E_CORRUPT);
    CHECK_INT(run_sink(list_lie_type, 60, &c, &err), STK_E_CORRUPT);
    CHECK_INT(run_sink(list_lie_field, 60, &c, &err), STK_E_CORRUPT);
    CHECK_INT(c.events, 0); /* none of them reached the sink */
    CHECK_INT(run_sink(list_lie_column, 60, &c, &err), STK_E_CORRUPT);
    CHECK(strstr(err.what, "listed this file wrongly") != NULL);
    no_children_left();
}

/* Writes rubbish into every pipe and socket it finds, past the lister. */
static int list_rubbish(struct stk_lister *l, struct stk_src *src, struct stk_err *err)
{
    (void)l, (void)src, (void)err;
    char rubbish[4096];
    memset(rubbish, 0xff, sizeof rubbish);
    for (int fd = 0; fd < 64; fd++)
        if (lseek(fd, 0, SEEK_CUR) < 0 && errno == ESPIPE)
            (void)!write(fd, rubbish, sizeof rubbish);
    _exit(0);
}

static void test_rubbish_in_the_pipe(void)
{
    struct counting_sink c = {0};
    struct stk_err err;
    CHECK_INT(run_sink(list_rubbish, 60, &c, &err), STK_E_CORRUPT);
    no_children_left();
}

static void test_sink_that_stops_ends_the_child(void)
{
    struct counting_sink c = {.stop_after = 10};
    struct stk_err err;
    CHECK_INT(run_sink(list_many, 60, &c, &err), STK_E_STOPPED);
    CHECK_STR(err.what, "enough");
    CHECK_INT(c.events, 10);
    no_children_left();
}

#ifdef __SANITIZE_ADDRESS__
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

/* ---- a child that is not ours any more ---- */

/* What a file that takes the library over would try next: 0 when it succeeded, else errno. */
static int as_errno(long rc)
{
    return rc < 0 ? errno : 0;
}

static int try_internet(void)
{
    return as_errno(socket(AF_INET, SOCK_STREAM, 0));
}

static int try_local_socket(void)
{
    return as_errno(socket(AF_UNIX, SOCK_STREAM, 0));
}

static char outside[64]; /* a file the parent could write and read */

static int try_write(void)
{
    return as_errno(open(outside, O_WRONLY | O_CLOEXEC));
}

static int try_create(void)
{
    char path[80];
    snprintf(path, sizeof path, "%s.new", outside);
    return as_errno(open(path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600));
}

static int try_unlink(void)
{
    return as_errno(unlink(outside));
}

static int try_read_another(void)
{
    return as_errno(open(outside, O_RDONLY | O_CLOEXEC));
}

static int try_exec(void)
{
    char *argv[] = {(char *)(uintptr_t) "true", NULL};
    return as_errno(execv("/bin/true", argv));
}

static int try_fork(void)
{
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    return as_errno(pid);
}

static int try_signal_parent(void)
{
    return as_errno(kill(getppid(), SIGUSR1));
}

static int try_code(void)
{
    void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? 0 : as_errno(mprotect(p, 4096, PROT_READ | PROT_EXEC));
}

static int try_memory_file(void)
{
    return as_errno(syscall(SYS_memfd_create, "x", 0));
}

static int try_ring(void)
{
    char params[120] = {0};
    return as_errno(syscall(425 /* io_uring_setup */, 1, params));
}

static int kept_open = -1; /* by the parent, for writing */

static int try_kept_open(void)
{
    return as_errno(write(kept_open, "x", 1));
}

static const struct attempt {
    const char *name;
    int (*go)(void);
    unsigned lock; /* which of them is in its way; 0: none is needed */
} attempts[] = {
    {"internet", try_internet, STK_CONFINED_CALLS},
    {"local-socket", try_local_socket, STK_CONFINED_CALLS},
    {"write", try_write, STK_CONFINED_CALLS | STK_CONFINED_FILES},
    {"create", try_create, STK_CONFINED_CALLS | STK_CONFINED_FILES},
    {"unlink", try_unlink, STK_CONFINED_CALLS | STK_CONFINED_FILES},
    {"read-another", try_read_another, STK_CONFINED_FILES},
    {"exec", try_exec, STK_CONFINED_CALLS | STK_CONFINED_FILES},
    {"fork", try_fork, STK_CONFINED_CALLS},
    {"signal", try_signal_parent, STK_CONFINED_CALLS},
    {"code", try_code, STK_CONFINED_CALLS},
    {"memory-file", try_memory_file, STK_CONFINED_CALLS},
    {"io_uring", try_ring, STK_CONFINED_CALLS},
    {"kept-open", try_kept_open, 0},
};

static const struct attempt *attempt;

static int list_attempt(struct stk_lister *l, struct stk_src *src, struct stk_err *err)
{
    (void)l, (void)src;
    int wrong = attempt->go();
    return stk_err_set(err, STK_E_UNSUPPORTED, NULL, wrong, wrong ? "refused" : "it got through");
}

static void test_refused(const struct attempt *a)
{
    struct counting_sink c = {0};
    struct stk_err err;
    if (a->lock && !(a->lock & stk_jail_locks())) {
        CHECK_SKIP(a->lock & STK_CONFINED_CALLS ? "no seccomp here" : "no Landlock here");
        return;
    }
    attempt = a;
    CHECK_INT(run_sink(list_attempt, 60, &c, &err), STK_E_UNSUPPORTED);
    CHECK_STR(err.what, "refused");
    CHECK_INT(access(outside, R_OK | W_OK), 0);
}

/* What the libraries do need. */
static int list_needs(struct stk_lister *l, struct stk_src *src, struct stk_err *err)
{
    int fd = open(stk_src_library_path(src), O_RDONLY | O_CLOEXEC);
    if (fd < 0 || lseek(fd, 0, SEEK_END) < 1)
        return stk_err_sys(err, NULL, "open the file again");
    if (mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED)
        return stk_err_sys(err, NULL, "map it");
    FILE *f = fopen("/proc/self/maps", "re");
    if (!f || fgetc(f) == EOF)
        return stk_err_sys(err, NULL, "read the list of mappings");
    fclose(f);
    free(malloc(64u << 20));
    return list_good(l, src, err);
}

static void test_needs_are_met(void)
{
    struct counting_sink c = {0};
    struct stk_err err;
    CHECK_INT(run_sink(list_needs, 60, &c, &err), 0);
    CHECK_STR(err.what, "");
    CHECK_INT(c.events, 6);
}

static void try_to_escape(void)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(outside, sizeof outside, "%.40s/stoker-XXXXXX", tmp ? tmp : "/tmp");
    kept_open = mkstemp(outside);
    CHECK(kept_open >= 0);
    for (size_t i = 0; i < sizeof attempts / sizeof *attempts; i++)
        CHECK_FOR(attempts[i].name, test_refused, &attempts[i]);
    close(kept_open);
    unlink(outside);
}

/* ---- several at once, signals in between ---- */

static void *run_in_thread(void *user)
{
    (void)user;
    for (int i = 0; i < 20; i++) {
        struct counting_sink c = {0}, again = {0};
        struct stk_err err;
        int want = i % 2 ? STK_E_CORRUPT : 0;
        int got = run_sink(i % 2 ? list_segv : list_good, 60, &c, &err);
        /* A child that is forked among threads may find AddressSanitizer's own locks taken. */
        if (got != want && SANITIZED)
            got = run_sink(i % 2 ? list_segv : list_good, 60, &again, &err);
        CHECK_INT(got, want);
    }
    return NULL;
}

static void on_alarm(int sig)
{
    (void)sig;
}

static void test_threads_and_signals(void)
{
    pthread_t thread[4];
    /* No SA_RESTART: every system call of ours may come back with EINTR. */
    struct sigaction sa = {.sa_handler = on_alarm};
    sigaction(SIGALRM, &sa, NULL);
    ualarm(1000, 1000);
    for (int i = 0; i < 4; i++)
        CHECK_INT(pthread_create(&thread[i], NULL, run_in_thread, NULL), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
    ualarm(0, 0);
    no_children_left();
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    CHECK_RUN(test_events_arrive);
    CHECK_RUN(test_what_it_prints_is_dropped);
    CHECK_RUN(test_millions_of_events_in_order);
    CHECK_RUN(test_childs_error_comes_through);
    CHECK_RUN(test_crashes_are_messages);
    CHECK_RUN(test_hanging_child_is_killed);
    CHECK_RUN(test_slow_child_that_says_so_is_not);
    CHECK_RUN(test_lies_are_found_out);
    CHECK_RUN(test_rubbish_in_the_pipe);
    CHECK_RUN(test_sink_that_stops_ends_the_child);
    CHECK_RUN(test_needs_are_met);
    try_to_escape();
    CHECK_RUN(test_threads_and_signals);
    return CHECK_DONE();
}
