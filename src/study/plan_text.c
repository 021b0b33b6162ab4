/*
 * plan_text.c - shows what a plan runs to people who decide whether it may: every text that
 * reaches a program or a shell. Secrets are masked, and nothing in it can control a terminal.
 */
#include "base/quote.h"
#include "base/secret.h"
#include "base/text.h"
#include "study/priv.h"

static void put_words(const char *label, const char *const *word, struct stk_buf *out)
{
    struct stk_secret secret = {0};
    if (!word || !*word)
        return;
    stk_buf_printf(out, "  %s:", label);
    for (; *word; word++) {
        struct stk_buf b = STK_BUF_INIT;
        stk_secret_put(&secret, *word, strlen(*word), &b);
        stk_buf_putc(out, ' ');
        stk_quote_word(out, stk_buf_cstr(&b), b.len);
        out->fail = out->fail || b.fail;
        stk_buf_release(&b);
    }
    stk_buf_putc(out, '\n');
}

static void put_line(const char *label, const char *text, size_t n, struct stk_buf *out)
{
    struct stk_buf b = STK_BUF_INIT;
    stk_secret_text(text, n, &b);
    stk_buf_printf(out, "  %s: ", label);
    stk_text_escape(out, stk_buf_cstr(&b), b.len, SIZE_MAX);
    stk_buf_putc(out, '\n');
    out->fail = out->fail || b.fail;
    stk_buf_release(&b);
}

/* Line by line: a script has many. */
static void put_text(const char *label, const char *text, struct stk_buf *out)
{
    while (text && *text) {
        size_t n = strcspn(text, "\n");
        put_line(label, text, n, out);
        text += n + (text[n] == '\n');
    }
}

void stk_runner_plan_text(const struct stk_runner_plan *p, struct stk_buf *out)
{
    put_text("in", p->cwd, out);
    put_words(p->shell ? "for sh" : "command", p->argv, out);
    for (size_t i = 0; i < p->nvariants; i++) {
        put_words("environment", p->variant[i].env, out);
        put_words(p->shell ? "for sh" : "command", p->variant[i].argv, out);
    }
    put_text("before each run, for sh", p->prepare, out);
    put_text("launcher", p->launcher, out);
    put_text("container", p->container, out);
    put_words("sbatch", p->sbatch, out);
    put_text("batch file", p->batch_head, out);
    put_line("via", p->via->name, strlen(p->via->name), out);
}
