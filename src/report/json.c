/*
 * json.c - a whole profile, for programs. Names are those of the structs and counters and do not
 * change; unknown values are null. Each row of a long table is on one line.
 */
#include "report/json_priv.h"

/* ---- counts -------------------------------------------------------------------------------- */

static void put_numbers(struct stk_jw *w, const char *key, const uint64_t *v, size_t n)
{
    put_array(w, key);
    for (size_t i = 0; i < n; i++)
        stk_jw_u64(w, v[i]);
    stk_jw_close(w, ']');
}

static void put_common(struct stk_jw *w, const char *key, const struct stk_common_value *v,
                       bool is_signed)
{
    put_array(w, key);
    for (size_t i = 0; i < STK_COMMON; i++) {
        if (!v[i].count)
            continue;
        stk_jw_open(w, '{');
        stk_jw_key(w, "bytes");
        if (is_signed)
            stk_jw_i64(w, (int64_t)v[i].value);
        else
            stk_jw_u64(w, v[i].value);
        stk_jw_put_u64(w, "count", v[i].count);
        stk_jw_close(w, '}');
    }
    stk_jw_close(w, ']');
}

/* The members "counters", "read_size", …: one line each, since there are many. */
static void put_counts(struct stk_jw *w, const struct stk_counts *n)
{
    uint64_t latency[STK_LATENCY_BINS];
    stk_jw_key(w, "counters");
    bool pretty = open_row(w);
    for (unsigned c = 0; c < STK_C_COUNT; c++) {
        stk_jw_key(w, stk_counter_name((enum stk_counter)c));
        /* A minimum of nothing. */
        if (n->c[c] == UINT64_MAX)
            stk_jw_null(w);
        else
            stk_jw_u64(w, n->c[c]);
    }
    stk_jw_close(w, '}');
    for (size_t i = 0; i < STK_LATENCY_BINS; i++)
        latency[i] = n->read_latency[i];
    put_numbers(w, "read_size", n->read_size, STK_SIZE_BINS);
    put_numbers(w, "write_size", n->write_size, STK_SIZE_BINS);
    put_numbers(w, "read_latency", latency, STK_LATENCY_BINS);
    put_common(w, "common_sizes", n->size, false);
    put_common(w, "common_strides", n->stride, true);
    w->pretty = pretty;
}

/* ---- usages -------------------------------------------------------------------------------- */

static void put_ratios(struct stk_jw *w, const struct stk_usage *u)
{
    stk_jw_put_f64(w, "mean_read_bytes", u->mean_read_bytes);
    stk_jw_put_f64(w, "mean_write_bytes", u->mean_write_bytes);
    stk_jw_put_f64(w, "bandwidth_Bps", u->bandwidth_Bps);
    stk_jw_put_f64(w, "seq", u->seq);
    stk_jw_put_f64(w, "consec", u->consec);
    stk_jw_put_f64(w, "random", u->random);
    stk_jw_put_f64(w, "small", u->small);
    stk_jw_put_f64(w, "small_time", u->small_time);
    stk_jw_put_f64(w, "reread", u->reread);
    stk_jw_put_f64(w, "rank_overlap", u->rank_overlap);
    stk_jw_put_f64(w, "latency_p50_s", u->latency_p50_s);
    stk_jw_put_f64(w, "latency_p99_s", u->latency_p99_s);
}

static void put_usage(struct stk_jw *w, const struct stk_usage *u)
{
    stk_jw_put_str(w, "name", u->name);
    stk_jw_put_str(w, "format", u->format);
    stk_jw_put_u64(w, "files", u->files);
    stk_jw_put_bool(w, "files_exact", u->files_exact);
    stk_jw_put_u64(w, "files_read", u->files_read);
    stk_jw_put_u64(w, "files_written", u->files_written);
    stk_jw_put_u64(w, "files_read_once", u->files_read_once);
    stk_jw_put_u64(w, "size_bytes", u->size_bytes);
    stk_jw_put_u64(w, "distinct_bytes", u->distinct_bytes);
    stk_jw_put_bool(w, "distinct_exact", u->exact);
    stk_jw_put_u64(w, "rank_distinct_bytes", u->rank_distinct_bytes);
    stk_jw_put_u64(w, "ranks", u->ranks);
    stk_jw_put_u64(w, "procs", u->procs);
    stk_jw_put_f64(w, "io_s", u->io_s);
    stk_jw_put_f64(w, "read_s", u->read_s);
    stk_jw_put_f64(w, "write_s", u->write_s);
    stk_jw_put_f64(w, "meta_s", u->meta_s);
    stk_jw_put_f64(w, "io_share", u->io_share);
    put_ratios(w, u);
    put_counts(w, &u->n);
}

/* How its arrays are stored. */
static void put_layouts(struct stk_jw *w, unsigned layouts)
{
    stk_jw_key(w, "arrays");
    stk_jw_open(w, '[');
    if (layouts & STK_LAYOUT_WHOLE)
        stk_jw_str(w, "whole");
    if (layouts & STK_LAYOUT_CHUNKS)
        stk_jw_str(w, "chunks");
    stk_jw_close(w, ']');
}

static void put_files(struct stk_jw *w, const struct stk_analysis *a)
{
    put_array(w, "files");
    for (size_t i = 0; i < a->nfiles; i++) {
        const struct stk_prof_file *f = a->file[i].file;
        bool pretty = open_row(w);
        put_usage(w, &a->file[i]);
        stk_jw_put_bool(w, "group", f->group);
        stk_jw_put_str(w, "fs", f->fs);
        stk_jw_put_u64(w, "stripe_bytes", f->stripe_bytes);
        stk_jw_put_u64(w, "stripe_count", f->stripe_count);
        put_layouts(w, f->layouts);
        close_row(w, pretty);
    }
    stk_jw_close(w, ']');
}

static void put_usages(struct stk_jw *w, const char *key, const struct stk_usage *u, size_t n)
{
    put_array(w, key);
    for (size_t i = 0; i < n; i++) {
        bool pretty = open_row(w);
        put_usage(w, &u[i]);
        close_row(w, pretty);
    }
    stk_jw_close(w, ']');
}

/* ---- one process's use of one file through one API --------------------------------------- */

static void put_records(struct stk_jw *w, const struct stk_profile *p)
{
    put_array(w, "records");
    for (size_t i = 0; i < p->nrecs; i++) {
        const struct stk_prof_rec *rec = &p->rec[i];
        if (rec->proc >= p->nprocs || rec->file >= p->nfiles)
            continue;
        bool pretty = open_row(w);
        stk_jw_put_str(w, "path", p->file[rec->file].path);
        stk_jw_put_u64(w, "process", rec->proc);
        stk_jw_put_u64(w, "pid", p->proc[rec->proc].pid);
        stk_jw_put_str(w, "api", stk_api_name((enum stk_api)rec->api));
        stk_jw_put_u64(w, "distinct_bytes", rec->distinct_bytes);
        put_counts(w, &rec->n);
        close_row(w, pretty);
    }
    stk_jw_close(w, ']');
}

/* ---- findings ------------------------------------------------------------------------------ */

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
    bool pretty = open_row(w);
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
    close_row(w, pretty);
}

void stk_report_code_json(struct stk_jw *w, const struct stk_snippet *s, size_t n)
{
    stk_jw_key(w, "code");
    stk_jw_open(w, '[');
    for (size_t i = 0; i < n; i++) {
        stk_jw_open(w, '{');
        stk_jw_put_str(w, "language", stk_language_name(s[i].language));
        stk_jw_put_str(w, "text", s[i].text);
        stk_jw_close(w, '}');
    }
    stk_jw_close(w, ']');
}

static void put_lines(struct stk_jw *w, const char *text)
{
    for (const char *end; (end = strchr(text, '\n')); text = end + 1)
        stk_jw_strn(w, text, (size_t)(end - text));
}

static void put_finding(struct stk_jw *w, const struct stk_finding *f)
{
    stk_jw_open(w, '{');
    stk_jw_put_str(w, "id", f->id);
    stk_jw_put_str(w, "severity", stk_severity_name(f->severity));
    stk_jw_put_str(w, "title", f->title);
    stk_jw_put_strs(w, "sentences", f->sentence, f->nsentences);
    put_array(w, "evidence");
    for (size_t i = 0; i < f->nevidence; i++) {
        bool pretty = open_row(w);
        stk_jw_put_str(w, "name", f->evidence[i].name);
        stk_jw_put_f64(w, "value", f->evidence[i].value);
        stk_jw_put_str(w, "unit", f->evidence[i].unit);
        close_row(w, pretty);
    }
    stk_jw_close(w, ']');
    stk_jw_put_strs(w, "paths", f->path, f->npaths);
    stk_jw_put_str(w, "what_to_do", f->what_to_do);
    put_array(w, "actions");
    for (size_t i = 0; i < f->nactions; i++)
        stk_report_action_json(&f->action[i], w);
    stk_jw_close(w, ']');
    stk_report_code_json(w, f->snippet, f->nsnippets);
    put_array(w, "lines"); /* the same without the languages */
    for (size_t i = 0; i < f->nsnippets; i++)
        put_lines(w, f->snippet[i].text);
    stk_jw_close(w, ']');
    stk_jw_put_known_f64(w, "gain_s", f->gain_s > 0 ? f->gain_s : -1);
    stk_jw_put_str(w, "gain_why", f->gain_why);
    stk_jw_close(w, '}');
}

static void put_findings(struct stk_jw *w, const struct stk_report *r)
{
    const struct stk_advice *adv = r->advice;
    stk_jw_put_str(w, "verdict", adv->verdict);
    put_array(w, "findings");
    for (size_t i = 0; i < adv->nfindings; i++)
        if (stk_report_shows(r, &adv->finding[i]))
            put_finding(w, &adv->finding[i]);
    stk_jw_close(w, ']');
}

void stk_report_findings_json(const struct stk_report *r, struct stk_jw *w)
{
    put_findings(w, r);
    stk_jw_put_u64(w, "findings_total", r->advice->nfindings);
}

void stk_report_rules_json(struct stk_jw *w)
{
    const char *id, *summary;
    put_array(w, "rules");
    for (size_t i = 0; (id = stk_rule_id(i, &summary)); i++) {
        stk_jw_open(w, '{');
        stk_jw_put_str(w, "id", id);
        stk_jw_put_str(w, "summary", summary);
        stk_jw_close(w, '}');
    }
    stk_jw_close(w, ']');
}

void stk_report_json(const struct stk_report *r, struct stk_jw *w)
{
    const struct stk_analysis *a = r->a;
    stk_rj_profile(w, a);
    stk_jw_key(w, "job");
    stk_jw_open(w, '{');
    put_usage(w, &a->job);
    stk_jw_close(w, '}');
    put_findings(w, r);
    stk_rj_time(w, a);
    stk_rj_ranks(w, a);
    stk_rj_processes(w, a->p);
    put_usages(w, "formats", a->format, a->nformats);
    put_usages(w, "directories", a->dir, a->ndirs);
    stk_jw_put_u64(w, "files_total", a->p->nfiles);
    put_files(w, a);
    put_records(w, a->p);
    stk_jw_put_strs(w, "notes", a->p->note, a->p->nnotes);
}
