/*
 * run.c - reads what the launchers wrote: run.HOST.PID.json and samples.HOST.PID.csv
 * (fields: record/launch.h). A missing field, or one of another type, is unknown; an unreadable
 * file is noted.
 */
#include "profile/priv.h"

#include "base/csv.h"
#include "base/file.h"
#include "base/num.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define MAX_RUN_BYTES      (16u << 20)
#define MAX_READINGS_BYTES (1u << 30) /* one line per second: years */

static bool is_text(const struct stk_jval *v)
{
    return v && v->type == STK_JSTR;
}

static const char *text_of(struct stk_pb *pb, const struct stk_jval *obj, const char *name)
{
    const struct stk_jval *v = stk_json_get(obj, name);
    const char *copy = is_text(v) ? stk_pb_text(pb, v->str, v->len) : "";
    return copy ? copy : "";
}

static uint64_t whole_of(const struct stk_jval *obj, const char *name)
{
    const struct stk_jval *v = stk_json_get(obj, name);
    return v && v->type == STK_JINT && v->i > 0 ? (uint64_t)v->i : 0;
}

static uint32_t small_of(const struct stk_jval *obj, const char *name)
{
    uint64_t v = whole_of(obj, name);
    return v < UINT32_MAX ? (uint32_t)v : 0;
}

static bool yes(const struct stk_jval *obj, const char *name)
{
    const struct stk_jval *v = stk_json_get(obj, name);
    return v && v->type == STK_JBOOL && v->b;
}

/* Words quoted as for a shell. */
static const char *command_of(struct stk_pb *pb, const struct stk_jval *run)
{
    const struct stk_jval *list = stk_json_get(run, "command");
    struct stk_buf b = STK_BUF_INIT;
    struct stk_secret secret = {0};
    for (size_t i = 0; list && list->type == STK_JARR && i < list->len; i++) {
        const struct stk_jval *w = &list->item[i];
        if (w->type == STK_JSTR)
            stk_pb_word(&b, &secret, w->str, w->len);
    }
    const char *text = b.fail ? NULL : stk_pb_text(pb, (const char *)b.data, b.len);
    stk_buf_release(&b);
    return text ? text : "";
}

/* The worst of all launchers: any failure, else 0; -1 while one has not reported. */
static void add_status(struct stk_pb *pb, const struct stk_jval *run)
{
    const struct stk_jval *v = stk_json_get(run, "exit_status");
    bool told = v && v->type == STK_JINT && v->i >= 0 && v->i <= 255;
    int status = told ? (int)v->i : -1;
    struct stk_profile *p = pb->p;
    bool worse = status < 0 ? p->exit_status == 0 : p->exit_status >= 0 && status > p->exit_status;
    if (!pb->told_status || worse) {
        p->exit_status = status;
        p->exit_signal = (int)(small_of(run, "signal") & 127);
    }
    pb->told_status = true;
}

static void add_host(struct stk_pb *pb, const struct stk_jval *run, uint32_t host)
{
    struct stk_prof_host *h = &pb->p->host[host];
    uint32_t cores = small_of(run, "cores"), gpus = small_of(run, "gpus");
    uint64_t memory = whole_of(run, "memory_bytes"), room = whole_of(run, "local_free_bytes");
    /* Tasks of one node each have their own part of it, or all the same: the largest is certain. */
    h->cores = cores > h->cores ? cores : h->cores;
    h->memory_bytes = memory > h->memory_bytes ? memory : h->memory_bytes;
    h->gpus = gpus > h->gpus ? gpus : h->gpus;
    if (!*h->gpu_kind)
        h->gpu_kind = text_of(pb, run, "gpu_kind");
    if (!*h->local_dir) {
        h->local_dir = text_of(pb, run, "local_dir");
        h->local_free_bytes = *h->local_dir ? room : 0;
    }
}

static int add_own_notes(struct stk_pb *pb, const struct stk_jval *run, struct stk_err *err)
{
    const struct stk_jval *notes = stk_json_get(run, "notes");
    int rc = 0;
    for (size_t i = 0; notes && notes->type == STK_JARR && i < notes->len && !rc; i++) {
        bool known = notes->item[i].type != STK_JSTR;
        for (size_t k = 0; k < pb->p->nnotes && !known; k++)
            known = strcmp(pb->p->note[k], notes->item[i].str) == 0;
        if (!known && pb->p->nnotes < 100)
            rc = stk_pb_note(pb, err, "%s", notes->item[i].str);
    }
    return rc;
}

static void add_unseen(struct stk_pb *pb, const struct stk_jval *run)
{
    const struct stk_jval *list = stk_json_get(run, "unseen");
    for (size_t i = 0; list && list->type == STK_JARR && i < list->len; i++) {
        const struct stk_jval *v = &list->item[i];
        if (v->type != STK_JOBJ)
            continue;
        const struct stk_jval *command = stk_json_get(v, "command");
        struct stk_buf b = STK_BUF_INIT;
        if (is_text(command))
            stk_secret_text(command->str, command->len, &b);
        stk_pb_tally(pb, &pb->unseen, stk_buf_cstr(&b));
        stk_buf_release(&b);
        uint64_t chars = whole_of(v, "rchar");
        pb->unseen_read_bytes += chars < INT64_MAX - pb->unseen_read_bytes ? chars : 0;
    }
    pb->unseen.count += small_of(run, "unseen_more");
}

/* If the launcher's program left no log: its entry among the unseen processes. NULL: it left
 * one. */
static const struct stk_jval *unseen_program(const struct stk_jval *run)
{
    const struct stk_jval *list = stk_json_get(run, "unseen");
    uint32_t child = small_of(run, "child");
    for (size_t i = 0; child && list && list->type == STK_JARR && i < list->len; i++)
        if (list->item[i].type == STK_JOBJ && small_of(&list->item[i], "pid") == child)
            return &list->item[i];
    return NULL;
}

/* The log of the same process before it executed an unobservable program. */
static const struct stk_pb_proc *before_exec(const struct stk_pb *pb, uint32_t host, uint32_t pid,
                                             const char **log)
{
    for (size_t i = pb->p->nprocs; i-- > 0;)
        if (pb->p->proc[i].host == host && pb->p->proc[i].pid == pid &&
            pb->proc[i].end == STK_END_EXEC) {
            *log = pb->p->proc[i].log;
            return &pb->proc[i];
        }
    return NULL;
}

/* The launcher saw its program end, and the kernel's counts for it and all descendants that were
 * waited for, including those without a log. (After --for, nothing is counted.) */
static void add_kernel(struct stk_pb *pb, const struct stk_jval *run)
{
    const struct stk_jval *io = stk_json_get(run, "child_io");
    uint64_t *total[2] = {&pb->p->kernel_read_bytes, &pb->p->kernel_write_bytes};
    if (yes(run, "stopped_early") || !io || io->type != STK_JARR || io->len != 4)
        return;
    for (size_t k = 0; k < 2; k++)
        if (io->item[k].type == STK_JINT && io->item[k].i > 0 &&
            (uint64_t)io->item[k].i < INT64_MAX - *total[k])
            *total[k] += (uint64_t)io->item[k].i;
}

/* The program's own log does not say how it ended: it was killed, or its runtime bypasses the C
 * library (Go with C in it), and so do many of its reads. The launcher saw it end. */
static void settle_child(struct stk_pb *pb, const struct stk_jval *run, const struct stk_pb_run *r)
{
    const struct stk_jval *io = stk_json_get(run, "child_io");
    uint32_t child = small_of(run, "child");
    size_t i = child ? pb->p->nprocs : 0;
    while (i > 0 && (pb->p->proc[i - 1].host != r->host || pb->p->proc[i - 1].pid != child ||
                     pb->p->proc[i - 1].ppid != r->pid || pb->proc[i - 1].end != STK_END_NONE))
        i--;
    if (!i || r->seconds < 0 || !io || io->type != STK_JARR || io->len != 4)
        return;
    struct stk_pb_proc *x = &pb->proc[i - 1];
    for (size_t k = 0; k < 4; k++)
        if (io->item[k].type == STK_JINT && io->item[k].i > 0 &&
            (uint64_t)io->item[k].i > x->kernel[k])
            x->kernel[k] = (uint64_t)io->item[k].i;
    x->with_children = true;
    if (small_of(run, "signal"))
        return;
    uint64_t end_ns = r->start_mono_ns + (uint64_t)(r->seconds * 1e9);
    x->end = STK_END_EXIT;
    x->end_ns = end_ns > x->start_mono_ns ? end_ns - x->start_mono_ns : 1;
    pb->p->proc[i - 1].ended = STK_END_EXIT;
}

/* An unobservable program is still a process with known kernel counts: we saw none of its bytes,
 * and the coverage says so. (Others without a log are part of the launcher's count: add_kernel.) */
static int add_program(struct stk_pb *pb, const struct stk_jval *run, const struct stk_pb_run *r,
                       struct stk_err *err)
{
    static const char *const counts[4] = {"rchar", "wchar", "read_bytes", "write_bytes"};
    const struct stk_jval *seen = unseen_program(run);
    uint32_t pid = small_of(run, "child"), proc;
    const char *log = "";
    if (!seen) {
        settle_child(pb, run, r);
        return 0;
    }
    int rc = stk_pb_proc(pb, &proc, err);
    if (rc)
        return rc;
    struct stk_prof_proc *p = &pb->p->proc[proc];
    struct stk_pb_proc *x = &pb->proc[proc];
    const struct stk_pb_proc *before = before_exec(pb, r->host, pid, &log);
    *p = (struct stk_prof_proc){.pid = pid,
                                .ppid = r->pid,
                                .parent = -1,
                                .host = r->host,
                                .born = before ? STK_BORN_EXEC : STK_BORN_START,
                                .exe = text_of(pb, run, "program"),
                                .command = command_of(pb, run),
                                .cwd = text_of(pb, run, "cwd"),
                                .log = "",
                                .ended = small_of(run, "signal") ? STK_END_NONE : STK_END_EXIT};
    uint64_t passed = before ? before->end_ns : 0;
    x->start_real_ns = before ? before->start_real_ns + passed : r->start_real_ns;
    x->start_mono_ns = before ? before->start_mono_ns + passed : r->start_mono_ns;
    x->end = STK_END_EXIT;
    x->with_children = true;
    x->pid_space = small_of(run, "pid_space");
    x->end_ns = r->seconds > 0 ? (uint64_t)(r->seconds * 1e9) : 1;
    x->end_ns -= passed < x->end_ns ? passed : 0;
    x->parent_log = log;
    for (size_t i = 0; i < 4; i++) {
        x->kernel[i] = whole_of(seen, counts[i]);
        x->kernel_start[i] = before ? before->kernel[i] : 0;
    }
    return 0;
}

static void add_run(struct stk_pb *pb, const struct stk_jval *run, struct stk_pb_run *r)
{
    struct stk_profile *p = pb->p;
    const struct stk_jval *seconds = stk_json_get(run, "seconds");
    const struct stk_jval *state = stk_json_get(run, "state");
    r->pid = small_of(run, "pid");
    r->start_real_ns = whole_of(run, "start_real_ns");
    r->start_mono_ns = whole_of(run, "start_mono_ns");
    r->seconds = -1;
    if (seconds && (seconds->type == STK_JFLOAT || seconds->type == STK_JINT) && seconds->f >= 0 &&
        seconds->f < 1e10)
        r->seconds = seconds->f;
    if (is_text(state) && strcmp(state->str, "running") == 0)
        pb->p->running = true;
    p->stopped_early |= yes(run, "stopped_early");
    p->traced |= yes(stk_json_get(run, "settings"), "trace");
    if (!*p->command)
        p->command = command_of(pb, run);
    if (!*p->job) {
        p->job = text_of(pb, run, "job");
        p->scheduler = stk_scheduler_of(text_of(pb, run, "scheduler"));
    }
    uint32_t world = small_of(run, "world");
    p->nranks = world > p->nranks && world <= STK_PB_MAX_WORLD ? world : p->nranks;
    const struct stk_jval *spool = stk_json_get(run, "spool");
    if (is_text(spool) && spool->len)
        stk_pb_tally(pb, &pb->spooled, spool->str);
    add_unseen(pb, run);
    add_kernel(pb, run);
    add_status(pb, run);
}

/* ---- samples ---- */

enum column {
    AT,
    PROCESSES,
    THREADS,
    CPU,
    IOWAIT,
    RESIDENT,
    CACHE,
    GPU,
    GPU_MEMORY,
    OTHERS,
    NCOLUMNS
};
static const char *const column_names[NCOLUMNS] = {
    "at_s",           "processes",   "threads",  "cpu_cores",        "iowait_cores",
    "resident_bytes", "cache_bytes", "gpu_util", "gpu_memory_bytes", "other_cores"};

#define MAX_FIELDS 64

struct head {
    int column[MAX_FIELDS]; /* index of each field; -1: not one of ours */
    size_t fields;
};

static void read_head(struct head *h, struct stk_csv_row row)
{
    struct stk_csv_cell cell;
    while (h->fields < MAX_FIELDS && stk_csv_next(&row, &cell, NULL) > 0) {
        h->column[h->fields] = -1;
        for (int i = 0; i < NCOLUMNS; i++)
            if (strlen(column_names[i]) == cell.n && memcmp(column_names[i], cell.p, cell.n) == 0)
                h->column[h->fields] = i;
        h->fields++;
    }
}

/* False: not a complete line of numbers. */
static bool read_line(const struct head *h, struct stk_csv_row row, double *v)
{
    struct stk_csv_cell cell;
    size_t field = 0;
    for (int i = 0; i < NCOLUMNS; i++)
        v[i] = -1;
    for (; field < h->fields && stk_csv_next(&row, &cell, NULL) > 0; field++) {
        int column = h->column[field];
        int64_t whole;
        double f = -1;
        if (!cell.n || column < 0)
            continue;
        if (stk_num_parse(cell.p, cell.n, &whole, &f) == STK_NUM_NONE)
            return false;
        v[column] = isfinite(f) ? f : -1;
    }
    return field == h->fields && v[AT] >= 0;
}

static uint64_t whole(double v)
{
    return v > 0 && v < 9e18 ? (uint64_t)v : 0;
}

static int add_readings(struct stk_pb *pb, const char *text, size_t size, uint32_t launcher,
                        uint32_t host, struct stk_err *err)
{
    struct stk_profile *p = pb->p;
    struct head head = {0};
    const char *end = text + size;
    int rc = 0;
    for (const char *at = text; at < end && !rc;) {
        const char *line = memchr(at, '\n', (size_t)(end - at));
        double v[NCOLUMNS];
        if (!line)
            break; /* the last line of a killed launcher may be cut */
        struct stk_csv_row row = {.p = at, .end = line, .delim = ',', .more = true};
        if (at == text) {
            read_head(&head, row);
        } else if (read_line(&head, row, v)) {
            rc = STK_ARRAY_MORE(p->reading, p->nreadings, err);
            if (!rc)
                p->reading[p->nreadings++] = (struct stk_prof_reading){
                    .at_s = v[AT],
                    .launcher = launcher,
                    .host = host,
                    .cpu_cores = v[CPU],
                    .iowait_cores = v[IOWAIT],
                    .other_cores = v[OTHERS],
                    .threads = (uint32_t)(whole(v[THREADS]) & UINT32_MAX),
                    .processes = (uint32_t)(whole(v[PROCESSES]) & UINT32_MAX),
                    .resident_bytes = whole(v[RESIDENT]),
                    .cache_bytes = whole(v[CACHE]),
                    .gpu_util = v[GPU],
                    .gpu_memory_bytes = v[GPU_MEMORY],
                };
        }
        at = line + 1;
    }
    return rc;
}

/* samples.HOST.PID.csv beside run.HOST.PID.json: by its own name, not by the name in that file. */
static int load_readings(struct stk_pb *pb, const char *dir, const char *run_name,
                         uint32_t launcher, uint32_t host, struct stk_err *err)
{
    struct stk_buf path = STK_BUF_INIT, text = STK_BUF_INIT;
    struct stk_err why = {0};
    int rc;
    stk_buf_printf(&path, "%s/samples.%.*s.csv", dir, (int)(strlen(run_name) - strlen("run..json")),
                   run_name + strlen("run."));
    rc = stk_buf_check(&path, &why);
    if (!rc)
        rc = stk_read_file(stk_buf_cstr(&path), MAX_READINGS_BYTES, &text, &why);
    rc = stk_if_there(rc, &why);
    if (rc == 1)
        rc = add_readings(pb, (const char *)text.data, text.len, launcher, host, err);
    else if (rc && err)
        *err = why;
    stk_buf_release(&path);
    stk_buf_release(&text);
    return rc;
}

static int use_run(struct stk_pb *pb, const char *dir, const char *name, const struct stk_jval *run,
                   struct stk_err *err)
{
    struct stk_pb_run r = {0};
    const struct stk_jval *host = stk_json_get(run, "host");
    int rc = stk_pb_host(pb, is_text(host) ? host->str : "", &r.host, err);
    rc = rc ? rc : STK_ARRAY_MORE(pb->run, pb->nruns, err);
    if (rc)
        return rc;
    add_run(pb, run, &r);
    add_host(pb, run, r.host);
    rc = add_own_notes(pb, run, err);
    rc = rc ? rc : add_program(pb, run, &r, err);
    rc = rc ? rc : load_readings(pb, dir, name, (uint32_t)pb->nruns, r.host, err);
    pb->run[pb->nruns++] = r;
    return rc;
}

int stk_pb_run(struct stk_pb *pb, const char *dir, const char *name, struct stk_err *err)
{
    struct stk_buf text = STK_BUF_INIT;
    struct stk_arena arena = STK_ARENA_INIT;
    struct stk_jval *run;
    struct stk_err why = {0};
    char *path = stk_path_join(dir, name);
    if (!path)
        return stk_err_nomem(err, strlen(dir));
    int rc = stk_read_file(path, MAX_RUN_BYTES, &text, &why);
    rc = rc ? rc : stk_json_parse(&arena, (const char *)text.data, text.len, &run, &why);
    if (!rc && run->type != STK_JOBJ)
        rc = stk_err_set(&why, STK_E_CORRUPT, path, -1, "not a JSON object");
    if (rc) {
        char what[300 + sizeof why.what];
        snprintf(what, sizeof what, "%.250s: %s", name, why.what);
        stk_pb_tally(pb, &pb->bad_run, what);
        rc = 0;
    } else {
        rc = use_run(pb, dir, name, run, err);
    }
    stk_arena_release(&arena);
    stk_buf_release(&text);
    free(path);
    return rc;
}
