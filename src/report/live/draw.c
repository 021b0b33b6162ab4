/* draw.c - a look as a result: its members, from which the screen and a sentence are drawn. */
#include <stdio.h>

#include "base/text.h"
#include "report/json_priv.h"
#include "report/live/priv.h"
#include "result/blocks.h"
#include "result/page.h"
#include "result/screen.h"

static const struct {
    const char *name, *mark;
} states[] = {[STK_LOOK_RUNS] = {"running", STK_GOOD},
              [STK_LOOK_SILENT] = {"silent", STK_WARN},
              [STK_LOOK_ENDED] = {"ended", STK_STRONG},
              [STK_LOOK_DIED] = {"died", STK_BAD}};

const char *stk_look_tone(const struct stk_jval *state)
{
    for (size_t i = 0; i < STK_PG_COUNT(states); i++)
        if (state->type == STK_JSTR && strcmp(state->str, states[i].name) == 0)
            return states[i].mark;
    return NULL;
}

/* ---- its members --------------------------------------------------------------------------- */

static void put_number(struct stk_jw *w, const char *key, const char *end, double v)
{
    char name[64];
    snprintf(name, sizeof name, "%s%s", key, end);
    stk_jw_key(w, name);
    if (v >= 0 && v < 9e15 && v == floor(v))
        stk_jw_u64(w, (uint64_t)v);
    else
        stk_jw_f64(w, v);
}

static void put_figure(struct stk_jw *w, const struct stk_look_figure *f)
{
    if (f->text) {
        stk_jw_put_str(w, f->key, f->text);
        return;
    }
    put_number(w, f->key, "", f->value);
    if (!isnan(f->of)) {
        put_number(w, f->key, "_total", f->of);
        put_number(w, f->key, "_share", f->of > 0 ? f->value / f->of : NAN);
    }
    if (f->counts || !isnan(f->per_s))
        put_number(w, f->key, "_per_s", f->per_s);
}

static void put_table(struct stk_jw *w, const struct stk_look_table *t)
{
    put_array(w, t->key);
    for (size_t r = 0; r < t->nrows; r++) {
        bool pretty = open_row(w);
        for (size_t i = 0; i < t->ncolumns; i++) {
            const struct stk_look_cell *c = &t->cell[r * t->ncolumns + i];
            if (t->column[i].unit == STK_U_TEXT)
                stk_jw_put_str(w, t->column[i].key, c->text);
            else if (t->column[i].unit == STK_U_FLAG)
                stk_jw_put_bool(w, t->column[i].key, r == t->slowest);
            else
                put_number(w, t->column[i].key, "", c->value);
        }
        close_row(w, pretty);
    }
    stk_jw_close(w, ']');
}

void stk_look_json(const struct stk_look *l, struct stk_jw *w)
{
    stk_jw_put_str(w, "kind", l->kind->name);
    stk_jw_put_str(w, "title", l->title);
    stk_jw_put_str(w, "state", states[l->state].name);
    stk_jw_put_str(w, "why", l->why);
    stk_jw_put_f64(w, "elapsed_s", l->elapsed_s);
    stk_jw_put_f64(w, "left_s", l->left_s);
    for (size_t i = 0; i < l->nfigures; i++)
        put_figure(w, &l->figure[i]);
    if (l->table.key)
        put_table(w, &l->table);
    stk_jw_put_strs(w, "notes", l->note, l->nnotes);
}

/* ---- drawing ------------------------------------------------------------------------------- */

/* In the arena; NULL: no memory. */
static const struct stk_jval *result_of(const struct stk_look *l, struct stk_arena *arena)
{
    struct stk_buf text = STK_BUF_INIT;
    struct stk_jval *result = NULL;
    struct stk_jw w;
    stk_jw_init(&w, &text, false);
    stk_jw_open(&w, '{');
    stk_look_json(l, &w);
    stk_jw_close(&w, '}');
    const char *own = text.fail ? NULL : stk_arena_dup(arena, (const char *)text.data, text.len);
    if (!own || stk_json_parse(arena, own, text.len, &result, NULL) != 0)
        result = NULL;
    stk_buf_release(&text);
    return result;
}

void stk_look_text(const struct stk_look *l, const struct stk_look_frame *f, struct stk_buf *out)
{
    const struct stk_result_kind kind = {.fields = l->kind->fields, .fits = true};
    struct stk_screen s = {.columns = f->columns, .rows = f->rows, .utf8 = f->utf8, .out = out};
    struct stk_arena arena = STK_ARENA_INIT;
    const struct stk_jval *result = result_of(l, &arena);
    if (result)
        stk_screen_draw(&kind, result, &s);
    else
        out->fail = true;
    stk_arena_release(&arena);
}

static void put_sentence(const struct stk_result_field *fields, const struct stk_jval *result,
                         struct stk_buf *out)
{
    struct stk_screen s = {.line = true, .any = true, .out = out};
    double left = stk_pg_get(result, "left_s");
    const char *why = stk_pg_text(result, "why", NULL);
    char a[48];
    stk_buf_puts(out, stk_pg_text(result, "state", ""));
    stk_screen_fields(fields, result, &s);
    if (left >= 0)
        stk_buf_printf(out, ", about %s left", stk_unit_text(STK_U_SECONDS, left, a, sizeof a));
    if (why) {
        stk_buf_puts(out, "; ");
        stk_text_escape(out, why, strlen(why), SIZE_MAX);
    }
}

void stk_look_sentence(const struct stk_look *l, struct stk_buf *out)
{
    struct stk_arena arena = STK_ARENA_INIT;
    const struct stk_jval *result = result_of(l, &arena);
    if (result)
        put_sentence(l->kind->fields, result, out);
    else
        out->fail = true;
    stk_arena_release(&arena);
}

bool stk_look_is(const struct stk_jval *result, const char *command, const char *table)
{
    return strcmp(stk_pg_text(result, "kind", ""), command) == 0 &&
           (!table || stk_json_get(result, table));
}

void stk_look_verdict(const struct stk_jval *result, struct stk_buf *out)
{
    stk_buf_printf(out, "%s: %s", stk_pg_text(result, "kind", ""),
                   stk_pg_text(result, "state", "unknown"));
}
