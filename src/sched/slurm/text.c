/*
 * text.c - the words that Slurm's clients print: numbers, sizes, times, states, TRES lists,
 * job ids, and rows of fields. Everything is checked: malformed text is unknown.
 */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/num.h"
#include "base/pool.h"
#include "base/random.h"
#include "sched/slurm/priv.h"

#define TASKS_MAX 10000 /* of one requested array: the limit on jobs */

bool stk_slurm_word_is(struct stk_slurm_word w, const char *text)
{
    return strlen(text) == w.n && memcmp(w.p, text, w.n) == 0;
}

bool stk_slurm_word_empty(struct stk_slurm_word w)
{
    static const char *const nothing[] = {"(null)", "N/A", "Unknown", "None", "None assigned"};
    bool empty = w.n == 0;
    for (size_t i = 0; i < sizeof nothing / sizeof *nothing && !empty; i++)
        empty = stk_slurm_word_is(w, nothing[i]);
    return empty;
}

int64_t stk_slurm_int(struct stk_slurm_word w)
{
    int64_t v;
    double f;
    return stk_num_parse(w.p, w.n, &v, &f) == STK_NUM_INT && v >= 0 ? v : -1;
}

static int64_t scaled(struct stk_slurm_word w, double bare)
{
    static const char units[] = "KMGTPE";
    /* Before 21.11, ReqMem ended in "c" or "n": per CPU, per node. */
    if (w.n && (w.p[w.n - 1] == 'c' || w.p[w.n - 1] == 'n'))
        w.n--;
    const char *unit = w.n ? memchr(units, toupper((unsigned char)w.p[w.n - 1]), 6) : NULL;
    double factor = unit ? ldexp(1, 10 * (int)(unit - units + 1)) : bare, f;
    int64_t i;
    w.n -= unit != NULL;
    if (stk_num_parse(w.p, w.n, &i, &f) == STK_NUM_NONE || !(f >= 0) || f * factor > 0x1p62)
        return -1;
    return (int64_t)(f * factor);
}

int64_t stk_slurm_bytes(struct stk_slurm_word w)
{
    return scaled(w, 1);
}

int64_t stk_slurm_megas(struct stk_slurm_word w)
{
    return scaled(w, 0x1p20);
}

/* Parses digits and advances *p; false: none, or too many. */
static bool digits(const char **p, const char *end, double *v)
{
    const char *begin = *p;
    for (*v = 0; *p < end && isdigit((unsigned char)**p) && *p - begin < 12; ++*p)
        *v = *v * 10 + (**p - '0');
    return *p > begin;
}

double stk_slurm_seconds(struct stk_slurm_word w)
{
    const char *p = w.p, *end = w.p + w.n;
    double part[3] = {0}, days = 0, sum = 0, v, scale = 1;
    size_t n = 0;
    if (!digits(&p, end, &v))
        return -1;
    bool dashed = p < end && *p == '-';
    if (dashed) {
        days = v;
        p++;
        if (!digits(&p, end, &v))
            return -1;
    }
    for (part[n++] = v; p < end && *p == ':' && n < 3; part[n++] = v)
        if (p++, !digits(&p, end, &v))
            return -1;
    if (p < end && *p == '.')
        for (p++; p < end && isdigit((unsigned char)*p) && scale > 1e-9; p++)
            part[n - 1] += (*p - '0') * (scale /= 10);
    if (p != end)
        return -1;
    /* "1-02" is hours, "1-02:03" hours and minutes; without days the last number is seconds. */
    for (size_t i = 0; i < (dashed ? 3 : n); i++)
        sum = sum * 60 + (i < n ? part[i] : 0);
    return days * 86400 + sum;
}

int64_t stk_slurm_limit(struct stk_slurm_word w)
{
    if (stk_slurm_word_is(w, "UNLIMITED"))
        return INT64_MAX;
    double s = stk_slurm_seconds(w);
    return s >= 0 && s < 0x1p53 ? (int64_t)s : -1;
}

/* "2026-11-15T10:00:00", the machine's local time: from clients that ignore our format. */
static int64_t calendar(struct stk_slurm_word w)
{
    char text[20];
    struct tm tm = {.tm_isdst = -1};
    int used = 0;
    if (w.n != 19)
        return -1;
    memcpy(text, w.p, 19);
    text[19] = '\0';
    if (sscanf(text, "%4d-%2d-%2dT%2d:%2d:%2d%n", &tm.tm_year, &tm.tm_mon, &tm.tm_mday, &tm.tm_hour,
               &tm.tm_min, &tm.tm_sec, &used) != 6 ||
        used != 19)
        return -1;
    tm.tm_year -= 1900;
    tm.tm_mon--;
    return (int64_t)mktime(&tm);
}

int64_t stk_slurm_time(struct stk_slurm_word w)
{
    int64_t v = stk_slurm_int(w);
    v = v < 0 ? calendar(w) : v;
    return v > 0 && v < INT64_C(1) << 40 ? v : -1; /* 0: not yet */
}

void stk_slurm_exit(struct stk_slurm_word w, int *code, int *sig)
{
    const char *colon = w.n ? memchr(w.p, ':', w.n) : NULL;
    if (!colon)
        return;
    int64_t a = stk_slurm_int((struct stk_slurm_word){w.p, (size_t)(colon - w.p)});
    int64_t b = stk_slurm_int((struct stk_slurm_word){colon + 1, w.n - (size_t)(colon - w.p) - 1});
    if (a < 0 || b < 0 || a > 65535 || b > 255)
        return;
    *code = (int)a;
    *sig = (int)b;
}

/* ---- TRES lists --------------------------------------------------------------------------- */

/* The next "name=value" of a list, advances *at; false: no more. */
static bool next_pair(struct stk_slurm_word list, size_t *at, struct stk_slurm_word *name,
                      struct stk_slurm_word *value)
{
    while (*at < list.n) {
        const char *p = list.p + *at;
        const char *comma = memchr(p, ',', list.n - *at);
        size_t n = comma ? (size_t)(comma - p) : list.n - *at;
        const char *eq = memchr(p, '=', n);
        *at += n + 1;
        if (!eq)
            continue;
        *name = (struct stk_slurm_word){p, (size_t)(eq - p)};
        *value = (struct stk_slurm_word){eq + 1, n - (size_t)(eq - p) - 1};
        return true;
    }
    return false;
}

bool stk_slurm_find(struct stk_slurm_word list, const char *name, struct stk_slurm_word *value)
{
    struct stk_slurm_word n;
    for (size_t at = 0; next_pair(list, &at, &n, value);)
        if (stk_slurm_word_is(n, name))
            return true;
    return false;
}

static void add_kind(struct stk_slurm_tres *t, struct stk_slurm_word kind)
{
    size_t have = strlen(t->gpu_kind), need = kind.n + (have ? 1 : 0);
    if (kind.n == 0 || have + need + 1 > sizeof t->gpu_kind)
        return;
    if (have)
        t->gpu_kind[have++] = ',';
    memcpy(t->gpu_kind + have, kind.p, kind.n);
    t->gpu_kind[have + kind.n] = '\0';
}

void stk_slurm_tres(struct stk_slurm_word w, struct stk_slurm_tres *t)
{
    static const char gpu[] = "gres/gpu:";
    const size_t gpu_n = sizeof gpu - 1;
    struct stk_slurm_word name, value;
    int64_t kinds = 0;
    *t = (struct stk_slurm_tres){
        .cpus = -1, .nodes = -1, .gpus = -1, .memory_bytes = -1, .billing = -1};
    for (size_t at = 0; next_pair(w, &at, &name, &value);) {
        if (stk_slurm_word_is(name, "cpu"))
            t->cpus = stk_slurm_int(value);
        else if (stk_slurm_word_is(name, "node"))
            t->nodes = stk_slurm_int(value);
        else if (stk_slurm_word_is(name, "billing"))
            t->billing = stk_slurm_int(value);
        else if (stk_slurm_word_is(name, "mem"))
            t->memory_bytes = stk_slurm_bytes(value);
        else if (stk_slurm_word_is(name, "gres/gpu"))
            t->gpus = stk_slurm_int(value);
        else if (name.n > gpu_n && memcmp(name.p, gpu, gpu_n) == 0 && stk_slurm_int(value) > 0) {
            add_kind(t, (struct stk_slurm_word){name.p + gpu_n, name.n - gpu_n});
            if (__builtin_add_overflow(kinds, stk_slurm_int(value), &kinds))
                kinds = INT64_MAX;
        }
    }
    /* Some sites record only gres/gpu:KIND. A list with CPUs but no GPU means none. */
    if (t->gpus < 0)
        t->gpus = kinds > 0 ? kinds : t->cpus >= 0 ? 0 : -1;
}

void stk_slurm_use_init(struct stk_slurm_use *u)
{
    *u = (struct stk_slurm_use){.cpu_s = -1,
                                .memory_bytes = -1,
                                .task_memory_bytes = -1,
                                .gpu_util = -1,
                                .gpu_memory_bytes = -1,
                                .energy_J = -1,
                                .read_bytes = -1,
                                .write_bytes = -1};
}

/* ---- ids ---------------------------------------------------------------------------------- */

/* Whether an id is valid: it becomes an argument of a client. */
static bool id_bytes_ok(struct stk_slurm_word w)
{
    for (size_t i = 0; i < w.n; i++)
        if (!isalnum((unsigned char)w.p[i]) && !memchr("_[]-,%.+:", w.p[i], 9))
            return false;
    return w.n > 0 && w.n <= 4096 && isdigit((unsigned char)w.p[0]);
}

struct tasks {
    const char *text;
    size_t head; /* of text: the number and the "_" */
    int (*f)(void *user, const char *id, size_t len);
    void *user;
};

static int give_task(const struct tasks *t, double task)
{
    char one[64];
    int n = snprintf(one, sizeof one, "%.*s%.0f", (int)t->head, t->text, task);
    return t->f(t->user, one, (size_t)n);
}

/* "1-5:2,9%2]": calls t->f for each (t NULL: only checks), or -1: not such a list, or more tasks
 * than an array can have. Slurm itself abbreviates a long list: "1-3,7,...]". */
static int each_task(const char *p, const char *end, const struct tasks *t)
{
    double first, last, step, limit, count = 0;
    int rc = 0;
    for (bool more = true; more && !rc; more = p < end && *p++ == ',') {
        if (count > 0 && end - p == 4 && memcmp(p, "...]", 4) == 0)
            return 0;
        if (!digits(&p, end, &first))
            return -1;
        last = first;
        step = 1;
        if (p < end && *p == '-' && (p++, !digits(&p, end, &last)))
            return -1;
        if (p < end && *p == ':' && (p++, !digits(&p, end, &step)))
            return -1;
        if (last < first || step < 1 || (count += (last - first) / step + 1) > TASKS_MAX)
            return -1;
        for (double task = first; t && task <= last && !rc; task += step)
            rc = give_task(t, task);
        if (p < end && *p == '%' && (p++, !digits(&p, end, &limit)))
            return -1;
        if (p + 1 == end && *p == ']')
            return rc;
    }
    return rc ? rc : -1;
}

int stk_slurm_id_each(const char *text, int (*f)(void *user, const char *id, size_t len),
                      void *user)
{
    const char *list = strchr(text, '['), *end = text + strlen(text);
    struct tasks t = {text, list ? (size_t)(list - text) : 0, f, user};
    return list ? each_task(list + 1, end, &t) : f(user, text, (size_t)(end - text));
}

bool stk_slurm_id(struct stk_slurm_word w, struct stk_slurm_id *id)
{
    const char *p = w.p, *end = w.p + w.n, *dot;
    double job, task;
    if (!id_bytes_ok(w) || !digits(&p, end, &job) || job < 1 || job > UINT32_MAX)
        return false;
    *id = (struct stk_slurm_id){.job = (uint64_t)job, .task = -1, .label = w};
    /* "12_[1,3,...]": Slurm has abbreviated a long list, and no step follows. */
    const char *list = memrchr(p, ']', (size_t)(end - p));
    dot = memchr(list ? list : p, '.', (size_t)(end - (list ? list : p)));
    if (dot) {
        id->label.n = (size_t)(dot - w.p);
        id->step = (struct stk_slurm_word){dot + 1, (size_t)(end - dot) - 1};
        end = dot;
        if (id->step.n == 0)
            return false;
    }
    if (p == end || *p == '+')
        return true;
    if (*p++ != '_' || p == end)
        return false;
    if (*p == '[')
        return true;
    if (!digits(&p, end, &task) || p != end || task > UINT32_MAX)
        return false;
    id->task = (int64_t)task;
    return true;
}

bool stk_slurm_id_ok(const char *text)
{
    struct stk_slurm_id id;
    const char *list = strchr(text, '[');
    return stk_slurm_id((struct stk_slurm_word){text, strlen(text)}, &id) && id.step.n == 0 &&
           (!list || each_task(list + 1, text + strlen(text), NULL) == 0);
}

bool stk_slurm_read_sbatch(const char *text, size_t len, uint64_t *id)
{
    while (len && (text[len - 1] == '\n' || text[len - 1] == ' '))
        len--;
    /* Plug-ins of a site may print lines before it. */
    const char *line = memrchr(text, '\n', len);
    struct stk_slurm_word w = {line ? line + 1 : text, 0};
    w.n = len - (size_t)(w.p - text);
    const char *semicolon = w.n ? memchr(w.p, ';', w.n) : NULL;
    if (semicolon)
        w.n = (size_t)(semicolon - w.p);
    int64_t v = stk_slurm_int(w);
    if (v < 1 || v > UINT32_MAX)
        return false;
    *id = (uint64_t)v;
    return true;
}

/* ---- rows --------------------------------------------------------------------------------- */

static void random_numbers(uint64_t r[2])
{
    if (getrandom(r, 2 * sizeof *r, 0) == (ssize_t)(2 * sizeof *r))
        return;
    r[0] = (uint64_t)(stk_now() * 1e9) * STK_GOLDEN64;
    r[1] = (uint64_t)getpid();
}

void stk_slurm_token(char *text, size_t size)
{
    uint64_t r[2];
    random_numbers(r);
    snprintf(text, size, "%08llx", (unsigned long long)(r[0] >> 32));
}

void stk_slurm_separator(char sep[STK_SLURM_SEP_MAX])
{
    uint64_t r[2];
    random_numbers(r);
    snprintf(sep, STK_SLURM_SEP_MAX, "|%012llx%012llx|", (unsigned long long)(r[0] >> 16),
             (unsigned long long)(r[1] >> 16));
}

static struct stk_slurm_word without_line_end(struct stk_slurm_word w)
{
    while (w.n && (w.p[w.n - 1] == '\n' || w.p[w.n - 1] == '\r'))
        w.n--;
    return w;
}

/* The last field of a row ends at the last line break before the next separator: the rest is the
 * first field of the next row, which is an id and has no line break. */
bool stk_slurm_is_whole(const char *text, size_t len)
{
    return !len || text[len - 1] == '\n';
}

int stk_slurm_rows(const char *text, size_t len, const char *sep, size_t ncols,
                   stk_slurm_row_fn *row, void *user)
{
    struct stk_slurm_word col[STK_SLURM_COLUMNS];
    size_t at = 0, n = 0, nsep = strlen(sep);
    int rc = 0;
    while (at <= len && rc == 0 && ncols >= 2 && ncols <= STK_SLURM_COLUMNS) {
        const char *p = text + at;
        const char *hit = len > at ? memmem(p, len - at, sep, nsep) : NULL;
        struct stk_slurm_word w = {p, hit ? (size_t)(hit - p) : len - at};
        at += w.n + (hit ? nsep : 1);
        if (n < ncols - 1) {
            col[n++] = w;
            continue;
        }
        const char *line = hit && w.n ? memrchr(w.p, '\n', w.n) : NULL;
        size_t mine = line ? (size_t)(line - w.p) : hit ? 0 : w.n;
        col[n] = without_line_end((struct stk_slurm_word){w.p, mine});
        if (line || !hit)
            rc = row(user, col);
        n = 0;
        if (hit) /* too many fields in a row: start again after it */
            col[n++] = line ? (struct stk_slurm_word){line + 1, w.n - mine - 1} : w;
    }
    bool rest = n > 1 || (n == 1 && without_line_end(col[0]).n);
    return rc == 0 && (rest || !stk_slurm_is_whole(text, len)) ? STK_SLURM_CUT : rc;
}

/* ---- what Slurm's variables tell a job ----------------------------------------------------- */

static bool take_number(const char **text, uint32_t *v)
{
    size_t n = strspn(*text, "0123456789");
    int64_t got = stk_slurm_int((struct stk_slurm_word){*text, n});
    *text += n;
    *v = (uint32_t)got;
    return n && got >= 0 && got <= UINT32_MAX;
}

bool stk_slurm_per_node(const char **text, uint32_t *number, uint32_t *nodes)
{
    const char *p = *text;
    *nodes = 1;
    if (!take_number(&p, number))
        return false;
    if (strncmp(p, "(x", 2) == 0) {
        p += 2;
        if (!take_number(&p, nodes) || *p++ != ')')
            return false;
    }
    if (*p && *p++ != ',')
        return false;
    *text = p;
    return true;
}
