/* side.c - see side.h. */
#include "result/side.h"

#include <stdio.h>
#include <string.h>

#include "result/blocks.h"

#define ALIKE 0.01 /* two runs never take the same time */

static void add_figures(struct stk_side *s, const struct stk_result_field *f, unsigned hidden)
{
    for (; f->key; f++) {
        bool any = false;
        if (f->unit == STK_U_GROUP)
            add_figures(s, f->of, hidden);
        if (f == s->first || !f->title || f->unit >= STK_U_PROSE || f->flags & hidden)
            continue;
        for (size_t k = 0; k < s->rows->len; k++) {
            const struct stk_jval *v = stk_json_get(&s->rows->item[k], f->key);
            any = any || (v && stk_field_set(f, v));
        }
        s->cut = s->cut || (any && s->n == STK_SIDE_LINES);
        if (any && !s->cut)
            s->figure[s->n++] = f;
    }
}

static bool is_same(const struct stk_jval *a, const struct stk_jval *b)
{
    if (!a || !b || a->type == STK_JSTR || b->type == STK_JSTR)
        return a && b && a->type == b->type && strcmp(a->str, b->str) == 0;
    return a->raw_len == b->raw_len && memcmp(a->raw, b->raw, a->raw_len) == 0;
}

/* The row of the table in that column with that key. */
static const struct stk_jval *find(const struct stk_side *s, size_t column,
                                   const struct stk_jval *key)
{
    const struct stk_jval *in = stk_json_get(&s->rows->item[column], s->inner->key);
    for (size_t i = 0; stk_pg_has_rows(in) && i < in->len && i < STK_SIDE_LINES; i++)
        if (is_same(stk_json_get(&in->item[i], s->inner->of->key), key))
            return &in->item[i];
    return NULL;
}

static void add_keys(struct stk_side *s)
{
    for (size_t k = 0; k < s->rows->len; k++) {
        const struct stk_jval *in = stk_json_get(&s->rows->item[k], s->inner->key);
        s->cut = s->cut || (stk_pg_has_rows(in) && in->len > STK_SIDE_LINES);
        for (size_t i = 0; stk_pg_has_rows(in) && i < in->len && s->n < STK_SIDE_LINES; i++) {
            const struct stk_jval *key = stk_json_get(&in->item[i], s->inner->of->key);
            bool there = !key;
            for (size_t j = 0; j < s->n && !there; j++)
                there = is_same(stk_json_get(s->row[j], s->inner->of->key), key);
            if (!there)
                s->row[s->n++] = &in->item[i];
        }
    }
}

void stk_side_of(struct stk_side *s, const struct stk_result_field *f, const struct stk_jval *rows,
                 unsigned hidden)
{
    *s = (struct stk_side){.rows = rows, .first = f->of};
    for (const struct stk_result_field *of = f->of; of->key; of++)
        if (of->unit == STK_U_TABLE && of->flags & STK_F_SIDE)
            s->inner = of;
    for (const struct stk_result_field *of = s->inner ? s->inner->of : NULL; of && of->key; of++)
        if (strcmp(of->key, s->inner->by) == 0)
            s->cell = of;
    if (s->inner && s->cell)
        add_keys(s);
    else
        add_figures(s, f->of, hidden);
}

const struct stk_result_field *stk_side_field(const struct stk_side *s, size_t line)
{
    return s->cell ? s->cell : s->figure[line];
}

const struct stk_jval *stk_side_cell(const struct stk_side *s, size_t line, size_t column)
{
    if (!s->cell)
        return stk_json_get(&s->rows->item[column], s->figure[line]->key);
    const struct stk_jval *row =
        find(s, column, stk_json_get(s->row[line], s->inner->of->key));
    return row ? stk_json_get(row, s->cell->key) : NULL;
}

static double number(const struct stk_jval *v)
{
    return v && (v->type == STK_JINT || v->type == STK_JFLOAT) ? v->f : NAN;
}

const char *stk_side_change(const struct stk_side *s, size_t line, char *buf, size_t size)
{
    double before = number(stk_side_cell(s, line, 0)), after = number(stk_side_cell(s, line, 1));
    double ratio = after / before;
    char times[32];
    if (!(before >= 0) || !(after >= 0))
        snprintf(buf, size, "-");
    else if (stk_side_field(s, line)->unit == STK_U_SHARE)
        snprintf(buf, size, "%+.1f points", 100 * (after - before));
    else if (before > 0 && after > 0 && fabs(ratio - 1) >= ALIKE)
        snprintf(buf, size, "%s %s",
                 stk_unit_text(STK_U_TIMES, ratio < 1 ? 1 / ratio : ratio, times, sizeof times),
                 ratio < 1 ? "less" : "more");
    else
        snprintf(buf, size, "%s", (before > 0) == (after > 0) ? "same" : before > 0 ? "none" : "new");
    return buf;
}
