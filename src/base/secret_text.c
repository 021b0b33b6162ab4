/* secret_text.c - see secret.h: masks secrets in a recorded command. */
#include "base/buf.h"
#include "base/json.h"
#include "base/secret.h"

void stk_secret_put(struct stk_secret *s, const char *word, size_t n, struct stk_buf *out)
{
    for (size_t at = 0, len; at < n; at += len) {
        size_t found = stk_secret_find(s, word, n, at, &len);
        stk_buf_put(out, word + at, found - at);
        if (found == n)
            return;
        stk_buf_puts(out, STK_SECRET_MASK);
        at = found;
    }
    if (!n) /* an empty word is the value of the one before */
        s->next = 0;
}

void stk_secret_text(const char *text, size_t n, struct stk_buf *out)
{
    /* A blank before it: no pair in it extends to the end of the text. */
    struct stk_secret s = {0};
    struct stk_buf whole = STK_BUF_INIT, masked = STK_BUF_INIT;
    stk_buf_putc(&whole, ' ');
    stk_buf_put(&whole, text, n);
    if (whole.fail) { /* better nothing than a secret */
        out->fail = true;
    } else {
        stk_secret_put(&s, (const char *)whole.data, whole.len, &masked);
        if (masked.fail)
            out->fail = true;
        else
            stk_buf_put(out, (const char *)masked.data + 1, masked.len - 1);
    }
    stk_buf_release(&whole);
    stk_buf_release(&masked);
}

/* Writes and releases it. */
static void put_string(struct stk_jw *w, struct stk_buf *b)
{
    stk_jw_str(w, stk_buf_cstr(b));
    w->out->fail = w->out->fail || b->fail;
    stk_buf_release(b);
}

void stk_secret_json_words(struct stk_jw *w, const char *const *word, size_t n)
{
    struct stk_secret s = {0};
    stk_jw_open(w, '[');
    for (size_t i = 0; i < n; i++) {
        struct stk_buf b = STK_BUF_INIT;
        stk_secret_put(&s, word[i], strlen(word[i]), &b);
        put_string(w, &b);
    }
    stk_jw_close(w, ']');
}

void stk_secret_json_text(struct stk_jw *w, const char *text)
{
    struct stk_buf b = STK_BUF_INIT;
    if (!text) {
        stk_jw_null(w);
        return;
    }
    stk_secret_text(text, strlen(text), &b);
    put_string(w, &b);
}
