/*
 * findings.c - findings as fields of a result, and in full on the screen: severity, evidence, what
 * to do, the gain and its reasoning. Lines to paste are never broken, whatever their length.
 */
#include <stdio.h>

#include "base/text.h"
#include "base/units.h"
#include "report/profile.h"
#include "report/report_priv.h"
#include "result/blocks.h"

/* ---- actions -------------------------------------------------------------------------------- */

static void put_number(struct stk_jw *w, const char *key, uint64_t v)
{
    if (key && v)
        stk_jw_put_u64(w, key, v);
}

static void put_word(struct stk_jw *w, const char *key, const char *v)
{
    if (key && v)
        stk_jw_put_str(w, key, v);
}

/* Omits what is not set; a place that only the node knows is null. */
void stk_report_action_json(const struct stk_action *a, struct stk_jw *w)
{
    const struct stk_action_info *i = stk_action_info(a->kind);
    bool pretty = w->pretty;
    stk_jw_open(w, '{');
    w->pretty = false;
    stk_jw_put_str(w, "kind", i->name);
    put_word(w, i->path, a->path);
    if (a->npaths > 1)
        stk_jw_put_strs(w, "paths", a->paths, a->npaths);
    if (i->to && a->to)
        stk_jw_put_str(w, i->to, *a->to ? a->to : NULL);
    put_word(w, "format", a->format);
    put_word(w, "compress", a->codec);
    put_word(w, "framework", stk_framework_name(a->loader.framework));
    put_number(w, "batch", a->loader.batch);
    put_number(w, "threads", a->loader.threads);
    put_word(w, "shuffle", a->loader.shuffle);
    put_word(w, "last", a->loader.last);
    put_word(w, "decode", a->loader.decode);
    put_number(w, i->count, a->count);
    put_number(w, i->bytes, a->bytes);
    put_number(w, i->depth, a->depth);
    if (a->pinned)
        stk_jw_put_bool(w, "pinned", true);
    if (a->instead)
        stk_jw_put_bool(w, "instead", true);
    stk_jw_close(w, '}');
    w->pretty = pretty;
}

static void put_actions(const void *base, struct stk_jw *w)
{
    const struct stk_finding *f = base;
    stk_jw_open(w, '[');
    for (size_t i = 0; i < f->nactions; i++)
        stk_report_action_json(&f->action[i], w);
    stk_jw_close(w, ']');
}

/* ---- the fields ----------------------------------------------------------------------------- */

#define FINDING(member) STK_FROM(struct stk_finding, member)
#define TEXTS(name, list, n)                                                                       \
    static void name(const void *base, struct stk_jw *w)                                           \
    {                                                                                              \
        const struct stk_finding *f = base;                                                        \
        stk_jw_open(w, '[');                                                                       \
        for (size_t i = 0; i < f->n; i++)                                                          \
            stk_jw_str(w, f->list[i]);                                                             \
        stk_jw_close(w, ']');                                                                      \
    }

TEXTS(put_sentences, sentence, nsentences)
TEXTS(put_paths, path, npaths)
STK_TEXT_OF(put_severity, struct stk_finding, stk_severity_name(r->severity))
STK_NUMBER_OF(gain, struct stk_finding, r->gain_s > 0 ? r->gain_s : NAN)
STK_TEXT_OF(put_language, struct stk_snippet, stk_language_name(r->language))

static void put_lines(const void *base, struct stk_jw *w)
{
    const struct stk_finding *f = base;
    stk_jw_open(w, '[');
    for (size_t i = 0; i < f->nsnippets; i++)
        for (const char *s = f->snippet[i].text, *end; (end = strchr(s, '\n')); s = end + 1)
            stk_jw_strn(w, s, (size_t)(end - s));
    stk_jw_close(w, ']');
}

static const char *weight(const struct stk_jval *v)
{
    bool text = v->type == STK_JSTR;
    return text && strcmp(v->str, "high") == 0     ? STK_BAD
           : text && strcmp(v->str, "medium") == 0 ? STK_WARN
                                                   : STK_STRONG;
}

static const struct stk_result_field evidence_fields[] = {
    {"name", NULL, STK_U_TEXT, STK_FROM(struct stk_evidence, name)},
    {"value", NULL, STK_U_PLAIN, STK_FROM(struct stk_evidence, value)},
    {"unit", NULL, STK_U_TEXT, STK_FROM(struct stk_evidence, unit)},
    {NULL}};

static const struct stk_result_field code_fields[] = {
    {"language", NULL, STK_U_TEXT, .put = put_language},
    {"text", NULL, STK_U_TEXT, STK_FROM(struct stk_snippet, text)},
    {NULL}};

const struct stk_result_field stk_finding_fields[] = {
    {"severity", "severity", STK_U_TEXT, .put = put_severity, .tone = weight,
     .meaning = "high, medium, low or note"},
    {"id", "id", STK_U_TEXT, FINDING(id), "the rule, as `stoker advise --list` names it"},
    {"gain_s", "gain", STK_U_SECONDS, .number = gain, .say = "-%", .flags = STK_F_IF_SET,
     .meaning = "seconds of the run that it would save, about; null: not known"},
    {"title", "title", STK_U_TEXT, FINDING(title), .flags = STK_F_CUT_END},
    {"sentences", NULL, STK_U_LIST, .put = put_sentences, .meaning = "the evidence"},
    {"evidence", NULL, STK_U_TABLE, STK_FROM_ARRAY(struct stk_finding, evidence, nevidence),
     "the same as numbers", .of = evidence_fields},
    {"paths", NULL, STK_U_LIST, .put = put_paths,
     .meaning = "the files concerned, most time first"},
    {"what_to_do", NULL, STK_U_TEXT, FINDING(what_to_do)},
    {"actions", NULL, STK_U_TABLE, .put = put_actions,
     .meaning = "the same for programs, in order"},
    {"code", NULL, STK_U_TABLE, STK_FROM_ARRAY(struct stk_finding, snippet, nsnippets),
     "what to paste", .of = code_fields},
    {"lines", NULL, STK_U_LIST, .put = put_lines, .meaning = "the same without the languages"},
    {"gain_why", NULL, STK_U_TEXT, FINDING(gain_why), "how the gain was estimated"},
    {NULL}};

void stk_report_code_json(struct stk_jw *w, const struct stk_snippet *s, size_t n)
{
    stk_jw_key(w, "code");
    stk_rows_put(code_fields, s, n, sizeof *s, w);
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

void stk_put_findings(const void *report, struct stk_jw *w)
{
    const struct stk_report *r = report;
    stk_jw_open(w, '[');
    for (size_t i = 0; i < r->advice->nfindings; i++)
        if (stk_report_shows(r, &r->advice->finding[i])) {
            stk_jw_open(w, '{');
            stk_fields_put(stk_finding_fields, &r->advice->finding[i], w);
            stk_jw_close(w, '}');
        }
    stk_jw_close(w, ']');
}

/* ---- in full -------------------------------------------------------------------------------- */

static const char *language_title(const char *name)
{
    enum stk_language l = STK_SHELL;
    while (l < STK_C && strcmp(stk_language_name(l), name) != 0)
        l++;
    return stk_language_title(l);
}

static void put_code(const char *language, const char *text, struct stk_buf *out)
{
    struct stk_buf shown = STK_BUF_INIT;
    stk_buf_printf(out, "   %s:\n", language_title(language));
    for (const char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
        stk_buf_reset(&shown);
        stk_text_keep(&shown, line, (size_t)(end - line));
        stk_buf_printf(out, "       %s\n", stk_buf_cstr(&shown));
    }
    out->fail = out->fail || shown.fail;
    stk_buf_release(&shown);
}

#define TEXT_OF(row, key) stk_pg_text(row, key, "")

/* "1. high: title (id)"; further lines are indented to the text of the first. */
static void put_title(const struct stk_jval *f, size_t number, const struct stk_screen *s)
{
    char head[32];
    struct stk_buf title = STK_BUF_INIT;
    const struct stk_jval *severity = stk_json_get(f, "severity");
    stk_buf_puts(s->out, severity ? weight(severity) : STK_STRONG);
    size_t at = s->out->len;
    int n = snprintf(head, sizeof head, "%zu. ", number);
    stk_buf_printf(&title, "%s: %s (%s)", TEXT_OF(f, "severity"), TEXT_OF(f, "title"),
                   TEXT_OF(f, "id"));
    stk_report_wrapped(stk_buf_cstr(&title), (unsigned)n, s->columns, s->out);
    if (!s->out->fail && title.len)
        memcpy(s->out->data + at, head, (size_t)n); /* over the blanks of the first line */
    stk_buf_puts(s->out, STK_PLAIN);
    stk_buf_release(&title);
}

static void put_gain(const struct stk_jval *f, const struct stk_screen *s)
{
    char gain_text[40], of[40];
    struct stk_buf text = STK_BUF_INIT;
    double g = stk_pg_get(f, "gain_s"), all = stk_pg_get(s->result, "run_s");
    all = isnan(all) ? stk_pg_get(s->result, "profile.run_s") : all;
    if (g > 0) {
        stk_buf_printf(&text, "Gain: about %s",
                       stk_format_duration(g, gain_text, sizeof gain_text));
        if (all > 0)
            stk_buf_printf(&text, " of %s", stk_format_duration(all, of, sizeof of));
        stk_buf_puts(&text, ". ");
    } else {
        stk_buf_puts(&text, "Gain: unknown from this profile. ");
    }
    stk_buf_puts(&text, TEXT_OF(f, "gain_why"));
    stk_report_wrapped(stk_buf_cstr(&text), 3, s->columns, s->out);
    stk_buf_release(&text);
}

/* The texts of a list, each in lines of its own. */
static void put_where(const struct stk_jval *f, const struct stk_screen *s)
{
    const struct stk_jval *said = stk_json_get(f, "sentences"), *path = stk_json_get(f, "paths");
    for (size_t i = 0; stk_pg_has_rows(said) && i < said->len; i++)
        if (said->item[i].type == STK_JSTR)
            stk_report_wrapped(said->item[i].str, 3, s->columns, s->out);
    for (size_t i = 0; stk_pg_has_rows(path) && i < path->len; i++) {
        stk_buf_puts(s->out, i ? "          " : "   Where: ");
        if (path->item[i].type == STK_JSTR)
            stk_text_escape(s->out, path->item[i].str, path->item[i].len, SIZE_MAX);
        stk_buf_putc(s->out, '\n');
    }
}

static void put_finding(const struct stk_jval *f, size_t number, const struct stk_screen *s)
{
    const struct stk_jval *code = stk_json_get(f, "code");
    put_title(f, number, s);
    put_where(f, s);
    if (*TEXT_OF(f, "what_to_do")) {
        struct stk_buf text = STK_BUF_INIT;
        stk_buf_printf(&text, "What to do: %s", TEXT_OF(f, "what_to_do"));
        stk_report_wrapped(stk_buf_cstr(&text), 3, s->columns, s->out);
        stk_buf_release(&text);
    }
    for (size_t i = 0; stk_pg_has_rows(code) && i < code->len; i++)
        put_code(TEXT_OF(&code->item[i], "language"), TEXT_OF(&code->item[i], "text"), s->out);
    put_gain(f, s);
    stk_buf_putc(s->out, '\n');
}

void stk_draw_verdict(const struct stk_result_field *f, const struct stk_jval *obj,
                      struct stk_screen *s)
{
    stk_screen_end(s);
    stk_buf_puts(s->out, STK_STRONG);
    stk_report_wrapped(stk_pg_text(obj, f->key, ""), 0, s->columns, s->out);
    stk_buf_puts(s->out, STK_PLAIN);
    s->any = !(s->parts & STK_PART_SCREEN); /* there, the findings stand directly below */
}

void stk_draw_findings(const struct stk_result_field *f, const struct stk_jval *obj,
                       struct stk_screen *s)
{
    const struct stk_jval *rows = stk_json_get(obj, f->key);
    double all = stk_pg_get(obj, "findings_total");
    stk_screen_part(s);
    for (size_t i = 0; stk_pg_has_rows(rows) && i < rows->len; i++)
        put_finding(&rows->item[i], i + 1, s);
    if (rows->type == STK_JARR && (double)rows->len < all)
        stk_buf_printf(s->out, "%zu of %.0f findings shown\n", rows->len, all);
}

/* ---- what `stoker advise` shows ------------------------------------------------------------- */

STK_TEXT_OF(put_verdict, struct stk_report, r->advice->verdict)
STK_NUMBER_OF(total, struct stk_report, (double)r->advice->nfindings)
STK_NUMBER_OF(run_s, struct stk_report, r->a->p->run_s)

static const struct stk_result_field advise_fields[] = {
    {"run_s", NULL, STK_U_SECONDS, .number = run_s, .meaning = "of the run that was profiled"},
    {"findings", NULL, STK_U_TABLE, .put = stk_put_findings, .of = stk_finding_fields,
     .draw = stk_draw_findings},
    {"findings_total", NULL, STK_U_COUNT, .number = total,
     .meaning = "listed or not: --only and --min leave some out"},
    {"verdict", NULL, STK_U_PROSE, .put = put_verdict, .flags = STK_F_VERDICT},
    {"verdict", NULL, STK_U_PROSE, .flags = STK_F_VIEW, .draw = stk_draw_verdict},
    {NULL}};

static bool has_findings(const struct stk_jval *result)
{
    return stk_json_get(result, "findings");
}

/* A name in it may not be UTF-8, which a page must be. */
static void put_value(const struct stk_jval *v, struct stk_jw *w)
{
    if (v->type == STK_JSTR) {
        stk_jw_strn(w, v->str, v->len);
    } else if (v->type == STK_JARR || v->type == STK_JOBJ) {
        stk_jw_open(w, v->type == STK_JARR ? '[' : '{');
        for (size_t i = 0; i < v->len; i++) {
            if (v->type == STK_JOBJ)
                stk_jw_key(w, v->name[i].str);
            put_value(&v->item[i], w);
        }
        stk_jw_close(w, v->type == STK_JARR ? ']' : '}');
    } else {
        stk_jw_raw(w, v->raw, v->raw_len);
    }
}

/* As they stand in the result. */
void stk_page_findings(const struct stk_jval *result, struct stk_jw *w)
{
    const struct stk_jval *rows = stk_json_get(result, "findings");
    if (!rows)
        return;
    stk_jw_key(w, "findings");
    put_value(rows, w);
}

const struct stk_result_kind stk_advise_kind = {.command = "advise",
                                                .doing = "Findings of",
                                                .fields = advise_fields,
                                                .findings = stk_page_findings,
                                                .takes = has_findings};

void stk_report_findings(const struct stk_report *r, struct stk_buf *out)
{
    stk_profile_draw(&stk_advise_kind, r, 0, out);
}

void stk_report_findings_json(const struct stk_report *r, struct stk_jw *w)
{
    stk_fields_put(advise_fields, r, w);
}

/* ---- the rules ------------------------------------------------------------------------------ */

struct rule {
    const char *id, *summary;
};

static const struct stk_result_field rule_fields[] = {
    {"id", "id", STK_U_TEXT, STK_FROM(struct rule, id)},
    {"summary", "summary", STK_U_TEXT, STK_FROM(struct rule, summary)},
    {NULL}};

static void put_rules(const void *base, struct stk_jw *w)
{
    struct rule r;
    (void)base;
    stk_jw_open(w, '[');
    for (size_t i = 0; (r.id = stk_rule_id(i, &r.summary)); i++)
        stk_row_put(rule_fields, &r, w);
    stk_jw_close(w, ']');
}

static const struct stk_result_field rules_fields[] = {
    {"rules", "rules", STK_U_TABLE, .put = put_rules, .of = rule_fields, .flags = STK_F_BARE},
    {NULL}};

static bool has_rules(const struct stk_jval *result)
{
    return stk_json_get(result, "rules");
}

const struct stk_result_kind stk_rules_kind = {.command = "advise",
                                               .doing = "Rules",
                                               .subject = SIZE_MAX,
                                               .fields = rules_fields,
                                               .takes = has_rules};
