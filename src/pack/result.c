/* result.c - packing and verifying for programs: the calls of stoker.h, and what they came to. */
#include "base/api.h"
#include "pack/pack.h"
#include "dataset/verify.h"

#include <stdio.h>
#include <stdlib.h>

struct stk_result {
    struct stk_result_stats stats;
    char format[32];
    struct stk_problems problems;
    struct stk_notes notes;
};

static void release(struct stk_result *r)
{
    stk_problems_release(&r->problems);
    stk_notes_release(&r->notes);
    free(r);
}

static struct stk_result *new_result(void)
{
    struct stk_result *r = calloc(1, sizeof *r);
    if (r && !stk_live_add(r)) {
        free(r);
        r = NULL;
    }
    return r;
}

/* Counts what both have, and gives the result to a caller who wants it. */
static void give(struct stk_result *r, const char *format, struct stk_result **out)
{
    snprintf(r->format, sizeof r->format, "%s", format);
    r->stats.format = r->format;
    r->stats.problems = r->problems.count;
    r->stats.unsupported = r->problems.unsupported;
    r->stats.left_out = stk_notes_missing(&r->notes);
    r->stats.whole = !r->stats.problems && !r->stats.left_out;
    if (out)
        *out = r;
    else
        stk_result_free(r);
}

static int check_paths(const char *a, const char *b, struct stk_err *err)
{
    return a && b ? 0 : stk_err_set(err, STK_E_USAGE, NULL, -1, "there is no path (NULL)");
}

/* It is put into the manifest as it is. */
static int check_settings(const char *json, struct stk_err *err)
{
    if (!json || (json[0] == '{' && stk_json_check((const uint8_t *)json, strlen(json), NULL) == 0))
        return 0;
    return stk_err_set(err, STK_E_USAGE, NULL, -1, "settings_json is not a JSON object");
}

/* ---- packing ---- */

static void take_pack(struct stk_result *r, struct stk_pack_result *p)
{
    r->stats = (struct stk_result_stats){.samples = p->samples,
                                         .files = p->files,
                                         .bytes_read = p->bytes_in,
                                         .bytes_written = p->bytes_out,
                                         .shards = p->shards,
                                         .shards_kept = p->shards_kept,
                                         .classes = p->classes,
                                         .seconds = p->seconds_total,
                                         .was_there = p->whole};
    r->problems = p->skipped;
    r->notes = p->notes;
}

int stk_pack_sized(const char *src, const char *dst, const struct stk_open_options *open,
                   size_t open_size, const struct stk_pack_options *opts, size_t opts_size,
                   struct stk_result **result, struct stk_err *err)
{
    struct stk_open_options in;
    struct stk_pack_options how;
    struct stk_pack_result p = {0};
    if (result)
        *result = NULL;
    int rc = check_paths(src, dst, err);
    if (rc == 0)
        rc = stk_sized_in(&in, sizeof in, open, open_size, "open options", err);
    if (rc == 0)
        rc = stk_sized_in(&how, sizeof how, opts, opts_size, "pack options", err);
    if (rc == 0)
        rc = check_settings(how.settings_json, err);
    if (rc < 0)
        return rc;
    struct stk_result *r = new_result();
    if (!r)
        return stk_err_nomem(err, sizeof *r);
    rc = stk_pack_into(src, dst, &in, &how, &p, err);
    take_pack(r, &p);
    if (rc == 0)
        give(r, p.format, result);
    else
        stk_result_free(r);
    return rc;
}

/* ---- verifying ---- */

static void take_verify(struct stk_result *r, struct stk_verify_result *v)
{
    r->stats = (struct stk_result_stats){.samples = v->samples,
                                         .files = v->files,
                                         .bytes_read = v->bytes,
                                         .bytes_checked = v->checksummed_bytes,
                                         .seconds = v->seconds};
    r->problems = v->problems;
    r->notes = v->notes;
}

int stk_verify_sized(const char *path, const struct stk_open_options *open, size_t open_size,
                     const struct stk_verify_options *opts, size_t opts_size,
                     struct stk_result **result, struct stk_err *err)
{
    struct stk_open_options in;
    struct stk_verify_options how;
    struct stk_verify_result v = {0};
    int rc = check_paths(path, path, err);
    if (rc == 0 && !result)
        rc = stk_err_set(err, STK_E_USAGE, NULL, -1, "there is no place for the result (NULL)");
    if (rc == 0)
        rc = stk_sized_in(&in, sizeof in, open, open_size, "open options", err);
    if (rc == 0)
        rc = stk_sized_in(&how, sizeof how, opts, opts_size, "verify options", err);
    if (result)
        *result = NULL;
    if (rc < 0)
        return rc;
    struct stk_result *r = new_result();
    if (!r)
        return stk_err_nomem(err, sizeof *r);
    rc = stk_verify_all(path, &in, &how, &v, err);
    take_verify(r, &v);
    if (rc == 0)
        give(r, v.format, result);
    else
        stk_result_free(r);
    return rc;
}

/* ---- what they came to ---- */

void stk_result_stats_sized(const struct stk_result *r, struct stk_result_stats *out,
                            size_t out_size)
{
    static const struct stk_result_stats none = {.format = ""};
    stk_sized_out(out, out_size, r ? &r->stats : &none, sizeof none);
}

const struct stk_problem *stk_result_problem(const struct stk_result *r, size_t i)
{
    return r && i < r->problems.kept ? &r->problems.item[i] : NULL;
}

const struct stk_note *stk_result_note(const struct stk_result *r, size_t i)
{
    return r && i < r->notes.n ? &r->notes.item[i] : NULL;
}

void stk_result_free(struct stk_result *r)
{
    if (stk_live_end(r))
        release(r);
}
