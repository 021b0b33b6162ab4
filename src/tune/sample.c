/*
 * sample.c - data that is larger than the space for copies: a part of it is copied into the folder
 * of the call, and that part is tuned, as it is and with each change. What is shown of it is
 * multiplied by the size of the whole.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/units.h"
#include "tune/files.h"
#include "tune/priv.h"

#define SAMPLE   "sample"
#define COPIES   4u          /* as large as the sample that the space should take, with itself */
#define PER_FILE 4096u       /* bytes that a file takes besides its data, at most */
#define LEAST    8u          /* files: fewer represent nothing */
#define BLOCK    (1u << 20)

/* ---- one file ------------------------------------------------------------------------------- */

static int copy_bytes(int from, int to, void *buf, const char *path, struct stk_err *err)
{
    for (uint64_t at = 0;;) {
        size_t got;
        int rc = stk_pread_full(from, buf, BLOCK, at, &got, path, err);
        if (rc || !got)
            return rc;
        rc = stk_pwrite_full(to, buf, got, at, path, err);
        if (rc)
            return rc;
        at += got;
    }
}

static int copy_file(const struct stk_tuner *t, const char *to, const char *name, void *buf,
                     struct stk_err *err)
{
    int dirfd = -1, in = -1, out = -1;
    char *from = stk_path_join(t->s.source, name);
    int rc = from ? stk_mkdirs_below(to, name, &dirfd, err) : stk_err_nomem(err, 4096);
    if (!rc && (in = open(from, O_RDONLY | O_CLOEXEC)) < 0)
        rc = stk_err_sys(err, from, "open");
    if (!rc && (out = stk_create_at(dirfd, stk_base_name(name), STK_PRIVATE)) < 0)
        rc = stk_err_sys(err, name, "create");
    rc = rc ? rc : copy_bytes(in, out, buf, from, err);
    const int opened[] = {dirfd, in, out};
    for (size_t i = 0; i < 3; i++)
        if (opened[i] >= 0)
            close(opened[i]);
    free(from);
    return rc;
}

static int copy_all(struct stk_tuner *t, const struct stk_tune_files *f, const char *to,
                    struct stk_err *err)
{
    void *buf = malloc(BLOCK);
    int rc = buf ? stk_mkdirs(to, err) : stk_err_nomem(err, BLOCK);
    for (size_t i = 0; i < f->n && !rc; i++)
        rc = stk_tuner_doing(t, "copying a sample: %zu of %zu files", i + 1, f->n)
                 ? stk_err_set(err, STK_E_STOPPED, NULL, -1, "stopped")
                 : copy_file(t, to, f->file[i].name, buf, err);
    free(buf);
    return rc;
}

/* ---- which ---------------------------------------------------------------------------------- */

/* The most that copies may take beside the data. */
static uint64_t space_of(const struct stk_tuner *t)
{
    uint64_t limit = t->plan->space_bytes ? t->plan->space_bytes : UINT64_MAX;
    uint64_t room = stk_tune_free_bytes(t->work.path);
    return room < limit ? room : limit;
}

/* Data that stoker generated can be generated smaller. */
static bool can_be_sampled(const struct stk_tuner *t)
{
    const struct stk_tune_subject *s = &t->s;
    return s->source && s->w.ngroups && !t->plan->data;
}

static size_t files_for(const struct stk_tune_files *f, uint64_t space)
{
    double each = (double)f->bytes / (double)f->n + PER_FILE;
    return (size_t)((double)space / COPIES / each);
}

/* A replay needs more than one step of all ranks. */
static size_t least_files(const struct stk_tune_subject *s)
{
    uint64_t samples = s->w.training.batch * s->ranks + 1, each = s->w.dataset.samples_per_file;
    uint64_t files = each ? (samples + each - 1) / each : samples;
    return files > LEAST ? (size_t)files : LEAST;
}

/* The sample is the dataset of the workload then: through its keys, so that every run, the model and
 * a resume see it. */
static int take(struct stk_tuner *t, const struct stk_tune_files *f, const char *path,
                struct stk_err *err)
{
    struct stk_tune_subject *s = &t->s;
    const char *keys[] = {stk_tune_text(t, "files.1.path=%s", path),
                          stk_tune_text(t, "files.1.count=%zu", f->n),
                          stk_tune_text(t, "dataset.files=%zu", f->n)};
    struct stk_tune_whole whole = {.source = s->source, .files = s->files, .bytes = s->bytes};
    int rc = 0;
    for (size_t i = 0; i < sizeof keys / sizeof *keys && !rc; i++)
        rc = keys[i] ? stk_workload_set(&s->w, keys[i], err) : stk_err_nomem(err, 4096);
    rc = rc ? rc : stk_workload_settle(&s->w, err);
    rc = rc ? rc : stk_tune_find_data(t, err);
    s->whole = whole;
    return rc;
}

int stk_tune_sample(struct stk_tuner *t, struct stk_err *err)
{
    struct stk_tune_files f = {0};
    uint64_t space = space_of(t);
    if (!can_be_sampled(t) || t->s.whole.bytes || t->s.bytes + t->s.files * PER_FILE <= space)
        return 0;
    const char *path = stk_tune_text(t, "%s/" SAMPLE, t->work.path);
    int rc = path ? stk_tune_files_list(t->s.source, t->s.w.group[0].match, &f, err)
                  : stk_err_nomem(err, 4096);
    size_t keep = !rc && f.n ? files_for(&f, space) : 0;
    if (!rc && keep >= least_files(&t->s)) {
        stk_tune_files_thin(&f, keep, t->plan->seed);
        rc = stk_remove_tree(path, err); /* of a call that was killed */
        rc = rc ? rc : copy_all(t, &f, path, err);
        rc = rc ? rc : take(t, &f, path, err);
    }
    stk_tune_files_release(&f);
    return rc;
}

/* ---- what it says about the whole ------------------------------------------------------------ */

static void enlarge(struct stk_tune_candidate *c, double times)
{
    c->epoch_s *= times;
    c->epoch_ci = (struct stk_interval){c->epoch_ci.lo * times, c->epoch_ci.hi * times};
    c->predicted_s *= times;
    c->once_s *= times;
    c->disk_bytes = (uint64_t)((double)c->disk_bytes * times);
}

void stk_tune_extrapolate(struct stk_tuner *t)
{
    const struct stk_tune_whole *w = &t->s.whole;
    struct stk_tune *out = t->out;
    char part[32], all[32];
    if (!w->bytes || !t->s.bytes)
        return;
    double times = (double)w->bytes / (double)t->s.bytes;
    for (size_t i = 0; i < out->n; i++)
        enlarge(&out->candidate[i], times);
    out->compute_s *= times;
    out->sample_bytes = t->s.bytes;
    out->files = w->files;
    out->bytes = w->bytes;
    stk_tune_note(out,
                  "All of it ran on a sample of %llu of the %llu files, %s of %s, because copies of "
                  "the whole have no room: how many times as fast is measured, times and disk marked "
                  "with ~ are multiplied by %.3g. A sample may fit into a cache of the storage that "
                  "the whole does not fit into",
                  (unsigned long long)t->s.files, (unsigned long long)w->files,
                  stk_format_size(t->s.bytes, part, sizeof part),
                  stk_format_size(w->bytes, all, sizeof all), times);
}
