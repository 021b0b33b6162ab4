/* doctor_json.c - the survey of a node for programs. */
#include <errno.h>

#include "report/doctor.h"
#include "report/stage_plan.h"

static void put_speed_json(const struct stk_survey_fs *fs, struct stk_jw *w)
{
    const struct stk_measured *m = &fs->speed;
    const struct {
        const char *name;
        double v;
    } rate[] = {{"read_Bps", m->large_Bps},
                {"small_files_Bps", m->small_Bps},
                {"write_Bps", m->storage.write_Bps},
                {"creates_per_s", m->creates_per_s},
                {"opens_per_s", m->opens_per_s},
                {"latency_s", m->storage.latency_s}};
    stk_jw_key(w, "speed");
    if (!fs->measured) {
        stk_jw_null(w);
        return;
    }
    stk_jw_open(w, '{');
    for (size_t i = 0; i < sizeof rate / sizeof *rate; i++)
        stk_jw_put_known_f64(w, rate[i].name, rate[i].v > 0 ? rate[i].v : -1);
    stk_jw_put_str(w, "reads_by", m->way[0] ? m->way : NULL);
    stk_jw_put_u64(w, "written_bytes", m->written_bytes);
    stk_jw_put_u64(w, "read_bytes", m->read_bytes);
    stk_jw_put_f64(w, "seconds", m->seconds);
    stk_jw_put_str(w, "left_behind", m->left[0] ? m->left : NULL);
    stk_jw_close(w, '}');
}

static void put_fs_json(const struct stk_survey_fs *fs, struct stk_jw *w)
{
    stk_jw_open(w, '{');
    stk_jw_put_str(w, "path", fs->path);
    stk_jw_put_str(w, "holds", fs->names);
    stk_jw_put_bool(w, "argument", fs->asked);
    stk_jw_put_bool(w, "answers", fs->facts.error != ETIMEDOUT);
    stk_fs_facts_json(&fs->facts, w);
    put_speed_json(fs, w);
    stk_jw_put_str(w, "note", fs->note[0] ? fs->note : NULL);
    stk_jw_close(w, '}');
}

static void put_node_json(const struct stk_survey *s, struct stk_jw *w)
{
    stk_jw_key(w, "node");
    stk_jw_open(w, '{');
    stk_jw_put_str(w, "host", s->host);
    stk_jw_put_str(w, "kernel", s->kernel);
    stk_jw_put_u64(w, "cpus", s->cpus);
    stk_jw_put_u64(w, "machine_cpus", s->machine_cpus);
    stk_jw_put_f64(w, "cgroup_cpus", s->quota_cpus);
    stk_jw_put_u64(w, "memory_limit_bytes", s->memory_limit_bytes);
    stk_jw_put_u64(w, "memory_free_bytes", s->memory_free_bytes);
    stk_jw_put_bool(w, "memory_limited_by_cgroup", s->memory_limited);
    stk_jw_put_u64(w, "gpus", s->gpus.count);
    stk_jw_put_str(w, "gpu_kind", s->gpus.kind[0] ? s->gpus.kind : NULL);
    stk_jw_put_bool(w, "io_uring", !s->uring.code);
    stk_jw_put_str(w, "io_uring_why_not", s->uring.code ? s->uring.what : NULL);
    stk_jw_put_bool(w, "slurm", s->slurm);
    stk_jw_put_str(w, "slurm_version", s->slurm_version[0] ? s->slurm_version : NULL);
    stk_jw_put_str(w, "scheduler", stk_scheduler_name(s->scheduler));
    stk_jw_put_str(w, "job", s->job[0] ? s->job : NULL);
    stk_jw_close(w, '}');
}

static void put_mpi_json(const struct stk_survey *s, struct stk_jw *w)
{
    stk_jw_key(w, "mpi");
    stk_jw_open(w, '[');
    for (size_t i = 0; i < s->mpi.n; i++) {
        const struct stk_comm_module *m = &s->mpi.module[i];
        stk_jw_open(w, '{');
        stk_jw_put_str(w, "name", m->name);
        stk_jw_put_str(w, "path", m->path);
        stk_jw_put_str(w, "library", m->library[0] ? m->library : NULL);
        stk_jw_put_str(w, "problem", m->problem[0] ? m->problem : NULL);
        stk_jw_put_bool(w, "used", m->chosen);
        stk_jw_close(w, '}');
    }
    stk_jw_close(w, ']');
}

static void put_tiers_json(const struct stk_survey *s, struct stk_jw *w)
{
    stk_jw_key(w, "tiers");
    stk_jw_open(w, '[');
    for (size_t i = 0; i < s->tiers.n; i++) {
        const struct stk_survey_tier *t = &s->tiers.tier[i];
        stk_jw_open(w, '{');
        stk_jw_put_str(w, "path", t->path);
        stk_jw_put_u64(w, "copies", t->sets);
        stk_jw_put_u64(w, "complete", t->complete);
        stk_jw_put_u64(w, "bytes", t->bytes);
        stk_jw_put_known_i64(w, "limit_bytes", t->limit_bytes ? (int64_t)t->limit_bytes : -1);
        stk_jw_put_known_i64(w, "age_s", t->age_s ? (int64_t)t->age_s : -1);
        stk_jw_put_bool(w, "memory", t->memory);
        stk_jw_put_str(w, "problem", t->problem[0] ? t->problem : NULL);
        stk_jw_close(w, '}');
    }
    stk_jw_close(w, ']');
}

static void put_lacks_json(const struct stk_survey *s, struct stk_jw *w)
{
    struct stk_survey_lack lack[STK_SURVEY_LACKS];
    size_t n = stk_survey_lacks(s, lack);
    stk_jw_key(w, "missing");
    stk_jw_open(w, '[');
    for (size_t i = 0; i < n; i++) {
        stk_jw_open(w, '{');
        stk_jw_put_str(w, "what", lack[i].what);
        stk_jw_put_str(w, "gives", lack[i].gives);
        stk_jw_close(w, '}');
    }
    stk_jw_close(w, ']');
}

void stk_doctor_json(const struct stk_doctor *d, struct stk_jw *w)
{
    const struct stk_survey *s = d->survey;
    stk_jw_put_bool(w, "quick", s->quick);
    stk_jw_put_f64(w, "measured_s", s->measured_s);
    stk_jw_put_u64(w, "written_bytes", s->written_bytes);
    stk_jw_key(w, "file_systems");
    stk_jw_open(w, '[');
    for (size_t i = 0; i < s->nfs; i++)
        put_fs_json(&s->fs[i], w);
    stk_jw_close(w, ']');
    stk_targets_json(&s->targets, w);
    put_node_json(s, w);
    put_mpi_json(s, w);
    put_tiers_json(s, w);
    stk_version_json(d->build, w);
    put_lacks_json(s, w);
}
