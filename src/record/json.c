/* json.c - the run file: what was run, where, and how it ended. See launch.h for the
 * fields. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/secret.h"
#include "host/beacon.h"
#include "host/cpus.h"
#include "host/gpu.h"
#include "host/cgroup.h"
#include "host/scratch.h"
#include "record/priv.h"

#define UNSEEN_MAX 256u
#define URING_MAX  1024u

static void put_texts(struct stk_jw *w, const char *key, const char *const *text)
{
    stk_jw_key(w, key);
    stk_jw_open(w, '[');
    for (; text && *text; text++)
        stk_jw_str(w, *text);
    stk_jw_close(w, ']');
}

static void put_what(const struct stk_launch *l, struct stk_jw *w)
{
    static const char *const linkage[] = {"unknown", "dynamic", "static", "setuid"};
    stk_jw_put_str(w, "kind", "stoker-run");
    stk_jw_put_u64(w, "version", 1);
    stk_jw_put_str(w, "stoker", stk_version());
    stk_jw_put_str(w, "run", l->run_id);
    stk_jw_put_str(w, "state", l->ended ? "ended" : "running");
    struct stk_alive self;
    stk_alive_self(&self);
    snprintf(self.host, sizeof self.host, "%s", l->host);
    stk_jfields_put(stk_alive_fields, &self, w);
    stk_jw_put_known_i64(w, "child", l->child > 0 ? (int64_t)l->child : -1);
    size_t words = 0;
    while (l->o.argv[words])
        words++;
    stk_jw_key(w, "command");
    stk_secret_json_words(w, (const char *const *)l->o.argv, words);
    stk_jw_put_str(w, "program", l->program_path);
    stk_jw_put_str(w, "linkage", linkage[l->program.linkage]);
    stk_jw_put_str(w, "cwd", l->cwd);
}

static void put_times(const struct stk_launch *l, struct stk_jw *w)
{
    double seconds = (double)(l->end_mono_ns - l->start_mono_ns) * 1e-9;
    stk_jw_put_u64(w, "start_real_ns", l->start_real_ns);
    stk_jw_put_u64(w, "start_mono_ns", l->start_mono_ns);
    stk_jw_put_known_i64(w, "end_real_ns", l->ended ? (int64_t)l->end_real_ns : -1);
    stk_jw_put_known_f64(w, "seconds", l->ended ? seconds : -1);
    stk_jw_put_known_i64(w, "exit_status", l->ended ? (int64_t)l->ending.status : -1);
    stk_jw_put_known_i64(w, "signal",
                         l->ended && l->ending.signal ? (int64_t)l->ending.signal : -1);
    stk_jw_put_bool(w, "stopped_early", l->ended && l->o.for_s > 0 && seconds > l->o.for_s);
}

static void put_job(const struct stk_launch *l, struct stk_jw *w)
{
    enum stk_scheduler scheduler;
    const char *job = stk_job_detect(&scheduler);
    stk_jw_put_known_i64(w, "rank", l->ranked ? (int64_t)l->rank.rank : -1);
    stk_jw_put_known_i64(w, "world", l->ranked ? (int64_t)l->rank.world : -1);
    stk_jw_put_str(w, "job", job);
    stk_jw_put_str(w, "scheduler", stk_scheduler_name(scheduler));
    stk_jw_put_str(w, "step", getenv("SLURM_STEP_ID"));
    stk_jw_put_str(w, "launcher", l->rank.from && *l->rank.from ? l->rank.from : NULL);
}

static void put_machine(const struct stk_launch *l, struct stk_jw *w)
{
    char kind[96];
    unsigned gpus = stk_gpus_glance(kind, sizeof kind);
    const struct stk_sampler_totals *t = l->sampler ? stk_sampler_totals(l->sampler) : NULL;
    if (t && t->gpus != UINT_MAX && t->gpus) {
        gpus = t->gpus;
        snprintf(kind, sizeof kind, "%s", t->gpu_kind);
    }
    stk_jw_put_u64(w, "cores", stk_cpus());
    stk_jw_put_u64(w, "memory_bytes", stk_memory_limit());
    stk_jw_put_u64(w, "gpus", gpus);
    stk_jw_put_str(w, "gpu_kind", kind[0] ? kind : NULL);
    stk_jw_put_str(w, "local_dir", l->local_dir);
    stk_jw_put_u64(w, "local_free_bytes", l->local_free_bytes);
}

static void put_settings(const struct stk_launch *l, struct stk_jw *w)
{
    stk_jw_key(w, "settings");
    stk_jw_open(w, '{');
    stk_jw_put_bool(w, "trace", l->o.trace);
    stk_jw_put_known_f64(w, "for_s", l->o.for_s > 0 ? l->o.for_s : -1);
    stk_jw_put_f64(w, "sample_s", l->o.sample_s);
    stk_jw_put_u64(w, "files", l->o.files);
    put_texts(w, "include", l->o.include);
    put_texts(w, "exclude", l->o.exclude);
    stk_jw_close(w, '}');
}

static void put_pids(struct stk_jw *w, const struct stk_tree *t)
{
    unsigned n = 0;
    stk_jw_key(w, "uring_pids");
    stk_jw_open(w, '[');
    for (size_t i = 0; t && i < t->n + t->ngone && n < URING_MAX; i++) {
        const struct stk_proc *p = i < t->n ? &t->p[i] : &t->gone[i - t->n];
        if (p->ours && p->uring && ++n)
            stk_jw_i64(w, p->pid);
    }
    stk_jw_close(w, ']');
}

/* The kernel's counts for the program itself, from waiting for it. */
static void put_child(const struct stk_launch *l, struct stk_jw *w)
{
    const struct stk_tree *t = stk_sampler_tree(l->sampler);
    for (size_t i = t->ngone; i-- > 0;) {
        if (t->gone[i].pid != l->child)
            continue;
        stk_jw_key(w, "child_io");
        stk_jw_open(w, '[');
        for (size_t k = 0; k < STK_IO_COUNTS; k++)
            stk_jw_i64(w, (int64_t)t->gone[i].io[k]);
        stk_jw_close(w, ']');
        return;
    }
}

static int put_unseen(struct stk_launch *l, struct stk_jw *w, struct stk_err *err)
{
    static const char *const name[STK_IO_COUNTS] = {"rchar", "wchar", "read_bytes", "write_bytes"};
    struct stk_unseen *u = NULL;
    size_t n = 0;
    int rc = l->sampler ? stk_launch_unseen(l, &u, &n, err) : 0;
    l->unseen = n;
    stk_jw_key(w, "unseen");
    stk_jw_open(w, '[');
    for (size_t i = 0; i < n && i < UNSEEN_MAX; i++) {
        stk_jw_open(w, '{');
        stk_jw_put_u64(w, "pid", (uint64_t)u[i].pid);
        stk_jw_put_str(w, "command", u[i].command);
        for (size_t k = 0; k < STK_IO_COUNTS; k++)
            stk_jw_put_u64(w, name[k], u[i].io[k]);
        stk_jw_close(w, '}');
    }
    stk_jw_close(w, ']');
    stk_jw_put_u64(w, "unseen_more", n > UNSEEN_MAX ? n - UNSEEN_MAX : 0);
    free(u);
    return rc;
}

static int put_outcome(struct stk_launch *l, struct stk_jw *w, struct stk_err *err)
{
    const struct stk_sampler_totals *t = stk_sampler_totals(l->sampler);
    uint64_t peak = t->peak_resident_bytes > l->max_resident_bytes ? t->peak_resident_bytes
                                                                   : l->max_resident_bytes;
    stk_jw_put_f64(w, "cpu_s", l->cpu_s);
    stk_jw_put_u64(w, "peak_resident_bytes", peak);
    stk_jw_put_u64(w, "peak_threads", t->peak_threads);
    stk_jw_put_u64(w, "peak_processes", t->peak_processes);
    put_pids(w, stk_sampler_tree(l->sampler));
    put_child(l, w);
    int rc = put_unseen(l, w, err);
    stk_jw_put_u64(w, "logs", l->logs_found);
    stk_jw_put_str(w, "spool", l->spool_left);
    return rc;
}

int stk_launch_write_run(struct stk_launch *l, struct stk_err *err)
{
    struct stk_buf b = STK_BUF_INIT;
    struct stk_jw w;
    int rc = 0;
    stk_jw_init(&w, &b, true);
    stk_jw_open(&w, '{');
    put_what(l, &w);
    put_times(l, &w);
    put_job(l, &w);
    put_machine(l, &w);
    put_settings(l, &w);
    stk_jw_put_str(&w, "samples", l->o.sample_s > 0 ? l->readings_name : NULL);
    if (l->ended && l->sampler)
        rc = put_outcome(l, &w, err);
    stk_jw_key(&w, "notes");
    stk_jw_open(&w, '[');
    for (size_t i = 0; i < l->nnotes; i++)
        stk_jw_str(&w, l->note[i]);
    stk_jw_close(&w, ']');
    stk_jw_close(&w, '}');
    stk_buf_putc(&b, '\n');
    rc = rc ? rc : stk_buf_check(&b, err);
    if (!rc)
        rc = stk_folder_write(&l->folder, l->run_name, b.data, b.len, err);
    stk_buf_release(&b);
    return rc;
}
