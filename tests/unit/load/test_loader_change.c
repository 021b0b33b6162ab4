/* test_loader_change.c - files that change while a loader reads them, or while batches point into
 * them: never a wrong sample without a word. And a loader that a child inherits by fork(). */
#include "check.h"
#include "recordset.h"
#include "dataset/dataset.h"
#include "stoker.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N = 900, FILES = 3 };
static const char *const engines[] = {"threads", "direct", "uring", "mmap"};

static struct stk_dataset *open_set(const char *path)
{
    struct stk_dataset *ds = NULL;
    struct stk_open_options o = {.payload = "raw", .no_index_write = true};
    CHECK_INT(stk_dataset_open(path, &o, &ds, NULL), 0);
    return ds;
}

static bool right(const struct stk_batch *b, size_t k)
{
    uint8_t want[3000];
    size_t n = make_sample(b->id[k], want);
    const struct stk_span *s = &b->column->span[k];
    return s->size == n && (!n || memcmp(s->data, want, n) == 0);
}

enum how { CUT, OVERWRITE, HOWS };
static const char *const how_names[] = {"cut", "overwritten"};

static void change(const char *file, enum how how)
{
    static const uint8_t other[5000] = {1, 2, 3};
    usleep(20000); /* the clock of file times ticks */
    if (how == CUT) {
        CHECK_INT(truncate(file, 10), 0);
        return;
    }
    int fd = open(file, O_WRONLY);
    for (int i = 0; i < 60; i++)
        CHECK(pwrite(fd, other, sizeof other, (off_t)i * 5000) == sizeof other);
    close(fd);
}

/* A training would go on with zeros, or bytes of another file, from a batch that was good when it
 * came. */
static void under_views(enum how how, int policy)
{
    char name[64], file[700];
    snprintf(name, sizeof name, "views%d%d", how, policy);
    snprintf(file, sizeof file, "%s/0.tfrecord", make_set(name, N, FILES, false));
    struct stk_dataset *ds = open_set(scratch_path(name));
    struct stk_loader_options o = {.batch = 10,
                                   .shuffle = STK_SHUFFLE_NONE,
                                   .io = "mmap",
                                   .on_error = policy,
                                   .memory_bytes = 1 << 20};
    struct stk_loader *ld = NULL;
    struct stk_batch *b = NULL, *old = NULL;
    struct stk_err err = {0};
    struct stk_loader_stats st;
    CHECK_INT(stk_loader_open(ds, &o, &ld, &err), 0);
    CHECK_INT(stk_loader_next(ld, &old, &err), 1);
    CHECK_INT(stk_loader_next(ld, &b, &err), 1);
    stk_batch_release(b);
    change(file, how);
    int rc = stk_loader_next(ld, &b, &err);
    if (policy == STK_ON_ERROR_STOP) {
        CHECK_INT(rc, STK_E_STALE);
        CHECK(strstr(err.path, "0.tfrecord") != NULL);
        CHECK(strstr(err.what, "batches 0 to 1 of epoch 0") != NULL);
    } else {
        bool ok = true;
        for (; rc == 1; rc = stk_loader_next(ld, &b, &err)) {
            for (size_t k = 0; k < b->n; k++)
                ok = ok && right(b, k);
            stk_batch_release(b);
        }
        CHECK(ok);
        CHECK(stk_loader_problem(ld, 0) &&
              strstr(stk_loader_problem(ld, 0), "batches 0 to 1 of epoch 0"));
        stk_loader_stats(ld, &st);
        CHECK(st.corrupt > 0);
    }
    stk_batch_release(old);
    stk_loader_close(ld);
    stk_dataset_close(ds);
}

/* The last batch of an epoch has no next one: its end tells. */
static void under_the_last_batch(void)
{
    char file[700];
    snprintf(file, sizeof file, "%s/2.tfrecord", make_set("last", N, FILES, false));
    struct stk_dataset *ds = open_set(scratch_path("last"));
    struct stk_loader_options o = {.batch = N, .shuffle = STK_SHUFFLE_NONE, .io = "mmap"};
    struct stk_loader *ld = NULL;
    struct stk_batch *b = NULL, *none;
    struct stk_err err = {0};
    CHECK_INT(stk_loader_open(ds, &o, &ld, &err), 0);
    CHECK_INT(stk_loader_next(ld, &b, &err), 1);
    change(file, OVERWRITE);
    CHECK_INT(stk_loader_next(ld, &none, &err), STK_E_STALE);
    CHECK(strstr(err.what, "batch 0 of epoch 0") != NULL);
    stk_batch_release(b);
    stk_loader_close(ld);
    stk_dataset_close(ds);
}

/* ---- data without checksums ---- */

enum { ROWS = 200000, ROW = 64 };

static void npy_file(const char *name)
{
    struct stk_buf b = STK_BUF_INIT;
    char head[118];
    memset(head, ' ', sizeof head);
    memcpy(head, "{'descr': '|u1', 'fortran_order': False, 'shape': (200000, 64), }", 65);
    head[117] = '\n';
    stk_buf_put(&b, "\x93NUMPY\1\0\x76\0", 10);
    stk_buf_put(&b, head, sizeof head);
    for (size_t i = 0; i < ROWS; i++)
        for (size_t k = 0; k < ROW; k++)
            stk_buf_putc(&b, (char)(i % 251));
    scratch_file(name, b.data, b.len);
    stk_buf_release(&b);
}

/* Half of the numbers of an epoch would be those of another file. */
static void under_plain_arrays(const char *engine)
{
    char name[64];
    snprintf(name, sizeof name, "npy-%s/x.npy", engine);
    npy_file(name);
    const char *path = scratch_path(name);
    struct stk_dataset *ds = open_set(path);
    struct stk_loader_options o = {.batch = 100,
                                   .shuffle = STK_SHUFFLE_NONE,
                                   .io = engine,
                                   .memory_bytes = 1 << 20,
                                   .read_bytes = 64 << 10};
    struct stk_loader *ld = NULL;
    struct stk_batch *b = NULL;
    struct stk_err err = {0};
    int rc, n = 0;
    bool ok = true;
    CHECK_INT(stk_loader_open(ds, &o, &ld, &err), 0);
    for (; (rc = stk_loader_next(ld, &b, &err)) == 1; n++) {
        const uint8_t *p = b->column->data;
        for (size_t k = 0; k < b->n; k++)
            ok = ok && p[k * ROW] == b->id[k] % 251 && p[k * ROW + ROW - 1] == b->id[k] % 251;
        stk_batch_release(b);
        if (n == 3)
            change(path, OVERWRITE);
    }
    CHECK(ok);
    CHECK_INT(rc, STK_E_STALE);
    CHECK(strstr(err.path, "x.npy") != NULL);
    stk_loader_close(ld);
    stk_dataset_close(ds);
}

/* ---- fork ---- */

struct shared_loader {
    struct stk_loader *ld;
    _Atomic bool stop;
};

static void *iterate(void *arg)
{
    struct shared_loader *s = arg;
    struct stk_batch *b;
    for (int rc = 0; !s->stop && rc >= 0;) {
        rc = stk_loader_next(s->ld, &b, NULL);
        if (rc == 1)
            stk_batch_release(b);
    }
    return NULL;
}

/* Every call a child can make of a loader that threads of its parent were using. */
static void in_child(struct stk_loader *ld, struct stk_batch *kept)
{
    struct stk_batch *b = NULL;
    struct stk_err err = {0};
    struct stk_loader_stats st;
    char *state = NULL;
    alarm(60);
    bool ok = stk_loader_next(ld, &b, &err) == STK_E_USAGE && strstr(err.what, "fork");
    ok = ok && stk_loader_wait(ld, 60000) == 1;
    stk_loader_stats(ld, &st);
    ok = ok && stk_loader_state(ld, &state, &err) == 0 && state;
    free(state);
    (void)stk_loader_steps(ld);
    stk_batch_release(kept);
    stk_loader_close(ld);
    _exit(ok ? 0 : 1);
}

static void forked(const char *engine)
{
    char name[64];
    snprintf(name, sizeof name, "fork-%s", engine);
    make_set(name, N, FILES, false);
    struct stk_dataset *ds = open_set(scratch_path(name));
    struct stk_loader_options o = {.batch = 3, .io = engine, .memory_bytes = 1 << 20};
    struct shared_loader s = {0};
    struct stk_batch *kept = NULL;
    pthread_t t;
    CHECK_INT(stk_loader_open(ds, &o, &s.ld, NULL), 0);
    CHECK_INT(stk_loader_next(s.ld, &kept, NULL), 1);
    CHECK_INT(pthread_create(&t, NULL, iterate, &s), 0);
    for (int i = 0; i < 30; i++) {
        int status = -1;
        pid_t child = fork();
        if (child == 0)
            in_child(s.ld, kept);
        CHECK(child > 0 && waitpid(child, &status, 0) == child);
        CHECK_INT(status, 0);
    }
    s.stop = true;
    pthread_join(t, NULL);
    stk_batch_release(kept);
    stk_loader_close(s.ld);
    stk_dataset_close(ds);
}

/* A program's error path may not know how far it came. */
static void nothing_at_all(void)
{
    struct stk_batch *b = NULL;
    struct stk_loader_stats st = {.samples = 5};
    struct stk_err err = {0};
    char *state = NULL;
    stk_batch_release(NULL);
    stk_loader_close(NULL);
    stk_dataset_close(NULL);
    CHECK_INT(stk_loader_next(NULL, &b, &err), STK_E_USAGE);
    CHECK_INT(stk_loader_wait(NULL, 1), 1);
    CHECK_INT(stk_loader_steps(NULL), 0);
    CHECK_INT(stk_loader_state(NULL, &state, &err), STK_E_USAGE);
    CHECK(stk_loader_problem(NULL, 0) == NULL);
    stk_loader_stats(NULL, &st);
    CHECK_INT(st.samples, 0);
    CHECK_INT(stk_dataset_len(NULL), 0);
    struct stk_loader *ld = NULL;
    CHECK_INT(stk_loader_open(NULL, NULL, &ld, &err), STK_E_USAGE);
    CHECK(ld == NULL);
}

/* The same batch twice: the second time is nothing, as long as the loader is open. */
static void released_twice(void)
{
    struct stk_dataset *ds = open_set(make_set("twice", N, FILES, false));
    struct stk_loader_options o = {.batch = 10, .last = STK_LAST_SHORT};
    struct stk_loader *ld = NULL;
    struct stk_batch *b = NULL;
    size_t n = 0;
    CHECK_INT(stk_loader_open(ds, &o, &ld, NULL), 0);
    for (; stk_loader_next(ld, &b, NULL) == 1; n += b->n) {
        stk_batch_release(b);
        stk_batch_release(b);
    }
    CHECK_INT(n, N);
    stk_loader_close(ld);
    stk_dataset_close(ds);
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    scratch_begin();
    for (enum how how = CUT; how < HOWS; how++)
        for (int policy = STK_ON_ERROR_STOP; policy <= STK_ON_ERROR_REPLACE; policy++) {
            char label[64];
            snprintf(label, sizeof label, "%s-%d", how_names[how], policy);
            CHECK_FOR(label, under_views, how, policy);
        }
    CHECK_RUN(under_the_last_batch);
    for (unsigned e = 0; e < sizeof engines / sizeof *engines; e++)
        CHECK_FOR(engines[e], under_plain_arrays, engines[e]);
    for (unsigned e = 0; e < sizeof engines / sizeof *engines; e++)
        CHECK_FOR(engines[e], forked, engines[e]);
    CHECK_RUN(nothing_at_all);
    CHECK_RUN(released_twice);
    scratch_done();
    return CHECK_DONE();
}
