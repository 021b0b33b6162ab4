/*
 * notes.c - sentences about what a profile cannot show: an incomplete number misleads
 * unless a note beside it says so. Each note says how much is missing, with an example.
 */
#include "profile/priv.h"

#include "base/units.h"

struct totals {
    uint64_t dropped, dropped_trace, rings, ring_procs, aio, aio_procs, killed, maps, stopped[3];
    uint64_t faults;
    uint64_t missed, missed_procs, missed_most; /* bytes read, of processes with a log */
    uint64_t procs, kernel;                     /* processes that the kernel counted, their bytes */
    const char *killed_name, *ring_name, *missed_name, *sandbox_name;
};

static const char *plural(uint64_t n)
{
    return n == 1 ? "" : "s";
}

static const char *count(uint64_t n)
{
    static _Thread_local char text[4][40];
    static _Thread_local unsigned next;
    return stk_format_count(n, text[next++ % 4], sizeof text[0]);
}

static const char *size(uint64_t n)
{
    static _Thread_local char text[4][40];
    static _Thread_local unsigned next;
    return stk_format_size(n, text[next++ % 4], sizeof text[0]);
}

static uint64_t add(uint64_t a, uint64_t b)
{
    uint64_t s;
    return __builtin_add_overflow(a, b, &s) ? UINT64_MAX : s;
}

/* The C library reads some KiB itself: that is not worth a note. */
#define MISSED_BYTES (1u << 20)
#define MISSED_SHARE 20 /* a twentieth */
#define START_BYTES  65536u /* of a process, before its own count begins */

static void missed(const struct stk_prof_proc *c, struct totals *t)
{
    uint64_t kernel = c->kernel_read_bytes, seen = c->seen_read_bytes;
    if (!*c->log || c->blind || kernel <= seen || kernel - seen < MISSED_BYTES ||
        (kernel - seen) < kernel / MISSED_SHARE)
        return;
    if (kernel - seen > t->missed_most) {
        t->missed_most = kernel - seen;
        t->missed_name = c->command;
    }
    t->missed = add(t->missed, kernel - seen);
    t->missed_procs++;
}

/* Bytes that the launchers counted and no process of the profile has: 0 if they may be those that
 * the C library reads at the start of each. */
static uint64_t of_others(const struct stk_profile *p, const struct totals *t)
{
    uint64_t starts = (t->procs + 1) * START_BYTES, all = p->kernel_read_bytes;
    uint64_t rest = all > starts && all - starts > t->kernel ? all - t->kernel : 0;
    return rest >= MISSED_BYTES && rest >= all / MISSED_SHARE ? rest : 0;
}

static void total(const struct stk_pb *pb, struct totals *t)
{
    const struct stk_profile *p = pb->p;
    *t = (struct totals){.killed_name = "", .ring_name = "", .missed_name = "", .sandbox_name = ""};
    for (size_t i = 0; i < p->nprocs; i++) {
        const struct stk_prof_proc *c = &p->proc[i];
        t->procs += c->kernel_read_bytes || c->kernel_write_bytes;
        t->kernel = add(t->kernel, c->kernel_read_bytes);
        t->dropped = add(t->dropped, c->dropped_calls);
        t->dropped_trace = add(t->dropped_trace, c->dropped_trace);
        bool aio = c->blind && c->kernel_aio_calls;
        t->aio = add(t->aio, aio ? c->kernel_aio_calls : 0);
        t->aio_procs += aio;
        t->faults = add(t->faults, c->major_faults);
        if (c->uring_rings && !c->told_read_bytes) {
            t->ring_name = t->ring_procs ? t->ring_name : c->command;
            t->rings = add(t->rings, c->uring_rings);
            t->ring_procs++;
        }
        uint32_t stopped = pb->proc[i].stopped;
        if (stopped == STK_STOP_SANDBOX && !t->stopped[stopped])
            t->sandbox_name = c->command;
        if (stopped && stopped <= STK_STOP_SANDBOX)
            t->stopped[stopped]++;
        else
            missed(c, t);
        if (*c->log && pb->proc[i].end == STK_END_NONE) {
            t->killed_name = t->killed ? t->killed_name : c->command;
            t->killed++;
        }
    }
    for (size_t i = 0; i < p->nrecs; i++)
        if (p->rec[i].api == STK_API_POSIX)
            t->maps = add(t->maps, p->rec[i].n.c[STK_C_MMAPS]);
}

static int of_calls(struct stk_pb *pb, const struct totals *t, struct stk_err *err)
{
    int rc = 0;
    if (t->rings)
        rc = stk_pb_note(pb, err,
                         "%s process%s used io_uring (%s ring%s; first: %.200s): reads through it "
                         "are not seen, unless the library reports them.",
                         count(t->ring_procs), t->ring_procs == 1 ? "" : "es", count(t->rings),
                         plural(t->rings), t->ring_name);
    if (!rc && t->aio)
        rc = stk_pb_note(pb, err,
                         "%s call%s of io_submit (kernel aio) in %s process%s whose results were "
                         "fetched unseen: their data is not counted.",
                         count(t->aio), plural(t->aio), count(t->aio_procs),
                         t->aio_procs == 1 ? "" : "es");
    if (!rc && t->missed)
        rc = stk_pb_note(pb, err,
                         "The kernel counted %s more read by %s process%s than was seen (most: "
                         "%.200s): calls that bypass the C library's names (system calls of its "
                         "own, functions that it looks up with dlsym).",
                         size(t->missed), count(t->missed_procs), t->missed_procs == 1 ? "" : "es",
                         t->missed_name);
    if (!rc && t->maps)
        rc = stk_pb_note(pb, err,
                         "%s file%s (%s) %s mapped into memory, %s time%s: the bytes touched there "
                         "are not counted and not included in any number of bytes read (%s page "
                         "fault%s went to storage).",
                         count(pb->p->mapped_files), plural(pb->p->mapped_files),
                         size(pb->p->mapped_bytes), pb->p->mapped_files == 1 ? "was" : "were",
                         count(t->maps), plural(t->maps), count(t->faults), plural(t->faults));
    if (!rc && t->dropped)
        rc = stk_pb_note(pb, err,
                         "%s call%s could not be recorded: the log had no room (a full disk, a "
                         "directory that is read-only or not visible in a container), or a signal "
                         "handler made them during recording. Counts are too low by that number.",
                         count(t->dropped), plural(t->dropped));
    if (!rc && t->dropped_trace)
        rc = stk_pb_note(pb, err, "%s operation%s are missing in the trace: no room on disk.",
                         count(t->dropped_trace), plural(t->dropped_trace));
    return rc;
}

static int of_processes(struct stk_pb *pb, const struct totals *t, struct stk_err *err)
{
    int rc = 0;
    if (t->killed)
        rc = stk_pb_note(pb, err,
                         "%s process%s not seen to end (first: %.200s): %s; the profile has what "
                         "happened until then.",
                         count(t->killed), t->killed == 1 ? " was" : "es were", t->killed_name,
                         pb->p->running ? "still running when this was read, or killed"
                                        : "killed, or still running");
    if (!rc && pb->unseen.count)
        rc = stk_pb_note(pb, err,
                         "%s process%s left no log (first: %.200s; the kernel counted %s read): "
                         "static or setuid programs, programs for another C library (musl), or "
                         "processes started without LD_PRELOAD or where its path does not exist "
                         "(in a container).",
                         count(pb->unseen.count), pb->unseen.count == 1 ? "" : "es",
                         pb->unseen.first, size(pb->unseen_read_bytes));
    uint64_t others = pb->unseen.count ? 0 : of_others(pb->p, t);
    if (!rc && others)
        rc = stk_pb_note(pb, err,
                         "The kernel counted %s read by processes that left no log: they were too "
                         "short to be sampled, or could not reach the preload library or the folder "
                         "of the logs (static programs, chroot, containers).",
                         size(others));
    if (!rc && !pb->p->nprocs && (pb->p->source->knows & STK_KNOWS_PROCESSES) && !pb->logs)
        rc = stk_pb_note(pb, err,
                         "No process left a log: only the samples show anything about the "
                         "program's I/O.");
    if (!rc && t->stopped[STK_STOP_SANDBOX])
        rc = stk_pb_note(pb, err,
                         "%s process%s forbade itself system calls (seccomp; first: %.200s): "
                         "recording ended there, and what followed is not seen.",
                         count(t->stopped[STK_STOP_SANDBOX]),
                         t->stopped[STK_STOP_SANDBOX] == 1 ? "" : "es", t->sandbox_name);
    bool in_time = t->stopped[STK_STOP_TIME] || !t->stopped[STK_STOP_SANDBOX];
    if (!rc && pb->p->stopped_early && in_time)
        rc = stk_pb_note(pb, err,
                         "Recording was stopped before the program ended (--for): numbers cover "
                         "the time until then.");
    return rc;
}

static int of_files(struct stk_pb *pb, struct stk_err *err)
{
    int rc = 0;
    pb->p->unread_logs = pb->damaged.count + pb->other_version.count;
    if (pb->damaged.count)
        rc = stk_pb_note(pb, err, "%s of %s logs are damaged (first: %.400s).",
                         count(pb->damaged.count), count(pb->logs), pb->damaged.first);
    if (!rc && pb->other_version.count)
        rc = stk_pb_note(pb, err,
                         "%s log%s of another version of stoker and left out (first: %.400s).",
                         count(pb->other_version.count),
                         pb->other_version.count == 1 ? " is" : "s are", pb->other_version.first);
    if (!rc && pb->bad_run.count)
        rc = stk_pb_note(pb, err, "%s run file%s cannot be read (first: %.400s).",
                         count(pb->bad_run.count), plural(pb->bad_run.count), pb->bad_run.first);
    if (!rc && pb->spooled.count)
        rc = stk_pb_note(pb, err,
                         "Logs of %s launcher%s could not be copied into the profile and are in "
                         "%.400s on their node%s.",
                         count(pb->spooled.count), plural(pb->spooled.count), pb->spooled.first,
                         pb->spooled.count == 1 ? "" : " (the first one)");
    if (!rc && pb->bad_rank.count)
        rc = stk_pb_note(pb, err, "The rank of %s process%s is unknown: %.400s.",
                         count(pb->bad_rank.count), pb->bad_rank.count == 1 ? "" : "es",
                         pb->bad_rank.first);
    if (!rc && pb->folded)
        rc = stk_pb_note(pb, err,
                         "The logs hold more records than fit into memory: files of one directory "
                         "and suffix were grouped.");
    return rc;
}

int stk_pb_notes(struct stk_pb *pb, struct stk_err *err)
{
    struct totals t;
    total(pb, &t);
    int rc = of_processes(pb, &t, err);
    rc = rc ? rc : of_calls(pb, &t, err);
    return rc ? rc : of_files(pb, err);
}
