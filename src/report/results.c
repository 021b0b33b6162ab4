/* results.c - see results.h. */
#include "report/results.h"

#include <string.h>

#include "base/file.h"

#include "report/bench.h"
#include "report/compare.h"
#include "report/node.h"
#include "report/data.h"
#include "report/job.h"
#include "report/profile.h"
#include "report/scale.h"
#include "report/stage.h"
#include "report/tune.h"
#include "report/watch.h"
#include "result/page.h"

extern const struct stk_result_kind stk_look_bench_result, stk_look_profile_result,
    stk_look_stage_result, stk_look_spread_result, stk_look_study_result, stk_look_tune_result;

/* Of the kinds of a command, the one that takes any result is the last. */
const struct stk_result_kind *const stk_result_kinds[] = {
    &stk_load_kind,    &stk_pack_kind,    &stk_verify_kind, &stk_sample_kind,
    &stk_inspect_kind, &stk_doctor_kind,  &stk_stage_plan_kind,
    &stk_formats_kind, &stk_version_kind, &stk_bench_kind, &stk_benches_kind, &stk_search_kind,
    &stk_beside_kind, &stk_sweep_kind,
    &stk_stage_nodes_kind, &stk_forms_kind, &stk_sets_kind, &stk_stage_kind,
    &stk_scale_kind,   &stk_job_kind,     &stk_profile_pair_kind,
    &stk_profile_kind, &stk_advise_kind,  &stk_rules_kind,
    &stk_watch_kind, &stk_look_bench_result, &stk_look_profile_result, &stk_look_spread_result,
    &stk_look_stage_result, &stk_look_study_result, &stk_look_tune_result,
    &stk_tune_kind,    &stk_tune_check_kind, NULL};

const struct stk_result_kind *stk_result_kind_of(const char *command,
                                                 const struct stk_jval *result)
{
    for (size_t i = 0; command && stk_result_kinds[i]; i++) {
        const struct stk_result_kind *k = stk_result_kinds[i];
        if (strcmp(k->command, command) == 0 && (!k->takes || k->takes(result)))
            return k;
    }
    return NULL;
}

/* ---- a file --------------------------------------------------------------------------------- */

#define RESULT_MAX (256u << 20)
#define SCHEMA     1 /* STK_RESULT_SCHEMA of cmd/cmd.h */

static const char *text_of(const struct stk_jval *v, const char *otherwise)
{
    return v && v->type == STK_JSTR ? v->str : otherwise;
}

static bool looks_like_json(const struct stk_buf *b)
{
    size_t i = 0;
    while (i < b->len && strchr(" \t\r\n", b->data[i]))
        i++;
    return i < b->len && b->data[i] == '{';
}

/* Takes the envelope that every --json result has; another JSON file has no command. */
static int open_envelope(const char *path, struct stk_result_file *f, struct stk_err *err)
{
    const struct stk_jval *result = stk_json_get(f->root, "result");
    const struct stk_jval *schema = stk_json_get(f->root, "schema");
    const struct stk_jval *arg = stk_json_get(f->root, "arguments");
    const char *command = text_of(stk_json_get(f->root, "command"), NULL);
    if (!command || !result || result->type != STK_JOBJ)
        return 0;
    if (!schema || (schema->type != STK_JINT && schema->type != STK_JFLOAT))
        return stk_err_set(err, STK_E_UNSUPPORTED, path, -1,
                           "not a result: it does not say which schema it has");
    if (schema->f != SCHEMA)
        return stk_err_set(err, STK_E_UNSUPPORTED, path, -1,
                           "a result of schema %g; this stoker reads schema %d: run the command "
                           "again with this version",
                           schema->f, SCHEMA);
    const struct stk_result_kind *k = stk_result_kind_of(command, result);
    if (k && k->needs && !stk_json_get(result, k->needs))
        return stk_err_set(err, STK_E_UNSUPPORTED, path, -1, "the result of `stoker %s` %s",
                           command, k->lacks);
    size_t i = k ? k->subject : 0;
    bool has = arg && arg->type == STK_JARR && i < arg->len;
    f->subject = has ? text_of(&arg->item[i], "") : "";
    if (k && k->subject_of)
        f->subject = k->subject_of(result, f->subject);
    f->command = command;
    f->result = result;
    f->kind = k;
    return 0;
}

/* A file that begins like JSON but is not is damaged; any other file may be a Darshan log. */
int stk_result_file_open(const char *path, struct stk_result_file *f, struct stk_err *err)
{
    struct stk_jval *root;
    int rc = stk_read_file(path, RESULT_MAX, &f->text, err);
    if (rc || !looks_like_json(&f->text))
        return rc;
    rc = stk_json_parse(&f->arena, stk_buf_cstr(&f->text), f->text.len, &root, err);
    if (rc && err && !err->path[0])
        return stk_err_set(err, rc, path, err->offset, "not a result: damaged JSON");
    f->root = rc ? NULL : root;
    return rc || root->type != STK_JOBJ ? rc : open_envelope(path, f, err);
}

void stk_result_file_release(struct stk_result_file *f)
{
    stk_arena_release(&f->arena);
    stk_buf_release(&f->text);
}

/* ---- the schema ----------------------------------------------------------------------------- */

bool stk_result_schema(const char *command, struct stk_buf *out)
{
    struct stk_jw w;
    size_t n = 0;
    stk_jw_init(&w, out, true);
    stk_jw_open(&w, '{');
    stk_jw_put_str(&w, "$schema", "https://json-schema.org/draft/2020-12/schema");
    stk_jw_put_str(&w, "$comment", "the member \"result\" of what --json writes");
    stk_jw_key(&w, "anyOf");
    stk_jw_open(&w, '[');
    for (size_t i = 0; stk_result_kinds[i]; i++) {
        if (strcmp(stk_result_kinds[i]->command, command) != 0)
            continue;
        stk_schema_draw(stk_result_kinds[i], &w);
        n++;
    }
    stk_jw_close(&w, ']');
    stk_jw_close(&w, '}');
    stk_buf_putc(out, '\n');
    return n > 0;
}
