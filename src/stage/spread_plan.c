/*
 * spread_plan.c - before anything moves: the place on this node, the mode on which all agree, and the
 * parcels that each node shall have.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "stage/spread_run.h"

/* ---- the place on this node ---- */

/* On the heap: a thread that hangs keeps using it. */
struct placing {
    struct spread *s;
    struct stk_tier *tier;
    struct stk_tier_set *set;
    struct stk_tier_state state;
    uint64_t room;
};

static int find_place(void *user, struct stk_err *err)
{
    struct placing *p = user;
    struct spread *s = p->s;
    struct stk_tier_source ts = stk_source_for_tier(&s->src);
    int rc = s->o.place(s->o.user, &s->src, &p->tier, &p->room, err);
    rc = rc ? rc : stk_tier_set_open(p->tier, &ts, &p->set, err);
    rc = rc ? rc : stk_tier_state(p->set, &p->state, err);
    rc = rc || p->state.bytes_there >= s->src.bytes
             ? rc
             : stk_tier_make_room(p->set, s->src.bytes, err);
    return rc == 2 ? 0 : rc; /* the mode may be one that needs less */
}

/* Without a place the node takes part all the same: it reads and passes on. Making a tier syncs its
 * settings, so that a disk that hangs may do so here already. */
void stk_spread_open_place(struct spread *s)
{
    struct placing *p = calloc(1, sizeof *p);
    struct stk_err err = {0};
    int rc = p ? 0 : stk_err_nomem(&err, sizeof *p);
    if (p)
        p->s = s;
    rc = rc ? rc : stk_spread_step(s, find_place, p, s->disk_s, &err);
    if (rc)
        stk_spread_failed(s, rc, &err);
    if (s->stuck || !p)
        return;
    s->tier = p->tier;
    s->room = p->room;
    atomic_store(&s->counts.there, p->state.bytes_there);
    if (rc && p->set)
        stk_tier_set_close(p->set);
    else
        s->set = p->set;
    free(p);
}

/* ---- the mode ---- */

struct offer {
    uint64_t room, there; /* of a node without a place: UINT64_MAX and 0 */
    uint64_t reads;
};

/* The node with the least room for what it lacks, of those that have a place; *small: the number of
 * these that have too little. */
static uint32_t tightest(const struct spread *s, const struct offer *offer, uint32_t *small)
{
    uint32_t worst = 0;
    double least = 1e300;
    *small = 0;
    for (uint32_t i = 0; i < s->nodes; i++) {
        double spare = offer[i].room == UINT64_MAX
                           ? 1e299
                           : (double)offer[i].room + (double)offer[i].there - (double)s->src.bytes;
        *small += spare < 0;
        if (spare < least) {
            least = spare;
            worst = i;
        }
    }
    return worst;
}

/* Nodes that have a place with room for all of it. */
static uint32_t count_fitting(const struct spread *s, const struct offer *offer, uint32_t small)
{
    uint32_t n = s->nodes - small;
    for (uint32_t i = 0; i < s->nodes; i++)
        n -= offer[i].room == UINT64_MAX;
    return n;
}

static void choose_mode(struct spread *s, const struct offer *offer, bool dataset)
{
    char size[32], room[32];
    uint32_t small, worst = tightest(s, offer, &small);
    uint32_t whole = count_fitting(s, offer, small), least = s->o.min_nodes;
    struct stk_spread_result *r = s->r;
    r->mode = s->o.mode;
    if (r->mode != STK_SPREAD_AUTO)
        return;
    bool fits = !small, enough = small && least && least < s->nodes && whole >= least;
    r->mode = fits || enough || !dataset ? STK_SPREAD_REPLICATE : STK_SPREAD_SHARD;
    stk_format_size(s->src.bytes, size, sizeof size);
    stk_format_size(offer[worst].room == UINT64_MAX ? 0 : offer[worst].room, room, sizeof room);
    if (fits)
        snprintf(r->why, sizeof r->why, "replicate: %s fit on every node", size);
    else if (enough)
        snprintf(r->why, sizeof r->why,
                 "replicate: %s fit on %u nodes, not in the %s of node %s, and %u are enough", size,
                 whole, room, stk_comm_node_name(s->leaders, worst), least);
    else
        snprintf(r->why, sizeof r->why, "%s: %s do not fit in the %s of node %s%s",
                 stk_spread_names[r->mode], size, room, stk_comm_node_name(s->leaders, worst),
                 dataset ? "" : "; it is not a dataset, so no plan says which part a node needs");
}

int stk_spread_agree(struct spread *s, struct stk_err *err)
{
    struct offer mine = {.room = s->set ? s->room : UINT64_MAX,
                         .there = atomic_load(&s->counts.there),
                         .reads = s->readers[s->node]};
    uint64_t dataset = s->src.ds != NULL;
    struct offer *offer = calloc(s->nodes, sizeof *offer);
    int rc = offer ? stk_comm_allgather(s->leaders, &mine, sizeof mine, offer, STK_SPREAD_ANSWER_S, err)
                   : stk_err_nomem(err, s->nodes * sizeof *offer);
    rc = rc ? rc : stk_comm_bcast(s->leaders, 0, &dataset, sizeof dataset, STK_SPREAD_ANSWER_S, err);
    for (uint32_t i = 0; i < s->nodes && !rc; i++)
        s->readers[i] = offer[i].reads != 0;
    if (!rc)
        choose_mode(s, offer, dataset);
    free(offer);
    return rc;
}

/* ---- what each node shall have ---- */

/* Rank 0 has the dataset; the others get what follows from its plan. A training with more ranks
 * than there are here has them on the nodes in order. Node k also keeps what the copies - 1 nodes
 * before it need. */
static int plan_shards(struct spread *s, uint64_t *bits, struct stk_err *err)
{
    size_t words = stk_bits_words(s->map.parcels);
    struct stk_loader_options plan = s->o.loader;
    uint32_t ranks = stk_comm_size(s->all), copies = s->o.copies ? s->o.copies : 1;
    plan.world = plan.world ? plan.world : ranks;
    uint32_t *mine = calloc(plan.world, sizeof *mine);
    int rc = mine ? 0 : stk_err_nomem(err, plan.world * sizeof *mine);
    copies = copies < s->nodes ? copies : s->nodes;
    for (uint32_t n = 0; n < s->nodes && !rc; n++) {
        uint32_t count = 0;
        for (uint32_t i = 0; i < plan.world; i++)
            if (stk_comm_node(s->all, (uint32_t)((uint64_t)i * ranks / plan.world)) == n)
                mine[count++] = i;
        uint64_t *need = calloc(words + 1, sizeof *need);
        rc = need ? stk_spread_need(&s->map, &plan, mine, count, need, err)
                  : stk_err_nomem(err, words * 8);
        for (uint32_t k = 0; k < copies && !rc; k++)
            for (size_t i = 0; i < words; i++)
                bits[(n + k) % s->nodes * words + i] |= need[i];
        free(need);
    }
    free(mine);
    return rc;
}

int stk_spread_divide(struct spread *s, struct stk_err *err)
{
    size_t words = stk_bits_words(s->map.parcels);
    bool shard = s->r->mode == STK_SPREAD_SHARD;
    s->shall = calloc(words + 1, sizeof *s->shall);
    s->missing = calloc(words + 1, sizeof *s->missing);
    s->wanted = shard ? calloc(words * s->nodes + 1, sizeof *s->wanted) : NULL;
    if (!s->shall || !s->missing || (shard && !s->wanted))
        return stk_err_nomem(err, words * s->nodes * 8);
    if (!shard) {
        for (uint64_t k = 0; k < s->map.parcels; k++)
            stk_bit_set(s->shall, k);
        return 0;
    }
    int rc = s->node == 0 ? plan_shards(s, s->wanted, err) : 0;
    rc = rc ? rc : stk_comm_bcast(s->leaders, 0, s->wanted, words * s->nodes * 8, STK_SPREAD_ANSWER_S, err);
    memcpy(s->shall, s->wanted + s->node * words, words * 8);
    return rc;
}

uint64_t stk_spread_count(const struct spread *s)
{
    uint64_t bytes = 0;
    for (uint64_t f = 0; f < s->src.count; f++)
        for (uint64_t k = s->map.base[f]; k < s->map.base[f + 1]; k++)
            bytes += stk_bit(s->shall, k) ? stk_spread_len(&s->map, f, k) : 0;
    return bytes;
}

/* What this node lacks of what it shall have; nothing if it has no place. Also counts its bytes. */
void stk_spread_look(struct spread *s, uint64_t *bits)
{
    uint64_t there = 0;
    memset(bits, 0, stk_bits_words(s->map.parcels) * 8);
    for (uint64_t f = 0; f < s->src.count && s->set; f++)
        for (uint64_t k = s->map.base[f]; k < s->map.base[f + 1]; k++) {
            if (!stk_bit(s->shall, k))
                continue;
            if (stk_tier_has(s->set, f, k - s->map.base[f]))
                there += stk_spread_len(&s->map, f, k);
            else
                stk_bit_set(bits, k);
        }
    atomic_store(&s->counts.there, there);
}

int stk_spread_missing(struct spread *s, bool *some, struct stk_err *err)
{
    size_t words = stk_bits_words(s->map.parcels);
    int rc;
    if (s->r->mode == STK_SPREAD_SHARD) {
        uint64_t *mine = s->missing;
        stk_spread_look(s, mine);
        rc = stk_comm_allgather(s->leaders, mine, words * 8, s->wanted, STK_SPREAD_ANSWER_S, err);
        for (uint32_t n = 0; n < s->nodes; n++)
            for (size_t i = 0; i < words; i++)
                s->missing[i] |= s->wanted[n * words + i];
    } else {
        stk_spread_look(s, s->missing);
        rc = stk_comm_reduce_u64(s->leaders, STK_COMM_OR, s->missing, words, STK_SPREAD_ANSWER_S, err);
    }
    *some = false;
    for (size_t i = 0; i < words && !rc; i++)
        *some |= s->missing[i] != 0;
    return rc;
}
