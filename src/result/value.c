/* value.c - values as people read them: the one place that rounds. web/src/units.js does the same. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/units.h"
#include "result/blocks.h"

static uint64_t nearest(double v)
{
    return v > 0 ? v < 1.8e19 ? (uint64_t)(v + 0.5) : UINT64_MAX : 0;
}

static void seconds(double s, char *buf, size_t size)
{
    if (s <= 0)
        snprintf(buf, size, "0 s");
    else if (s < 0.9995e-6) /* a read from the page cache takes less than a microsecond */
        snprintf(buf, size, "%.0f ns", s * 1e9);
    else if (s < 9.95e-6)
        snprintf(buf, size, "%.1f us", s * 1e6);
    else
        stk_format_duration(s, buf, size);
}

static void per_s(double v, char *buf, size_t size)
{
    char one[40];
    if (v >= 99.95)
        snprintf(buf, size, "%s/s", stk_format_count(nearest(v), one, sizeof one));
    else
        snprintf(buf, size, "%.3g/s", v);
}

const char *stk_unit_text(enum stk_unit unit, double v, char *buf, size_t size)
{
    char one[40];
    if (!isfinite(v))
        snprintf(buf, size, "-");
    else if (unit == STK_U_COUNT)
        snprintf(buf, size, "%s%s", v < 0 ? "-" : "", stk_format_count(nearest(fabs(v)), one, sizeof one));
    else if (unit == STK_U_BYTES || unit == STK_U_BYTES_PER_S)
        snprintf(buf, size, "%s%s%s", v < 0 ? "-" : "",
                 stk_format_size(nearest(fabs(v)), one, sizeof one),
                 unit == STK_U_BYTES ? "" : "/s");
    else if (unit == STK_U_SECONDS)
        seconds(v, buf, size);
    else if (unit == STK_U_SHARE)
        stk_format_share(v, buf, size);
    else if (unit == STK_U_ID)
        snprintf(buf, size, "%.0f", v);
    else if (unit == STK_U_TIMES)
        stk_format_times(v, buf, size);
    else if (unit == STK_U_PER_S)
        per_s(v, buf, size);
    else
        stk_format_number(v, buf, size);
    return buf;
}

const char *stk_unit_name(enum stk_unit unit)
{
    static const char *const name[] = {
        [STK_U_PLAIN] = "",        [STK_U_COUNT] = "count", [STK_U_BYTES] = "B",
        [STK_U_BYTES_PER_S] = "B/s", [STK_U_PER_S] = "per s", [STK_U_SECONDS] = "s",
        [STK_U_SHARE] = "share",   [STK_U_TIMES] = "x",     [STK_U_ID] = "",           [STK_U_FLAG] = "text",
        [STK_U_TEXT] = "text",     [STK_U_PROSE] = "prose", [STK_U_LIST] = "text",
        [STK_U_GROUP] = "",        [STK_U_TABLE] = "",      [STK_U_ANY] = ""};
    return name[unit];
}

static void put_list(const struct stk_jval *v, struct stk_buf *out)
{
    char text[48];
    for (size_t i = 0; i < v->len; i++) {
        const struct stk_jval *one = &v->item[i];
        stk_buf_puts(out, i ? ", " : "");
        if (one->type == STK_JSTR)
            stk_text_escape(out, one->str, one->len, SIZE_MAX);
        else if (one->type == STK_JINT || one->type == STK_JFLOAT)
            stk_buf_puts(out, stk_unit_text(STK_U_PLAIN, one->f, text, sizeof text));
    }
}

bool stk_field_set(const struct stk_result_field *f, const struct stk_jval *v)
{
    if (v->type == STK_JNULL)
        return false;
    if (f->flags & STK_F_IF_MANY)
        return v->f > 1;
    if (!(f->flags & STK_F_IF_SET))
        return true;
    switch (v->type) {
    case STK_JBOOL: return v->b;
    case STK_JINT:
    case STK_JFLOAT: return v->f != 0;
    default: return v->len > 0;
    }
}

/* A name on the screen: others may have chosen it. A column that is cut shows its end. */
#define NAME_COLUMNS 1000
static size_t room_of(const struct stk_result_field *f)
{
    return f->unit == STK_U_PROSE || f->flags & STK_F_CUT ? SIZE_MAX : NAME_COLUMNS;
}

void stk_field_text(const struct stk_result_field *f, const struct stk_jval *v, struct stk_buf *out)
{
    char text[48];
    if (v && f->none && !stk_field_set(f, v)) {
        stk_buf_puts(out, f->none);
    } else if (v && v->type == STK_JSTR) {
        const char *s = f->word ? f->word(v->str) : v->str;
        if (f->flags & STK_F_ESCAPED)
            stk_text_keep(out, s, strlen(s));
        else
            stk_text_escape(out, s, f->word ? strlen(s) : v->len, room_of(f));
    } else if (v && v->type == STK_JBOOL) {
        stk_buf_puts(out, v->b ? "yes" : "no");
    } else if (v && v->type == STK_JARR) {
        put_list(v, out);
    } else {
        bool number = v && (v->type == STK_JINT || v->type == STK_JFLOAT);
        stk_buf_puts(out, stk_unit_text(f->unit, number ? v->f : NAN, text, sizeof text));
    }
}

const char stk_plus_minus[] = "\xc2\xb1";

struct stk_result_field stk_field_in(const struct stk_result_field *f,
                                     const struct stk_jval *result)
{
    struct stk_result_field here = *f;
    const char *title = f->titled ? stk_pg_text(result, f->titled, NULL) : NULL;
    if (title) {
        here.title = f->flags & STK_F_OWN_TITLE ? f->title : title;
        here.unit = STK_U_PLAIN;
    }
    return here;
}

const struct stk_jval *stk_rows_of(const struct stk_result_field *f, const struct stk_jval *obj,
                                   struct stk_pair *made)
{
    if (!f->pair[0])
        return stk_field_of(f, obj);
    *made = (struct stk_pair){.rows = {.type = STK_JARR, .item = made->item}};
    for (size_t i = 0; i < 2; i++) {
        const struct stk_jval *v = stk_json_get(obj, f->pair[i]);
        if (v && v->type == STK_JOBJ)
            made->item[made->rows.len++] = *v;
    }
    return &made->rows;
}

bool stk_column_shown(const struct stk_result_field *f, const struct stk_jval *rows)
{
    for (size_t i = 0; f->flags & STK_F_IF_SET && i < rows->len; i++)
        if (stk_field_shown(f, stk_pg_at(&rows->item[i], f->key)))
            return true;
    return !(f->flags & STK_F_IF_SET);
}

struct stk_jval stk_rows_those(const struct stk_result_field *f, const struct stk_jval *rows)
{
    struct stk_jval some = {.type = STK_JARR};
    some.item = calloc(rows->len + 1, sizeof *some.item);
    for (size_t i = 0; some.item && i < rows->len; i++)
        if (!f->which || (rows->item[i].type == STK_JOBJ && f->which(&rows->item[i])))
            some.item[some.len++] = rows->item[i];
    return some;
}

bool stk_field_shown(const struct stk_result_field *f, const struct stk_jval *v)
{
    return v && (stk_field_set(f, v) || f->none);
}
