/* test_loader.c - the loader: every sample once and whole, by every engine, order and number of
 * threads; batches that outlive it; bad samples stopped at, skipped, replaced; a stop in the middle
 * and going on from its state. */
#include "check.h"
#include "recordset.h"
#include "base/hash.h"
#include "base/random.h"
#include "dataset/dataset.h"
#include "load/plan.h"
#include "stoker.h"

#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#define N 1103 /* enough for a fetch to be sorted by counting */

static struct stk_dataset *open_set(const char *path)
{
    struct stk_dataset *ds = NULL;
    struct stk_err err = {0};
    char text[2200];
    struct stk_open_options o = {.payload = "raw", .no_index_write = true};
    if (stk_dataset_open(path, &o, &ds, &err) < 0)
        fprintf(stderr, "%s\n", stk_err_text(&err, text, sizeof text));
    CHECK(ds != NULL);
    return ds;
}

static struct stk_loader *open_loader(struct stk_dataset *ds, const struct stk_loader_options *o)
{
    struct stk_loader *ld = NULL;
    struct stk_err err = {0};
    char text[2200];
    if (stk_loader_open(ds, o, &ld, &err) < 0)
        fprintf(stderr, "%s\n", stk_err_text(&err, text, sizeof text));
    CHECK(ld != NULL);
    return ld;
}

static bool right(const struct stk_batch *b, size_t k)
{
    uint8_t want[3000];
    size_t n = make_sample(b->id[k], want);
    const struct stk_column *c = b->column;
    return b->ncolumns == 1 && c->layout == STK_SPANS && c->span[k].size == n &&
           (!n || memcmp(c->span[k].data, want, n) == 0);
}

/* One epoch; counts how often each sample came. Returns the last code. */
static int run_epoch(struct stk_loader *ld, unsigned *seen, uint64_t *order, size_t *n, bool *ok)
{
    struct stk_batch *b;
    struct stk_err err = {0};
    int rc;
    while ((rc = stk_loader_next(ld, &b, &err)) == 1) {
        for (size_t k = 0; k < b->n; k++) {
            *ok = *ok && right(b, k);
            if (seen && !(b->flags[k] & STK_REPEAT))
                seen[b->id[k]]++;
            if (order)
                order[*n] = b->id[k];
            ++*n;
        }
        stk_batch_release(b);
    }
    return rc;
}

static bool all_once(const unsigned *seen)
{
    bool ok = true;
    for (size_t i = 0; i < N; i++)
        ok = ok && seen[i] == 1;
    return ok;
}

/* A user would get other samples, or none, by another engine, order or number of threads. */
static void test_every_way(const char *path)
{
    static const char *const engines[] = {"threads", "direct", "uring", "mmap", "auto"};
    struct stk_dataset *ds = open_set(path);
    uint64_t first[3][N];
    for (unsigned e = 0; e < check_repeats(4, 5); e++) /* auto is one of the others */
        for (int shuffle = 0; shuffle < 3; shuffle++)
            for (uint32_t threads = 1; threads <= 4; threads += 3) {
                unsigned seen[N] = {0};
                uint64_t order[N + 64];
                size_t n = 0;
                bool ok = true;
                /* What is decoded is decoded again then, which takes long. */
                bool tight = e == 0 && threads == 1 && shuffle == STK_SHUFFLE_BLOCK;
                struct stk_loader_options o = {.batch = 16,
                                               .shuffle = shuffle,
                                               .last = STK_LAST_SHORT,
                                               .seed = 5,
                                               .threads = threads,
                                               .io = engines[e],
                                               .block_bytes = 20000,
                                               .window_bytes = 100000,
                                               .memory_bytes = tight ? 1 << 20 : 0};
                struct stk_loader *ld = open_loader(ds, &o);
                CHECK_INT(run_epoch(ld, seen, order, &n, &ok), 0);
                CHECK_INT(n, N);
                CHECK(ok && all_once(seen));
                if (e == 0 && threads == 1)
                    memcpy(first[shuffle], order, sizeof *first);
                if (threads == 4) {
                    CHECK(memcmp(first[shuffle], order, sizeof *first) == 0);
                    /* The next epoch has another order and is whole as well. */
                    memset(seen, 0, sizeof seen);
                    n = 0;
                    CHECK_INT(run_epoch(ld, seen, order, &n, &ok), 0);
                    CHECK(ok && all_once(seen));
                    CHECK((memcmp(first[shuffle], order, sizeof *first) == 0) ==
                          (shuffle == STK_SHUFFLE_NONE));
                }
                stk_loader_close(ld);
            }
    stk_dataset_close(ds);
}

/* A user keeps batches while going on, and after the loader is closed. */
/* A loop that never says how many epochs it makes would wait for storage at the start of each one. */
static void test_beginning_of_a_likely_epoch(const char *path)
{
    struct stk_dataset *ds = open_set(path);
    struct stk_loader_options o = {
        .batch = 16, .shuffle = STK_SHUFFLE_NONE, .last = STK_LAST_SHORT, .io = "threads"};
    struct stk_loader *ld = open_loader(ds, &o);
    struct stk_loader_stats st = {0};
    uint64_t two = 0;
    for (unsigned e = 0; e < 2; e++) {
        bool ok = true;
        size_t n = 0;
        CHECK_INT(run_epoch(ld, NULL, NULL, &n, &ok), 0);
        stk_loader_stats(ld, &st);
        two = e ? two : 2 * st.bytes_read; /* nothing of the second epoch is read in the first */
    }
    for (unsigned i = 0; i < 6000 && st.bytes_read <= two; i++) {
        usleep(10000);
        stk_loader_stats(ld, &st);
    }
    CHECK(st.bytes_read > two);
    stk_loader_close(ld);
    stk_dataset_close(ds);
}

static void test_keeping(const char *path)
{
    struct stk_dataset *ds = open_set(path);
    struct stk_loader_options o = {.batch = 10, .last = STK_LAST_SHORT, .memory_bytes = 1 << 20};
    struct stk_batch *kept[200];
    size_t n = 0;
    struct stk_err err = {0};
    struct stk_loader *ld = open_loader(ds, &o);
    while (stk_loader_next(ld, &kept[n], &err) == 1)
        n++;
    CHECK_INT(n, (N + 9) / 10);
    stk_loader_close(ld);
    bool ok = true;
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < kept[i]->n; k++)
            ok = ok && right(kept[i], k);
        stk_batch_release(kept[i]);
    }
    CHECK(ok);
    stk_dataset_close(ds);
}

/* Four ranks that stop in the middle and are three afterwards: nothing is lost, nothing twice. */
static void test_resume(const char *path)
{
    struct stk_dataset *ds = open_set(path);
    unsigned seen[N] = {0};
    char *state = NULL;
    bool ok = true;
    size_t n = 0;
    for (uint32_t r = 0; r < 4; r++) {
        struct stk_loader_options o = {.batch = 7, .rank = r, .world = 4, .last = STK_LAST_PAD};
        struct stk_loader *ld = open_loader(ds, &o);
        struct stk_batch *b;
        for (int i = 0; i < 9; i++) {
            CHECK_INT(stk_loader_next(ld, &b, NULL), 1);
            for (size_t k = 0; k < b->n; k++)
                seen[b->id[k]] += !(b->flags[k] & STK_REPEAT);
            stk_batch_release(b);
        }
        free(state);
        CHECK_INT(stk_loader_state(ld, &state, NULL), 0);
        stk_loader_close(ld);
    }
    uint64_t steps = 0;
    for (uint32_t r = 0; r < 3; r++) {
        struct stk_loader_options o = {
            .batch = 5, .rank = r, .world = 3, .last = STK_LAST_PAD, .state = state};
        struct stk_loader *ld = open_loader(ds, &o);
        CHECK(r == 0 || steps == stk_loader_steps(ld));
        steps = stk_loader_steps(ld);
        CHECK_INT(run_epoch(ld, seen, NULL, &n, &ok), 0);
        stk_loader_close(ld);
    }
    CHECK(ok && all_once(seen));
    free(state);
    stk_dataset_close(ds);
}

/* A training begun with an earlier version could not be resumed; or one of another dataset could.
 */
static void test_former_states(const char *path)
{
    struct stk_dataset *ds = open_set(path);
    const struct stk_index_header *h = ds->index.h;
    uint64_t shape[] = {h->nsamples, h->nextents, h->bytes_stored, h->bytes_samples, h->data_id};
    struct stk_loader *ld = open_loader(ds, NULL);
    char *state = NULL, id[20];
    CHECK_INT(stk_loader_state(ld, &state, NULL), 0);
    stk_loader_close(ld);
    snprintf(id, sizeof id, "%016llx", (unsigned long long)stk_dataset_identity(ds));
    char *at = strstr(state, id), *version = strstr(state, "\"stoker_loader\":2");
    CHECK(at != NULL && version != NULL);
    if (version)
        version[16] = '1'; /* which had no checksum */
    for (int other = 0; at && other < 2; other++) {
        snprintf(id, sizeof id, "%016llx",
                 (unsigned long long)stk_hash64(shape, sizeof shape) + (unsigned)other);
        memcpy(at, id, 16);
        struct stk_loader_options o = {.state = state};
        struct stk_err err = {0};
        CHECK_INT(stk_loader_open(ds, &o, &ld, &err), other ? STK_E_STALE : 0);
        if (!other)
            stk_loader_close(ld);
    }
    free(state);
    stk_dataset_close(ds);
}

/* Flips a byte in the middle of record i of a file of its own. */
static const char *make_damaged(const char *name, const uint64_t *bad, size_t nbad)
{
    struct stk_buf b = STK_BUF_INIT;
    uint8_t bytes[3000];
    char path[64];
    for (uint64_t i = 0; i < N; i++) {
        size_t at = b.len;
        scratch_record(&b, bytes, make_sample(i, bytes));
        for (size_t k = 0; k < nbad; k++)
            if (bad[k] == i)
                b.data[at + 12 + 5] ^= 1;
    }
    snprintf(path, sizeof path, "%s/0.tfrecord", name);
    scratch_file(path, b.data, b.len);
    stk_buf_release(&b);
    return scratch_path(name);
}

/* One bad sample must not end the training, unless the user says so; and never go unnoticed. */
static void test_bad_samples(void)
{
    const uint64_t bad[] = {17, 18, 400};
    struct stk_dataset *ds = open_set(make_damaged("damaged", bad, 3));
    for (int how = STK_ON_ERROR_STOP; how <= STK_ON_ERROR_REPLACE; how++)
        for (int last = STK_LAST_DROP; last <= STK_LAST_SHORT; last++) {
            unsigned seen[N] = {0};
            size_t n = 0;
            bool ok = true;
            struct stk_loader_options o = {.batch = 10, .on_error = how, .last = last};
            struct stk_loader *ld = open_loader(ds, &o);
            uint64_t steps = stk_loader_steps(ld);
            int rc = run_epoch(ld, seen, NULL, &n, &ok);
            struct stk_loader_stats st;
            stk_loader_stats(ld, &st);
            CHECK(ok);
            CHECK_INT(rc, how == STK_ON_ERROR_STOP ? STK_E_CORRUPT : 0);
            if (how != STK_ON_ERROR_STOP) {
                CHECK_INT(st.corrupt, 3);
                CHECK_INT(st.batches, steps);
                CHECK(stk_loader_problem(ld, 2) && !stk_loader_problem(ld, 3));
                CHECK(strstr(stk_loader_problem(ld, 0), "0.tfrecord:") != NULL);
            }
            for (size_t i = 0; how == STK_ON_ERROR_SKIP && i < N; i++) {
                bool is_bad = i == 17 || i == 18 || i == 400;
                CHECK(is_bad ? seen[i] == 0 : seen[i] <= 1);
                CHECK(is_bad || last == STK_LAST_DROP || seen[i] == 1);
            }
            if (how == STK_ON_ERROR_REPLACE)
                CHECK_INT(st.replaced, 3);
            stk_loader_close(ld);
        }
    stk_dataset_close(ds);
}

/* ---- chains: bad samples anywhere, every policy, every rank ---- */

#define CHAIN_MAX 64

static uint64_t state_of_dice = 7;
static uint64_t dice(uint64_t below)
{
    return stk_mix64(state_of_dice++) % below;
}

/* A set of n samples of which some are bad; and what ranks were given of it. */
struct chain {
    uint64_t n;
    bool bad[CHAIN_MAX];
    unsigned seen[CHAIN_MAX]; /* not as a repeat */
    uint64_t given;           /* samples, of all kinds */
    int how, last;
};

static const char *make_chain(struct chain *c, int number)
{
    struct stk_buf b = STK_BUF_INIT;
    char name[32], path[64];
    for (uint64_t i = 0; i < c->n; i++) {
        uint8_t bytes[8];
        size_t at = b.len;
        memcpy(bytes, &i, sizeof i);
        scratch_record(&b, bytes, sizeof bytes);
        if (c->bad[i])
            b.data[at + 12 + 5] ^= 1;
    }
    snprintf(name, sizeof name, "chain%d", number);
    snprintf(path, sizeof path, "%s/0.tfrecord", name);
    scratch_file(path, b.data, b.len);
    stk_buf_release(&b);
    return scratch_path(name);
}

static bool take_batch(struct chain *c, const struct stk_batch *b)
{
    bool ok = b->ncolumns == 1 && b->column->layout == STK_SPANS;
    for (size_t k = 0; ok && k < b->n; k++) {
        uint64_t id = b->id[k], value = 0;
        bool repeat = b->flags[k] & (STK_REPEAT | STK_REPLACED);
        memcpy(&value, b->column->span[k].data, sizeof value);
        ok = id < c->n && value == id && !c->bad[id];
        c->seen[id] += ok && !repeat;
        c->given++;
    }
    return ok;
}

/* Rank after rank, from `state` on, up to `stop` steps of each. Steps are the same on all of them,
 * and all of them are given. *after: the states of all ranks. */
static bool run_ranks(struct chain *c, struct stk_dataset *ds, uint32_t world, uint32_t batch,
                      int shuffle, const char *state, uint64_t stop, struct stk_state *after)
{
    uint64_t all = 0;
    bool ok = true;
    for (uint32_t r = 0; ok && r < world; r++) {
        struct stk_loader_options o = {.batch = batch,
                                       .rank = r,
                                       .world = world,
                                       .shuffle = shuffle,
                                       .seed = 3,
                                       .block_bytes = 32,
                                       .window_bytes = 64,
                                       .threads = 1,
                                       .io = "threads",
                                       .depth = 1,
                                       .memory_bytes = 1 << 20,
                                       .last = c->last,
                                       .on_error = c->how,
                                       .state = state};
        struct stk_loader *ld = open_loader(ds, &o);
        uint64_t steps = ld ? stk_loader_steps(ld) : 0, took = 0;
        struct stk_batch *b = NULL;
        struct stk_err err = {0};
        int rc = 1;
        all = r ? all : steps;
        ok = ld && steps == all;
        uint64_t most = stop == UINT64_MAX || stop < steps ? stop : steps; /* not its end */
        while (ok && took < most && (rc = stk_loader_next(ld, &b, &err)) == 1) {
            ok = take_batch(c, b);
            took++;
            stk_batch_release(b);
        }
        if (rc < 0)
            fprintf(stderr, "rank %u of %u, batch %u of %u samples: %s\n", r, world, (unsigned)took,
                    batch, err.what);
        char *text = NULL;
        ok = ok && rc >= 0 && took == (stop < steps ? stop : steps) &&
             stk_loader_state(ld, &text, NULL) == 0 &&
             stk_state_read(text, strlen(text), &after[r], NULL) == 0;
        free(text);
        stk_loader_close(ld);
    }
    return ok;
}

/* One session, or two with other numbers of ranks in between. */
static bool run_chain(struct chain *c, int number, bool resumed)
{
    struct stk_dataset *ds = open_set(make_chain(c, number));
    struct stk_state state[8] = {0};
    struct stk_buf text = STK_BUF_INIT;
    uint32_t world = 1 + (uint32_t)dice(4), batch = 1 + (uint32_t)dice(4);
    int shuffle = (int)dice(3);
    bool ok = run_ranks(c, ds, world, batch, shuffle, NULL, resumed ? dice(6) : UINT64_MAX, state);
    if (ok && resumed)
        ok = stk_state_write_merged(state, world, &text, NULL) == 0;
    for (uint32_t r = 0; r < 8; r++)
        stk_state_release(&state[r]);
    if (ok && resumed) {
        world = 1 + (uint32_t)dice(4);
        ok = run_ranks(c, ds, world, batch, shuffle, stk_buf_cstr(&text), UINT64_MAX, state);
        for (uint32_t r = 0; r < 8; r++)
            stk_state_release(&state[r]);
    }
    stk_buf_release(&text);
    stk_dataset_close(ds);
    return ok;
}

/* What could be read came once; replace may leave out only what a draw of a bad one is not. */
static bool chain_is_whole(const struct chain *c, bool whole)
{
    bool ok = true;
    for (uint64_t i = 0; i < c->n; i++) {
        ok = ok && c->seen[i] <= 1;
        if (whole && !c->bad[i])
            ok = ok && c->seen[i] == 1;
    }
    return ok;
}

/* The first, the last, all but one: wherever bad samples stand, a policy that passes over them goes
 * on to the end, with as many steps on every rank, and no good sample is lost or comes twice. */
static void test_chains_of_bad_samples(void)
{
    for (int i = 0; i < (int)check_repeats(50, 250); i++) {
        struct chain c = {.n = 1 + dice(40)};
        c.how = 1 + (int)dice(2);
        c.last = (int)dice(3);
        uint64_t first = dice(c.n), end = first + dice(c.n - first);
        switch (dice(4)) {
        case 0: /* some, anywhere */
            for (uint64_t k = dice(c.n + 1); k > 0; k--)
                c.bad[dice(c.n)] = true;
            break;
        case 1: /* a stretch, as of a shard that is gone */
            memset(c.bad + first, true, end - first);
            break;
        case 2: /* the beginning */
            memset(c.bad, true, end);
            break;
        default: /* the end */
            memset(c.bad + first, true, c.n - first);
        }
        c.bad[dice(c.n)] = false; /* something is left */
        bool ok = run_chain(&c, i, dice(2));
        CHECK(ok && chain_is_whole(&c, c.last != STK_LAST_DROP));
        if (!ok)
            fprintf(stderr, "chain %d: %llu samples\n", i, (unsigned long long)c.n);
    }
}

/* Exactly one bad sample, at every place, with every number of ranks and size of batches. */
static void test_one_bad_sample_anywhere(void)
{
    for (int i = 0; i < 9; i++) {
        struct chain c = {.n = 9, .last = STK_LAST_SHORT};
        c.bad[i] = true;
        struct stk_dataset *ds = open_set(make_chain(&c, 1000 + i));
        for (uint32_t world = 1; world <= 3; world++)
            for (uint32_t batch = 1; batch <= 4; batch++)
                for (c.how = STK_ON_ERROR_SKIP; c.how <= STK_ON_ERROR_REPLACE; c.how++) {
                    struct stk_state state[8] = {0};
                    memset(c.seen, 0, sizeof c.seen);
                    CHECK(
                        run_ranks(&c, ds, world, batch, STK_SHUFFLE_NONE, NULL, UINT64_MAX, state));
                    CHECK(chain_is_whole(&c, true));
                    for (uint32_t r = 0; r < world; r++)
                        stk_state_release(&state[r]);
                }
        stk_dataset_close(ds);
    }
}

/* When there is nothing to go on with, it says so, and does not look for ever. */
static void test_nothing_is_good(void)
{
    for (int how = STK_ON_ERROR_SKIP; how <= STK_ON_ERROR_REPLACE; how++) {
        struct chain c = {.n = 30, .how = how};
        memset(c.bad, true, c.n);
        struct stk_dataset *ds = open_set(make_chain(&c, 2000 + how));
        struct stk_loader_options o = {.on_error = how};
        struct stk_loader *ld = NULL;
        struct stk_err err = {0};
        CHECK_INT(stk_loader_open(ds, &o, &ld, &err), STK_E_CORRUPT);
        o.decode = "raw"; /* asks for nothing before the first batch */
        o.batch = 7;
        ld = open_loader(ds, &o);
        struct stk_batch *b;
        CHECK_INT(stk_loader_next(ld, &b, &err), STK_E_CORRUPT);
        CHECK_STR(err.what, "not one of its 30 samples can be read");
        stk_loader_close(ld);
        stk_dataset_close(ds);
    }
}

/* A file that shrinks or goes away under the loader is an error, not a crash and not a hang; and
 * who passes over bad samples goes on to the end of the epoch. */
static void vanishing(const char *engine, int how, int policy)
{
    char name[48], file[300];
    snprintf(name, sizeof name, "vanish-%s%d%d", engine, how, policy);
    const char *path = make_set(name, N, 3, false);
    snprintf(file, sizeof file, "%s/2.tfrecord", path);
    struct stk_dataset *ds = open_set(path);
    struct stk_loader_options o = {.batch = 4,
                                   .shuffle = STK_SHUFFLE_NONE,
                                   .on_error = policy,
                                   .io = engine,
                                   .memory_bytes = 1 << 20,
                                   .read_bytes = 64 << 10};
    struct stk_loader *ld = open_loader(ds, &o);
    struct stk_batch *b;
    struct stk_err err = {0};
    uint64_t steps = 1;
    CHECK_INT(stk_loader_next(ld, &b, &err), 1);
    stk_batch_release(b);
    CHECK_INT(how ? unlink(file) : truncate(file, 100), 0);
    int rc;
    for (; (rc = stk_loader_next(ld, &b, &err)) == 1; steps++)
        stk_batch_release(b);
    if (policy == STK_ON_ERROR_STOP)
        CHECK(how || rc < 0); /* an open file that is unlinked can be read on */
    else
        CHECK(rc == 0 && steps == stk_loader_steps(ld));
    CHECK(rc == 0 || err.path[0] != '\0');
    stk_loader_close(ld);
    stk_dataset_close(ds);
}

static void test_vanishing(void)
{
    static const char *const engines[] = {"threads", "direct", "uring", "mmap"};
    for (unsigned e = 0; e < 4; e++)
        for (int how = 0; how < 2; how++)
            for (int policy = STK_ON_ERROR_STOP; policy <= STK_ON_ERROR_REPLACE; policy++)
                vanishing(engines[e], how, policy);
}

/* ---- memory of the caller's ---- */

static pthread_mutex_t interpreter = PTHREAD_MUTEX_INITIALIZER; /* as Python's GIL */
static size_t taken;

static void *take_memory(void *user, size_t size)
{
    (void)user;
    pthread_mutex_lock(&interpreter);
    void *p = malloc(size);
    taken += p != NULL;
    pthread_mutex_unlock(&interpreter);
    return p;
}

static void give_memory(void *user, void *p, size_t size)
{
    (void)user, (void)size;
    taken--;
    free(p);
}

/* Rows of eight numbers: row i begins with i. */
static const char *make_array(const char *name, int32_t rows)
{
    struct stk_buf b = STK_BUF_INIT;
    char head[128];
    memset(head, ' ', sizeof head);
    memcpy(head, "\x93NUMPY\x01\x00\x76\x00", 10);
    int n = snprintf(head + 10, 100, "{'descr': '<i4', 'fortran_order': False, 'shape': (%d, 8), }",
                     rows);
    head[10 + n] = ' ';
    head[127] = '\n';
    stk_buf_put(&b, head, sizeof head);
    for (int32_t i = 0; i < rows; i++)
        for (int32_t k = 0; k < 8; k++)
            stk_buf_put(&b, &(int32_t){i + k}, 4);
    const char *path = scratch_file(name, b.data, b.len);
    stk_buf_release(&b);
    return path;
}

/* Python gives batches back with the lock held that its allocator needs: neither may wait for the
 * other. And what was taken is given back. */
static void test_own_memory(void)
{
    struct stk_dataset *ds = open_set(make_array("rows.npy", 4000));
    struct stk_loader_options o = {.batch = 16,
                                   .shuffle = STK_SHUFFLE_GLOBAL,
                                   .alloc = take_memory,
                                   .free = give_memory,
                                   .memory_bytes = 1 << 20};
    struct stk_loader *ld = open_loader(ds, &o);
    struct stk_batch *b, *last = NULL;
    bool ok = true;
    uint64_t steps = 0;
    while (stk_loader_next(ld, &b, NULL) == 1) {
        const struct stk_column *c = &b->column[0];
        ok = ok && c->layout == STK_DENSE && c->ndim == 1 && c->dim[0] == 8;
        for (size_t k = 0; ok && k < b->n; k++)
            ok = (uint64_t)((const int32_t *)c->data)[8 * k] == b->id[k];
        pthread_mutex_lock(&interpreter);
        stk_batch_release(last);
        pthread_mutex_unlock(&interpreter);
        last = b;
        steps++;
    }
    CHECK(ok);
    CHECK_INT(steps, 250);
    stk_batch_release(last);
    stk_loader_close(ld);
    CHECK_INT(taken, 0);
    stk_dataset_close(ds);
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    scratch_begin();
    const char *plain = make_set("plain", N, 3, false), *gz = make_set("gz", N, 3, true);
    CHECK_FOR("plain", test_every_way, plain);
    CHECK_FOR("gz", test_every_way, gz);
    CHECK_FOR("plain", test_keeping, plain);
    CHECK_FOR("gz", test_keeping, gz);
    CHECK_FOR("plain", test_resume, plain);
    CHECK_FOR("plain", test_former_states, plain);
    CHECK_FOR("plain", test_beginning_of_a_likely_epoch, plain);
    CHECK_RUN(test_bad_samples);
    CHECK_RUN(test_chains_of_bad_samples);
    CHECK_RUN(test_one_bad_sample_anywhere);
    CHECK_RUN(test_nothing_is_good);
    CHECK_RUN(test_vanishing);
    CHECK_RUN(test_own_memory);
    scratch_done();
    return CHECK_DONE();
}
