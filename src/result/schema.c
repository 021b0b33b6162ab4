/* schema.c - the JSON Schema of a kind of result, from its fields. */
#include <string.h>

#include "result/page.h"

static const char *type_of(enum stk_unit unit)
{
    switch (unit) {
    case STK_U_FLAG: return "boolean";
    case STK_U_TEXT:
    case STK_U_PROSE: return "string";
    case STK_U_LIST:
    case STK_U_TABLE: return "array";
    case STK_U_GROUP: return "object";
    case STK_U_ID:
    case STK_U_COUNT: return "integer";
    case STK_U_ANY: return NULL;
    default: return "number";
    }
}

static void put_properties(const struct stk_result_field *f, struct stk_jw *w);

static void put_field(const struct stk_result_field *f, struct stk_jw *w)
{
    bool object = f->flags & STK_F_MAP || (f->unit == STK_U_ANY && f->of);
    const char *type = object ? "object" : type_of(f->unit), *unit = stk_unit_name(f->unit);
    stk_jw_key(w, f->key);
    stk_jw_open(w, '{');
    if (f->title)
        stk_jw_put_str(w, "title", f->title);
    if (f->meaning)
        stk_jw_put_str(w, "description", f->meaning);
    if (type) {
        const char *const types[] = {type, "null"};
        stk_jw_put_strs(w, "type", types, f->unit == STK_U_FLAG && !(f->flags & STK_F_KNOWN) ? 1 : 2);
    }
    if (f->unit < STK_U_FLAG && *unit)
        stk_jw_put_str(w, "unit", unit);
    if ((f->unit == STK_U_GROUP || f->unit == STK_U_ANY) && f->of)
        put_properties(f->of, w);
    if (f->unit == STK_U_TABLE && f->of) {
        stk_jw_key(w, f->flags & STK_F_MAP ? "additionalProperties" : "items");
        stk_jw_open(w, '{');
        stk_jw_put_str(w, "type", "object");
        put_properties(f->of, w);
        stk_jw_close(w, '}');
    }
    stk_jw_close(w, '}');
}

static void put_members(const struct stk_result_field *f, struct stk_jw *w)
{
    for (; f->key; f++) {
        if (f->flags & STK_F_VIEW)
            continue;
        if (*f->key)
            put_field(f, w);
        else
            put_members(f->of, w);
    }
}

static void put_properties(const struct stk_result_field *f, struct stk_jw *w)
{
    stk_jw_key(w, "properties");
    stk_jw_open(w, '{');
    put_members(f, w);
    stk_jw_close(w, '}');
}

void stk_schema_draw(const struct stk_result_kind *kind, struct stk_jw *w)
{
    stk_jw_open(w, '{');
    stk_jw_put_str(w, "title", kind->doing);
    stk_jw_put_str(w, "type", "object");
    put_properties(kind->fields, w);
    stk_jw_close(w, '}');
}
