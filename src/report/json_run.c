/*
 * json_run.c - as JSON: what ran and where, its processes and ranks.
 */
#include "report/json_priv.h"

/* ---- who ----------------------------------------------------------------------------------- */

/* Names of the Python packages it loaded; null: unknown. */
static void put_libraries(struct stk_jw *w, uint64_t libraries)
{
    static const char *const names[] = {STK_LIBRARY_NAMES};
    stk_jw_key(w, "libraries");
    if (!(libraries & STK_LIBRARIES_SEEN)) {
        stk_jw_null(w);
        return;
    }
    stk_jw_open(w, '[');
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (libraries & 2ull << i)
            stk_jw_str(w, names[i]);
    stk_jw_close(w, ']');
}

static void put_process(struct stk_jw *w, const struct stk_profile *p,
                        const struct stk_prof_proc *o)
{
    static const char *const born[] = {"start", "fork", "exec"};
    stk_jw_put_u64(w, "pid", o->pid);
    stk_jw_put_u64(w, "ppid", o->ppid);
    stk_jw_put_known_i64(w, "parent", o->parent);
    stk_jw_put_str(w, "born", o->born < 3 ? born[o->born] : NULL);
    stk_jw_put_known_i64(w, "rank", o->world ? (int64_t)o->rank : -1);
    stk_jw_put_u64(w, "world", o->world);
    stk_jw_put_str(w, "host", o->host < p->nhosts ? p->host[o->host].name : NULL);
    stk_jw_put_u64(w, "worker", o->worker);
    stk_jw_put_bool(w, "launch", o->launch);
    stk_jw_put_str(w, "exe", o->exe);
    stk_jw_put_str(w, "command", o->command);
    stk_jw_put_str(w, "cwd", o->cwd);
    stk_jw_put_f64(w, "start_s", o->start_s);
    stk_jw_put_f64(w, "end_s", o->end_s);
    stk_jw_put_str(w, "ended", stk_prof_ended(o));
    stk_jw_put_u64(w, "threads", o->threads);
    stk_jw_put_f64(w, "cpu_s", o->cpu_s);
    stk_jw_put_f64(w, "io_sum_s", o->io_sum_s);
    stk_jw_put_f64(w, "io_union_s", o->io_union_s);
    stk_jw_put_f64(w, "main_io_s", o->main_io_s);
    stk_jw_put_f64(w, "wait_processes_s", o->wait_processes_s);
    stk_jw_put_f64(w, "wait_threads_s", o->wait_threads_s);
    stk_jw_put_u64(w, "read_bytes", o->read_bytes);
    stk_jw_put_u64(w, "write_bytes", o->write_bytes);
    stk_jw_put_u64(w, "seen_read_bytes", o->seen_read_bytes);
    stk_jw_put_u64(w, "seen_write_bytes", o->seen_write_bytes);
    stk_jw_put_u64(w, "kernel_read_bytes", o->kernel_read_bytes);
    stk_jw_put_u64(w, "kernel_write_bytes", o->kernel_write_bytes);
    stk_jw_put_u64(w, "storage_read_bytes", o->storage_read_bytes);
    stk_jw_put_u64(w, "storage_write_bytes", o->storage_write_bytes);
    stk_jw_put_u64(w, "left_out_files", o->left_out_files);
    stk_jw_put_u64(w, "left_out_calls", o->left_out_calls);
    stk_jw_put_u64(w, "left_out_read_bytes", o->left_out_read_bytes);
    stk_jw_put_u64(w, "left_out_ns", o->left_out_ns);
    stk_jw_put_u64(w, "dropped_calls", o->dropped_calls);
    stk_jw_put_u64(w, "dropped_trace", o->dropped_trace);
    stk_jw_put_u64(w, "uring_rings", o->uring_rings);
    stk_jw_put_u64(w, "kernel_aio_calls", o->kernel_aio_calls);
    stk_jw_put_bool(w, "blind", o->blind);
    stk_jw_put_u64(w, "told_read_bytes", o->told_read_bytes);
    stk_jw_put_u64(w, "grouped_files", o->grouped_files);
    stk_jw_put_u64(w, "minor_faults", o->minor_faults);
    stk_jw_put_u64(w, "major_faults", o->major_faults);
    put_libraries(w, o->libraries);
}

void stk_rj_processes(struct stk_jw *w, const struct stk_profile *p)
{
    put_array(w, "processes");
    for (size_t i = 0; i < p->nprocs; i++) {
        bool pretty = open_row(w);
        put_process(w, p, &p->proc[i]);
        close_row(w, pretty);
    }
    stk_jw_close(w, ']');
}

void stk_rj_ranks(struct stk_jw *w, const struct stk_analysis *a)
{
    put_array(w, "ranks");
    for (size_t i = 0; i < a->nranks; i++) {
        const struct stk_rank_use *u = &a->rank[i];
        bool pretty = open_row(w);
        stk_jw_put_known_i64(w, "rank", u->known ? (int64_t)u->rank : -1);
        stk_jw_put_u64(w, "procs", u->procs);
        stk_jw_put_u64(w, "workers", u->workers);
        stk_jw_put_u64(w, "read_bytes", u->read_bytes);
        stk_jw_put_u64(w, "write_bytes", u->write_bytes);
        stk_jw_put_u64(w, "reads", u->reads);
        stk_jw_put_u64(w, "files_read", u->files_read);
        stk_jw_put_f64(w, "io_s", u->io_s);
        stk_jw_put_f64(w, "meta_s", u->meta_s);
        stk_jw_put_f64(w, "run_s", u->run_s);
        stk_jw_put_f64(w, "cpu_s", u->cpu_s);
        close_row(w, pretty);
    }
    stk_jw_close(w, ']');
}

static void put_hosts(struct stk_jw *w, const struct stk_profile *p)
{
    put_array(w, "hosts");
    for (size_t i = 0; i < p->nhosts; i++) {
        const struct stk_prof_host *h = &p->host[i];
        bool pretty = open_row(w);
        stk_jw_put_str(w, "name", h->name);
        stk_jw_put_u64(w, "cores", h->cores);
        stk_jw_put_u64(w, "memory_bytes", h->memory_bytes);
        stk_jw_put_u64(w, "gpus", h->gpus);
        stk_jw_put_str(w, "gpu_kind", h->gpu_kind);
        stk_jw_put_str(w, "local_dir", h->local_dir);
        stk_jw_put_u64(w, "local_free_bytes", h->local_free_bytes);
        close_row(w, pretty);
    }
    stk_jw_close(w, ']');
}

/* ---- the run ------------------------------------------------------------------------------- */

static void put_shares(struct stk_jw *w, const struct stk_analysis *a)
{
    stk_jw_key(w, "coverage");
    bool pretty = open_row(w);
    stk_jw_put_known_f64(w, "read", a->coverage_read);
    stk_jw_put_known_f64(w, "write", a->coverage_write);
    close_row(w, pretty);
    stk_jw_key(w, "io_share");
    pretty = open_row(w);
    stk_jw_put_known_f64(w, "thread", a->io_share_thread);
    stk_jw_put_known_f64(w, "merged", a->io_share_merged);
    stk_jw_put_known_f64(w, "main", a->io_share_main);
    close_row(w, pretty);
}

/* Where the main thread spent its life; null where it cannot be told. */
static void put_loop(struct stk_jw *w, const struct stk_analysis *a)
{
    static const char *const how[] = {
        [STK_LOOP_READS] = "reads",     [STK_LOOP_PIPES] = "pipes", [STK_LOOP_THREADS] = "threads",
        [STK_LOOP_WORKERS] = "workers", [STK_LOOP_MARKS] = "marks",
    };
    const struct stk_loop *l = &a->loop;
    stk_jw_key(w, "main_loop");
    stk_jw_open(w, '{');
    stk_jw_put_str(w, "known_from", how[l->how]);
    stk_jw_put_str(w, "unknown_because", l->why);
    stk_jw_put_u64(w, "processes", l->loops);
    stk_jw_put_u64(w, "workers", l->workers);
    stk_jw_put_f64(w, "run_s", l->run_s);
    stk_jw_put_known_f64(w, "wait_s", l->wait_s);
    stk_jw_put_known_f64(w, "compute_s", l->compute_s);
    stk_jw_put_f64(w, "write_s", l->write_s);
    stk_jw_put_f64(w, "start_s", l->start_s);
    stk_jw_put_f64(w, "library_s", l->library_s);
    stk_jw_close(w, '}');
}

static void put_machine_use(struct stk_jw *w, const struct stk_analysis *a)
{
    stk_jw_key(w, "use");
    stk_jw_open(w, '{');
    stk_jw_put_known_f64(w, "cpu_cores_mean", a->cpu_cores_mean);
    stk_jw_put_known_f64(w, "cpu_cores_max", a->cpu_cores_max);
    stk_jw_put_known_f64(w, "iowait_mean", a->iowait_mean);
    stk_jw_put_known_f64(w, "other_cores_mean", a->other_cores_mean);
    stk_jw_put_u64(w, "peak_resident_bytes", a->peak_resident_bytes);
    stk_jw_put_known_f64(w, "gpu_util_mean", a->gpu_util_mean);
    stk_jw_put_known_f64(w, "gpu_idle_share", a->gpu_idle_share);
    stk_jw_put_u64(w, "cores", a->cores);
    stk_jw_put_u64(w, "memory_bytes", a->memory_bytes);
    stk_jw_put_u64(w, "local_free_bytes", a->local_free_bytes);
    stk_jw_close(w, '}');
}

void stk_rj_profile(struct stk_jw *w, const struct stk_analysis *a)
{
    const struct stk_profile *p = a->p;
    uint64_t threads;
    stk_jw_key(w, "profile");
    stk_jw_open(w, '{');
    stk_jw_put_str(w, "source", p->source->name);
    stk_jw_put_str(w, "path", p->path);
    stk_jw_put_str(w, "command", p->command);
    stk_jw_put_str(w, "job", *p->job ? p->job : NULL);
    stk_jw_put_str(w, "scheduler", stk_scheduler_name(p->scheduler));
    stk_jw_put_f64(w, "start_real_s", p->start_real_s);
    stk_jw_put_f64(w, "run_s", p->run_s);
    stk_jw_put_known_i64(w, "exit_status", p->exit_status);
    stk_jw_put_known_i64(w, "exit_signal", p->exit_signal ? p->exit_signal : -1);
    stk_jw_put_bool(w, "running", p->running);
    stk_jw_put_bool(w, "traced", p->traced);
    stk_jw_put_bool(w, "stopped_early", p->stopped_early);
    stk_jw_put_bool(w, "has_size_zero", p->has_size_zero);
    stk_jw_put_u64(w, "ranks", p->nranks);
    stk_jw_put_u64(w, "processes", stk_profile_processes(p, &threads));
    stk_jw_close(w, '}');
    put_shares(w, a);
    put_loop(w, a);
    put_machine_use(w, a);
    put_hosts(w, p);
}
