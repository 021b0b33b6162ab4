/* open_options.c - the table of the options for opening a dataset, and their choices. */
#include "dataset/open_options.h"

#include <stdlib.h>
#include <string.h>

#include "format/format.h"
#include "format/csv/csv.h"

const char *const *stk_format_names(void)
{
    static const char *names[64];
    for (size_t i = 0; i < 63 && stk_format_at(i) && !stk_format_at(i)->instead; i++)
        names[i] = stk_format_at(i)->name;
    return names;
}

const char *const *stk_payload_names(void)
{
    static const char *names[64] = {"auto"};
    for (size_t i = 0, n = 1; n < 63 && stk_codec_at(i); i++)
        if (stk_codec_at(i)->payload)
            names[n++] = stk_codec_at(i)->name;
    return names;
}

const char *const stk_header_names[] = {"auto", "yes", "no", NULL};
const char *const stk_delimiter_names[] = {"auto", "comma", "semicolon", "tab", "bar", NULL};

const struct stk_opt stk_open_opts[] = {
    STK_OPEN_READ_OPTIONS(0),
    STK_OPEN_INDEX_OPTIONS(0),
    STK_OPEN_BUILD_OPTIONS(0),
    STK_OPEN_PROGRAM_OPTIONS(0),
    {.name = NULL},
};

/* ---- --header, --delimiter and --types ------------------------------------------------------- */

static const struct {
    const char *name;
    char type;
} types[] = {{"int", STK_CSV_INT},   {"float", STK_CSV_FLOAT}, {"text", STK_CSV_TEXT},
             {"bool", STK_CSV_BOOL}, {"json", STK_CSV_JSON},   {"bytes", STK_CSV_BYTES}};

static char type_named(const char *p, size_t n)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strlen(types[i].name) == n && memcmp(types[i].name, p, n) == 0)
            return types[i].type;
    for (const char *w = STK_CSV_WIDTHS; *w; w++) {
        const char *name = stk_dtype_name(stk_csv_dtype(*w));
        if (strlen(name) == n && memcmp(name, p, n) == 0)
            return *w;
    }
    return 0;
}

int stk_columns_parse(const char *spec, char **out, struct stk_err *err)
{
    struct stk_buf b = STK_BUF_INIT;
    *out = NULL;
    while (spec && *spec) {
        size_t n = strcspn(spec, ",");
        const char *equals = memrchr(spec, '=', n);
        char type = equals ? type_named(equals + 1, n - (size_t)(equals + 1 - spec)) : 0;
        if (!type || equals == spec) {
            stk_buf_release(&b);
            return stk_err_set(err, STK_E_USAGE, NULL, -1,
                               "types are given as NAME=int, float, text, bool, json or bytes (or "
                               "as float32, uint8, ...), separated by commas; not as '%.*s'",
                               (int)(n < 200 ? n : 200), spec);
        }
        stk_buf_putc(&b, type);
        stk_buf_put(&b, spec, (size_t)(equals - spec));
        stk_buf_putc(&b, '\n');
        spec += n + (spec[n] == ',');
    }
    if (b.len) {
        (void)stk_buf_cstr(&b);
        *out = strdup((const char *)b.data);
    }
    int rc = b.len && !*out ? stk_err_nomem(err, b.len) : stk_buf_check(&b, err);
    stk_buf_release(&b);
    return rc;
}

int stk_columns_header(const char *text, struct stk_err *err)
{
    if (!text || strcmp(text, "auto") == 0)
        return STK_HEADER_AUTO;
    if (strcmp(text, "yes") == 0 || strcmp(text, "no") == 0)
        return *text == 'y' ? STK_HEADER_YES : STK_HEADER_NO;
    return stk_err_set(err, STK_E_USAGE, NULL, -1, "a header is yes, no or auto, not '%s'", text);
}

int stk_columns_delimiter(const char *text, struct stk_err *err)
{
    static const char delimiters[] = {0, ',', ';', '\t', '|'};
    for (size_t i = 0; text && stk_delimiter_names[i]; i++)
        if (strcmp(text, stk_delimiter_names[i]) == 0)
            return delimiters[i];
    return !text ? 0
                 : stk_err_set(err, STK_E_USAGE, NULL, -1,
                               "a delimiter is comma, semicolon, tab, bar or auto, not '%s'", text);
}
