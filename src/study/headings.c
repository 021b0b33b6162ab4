/*
 * headings.c - headings of tables: names that people, spreadsheets, sacct, hyperfine, JUBE and
 * ReFrame use, with units in brackets or behind an underscore, and summaries such as "_avg".
 */
#include "study/study.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static const struct name {
    enum stk_table_col column;
    const char *unit;
    unsigned rank;
    const char *words; /* lower case, with '_' for blanks; the first is the name in --columns */
} names[] = {
    {STK_COL_N, NULL, 0, "n"},
    {STK_COL_TIME, NULL, 0,
     "time t wall walltime wall_time wallclock wall_clock elapsed elapsed_time elapsedraw runtime "
     "run_time duration real"},
    {STK_COL_REPEAT, NULL, 0, "repeat run"},
    {STK_COL_SERIES, NULL, 0, "series name"},
    {STK_COL_CORES, "cores", 0, "cores ncores"},
    {STK_COL_GPUS, "GPUs", 0, "gpus ngpus"},
    {STK_COL_NODES, "nodes", 0, "nodes allocnodes nnodes"},
    {STK_COL_HOST, NULL, 0, "host node nodelist hostname"},
    {STK_COL_STATUS, NULL, 0, "status state"},
    {STK_COL_KIND, NULL, 0, "kind gpu gpu_kind node_kind"},
    {STK_COL_NOTE, NULL, 0, "note"},
    {STK_COL_JOB, NULL, 0, "job jobid job_id jobidraw"},
    {STK_COL_QUEUE, NULL, 0, "queue planned reserved"}, /* sacct; "reserved" before 22.05 */
    {STK_COL_VALUE, NULL, 0, "value metric"},
    {STK_COL_RATE, NULL, 0, "rate throughput"},
#define CANONICAL 15                   /* those above: --columns knows them */
    {STK_COL_TIME, NULL, 1, "median"}, /* hyperfine */
    {STK_COL_TIME, NULL, 2, "mean"},
    {STK_COL_CORES, "CPUs", 0, "cpus ncpus alloccpus"},
    {STK_COL_TRES, NULL, 0, "alloctres"},
    {STK_COL_COUNT, "threads", 0, "threads nthreads"},
    {STK_COL_COUNT, "ranks", 0, "ranks mpi_ranks world_size"},
    {STK_COL_COUNT, "processes", 0, "processes procs nprocs np"},
    {STK_COL_COUNT, "tasks", 0, "tasks ntasks"},
    {STK_COL_COUNT, "workers", 0, "workers"},
    {STK_COL_COUNT, "jobs", 0, "jobs"},
};
#define NAMES (sizeof names / sizeof *names)

/* Whether a word, in any case, is one of several that are separated by blanks. */
static bool is_among(const char *word, const char *words)
{
    size_t n = strlen(word);
    for (; *words; words += strcspn(words, " "), words += *words == ' ')
        if (strcspn(words, " ") == n && strncasecmp(words, word, n) == 0)
            return n > 0;
    return false;
}

/* ---- units -------------------------------------------------------------------------------- */

static const struct {
    double seconds;
    const char *words;
} time_units[] = {
    {1, "s sec secs second seconds"},         {1e-3, "ms msec msecs millisecond milliseconds"},
    {1e-6, "us \xc2\xb5s usec microseconds"}, {1e-9, "ns nsec nanoseconds"},
    {60, "min mins minute minutes"},          {3600, "h hr hrs hour hours"},
};

static double seconds_of(const char *unit)
{
    for (size_t i = 0; i < sizeof time_units / sizeof *time_units; i++)
        if (is_among(unit, time_units[i].words))
            return time_units[i].seconds;
    return 0;
}

static bool ends(const char *text, const char *end)
{
    size_t n = strlen(text), k = strlen(end);
    return n >= k && strcasecmp(text + n - k, end) == 0;
}

/* "img/s", "tokens per second", "GFLOPS". */
static bool is_rate(const char *text)
{
    static const char *const ends_of[] = {"/s",    "/sec",  "/second",    "per_second", "per_sec",
                                          "per_s", "flops", "per second", "per sec",    "per s"};
    for (size_t i = 0; i < sizeof ends_of / sizeof *ends_of; i++)
        if (strlen(text) > strlen(ends_of[i]) && ends(text, ends_of[i]))
            return true;
    return strcasecmp(text, "fps") == 0 || strcasecmp(text, "ips") == 0;
}

/* ---- names -------------------------------------------------------------------------------- */

struct parts {
    char name[STK_HEADING_MAX + 1]; /* lower case, with '_' for blanks */
    char unit[STK_HEADING_MAX + 1]; /* from the brackets; "": none */
    bool parameter;
};

static void copy(char *to, const char *p, size_t n)
{
    while (n && (p[n - 1] == ' ' || p[n - 1] == '\t'))
        n--;
    snprintf(to, STK_HEADING_MAX + 1, "%.*s", (int)(n < STK_HEADING_MAX ? n : STK_HEADING_MAX), p);
}

static void split(const char *text, struct parts *out)
{
    size_t n = strlen(text);
    const char *open = n && text[n - 1] == ')'   ? strrchr(text, '(')
                       : n && text[n - 1] == ']' ? strrchr(text, '[')
                                                 : NULL;
    *out = (struct parts){0};
    if (open && open > text) {
        copy(out->unit, open + 1, (size_t)(text + n - 1 - open - 1));
        n = (size_t)(open - text);
    }
    if (strncasecmp(text, "parameter_", 10) == 0) { /* hyperfine */
        text += 10;
        n -= 10;
        out->parameter = true;
    }
    copy(out->name, text, n);
    for (char *p = out->name; *p; p++)
        *p = *p == ' ' || *p == '-' ? '_' : (char)tolower((unsigned char)*p);
}

static const struct name *find_exact(const char *name)
{
    for (size_t i = 0; i < NAMES; i++)
        if (is_among(name, names[i].words))
            return &names[i];
    return NULL;
}

/* Also "number_of_gpus", if it can be N. */
static const struct name *find(const char *name)
{
    static const char *const number[] = {"number_of_", "num_", "nr_of_", "no_of_", "n_", "#_", "#"};
    const struct name *found = find_exact(name);
    for (size_t i = 0; i < sizeof number / sizeof *number && !found; i++)
        if (strncmp(name, number[i], strlen(number[i])) == 0)
            found = find_exact(name + strlen(number[i]));
    return found && (found->unit || found == find_exact(name)) ? found : NULL;
}

static bool one_of(const char *p, size_t n, const char *const *words)
{
    for (; *words; words++)
        if (strlen(*words) == n && memcmp(*words, p, n) == 0)
            return true;
    return false;
}

/* "epoch_time", "time_per_step": the time of something, if no heading says it better. */
static bool is_vague_time(const char *name)
{
    static const char *const others[] = {"cpu",  "user",   "sys",   "system", "start",
                                         "end",  "submit", "begin", "queue",  "wait",
                                         "idle", "io",     NULL};
    static const char *const none[] = {"limit", "stamp", "zone", NULL};
    size_t n = strlen(name);
    if (n > 5 && strcmp(name + n - 5, "_time") == 0)
        return !one_of(name, n - 5, others);
    return strncmp(name, "time_", 5) == 0 && !one_of(name + 5, n - 5, none);
}

/* "time_2", "t3", "run1": one of several runs. */
static bool is_numbered_time(const char *name)
{
    static const char *const runs[] = {"run", "rep", "repeat", "trial", NULL};
    char plain[STK_HEADING_MAX + 1];
    size_t n = strlen(name), digits = 0;
    while (digits < n && isdigit((unsigned char)name[n - 1 - digits]))
        digits++;
    if (!digits || digits == n)
        return false;
    n -= digits;
    n -= n > 1 && (name[n - 1] == '_' || name[n - 1] == '.');
    copy(plain, name, n);
    const struct name *found = find_exact(plain);
    return one_of(plain, n, runs) || (found && found->column == STK_COL_TIME && !found->rank);
}

/* Cuts "_avg" off. Returns its rank; 0: there is none, -1: a summary that is not a typical value.
 */
static int cut_summary(char *name)
{
    static const struct {
        const char *end;
        int rank;
    } ends_of[] = {{"_median", 1}, {"_med", 1},    {"_avg", 2},    {"_mean", 2},    {"_average", 2},
                   {"_min", -1},   {"_max", -1},   {"_std", -1},   {"_stddev", -1}, {"_sum", -1},
                   {"_cnt", -1},   {"_count", -1}, {"_first", -1}, {"_last", -1}};
    for (size_t i = 0; i < sizeof ends_of / sizeof *ends_of; i++)
        if (strlen(name) > strlen(ends_of[i].end) && ends(name, ends_of[i].end)) {
            name[strlen(name) - strlen(ends_of[i].end)] = '\0';
            return ends_of[i].rank;
        }
    return 0;
}

/* Cuts "_ms" off. Returns its seconds; 0: there is no unit. */
static double cut_unit(char *name)
{
    char *end = strrchr(name, '_');
    double factor = end && end > name ? seconds_of(end + 1) : 0;
    if (factor > 0)
        *end = '\0';
    return factor;
}

/* Finds the name with and without what may stand behind it, and sets factor and rank. */
static const struct name *find_cut(char *name, struct stk_heading *h)
{
    const struct name *found = find(name);
    for (int i = 0; i < 2 && !found; i++) {
        int rank = cut_summary(name);
        if (rank < 0) {
            name[0] = '\0'; /* whatever it is the minimum of */
            return NULL;
        }
        h->rank = rank > 0 ? (unsigned)rank : h->rank;
        found = find(name);
        double factor = found ? 0 : cut_unit(name);
        h->factor = factor > 0 ? factor : h->factor;
        found = found ? found : find(name);
    }
    bool time = found && (found->column == STK_COL_TIME || found->column == STK_COL_QUEUE);
    if (found && h->factor != 1 && !time)
        found = NULL; /* "cores_ms" is not cores */
    if (found && found->rank)
        h->rank = found->rank;
    return found;
}

/* ---- headings ----------------------------------------------------------------------------- */

/* False: the unit does not fit the column. */
static bool take_unit(const struct parts *p, struct stk_heading *h)
{
    if (!p->unit[0] || (h->column != STK_COL_TIME && h->column != STK_COL_QUEUE))
        return true;
    double factor = seconds_of(p->unit);
    if (strchr(p->unit, ':')) {
        h->hours = strcasecmp(p->unit, "h:mm") == 0 || strcasecmp(p->unit, "hh:mm") == 0;
        factor = 1;
    }
    h->factor = factor > 0 ? factor : h->factor;
    return factor > 0;
}

static void name_rate(const struct parts *p, const char *name, struct stk_heading *h)
{
    const char *plain = h->column == STK_COL_RATE ? "rate" : "value";
    const char *best = p->unit[0] ? p->unit : find(name) ? plain : name;
    copy(h->name, best, strlen(best));
}

static bool same(const char *heading, const struct parts *p, const char *wanted)
{
    struct parts w;
    split(wanted, &w);
    return strcasecmp(heading, wanted) == 0 || (!w.unit[0] && strcmp(w.name, p->name) == 0);
}

static enum stk_table_col mapped(const struct stk_headings *map, const char *text,
                                 const struct parts *p)
{
    for (size_t i = 0; map && i < map->n; i++)
        if (same(text, p, map->v[i].heading))
            return map->v[i].column;
    return STK_COL_NONE;
}

/* True when it names a heading for the column. map may be NULL. */
static bool are_mapped(const struct stk_headings *map, enum stk_table_col c)
{
    for (size_t i = 0; map && i < map->n; i++)
        if (map->v[i].column == c)
            return true;
    return false;
}

/* If times were chosen by name, values found by chance are not compared. */
static bool is_ousted(const struct stk_headings *map, enum stk_table_col c)
{
    bool value = c == STK_COL_RATE || c == STK_COL_VALUE;
    return are_mapped(map, c) || (c == STK_COL_COUNT && are_mapped(map, STK_COL_N)) ||
           (value && (are_mapped(map, STK_COL_TIME) || are_mapped(map, STK_COL_RATE) ||
                      are_mapped(map, STK_COL_VALUE)));
}

static void by_name(const char *text, const struct parts *p, char *name, struct stk_heading *h)
{
    const struct name *found = find_cut(name, h);
    double factor = strlen(p->name) > 1 && strcmp(p->name, "min") != 0 ? seconds_of(p->name) : 0;
    if (found) {
        h->column = found->column;
        h->unit = found->unit;
    } else if (is_rate(p->name) || is_rate(p->unit)) {
        h->column = STK_COL_RATE;
        h->factor = 1;
        copy(name, text, strlen(text));
    } else if (factor > 0) { /* "seconds" */
        h->column = STK_COL_TIME;
        h->factor = factor;
    } else if (is_numbered_time(name)) {
        h->column = STK_COL_TIME;
    } else if (is_vague_time(name)) {
        h->column = STK_COL_TIME;
        h->rank += STK_HEADING_VAGUE;
    }
}

void stk_heading_read(const char *text, const struct stk_headings *map, struct stk_heading *h)
{
    struct parts p;
    char name[STK_HEADING_MAX + 1];
    *h = (struct stk_heading){.factor = 1};
    split(text, &p);
    h->parameter = p.parameter;
    copy(name, p.name, strlen(p.name));
    enum stk_table_col wanted = mapped(map, text, &p);
    by_name(text, &p, name, h);
    if (wanted) {
        h->column = wanted;
        h->rank = 0;
    } else if (is_ousted(map, h->column)) {
        h->column = STK_COL_NONE;
    }
    if (!take_unit(&p, h))
        h->column = STK_COL_NONE;
    if (h->column == STK_COL_RATE || h->column == STK_COL_VALUE)
        name_rate(&p, name, h);
    else
        copy(h->name, p.name, strlen(p.name));
}

/* ---- --columns ---------------------------------------------------------------------------- */

static int add_pair(struct stk_headings *out, const char *p, size_t n, struct stk_err *err)
{
    const char *eq = memchr(p, '=', n);
    size_t key = eq ? (size_t)(eq - p) : 0, len = n - key - 1, i = 0;
    while (i < CANONICAL &&
           !(strcspn(names[i].words, " ") == key && memcmp(names[i].words, p, key) == 0))
        i++;
    if (!eq || i == CANONICAL || !len || len > STK_HEADING_MAX || out->n == STK_HEADINGS_MAX)
        return stk_err_set(
            err, STK_E_USAGE, NULL, -1,
            "--columns: \"%.*s\": write NAME=HEADING, such as n=tasks,time=runtime, "
            "where NAME is n, time, rate, value, series, repeat, cores, gpus, nodes, "
            "host, status, kind, note, job or queue",
            (int)(n < 60 ? n : 60), p);
    out->v[out->n].column = names[i].column;
    copy(out->v[out->n++].heading, eq + 1, len);
    return 0;
}

int stk_headings_parse(const char *text, struct stk_headings *out, struct stk_err *err)
{
    int rc = 0;
    *out = (struct stk_headings){0};
    while (*text && !rc) {
        size_t n = strcspn(text, ",");
        rc = add_pair(out, text, n, err);
        text += n + (text[n] == ',');
    }
    return rc;
}
