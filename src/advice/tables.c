/*
 * tables.c - the rule about text: a dataset kept as CSV, TSV or JSON lines that every run
 * parses again. A program may compute between its reads as well: parsing takes as long as parsers
 * take for so many bytes.
 */
#include <math.h>
#include <string.h>

#include "advice/priv.h"
#include "format/format.h"
#include "analysis/parts.h"

struct text {
    double bytes, distinct, size, reads, read_s, files;
    double from_s, to_s, parse_s; /* the first read, the last, and what reads and parses between */
    const struct stk_usage *first;
    const char *path; /* of its one file, or of the folder of all its files */
};

static bool is_packed(const struct stk_usage *u)
{
    size_t n = strlen(u->name);
    return n > 3 && strcmp(u->name + n - 3, ".gz") == 0;
}

/* Seconds that a parser takes for what a process read: no more than the process computed. */
static double parse_s(const struct stk_usage *u, double bytes, double cpu_s)
{
    double text = is_packed(u) ? bytes * stk_limits.text_gz : bytes;
    double s = text / STK_PARSE_BPS;
    return cpu_s > 0 ? fmin(s, cpu_s) : s;
}

/* Adds the seconds of reading and parsing between a process's first and last read of the file,
 * averaged over the readers. A program that only passes text on (cat) computes
 * nothing: it waits for others. */
static void add_span(const struct advisor *ad, const struct stk_usage *u, struct text *t)
{
    double work = 0, n = 0;
    for (size_t i = u->rec_from; i < u->rec_to; i++) {
        const struct stk_prof_rec *r = &ad->p->rec[i];
        const uint64_t *c = r->n.c;
        if (!stk_api_moves(r->api) || !c[STK_C_READ_BYTES] ||
            c[STK_C_LAST_READ_NS] < c[STK_C_FIRST_READ_NS])
            continue;
        double span = stk_ns(c[STK_C_LAST_READ_NS] - c[STK_C_FIRST_READ_NS]);
        double cpu = r->proc < ad->p->nprocs ? ad->p->proc[r->proc].cpu_s : 0;
        double start = r->proc < ad->p->nprocs ? ad->p->proc[r->proc].start_s : 0;
        double from = start + stk_ns(c[STK_C_FIRST_READ_NS]);
        t->from_s = t->to_s > 0 ? fmin(t->from_s, from) : from;
        t->to_s = fmax(t->to_s, start + stk_ns(c[STK_C_LAST_READ_NS]));
        work += fmin(span, stk_ns(c[STK_C_READ_NS]) + parse_s(u, (double)c[STK_C_READ_BYTES], cpu));
        n++;
    }
    t->parse_s += n > 0 ? work / n : 0;
}

static bool is_read(const struct stk_usage *u)
{
    return u->n.c[STK_C_READ_BYTES] && !stk_kind_model(u);
}

static bool is_text(const struct stk_usage *u)
{
    bool one_value = stk_kind_sample(u); /* a JSON file */
    return stk_kind_table(u) && !one_value && !u->n.c[STK_C_WRITE_BYTES] &&
           u->distinct_bytes >= stk_limits.text_bytes;
}

static bool is_in_folder_of(const struct stk_usage *u, const struct stk_usage *first)
{
    const char *a = strrchr(u->name, '/'), *b = strrchr(first->name, '/');
    return a && b && a - u->name == b - first->name &&
           memcmp(u->name, first->name, (size_t)(b - first->name)) == 0;
}

/* Parts of one table: read as often, and of the same use. */
static bool is_like(const struct stk_usage *u, const struct stk_usage *first)
{
    double often = fmax(u->reread, first->reread), seldom = fmin(u->reread, first->reread);
    return is_text(u) && strcmp(u->format, first->format) == 0 && is_in_folder_of(u, first) &&
           stk_kind_evaluated(u->name) == stk_kind_evaluated(first->name) &&
           often < stk_limits.alike * seldom;
}

/* A folder is a dataset if nothing else in it was read: a table of another use is none of it. */
static bool is_all_of_folder(const struct advisor *ad, const struct stk_usage *first)
{
    size_t like = 0;
    for (size_t i = 0; i < ad->a->nfiles; i++) {
        const struct stk_usage *u = &ad->a->file[i];
        if (is_read(u) && is_in_folder_of(u, first) && !is_like(u, first))
            return false;
        like += is_read(u) && is_like(u, first);
    }
    return like > 1;
}

static void add_text(const struct advisor *ad, const struct stk_usage *u, struct text *t)
{
    t->files++;
    t->bytes += (double)u->n.c[STK_C_READ_BYTES];
    t->size += (double)u->size_bytes;
    t->reads += (double)u->n.c[STK_C_READS];
    t->read_s += u->read_s;
    add_span(ad, u, t);
}

/* The table that takes most time: one file, or all files of a folder. What is packed is what the
 * numbers are about. */
static struct text sum_text(struct advisor *ad, double *others)
{
    struct text t = {0};
    *others = 0;
    for (size_t i = 0; i < ad->a->nfiles; i++) {
        const struct stk_usage *u = &ad->a->file[i];
        if (is_read(u))
            *(is_text(u) ? &t.distinct : others) += (double)u->distinct_bytes;
        if (is_read(u) && is_text(u) && !t.first)
            t.first = u;
    }
    bool all = t.first && is_all_of_folder(ad, t.first);
    for (size_t i = 0; t.first && i < ad->a->nfiles; i++) {
        const struct stk_usage *u = &ad->a->file[i];
        if (u == t.first || (all && is_read(u) && is_like(u, t.first)))
            add_text(ad, u, &t);
    }
    t.path = all ? stk_advice_parent(ad, t.first->name) : t.first ? t.first->name : NULL;
    return t;
}

/* Bytes of packed data per byte of the text. */
static double packed_bytes(const struct text *t, bool records)
{
    double grown = records ? stk_limits.text_in_records : stk_limits.text_in_arrays;
    return is_packed(t->first) ? grown * stk_limits.text_gz : grown;
}

/* The loader gives the cells of a table as a value per row and column, also where the program parses
 * whole files at once. A line that stays one record is cheap. */
static double batches_s(const struct advisor *ad, const struct text *t, bool records)
{
    double text = is_packed(t->first) ? t->bytes * stk_limits.text_gz : t->bytes;
    return records ? 0 : text / ad->ranks / STK_LOADER_TABLE_BPS;
}

void stk_rule_csv_to_records(struct advisor *ad)
{
    double others;
    struct text t = sum_text(ad, &others);
    /* Labels or a configuration beside the real data need no conversion. */
    if (!t.first || t.distinct < others)
        return;
    bool pieces = t.reads >= (double)stk_limits.text_reads &&
                  t.bytes / t.reads <= (double)stk_limits.text_read;
    double span = (1 - ad->hidden) * t.parse_s; /* workers may be ahead */
    if (!pieces && stk_advice_share(ad, span) < stk_limits.medium_share)
        return;
    const struct stk_storage *st = stk_advice_storage(ad, t.first);
    struct stk_action pack = stk_advice_pack(ad, t.path);
    struct stk_action loader = stk_advice_loader_for(ad, t.first, pack.to);
    const struct stk_format *format = stk_format_find(t.first->format);
    pack.format = format && format->packs_as ? format->packs_as : pack.format;
    bool records = stk_format_find(pack.format)->caps & STK_CAN_CODEC;
    double grown = packed_bytes(&t, records);
    bool mixed = strcmp(loader.loader.shuffle ? loader.loader.shuffle : "block", "none") != 0;
    double loaded = mixed ? stk_loader_windows(t.bytes, t.size, ad->ranks) : t.bytes;
    loaded *= grown;
    /* What the program parses, it does not compute any more. */
    double compute = stk_compute_of(ad->a) - t.parse_s;
    double better =
        stk_advice_load_s(ad, st, loaded, 0, compute) + batches_s(ad, &t, records);
    double gain = fmax(0, span - better);
    if (!pieces && !stk_advice_matters(ad, gain))
        return;
    const char *path = t.path;
    struct stk_finding *f =
        stk_advice_begin(ad, STK_RULE_CSV_TO_RECORDS, stk_advice_severity(ad, gain),
                         "the dataset is text (%s) that is parsed on every run", t.first->format);
    stk_advice_say(ad, f, "%s%s: %s in %s reads of %s.", stk_advice_show(ad, path),
                   t.files > 1 ? stk_advice_text(ad, " (%s files)", stk_advice_count(ad, t.files))
                               : "",
                   stk_advice_size(ad, t.bytes), stk_advice_count(ad, t.reads),
                   stk_advice_size(ad, t.bytes / t.reads));
    stk_advice_say(ad, f,
                   "From the first read to the last it took %s; reads took %s, and a parser takes "
                   "about %s.",
                   stk_advice_time(ad, t.to_s - t.from_s), stk_advice_thread_time(ad, t.read_s),
                   stk_advice_time(ad, fmax(0, t.parse_s - t.read_s)));
    stk_advice_number(ad, f, "read_bytes", t.bytes, "bytes");
    stk_advice_number(ad, f, "mean_read_bytes", t.bytes / t.reads, "bytes");
    stk_advice_number(ad, f, "parse_s", span, "s");
    stk_advice_path(ad, f, path);
    pack.depth = stk_kind_evaluated(t.first->name) || !ad->trains ? 0 : 1;
    stk_advice_do(ad, f,
                  "Convert it once into binary records: they need no parsing, and can be "
                  "shuffled, divided among ranks and read ahead.%s",
                  pack.depth ? " --shuffle mixes the rows while packing: leave it out if their "
                               "order matters."
                             : "");
    stk_advice_act(ad, f, pack);
    stk_advice_load(ad, f, loader);
    const char *now = stk_advice_time(ad, span), *then = stk_advice_time(ad, better);
    if (gain > 0)
        stk_advice_gain(ad, f, gain, "%s of reading and parsing become about %s: reads of %s of "
                        "packed data, and batches of its rows.",
                        now, then, stk_advice_size(ad, loaded));
    else
        stk_advice_gain(ad, f, 0, "Reading and parsing take %s; the loader's small batches of such "
                        "rows may take %s. `stoker tune` measures it.",
                        now, then);
}
