/*
 * shell.c - the file around the data: style, script, and a place for the data, made by web/build.js
 * and carried by the library, compressed.
 */
#include <string.h>
#include <zlib.h>

#include "report/html/page.h"

/* Empty in a build without the page (web/meson.build). */
extern const unsigned char stk_page_shell[];
extern const size_t stk_page_shell_packed, stk_page_shell_bytes;

int stk_page_check(struct stk_err *err)
{
    if (stk_page_shell_bytes)
        return 0;
    return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                       "this stoker was built without the page: it needs Node.js and npm at build "
                       "time (Debian: nodejs, npm); run `tools/setup page` and `make` again, or "
                       "build from a release tarball, which contains the page");
}

static const char place[] = "@DATA@";

/* The data stands in a script element: without "<" it can neither end the element nor open a
 * comment. In JSON, "<" occurs in strings only. */
static void put_data(const struct stk_buf *data, struct stk_buf *out)
{
    size_t from = 0;
    for (size_t i = 0; i < data->len; i++) {
        if (data->data[i] != '<')
            continue;
        stk_buf_put(out, data->data + from, i - from);
        stk_buf_puts(out, "\\u003c");
        from = i + 1;
    }
    stk_buf_put(out, data->data + from, data->len - from);
}

/* Puts the data at its place in the shell. */
static int fill(const struct stk_buf *shell, const struct stk_buf *data, struct stk_buf *out,
                struct stk_err *err)
{
    const uint8_t *at = memmem(shell->data, shell->len, place, sizeof place - 1);
    if (!at)
        return stk_err_set(err, STK_E_CORRUPT, NULL, -1, "the page has no place for its data");
    size_t before = (size_t)(at - shell->data), after = before + sizeof place - 1;
    stk_buf_put(out, shell->data, before);
    put_data(data, out);
    stk_buf_put(out, shell->data + after, shell->len - after);
    return stk_buf_check(out, err);
}

int stk_page_html(const struct stk_buf *data, struct stk_buf *out, struct stk_err *err)
{
    struct stk_buf shell = STK_BUF_INIT;
    uLongf n = (uLongf)stk_page_shell_bytes;
    int rc = stk_page_check(err);
    if (!rc && !stk_buf_extend(&shell, n))
        rc = stk_err_nomem(err, n);
    if (!rc && uncompress(shell.data, &n, stk_page_shell, (uLong)stk_page_shell_packed) != Z_OK)
        rc = stk_err_set(err, STK_E_CORRUPT, NULL, -1, "the page in this build is damaged");
    rc = rc ? rc : fill(&shell, data, out, err);
    stk_buf_release(&shell);
    return rc;
}
