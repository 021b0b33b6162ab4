/* watch.c - `stoker watch`: shows a running Slurm job, live, and what runs on
 * each of its nodes. watch_folder.c shows everything else that runs. */
#include <math.h>
#include <pwd.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <poll.h>
#include <sys/prctl.h>

#include "base/pool.h"
#include "base/spawn.h"
#include "sched/slurm/slurm.h"
#include "cmd/terminal.h"
#include "cmd/watch.h"
#include "job/watch.h"
#include "result/grid.h"
#include "report/watch.h"

/* ---- on each node ---------------------------------------------------------------------------- */

/* Runs on each node for `stoker watch`: prints a line of JSON per sample. */

void stk_nap(double s)
{
    struct timespec t = {(time_t)s, (long)((s - (double)(time_t)s) * 1e9)};
    nanosleep(&t, NULL);
}

struct lifeline {
    double limit_s; /* 0: none */
    double last_s;
};

/* Reads what has come; false: the other end is gone. */
static bool is_alive(struct lifeline *l)
{
    char bytes[256];
    ssize_t n = read(STDIN_FILENO, bytes, sizeof bytes);
    if (n > 0)
        l->last_s = stk_now();
    return n != 0;
}

/* Waits until then. False: there is no one left to sample for. */
static bool rest(struct lifeline *l, double until)
{
    double left;
    while (!stk_stop_signal()) {
        struct pollfd p = {.fd = l->limit_s > 0 ? STDIN_FILENO : -1, .events = POLLIN};
        left = until - stk_now();
        int ready = poll(&p, 1, left > 0 ? (int)(left * 1000) + 1 : 0);
        if (ready > 0 && !is_alive(l))
            return false;
        if (l->limit_s > 0 && stk_now() - l->last_s > l->limit_s)
            return false;
        if (ready == 0 && left <= 0)
            return true;
    }
    return true;
}

static bool print_sample(const struct stk_watch_node *node, struct stk_buf *line)
{
    stk_buf_reset(line);
    stk_jfields_text(stk_watch_fields, node, false, line);
    return !line->fail && fputs(stk_buf_cstr(line), stdout) >= 0 && fflush(stdout) == 0;
}

int stk_watch_here(struct stk_run *run, const struct stk_watch_target *target,
                   const struct stk_watch_sampling *how)
{
    struct stk_watcher *w;
    struct stk_watch_node node = {0};
    struct stk_buf line = STK_BUF_INIT;
    struct lifeline life = {.limit_s = how->lifeline_s, .last_s = stk_now()};
    (void)prctl(PR_SET_NAME, STK_WATCH_SAMPLER);
    int rc = stk_watcher_new(target, &w, &run->err);
    if (rc)
        return rc;
    double next = stk_now();
    for (uint64_t i = 0; !stk_stop_signal() && (!how->samples || i < how->samples); i++) {
        if ((rc = stk_watcher_read(w, &node, &run->err)) != 0 || !print_sample(&node, &line))
            break; /* the reader is gone: there is nothing left to do */
        next += how->every_s > 0.05 ? how->every_s : 0.05;
        bool last = how->samples && i + 1 == how->samples;
        if (!last && !rest(&life, next))
            break;
    }
    stk_buf_release(&line);
    stk_watch_node_release(&node);
    stk_watcher_free(w);
    return rc;
}

#define NODES_MAX 4096u
#define PARTS_MAX 128 /* of a heterogeneous job */
#define SILENT_S  10  /* a node without a sample for this long, and three times --every, is lost */
#define FIRST_S   30  /* limit for the first sample: srun waits for a slot */
#define BEAT_S    1   /* between signs of life for the samplers */
#define LIFE_S    60  /* without one, a sampler ends: srun or the network is gone */

struct settings {
    struct stk_common common;
    double every_s, timeout_s, lifeline_s;
    uint64_t samples, owner;
    const char *part, *trust;
    bool once, all, node_sample;
};

#define OPTION(...) STK_OPT_OF(struct settings, 0, __VA_ARGS__)

static const struct stk_opt options[] = {
    OPTION("once", once, FLAG, .incidental = true, .help = "Print one screen and exit"),
    OPTION("every", every_s, DURATION, .arg = "TIME", .def = "1s", .min = 0, .max = 3600,
           .incidental = true, .help = "Time between samples"),
    OPTION("samples", samples, UNSIGNED, .arg = "N", .def = "0", .incidental = true,
           .help = "Exit after N samples; 0: when the job or run ends"),
    OPTION("all", all, FLAG, .incidental = true,
           .help = "As root: show every process that claims to belong to the job, not only those "
                   "of the job's owner; through sudo, also try a job of another user: many a "
                   "Slurm lets only the owner look (sudo -u OWNER stoker watch)"),
    STK_TRUST_OPTION(offsetof(struct settings, trust)),
    OPTION("owner", owner, UNSIGNED, .arg = "UID", .max = UINT32_MAX, .def = "4294967295",
           .incidental = true, .hidden = true,
           .help = "With --node-sample: the user whose processes may belong to the job (default: "
                   "any)"),
    OPTION("part", part, STRING, .arg = "JOBID", .incidental = true, .hidden = true,
           .help = "With --node-sample: the number of this part of a heterogeneous job"),
    OPTION("lifeline", lifeline_s, DURATION, .arg = "TIME", .def = "0s", .incidental = true,
           .hidden = true,
           .help = "With --node-sample: end when standard input ends, or is silent for this long "
                   "(default: do not read it)"),
    OPTION("node-sample", node_sample, FLAG, .incidental = true, .hidden = true,
           .help = "Internal, runs on each node: print a line of JSON per sample of the job's "
                   "processes here"),
    OPTION("timeout", timeout_s, DURATION, .arg = "TIME", .def = "60s", .incidental = true,
           .help = "Time limit for each call of a Slurm client"),
    STK_COMMON_OPTIONS,
};

/* ---- the job and its nodes ---------------------------------------------------------------- */

struct view {
    struct stk_run *run;
    struct stk_slurm slurm;
    struct stk_slurm_jobs jobs;
    struct stk_slurm_job job; /* the job being watched; points into jobs */
    struct part {             /* of a heterogeneous job; else the job */
        const struct stk_slurm_job *job;
        struct stk_slurm_stream *stream;
        int ended; /* 0, or what its helper ended with */
    } part[PARTS_MAX];
    size_t nparts;
    struct stk_buf nodelist; /* of all parts */
    struct stk_watch_node *node;
    struct heard {
        uint64_t samples;
        double last_s;
    } * seen; /* of each node */
    size_t nnodes, expected;
    bool terminal, quit;
    enum stk_watch_sort sort;
    double next_line_s, drawn_s, beat_s;
    double first_until_s; /* end of the wait for all nodes */
};

static int stopped(void *user)
{
    (void)user;
    return stk_stop_signal();
}

/* A job, or one more part of the heterogeneous job that is watched. */
static void add_part(struct view *v, const struct stk_slurm_job *j)
{
    bool first = v->nparts == 0;
    if (!first && (!j->het_id || j->het_id != v->part[0].job->het_id))
        return;
    if (v->nparts < PARTS_MAX)
        v->part[v->nparts++].job = j;
}

static void add_count(int64_t *to, int64_t n)
{
    if (n > 0 && __builtin_add_overflow(*to > 0 ? *to : 0, n, to))
        *to = INT64_MAX;
}

static size_t nodes_of(const struct stk_slurm_job *j)
{
    size_t n = j->alloc.nodes > 0 ? (size_t)j->alloc.nodes : 1;
    return n < NODES_MAX ? n : NODES_MAX;
}

/* All parts as one job: what they have together. */
static void join_parts(struct view *v, const char *id)
{
    v->job = *v->part[0].job;
    for (size_t i = 0; i < v->nparts; i++) {
        const struct stk_slurm_job *j = v->part[i].job;
        v->expected += nodes_of(j);
        stk_buf_printf(&v->nodelist, "%s%s", i ? "," : "", j->nodelist);
        if (i == 0)
            continue;
        add_count(&v->job.alloc.nodes, j->alloc.nodes);
        add_count(&v->job.alloc.cpus, j->alloc.cpus);
        add_count(&v->job.alloc.gpus, j->alloc.gpus);
        add_count(&v->job.alloc.memory_bytes, j->alloc.memory_bytes);
        v->job.label = id;
    }
    v->job.nodelist = stk_buf_cstr(&v->nodelist);
}

static int find_job(struct view *v, const char *id)
{
    struct stk_err *err = &v->run->err;
    const char *ids[] = {id, NULL};
    struct stk_slurm_query q = {.ids = ids, .max_jobs = 64};
    int rc = stk_slurm_report(&v->slurm, &q, &v->jobs, err);
    if (rc)
        return rc;
    if (v->jobs.n == 0)
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1, "Slurm does not know job %.60s", id);
    size_t running = 0;
    const struct stk_slurm_job *last = NULL;
    for (size_t i = 0; i < v->jobs.n; i++)
        if (v->jobs.job[i].state == STK_SLURM_RUNNING) {
            running++;
            last = &v->jobs.job[i];
            add_part(v, last);
        }
    if (running > v->nparts)
        return stk_err_set(err, STK_E_USAGE, NULL, -1,
                           "%zu tasks of array %.60s are running: name one, such as %.60s", running,
                           id, last->label);
    if (running == 0)
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                           "job %.60s is not running: it is "
                           "%s%s%s",
                           id, stk_slurm_state_name(v->jobs.job[0].state),
                           v->jobs.job[0].reason[0] ? ", " : "", v->jobs.job[0].reason);
    join_parts(v, id);
    return stk_buf_check(&v->nodelist, err);
}

#define UNKNOWN_USER ((uid_t)-2) /* no user's */

static uid_t read_uid(const char *text)
{
    char *end;
    unsigned long uid = *text >= '0' && *text <= '9' ? strtoul(text, &end, 10) : UNKNOWN_USER;
    return uid < UNKNOWN_USER && !*end ? (uid_t)uid : UNKNOWN_USER;
}

/* The user who called us: the one behind sudo or a setuid program, not root. */
static uid_t caller(void)
{
    const char *sudo = getenv("SUDO_UID");
    return getuid() != 0 || !sudo ? getuid() : read_uid(sudo);
}

/* From the name that Slurm gives, or the number for a user without a name. */
static uid_t user_id(const char *name)
{
    const struct passwd *pw = name && *name ? getpwnam(name) : NULL;
    return pw ? pw->pw_uid : name ? read_uid(name) : UNKNOWN_USER;
}

/* Root may look into every process of a node, but the user behind sudo may not, and processes
 * themselves partly decide which job they claim. *owner: the user whose processes may belong to the
 * job; STK_NOBODY: any user. */
static int find_owner(const struct view *v, uid_t *owner)
{
    const struct settings *s = v->run->settings;
    *owner = STK_NOBODY;
    if (geteuid() != 0 || s->all)
        return 0;
    *owner = user_id(v->job.user);
    if (caller() == 0 || (caller() == *owner && *owner != UNKNOWN_USER))
        return 0;
    return stk_err_set(&v->run->err, STK_E_USAGE, NULL, -1,
                       "job %llu belongs to %s, not to you; --all tries it anyway",
                       (unsigned long long)v->job.id,
                       v->job.user && *v->job.user ? v->job.user : "another user");
}

/* Starts one task on each node of a part, which shares the job's resources and takes none away. */
static int start_part(const struct view *v, struct part *p, const char *exe, uid_t whose)
{
    const struct settings *s = v->run->settings;
    const struct stk_slurm_job *j = p->job;
    char owner[32], job[32], group[32], nodes[32], tasks[32], every[32], samples[32], part[48],
        life[48], number[24];
    /* Steps of a part belong to the first part, which the environment of all of them names. */
    unsigned long long whole = j->het_id ? j->het_id : j->id;
    snprintf(owner, sizeof owner, "--owner=%lu", (unsigned long)whose);
    snprintf(job, sizeof job, "--jobid=%llu", whole);
    snprintf(group, sizeof group, "--het-group=%lld", (long long)j->het_part);
    snprintf(nodes, sizeof nodes, "--nodes=%zu", nodes_of(j));
    snprintf(tasks, sizeof tasks, "--ntasks=%zu", nodes_of(j));
    snprintf(every, sizeof every, "--every=%gs", s->every_s);
    snprintf(samples, sizeof samples, "--samples=%u", s->once ? 2u : 0u);
    snprintf(part, sizeof part, "--part=%llu", (unsigned long long)j->id);
    snprintf(life, sizeof life, "--lifeline=%gs", s->lifeline_s > 0 ? s->lifeline_s : LIFE_S);
    snprintf(number, sizeof number, "%llu", whole);
    const char *argv[] = {"srun",
                          "--overlap",
                          job,
                          nodes,
                          tasks,
                          "--ntasks-per-node=1",
                          "--cpus-per-task=1",
                          "--mem=0",
                          "--unbuffered",
                          "--mpi=none",
                          "--quiet",
                          "--job-name=" STK_SLURM_WATCH_STEP,
                          j->het_id ? group : "--input=all",
                          exe,
                          "watch",
                          "--node-sample",
                          owner,
                          every,
                          samples,
                          life,
                          number,
                          j->het_id ? part : NULL,
                          NULL};
    return stk_slurm_stream_open(argv, &p->stream, &v->run->err);
}

static int start_helpers(struct view *v)
{
    char exe[4096];
    uid_t whose;
    int rc = find_owner(v, &whose);
    rc = rc ? rc : stk_self_path(exe, sizeof exe, &v->run->err);
    for (size_t i = 0; i < v->nparts && !rc; i++)
        rc = start_part(v, &v->part[i], exe, whose);
    return rc;
}

static int compare_nodes(const struct stk_watch_node *a, const struct stk_watch_node *b)
{
    int c = strverscmp(a->host, b->host);
    return c ? c : (a->part > b->part) - (a->part < b->part);
}

/* The node of that name, or a new one in the order of names; NULL: more nodes than the job has. */
static struct stk_watch_node *node_of(struct view *v, const struct stk_watch_node *got,
                                      struct heard **seen)
{
    size_t i = 0;
    while (i < v->nnodes && compare_nodes(&v->node[i], got) < 0)
        i++;
    if (i == v->nnodes || compare_nodes(&v->node[i], got) != 0) {
        if (v->nnodes == v->expected)
            return NULL;
        memmove(&v->node[i + 1], &v->node[i], (v->nnodes - i) * sizeof *v->node);
        memmove(&v->seen[i + 1], &v->seen[i], (v->nnodes - i) * sizeof *v->seen);
        v->node[i] = (struct stk_watch_node){0};
        v->seen[i] = (struct heard){0};
        v->nnodes++;
    }
    *seen = &v->seen[i];
    return &v->node[i];
}

static int take_sample(struct view *v, const struct part *from, const char *line, size_t len)
{
    struct stk_watch_node got = {0};
    struct heard *seen;
    if (stk_watch_read(line, len, &got, NULL) != 0)
        return 0; /* a message of the site's own */
    got.part = from->job->het_part;
    struct stk_watch_node *to = node_of(v, &got, &seen);
    if (to) {
        stk_watch_node_release(to);
        *to = got;
        seen->samples++;
        seen->last_s = stk_now();
    } else
        stk_watch_node_release(&got);
    return to != NULL;
}

static bool is_silent(const struct view *v, size_t i)
{
    const struct settings *s = v->run->settings;
    return stk_now() - v->seen[i].last_s > fmax(SILENT_S, 3 * s->every_s);
}

/* The number of samples sent by every node that is still alive. */
static uint64_t rounds(const struct view *v)
{
    uint64_t least = UINT64_MAX;
    for (size_t i = 0; i < v->nnodes; i++)
        if (v->seen[i].samples < least && !is_silent(v, i))
            least = v->seen[i].samples;
    bool all = v->nnodes == v->expected || stk_now() > v->first_until_s;
    return all && least != UINT64_MAX ? least : 0;
}

static struct stk_watch_screen screen_of(const struct view *v)
{
    for (size_t i = 0; i < v->nnodes; i++)
        v->node[i].silent = is_silent(v, i);
    struct stk_watch_screen s = {.job = &v->job,
                                 .node = v->node,
                                 .nnodes = v->nnodes,
                                 .columns = stk_columns(v->run),
                                 .utf8 = stk_term_utf8(),
                                 .sort = v->sort};
    if (v->terminal) {
        s.rows = stk_terminal_rows();
        s.columns = stk_terminal_columns() > 60 ? stk_terminal_columns() : 60;
    }
    return s;
}

/* ---- the terminal ------------------------------------------------------------------------- */

static void open_terminal(struct view *v)
{
    const struct settings *s = v->run->settings;
    v->terminal = !s->once && !s->common.json && !s->common.quiet && stk_terminal_can(true);
    if (v->terminal)
        stk_terminal_open(true);
}

static void draw(struct view *v)
{
    struct stk_watch_screen s = screen_of(v);
    struct stk_buf b = STK_BUF_INIT;
    stk_watch_text(&s, &b);
    stk_terminal_draw(&b, "q: quit  c: by CPU  m: by memory", false);
    stk_buf_release(&b);
}

static void read_keys(struct view *v)
{
    for (int c; v->terminal && (c = stk_terminal_key(0, -1)) != STK_KEY_NONE;) {
        v->quit |= c == 'q' || c == 'Q';
        v->sort = c == 'm' ? STK_WATCH_BY_MEMORY : c == 'c' ? STK_WATCH_BY_CPU : v->sort;
    }
}

static void print_line(struct view *v)
{
    const struct settings *settings = v->run->settings;
    struct stk_watch_screen s = screen_of(v);
    struct stk_buf b = STK_BUF_INIT;
    /* Samples are not exact to the millisecond: a slightly early one is the one due. */
    if (stk_now() < v->next_line_s - settings->every_s / 2)
        return;
    v->next_line_s = stk_now() + v->run->common->progress_every_s;
    stk_watch_sentence(&s, &b);
    stk_say(v->run, "%s\n", stk_buf_cstr(&b));
    fflush(stdout);
    stk_buf_release(&b);
}

static void show(struct view *v)
{
    v->drawn_s = stk_now();
    if (v->terminal && v->nnodes)
        draw(v);
    else if (!v->terminal && rounds(v) >= 2)
        print_line(v);
}

/* ---- the loop ----------------------------------------------------------------------------- */

/* Advances the job's times without asking Slurm. */
static void age(struct view *v)
{
    if (v->job.start > 0)
        v->job.elapsed_s = (double)(time(NULL) - (time_t)v->job.start);
}

static void beat(struct view *v)
{
    if (stk_now() < v->beat_s + BEAT_S)
        return;
    v->beat_s = stk_now();
    for (size_t i = 0; i < v->nparts; i++)
        stk_slurm_stream_beat(v->part[i].stream);
}

/* The next line of any part, as stk_slurm_stream_line(). */
static bool parts_left(const struct view *v)
{
    for (size_t i = 0; i < v->nparts; i++)
        if (!v->part[i].ended)
            return true;
    return false;
}

/* A line of any part. A part whose helper has ended is passed over while another goes on. */
static int next_line(struct view *v, struct part **from, const char **line, size_t *len)
{
    int ended = 0;
    for (size_t i = 0; i < v->nparts; i++) {
        *from = &v->part[i];
        if ((*from)->ended) {
            ended = ended ? ended : (*from)->ended;
            continue;
        }
        int rc = stk_slurm_stream_line((*from)->stream, 0.1 / (double)v->nparts, line, len,
                                       &v->run->err);
        if (rc > 0)
            return rc;
        (*from)->ended = rc;
        ended = rc ? rc : ended;
    }
    return parts_left(v) ? 0 : ended;
}

static int follow(struct view *v)
{
    const struct settings *s = v->run->settings;
    v->first_until_s = stk_now() + FIRST_S + s->every_s;
    while (!v->quit && !stk_stop_signal()) {
        struct part *from = NULL;
        const char *line;
        size_t len;
        beat(v);
        int rc = next_line(v, &from, &line, &len);
        read_keys(v);
        if (rc < 0)
            return rc;
        if (rc == 0 && v->nnodes == 0 && stk_now() > v->first_until_s)
            return stk_err_set(&v->run->err, STK_E_UNSUPPORTED, NULL, -1,
                               "no node of the job answered within %d s (srun --overlap)", FIRST_S);
        if (rc != 0 && !take_sample(v, from, line, len))
            continue;
        age(v);
        if (rc == 0) { /* keeps a job whose nodes are all lost from looking alive */
            if (!s->once && stk_now() > v->drawn_s + fmax(s->every_s, 2))
                show(v);
            continue;
        }
        if (s->once && rounds(v) >= 2) {
            /* The helpers end by themselves: a killed step would look bad in a report. */
            for (size_t i = 0; i < v->nparts; i++)
                (void)stk_slurm_stream_line(v->part[i].stream, 3, &line, &len, NULL);
            return 0;
        }
        if (s->once)
            continue;
        show(v);
        /* The first sample of a node has no CPU use, and is not shown. */
        if (s->samples && rounds(v) > s->samples)
            return 0;
    }
    return v->quit ? 0 : STK_E_STOPPED;
}

/* Slurm says "permission denied" to all but the owner, mostly also to root. */
static const char *whose_it_is(const struct view *v, char *text, size_t size)
{
    const char *user = v->job.user && *v->job.user ? v->job.user : "another user";
    text[0] = '\0';
    if (user_id(v->job.user) != geteuid())
        snprintf(
            text, size,
            "; the job belongs to %.60s, and Slurm lets only its owner start a step in it: run "
            "this as %.60s (sudo -u)",
            user, user);
    return text;
}

/* The helpers end with the job: the last thing to report is how it ended. */
static int after(struct view *v, int rc, const char *id)
{
    const struct settings *s = v->run->settings;
    struct stk_slurm_jobs now = {0};
    uint64_t number = v->job.id;
    char words[sizeof v->run->err.what], owner[256];
    if (rc != STK_E_STOPPED || stk_stop_signal())
        return rc;
    snprintf(words, sizeof words, "%s", v->run->err.what);
    v->run->err = (struct stk_err){0};
    if (v->nnodes == 0)
        return stk_err_set(&v->run->err, STK_E_UNSUPPORTED, NULL, -1,
                           "srun on the job's nodes: %s%s", words,
                           whose_it_is(v, owner, sizeof owner));
    if (s->once)
        return 0;
    /* srun's step goes first: Slurm may still call the job running. */
    for (int i = 0; i < 6 && !stk_slurm_ended(v->job.state) && !stk_stop_signal(); i++) {
        if (i)
            stk_nap(0.5);
        if (stk_slurm_look(&v->slurm, &number, 1, &now, NULL) == 0)
            v->job.state = now.job[0].state;
    }
    stk_say(v->run, "job %s: %s\n", id,
            stk_slurm_ended(v->job.state) ? stk_slurm_state_name(v->job.state) : "ended");
    stk_slurm_jobs_release(&now);
    return 0;
}

static int watch_job(struct stk_run *run, const char *id)
{
    const struct settings *s = run->settings;
    struct view v = {.run = run, .slurm = {.timeout_s = s->timeout_s, .stop = stopped}};
    int rc = find_job(&v, id);
    if (!rc) {
        v.node = calloc(v.expected, sizeof *v.node);
        v.seen = calloc(v.expected, sizeof *v.seen);
        rc = v.node && v.seen ? start_helpers(&v) : stk_err_nomem(&run->err, 0);
    }
    if (!rc) {
        open_terminal(&v);
        rc = follow(&v);
        stk_terminal_close();
        rc = after(&v, rc, id);
    }
    if (!rc) {
        struct stk_watch_screen screen = screen_of(&v);
        struct stk_buf b = STK_BUF_INIT;
        stk_watch_text(&screen, &b);
        if (s->once)
            stk_say(run, "%s", stk_buf_cstr(&b));
        stk_fields_put(stk_watch_kind.fields, &screen, &run->json);
        stk_buf_release(&b);
    }
    for (size_t i = 0; i < v.nparts; i++)
        stk_slurm_stream_close(v.part[i].stream);
    stk_buf_release(&v.nodelist);
    for (size_t i = 0; v.node && i < v.nnodes; i++)
        stk_watch_node_release(&v.node[i]);
    free(v.node);
    free(v.seen);
    stk_slurm_jobs_release(&v.jobs);
    return rc;
}

static int sample_here(struct stk_run *run, const char *id)
{
    const struct settings *s = run->settings;
    const struct stk_watch_target target = {.job = strtoull(id, NULL, 10),
                                            .part = s->part ? strtoull(s->part, NULL, 10) : 0,
                                            .owner = (uid_t)s->owner};
    const struct stk_watch_sampling how = {
        .every_s = s->every_s, .samples = s->samples, .lifeline_s = s->lifeline_s};
    return stk_watch_here(run, &target, &how);
}

static int watch_folder(struct stk_run *run, const char *path)
{
    const struct settings *s = run->settings;
    const struct stk_watch_folder how = {
        .every_s = s->every_s, .samples = s->samples, .once = s->once, .trust = s->trust};
    return stk_watch_folder(run, path, &how);
}

/* A job's number; a folder of that name is "./12". */
static int run_watch(struct stk_run *run)
{
    const struct settings *s = run->settings;
    const char *id = run->opts.arg[0];
    struct stat st;
    if (stk_slurm_id_ok(id))
        return s->node_sample ? sample_here(run, id) : watch_job(run, id);
    if (strchr(id, '/') || stat(id, &st) == 0)
        return watch_folder(run, id);
    return stk_err_set(&run->err, STK_E_USAGE, NULL, -1,
                       "\"%.80s\" is not a job id (12, or 12_3 for a task of an array), and no "
                       "folder has that name",
                       id);
}

static const struct stk_example examples[] = {
    {"stoker watch stoker-profile-train", "live: what a profiled program reads, rank by rank"},
    {"stoker watch /scratch/b", "live: the benchmark that runs on this data"},
    {"stoker watch 123456", "live: CPU, threads, memory and GPU of each process; q quits"},
    {"stoker watch --once 123456", "one screen, for a script or a mail"},
    {NULL, NULL},
};

const struct stk_cmd stk_cmd_watch = {
    .name = "watch",
    .summary = "show what runs, live: profile, benchmark, staging, study or job",
    .args = "DIR|JOBID",
    .description =
        "Shows what runs in a folder of stoker: rates, queue, utilisation, the slowest rank, "
        "progress and the time left. DIR is the folder of a profile, a study or a tuning, a tier "
        "or the --status folder of `stoker stage`, or the data of `stoker bench`. It only "
        "reads files, so it works from another shell, and from another node that sees the folder. "
        "It ends with the run, with status 1 if that died.\n\n"
        "For a job, shows what it does on its nodes: busy CPUs, threads, memory and GPUs, per node "
        "and per process, once per second. The numbers come from /proc and NVML on the nodes, "
        "through a step of the job (srun --overlap), which shares the job's CPUs and needs no ssh; "
        "stoker must be installed at the same path on the nodes.\n\n"
        "On a terminal it fills the screen until you press q; c and m sort a job by CPU and "
        "memory. Elsewhere it prints a line every --progress-every. It ends with the job.",
    .examples = examples,
    .options = options,
    .settings_size = sizeof(struct settings),
    .run = run_watch,
};
