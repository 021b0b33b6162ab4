/* status.c - what a run shows while it runs: the beacons of a benchmark and of its ranks. */
#include "bench/bench.h"
#include "bench/feed.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/dir.h"
#include "base/file.h"
#include "base/pool.h"
#include "base/thread.h"
#include "host/proc.h"

#define EVERY_S       1.0
#define COUNT_EVERY_S 0.2
#define PER_RANK_S    0.05 /* all ranks together write at most twenty files per second */
#define FAREWELL_S    2    /* for a thread whose write is blocked; then it is left behind */
#define LEFTOVER_MAX  20000

/* ---- the board ------------------------------------------------------------------------------ */

static void put_run(void *user, struct stk_jw *w)
{
    const struct stk_bench_board *b = user;
    stk_jw_put_str(w, "workload", b->w->name);
    stk_jw_put_u64(w, "ranks", b->ranks);
    stk_jw_put_u64(w, "batch", b->w->training.batch);
    stk_jw_put_str(w, "reader", b->stoker ? "stoker" : "application");
}

static bool is_ours(const char *name)
{
    return strcmp(name, STK_BENCH_RUN) == 0 ||
           strncmp(name, STK_BENCH_RANK, strlen(STK_BENCH_RANK)) == 0 ||
           strncmp(name, STK_BENCH_RUN ".partial.", strlen(STK_BENCH_RUN ".partial.")) == 0;
}

static void remove_files(int dirfd, const char *path)
{
    struct stk_dir d;
    int rc = stk_dir_open_fd(&d, dirfd, path, NULL);
    unsigned n = 0;
    for (const struct dirent *e; n < LEFTOVER_MAX && (e = stk_dir_next(&d));)
        if (is_ours(e->d_name) && ++n)
            (void)stk_unlink_at(dirfd, e->d_name, path, NULL);
    (void)stk_dir_end(&d, rc, NULL);
}

/* By a run that lives, as far as this node can tell. */
static bool is_taken(int dirfd, const char *path)
{
    struct stk_arena arena = STK_ARENA_INIT;
    struct stk_beacon_seen seen;
    bool taken = stk_beacon_read(&arena, dirfd, STK_BENCH_RUN, path, &seen, NULL) == 0 &&
                 stk_alive_check(&seen.who) == STK_LIFE_RUNS;
    stk_arena_release(&arena);
    return taken;
}

int stk_bench_board_open(struct stk_bench_board *b, const char *path, const struct stk_workload *w,
                         bool stoker, bool first, struct stk_err *err)
{
    *b = STK_BENCH_BOARD_INIT;
    b->w = w;
    b->ranks = w->training.ranks;
    b->stoker = stoker;
    b->path = strdup(path);
    int rc = b->path ? 0 : stk_err_nomem(err, strlen(path));
    rc = rc ? rc : stk_own_folder(path, STK_OWN_MAKE | STK_OWN_PRIVATE, &b->dirfd, err);
    if (rc || !first)
        return rc;
    if (is_taken(b->dirfd, path)) {
        close(b->dirfd);
        b->dirfd = -1;
        return stk_err_set(err, STK_E_EXISTS, path, -1, "another benchmark shows its status there");
    }
    remove_files(b->dirfd, path);
    b->run = (struct stk_beacon){
        .name = STK_BENCH_RUN, .command = "bench", .every_s = EVERY_S, .put = put_run, .user = b};
    stk_beacon_begin(&b->run, b->dirfd);
    return 0;
}

/* Whichever rank is the last. */
static void remove_folder(const char *path)
{
    int parent;
    const char *last;
    if (stk_open_parent(path, &parent, &last, NULL) != 0)
        return;
    (void)stk_rmdir_at(parent, last); /* stays if it holds anything else */
    close(parent);
}

void stk_bench_board_close(struct stk_bench_board *b)
{
    if (b->run.dirfd >= 0)
        remove_files(b->dirfd, b->path);
    stk_beacon_end(&b->run, false);
    if (b->dirfd >= 0)
        remove_folder(b->path);
    if (b->dirfd >= 0)
        close(b->dirfd);
    free(b->path);
    *b = STK_BENCH_BOARD_INIT;
}

void stk_bench_board_clean(const char *path)
{
    int fd;
    if (stk_own_folder(path, 0, &fd, NULL) != 0)
        return;
    if (!is_taken(fd, path)) {
        remove_files(fd, path);
        remove_folder(path);
    }
    close(fd);
}

/* ---- a rank --------------------------------------------------------------------------------- */

/* What a rank shows. */
struct figures {
    const char *phase;
    double phase_s; /* since then, or since the last step; by stk_now() */
    uint64_t step, steps, samples, checkpoints;
    double busy, wait_s, barrier_s, run_s, step_max_s;
    uint64_t ready, slots;
};

struct stk_bench_status {
    struct stk_thread *thread;
    pthread_mutex_t lock; /* for these: */
    struct figures now;
    double counted_s; /* of the steps' thread: when it last counted the queue */
    /* Of the thread, which writes without the lock: a step never waits for a write. */
    struct stk_beacon beacon;
    int proc_fd;
    uint64_t rank, ranks;
    char node[64], name[40];
    struct figures shown;
    double step_s;
    uint64_t last_step, last_io[STK_IO_COUNTS]; /* at the last write */
    double last_run_s, last_at_s;
};

/* The mean step since the last write; a step that takes longer than that keeps the mean. */
static void average(struct stk_bench_status *s)
{
    const struct figures *f = &s->shown;
    if (f->step <= s->last_step)
        return;
    s->step_s = (f->run_s - s->last_run_s) / (double)(f->step - s->last_step);
    s->last_step = f->step;
    s->last_run_s = f->run_s;
}

static void put_bytes(struct stk_bench_status *s, struct stk_jw *w)
{
    uint64_t io[STK_IO_COUNTS] = {0};
    double now = stk_now(), passed = now - s->last_at_s;
    stk_proc_io(s->proc_fd, getpid(), io);
    stk_jw_put_u64(w, "read_bytes", io[0]);
    stk_jw_put_u64(w, "write_bytes", io[1]);
    stk_jw_put_u64(w, "device_bytes", io[2]);
    if (s->last_at_s > 0 && passed > 0) {
        stk_jw_put_f64(w, "read_Bps", (double)(io[0] - s->last_io[0]) / passed);
        stk_jw_put_f64(w, "device_Bps", (double)(io[2] - s->last_io[2]) / passed);
    }
    memcpy(s->last_io, io, sizeof io);
    s->last_at_s = now;
}

static void put_rank(void *user, struct stk_jw *w)
{
    struct stk_bench_status *s = user;
    const struct figures *f = &s->shown;
    average(s);
    stk_jw_put_u64(w, "rank", s->rank);
    stk_jw_put_u64(w, "ranks", s->ranks);
    stk_jw_put_str(w, "node", s->node);
    stk_jw_put_str(w, "phase", f->phase);
    stk_jw_put_f64(w, "since_s", stk_now() - f->phase_s);
    stk_jw_put_u64(w, "step", f->step);
    stk_jw_put_u64(w, "steps", f->steps);
    stk_jw_put_u64(w, "samples", f->samples);
    stk_jw_put_f64(w, "utilisation", f->busy);
    stk_jw_put_f64(w, "wait_s", f->wait_s);
    stk_jw_put_f64(w, "barrier_s", f->barrier_s);
    stk_jw_put_f64(w, "run_s", f->run_s);
    stk_jw_put_f64(w, "step_s", s->step_s);
    stk_jw_put_f64(w, "step_max_s", f->step_max_s);
    stk_jw_put_u64(w, "queue", f->ready);
    stk_jw_put_u64(w, "queue_slots", f->slots);
    stk_jw_put_u64(w, "checkpoints", f->checkpoints);
    put_bytes(s, w);
}

static int status_main(void *user, struct stk_err *err)
{
    struct stk_bench_status *s = user;
    (void)err;
    while (stk_thread_sleep(s->thread, stk_now() + s->beacon.every_s)) {
        pthread_mutex_lock(&s->lock);
        s->shown = s->now;
        pthread_mutex_unlock(&s->lock);
        stk_beacon_tick(&s->beacon, true);
    }
    return 0;
}

static void release(void *status)
{
    struct stk_bench_status *s = status;
    stk_beacon_end(&s->beacon, false);
    if (s->proc_fd >= 0)
        close(s->proc_fd);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

struct stk_bench_status *stk_bench_status_begin(const struct stk_bench_board *board,
                                                const struct stk_bench_plan *plan, bool idle)
{
    struct stk_bench_status *s = board && board->dirfd >= 0 ? calloc(1, sizeof *s) : NULL;
    if (!s)
        return NULL;
    *s = (struct stk_bench_status){.rank = plan->rank, .ranks = plan->ranks, .proc_fd = -1};
    s->now.phase = idle ? "calibrates" : "starts";
    s->now.phase_s = stk_now();
    s->shown = s->now;
    snprintf(s->name, sizeof s->name, STK_BENCH_RANK "%05llu.json", (unsigned long long)plan->rank);
    if (gethostname(s->node, sizeof s->node - 1) != 0)
        s->node[0] = '\0';
    pthread_mutex_init(&s->lock, NULL);
    (void)stk_proc_open(&s->proc_fd, NULL);
    s->beacon =
        (struct stk_beacon){.name = s->name, .command = "bench", .put = put_rank, .user = s};
    s->beacon.every_s = fmax(EVERY_S, PER_RANK_S * (double)plan->ranks);
    stk_beacon_begin(&s->beacon, board->dirfd);
    if (stk_thread_open(&s->thread, NULL) == 0) {
        stk_thread_begin(s->thread, status_main, release, s);
        return s;
    }
    release(s);
    return NULL;
}

void stk_bench_status_phase(struct stk_bench_status *s, const char *phase)
{
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    s->now.phase = phase;
    s->now.phase_s = stk_now();
    pthread_mutex_unlock(&s->lock);
}

void stk_bench_status_step(struct stk_bench_status *s, const struct stk_bench_rank *r,
                           const struct stk_bench_live *live, const struct stk_feed *feed)
{
    struct figures *f = s ? &s->now : NULL;
    uint64_t ready, slots;
    double now = stk_now();
    if (!s)
        return;
    bool counts = now - s->counted_s >= COUNT_EVERY_S; /* steps may be very short */
    if (counts) {
        s->counted_s = now;
        stk_feed_queue(feed, &ready, &slots);
    }
    pthread_mutex_lock(&s->lock);
    double took = r->wall_s - f->run_s;
    f->step_max_s = live->step > 1 && took > f->step_max_s ? took : f->step_max_s;
    f->phase = "trains";
    f->phase_s = now;
    f->step = live->step;
    f->steps = live->steps;
    f->samples = r->samples;
    f->checkpoints = r->checkpoints;
    f->busy = live->utilisation;
    f->wait_s = r->wait_s;
    f->barrier_s = r->barrier_s;
    f->run_s = r->wall_s;
    if (counts) {
        f->ready = ready;
        f->slots = slots;
    }
    pthread_mutex_unlock(&s->lock);
}

void stk_bench_status_end(struct stk_bench_status *s)
{
    if (s && stk_thread_close(s->thread, FAREWELL_S)) /* else its file system does not answer */
        release(s);
}
