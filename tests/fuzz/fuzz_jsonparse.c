/* fuzz_jsonparse.c - JSON text parsed into a tree, and walked over as the samples of datasets are.
 */
#include "harness.h"

#include <stdlib.h>

#include "base/json.h"
#include "format/json/text.h"

static void touch_tree(const struct stk_jval *v)
{
    stk_fuzz_touch(v->raw, v->raw_len);
    if (v->type == STK_JSTR)
        stk_fuzz_touch(v->str, v->len + 1);
    for (size_t i = 0; (v->type == STK_JARR || v->type == STK_JOBJ) && i < v->len; i++) {
        if (v->type == STK_JOBJ)
            touch_tree(&v->name[i]);
        touch_tree(&v->item[i]);
    }
}

/* Written again by the writer, a value must be read as the same one. */
static void write_tree(struct stk_jw *w, const struct stk_jval *v)
{
    switch (v->type) {
    case STK_JSTR:
        stk_jw_strn(w, v->str, v->len);
        break;
    case STK_JINT:
        stk_jw_i64(w, v->i);
        break;
    case STK_JFLOAT:
        stk_jw_f64(w, v->f);
        break;
    case STK_JBOOL:
        stk_jw_bool(w, v->b);
        break;
    case STK_JNULL:
        stk_jw_null(w);
        break;
    case STK_JARR:
        stk_jw_open(w, '[');
        for (size_t i = 0; i < v->len; i++)
            write_tree(w, &v->item[i]);
        stk_jw_close(w, ']');
        break;
    case STK_JOBJ:
        stk_jw_open(w, '{');
        for (size_t i = 0; i < v->len; i++) {
            stk_jw_key(w, v->name[i].str); /* ends at a NUL within the name: still a name */
            write_tree(w, &v->item[i]);
        }
        stk_jw_close(w, '}');
        break;
    }
}

static void read_again(const struct stk_jval *v)
{
    struct stk_buf b = STK_BUF_INIT;
    struct stk_arena a = STK_ARENA_INIT;
    struct stk_jval *back;
    struct stk_jw w;
    stk_jw_init(&w, &b, false);
    write_tree(&w, v);
    if (stk_json_parse(&a, (const char *)b.data, b.len, &back, NULL))
        stk_fuzz_broken("what the JSON writer writes the parser reads");
    stk_arena_release(&a);
    stk_buf_release(&b);
}

int fuzz_jsonparse(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    struct stk_arena a = STK_ARENA_INIT;
    struct stk_jval *v;
    struct stk_err err = {0};
    if (!text)
        return 0;
    memcpy(text, data, size);
    struct stk_json_cur c = stk_json_record(text, size, NULL);
    struct stk_json_leaves leaves = {0};
    stk_json_space(&c);
    bool walked = stk_json_walk(&c, 0, &leaves) == 0;
    if (c.p > c.end)
        stk_fuzz_broken("a JSON value ends within its text");
    if (stk_json_parse(&a, text, size, &v, &err) == 0) {
        if (!walked || c.p != v->raw + v->raw_len)
            stk_fuzz_broken("walking and parsing agree on where a value ends");
        touch_tree(v);
        read_again(v);
    } else if (err.offset < 0 || err.offset > (int64_t)size) {
        stk_fuzz_broken("a JSON error names the byte");
    }
    stk_arena_release(&a);
    free(text);
    return 0;
}
