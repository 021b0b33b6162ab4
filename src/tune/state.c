/*
 * state.c - tune.json in the folder of a call: what its stages have found, each by its table of
 * fields, the other folders that belong to it, and the run of each point, for jobs. A resume loads
 * it and goes on behind the last stage. And the beacon that says what happens now.
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

#define LOOK(type, name, member)  {STK_JFIELD(type, name, struct stk_tune_look, member)}
#define PILOT(type, name, member) {STK_JFIELD(type, name, struct stk_tune_pilot, member)}

static const struct stk_jfield look_fields[] = {
    LOOK(TEXT, "format", format),
    LOOK(FLAG, "arrays", arrays),
    LOOK(TEXT, "packs_as", packs_as),
    LOOK(TEXT, "decode", decode),
    LOOK(REAL, "decode_s", decode_s),
    {STK_JFIELD(STRUCT, "unpack", struct stk_tune_look, unpack), .table = unpack_fields},
    {0},
};

static const struct stk_jfield pilot_fields[] = {
    PILOT(UNSIGNED, "steps", steps),
    PILOT(UNSIGNED, "memory_bytes", peak_bytes),
    PILOT(FLAG, "cached", cached),
    PILOT(REAL, "epoch_s", epoch_s),
    PILOT(REAL, "wait_share", wait_share),
    PILOT(REAL, "save_share", save_share),
    PILOT(REAL, "compute_s", compute_s),
    PILOT(REAL, "open_s", open_s),
    PILOT(REAL, "request_s", request_s),
    PILOT(REAL, "request_bytes", request_bytes),
    PILOT(REAL, "run_s", run_s),
    PILOT(REAL, "run_cost_s", run_cost_s),
    {0},
};

static const struct stk_jfield subject_fields[] = {
    SUBJECT(TEXT, "source", source),
    SUBJECT(TEXT, "save", save),
    SUBJECT(UNSIGNED, "files", files),
    SUBJECT(UNSIGNED, "bytes", bytes),
    SUBJECT(REAL, "newest_s", newest_s),
    SUBJECT(FLAG, "cold", cold),
    {STK_JFIELD(STRUCT, "whole", struct stk_tune_subject, whole), .table = whole_fields},
    {STK_JFIELD_ARRAY(STRUCT, "near", struct stk_tune_subject, near, nnear), .table = near_fields,
     .init = &any_near},
    {STK_JFIELD(STRUCT, "look", struct stk_tune_subject, look), .table = look_fields},
    {STK_JFIELD(STRUCT, "pilot", struct stk_tune_subject, pilot), .table = pilot_fields},
    {STK_JFIELD(STRUCT, "storage", struct stk_tune_subject, storage), .table = storage_fields},
    {0},
};

/* ---- the candidates ------------------------------------------------------------------------- */

#define CHANGE(type, name, member) {STK_JFIELD(type, name, struct stk_tune_change, member)}

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
    CHANGE(TEXT, "makes", makes),
    {0},
};

static const struct stk_jfield candidate_fields[] = {
    {STK_JFIELD(CHARS, "id", struct stk_tune_proposal, id), .required = true},
    {STK_JFIELD(CHARS, "label", struct stk_tune_proposal, label)},
    {STK_JFIELD_ARRAY(STRUCT, "changes", struct stk_tune_proposal, change, nchanges),
     .table = change_fields},
    {0},
};

/* ---- copies --------------------------------------------------------------------------------- */

/* With the candidate that needs it. */
struct made {
    const char *id;
    struct stk_tune_copy copy;
};
#define MADE(type, name, member) {STK_JFIELD(type, name, struct made, member)}
static const struct stk_jfield copy_fields[] = {
    {STK_JFIELD(TEXT, "id", struct made, id), .required = true},
    MADE(TEXT, "path", copy.path),
    MADE(TEXT, "at", copy.at),
    MADE(REAL, "seconds", copy.prepare_s),
    MADE(UNSIGNED, "bytes", copy.bytes),
    MADE(UNSIGNED, "files", copy.files),
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
    {STK_JFIELD(TEXT, "packed", struct stk_tune_part, packed), .required = true},
    FIELD("field", struct stk_tune_part, field[0]),
    FIELD("second_field", struct stk_tune_part, field[1]),
    {0},
};
_Static_assert(STK_FIELDS == 2, "each has its row");

static const struct stk_jfield parts_fields[] = {
    {STK_JFIELD_ARRAY(STRUCT, "parts", struct stk_tune_parts, part, nparts), .table = part_fields},
    {STK_JFIELD(TEXT, "packed", struct stk_tune_parts, packed)},
    {STK_JFIELD(TEXT, "sides", struct stk_tune_parts, sides)},
    {STK_JFIELD(TEXT, "sides_packed", struct stk_tune_parts, sides_packed)},
    FIELD("sides_field", struct stk_tune_parts, sides_field[0]),
    FIELD("sides_second_field", struct stk_tune_parts, sides_field[1]),
    {0},
};

/* ---- the call ------------------------------------------------------------------------------- */

static const char *const stages[] = {[STK_TUNE_BEGUN] = "begun", [STK_TUNE_KNOWN] = "known",
                                     [STK_TUNE_PLANNED] = "planned", NULL};

static const struct stk_jfield call_fields[] = {
    {STK_JFIELD(WORD, "stage", struct stk_tuner, stage), .words = stages, .required = true},
    {STK_JFIELD(TEXT, "saves", struct stk_tuner, saves)},
    {0},
};

/* What lies where: every version writes this alike, so that --clean can remove it. */
static const struct stk_jfield made_fields[] = {
    {STK_JFIELD_ARRAY(TEXT, "folders", struct stk_tuner, folder, nfolders)},
    {STK_JFIELD_ARRAY(TEXT, "indexes", struct stk_tuner, index, nindexes)},
    {0},
};

/* What stands beside these: the kind of file, its executor, sentences, the candidates (without
 * combinations, which follow from the runs), and copies. */
struct beside {
    const char *kind, *via;
    const char **notes;
    struct stk_tune_proposal *candidate;
    struct made *made;
    size_t n, nmade;
};
static const struct stk_jfield head_fields[] = {
    {STK_JFIELD(TEXT, "kind", struct beside, kind)},
    {STK_JFIELD(TEXT, "via", struct beside, via)},
    {0},
};
static const struct stk_jfield beside_fields[] = {
    {STK_JFIELD_WORDS("notes", struct beside, notes)},
    {STK_JFIELD_LIST(STRUCT, "candidates", struct beside, candidate, n), .table = candidate_fields,
     .room = STK_TUNE_MAX},
    {STK_JFIELD_LIST(STRUCT, "copies", struct beside, made, nmade), .table = copy_fields,
     .room = STK_TUNE_MAX},
    {0},
};

/* ---- saving --------------------------------------------------------------------------------- */

static int put_points(struct stk_tuner *t, const struct stk_tune_found *f, struct stk_jw *w,
                      struct stk_err *err)
{
    int rc = 0;
    stk_jw_key(w, "points");
    stk_jw_open(w, '{');
    for (size_t i = 0; i < f->list.n && !rc; i++) {
        struct stk_bench_job job;
        rc = stk_tune_job(t, f, i, &job, err);
        stk_jw_key(w, f->list.item[i].id);
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

static void put_beside(const struct stk_tuner *t, const struct stk_tune_found *f, struct stk_jw *w)
{
    const struct stk_tune *out = t->out;
    const char *note[STK_TUNE_NOTES + 1] = {0};
    struct made made[STK_TUNE_MAX];
    struct beside b = {.kind = STATE_KIND, .via = t->plan.via->name, .notes = note, .made = made,
                       .candidate = f->list.item + 1};
    for (size_t i = 0; i < out->nnotes; i++)
        note[i] = out->note[i];
    while (b.n + 1 < f->list.n && f->list.item[b.n + 1].nchanges == 1)
        b.n++;
    for (size_t i = 1; f->copy && i <= b.n; i++)
        if (!isnan(f->copy[i].prepare_s))
            made[b.nmade++] = (struct made){f->list.item[i].id, f->copy[i]};
    stk_jfields_put(head_fields, &b, w);
    stk_jfields_put(beside_fields, &b, w);
}

int stk_tune_write_state(struct stk_tuner *t, const struct stk_tune_found *f, struct stk_err *err)
{
    struct stk_buf b = STK_BUF_INIT;
    struct stk_jw w;
    stk_jw_init(&w, &b, true);
    stk_jw_open(&w, '{');
    put_beside(t, f, &w);
    stk_jfields_put(made_fields, t, &w);
    stk_jfields_put(call_fields, t, &w);
    put_table(&w, "plan", plan_fields, &t->plan);
    put_table(&w, "script", script_fields, &t->out->script);
    stk_jw_key(&w, "workload");
    stk_workload_save(&f->subject.w, &w);
    put_table(&w, "subject", subject_fields, &f->subject);
    put_table(&w, "datasets", parts_fields, &f->parts);
    int rc = put_points(t, f, &w, err);
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

static int take_candidate(const struct stk_tune_subject *s, const struct stk_tune_proposal *from,
                          struct stk_tune_list *list, struct stk_err *err)
{
    struct stk_tune_proposal *c = stk_tune_add(list);
    if (!c || from->nchanges != 1)
        return unknown(err, "candidate", from->id);
    *c = *from;
    struct stk_tune_change *x = &c->change[0];
    x->kind = stk_tune_kind_find(x->kind_id);
    x->single = list->n - 1;
    return !x->kind                          ? unknown(err, "kind", x->kind_id)
           : x->where && x->near >= s->nnear ? unknown(err, "place", x->where)
                                             : 0;
}

static int take_copies(const struct beside *b, struct stk_tune_found *f, struct stk_err *err)
{
    if (!b->nmade)
        return 0;
    f->copy = stk_arena_alloc(f->list.arena, f->list.n * sizeof *f->copy);
    for (size_t i = 0; f->copy && i < f->list.n; i++) {
        f->copy[i] = (struct stk_tune_copy){.prepare_s = NAN};
        for (size_t k = 0; k < b->nmade; k++)
            if (strcmp(b->made[k].id, f->list.item[i].id) == 0)
                f->copy[i] = b->made[k].copy;
    }
    return f->copy ? 0 : stk_err_nomem(err, f->list.n);
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
    t->plan.via = via ? via : &stk_executor_local;
    return rc;
}

static int take_beside(struct stk_tuner *t, const struct beside *b, struct stk_tune_found *f,
                       struct stk_err *err)
{
    int rc = stk_tune_list_new(&t->out->arena, &f->list, err);
    for (const char **note = b->notes; note && *note; note++)
        stk_tune_note(t, "%s", *note);
    for (size_t i = 0; i < b->n && !rc; i++)
        rc = take_candidate(&f->subject, &b->candidate[i], &f->list, err);
    for (size_t i = 0; i < f->subject.nnear; i++)
        f->subject.near[i].fs = stk_fs_of_path(f->subject.near[i].path);
    rc = rc || t->nfolders >= f->subject.nnear ? rc : unknown(err, "folder", "");
    return rc ? rc : take_copies(b, f, err);
}

int stk_tune_read_state(struct stk_tuner *t, const char *dir, struct stk_tune_found *f,
                        struct stk_err *err)
{
    struct stk_jval *v = NULL;
    struct beside b = {0};
    struct stk_arena *arena = &t->out->arena;
    f->subject.storage = any_near.storage;
    int rc = read_file(&t->work, dir, arena, &v, err);
    if (rc)
        return rc;
    if (!stk_json_get(v, "stage"))
        return stk_err_set(err, STK_E_UNSUPPORTED, dir, -1,
                           "was left by an earlier version of stoker, which alone can continue "
                           "it; --clean removes it");
    rc = take_made(t, v, err);
    rc = rc ? rc : stk_jfields_read(call_fields, v, STK_TUNE_SPEC, arena, t, err);
    rc = rc ? rc : stk_jfields_read(beside_fields, v, STK_TUNE_SPEC, arena, &b, err);
    rc = rc ? rc : read_table(t, v, "plan", plan_fields, &t->plan, err);
    rc = rc ? rc : read_table(t, v, "script", script_fields, &t->out->script, err);
    rc = rc ? rc : stk_workload_load(&f->subject.w, stk_json_get(v, "workload"), err);
    rc = rc ? rc : read_table(t, v, "subject", subject_fields, &f->subject, err);
    rc = rc ? rc : read_table(t, v, "datasets", parts_fields, &f->parts, err);
    return rc ? rc : take_beside(t, &b, f, err);
}

int stk_tune_read_made(struct stk_tuner *t, const char *dir, struct stk_err *err)
{
    struct stk_jval *v = NULL;
    int rc = read_file(&t->work, dir, &t->out->arena, &v, err);
    rc = rc ? rc : take_made(t, v, err);
    const struct stk_jval *points = rc ? NULL : stk_json_get(v, "points");
    if (!points || points->type != STK_JOBJ)
        return rc;
    t->point = stk_arena_alloc(&t->out->arena, points->len * sizeof *t->point);
    for (size_t i = 0; t->point && i < points->len; i++)
        t->point[t->npoints++] = points->name[i].str;
    return t->point || !points->len ? rc : stk_err_nomem(err, points->len);
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
    stk_jw_put_str(w, "name", t->plan.name);
    stk_jw_put_str(w, "doing", t->doing);
    stk_jw_put_f64(w, "budget_s", t->plan.budget_s);
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
