/* doctor.c - the result of `stoker doctor`: a node, its file systems and their speed, what it lacks. */
#include "report/node.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/helper.h"
#include "base/text.h"
#include "base/units.h"
#include "report/stage.h"
#include "result/blocks.h"
#include "result/screen.h"

static double positive(double v)
{
    return v > 0 ? v : NAN;
}

/* ---- the speed of a file system ------------------------------------------------------------- */

#define SPEED(name, expression) STK_NUMBER_OF(name, struct stk_measured, positive(expression))

SPEED(reads, r->large_Bps)
SPEED(small, r->small_Bps)
SPEED(writes, r->storage.write_Bps)
SPEED(creates, r->creates_per_s)
SPEED(opens, r->opens_per_s)
SPEED(latency, r->storage.latency_s)

static const struct stk_result_field speed_fields[] = {
    {"read_Bps", "reads", STK_U_BYTES_PER_S, .number = reads},
    {"small_files_Bps", NULL, STK_U_BYTES_PER_S, .number = small},
    {"write_Bps", "writes", STK_U_BYTES_PER_S, .number = writes},
    {"creates_per_s", "creates", STK_U_PER_S, .number = creates},
    {"opens_per_s", "opens", STK_U_PER_S, .number = opens},
    {"latency_s", "latency", STK_U_SECONDS, .number = latency},
    {"reads_by", "reads by", STK_U_TEXT, STK_FROM_AS(CHARS, struct stk_measured, way),
     "how reads avoided the page cache", STK_F_KNOWN},
    {"written_bytes", NULL, STK_U_BYTES, STK_FROM(struct stk_measured, written_bytes)},
    {"read_bytes", NULL, STK_U_BYTES, STK_FROM(struct stk_measured, read_bytes)},
    {"seconds", NULL, STK_U_SECONDS, STK_FROM(struct stk_measured, seconds)},
    {"left_behind", NULL, STK_U_TEXT, STK_FROM_AS(CHARS, struct stk_measured, left),
     "a folder that could not be removed", STK_F_KNOWN},
    {NULL}};

static void put_speed(const void *base, struct stk_jw *w)
{
    const struct stk_survey_fs *fs = base;
    if (!fs->measured) {
        stk_jw_null(w);
        return;
    }
    stk_jw_open(w, '{');
    stk_fields_put(speed_fields, &fs->speed, w);
    stk_jw_close(w, '}');
}

/* ---- file systems --------------------------------------------------------------------------- */

#define FS_CHARS(member) STK_FROM_AS(CHARS, struct stk_survey_fs, member)

static const char *shown_path(const struct stk_survey_fs *fs)
{
    return fs->asked || !fs->facts.point[0] ? fs->path : fs->facts.point;
}

STK_TEXT_OF(shown, struct stk_survey_fs, shown_path(r))
STK_BOOL_OF(answers, struct stk_survey_fs, r->facts.error != ETIMEDOUT)
STK_TEXT_OF(storage, struct stk_survey_fs,
            r->facts.error == ETIMEDOUT ? "does not answer"
            : r->facts.error            ? "cannot be used"
                                        : stk_reach_name(r->facts.reach))

/* What a row of the table has no column for. */
static void put_remark(const void *base, struct stk_jw *w)
{
    const struct stk_survey_fs *fs = base;
    const struct stk_fs_facts *f = &fs->facts;
    struct stk_buf line = STK_BUF_INIT;
    char a[32];
    if (f->error && f->error != ETIMEDOUT)
        stk_buf_printf(&line, "%s; ", strerror(f->error));
    if (f->stripe.size_bytes && f->stripe.count < 0)
        stk_buf_printf(&line, "stripes of %s on all storage targets; ",
                       stk_format_size(f->stripe.size_bytes, a, sizeof a));
    else if (f->stripe.size_bytes)
        stk_buf_printf(&line, "%lld stripe%s of %s%s; ", (long long)f->stripe.count,
                       f->stripe.count == 1 ? "" : "s",
                       stk_format_size(f->stripe.size_bytes, a, sizeof a),
                       f->stripe.progressive ? ", more for later parts" : "");
    else if (f->stripes)
        stk_buf_puts(&line, "stripes not told; ");
    if (f->free_files != UINT64_MAX && f->free_files < 100000)
        stk_buf_printf(&line, "only %s inodes free; ",
                       stk_format_count(f->free_files, a, sizeof a));
    if (fs->note[0])
        stk_buf_printf(&line, "%s; ", fs->note);
    line.len -= line.len ? 2 : 0;
    stk_jw_str(w, line.len ? stk_buf_cstr(&line) : NULL);
    stk_buf_release(&line);
}

static const struct stk_result_field fs_fields[] = {
    {"shown", "path", STK_U_TEXT, .put = shown, .flags = STK_F_CUT,
     .meaning = "an argument, or where the file system is mounted"},
    {"path", NULL, STK_U_TEXT, FS_CHARS(path)},
    {"holds", "holds", STK_U_TEXT, FS_CHARS(names), .flags = STK_F_CUT_END},
    {"argument", NULL, STK_U_FLAG, STK_FROM(struct stk_survey_fs, asked)},
    {"answers", NULL, STK_U_FLAG, .put = answers},
    {"storage", "storage", STK_U_TEXT, .put = storage},
    {"", NULL, STK_U_GROUP, STK_FROM_AS(STRUCT, struct stk_survey_fs, facts), .of = stk_fs_fields},
    {"speed", NULL, STK_U_GROUP, .put = put_speed, .of = speed_fields, .flags = STK_F_PAGE},
    {"note", NULL, STK_U_TEXT, FS_CHARS(note), .flags = STK_F_KNOWN},
    {"remark", "remark", STK_U_TEXT, .put = put_remark, .flags = STK_F_REMARK},
    {NULL}};

/* The same rows with other columns. */
static const struct stk_result_field speed_columns[] = {
    {"shown", "path", STK_U_TEXT, .flags = STK_F_CUT},
    {"speed", NULL, STK_U_GROUP, .of = speed_fields},
    {NULL}};

static const struct stk_result_plot speed_plot = {
    "speed", "Speed of the file systems", "Measured by a few reads and writes, past the page cache.",
    "path", "", STK_U_PLAIN, STK_SCALE_CATEGORY,
    {{"large requests",
      STK_U_BYTES_PER_S,
      {{"speed.read_Bps", "reads", "bar"}, {"speed.write_Bps", "writes", "bar"}}},
     {"small files",
      STK_U_PER_S,
      {{"speed.opens_per_s", "opened", "bar"}, {"speed.creates_per_s", "made", "bar"}}}}};

static void put_fs(const void *base, struct stk_jw *w)
{
    const struct stk_doctor *d = base;
    stk_rows_put(fs_fields, d->survey->fs, d->survey->nfs, sizeof *d->survey->fs, w);
}

static void put_measured(const void *base, struct stk_jw *w)
{
    const struct stk_doctor *d = base;
    char text[400], a[32], b[32];
    snprintf(text, sizeof text,
             "Measured for %s, %s written and removed. Reads bypass the page cache of this node, "
             "not the caches of disks and servers. Writes are synced; creates (4 KiB each) are not.",
             stk_format_duration(d->survey->measured_s, a, sizeof a),
             stk_format_size(d->survey->written_bytes, b, sizeof b));
    stk_jw_str(w, d->survey->quick ? "Speed was not measured (--quick)." : text);
}

static double fastest(const void *base)
{
    const struct stk_doctor *d = base;
    double most = 0;
    for (size_t i = 0; i < d->survey->nfs; i++)
        if (d->survey->fs[i].measured)
            most = fmax(most, d->survey->fs[i].speed.large_Bps);
    return positive(most);
}

/* ---- the node ------------------------------------------------------------------------------- */

#define NODE(member)            STK_FROM(struct stk_survey, member)
#define NODE_CHARS(member)      STK_FROM_AS(CHARS, struct stk_survey, member)
#define TEXT(name, expression)  STK_TEXT_OF(name, struct stk_survey, expression)

STK_NUMBER_OF(gpu_memory, struct stk_survey, positive((double)r->gpus.total_bytes))
STK_BOOL_OF(uring, struct stk_survey, !r->uring.code)
TEXT(uring_why, r->uring.code ? r->uring.what : NULL)
TEXT(scheduler, stk_scheduler_name(r->scheduler))

static const struct stk_result_field node_fields[] = {
    {"host", "host", STK_U_TEXT, NODE_CHARS(host), .flags = STK_F_PAGE},
    {"kernel", "kernel", STK_U_TEXT, NODE_CHARS(kernel), .flags = STK_F_PAGE},
    {"cpus", "CPUs", STK_U_COUNT, NODE(cpus)},
    {"machine_cpus", "CPUs of the machine", STK_U_COUNT, NODE(machine_cpus),
     .joins = " of % usable"},
    {"cgroup_cpus", "CPUs by a cgroup's quota", STK_U_PLAIN, NODE(quota_cpus),
     .joins = ", by a cgroup's quota of % CPUs"},
    {"memory_free_bytes", "memory, free", STK_U_BYTES, NODE(memory_free_bytes), .row = "memory",
     .say = "% free"},
    {"memory_limit_bytes", "memory", STK_U_BYTES, NODE(memory_limit_bytes), .joins = " of %"},
    {"memory_limited_by_cgroup", "limited by a cgroup", STK_U_FLAG, NODE(memory_limited),
     "files in /dev/shm count, too", .joins = "; limited by a cgroup: %"},
    {"gpus", "GPUs", STK_U_COUNT, NODE(gpus.count), .flags = STK_F_IF_SET, .none = "none found"},
    {"gpu_kind", "GPU", STK_U_TEXT, NODE_CHARS(gpus.kind), .flags = STK_F_KNOWN, .joins = " x %"},
    {"gpu_memory_bytes", "memory of a GPU", STK_U_BYTES, .number = gpu_memory, .joins = ", %"},
    {"io_uring", "io_uring", STK_U_FLAG, .put = uring},
    {"io_uring_why_not", "no io_uring", STK_U_TEXT, .put = uring_why, .joins = ": %"},
    {"slurm", "Slurm in PATH", STK_U_FLAG, NODE(slurm)},
    {"slurm_version", "Slurm", STK_U_TEXT, NODE_CHARS(slurm_version), .flags = STK_F_KNOWN,
     .joins = ", %"},
    {"job", "job", STK_U_TEXT, NODE_CHARS(job), .flags = STK_F_KNOWN, .none = "this is not one"},
    {"scheduler", "scheduler", STK_U_TEXT, .put = scheduler, .joins = ", of %"},
    {NULL}};

#define MODULE_CHARS(member) STK_FROM_AS(CHARS, struct stk_comm_module, member)

static const struct stk_result_field mpi_fields[] = {
    {"name", "MPI", STK_U_TEXT, MODULE_CHARS(name)},
    {"library", "library", STK_U_TEXT, MODULE_CHARS(library), .flags = STK_F_KNOWN | STK_F_CUT_END},
    {"path", "module", STK_U_TEXT, MODULE_CHARS(path), .flags = STK_F_PAGE},
    {"used", "used here", STK_U_FLAG, STK_FROM(struct stk_comm_module, chosen),
     "`stoker stage` uses it here"},
    {"problem", "problem", STK_U_TEXT, MODULE_CHARS(problem), .flags = STK_F_KNOWN | STK_F_REMARK},
    {NULL}};

#define TIER(member) STK_FROM(struct stk_survey_tier, member)

STK_NUMBER_OF(limit, struct stk_survey_tier, positive((double)r->limit_bytes))
STK_NUMBER_OF(age, struct stk_survey_tier, positive((double)r->age_s))

static const struct stk_result_field tier_fields[] = {
    {"path", "folder", STK_U_TEXT, STK_FROM_AS(CHARS, struct stk_survey_tier, path),
     .flags = STK_F_CUT},
    {"copies", "copies", STK_U_COUNT, TIER(sets)},
    {"complete", "complete", STK_U_COUNT, TIER(complete)},
    {"bytes", "bytes", STK_U_BYTES, TIER(bytes)},
    {"limit_bytes", "limit", STK_U_BYTES, .number = limit},
    {"age_s", "oldest use", STK_U_SECONDS, .number = age, .flags = STK_F_PAGE},
    {"memory", "memory", STK_U_FLAG, TIER(memory)},
    {"problem", "problem", STK_U_TEXT, STK_FROM_AS(CHARS, struct stk_survey_tier, problem),
     "why it is not used", STK_F_KNOWN | STK_F_REMARK},
    {NULL}};

static void put_mpi(const void *base, struct stk_jw *w)
{
    const struct stk_survey *s = base;
    stk_rows_put(mpi_fields, s->mpi.module, s->mpi.n, sizeof *s->mpi.module, w);
}

static void put_tiers(const void *base, struct stk_jw *w)
{
    const struct stk_survey *s = base;
    stk_rows_put(tier_fields, s->tiers.tier, s->tiers.n, sizeof *s->tiers.tier, w);
}

TEXT(mpi_note, r->mpi.stalled ? "not known: a folder does not answer" : r->mpi.n ? NULL : "no module")
TEXT(tiers_note, r->tiers.stalled ? "not known: a folder does not answer" : r->tiers.n ? NULL : "none")

/* ---- what is built in, and what is missing -------------------------------------------------- */

static void put_built(const struct stk_build *b, bool in, struct stk_jw *w)
{
    stk_jw_open(w, '[');
    for (size_t i = 0; i < b->nparts; i++)
        if (!b->part[i].missing == in)
            stk_jw_str(w, b->part[i].name);
    stk_jw_close(w, ']');
}

static void put_built_in(const void *base, struct stk_jw *w)
{
    put_built(((const struct stk_doctor *)base)->build, true, w);
}

static void put_not_built(const void *base, struct stk_jw *w)
{
    put_built(((const struct stk_doctor *)base)->build, false, w);
}

static void put_lack(const char *what, const char *gives, struct stk_jw *w)
{
    stk_jw_open(w, '{');
    stk_jw_put_str(w, "what", what);
    stk_jw_put_str(w, "gives", gives);
    stk_jw_close(w, '}');
}

static void put_lacks(const void *base, struct stk_jw *w)
{
    const struct stk_doctor *d = base;
    struct stk_survey_lack lack[STK_SURVEY_LACKS];
    size_t n = stk_survey_lacks(d->survey, lack);
    stk_jw_open(w, '[');
    for (size_t i = 0; i < n; i++)
        put_lack(lack[i].what, lack[i].gives, w);
    for (size_t i = 0; i < d->build->nparts; i++) {
        const struct stk_build_part *p = &d->build->part[i];
        char gives[120];
        snprintf(gives, sizeof gives, "build stoker with %s", p->missing ? p->missing : "");
        if (p->missing && !p->surveyed)
            put_lack(p->name, gives, w);
    }
    if (!(d->build->locks & STK_CONFINED_CALLS) || !(d->build->locks & STK_CONFINED_FILES))
        put_lack("seccomp or Landlock", "libraries that read untrusted files are confined less "
                                        "(`stoker version` lists it)", w);
    stk_jw_close(w, ']');
}

static const struct stk_result_field lack_fields[] = {
    {"what", "missing", STK_U_TEXT},
    {"gives", "what it would give", STK_U_TEXT, .flags = STK_F_WRAP},
    {NULL}};

static void put_version(const void *base, struct stk_jw *w)
{
    (void)base;
    stk_jw_str(w, stk_version());
}

/* ---- the result ----------------------------------------------------------------------------- */

static bool has_speed(const struct stk_jval *file_system)
{
    const struct stk_jval *speed = stk_json_get(file_system, "speed");
    return speed && speed->type == STK_JOBJ;
}

static const struct stk_result_field survey_fields[] = {
    {"quick", NULL, STK_U_FLAG, NODE(quick), "nothing was measured"},
    {"measured_s", "measured for", STK_U_SECONDS, NODE(measured_s), .flags = STK_F_PAGE},
    {"written_bytes", NULL, STK_U_BYTES, NODE(written_bytes)},
    {"", NULL, STK_U_GROUP, STK_FROM_AS(STRUCT, struct stk_survey, targets),
     .of = stk_target_fields},
    {"node", "node", STK_U_GROUP, .of = node_fields, .flags = STK_F_NAMED},
    {"mpi", "MPI", STK_U_TABLE, .put = put_mpi, .of = mpi_fields,
     .flags = STK_F_NAMED},
    {"mpi_note", "MPI", STK_U_TEXT, .put = mpi_note},
    {"tiers", "copies on this node", STK_U_TABLE, .put = put_tiers, .of = tier_fields,
     .flags = STK_F_NAMED},
    {"tiers_note", "tiers", STK_U_TEXT, .put = tiers_note},
    {NULL}};

STK_TEXT_OF(host, struct stk_doctor, r->survey->host[0] ? r->survey->host : "this node")
STK_TEXT_OF(kernel, struct stk_doctor, r->survey->kernel[0] ? r->survey->kernel : "kernel not known")

static const struct stk_result_field fields[] = {
    {"host", NULL, STK_U_TEXT, .put = host, .flags = STK_F_HEAD},
    {"kernel", NULL, STK_U_TEXT, .put = kernel, .flags = STK_F_HEAD},
    {"version", NULL, STK_U_TEXT, .put = put_version, .flags = STK_F_HEAD, .say = "stoker %"},
    {"file_systems", "file systems", STK_U_TABLE, .put = put_fs, .of = fs_fields,
     .flags = STK_F_NAMED, .plot = &speed_plot},
    {"file_systems", "speed", STK_U_TABLE, .of = speed_columns, .which = has_speed,
     .flags = STK_F_NAMED | STK_F_VIEW},
    {"fastest_Bps", "read from the fastest file system that was measured", STK_U_BYTES_PER_S,
     .number = fastest, .flags = STK_F_LEAD | STK_F_PAGE},
    {"measured_note", NULL, STK_U_PROSE, .put = put_measured, .flags = STK_F_SCREEN},
    {"", NULL, STK_U_GROUP, STK_FROM_AS(POINTER, struct stk_doctor, survey), .of = survey_fields},
    {"built_in", "built in", STK_U_LIST, .put = put_built_in, .flags = STK_F_IF_SET},
    {"not_built", "left out", STK_U_LIST, .put = put_not_built, .flags = STK_F_IF_SET},
    {"parts", NULL, STK_U_TABLE, STK_FROM_AS(POINTER, struct stk_doctor, build), .put = stk_put_parts,
     .of = stk_part_fields},
    {"confined_by", NULL, STK_U_GROUP, STK_FROM_AS(POINTER, struct stk_doctor, build),
     .of = stk_lock_fields},
    {"missing", "missing, and what it would give", STK_U_TABLE, .put = put_lacks,
     .of = lack_fields, .flags = STK_F_NAMED, .none = "nothing", .meaning = "What this node or this build lacks."},
    {NULL}};

static void verdict(const struct stk_jval *r, struct stk_buf *out)
{
    stk_buf_printf(out, "Copies go to %s: %s.", stk_pg_text(r, "target.path", "no folder"),
                   stk_pg_text(r, "target.reason", "none fits"));
}

const struct stk_result_kind stk_doctor_kind = {.command = "doctor",
                                                .doing = "The node",
                                                .subject = SIZE_MAX,
                                                .fields = fields,
                                                .verdict = verdict,
                                                .fits = true};
