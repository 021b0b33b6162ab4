/*
 * csv.c - times measured elsewhere, from CSV: what people export from a spreadsheet, write
 * with echo in a batch file, or get from sacct. Hostile input: everything is bounded and checked,
 * and an error names the line.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <string.h>

#include "base/csv.h"
#include "base/num.h"
#include "study/study.h"

#define COLUMNS_MAX 256
#define CELL_MAX    1023

enum column {
    C_NONE, /* not ours */
    C_N,
    C_TIME,
    C_REPEAT,
    C_SERIES,
    C_CORES,
    C_GPUS,
    C_NODES,
    C_HOST,
    C_STATUS,
    C_KIND,
    C_NOTE,
    C_JOB,
    C_QUEUE,
    C_VALUE,
    C_RATE,
    C_COUNT /* threads, ranks: N if no column has that name */
};

static const struct {
    const char *name;
    enum column column;
} names[] = {
    {"n", C_N},
    {"time", C_TIME},
    {"repeat", C_REPEAT},
    {"series", C_SERIES},
    {"cores", C_CORES},
    {"gpus", C_GPUS},
    {"nodes", C_NODES},
    {"host", C_HOST},
    {"status", C_STATUS},
    {"kind", C_KIND},
    {"note", C_NOTE},
    {"job", C_JOB},
    {"queue", C_QUEUE},
    {"value", C_VALUE},
    {"rate", C_RATE},
    /* synonyms, including sacct's */
    {"time_s", C_TIME},
    {"time (s)", C_TIME},
    {"time [s]", C_TIME},
    {"t", C_TIME},
    {"seconds", C_TIME},
    {"wall", C_TIME},
    {"wall_s", C_TIME},
    {"walltime", C_TIME},
    {"elapsed", C_TIME},
    {"run", C_REPEAT},
    {"name", C_SERIES},
    {"cpus", C_CORES},
    {"alloccpus", C_CORES},
    {"allocnodes", C_NODES},
    {"nnodes", C_NODES},
    {"node", C_HOST},
    {"nodelist", C_HOST},
    {"hostname", C_HOST},
    {"state", C_STATUS},
    {"gpu", C_KIND},
    {"gpu_kind", C_KIND},
    {"node_kind", C_KIND},
    {"jobid", C_JOB},
    {"queue_s", C_QUEUE},
    {"metric", C_VALUE},
    {"throughput", C_RATE},
    {"threads", C_COUNT},
    {"ranks", C_COUNT},
    {"processes", C_COUNT},
    {"ntasks", C_COUNT},
    {"workers", C_COUNT},
};
#define POSITIONAL 9 /* without a header: the first nine, in this order */

struct reader {
    struct stk_study *study;
    const char *text, *path, *series;
    size_t len;
    char delim;
    enum column column[COLUMNS_MAX];
    size_t ncolumns;
    enum column n_from;   /* the column used as N */
    size_t line_at, line; /* the line of the byte line_at, from 1 */
    bool started;         /* the first row was read */
};

/* One row being read. */
struct fields {
    struct stk_study_run run;
    char text[6][STK_STUDY_TEXT_MAX + 1]; /* series, host, kind, note, job, status */
    double time_s[COLUMNS_MAX];           /* NaN: empty */
    size_t ntimes;
    bool has_n, has_series, has_status, has_repeat;
};

static int bad(struct reader *r, struct stk_err *err, const char *fmt, const char *cell)
{
    char shown[64];
    snprintf(shown, sizeof shown, "%.60s", cell);
    return stk_err_set(err, STK_E_CORRUPT, r->path, (int64_t)r->line, fmt, shown);
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

enum { T_SERIES, T_HOST, T_KIND, T_NOTE, T_JOB, T_STATUS };

static int take_number(struct reader *r, struct fields *f, enum column c, const char *cell,
                       size_t len, struct stk_err *err)
{
    int64_t v = -1;
    bool is_n = c == r->n_from;
    if (!len && !is_n)
        return 0;
    if (read_count(cell, len, &v) || (is_n && v < 1))
        return bad(r, err,
                   is_n ? "\"%s\" is not a valid N: it must be a whole number of 1 or more"
                        : "\"%s\" is not a whole number",
                   cell);
    if (is_n) {
        f->run.n = (uint64_t)v;
        f->has_n = true;
    }
    switch (c) {
    case C_REPEAT:
        f->run.repeat = (uint32_t)v;
        f->has_repeat = true;
        break;
    case C_CORES:
        f->run.cores = v;
        break;
    case C_GPUS:
        f->run.gpus = v;
        break;
    case C_NODES:
        f->run.nodes = v;
        break;
    default:
        break;
    }
    return 0;
}

static int take_cell(struct reader *r, struct fields *f, enum column c, const char *cell,
                     size_t len, struct stk_err *err)
{
    static const int text_of[] = {[C_SERIES] = T_SERIES, [C_HOST] = T_HOST, [C_KIND] = T_KIND,
                                  [C_NOTE] = T_NOTE,     [C_JOB] = T_JOB,   [C_STATUS] = T_STATUS};
    double *time = c == C_QUEUE ? &f->run.queue_s : &f->time_s[f->ntimes];
    switch (c) {
    case C_NONE:
        return 0;
    case C_N:
    case C_COUNT:
    case C_REPEAT:
    case C_CORES:
    case C_GPUS:
    case C_NODES:
        return take_number(r, f, c, cell, len, err);
    case C_TIME:
    case C_QUEUE:
        if (c == C_QUEUE && strcmp(cell, "0") == 0)
            return 0;
        if (stk_study_parse_time(cell, len, time))
            return bad(r, err, "\"%s\" is not a time: give seconds above 0, 3m20s or 1:02:03",
                       cell);
        f->ntimes += c == C_TIME;
        return 0;
    case C_VALUE:
    case C_RATE:
        if (stk_study_parse_value(cell, len, &f->run.value))
            return bad(r, err, "\"%s\" is not a number above 0", cell);
        return 0;
    default:
        f->has_series = f->has_series || c == C_SERIES;
        f->has_status = f->has_status || (c == C_STATUS && len);
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
        err->offset = (int64_t)r->line;
    }
    return rc;
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
    if (status < 0) { /* an unknown word is at least not "ok" */
        status = STK_RUN_FAILED;
        f->run.note = f->run.note ? f->run.note : f->text[T_STATUS];
    }
    for (size_t i = 0; i < (f->ntimes ? f->ntimes : 1) && !rc; i++) {
        struct stk_study_run run = f->run;
        run.wall_s = f->ntimes ? f->time_s[i] : NAN;
        bool none = isnan(r->study->metric ? run.value : run.wall_s);
        run.status = status == STK_RUN_OK && none ? STK_RUN_FAILED : (enum stk_run_status)status;
        run.repeat = f->has_repeat ? run.repeat : (uint32_t)i;
        /* An empty cell among several columns of repeats is a run that did not happen. */
        if (none && f->ntimes > 1 && !f->has_status && !r->study->metric)
            continue;
        if (none && !f->has_status && !run.note)
            run.note = "no time";
        rc = stk_study_add(r->study, series, &run, err);
    }
    return rc ? place(r, rc, err) : 0;
}

static enum column column_named(const char *word)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcasecmp(names[i].name, word) == 0)
            return names[i].column;
    return C_NONE;
}

static bool has_column(const struct reader *r, enum column c)
{
    for (size_t i = 0; i < r->ncolumns; i++)
        if (r->column[i] == c)
            return true;
    return false;
}

/* N is the column of that name, or else the only one that counts something. */
static bool find_n(struct reader *r)
{
    static const enum column counts[] = {C_COUNT, C_CORES, C_GPUS, C_NODES};
    size_t found = 0;
    r->n_from = C_N;
    for (size_t i = 0; i < r->ncolumns; i++)
        for (size_t k = 0; k < sizeof counts / sizeof *counts && !has_column(r, C_N); k++)
            if (r->column[i] == counts[k]) {
                r->n_from = counts[k];
                found++;
            }
    return has_column(r, C_N) || found == 1;
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
        r->column[r->ncolumns++] = column_named(cell);
    }
    if (rc)
        return rc;
    bool rate = has_column(r, C_RATE), value = has_column(r, C_VALUE);
    if (!find_n(r) || !(has_column(r, C_TIME) || rate || value))
        return bad(r, err, "the header needs a column `n` and a column `time`%s", "");
    /* Compares the rate or value if there is one; times then only count SUs. */
    if (r->study->metric || !(rate || value))
        return 0;
    if (!r->study->fixed)
        return stk_study_set_metric(r->study, rate ? "rate" : "value", rate, err);
    if (has_column(r, C_TIME))
        return 0;
    return bad(r, err, "it has no times, but the study before it compares times%s", "");
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
    r->n_from = C_N;
    for (r->ncolumns = 0; r->ncolumns < POSITIONAL; r->ncolumns++)
        r->column[r->ncolumns] = names[r->ncolumns].column;
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
            rc = take_cell(r, f, r->column[i], cell, n, err);
        if (rc)
            return rc;
    }
    if (rc)
        return place(r, rc, err);
    return f->has_n ? 0 : bad(r, err, "a row without an N%s", "");
}

/* Blank, or the line below the header of a Markdown table. */
static bool says_nothing(const struct reader *r, const char *p, size_t len)
{
    const char *set = r->delim == '|' ? "|-: \t" : " \t";
    for (size_t i = 0; i < len; i++)
        if (!p[i] || !strchr(set, p[i]))
            return false;
    return true;
}

static int on_row(void *user, uint64_t off, uint64_t len, uint64_t cells, struct stk_err *err)
{
    struct reader *r = user;
    struct stk_csv_row row = {r->text + off, r->text + off + len, r->delim, true};
    struct fields *f;
    (void)cells;
    count_lines(r, (size_t)off);
    if (*row.p == '#' || says_nothing(r, row.p, (size_t)len))
        return 0;
    bool header = false;
    int rc = r->started ? 0 : first_row(r, row, &header, err);
    if (rc || header)
        return rc;
    if (!(f = calloc(1, sizeof *f)))
        return stk_err_nomem(err, sizeof *f);
    f->run = (struct stk_study_run)STK_STUDY_RUN_INIT;
    rc = read_cells(r, &row, f, err);
    rc = rc ? rc : add_runs(r, f, err);
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

int stk_study_read_csv(struct stk_study *s, const char *text, size_t len, const char *path,
                       const char *series, struct stk_err *err)
{
    struct reader r = {.study = s, .text = text, .len = len, .path = path, .line = 1};
    struct stk_buf plain = STK_BUF_INIT;
    size_t before = s->nruns;
    int rc = 0;
    r.series = series ? series : "";
    r.delim = stk_study_delimiter(text, len);
    if (r.delim == ' ') {
        stk_study_squeeze(text, len, &plain);
        rc = stk_buf_check(&plain, err);
        r.text = stk_buf_cstr(&plain);
        r.len = plain.len;
    }
    rc = rc ? rc : read_rows(&r, err);
    if (!rc && s->nruns == before)
        rc = stk_err_set(err, STK_E_CORRUPT, path, -1, "it contains no times");
    if (rc && err && !err->path[0] && path)
        snprintf(err->path, sizeof err->path, "%s", path);
    stk_buf_release(&plain);
    return rc;
}

/* Judges by the first line that is not a comment. */
char stk_study_delimiter(const char *p, size_t n)
{
    const char *end = p + n;
    if (n >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0)
        p += 3;
    while (p < end && (*p == '#' || *p == '\n' || *p == '\r')) {
        const char *line = memchr(p, '\n', (size_t)(end - p));
        p = line ? line + 1 : end;
    }
    char guess = stk_csv_guess(p, (size_t)(end - p), ",;\t|");
    if (guess)
        return guess;
    while (p < end && *p != '\n' && *p != ' ')
        p++;
    return p < end && *p == ' ' ? ' ' : ',';
}

/* Copies text with one blank between cells and none at the ends of lines. */
void stk_study_squeeze(const char *p, size_t n, struct stk_buf *out)
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
