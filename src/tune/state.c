/*
 * state.c - tune.json in the folder of a call: what its stages have found, the other folders that
 * belong to it, and the run of each point, for jobs. A resume loads it and goes on behind the last
 * stage. And the beacon that says what happens now.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tune/priv.h"

#define STATE_MAX  (4u << 20)
#define STATE_KIND "stoker tune"
#define EVERY_S    1.0

/* ---- the plan ------------------------------------------------------------------------------- */

#define PLAN(type, name, member) {STK_JFIELD(type, name, struct stk_tune_plan, member)}
#define JOB(type, name, member)  {STK_JFIELD(type, name, struct stk_tune_job, member)}

static const char *const frameworks[] = {
    [STK_FRAMEWORK_UNKNOWN] = "unknown", [STK_FRAMEWORK_TORCH] = "torch", [STK_FRAMEWORK_TF] = "tf",
    [STK_FRAMEWORK_NUMPY] = "numpy",     [STK_FRAMEWORK_C] = "c",         NULL};

static const struct stk_jfield job_fields[] = {
    JOB(FLAG, "known", known),
    JOB(UNSIGNED, "peak_bytes", peak_bytes),
    JOB(UNSIGNED, "gpus", gpus),
    JOB(REAL, "loop_s", loop_s),
    {STK_JFIELD(WORD, "framework", struct stk_tune_job, framework), .words = frameworks},
    JOB(FLAG, "batch_guessed", batch_guessed),
    JOB(TEXT, "decode", decode),
    JOB(FLAG, "labelled", labelled),
    JOB(FLAG, "size_known", size_known),
    {0},
};

/* What a resume does not choose anew. */
static const struct stk_jfield plan_fields[] = {
    PLAN(TEXT, "name", name),
    PLAN(TEXT, "data", data),
    {STK_JFIELD_WORDS("set", struct stk_tune_plan, set)},
    PLAN(TEXT, "beside", beside),
    {STK_JFIELD_WORDS("near", struct stk_tune_plan, near)},
    {STK_JFIELD_WORDS("only", struct stk_tune_plan, only)},
    PLAN(UNSIGNED, "space", space_bytes),
    PLAN(REAL, "least", least),
    {STK_JFIELD(UNSIGNED, "seed", struct stk_tune_plan, seed), .exact = true},
    {STK_JFIELD_WORDS("sbatch", struct stk_tune_plan, sbatch)},
    PLAN(TEXT, "storage", storage),
    PLAN(FLAG, "fewer_cpus", fewer_cpus),
    {STK_JFIELD(STRUCT, "job", struct stk_tune_plan, job), .table = job_fields},
    {0},
};

static const struct stk_jfield script_fields[] = {
    {STK_JFIELD(CHARS, "python", struct stk_script, python)},
    {STK_JFIELD(CHARS, "file", struct stk_script, file)},
    {STK_JFIELD(CHARS, "module", struct stk_script, module)},
    {STK_JFIELD(CHARS, "cwd", struct stk_script, cwd)},
    {0},
};

/* ---- the subject ---------------------------------------------------------------------------- */

#define STORAGE(type, name, member) {STK_JFIELD(type, name, struct stk_storage, member)}
#define SUBJECT(type, name, member) {STK_JFIELD(type, name, struct stk_tune_subject, member)}

static const struct stk_jfield storage_fields[] = {
    STORAGE(TEXT, "file_system", fs),
    STORAGE(FLAG, "network", network),
    STORAGE(FLAG, "served", served),
    STORAGE(FLAG, "memory", memory),
    STORAGE(REAL, "open_s", open_s),
    STORAGE(REAL, "ask_s", ask_s),
    STORAGE(REAL, "create_s", create_s),
    STORAGE(REAL, "latency_s", latency_s),
    STORAGE(REAL, "stream_Bps", stream_Bps),
    STORAGE(REAL, "read_Bps", read_Bps),
    STORAGE(REAL, "all_Bps", all_Bps),
    STORAGE(REAL, "write_Bps", write_Bps),
    STORAGE(REAL, "window", window),
    {0},
};

/* null is a rate without a limit. */
#define UNLIMITED                                                                                  \
    {                                                                                              \
        .stream_Bps = INFINITY, .read_Bps = INFINITY, .all_Bps = INFINITY, .write_Bps = INFINITY,  \
        .window = INFINITY                                                                         \
    }

static const struct stk_tune_near any_near = {.storage = UNLIMITED};
static const struct stk_jfield near_fields[] = {
    {STK_JFIELD(TEXT, "path", struct stk_tune_near, path), .required = true},
    {STK_JFIELD(UNSIGNED, "room_bytes", struct stk_tune_near, room_bytes), .exact = true},
    {STK_JFIELD(STRUCT, "storage", struct stk_tune_near, storage), .table = storage_fields},
    {0},
};

static const struct stk_jfield whole_fields[] = {
    {STK_JFIELD(TEXT, "source", struct stk_tune_whole, source)},
    {STK_JFIELD(UNSIGNED, "files", struct stk_tune_whole, files)},
    {STK_JFIELD(UNSIGNED, "bytes", struct stk_tune_whole, bytes)},
    {0},
};

static const struct stk_jfield unpack_fields[] = {
    {STK_JFIELD(REAL, "program_s", struct stk_unpack, program_s)},
    {STK_JFIELD(REAL, "loader_s", struct stk_unpack, loader_s)},
    {STK_JFIELD(REAL, "grows", struct stk_unpack, grows)},
    {STK_JFIELD(REAL, "zstd_leaves", struct stk_unpack, zstd_leaves)},
    {STK_JFIELD(REAL, "unzstd_s", struct stk_unpack, unzstd_s)},
    {0},
};

static const struct stk_jfield subject_fields[] = {
    SUBJECT(TEXT, "source", source),
    SUBJECT(TEXT, "save", save),
    SUBJECT(UNSIGNED, "files", files),
    SUBJECT(UNSIGNED, "bytes", bytes),
    SUBJECT(REAL, "newest_s", newest_s),
    {STK_JFIELD(STRUCT, "whole", struct stk_tune_subject, whole), .table = whole_fields},
    SUBJECT(TEXT, "format", format),
    SUBJECT(FLAG, "arrays", arrays),
    SUBJECT(TEXT, "packs_as", packs_as),
    SUBJECT(TEXT, "decode", decode),
    SUBJECT(REAL, "decode_s", decode_s),
    {STK_JFIELD(STRUCT, "unpack", struct stk_tune_subject, unpack), .table = unpack_fields},
    SUBJECT(FLAG, "cold", cold),
    SUBJECT(FLAG, "cached", cached),
    {STK_JFIELD_ARRAY(STRUCT, "near", struct stk_tune_subject, near, nnear), .table = near_fields,
     .init = &any_near},
    {STK_JFIELD(STRUCT, "storage", struct stk_tune_subject, storage), .table = storage_fields},
    SUBJECT(UNSIGNED, "memory_bytes", peak_bytes),
    SUBJECT(UNSIGNED, "steps", steps),
    SUBJECT(REAL, "epoch_s", epoch_s),
    SUBJECT(REAL, "wait_share", wait_share),
    SUBJECT(REAL, "save_share", save_share),
    SUBJECT(REAL, "compute_s", compute_s),
    SUBJECT(REAL, "open_s", open_s),
    SUBJECT(REAL, "request_s", request_s),
    SUBJECT(REAL, "request_bytes", request_bytes),
    {0},
};

/* ---- the candidates ------------------------------------------------------------------------- */

#define CHANGE(type, name, member)    {STK_JFIELD(type, name, struct stk_tune_change, member)}
#define CANDIDATE(type, name, member) {STK_JFIELD(type, name, struct stk_tune_candidate, member)}

static const char *const uses[] = {[STK_USE_NOTHING] = "nothing", [STK_USE_LOADER] = "loader",
                                   [STK_USE_DATA] = "data",       [STK_USE_INDEX] = "index",
                                   NULL};
static const char *const verdicts[] = {
    [STK_TUNE_GAIN] = "gain",       [STK_TUNE_NOTHING] = "nothing",
    [STK_TUNE_UNCLEAR] = "unclear", [STK_TUNE_DROPPED] = "dropped",
    [STK_TUNE_SKIPPED] = "skipped", [STK_TUNE_FAILED] = "failed",   NULL};

const char *stk_tune_verdict_name(enum stk_tune_verdict v)
{
    return verdicts[v];
}

static const struct stk_jfield copy_fields[] = {
    {STK_JFIELD(TEXT, "path", struct stk_tune_copy, path)},
    {STK_JFIELD(TEXT, "at", struct stk_tune_copy, at)},
    {STK_JFIELD(REAL, "seconds", struct stk_tune_copy, prepare_s)},
    {STK_JFIELD(UNSIGNED, "bytes", struct stk_tune_copy, bytes)},
    {STK_JFIELD(UNSIGNED, "files", struct stk_tune_copy, files)},
    {0},
};

static const struct stk_tune_change any_change = {.copy.prepare_s = NAN};
static const struct stk_jfield change_fields[] = {
    {STK_JFIELD(TEXT, "kind", struct stk_tune_change, kind_id), .required = true},
    CHANGE(CHARS, "id", id),
    CHANGE(CHARS, "label", label),
    {STK_JFIELD_ARRAY(TEXT, "set", struct stk_tune_change, set, nset)},
    CHANGE(FLAG, "loader", loader),
    CHANGE(TEXT, "format", format),
    CHANGE(TEXT, "codec", codec),
    CHANGE(TEXT, "source", source),
    {STK_JFIELD(WORD, "use", struct stk_tune_change, use), .words = uses},
    {STK_JFIELD(UNSIGNED, "near", struct stk_tune_change, near), .exact = true},
    {STK_JFIELD(UNSIGNED, "number", struct stk_tune_change, number), .exact = true},
    CHANGE(TEXT, "where", where),
    CHANGE(TEXT, "named", named),
    CHANGE(UNSIGNED, "memory_bytes", memory_bytes),
    CHANGE(UNSIGNED, "cpus", cpus),
    {STK_JFIELD(STRUCT, "copy", struct stk_tune_change, copy), .table = copy_fields},
    {0},
};

static const struct stk_jfield candidate_fields[] = {
    {STK_JFIELD(CHARS, "id", struct stk_tune_candidate, id), .required = true},
    CANDIDATE(CHARS, "label", label),
    {STK_JFIELD_ARRAY(STRUCT, "changes", struct stk_tune_candidate, change, nchanges),
     .table = change_fields, .init = &any_change},
    {STK_JFIELD(WORD, "verdict", struct stk_tune_candidate, verdict), .words = verdicts},
    CANDIDATE(CHARS, "why", why),
    CANDIDATE(REAL, "predicted_s", predicted_s),
    {0},
};

/* ---- the datasets in the data --------------------------------------------------------------- */

static const struct stk_jfield field_fields[] = {
    {STK_JFIELD(TEXT, "name", struct stk_file_field, name)},
    {STK_JFIELD(TEXT, "format", struct stk_file_field, format)},
    {STK_JFIELD(FLAG, "parsed", struct stk_file_field, parsed)},
    {0},
};
#define FIELD(name_, struct_, member_)                                                             \
    {STK_JFIELD(STRUCT, name_, struct_, member_), .table = field_fields}

static const struct stk_jfield part_fields[] = {
    {STK_JFIELD(TEXT, "name", struct stk_tune_part, name), .required = true},
    {STK_JFIELD(TEXT, "source", struct stk_tune_part, source), .required = true},
    {STK_JFIELD(FLAG, "evaluated", struct stk_tune_part, evaluated)},
    {STK_JFIELD(FLAG, "classes", struct stk_tune_part, classes)},
    {STK_JFIELD(TEXT, "decode", struct stk_tune_part, decode)},
    FIELD("field", struct stk_tune_part, field[0]),
    FIELD("second_field", struct stk_tune_part, field[1]),
    {0},
};
_Static_assert(STK_FIELDS == 2, "each has its row");

static const struct stk_jfield parts_fields[] = {
    {STK_JFIELD_ARRAY(STRUCT, "parts", struct stk_tune, part, nparts), .table = part_fields},
    {STK_JFIELD(TEXT, "packed", struct stk_tune, packed)},
    {STK_JFIELD(TEXT, "sides", struct stk_tune, sides)},
    {STK_JFIELD(TEXT, "sides_packed", struct stk_tune, sides_packed)},
    FIELD("sides_field", struct stk_tune, sides_field[0]),
    FIELD("sides_second_field", struct stk_tune, sides_field[1]),
    {0},
};

/* ---- the call ------------------------------------------------------------------------------- */

static const char *const stages[] = {[STK_TUNE_BEGUN] = "begun", [STK_TUNE_KNOWN] = "known",
                                     [STK_TUNE_PLANNED] = "planned", NULL};

static const struct stk_jfield call_fields[] = {
    {STK_JFIELD(WORD, "stage", struct stk_tuner, stage), .words = stages, .required = true},
    {STK_JFIELD(TEXT, "saves", struct stk_tuner, saves_path)},
    {STK_JFIELD(REAL, "run_s", struct stk_tuner, run_s)},
    {STK_JFIELD(REAL, "run_cost_s", struct stk_tuner, run_cost_s)},
    {0},
};

/* What lies where: every version writes this alike, so that --clean can remove it. */
static const struct stk_jfield made_fields[] = {
    {STK_JFIELD_ARRAY(TEXT, "folders", struct stk_tuner, folder, nfolders)},
    {STK_JFIELD_ARRAY(TEXT, "indexes", struct stk_tuner, index, nindexes)},
    {0},
};

/* What stands beside these: the kind of file, its executor, sentences, and the candidates, without
 * combinations, which follow from the runs. */
struct beside {
    const char *kind, *via;
    const char **notes;
    struct stk_tune_candidate *candidate;
    size_t n;
};
static const struct stk_tune_candidate any_candidate = {.verdict = STK_TUNE_UNCLEAR,
                                                        .predicted_s = NAN};
static const struct stk_jfield head_fields[] = {
    {STK_JFIELD(TEXT, "kind", struct beside, kind)},
    {STK_JFIELD(TEXT, "via", struct beside, via)},
    {0},
};
static const struct stk_jfield beside_fields[] = {
    {STK_JFIELD_WORDS("notes", struct beside, notes)},
    {STK_JFIELD_LIST(STRUCT, "candidates", struct beside, candidate, n), .table = candidate_fields,
     .init = &any_candidate, .room = STK_TUNE_MAX},
    {0},
};

/* ---- saving --------------------------------------------------------------------------------- */

static int put_points(struct stk_tuner *t, struct stk_jw *w, struct stk_err *err)
{
    int rc = 0;
    stk_jw_key(w, "points");
    stk_jw_open(w, '{');
    for (size_t i = 0; i < t->out->n && !rc; i++) {
        struct stk_bench_job job;
        rc = stk_tune_job(t, &t->out->candidate[i], &job, err);
        stk_jw_key(w, t->out->candidate[i].id);
        stk_jfields_write(stk_bench_job_fields, &job, w);
    }
    stk_jw_close(w, '}');
    return rc;
}

static void put_table(struct stk_jw *w, const char *key, const struct stk_jfield *table,
                      const void *from)
{
    stk_jw_key(w, key);
    stk_jfields_write(table, from, w);
}

static void put_beside(const struct stk_tuner *t, struct stk_jw *w, struct stk_err *err, int *rc)
{
    const struct stk_tune *out = t->out;
    const char *note[STK_TUNE_NOTES + 1] = {0};
    struct beside b = {.kind = STATE_KIND, .via = t->plan->via->name, .notes = note};
    b.candidate = calloc(STK_TUNE_MAX, sizeof *b.candidate);
    if (!b.candidate)
        *rc = stk_err_nomem(err, STK_TUNE_MAX * sizeof *b.candidate);
    for (size_t i = 0; i < t->noted; i++)
        note[i] = out->note[i];
    for (size_t i = 1; b.candidate && i < out->n; i++)
        if (out->candidate[i].nchanges == 1)
            b.candidate[b.n++] = out->candidate[i];
    stk_jfields_put(head_fields, &b, w);
    stk_jfields_put(beside_fields, &b, w);
    free(b.candidate);
}

int stk_tune_write_state(struct stk_tuner *t, struct stk_err *err)
{
    struct stk_buf b = STK_BUF_INIT;
    struct stk_jw w;
    int rc = 0;
    stk_jw_init(&w, &b, true);
    stk_jw_open(&w, '{');
    put_beside(t, &w, err, &rc);
    stk_jfields_put(made_fields, t, &w);
    stk_jfields_put(call_fields, t, &w);
    put_table(&w, "plan", plan_fields, t->plan);
    put_table(&w, "script", script_fields, &t->out->script);
    stk_jw_key(&w, "workload");
    stk_workload_save(&t->s.w, &w);
    put_table(&w, "subject", subject_fields, &t->s);
    put_table(&w, "datasets", parts_fields, t->out);
    rc = rc ? rc : put_points(t, &w, err);
    stk_jw_close(&w, '}');
    stk_buf_putc(&b, '\n');
    rc = rc ? rc : stk_buf_check(&b, err);
    rc = rc ? rc : stk_folder_write(&t->work, STK_TUNE_SPEC, b.data, b.len, err);
    stk_buf_release(&b);
    return rc;
}

/* ---- loading -------------------------------------------------------------------------------- */

static int read_file(struct stk_folder *f, const char *dir, struct stk_arena *arena,
                     struct stk_jval **v, struct stk_err *err)
{
    struct stk_buf b = STK_BUF_INIT;
    int rc = stk_folder_find(f, dir, STK_TUNE_SPEC, NULL, err);
    rc = rc ? rc : stk_folder_check(f, STK_TUNE_SPEC, NULL, err);
    rc = rc ? rc : stk_folder_read(f, STK_TUNE_SPEC, STATE_MAX, &b, err);
    const char *text = rc ? NULL : stk_arena_dup(arena, b.data, b.len);
    if (!rc)
        rc = text ? stk_json_parse(arena, text, b.len, v, err) : stk_err_nomem(err, b.len);
    const struct stk_jval *kind = rc || (*v)->type != STK_JOBJ ? NULL : stk_json_get(*v, "kind");
    if (!rc && !(kind && kind->type == STK_JSTR && strcmp(kind->str, STATE_KIND) == 0))
        rc = stk_err_set(err, STK_E_CORRUPT, dir, -1, "was not made by stoker tune");
    stk_buf_release(&b);
    return rc;
}

static int read_table(struct stk_tuner *t, const struct stk_jval *v, const char *key,
                      const struct stk_jfield *table, void *to, struct stk_err *err)
{
    static const struct stk_jval empty = {.type = STK_JOBJ};
    const struct stk_jval *x = stk_json_get(v, key);
    return stk_jfields_read(table, x ? x : &empty, STK_TUNE_SPEC, &t->out->arena, to, err);
}

static int unknown(struct stk_err *err, const char *what, const char *name)
{
    return stk_err_set(err, STK_E_CORRUPT, STK_TUNE_SPEC, -1, "%s \"%.60s\" is not known", what,
                       name);
}

/* Other copies may fit, and a larger budget allows more. */
static int take_candidate(struct stk_tuner *t, const struct stk_tune_candidate *from,
                          struct stk_err *err)
{
    struct stk_tune_candidate *c = stk_tune_add(t->out);
    if (!c || from->nchanges != 1)
        return unknown(err, "candidate", from->id);
    const struct stk_tune_change *x = &from->change[0];
    bool chosen = t->plan->choice && strcmp(t->plan->choice, from->id) == 0;
    memcpy(c->id, from->id, sizeof c->id);
    memcpy(c->label, from->label, sizeof c->label);
    c->nchanges = 1;
    c->change[0] = *x;
    c->change[0].kind = stk_tune_kind_find(x->kind_id);
    c->predicted_s = from->predicted_s;
    if (from->verdict == STK_TUNE_DROPPED && !chosen) {
        c->verdict = STK_TUNE_DROPPED;
        memcpy(c->why, from->why, sizeof c->why);
    }
    bool place = !x->where || x->near < t->s.nnear;
    return !c->change[0].kind ? unknown(err, "kind", x->kind_id)
           : !place           ? unknown(err, "place", x->where)
                              : 0;
}

static bool is_index(const char *path)
{
    size_t n = strlen(path);
    return n > 7 && strcmp(path + n - 7, ".stkidx") == 0;
}

static int take_made(struct stk_tuner *t, const struct stk_jval *v, struct stk_err *err)
{
    struct beside b = {0};
    int rc = stk_jfields_read(made_fields, v, STK_TUNE_SPEC, &t->out->arena, t, err);
    for (size_t i = 0; i < t->nindexes && !rc; i++)
        rc = is_index(t->index[i]) ? 0 : unknown(err, "index", t->index[i]);
    rc = rc ? rc : stk_jfields_read(head_fields, v, STK_TUNE_SPEC, &t->out->arena, &b, err);
    const struct stk_executor *via = b.via ? stk_executor_find(b.via) : NULL;
    t->own.via = via ? via : &stk_executor_local;
    return rc;
}

static int take_beside(struct stk_tuner *t, const struct beside *b, struct stk_err *err)
{
    int rc = 0;
    for (const char **note = b->notes; note && *note; note++)
        stk_tune_note(t->out, "%s", *note);
    t->noted = t->out->nnotes;
    for (size_t i = 0; i < b->n && !rc; i++)
        rc = take_candidate(t, &b->candidate[i], err);
    for (size_t i = 0; i < t->s.nnear; i++)
        t->s.near[i].fs = stk_fs_of_path(t->s.near[i].path);
    return rc || t->nfolders >= t->s.nnear ? rc : unknown(err, "folder", "");
}

int stk_tune_read_state(struct stk_tuner *t, const char *dir, struct stk_err *err)
{
    struct stk_jval *v = NULL;
    struct beside b = {0};
    t->s.storage = any_near.storage;
    int rc = read_file(&t->work, dir, &t->out->arena, &v, err);
    if (rc)
        return rc;
    if (!stk_json_get(v, "stage"))
        return stk_err_set(err, STK_E_UNSUPPORTED, dir, -1,
                           "was left by an earlier version of stoker, which alone can continue "
                           "it; --clean removes it");
    rc = take_made(t, v, err);
    rc = rc ? rc : stk_jfields_read(call_fields, v, STK_TUNE_SPEC, &t->out->arena, t, err);
    rc = rc ? rc : stk_jfields_read(beside_fields, v, STK_TUNE_SPEC, &t->out->arena, &b, err);
    rc = rc ? rc : read_table(t, v, "plan", plan_fields, &t->own, err);
    rc = rc ? rc : read_table(t, v, "script", script_fields, &t->out->script, err);
    rc = rc ? rc : stk_workload_load(&t->s.w, stk_json_get(v, "workload"), err);
    rc = rc ? rc : read_table(t, v, "subject", subject_fields, &t->s, err);
    rc = rc ? rc : read_table(t, v, "datasets", parts_fields, t->out, err);
    rc = rc ? rc : take_beside(t, &b, err);
    return rc || !t->out->packed ? rc : stk_tune_pack_to(t->out, t->out->packed, err);
}

int stk_tune_read_made(struct stk_tuner *t, const char *dir, struct stk_err *err)
{
    struct stk_jval *v = NULL;
    int rc = read_file(&t->work, dir, &t->out->arena, &v, err);
    rc = rc ? rc : take_made(t, v, err);
    const struct stk_jval *points = rc ? NULL : stk_json_get(v, "points");
    for (size_t i = 0; points && points->type == STK_JOBJ && i < points->len; i++) {
        struct stk_tune_candidate *c = stk_tune_add(t->out);
        if (c)
            snprintf(c->id, sizeof c->id, "%s", points->name[i].str);
    }
    return rc;
}

/* ---- one point ------------------------------------------------------------------------------ */

int stk_tune_step(const char *dir, const char *id, int (*stop)(void), struct stk_buf *out,
                  struct stk_err *err)
{
    struct stk_folder folder = STK_FOLDER_INIT;
    struct stk_arena arena = STK_ARENA_INIT;
    struct stk_workload w = {0};
    struct stk_bench_job job = {.w = &w};
    struct stk_bench_figures figures;
    struct stk_jval *v = NULL;
    int rc = read_file(&folder, dir, &arena, &v, err);
    const struct stk_jval *all = rc ? NULL : stk_json_get(v, "points");
    const struct stk_jval *one = all && all->type == STK_JOBJ ? stk_json_get(all, id) : NULL;
    if (!rc && !one)
        rc = stk_err_set(err, STK_E_USAGE, dir, -1, "\"%.60s\" is not a candidate of this call",
                         id);
    rc = rc ? rc : stk_jfields_read(stk_bench_job_fields, one, STK_TUNE_SPEC, &arena, &job, err);
    rc = rc ? rc : stk_workload_load(&w, stk_json_get(v, "workload"), err);
    rc = rc ? rc : stk_bench_job_run(&job, stop, &figures, err);
    if (!rc)
        stk_jfields_text(stk_bench_figures_fields, &figures, false, out);
    stk_workload_release(&w);
    stk_folder_release(&folder);
    stk_arena_release(&arena);
    return rc;
}

/* ---- what happens now ----------------------------------------------------------------------- */

static void put_now(void *user, struct stk_jw *w)
{
    const struct stk_tuner *t = user;
    stk_jw_put_str(w, "name", t->out->name);
    stk_jw_put_str(w, "doing", t->doing);
    stk_jw_put_f64(w, "budget_s", t->plan->budget_s);
    stk_jw_put_f64(w, "left_s", stk_tuner_left_s(t));
}

/* The folder is made a while after the beginning. How far the runs are stands in the folders of the
 * studies (study/runner.c). */
void stk_tuner_show(struct stk_tuner *t)
{
    if (t->work.fd >= 0 && t->beacon.dirfd < 0) {
        t->beacon = (struct stk_beacon){.name = STK_TUNE_STATUS,
                                        .command = "tune",
                                        .every_s = EVERY_S,
                                        .mode = t->work.mode,
                                        .put = put_now,
                                        .user = t};
        stk_beacon_begin(&t->beacon, t->work.fd);
    }
    stk_beacon_tick(&t->beacon, false);
}
