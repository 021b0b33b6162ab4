/*
 * spread_status.c - a file per node in a folder that all nodes see. A launcher may kill every rank
 * when one dies: what is known about each then stands in these files. Nodes of ranks that cannot
 * talk to each other know of the others by them alone.
 */
#include "stage/spread.h"
#include "stage/spread_priv.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/pool.h"
#include "base/thread.h"
#include "host/beacon.h"

#define EVERY_S  5.0
#define TEXT_MAX (64u << 10)

struct spread_status {
    char *dir;
    int fd;
    char name[32];
    double written;
};

static void name_of(uint32_t node, char name[32])
{
    snprintf(name, 32, "node-%04u.json", (unsigned)node);
}

int stk_status_begin(const char *dir, uint32_t node, const struct stk_spread_node *n,
                     struct spread_status **out, struct stk_err *err)
{
    *out = NULL;
    if (!dir)
        return 0;
    struct spread_status *s = calloc(1, sizeof *s);
    if (!s || !(s->dir = strdup(dir))) {
        free(s);
        return stk_err_nomem(err, sizeof *s);
    }
    int rc = stk_own_folder(dir, STK_OWN_MAKE | STK_OWN_PRIVATE, &s->fd, err);
    if (rc) {
        free(s->dir);
        free(s);
        return rc;
    }
    name_of(node, s->name);
    *out = s;
    stk_status_write(s, n, true);
    return 0;
}

/* What all ranks of one launch have in common, and no other launch has. */
static void name_run(char run[32])
{
    static const char *const variable[] = {"SLURM_JOB_ID", "SLURM_STEP_ID",      "PMIX_NAMESPACE",
                                           "PMI_JOBID",    "PMI_FD_NAME",        "MASTER_PORT",
                                           "MASTER_ADDR",  "TORCHELASTIC_RUN_ID"};
    struct stk_hash h;
    stk_hash_init(&h);
    for (size_t i = 0; i < sizeof variable / sizeof *variable; i++) {
        const char *value = getenv(variable[i]);
        value = value ? value : "";
        stk_hash_update(&h, value, strlen(value) + 1);
    }
    snprintf(run, 32, "%016llx", (unsigned long long)stk_hash_final(&h));
}

struct status {
    struct stk_spread_node n;
    char run[32];
};
static const struct stk_jfield status_fields[] = {
#define NODE(type, name, member) STK_JFIELD(type, name, struct status, n.member)
    {NODE(CHARS, "node", name), .cut = true},
    {NODE(UNSIGNED, "rank", rank)},
    {NODE(UNSIGNED, "ranks", ranks)},
    {STK_JFIELD(CHARS, "run", struct status, run), .required = true},
    {NODE(WORD, "phase", phase), .words = stk_spread_phases},
    {NODE(UNSIGNED, "wanted_bytes", wanted)},
    {NODE(UNSIGNED, "there_bytes", there)},
    {NODE(UNSIGNED, "read_bytes", read)},
    {NODE(UNSIGNED, "sent_bytes", sent)},
    {NODE(UNSIGNED, "received_bytes", received)},
    {NODE(UNSIGNED, "written_bytes", written)},
    {NODE(REAL, "read_s", read_s)},
    {NODE(REAL, "seconds", seconds)},
    {NODE(CHARS, "path", path), .cut = true},
    {NODE(CHARS, "error", what), .cut = true},
    {NODE(UNSIGNED, "updated", updated)},
#undef NODE
    {0},
};

/* A status that cannot be written does not stop the copy. */
void stk_status_write(struct spread_status *s, const struct stk_spread_node *n, bool now)
{
    struct status status = {.n = *n};
    struct stk_buf b = STK_BUF_INIT;
    struct stk_alive self; /* for `stoker watch` */
    struct stk_jw w;
    if (!s || (!now && stk_now() - s->written < EVERY_S))
        return;
    s->written = stk_now();
    status.n.updated = (uint64_t)time(NULL);
    name_run(status.run);
    stk_alive_self(&self);
    stk_jw_init(&w, &b, true);
    stk_jw_open(&w, '{');
    stk_jfields_put(status_fields, &status, &w);
    stk_jfields_put(stk_alive_fields, &self, &w);
    stk_jw_close(&w, '}');
    stk_buf_putc(&b, '\n');
    if (!b.fail)
        (void)stk_write_file_at(s->fd, s->name, b.data, b.len, STK_PRIVATE, s->dir, NULL);
    stk_buf_release(&b);
}

void stk_status_read(struct spread_status *s, struct stk_spread_node *node, uint32_t nodes)
{
    char ours[32];
    name_run(ours);
    for (uint32_t i = 0; s && i < nodes; i++) {
        struct stk_buf b = STK_BUF_INIT;
        struct stk_arena a = STK_ARENA_INIT;
        struct status got = {.n = node[i]};
        char name[32];
        name_of(i, name);
        if (stk_read_file_at(s->fd, name, O_NOFOLLOW, TEXT_MAX, &b, s->dir, NULL) == 0 &&
            stk_jfields_parse(status_fields, stk_buf_cstr(&b), b.len, NULL, &a, &got, NULL) == 0 &&
            strcmp(got.run, ours) == 0) /* else an earlier run left it */
            node[i] = got.n;
        stk_arena_release(&a);
        stk_buf_release(&b);
    }
}

void stk_status_end(struct spread_status *s, uint32_t nodes, bool remove)
{
    char name[32];
    if (!s)
        return;
    if (remove)
        (void)stk_unlink_at(s->fd, s->name, s->dir, NULL);
    for (uint32_t i = 0; i < nodes && remove; i++) {
        name_of(i, name);
        (void)stk_unlink_at(s->fd, name, s->dir, NULL);
    }
    close(s->fd);
    int parent;
    const char *last;
    if (remove && stk_open_parent(s->dir, &parent, &last, NULL) == 0) {
        (void)stk_rmdir_at(parent, last); /* stays if it holds anything else */
        close(parent);
    }
    free(s->dir);
    free(s);
}

#define SILENT_S 60.0 /* without a new word of a node: it is gone */
#define LOOK_S   0.2
#define BEAT_S   1.0

struct stk_apart {
    struct stk_rank rank;
    struct spread_status *status;
    struct stk_spread_node me; /* with the lock, as what follows */
    bool done;
    pthread_mutex_t lock;
    struct stk_thread *thread;
};

static int beat(void *arg, struct stk_err *err)
{
    struct stk_apart *a = arg;
    (void)err;
    do {
        pthread_mutex_lock(&a->lock);
        if (!a->done)
            stk_status_write(a->status, &a->me, false);
        pthread_mutex_unlock(&a->lock);
    } while (stk_thread_sleep(a->thread, stk_now() + BEAT_S));
    return 0;
}

static bool is_leader(const struct stk_rank *r)
{
    return !r->local_world || r->local_rank == 0;
}

struct stk_apart *stk_apart_begin(const struct stk_rank *r, const char *dir)
{
    struct stk_apart *a = calloc(1, sizeof *a);
    if (!a)
        return NULL;
    *a = (struct stk_apart){.rank = *r};
    a->me.rank = r->rank;
    a->me.ranks = r->local_world ? r->local_world : 1;
    const char *node = getenv("STOKER_NODE");
    node = node && *node ? node : getenv("SLURMD_NODENAME");
    if (node && *node)
        snprintf(a->me.name, sizeof a->me.name, "%s", node);
    else if (gethostname(a->me.name, sizeof a->me.name - 1) != 0)
        snprintf(a->me.name, sizeof a->me.name, "localhost");
    a->me.phase = STK_SPREAD_COPYING;
    pthread_mutex_init(&a->lock, NULL);
    if (is_leader(r) && r->local_world != r->world)
        (void)stk_status_begin(dir, r->rank, &a->me, &a->status, NULL);
    if (a->status && stk_thread_open(&a->thread, NULL) == 0)
        stk_thread_begin(a->thread, beat, NULL, a);
    return a;
}

void stk_apart_tick(struct stk_apart *a, uint64_t there, uint64_t total)
{
    pthread_mutex_lock(&a->lock);
    a->me.there = there;
    a->me.wanted = total;
    pthread_mutex_unlock(&a->lock);
}

void stk_apart_done(struct stk_apart *a, const char *path, const char *what)
{
    pthread_mutex_lock(&a->lock);
    snprintf(a->me.path, sizeof a->me.path, "%s", path);
    snprintf(a->me.what, sizeof a->me.what, "%s", what);
    a->me.phase = *path ? STK_SPREAD_DONE : STK_SPREAD_FAILED;
    stk_status_write(a->status, &a->me, true);
    a->done = true; /* rank 0 may remove the file now */
    pthread_mutex_unlock(&a->lock);
}

/* ---- rank 0 ---- */

struct heard {
    uint64_t updated;
    double at; /* when it was seen to change, by stk_now() */
};

/* Reads the files again. Returns the number of ranks whose nodes have come to an end. */
static uint32_t look(struct stk_apart *a, struct stk_spread_node *node, struct heard *heard)
{
    uint32_t ended = 0;
    double now = stk_now();
    stk_status_read(a->status, node, a->rank.world);
    node[a->rank.rank] = a->me;
    for (uint32_t i = 0; i < a->rank.world; i++) {
        struct stk_spread_node *n = &node[i];
        if (n->updated != heard[i].updated)
            heard[i] = (struct heard){n->updated, now};
        if (n->ranks && n->phase < STK_SPREAD_DONE && now - heard[i].at > SILENT_S) {
            n->phase = STK_SPREAD_LOST;
            snprintf(n->what, sizeof n->what, "no sign of life for %.0f s", now - heard[i].at);
        }
        ended += n->ranks && n->phase >= STK_SPREAD_DONE ? n->ranks : 0;
    }
    return ended;
}

/* Nodes that were heard of, one after another. */
static void sum_up(struct stk_spread_result *r, uint32_t world, uint32_t ended)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < world; i++)
        if (r->node[i].ranks)
            r->node[n++] = r->node[i];
    for (uint32_t i = 0; i < n; i++)
        r->good += r->node[i].phase == STK_SPREAD_DONE;
    if (ended < world) {
        r->node[n] = (struct stk_spread_node){.phase = STK_SPREAD_LOST, .ranks = world - ended};
        snprintf(r->node[n].name, sizeof r->node[n].name, "(%u of %u ranks)",
                 (unsigned)(world - ended), (unsigned)world);
        snprintf(r->node[n++].what, sizeof r->node->what, "nothing was heard of their nodes");
    }
    r->nodes = n;
}

int stk_apart_gather(struct stk_apart *a, bool (*stop)(void *user), void *user,
                     struct stk_spread_result *r, struct stk_err *err)
{
    const uint32_t world = a->rank.world;
    struct heard *heard = calloc(world, sizeof *heard);
    double began = stk_now();
    uint32_t ended = 0;
    *r = (struct stk_spread_result){.node = calloc(world + 1, sizeof *r->node), .slowest = -1};
    if (!heard || !r->node) {
        free(heard);
        return stk_err_nomem(err, world * sizeof *r->node);
    }
    for (bool more = true; more;) {
        ended = look(a, r->node, heard);
        uint32_t known = 0;
        for (uint32_t i = 0; i < world; i++)
            known += r->node[i].ranks;
        bool late = !a->status || stk_now() - began > SILENT_S;
        more = ended < world && !(known == ended && late) && !stop(user);
        if (more)
            nanosleep(&(struct timespec){.tv_nsec = (long)(LOOK_S * 1e9)}, NULL);
    }
    sum_up(r, world, ended);
    free(heard);
    return 0;
}

void stk_apart_close(struct stk_apart *a, bool clean, bool all)
{
    if (!a)
        return;
    (void)stk_thread_close(a->thread, INFINITY);
    stk_status_end(a->status, all ? a->rank.world : 0, clean);
    pthread_mutex_destroy(&a->lock);
    free(a);
}
