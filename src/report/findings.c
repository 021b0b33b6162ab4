/*
 * findings.c - findings in full: severity, evidence, what to do, the gain and its reasoning. Lines
 * to paste are never broken, whatever their length.
 */
#include <stdio.h>

#include "base/text.h"
#include "base/units.h"
#include "result/grid.h"
#include "report/report_priv.h"

static void put_gain(const struct stk_report *r, const struct stk_finding *f, struct stk_buf *out)
{
    char gain[40], share[16];
    struct stk_buf text = STK_BUF_INIT;
    if (f->gain_s > 0) {
        stk_buf_printf(&text, "Gain: about %s", stk_format_duration(f->gain_s, gain, sizeof gain));
        if (r->a->p->run_s > 0)
            stk_buf_printf(&text, " of %s",
                           stk_format_duration(r->a->p->run_s, share, sizeof share));
        stk_buf_puts(&text, ". ");
    } else {
        stk_buf_puts(&text, "Gain: unknown from this profile. ");
    }
    if (f->gain_why)
        stk_buf_puts(&text, f->gain_why);
    stk_report_wrapped(stk_buf_cstr(&text), 3, r->columns, out);
    stk_buf_release(&text);
}

/* "1. high: title (id)"; further lines are indented to the text of the first. */
static void put_title(const struct stk_report *r, const struct stk_finding *f, size_t number,
                      struct stk_buf *out)
{
    char head[32];
    struct stk_buf title = STK_BUF_INIT;
    stk_buf_puts(out, stk_word_weight(f->severity));
    size_t at = out->len;
    int n = snprintf(head, sizeof head, "%zu. ", number);
    stk_buf_printf(&title, "%s: %s (%s)", stk_severity_name(f->severity), f->title, f->id);
    stk_report_wrapped(stk_buf_cstr(&title), (unsigned)n, r->columns, out);
    if (!out->fail && title.len)
        memcpy(out->data + at, head, (size_t)n); /* over the blanks of the first line */
    stk_buf_puts(out, STK_PLAIN);
    stk_buf_release(&title);
}

void stk_report_code(const struct stk_snippet *s, size_t n, int indent, struct stk_buf *out)
{
    struct stk_buf shown = STK_BUF_INIT;
    for (size_t i = 0; i < n; i++) {
        stk_buf_printf(out, "%*s%s:\n", indent, "", stk_language_title(s[i].language));
        for (const char *line = s[i].text, *end; (end = strchr(line, '\n')); line = end + 1) {
            struct stk_buf one = STK_BUF_INIT;
            stk_buf_put(&one, line, (size_t)(end - line));
            stk_buf_printf(out, "%*s%s\n", indent + 4, "",
                           stk_word_command(&shown, stk_buf_cstr(&one), SIZE_MAX));
            out->fail = out->fail || one.fail;
            stk_buf_release(&one);
        }
    }
    out->fail = out->fail || shown.fail;
    stk_buf_release(&shown);
}

static void put_finding(const struct stk_report *r, const struct stk_finding *f, size_t number,
                        struct stk_buf *out)
{
    put_title(r, f, number, out);
    for (size_t i = 0; i < f->nsentences; i++)
        stk_report_wrapped(f->sentence[i], 3, r->columns, out);
    for (size_t i = 0; i < f->npaths; i++) {
        stk_buf_puts(out, i ? "          " : "   Where: ");
        stk_text_escape(out, f->path[i], strlen(f->path[i]), SIZE_MAX);
        stk_buf_putc(out, '\n');
    }
    if (f->what_to_do && *f->what_to_do) {
        struct stk_buf text = STK_BUF_INIT;
        stk_buf_printf(&text, "What to do: %s", f->what_to_do);
        stk_report_wrapped(stk_buf_cstr(&text), 3, r->columns, out);
        stk_buf_release(&text);
    }
    stk_report_code(f->snippet, f->nsnippets, 3, out);
    put_gain(r, f, out);
}

bool stk_report_shows(const struct stk_report *r, const struct stk_finding *f)
{
    if (f->severity < r->least)
        return false;
    for (const char *const *one = r->only; one && *one; one++)
        if (strcmp(*one, f->id) == 0)
            return true;
    return !r->only;
}

void stk_report_findings(const struct stk_report *r, struct stk_buf *out)
{
    const struct stk_advice *adv = r->advice;
    size_t shown = 0;
    for (size_t i = 0; i < adv->nfindings; i++) {
        if (!stk_report_shows(r, &adv->finding[i]))
            continue;
        put_finding(r, &adv->finding[i], ++shown, out);
        stk_buf_putc(out, '\n');
    }
    if (shown < adv->nfindings)
        stk_buf_printf(out, "%zu of %zu findings shown\n", shown, adv->nfindings);
    stk_buf_puts(out, STK_STRONG);
    stk_report_wrapped(adv->verdict, 0, r->columns, out);
    stk_buf_puts(out, STK_PLAIN);
}

void stk_report_rules(struct stk_buf *out)
{
    struct stk_grid t;
    const char *id, *summary;
    stk_grid_init(&t, "ll");
    for (size_t i = 0; (id = stk_rule_id(i, &summary)); i++)
        stk_grid_row(&t, id, summary);
    stk_grid_render(&t, 0, out);
    stk_grid_release(&t);
}

void stk_report_notes(const struct stk_report *r, struct stk_buf *out)
{
    const struct stk_profile *p = r->a->p;
    stk_report_heading("not seen, or left out", out);
    if (!p->nnotes)
        stk_buf_puts(out, "  nothing\n");
    for (size_t i = 0; i < p->nnotes; i++)
        stk_report_wrapped(p->note[i], 2, r->columns, out);
}
