/*
 * csv.c - times measured elsewhere, from CSV: what people export from a spreadsheet, write with
 * echo in a batch file, or get from sacct. How lines are cut into cells, what a cell says, which
 * column is which. Hostile input: everything is bounded and checked, and an error names the line.
 */
#include "study/study.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/csv.h"
#include "base/num.h"
#include "base/units.h"

/* "result:", as JUBE writes above a table. */
static bool is_title(const char *p, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (p[i] && strchr(",;\t| ", p[i]))
            return false;
    return len && p[len - 1] == ':';
}

/* Judges by the first line that is not a comment. */
static char find_delimiter(const char *p, size_t n)
{
    const char *end = p + n;
    if (n >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0)
        p += 3;
    for (const char *line; p < end; p = line) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        size_t len = (size_t)((stop ? stop : end) - p);
        line = stop ? stop + 1 : end;
        len -= len && p[len - 1] == '\r';
        if (len && *p != '#' && !is_title(p, len))
            break;
    }
    char guess = stk_csv_guess(p, (size_t)(end - p), ",;\t|");
    if (guess)
        return guess;
    while (p < end && *p != '\n' && *p != ' ')
        p++;
    return p < end && *p == ' ' ? ' ' : ',';
}

/* Copies text with one blank between cells and none at the ends of lines. */
static void squeeze(const char *p, size_t n, struct stk_buf *out)
{
    bool start = true, owed = false;
    for (size_t i = 0; i < n; i++) {
        if (p[i] == ' ' || p[i] == '\t') {
            owed = !start;
            continue;
        }
        if (owed && p[i] != '\n' && p[i] != '\r')
            stk_buf_putc(out, ' ');
        owed = false;
        stk_buf_putc(out, p[i]);
        start = p[i] == '\n';
    }
}

/* ---- columns below a rule ----------------------------------------------------------------- */

struct span {
    size_t from, to;
};

/* The line "------- ---- -----" below a header, as sacct draws it: where each column is. */
static size_t read_rule(const char *p, size_t len, struct span *at, size_t max)
{
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        if (!strchr("- \r", p[i]) || !p[i] || (p[i] == '-' && n == max))
            return 0;
        if (p[i] == '-' && (!i || p[i - 1] != '-'))
            at[n++].from = i;
        if (p[i] == '-')
            at[n - 1].to = i + 1;
    }
    return n > 1 ? n : 0;
}

static size_t find_rule(const char *text, size_t len, struct span *at, size_t max)
{
    const char *end = text + len;
    size_t n = 0;
    for (const char *p = text; p < end && !n;) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        n = read_rule(p, (size_t)((stop ? stop : end) - p), at, max);
        p = stop ? stop + 1 : end;
    }
    return n;
}

/* Cuts each line where the rule does: cells may be empty or contain blanks. */
static void cut_columns(const char *text, size_t len, const struct span *at, size_t n,
                        struct stk_buf *out)
{
    const char *end = text + len;
    for (const char *p = text; p < end;) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        size_t line = (size_t)((stop ? stop : end) - p);
        line -= line && p[line - 1] == '\r';
        for (size_t i = 0; i < n; i++) {
            size_t to = i + 1 < n && at[i].to < line ? at[i].to : line;
            stk_buf_puts(out, i ? "\t" : "");
            if (at[i].from < to)
                stk_buf_put(out, p + at[i].from, to - at[i].from);
        }
        stk_buf_putc(out, '\n');
        p = stop ? stop + 1 : end;
    }
}

/* "time [ms]" is one cell. */
static void join_units(struct stk_buf *b)
{
    size_t n = 0;
    for (size_t i = 0; i < b->len; i++)
        if (b->data[i] != ' ' || i + 1 == b->len || !strchr("[(", b->data[i + 1]))
            b->data[n++] = b->data[i];
    b->len = n;
}

/* Copies a table whose separator is ' ' so that one character separates cells, and returns it: the
 * columns of a rule below the header ("---- ----", as sacct draws it), or one or more blanks. */
static char separate(const char *text, size_t len, struct stk_buf *out)
{
    struct span at[STK_STUDY_COLUMNS_MAX];
    size_t n = find_rule(text, len, at, STK_STUDY_COLUMNS_MAX);
    if (n) {
        cut_columns(text, len, at, n, out);
        return '\t';
    }
    squeeze(text, len, out);
    join_units(out);
    return ' ';
}

/* "1-02:03:04", "02:03", "03:04.5": Slurm's times. Days require hours, minutes and seconds. */
static int read_clock(const char *cell, double *out)
{
    const char *first = strchr(cell, ':');
    *out = stk_slurm_seconds((struct stk_slurm_word){cell, strlen(cell)});
    return *out < 0 || (strchr(cell, '-') && first == strrchr(cell, ':')) ? -1 : 0;
}

/* "10,5" is 10.5 in half the world. "1,250" is ambiguous, and refused. */
static bool decimal_comma(const char *cell, size_t len, char *out, size_t size)
{
    const char *comma = memchr(cell, ',', len);
    if (!comma || len >= size || strspn(cell, "0123456789,") != len || strchr(comma + 1, ','))
        return false;
    if (len - (size_t)(comma - cell) == 4 && strspn(cell, "0") != (size_t)(comma - cell))
        return false;
    memcpy(out, cell, len + 1);
    out[comma - cell] = '.';
    return true;
}

/* 1: *out is a number, or NaN for a word that means none; 0: something else; -1: out of range. */
static int read_plain(const char *cell, size_t len, double *out)
{
    int64_t i;
    char point[64];
    *out = NAN;
    if (decimal_comma(cell, len, point, sizeof point))
        cell = point;
    if (!len || strcasecmp(cell, "nan") == 0 || strcmp(cell, "-") == 0 ||
        strcasecmp(cell, "n/a") == 0)
        return 1;
    if (stk_num_parse(cell, len, &i, out) == STK_NUM_NONE)
        return 0;
    return *out > 0 && *out <= 1e12 ? 1 : -1;
}

/* The same for a plain number. */
static int parse_value(const char *cell, size_t len, double *out)
{
    return read_plain(cell, len, out) > 0 ? 0 : -1;
}

/* Seconds above 0 from "12.5", "3m20s", or Slurm's "1-02:03:04" and "03:04.5" (text[0..len), then a
 * NUL). NaN for an empty text, "-", "n/a", "nan" and a clock at 0. -1: none of these. factor: the
 * seconds that a plain number means. hours: "2:30" is hours and minutes. */
static int parse_time(const char *cell, size_t len, double factor, bool hours, double *out)
{
    struct stk_err ignored;
    bool clock = strchr(cell, ':');
    int plain = read_plain(cell, len, out);
    if (plain > 0)
        *out *= factor;
    if (plain)
        return plain > 0 && !(*out > 1e12) ? 0 : -1;
    if (clock ? read_clock(cell, out) : stk_parse_duration(cell, out, &ignored))
        return -1;
    if (clock && *out == 0) /* sacct's, of a job that never started or took less than a second */
        *out = NAN;
    else if (clock && hours && strchr(cell, ':') == strrchr(cell, ':'))
        *out *= 60;
    return *out < 0 || *out == 0 || *out > 1e12 ? -1 : 0;
}

#define COLUMNS_MAX STK_STUDY_COLUMNS_MAX
#define CELL_MAX    1023

struct reader {
    struct stk_study *study;
    const char *text, *path, *series;
    size_t len;
    char delim;
    struct stk_heading column[COLUMNS_MAX];
    size_t ncolumns, n_from;    /* n_from: the index of the column used as N */
    size_t line_at, line;       /* the line of the byte line_at, from 1 */
    bool started;               /* the first row was read */
    bool skip_steps;            /* sacct: rows of steps repeat the rows of their jobs */
    bool unplaced;              /* converted from another format: lines mean nothing */
    struct stk_csv_row comment; /* the last one before the first row; p NULL: none */
};

/* One row being read. */
struct fields {
    struct stk_study_run run;
    char text[6][STK_STUDY_TEXT_MAX + 1]; /* series, host, kind, note, job, status */
    double time_s[COLUMNS_MAX];           /* NaN: empty */
    double value[COLUMNS_MAX];
    size_t ntimes, nvalues;
    bool has_n, has_series, has_status, has_repeat;
    bool zero_n, zero_time; /* sacct, of a job that never started */
};

static int bad(struct reader *r, struct stk_err *err, const char *fmt, const char *cell)
{
    char shown[64];
    snprintf(shown, sizeof shown, "%.60s", cell);
    return stk_err_set(err, STK_E_CORRUPT, r->path, r->unplaced ? -1 : (int64_t)r->line, fmt,
                       shown);
}

/* ---- cells -------------------------------------------------------------------------------- */

static int read_count(const char *cell, size_t len, int64_t *out)
{
    double f;
    if (stk_num_parse(cell, len, out, &f) == STK_NUM_INT)
        return *out >= 0 && *out <= STK_STUDY_N_MAX ? 0 : -1;
    if (stk_num_parse(cell, len, out, &f) != STK_NUM_FLOAT || !(f >= 0 && f <= STK_STUDY_N_MAX))
        return -1;
    *out = (int64_t)f; /* "4.0": how a spreadsheet writes 4 */
    return (double)*out == f ? 0 : -1;
}

static int keep_text(struct reader *r, char *to, const char *cell, size_t len, struct stk_err *err)
{
    if (len > STK_STUDY_TEXT_MAX)
        return bad(r, err, "a text is too long: \"%s\"...", cell);
    memcpy(to, cell, len + 1);
    return 0;
}

static const char invalid_time[] = "\"%s\" is not a time: give seconds above 0, 3m20s or 1:02:03";
static const char invalid_n[] = "\"%s\" is not a valid N: it must be a whole number of 1 or more";

enum { T_SERIES, T_HOST, T_KIND, T_NOTE, T_JOB, T_STATUS };

/* A number of things. */
static int take_number(struct reader *r, struct fields *f, size_t i, const char *cell, size_t len,
                       struct stk_err *err)
{
    int64_t v = -1;
    bool is_n = i == r->n_from;
    enum stk_table_col c = r->column[i].column;
    int64_t *to = c == STK_COL_CORES   ? &f->run.cores
                  : c == STK_COL_GPUS  ? &f->run.gpus
                  : c == STK_COL_NODES ? &f->run.nodes
                                       : NULL;
    if (!len && !is_n)
        return 0;
    if (read_count(cell, len, &v))
        return bad(r, err, is_n ? invalid_n : "\"%s\" is not a whole number", cell);
    if (is_n) {
        f->run.n = (uint64_t)v;
        f->has_n = v > 0;
        f->zero_n = v == 0;
    }
    if (c == STK_COL_REPEAT) {
        f->run.repeat = (uint32_t)v;
        f->has_repeat = true;
    }
    if (to)
        *to = v;
    return 0;
}

/* Nothing says that it did not end well. */
static bool is_good(const struct fields *f)
{
    return !f->has_status ||
           stk_run_status_find(f->text[T_STATUS], strlen(f->text[T_STATUS])) == STK_RUN_OK;
}

/* N and time may be 0 only in a job that waits, or was cancelled while it did. */
static int check_row(struct reader *r, const struct fields *f, struct stk_err *err)
{
    if (f->zero_n && is_good(f))
        return bad(r, err, invalid_n, "0");
    if (f->zero_time && is_good(f))
        return bad(r, err, invalid_time, "0");
    return f->has_n || f->zero_n ? 0 : bad(r, err, "a row without an N%s", "");
}

/* What Slurm allocated. */
static void take_tres(struct fields *f, const char *cell)
{
    struct stk_slurm_tres t;
    stk_slurm_tres((struct stk_slurm_word){cell, strlen(cell)}, &t);
    if (t.cpus < 0)
        return;
    f->run.cores = f->run.cores >= 0 ? f->run.cores : t.cpus;
    f->run.gpus = f->run.gpus >= 0 ? f->run.gpus : t.gpus;
    f->run.nodes = f->run.nodes >= 0 ? f->run.nodes : t.nodes;
}

static int take_time(struct reader *r, struct fields *f, const struct stk_heading *h,
                     const char *cell, size_t len, struct stk_err *err)
{
    bool queue = h->column == STK_COL_QUEUE;
    double *to = queue ? &f->run.queue_s : &f->time_s[f->ntimes];
    bool zero = strcmp(cell, "0") == 0;
    if (zero && queue)
        return 0;
    f->zero_time = f->zero_time || zero;
    if (zero)
        *to = NAN;
    else if (parse_time(cell, len, h->factor, h->hours, to))
        return bad(r, err, invalid_time, cell);
    f->ntimes += !queue;
    return 0;
}

/* Several columns make one name: "solve, algo=a, size=3". */
static int take_series(struct reader *r, struct fields *f, const struct stk_heading *h,
                       const char *cell, struct stk_err *err)
{
    char text[STK_STUDY_TEXT_MAX + CELL_MAX + STK_HEADING_MAX + 8];
    const char *so_far = f->text[T_SERIES];
    int n = snprintf(text, sizeof text, "%s%s%s%s%s", so_far, *so_far && *cell ? ", " : "",
                     h->parameter && *cell ? h->name : "", h->parameter && *cell ? "=" : "", cell);
    f->has_series = true;
    return keep_text(r, f->text[T_SERIES], text, (size_t)n, err);
}

static int take_cell(struct reader *r, struct fields *f, size_t i, const char *cell, size_t len,
                     struct stk_err *err)
{
    static const int text_of[] = {[STK_COL_HOST] = T_HOST,
                                  [STK_COL_KIND] = T_KIND,
                                  [STK_COL_NOTE] = T_NOTE,
                                  [STK_COL_JOB] = T_JOB,
                                  [STK_COL_STATUS] = T_STATUS};
    const struct stk_heading *h = &r->column[i];
    enum stk_table_col c = h->column;
    switch (c) {
    case STK_COL_NONE:
        return 0;
    case STK_COL_N:
    case STK_COL_COUNT:
    case STK_COL_REPEAT:
    case STK_COL_CORES:
    case STK_COL_GPUS:
    case STK_COL_NODES:
        return take_number(r, f, i, cell, len, err);
    case STK_COL_TIME:
    case STK_COL_QUEUE:
        return take_time(r, f, h, cell, len, err);
    case STK_COL_TRES:
        take_tres(f, cell);
        return 0;
    case STK_COL_SERIES:
        return take_series(r, f, h, cell, err);
    case STK_COL_VALUE:
    case STK_COL_RATE:
        if (parse_value(cell, len, &f->value[f->nvalues++]))
            return bad(r, err, "\"%s\" is not a number above 0", cell);
        return 0;
    default:
        f->has_status = f->has_status || (c == STK_COL_STATUS && len);
        return keep_text(r, f->text[text_of[c]], cell, len, err);
    }
}

/* ---- rows --------------------------------------------------------------------------------- */

/* The text of a cell without surrounding blanks, NUL-terminated. */
static int cell_text(struct reader *r, const struct stk_csv_cell *c, char *out, size_t *len,
                     struct stk_err *err)
{
    if (c->n > CELL_MAX)
        return bad(r, err, "a cell is longer than 1,023 bytes%s", "");
    size_t n = stk_csv_unquote(c, out), from = 0;
    while (n && (out[n - 1] == ' ' || out[n - 1] == '\t'))
        n--;
    while (from < n && (out[from] == ' ' || out[from] == '\t'))
        from++;
    memmove(out, out + from, n - from);
    *len = n - from;
    out[*len] = '\0';
    return memchr(out, '\0', *len) ? bad(r, err, "a cell contains a NUL%s", "") : 0;
}

/* If the study refuses it, the file is wrong, not the command line. */
static int place(const struct reader *r, int rc, struct stk_err *err)
{
    rc = rc == STK_E_USAGE ? STK_E_CORRUPT : rc;
    if (err) {
        err->code = rc;
        snprintf(err->path, sizeof err->path, "%s", r->path ? r->path : "");
        err->offset = r->unplaced ? -1 : (int64_t)r->line;
    }
    return rc;
}

/* Value i of several; one value holds for all. */
static double one_of(const double *v, size_t n, size_t i)
{
    return n == 1 ? v[0] : i < n ? v[i] : NAN;
}

static int add_runs(struct reader *r, struct fields *f, struct stk_err *err)
{
    size_t series;
    const char *name = f->has_series ? f->text[T_SERIES] : r->series;
    int rc = stk_study_series(r->study, name, strlen(name), &series, err);
    int status = f->has_status ? stk_run_status_find(f->text[T_STATUS], strlen(f->text[T_STATUS]))
                               : STK_RUN_OK;
    const char **to[] = {&f->run.host, &f->run.kind, &f->run.note, &f->run.job};
    for (size_t i = 0; i < 4; i++)
        *to[i] = f->text[T_HOST + i][0] ? f->text[T_HOST + i] : NULL;
    if (status < 0 && stk_run_is_live(f->text[T_STATUS], strlen(f->text[T_STATUS])))
        return rc;    /* a job that still runs has no time yet */
    if (status < 0) { /* an unknown word is at least not "ok" */
        status = STK_RUN_FAILED;
        f->run.note = f->run.note ? f->run.note : f->text[T_STATUS];
    }
    size_t several = r->study->metric ? f->nvalues : f->ntimes;
    for (size_t i = 0; i < (several ? several : 1) && !rc; i++) {
        struct stk_study_run run = f->run;
        run.wall_s = one_of(f->time_s, f->ntimes, i);
        run.value = one_of(f->value, f->nvalues, i);
        bool none = isnan(r->study->metric ? run.value : run.wall_s);
        run.status = status == STK_RUN_OK && none ? STK_RUN_FAILED : (enum stk_run_status)status;
        run.repeat = f->has_repeat ? run.repeat : (uint32_t)i;
        /* An empty cell among several columns of repeats is a run that did not happen. */
        if (none && several > 1 && !f->has_status)
            continue;
        if (none && !f->has_status && !run.note)
            run.note = "no time";
        rc = stk_study_add(r->study, series, &run, err);
    }
    return rc ? place(r, rc, err) : 0;
}

/* Blank, or a line that is drawn below a header: "|---|:--|", "-----+----". */
static bool says_nothing(const char *p, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!p[i] || !strchr("|+-:= \t\r", p[i]))
            return false;
    return true;
}

/* ---- the header --------------------------------------------------------------------------- */

static bool has_column(const struct reader *r, enum stk_table_col c)
{
    for (size_t i = 0; i < r->ncolumns; i++)
        if (r->column[i].column == c)
            return true;
    return false;
}

/* What the rows show about a column: whether it can be N. */
struct survey {
    struct reader *r;
    size_t rows;
    size_t filled[COLUMNS_MAX];
    bool varies[COLUMNS_MAX];
    char first[COLUMNS_MAX][32];
    size_t jobs, steps; /* of sacct */
    bool skip_steps;
};

static bool is_step(const char *job)
{
    return strchr(job, '.') != NULL;
}

static int survey_row(void *user, uint64_t off, uint64_t len, uint64_t cells, struct stk_err *err)
{
    struct survey *s = user;
    struct reader *r = s->r;
    struct stk_csv_row row = {r->text + off, r->text + off + len, r->delim, true};
    struct stk_csv_cell c;
    char cell[CELL_MAX + 1], all[COLUMNS_MAX][32];
    bool step = false;
    size_t n = 0, size;
    (void)cells;
    if (*row.p == '#' || says_nothing(row.p, (size_t)len))
        return 0;
    for (; n < r->ncolumns && stk_csv_next(&row, &c, NULL) > 0; n++) {
        if (cell_text(r, &c, cell, &size, NULL))
            return 0; /* the reading will say so, with the line */
        snprintf(all[n], sizeof all[n], "%.31s", cell);
        step = step || (r->column[n].column == STK_COL_JOB && is_step(cell));
    }
    (void)err;
    s->steps += step;
    s->jobs += !step;
    for (size_t i = 0; i < n && !(step && s->skip_steps); i++) {
        if (!s->rows)
            memcpy(s->first[i], all[i], sizeof all[i]);
        s->filled[i] += all[i][0] != '\0';
        s->varies[i] = s->varies[i] || strcmp(s->first[i], all[i]) != 0;
    }
    s->rows += !(step && s->skip_steps);
    return 0;
}

static void scan_rows(struct survey *s, size_t from)
{
    struct stk_csv_scan sc = {
        .delim = s->r->delim, .row = survey_row, .user = s, .row_start = from};
    if (stk_csv_scan_bytes(&sc, from, s->r->text + from, s->r->len - from, NULL) == 0)
        (void)stk_csv_scan_end(&sc, s->r->len, NULL);
}

/* Of several columns that could be N: the first kind that all rows have and that differs between
 * them. GPUs come first: CPUs are then there to feed them. */
static size_t choose_n(const struct reader *r, const struct survey *s)
{
    static const enum stk_table_col kinds[] = {STK_COL_N, STK_COL_GPUS, STK_COL_COUNT,
                                               STK_COL_CORES, STK_COL_NODES};
    size_t best = COLUMNS_MAX, worth = 0;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (size_t i = 0; i < r->ncolumns; i++) {
            bool full = s->filled[i] == s->rows;
            size_t v = kinds[k] == STK_COL_N ? 4 : 1u + (full ? 1u : 0u) + (full && s->varies[i]);
            if (r->column[i].column == kinds[k] && v > worth) {
                best = i;
                worth = v;
            }
        }
    return best;
}

/* Finds N, and which rows count. next: where the rows begin. */
static int survey_rows(struct reader *r, size_t next, struct stk_err *err)
{
    struct survey *s = calloc(1, sizeof *s);
    if (!s)
        return stk_err_nomem(err, sizeof *s);
    s->r = r;
    scan_rows(s, next);
    r->skip_steps = s->jobs && s->steps;
    if (r->skip_steps) {
        *s = (struct survey){.r = r, .skip_steps = true};
        scan_rows(s, next);
    }
    r->n_from = choose_n(r, s);
    free(s);
    return 0;
}

/* A summary of several runs is used only if there are no single ones: of `median` and `mean`, the
 * median. */
static void drop_summaries(struct reader *r)
{
    unsigned best[STK_COL_TRES + 1];
    memset(best, 0xff, sizeof best);
    for (size_t i = 0; i < r->ncolumns; i++) {
        const struct stk_heading *h = &r->column[i];
        best[h->column] = h->rank < best[h->column] ? h->rank : best[h->column];
    }
    for (size_t i = 0; i < r->ncolumns; i++)
        if (r->column[i].rank > best[r->column[i].column])
            r->column[i].column = STK_COL_NONE;
}

/* Of two times that are both vague, neither is the one. */
static int check_times(struct reader *r, struct stk_err *err)
{
    const struct stk_heading *first = NULL;
    for (size_t i = 0; i < r->ncolumns; i++) {
        const struct stk_heading *h = &r->column[i];
        if (h->column != STK_COL_TIME || h->rank < STK_HEADING_VAGUE)
            continue;
        if (first)
            return bad(r, err,
                       "several columns could be the time; choose one with --columns "
                       "time=%s",
                       h->name);
        first = h;
    }
    return 0;
}

/* Parameters other than N tell series apart. The only one is N, whatever its name. */
static void settle_parameters(struct reader *r)
{
    size_t last = 0, count = 0;
    for (size_t i = 0; i < r->ncolumns; i++)
        if (r->column[i].parameter) {
            last = i;
            count++;
        }
    if (r->n_from == COLUMNS_MAX && count == 1) {
        r->n_from = last;
        r->column[last].column = STK_COL_N;
    }
    for (size_t i = 0; i < r->ncolumns; i++)
        if (r->column[i].parameter && i != r->n_from)
            r->column[i].column = STK_COL_SERIES;
}

static const char *missing_heading(const struct reader *r)
{
    const struct stk_headings *map = r->study->headings;
    for (size_t i = 0; map && i < map->n; i++)
        if (!has_column(r, map->v[i].column))
            return map->v[i].heading;
    return NULL;
}

/* Compares the rate or value if there is one; times then only count SUs. */
static int set_metric(struct reader *r, struct stk_err *err)
{
    const struct stk_heading *found = NULL;
    for (size_t i = 0; i < r->ncolumns; i++) {
        const struct stk_heading *h = &r->column[i];
        if (h->column != STK_COL_RATE && h->column != STK_COL_VALUE)
            continue;
        if (found && strcmp(found->name, h->name) != 0)
            return bad(r, err,
                       "several columns could be compared; choose one with --columns "
                       "rate=%s",
                       h->name);
        found = h;
    }
    if (r->study->metric || !found)
        return 0;
    if (!r->study->fixed)
        return stk_study_set_metric(r->study, found->name, found->column == STK_COL_RATE, err);
    if (has_column(r, STK_COL_TIME))
        return 0;
    return bad(r, err, "it has no times, but the study before it compares times%s", "");
}

static int check_header(struct reader *r, struct stk_err *err)
{
    const char *missing = missing_heading(r);
    if (missing)
        return bad(r, err, "--columns: there is no column \"%s\"", missing);
    bool compared =
        has_column(r, STK_COL_TIME) || has_column(r, STK_COL_RATE) || has_column(r, STK_COL_VALUE);
    if (r->n_from == COLUMNS_MAX || !compared)
        return bad(r, err,
                   "the header needs a column `n` and a column `time`; --columns n=HEADING,"
                   "time=HEADING says which they are (%s is missing)",
                   compared                   ? "`n`"
                   : r->n_from == COLUMNS_MAX ? "each"
                                              : "`time`");
    int rc = check_times(r, err);
    rc = rc ? rc : set_metric(r, err);
    const char *unit = r->column[r->n_from].unit;
    if (rc || !unit || r->study->unit || r->study->fixed || r->study->nruns)
        return rc;
    return stk_study_set_unit(r->study, unit, err);
}

static int read_header(struct reader *r, struct stk_csv_row *row, struct stk_err *err)
{
    struct stk_csv_cell c;
    char cell[CELL_MAX + 1];
    size_t len;
    int rc;
    while ((rc = stk_csv_next(row, &c, err)) > 0) {
        if (r->ncolumns == COLUMNS_MAX)
            return bad(r, err, "more than 256 columns%s", "");
        rc = cell_text(r, &c, cell, &len, err);
        if (rc)
            return rc;
        stk_heading_read(cell, r->study->headings, &r->column[r->ncolumns++]);
    }
    if (rc)
        return rc;
    drop_summaries(r);
    rc = survey_rows(r, (size_t)(row->end - r->text), err);
    if (!rc)
        settle_parameters(r);
    return rc ? rc : check_header(r, err);
}

static size_t count_cells(struct stk_csv_row row)
{
    struct stk_csv_cell c;
    size_t n = 0;
    while (stk_csv_next(&row, &c, NULL) > 0)
        n++;
    return n;
}

/* "# threads time [ms]" above rows of numbers is their header, as for gnuplot, if it names what a
 * header must. */
static bool comment_is_header(struct reader *r, struct stk_csv_row first)
{
    struct stk_csv_row row = r->comment;
    if (!row.p)
        return false;
    row.p += strspn(row.p, "# \t");
    if (row.p >= row.end || count_cells(row) != count_cells(first))
        return false;
    if (read_header(r, &row, NULL) == 0)
        return true;
    r->ncolumns = 0;
    return false;
}

static int first_row(struct reader *r, struct stk_csv_row row, bool *is_header, struct stk_err *err)
{
    struct stk_csv_row copy = row;
    struct stk_csv_cell c;
    char cell[CELL_MAX + 1];
    size_t len = 0;
    int64_t i;
    double f;
    int rc = stk_csv_next(&copy, &c, err);
    rc = rc > 0 ? cell_text(r, &c, cell, &len, err) : rc;
    if (rc < 0)
        return rc;
    r->started = true;
    *is_header = stk_num_parse(cell, len, &i, &f) == STK_NUM_NONE;
    if (*is_header)
        return read_header(r, &row, err);
    if (comment_is_header(r, row))
        return 0;
    if (count_cells(row) > 2) /* 1,1,226 and 1,226,1 look alike */
        return bad(
            r, err,
            "the rows have no header, and which column is the time cannot be seen; write a first "
            "line that names them, such as \"n,repeat,time\"%s",
            "");
    r->n_from = 0;
    r->column[r->ncolumns++] = (struct stk_heading){.column = STK_COL_N, .factor = 1};
    r->column[r->ncolumns++] = (struct stk_heading){.column = STK_COL_TIME, .factor = 1};
    return 0;
}

static void count_lines(struct reader *r, size_t to)
{
    for (; r->line_at < to; r->line_at++)
        r->line += r->text[r->line_at] == '\n';
}

static int read_cells(struct reader *r, struct stk_csv_row *row, struct fields *f,
                      struct stk_err *err)
{
    struct stk_csv_cell c;
    char cell[CELL_MAX + 1];
    size_t n;
    int rc;
    for (size_t i = 0; (rc = stk_csv_next(row, &c, err)) > 0; i++) {
        rc = cell_text(r, &c, cell, &n, err);
        if (!rc && i >= r->ncolumns && n)
            rc = bad(r, err, "more cells than columns: \"%s\"", cell);
        if (!rc && i < r->ncolumns)
            rc = take_cell(r, f, i, cell, n, err);
        if (rc)
            return rc;
    }
    return rc ? place(r, rc, err) : check_row(r, f, err);
}

static bool is_step_row(struct reader *r, struct stk_csv_row row)
{
    struct stk_csv_cell c;
    for (size_t i = 0; i < r->ncolumns && stk_csv_next(&row, &c, NULL) > 0; i++)
        if (r->column[i].column == STK_COL_JOB)
            return memchr(c.p, '.', c.n) != NULL;
    return false;
}

static int on_row(void *user, uint64_t off, uint64_t len, uint64_t cells, struct stk_err *err)
{
    struct reader *r = user;
    struct stk_csv_row row = {r->text + off, r->text + off + len, r->delim, true};
    struct fields *f;
    (void)cells;
    count_lines(r, (size_t)off);
    if (*row.p == '#' && !r->started)
        r->comment = row;
    if (*row.p == '#' || says_nothing(row.p, (size_t)len) ||
        (!r->started && is_title(row.p, (size_t)len)) || (r->skip_steps && is_step_row(r, row)))
        return 0;
    bool header = false;
    int rc = r->started ? 0 : first_row(r, row, &header, err);
    if (rc || header)
        return rc;
    if (!(f = calloc(1, sizeof *f)))
        return stk_err_nomem(err, sizeof *f);
    f->run = (struct stk_study_run)STK_STUDY_RUN_INIT;
    rc = read_cells(r, &row, f, err);
    rc = rc || !f->has_n ? rc : add_runs(r, f, err);
    free(f);
    return rc;
}

static int read_rows(struct reader *r, struct stk_err *err)
{
    size_t mark = r->len >= 3 && memcmp(r->text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    struct stk_csv_scan sc = {.delim = r->delim, .row = on_row, .user = r, .row_start = mark};
    int rc = stk_csv_scan_bytes(&sc, mark, r->text + mark, r->len - mark, err);
    if (!rc)
        rc = stk_csv_scan_end(&sc, r->len, err);
    if (!rc && sc.quoted) {
        count_lines(r, (size_t)sc.row_start);
        rc = bad(r, err, "a quote is not closed%s", "");
    }
    return rc;
}

static int read_table(struct reader *r, struct stk_err *err)
{
    struct stk_study *s = r->study;
    const char *text = r->text;
    size_t len = r->len, before = s->nruns;
    struct stk_buf plain = STK_BUF_INIT;
    int rc = 0;
    r->line = 1;
    r->delim = find_delimiter(text, len);
    if (len >= 2 && (memcmp(text, "\xff\xfe", 2) == 0 || memcmp(text, "\xfe\xff", 2) == 0))
        return stk_err_set(err, STK_E_CORRUPT, r->path, -1, "it is UTF-16; save it as UTF-8");
    if (r->delim == ' ') {
        r->delim = separate(text, len, &plain);
        rc = stk_buf_check(&plain, err);
        r->text = stk_buf_cstr(&plain);
        r->len = plain.len;
    }
    rc = rc ? rc : read_rows(r, err);
    if (!rc && s->nruns == before)
        rc = stk_err_set(err, STK_E_CORRUPT, r->path, -1, "it contains no times");
    stk_buf_release(&plain);
    return rc ? stk_err_at(err, rc, r->path) : 0;
}

int stk_study_read_csv(struct stk_study *s, const char *text, size_t len, const char *path,
                       const char *series, struct stk_err *err)
{
    struct reader r = {
        .study = s, .text = text, .len = len, .path = path, .series = series ? series : ""};
    return read_table(&r, err);
}

int stk_study_read_converted(struct stk_study *s, const struct stk_buf *table, const char *path,
                             const char *series, struct stk_err *err)
{
    struct reader r = {.study = s,
                       .text = (const char *)table->data,
                       .len = table->len,
                       .path = path,
                       .series = series ? series : "",
                       .unplaced = true};
    return read_table(&r, err);
}
