/*
 * fields.c - the table of what is read from the bytes of a file, and how.
 */
#include "advice/fields.h"

#include <string.h>

#include "base/text.h"
#include "analysis/parts.h"

static const struct reading {
    const char *format, *module, *before, *after; /* around the bytes */
} readings[] = {
    {"npy", "numpy", "numpy.load(io.BytesIO(", "))"},
    {"npz", "numpy", "dict(numpy.load(io.BytesIO(", ")))"},
    {"image", "PIL.Image", "PIL.Image.open(io.BytesIO(", "))"},
    {"json", "json", "json.loads(bytes(", "))"},
    {"text", NULL, "str(", ", \"utf-8\")"},
    {NULL, NULL, "io.BytesIO(", ")"}, /* as open() would give it */
};

static const struct reading *reading_of(const struct stk_file_field *f)
{
    const struct reading *r = readings;
    while (r->format && strcmp(r->format, f->format) != 0)
        r++;
    return r;
}

void stk_fields_modules(const struct stk_file_field field[STK_FIELDS], struct stk_buf *out)
{
    const char *first = NULL;
    stk_buf_puts(out, "io");
    for (size_t i = 0; i < STK_FIELDS && field[i].name; i++) {
        const char *module = field[i].parsed ? NULL : reading_of(&field[i])->module;
        if (module && (!first || strcmp(module, first) != 0))
            stk_buf_printf(out, ", %s", module);
        first = first ? first : module;
    }
}

void stk_field_load(const struct stk_file_field field[STK_FIELDS], size_t n, const char *from,
                    struct stk_buf *out)
{
    const struct reading *r = reading_of(&field[n]);
    if (field[n].parsed) {
        stk_buf_puts(out, from);
        return;
    }
    stk_buf_printf(out, "%s%s%s", r->before, from, r->after);
    /* A mask keeps the values of its pixels. */
    if (!n && stk_use_of(field[n].format)->how & STK_USE_PICTURE)
        stk_buf_puts(out, ".convert(\"RGB\")");
}

void stk_fields_show(const struct stk_file_field field[STK_FIELDS], bool labelled, struct stk_buf *out)
{
    for (size_t i = 0; i < STK_FIELDS && field[i].name; i++) {
        stk_buf_puts(out, i ? "; " : "");
        stk_quote_python(out, field[i].name);
        stk_buf_printf(out, ": the %s of each file",
                       field[i].parsed ? "content" : "bytes");
    }
    if (labelled)
        stk_buf_puts(out, "; \"label\": the number of its class");
}
