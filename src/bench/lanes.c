/* lanes.c - the batches of a rank, read ahead by its threads: see feed.h. */
#include "bench/feed.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "base/pool.h"
#include "base/thread.h"
#include "bench/reader.h"

/* A thread looks this long, 20 us, before it sleeps, if what it waited for last came as soon: batches
 * that are small and cached follow each other faster than a thread wakes up. */
#define SPIN_S 20e-6

/* Lanes that run on without the taker: batches after which one wakes the other, and the time after
 * which the taker looks for itself. */
#define RUN    32u
#define SOON_S 1e-3

/* Whether the taker waits for a batch, and must be woken for a single one. */
enum want { WANT_NONE, WANT_SOON, WANT_NOW };

struct slot {
    double ready_s, free_s;
    double taken_s; /* lanes that run on: the batch in it, and all before it, are complete */
    double changed_s; /* when it was last filled or freed, by the machine's clock */
    _Atomic uint64_t batch; /* the one that may be read into it, or is in it */
    _Atomic bool full; /* both are written under the lock; a look needs none */
};

struct lane {
    struct stk_lanes *all;
    uint64_t number, samples; /* samples: of this epoch so far */
    uint64_t start_until; /* it runs for the batches before this one … */
    double start_s;       /* … since then */
    uint64_t begun_until; /* the same when it last began */
    struct stk_bench_plan plan;
    struct stk_bench_clock clock;
    struct stk_io_tally tally;
    struct stk_bench_reader reader;
    pthread_t thread;
    bool running;
    pthread_cond_t go; /* the slot of its next batch is free */
    bool quick;        /* the last slot was free within SPIN_S */
};

struct stk_lanes {
    struct stk_lanes_config c;
    /* Copies: a thread that hangs may use them when the caller is gone. */
    struct stk_bench_plan plan;
    struct stk_bench_model model;
    uint64_t nslots, nlanes;
    uint64_t ahead; /* batches that are read ahead of the taker */
    struct slot *slot;
    struct lane *lane;
    pthread_mutex_t lock, loading;
    pthread_cond_t filled; /* the batch that is taken next is there, or a lane failed */
    enum want wanted;
    bool gated;          /* the taker starts the lanes, or lets them read epoch by epoch … */
    uint64_t open_until; /* … the batches before this one … */
    double open_s;       /* … since then */
    bool runs_on;     /* see stk_lanes_config.instant */
    uint64_t whole;   /* lanes that run on: all batches before this one are complete … */
    double whole_s;   /* … since then */
    uint64_t unheard; /* batches since the taker waits soon */
    bool quick;            /* the last batch came within SPIN_S of being asked for */
    bool on_demand; /* reader.threads 0: a batch is read when it is asked for */
    bool stop;
    bool stuck; /* a lane does not answer: its thread cannot be joined */
    struct stk_lanes *left_before; /* see left_behind */
    int rc; /* of the first lane that failed */
    struct stk_err err;
};

/* Lanes that hang, with what they use: not lost, also if a thread has not begun to run. A lane reads
 * on for as long as the run lasts, and only a batch can be late: base/thread.h is for one function
 * that ends. */
static struct stk_lanes *_Atomic left_behind;

/* With I/O off, a batch is there when it is asked for. */
static double ready_time(const struct lane *l, const struct slot *s)
{
    return l->all->c.idle ? s->free_s : stk_bench_now(&l->clock);
}

/* The next batch of stoker's loader, whichever: one thread at a time asks for it. */
static int load_batch(struct lane *l, uint64_t b, struct stk_err *err)
{
    struct stk_lanes *all = l->all;
    if (all->c.model->is_virtual) {
        stk_bench_after(&l->clock, stk_loaded_ready_s(all->c.loaded, b));
        return 0;
    }
    pthread_mutex_lock(&all->loading);
    int rc = stk_loaded_next(all->c.loaded, err);
    pthread_mutex_unlock(&all->loading);
    return rc;
}

#define WORK_BYTES 4096u

/* CPU time that belongs to no sample. */
static void work(struct stk_bench_clock *clock, double cpu_s)
{
    uint8_t some[WORK_BYTES] = {0};
    if (cpu_s > 0)
        stk_bench_burn(clock, cpu_s, some, sizeof some);
}

/* Reads batch b; the samples of a lane follow each other within an epoch. */
static int read_batch(struct lane *l, uint64_t b, struct stk_err *err)
{
    const struct stk_lanes_config *c = &l->all->c;
    uint64_t epoch = b / l->plan.steps;
    int rc = 0;
    if (c->idle)
        return 0;
    if (epoch != l->plan.epoch) {
        stk_bench_plan_epoch(&l->plan, epoch);
        l->samples = 0;
    }
    uint64_t n = stk_bench_plan_batch(&l->plan, b);
    rc = l->all->c.loaded ? load_batch(l, b, err) : 0;
    for (uint64_t i = 0; i < n && rc == 0; i++) {
        struct stk_bench_place at = stk_bench_plan_at(&l->plan, l->number, l->samples++);
        l->reader.serial = stk_bench_plan_serial(&l->plan, b, i);
        rc = l->all->c.loaded ? stk_bench_reader_beside(&l->reader, at, err)
             : stk_workload_loads_first(l->plan.w) ? stk_bench_reader_think(&l->reader, err)
                                                   : stk_bench_reader_sample(&l->reader, at, err);
    }
    return rc;
}

/* The lane of a batch: counted anew in each epoch, as the plan does. */
static uint64_t lane_of(const struct stk_lanes *l, uint64_t b)
{
    return b % l->c.plan->steps % l->nlanes;
}

static uint64_t next_batch(const struct lane *l, uint64_t b)
{
    while (b < l->all->c.batches && lane_of(l->all, b) != l->number)
        b++;
    return b;
}

static struct slot *slot_of(const struct stk_lanes *l, uint64_t b)
{
    return &l->slot[b % l->nslots];
}

/* Called with the lock held. */
static bool may_read(const struct stk_lanes *l, uint64_t b)
{
    const struct slot *s = slot_of(l, b);
    return !s->full && s->batch == b && b < l->open_until &&
           (!l->runs_on || b < l->whole + l->ahead);
}

/* When the accelerator took the batch in whose place b is read. */
static double free_time(const struct stk_lanes *l, uint64_t b)
{
    return l->runs_on && b >= l->ahead ? slot_of(l, b - l->ahead)->taken_s : slot_of(l, b)->free_s;
}

static void spin_for_slot(const struct lane *l, uint64_t b, double asked_s)
{
    const struct slot *s = slot_of(l->all, b);
    while (l->quick && (s->full || s->batch != b) && stk_now() < asked_s + SPIN_S) {
    }
}

/* Waits until b may be read. False: stopped. */
static bool wait_slot(struct lane *l, uint64_t b)
{
    struct stk_lanes *all = l->all;
    double asked_s = all->runs_on ? 0 : stk_now();
    spin_for_slot(l, b, asked_s);
    pthread_mutex_lock(&all->lock);
    if (all->wanted == WANT_SOON && !may_read(all, b))
        pthread_cond_signal(&all->filled);
    while (!all->stop && all->rc == 0 && !may_read(all, b))
        pthread_cond_wait(&l->go, &all->lock);
    bool go = !all->stop && all->rc == 0;
    l->quick = !all->runs_on && slot_of(all, b)->changed_s < asked_s + SPIN_S;
    if (go)
        stk_bench_after(&l->clock, fmax(free_time(all, b), all->open_s));
    pthread_mutex_unlock(&all->lock);
    return go;
}

static void wake_lanes(struct stk_lanes *l)
{
    for (uint64_t i = 0; l->lane && i < l->nlanes; i++)
        pthread_cond_signal(&l->lane[i].go);
}

/* Without computing, the accelerator takes a batch when it and all before it are complete. */
static void note_whole(struct stk_lanes *l)
{
    for (struct slot *s; s = slot_of(l, l->whole), s->full && s->batch == l->whole; l->whole++) {
        l->whole_s = fmax(l->whole_s, s->ready_s);
        s->taken_s = l->whole_s;
        pthread_cond_signal(&l->lane[lane_of(l, l->whole + l->ahead)].go);
    }
}

/* Whether to wake the taker for the batch that was put. */
static bool is_waited_for(struct stk_lanes *l)
{
    bool many = ++l->unheard >= RUN || l->whole == l->c.batches || l->rc < 0;
    return l->wanted == WANT_NOW || (l->wanted == WANT_SOON && many);
}

static void put(struct lane *l, uint64_t b, int rc, const struct stk_err *err)
{
    struct stk_lanes *all = l->all;
    struct slot *s = slot_of(all, b);
    pthread_mutex_lock(&all->lock);
    s->ready_s = ready_time(l, s);
    s->changed_s = all->runs_on ? 0 : stk_now();
    s->full = true;
    if (rc < 0 && all->rc == 0) {
        all->rc = rc;
        all->err = *err;
    }
    if (all->runs_on)
        note_whole(all);
    bool wake = is_waited_for(all);
    pthread_mutex_unlock(&all->lock);
    if (wake)
        pthread_cond_signal(&all->filled);
    if (rc < 0)
        wake_lanes(all);
}

/* Waits until the lane was started for batch b, and does what a thread does before its first sample.
 * False: stopped. */
static bool wait_start(struct lane *l, uint64_t b)
{
    struct stk_lanes *all = l->all;
    if (!all->gated)
        return true;
    pthread_mutex_lock(&all->lock);
    while (!all->stop && all->rc == 0 && b >= l->start_until)
        pthread_cond_wait(&l->go, &all->lock);
    bool go = !all->stop && all->rc == 0, anew = l->begun_until != l->start_until;
    l->begun_until = l->start_until;
    double start_s = l->start_s;
    pthread_mutex_unlock(&all->lock);
    if (go && anew) {
        stk_bench_after(&l->clock, start_s);
        work(&l->clock, l->plan.w->reader.begin_s);
    }
    return go;
}

static void *lane_main(void *arg)
{
    struct lane *l = arg;
    for (uint64_t b = next_batch(l, 0); b < l->all->c.batches; b = next_batch(l, b + 1)) {
        struct stk_err err = {0};
        if (!wait_start(l, b) || !wait_slot(l, b))
            break;
        int rc = read_batch(l, b, &err);
        put(l, b, rc, &err);
        if (rc < 0)
            break;
    }
    return NULL;
}

static void spin(const struct stk_lanes *l, const struct slot *s)
{
    double until = l->quick ? stk_now() + SPIN_S : 0;
    while (!s->full && l->quick && stk_now() < until) {
    }
}

static bool is_there(const struct stk_lanes *l, const struct slot *s, uint64_t batch)
{
    return l->rc || (s->full && s->batch == batch);
}

/* False: it is not there after that time. Called with the lock held. */
static bool wait_for(struct stk_lanes *l, const struct slot *s, uint64_t batch, enum want want,
                     double seconds)
{
    double until_s = stk_now() + seconds;
    l->wanted = want;
    l->unheard = 0;
    while (!is_there(l, s, batch) && stk_cond_wait(&l->filled, &l->lock, until_s))
        ;
    l->wanted = WANT_NONE;
    return is_there(l, s, batch);
}

/* Waits until the batch is there, a lane failed, or patience ends. Called with the lock held. */
static void wait_batch(struct stk_lanes *l, const struct slot *s, uint64_t batch)
{
    if (is_there(l, s, batch))
        return;
    if (l->runs_on) {
        wake_lanes(l);
        if (wait_for(l, s, batch, WANT_SOON, SOON_S))
            return;
    }
    if (wait_for(l, s, batch, WANT_NOW, l->c.patience_s))
        return;
    l->stuck = true;
    l->rc = stk_err_set(&l->err, STK_E_STOPPED, l->c.data->dir, -1,
                        "a read has not returned for %.0f s: the storage hangs (--patience)",
                        l->c.patience_s);
}

/* The slot is free for the next batch; its lane may wait for it. */
static void give_slot(struct stk_lanes *l, struct slot *s, uint64_t batch, double now_s)
{
    s->free_s = s->ready_s > now_s ? s->ready_s : now_s;
    s->batch = l->on_demand ? UINT64_MAX : batch + l->nslots;
    s->changed_s = l->runs_on ? 0 : stk_now();
    s->full = false;
}

static void wake_lane(struct stk_lanes *l, uint64_t batch)
{
    if (l->runs_on && (batch + 1) % RUN == 0)
        wake_lanes(l);
    else if (!l->runs_on && !l->on_demand)
        pthread_cond_signal(&l->lane[lane_of(l, batch + l->nslots)].go);
}

static void demand(struct stk_lanes *l, uint64_t batch, double now_s)
{
    struct slot *s = slot_of(l, batch);
    pthread_mutex_lock(&l->lock);
    s->free_s = now_s;
    s->full = false;
    s->batch = batch; /* field by field: a lane may look at both without the lock */
    pthread_mutex_unlock(&l->lock);
    pthread_cond_signal(&l->lane[lane_of(l, batch)].go);
}

static void start_lanes(struct stk_lanes *l, uint64_t until, struct stk_bench_clock *clock)
{
    for (uint64_t i = 0; i < l->nlanes; i++) {
        struct lane *lane = &l->lane[i];
        work(clock, l->plan.w->reader.start_s);
        pthread_mutex_lock(&l->lock);
        lane->start_until = until;
        lane->start_s = stk_bench_now(clock);
        pthread_mutex_unlock(&l->lock);
        pthread_cond_signal(&lane->go);
    }
}

/* The taker asks for the first batch of an epoch: starts the lanes that have to be, one after the
 * other; when all run, they may read. As PyTorch's DataLoader does it. */
static void open_epoch(struct stk_lanes *l, uint64_t batch, double now_s)
{
    int how = l->plan.w->reader.epochs;
    uint64_t next = batch + l->plan.steps;
    struct stk_bench_clock clock = {l->c.model, now_s};
    double begin_s = stk_bench_now(&clock);
    if (batch == 0 || how == STK_EPOCHS_RESTART)
        start_lanes(l, how == STK_EPOCHS_RESTART ? next : UINT64_MAX, &clock);
    pthread_mutex_lock(&l->lock);
    l->open_until = how == STK_EPOCHS_AHEAD ? UINT64_MAX : next;
    l->open_s = stk_bench_now(&clock);
    pthread_mutex_unlock(&l->lock);
    wake_lanes(l);
    if (l->c.started_s)
        *l->c.started_s += stk_bench_now(&clock) - begin_s;
}

int stk_lanes_take(struct stk_lanes *l, uint64_t batch, double now_s, double *ready_s,
                   struct stk_err *err)
{
    struct slot *s = slot_of(l, batch);
    double asked_s = l->runs_on ? 0 : stk_now();
    if (l->gated && stk_lanes_are_asked(&l->plan, batch))
        open_epoch(l, batch, now_s);
    if (l->on_demand)
        demand(l, batch, now_s);
    spin(l, s);
    pthread_mutex_lock(&l->lock);
    wait_batch(l, s, batch);
    l->quick = !l->runs_on && s->changed_s < asked_s + SPIN_S;
    int rc = l->rc;
    if (rc < 0 && err)
        *err = l->err;
    *ready_s = s->ready_s;
    give_slot(l, s, batch, now_s);
    pthread_mutex_unlock(&l->lock);
    wake_lane(l, batch);
    return rc;
}

void stk_lanes_queue(struct stk_lanes *l, uint64_t *ready, uint64_t *slots)
{
    *ready = 0;
    *slots = l->on_demand ? 0 : l->ahead;
    pthread_mutex_lock(&l->lock);
    for (uint64_t i = 0; i < l->nslots && *ready < *slots; i++)
        *ready += l->slot[i].full;
    pthread_mutex_unlock(&l->lock);
}

static int start_lane(struct stk_lanes *l, uint64_t i, struct stk_err *err)
{
    struct lane *lane = &l->lane[i];
    lane->all = l;
    lane->number = i;
    lane->plan = *l->c.plan;
    lane->clock = (struct stk_bench_clock){l->c.model, l->c.start_s};
    int rc = stk_bench_reader_init(&lane->reader, l->c.plan->w, l->c.data, &lane->clock,
                                   &lane->tally, err);
    if (rc < 0)
        return rc;
    int why = stk_thread_start(&lane->thread, lane_main, lane);
    lane->running = why == 0;
    return why ? stk_err_set(err, STK_E_SYS, NULL, -1, "start a thread: %s", strerror(why)) : 0;
}

bool stk_lanes_are_gated(const struct stk_workload *w)
{
    return w->reader.threads &&
           (w->reader.epochs != STK_EPOCHS_AHEAD || w->reader.start_s > 0 || w->reader.begin_s > 0);
}

bool stk_lanes_are_asked(const struct stk_bench_plan *plan, uint64_t batch)
{
    bool ahead = plan->w->reader.epochs == STK_EPOCHS_AHEAD;
    return stk_lanes_are_gated(plan->w) && (ahead ? batch == 0 : batch % plan->steps == 0);
}

int stk_lanes_open(const struct stk_lanes_config *c, struct stk_lanes **out, struct stk_err *err)
{
    struct stk_lanes *l = calloc(1, sizeof *l);
    *out = NULL;
    if (!l)
        return stk_err_nomem(err, sizeof *l);
    l->c = *c;
    l->plan = *c->plan;
    l->model = *c->model;
    l->c.plan = &l->plan;
    l->c.model = &l->model;
    bool threads = c->plan->w->reader.threads > 0;
    l->runs_on = c->instant;
    l->on_demand = !threads && !c->instant;
    l->gated = threads && !c->loaded && !c->idle && stk_lanes_are_gated(c->plan->w);
    l->open_until = l->gated ? 0 : UINT64_MAX;
    l->ahead = threads ? c->plan->w->reader.prefetch : 1;
    l->nslots = l->runs_on ? 2 * (l->ahead + RUN) : l->ahead;
    l->whole_s = c->start_s;
    uint64_t lanes = c->plan->lanes;
    l->slot = calloc(l->nslots, sizeof *l->slot);
    l->lane = calloc(lanes, sizeof *l->lane);
    pthread_mutex_init(&l->lock, NULL);
    pthread_mutex_init(&l->loading, NULL);
    stk_cond_init(&l->filled);
    for (uint64_t i = 0; l->lane && i < lanes; i++)
        pthread_cond_init(&l->lane[i].go, NULL);
    int rc = l->slot && l->lane ? 0 : stk_err_nomem(err, lanes * sizeof *l->lane);
    for (uint64_t i = 0; i < l->nslots && rc == 0; i++)
        l->slot[i] = (struct slot){.batch = l->on_demand ? UINT64_MAX : i, .free_s = c->start_s};
    l->nlanes = lanes; /* before the first thread looks */
    uint64_t started = 0;
    while (rc == 0 && started < lanes)
        rc = start_lane(l, started++, err);
    if (rc < 0) {
        struct stk_io_tally none = {0};
        l->nlanes = started;
        stk_lanes_close(l, &none);
        return rc;
    }
    *out = l;
    return 0;
}

void stk_lanes_close(struct stk_lanes *l, struct stk_io_tally *tally)
{
    if (!l)
        return;
    if (l->stuck) {
        l->left_before = atomic_exchange(&left_behind, l);
        return;
    }
    pthread_mutex_lock(&l->lock);
    l->stop = true;
    pthread_mutex_unlock(&l->lock);
    wake_lanes(l);
    for (uint64_t i = 0; l->lane && i < l->nlanes; i++) {
        if (l->lane[i].running)
            pthread_join(l->lane[i].thread, NULL);
        stk_bench_reader_release(&l->lane[i].reader);
        pthread_cond_destroy(&l->lane[i].go);
        stk_io_tally_merge(tally, &l->lane[i].tally);
    }
    pthread_mutex_destroy(&l->lock);
    pthread_cond_destroy(&l->filled);
    free(l->slot);
    free(l->lane);
    free(l);
}
