/*
 * test_spread.c - a source on several nodes: forked ranks, each a node with a tier of its own.
 * Every byte is read once, every copy is the source, and what goes wrong on one node stays there.
 */
#include "check.h"
#include "scratch.h"
#include "stage/spread.h"

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define NODES   4u
#define SHARDS  4u
#define RECORDS 40u /* of each shard */
#define RECORD  (128u << 10)
#define LIMIT_S 60.0

static struct stk_err err;

/* ---- a source ---- */

static const char *tree(void)
{
    static uint8_t big[3 * STK_TIER_PARCEL + 777];
    char name[64];
    for (size_t i = 0; i < sizeof big; i++)
        big[i] = (uint8_t)(i * 2654435761u >> 13);
    scratch_file("set/large/a.bin", big, sizeof big);
    scratch_file("set/large/b.bin", big + 5, STK_TIER_PARCEL);
    for (unsigned i = 0; i < 300; i++) {
        snprintf(name, sizeof name, "set/small/%03u", i);
        scratch_file(name, big + i, i * 37 % 2000);
    }
    return scratch_path("set");
}

/* Shards of equal records: the place of a sample is known. */
static const char *shards(void)
{
    static uint8_t text[RECORD];
    char name[64];
    for (unsigned s = 0; s < SHARDS; s++) {
        struct stk_buf b = STK_BUF_INIT;
        for (unsigned i = 0; i < RECORDS; i++) {
            memset(text, (int)(s * RECORDS + i), sizeof text);
            scratch_record(&b, text, sizeof text);
        }
        snprintf(name, sizeof name, "data/part-%u.tfrecord", s);
        scratch_file(name, b.data, b.len);
        stk_buf_release(&b);
    }
    return scratch_path("data");
}

/* ---- a node ---- */

struct node {
    struct stk_comm *c;
    unsigned rank;
    uint64_t limit; /* of its tier; 0: none */
    bool no_place;
    bool dies; /* when it has something */
    unsigned calls;
};

static const char *tier_path(unsigned rank)
{
    char name[32];
    snprintf(name, sizeof name, "tier-%u", rank);
    return scratch_path(name);
}

static int place(void *user, const struct stk_source *src, struct stk_tier **tier, uint64_t *room,
                 struct stk_err *why)
{
    struct node *n = user;
    (void)src;
    if (n->no_place)
        return stk_err_set(why, STK_E_UNSUPPORTED, NULL, -1, "no folder on this node");
    *room = n->limit ? n->limit : 1ull << 40;
    return stk_tier_open(tier_path(n->rank),
                         &(struct stk_tier_options){.make = true, .limit_bytes = n->limit}, tier,
                         why);
}

static int progress(void *user, enum stk_stage_phase phase, uint64_t bytes, uint64_t total)
{
    struct node *n = user;
    (void)phase, (void)total;
    if (n->dies && bytes)
        kill(getpid(), SIGKILL);
    return 0;
}

static void fork_nodes(unsigned count, const char *name, struct node *n)
{
    setenv("STOKER_NODE", name, 1);
    CHECK_INT(stk_comm_fork(count, &n->c, &err), 0);
    unsetenv("STOKER_NODE");
    n->rank = stk_comm_rank(n->c);
}

static void end_nodes(struct node *n)
{
    uint32_t size = stk_comm_size(n->c);
    pid_t pid[64];
    for (uint32_t i = 1; i < size; i++)
        pid[i] = stk_comm_pid(n->c, i);
    stk_comm_close(n->c);
    if (n->rank)
        _exit(check_failures ? 9 : 0);
    for (uint32_t i = 1; i < size; i++) {
        int status = -1;
        CHECK(waitpid(pid[i], &status, 0) == pid[i]);
        CHECK(WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL : WEXITSTATUS(status) == 0);
    }
}

static struct stk_spread_options options(struct node *n, int mode)
{
    return (struct stk_spread_options){.mode = mode,
                                       .copy = {.threads = 3},
                                       .status = scratch_path("status"),
                                       .place = place,
                                       .progress = progress,
                                       .user = n};
}

static bool same(const char *a, const char *b)
{
    char line[1200];
    snprintf(line, sizeof line, "diff -r '%s' '%s' >&2", a, b);
    return system(line) == 0;
}

static uint64_t total(const struct stk_spread_result *r, size_t field)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < r->nodes; i++)
        sum += *(const uint64_t *)((const char *)&r->node[i] + field);
    return sum;
}
#define TOTAL(r, field) total((r), offsetof(struct stk_spread_node, field))

static void remove_tiers(void)
{
    for (unsigned i = 0; i < NODES; i++)
        (void)stk_remove_tree(tier_path(i), NULL);
}

/* ---- cases ---- */

/* All nodes get all of it, and read each byte once; again: nothing is read. */
static void replicate(unsigned nodes)
{
    struct node n = {0};
    struct stk_spread_result r;
    const char *src = tree();
    fork_nodes(nodes, "node%r", &n);
    struct stk_spread_options o = options(&n, STK_SPREAD_AUTO);
    for (unsigned round = 0; round < 2; round++) {
        CHECK_INT(stk_spread(n.c, src, &o, &r, &err), 0);
        CHECK_INT(r.nodes, nodes);
        CHECK_INT(r.good, nodes);
        CHECK_INT(r.mode, STK_SPREAD_REPLICATE);
        CHECK(strstr(r.why, "fit on every node") != NULL);
        CHECK_INT(TOTAL(&r, read), round ? 0 : r.bytes);
        CHECK_INT(TOTAL(&r, written), round ? 0 : r.bytes * nodes);
        CHECK_INT(TOTAL(&r, received), round ? 0 : r.bytes * (nodes - 1));
        CHECK(same(src, r.node[n.rank].path));
        CHECK(strncmp(r.node[n.rank].path, tier_path(n.rank), strlen(tier_path(n.rank))) == 0);
        stk_spread_result_release(&r);
    }
    CHECK(access(scratch_path("status"), F_OK) != 0);
    end_nodes(&n);
    remove_tiers();
}

/* Two ranks per node: one of them leads, the other knows the result. */
static void two_per_node(void)
{
    struct node n = {0};
    struct stk_spread_result r;
    const char *src = tree();
    uint32_t members[2];
    struct stk_comm *pair;
    fork_nodes(4, "here", &n);
    CHECK_INT(stk_comm_nodes(n.c), 1);
    members[0] = n.rank & ~1u;
    members[1] = n.rank | 1;
    CHECK_INT(stk_comm_group(n.c, members, 2, &pair, &err), 0);
    struct stk_spread_options o = options(&n, STK_SPREAD_REPLICATE);
    CHECK_INT(stk_spread(n.c, src, &o, &r, &err), 0);
    CHECK(r.nodes == 1 && r.good == 1 && same(src, r.node[0].path));
    stk_spread_result_release(&r);
    stk_comm_close(pair);
    end_nodes(&n);
    remove_tiers();
}

/* One node has no place, one is full: both read and pass on, and the others are complete. */
static void two_bad_nodes(void)
{
    struct node n = {0};
    struct stk_spread_result r;
    const char *src = tree();
    fork_nodes(NODES, "node%r", &n);
    n.no_place = n.rank == 1;
    n.limit = n.rank == 2 ? STK_TIER_PARCEL : 0;
    struct stk_spread_options o = options(&n, STK_SPREAD_REPLICATE);
    CHECK_INT(stk_spread(n.c, src, &o, &r, &err), 0);
    CHECK_INT(r.good, 2);
    CHECK_INT(TOTAL(&r, read), r.bytes);
    CHECK_INT(r.node[0].phase, STK_SPREAD_DONE);
    CHECK_INT(r.node[1].phase, STK_SPREAD_FAILED);
    CHECK(strstr(r.node[1].what, "no folder on this node") && !*r.node[1].path);
    CHECK_INT(r.node[2].phase, STK_SPREAD_FAILED);
    CHECK(strstr(r.node[2].what, "limit") != NULL && r.node[2].there < r.bytes);
    CHECK(r.node[1].read && r.node[2].read && r.node[1].sent && r.node[2].sent);
    if (n.rank == 0 || n.rank == 3)
        CHECK(same(src, r.node[n.rank].path));
    stk_spread_result_release(&r);

    /* There is room now: only what is missing is read again. */
    n.no_place = false;
    n.limit = 1ull << 30;
    CHECK_INT(stk_spread(n.c, src, &o, &r, &err), 0);
    CHECK(r.good == NODES && TOTAL(&r, read) <= r.bytes);
    CHECK(same(src, r.node[n.rank].path));
    stk_spread_result_release(&r);
    end_nodes(&n);
    CHECK(access(scratch_path("status"), F_OK) != 0);
    remove_tiers();
}

/* A rank dies: the others end and name it, nothing is published, and the next run completes. */
static void one_dies(void)
{
    struct stk_spread_result r;
    const char *src = tree();
    for (unsigned round = 0; round < 2; round++) {
        struct node n = {0};
        fork_nodes(NODES, "node%r", &n);
        n.dies = n.rank == 2 && round == 0;
        struct stk_spread_options o = options(&n, STK_SPREAD_REPLICATE);
        int rc = stk_spread(n.c, src, &o, &r, &err);
        if (round == 0) {
            CHECK_INT(rc, STK_E_STOPPED);
            CHECK(strstr(err.what, "rank 2 on node node2 is lost") != NULL);
            CHECK(r.from_status && r.nodes == NODES);
            CHECK_INT(r.node[2].phase, STK_SPREAD_LOST);
            CHECK(r.good < NODES && access(scratch_path("status/node-0002.json"), F_OK) == 0);
        } else {
            CHECK_INT(rc, 0);
            CHECK(r.good == NODES && same(src, r.node[n.rank].path));
        }
        stk_spread_result_release(&r);
        end_nodes(&n);
    }
    CHECK(access(scratch_path("status"), F_OK) != 0);
    remove_tiers();
}

/* ---- shard ---- */

/* What a loader with these options asks for, by parcel. */
static void ask_loader(const char *src, const struct stk_loader_options *o, uint8_t *need)
{
    struct stk_dataset *ds = NULL;
    struct stk_loader *ld = NULL;
    struct stk_batch *b;
    uint64_t epochs = o->epochs;
    CHECK_INT(stk_dataset_open(src, NULL, &ds, &err), 0);
    CHECK_INT(stk_loader_open(ds, o, &ld, &err), 0);
    for (int rc = 1; epochs && rc >= 0;) {
        rc = stk_loader_next(ld, &b, &err);
        epochs -= rc == 0;
        for (size_t i = 0; rc == 1 && i < b->n; i++) {
            uint64_t at = b->id[i] % RECORDS * (RECORD + 16);
            need[b->id[i] / RECORDS * 2 + at / STK_TIER_PARCEL] = 1;
            need[b->id[i] / RECORDS * 2 + (at + RECORD + 15) / STK_TIER_PARCEL] = 1;
        }
        if (rc == 1)
            stk_batch_release(b);
    }
    stk_loader_close(ld);
    stk_dataset_close(ds);
}

static void compare_tier(const struct node *n, const uint8_t *need)
{
    struct stk_tier *t = NULL;
    struct stk_tier_set *set = NULL;
    char id[STK_TIER_ID] = "";
    (void)id;
    CHECK_INT(stk_tier_open(tier_path(n->rank), &(struct stk_tier_options){.make = true}, &t, &err),
              0);
    struct stk_source src;
    CHECK_INT(stk_source_open(&src, scratch_path("data"), NULL, &err), 0);
    struct stk_tier_source ts = stk_source_for_tier(&src);
    CHECK_INT(stk_tier_set_open(t, &ts, &set, &err), 0);
    for (unsigned s = 0; s < SHARDS; s++)
        for (unsigned k = 0; k < 2; k++)
            CHECK_INT(stk_tier_has(set, s, k), need[s * 2 + k]);
    stk_tier_set_close(set);
    stk_tier_close(t);
    stk_source_release(&src);
}

/* Each node has what the loaders of its ranks ask for and nothing else, each parcel is read once,
 * and the copies are on the nodes that follow. */
static void shard(int shuffle, uint32_t copies)
{
    struct node n = {0};
    struct stk_spread_result r;
    const char *src = shards();
    uint8_t need[SHARDS * 2] = {0}, any[SHARDS * 2] = {0};
    uint64_t all = 0;
    fork_nodes(NODES, "node%r", &n);
    struct stk_spread_options o = options(&n, STK_SPREAD_SHARD);
    o.copies = copies;
    o.loader = (struct stk_loader_options){
        .batch = 8, .shuffle = shuffle, .seed = 5, .epochs = 2, .threads = 1, .world = NODES};
    CHECK_INT(stk_spread(n.c, src, &o, &r, &err), 0);
    CHECK_INT(r.good, NODES);
    CHECK_INT(r.mode, STK_SPREAD_SHARD);
    CHECK_STR(r.node[n.rank].path, src);
    for (uint32_t k = 0; k < copies; k++) {
        o.loader.rank = (n.rank + NODES - k) % NODES;
        ask_loader(src, &o.loader, need);
    }
    compare_tier(&n, need);
    for (uint32_t k = 0; k < NODES; k++) {
        o.loader.rank = k;
        ask_loader(src, &o.loader, any);
    }
    for (unsigned i = 0; i < SHARDS * 2; i++)
        all += any[i] ? (i % 2 ? RECORDS * (RECORD + 16) - STK_TIER_PARCEL : STK_TIER_PARCEL) : 0;
    CHECK_INT(TOTAL(&r, read), all);
    stk_spread_result_release(&r);
    end_nodes(&n);
    remove_tiers();
}

/* Too large for a node: its part fits. */
static void automatic(void)
{
    struct node n = {0};
    struct stk_spread_result r;
    const char *src = shards();
    fork_nodes(NODES, "node%r", &n);
    n.limit = 12u << 20;
    struct stk_spread_options o = options(&n, STK_SPREAD_AUTO);
    o.loader = (struct stk_loader_options){.batch = 8, .shuffle = STK_SHUFFLE_NONE};
    CHECK_INT(stk_spread(n.c, src, &o, &r, &err), 0);
    CHECK(r.mode == STK_SPREAD_SHARD && strstr(r.why, "do not fit"));
    CHECK_INT(r.good, NODES);
    stk_spread_result_release(&r);
    end_nodes(&n);
    remove_tiers();
}

static void no_source(void)
{
    struct node n = {0};
    struct stk_spread_result r;
    fork_nodes(3, "node%r", &n);
    struct stk_spread_options o = options(&n, STK_SPREAD_REPLICATE);
    CHECK_INT(stk_spread(n.c, scratch_path("nothing"), &o, &r, &err), STK_E_SYS);
    CHECK(strstr(err.path, "nothing") != NULL);
    stk_spread_result_release(&r);
    end_nodes(&n);
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    setenv("XDG_CACHE_HOME", scratch_begin(), 1);
    CHECK_FOR("2", replicate, 2);
    CHECK_FOR("4", replicate, 4);
    CHECK_RUN(two_per_node);
    CHECK_RUN(two_bad_nodes);
    CHECK_RUN(one_dies);
    CHECK_FOR("stored", shard, STK_SHUFFLE_NONE, 1);
    CHECK_FOR("stored, two copies", shard, STK_SHUFFLE_NONE, 2);
    CHECK_FOR("block", shard, STK_SHUFFLE_BLOCK, 1);
    CHECK_RUN(automatic);
    CHECK_RUN(no_source);
    scratch_done();
    return CHECK_DONE();
}
