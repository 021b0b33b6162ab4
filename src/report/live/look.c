/* look.c - makes looks: what kinds fill them with, and the rates between two of them. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/dir.h"
#include "base/file.h"
#include "base/pool.h"
#include "record/folder.h"
#include "report/live/priv.h"

/* ---- for kinds ----------------------------------------------------------------------------- */

const char *stk_look_keep(struct stk_look *l, const char *text)
{
    const char *kept = text ? stk_arena_dup(&l->arena, text, strlen(text)) : "";
    return kept ? kept : "";
}

const char *stk_look_printf(struct stk_look *l, const char *fmt, ...)
{
    struct stk_buf b = STK_BUF_INIT;
    va_list ap;
    va_start(ap, fmt);
    stk_buf_vprintf(&b, fmt, ap);
    va_end(ap);
    const char *kept = stk_look_keep(l, stk_buf_cstr(&b));
    stk_buf_release(&b);
    return kept;
}

struct stk_look_figure *stk_look_add(struct stk_look *l, const char *key, double value)
{
    struct stk_look_figure *f = &l->figure[l->nfigures];
    l->nfigures += l->nfigures + 1 < STK_LOOK_FIGURES; /* the last place takes what is too much */
    *f = (struct stk_look_figure){.key = key, .value = value, .of = NAN, .per_s = NAN};
    return f;
}

void stk_look_say(struct stk_look *l, const char *key, const char *text)
{
    stk_look_add(l, key, NAN)->text = text;
}

void stk_look_note(struct stk_look *l, const char *text)
{
    if (l->nnotes < STK_LOOK_NOTES)
        l->note[l->nnotes++] = text;
}

int stk_look_rows(struct stk_look *l, const char *key, const struct stk_result_field *column,
                  size_t nrows, struct stk_err *err)
{
    size_t n = 0;
    while (column[n].key)
        n++;
    struct stk_look_cell *cell = stk_arena_alloc(&l->arena, (n * nrows + 1) * sizeof *cell);
    if (!cell)
        return stk_err_nomem(err, n * nrows * sizeof *cell);
    for (size_t i = 0; i < n * nrows; i++)
        cell[i] = (struct stk_look_cell){NAN, ""};
    l->table = (struct stk_look_table){.key = key,
                                       .column = column,
                                       .ncolumns = n,
                                       .nrows = nrows,
                                       .cell = cell,
                                       .slowest = SIZE_MAX};
    return 0;
}

static size_t column_of(const struct stk_look_table *t, const char *key)
{
    size_t i = 0;
    while (i < t->ncolumns && strcmp(t->column[i].key, key) != 0)
        i++;
    return i;
}

struct stk_look_cell *stk_look_cell(struct stk_look *l, size_t row, const char *key)
{
    return &l->table.cell[row * l->table.ncolumns + column_of(&l->table, key)];
}

bool stk_look_has(const char *folder, const char *name)
{
    char *path = stk_path_join(folder, name);
    bool there = path && stk_may_exist(AT_FDCWD, path);
    free(path);
    return there;
}

bool stk_look_is_json(const char *name, const char *prefix)
{
    size_t n = strlen(name), before = strlen(prefix);
    return strncmp(name, prefix, before) == 0 && n > before + 5 &&
           strcmp(name + n - 5, ".json") == 0;
}

double stk_look_real_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static const char *explain_silence(struct stk_look *l, const struct stk_alive *who)
{
    return stk_look_printf(l,
                           "it runs on %s, which has said nothing for %.0f s: whether it still "
                           "runs can be seen there only",
                           who->host[0] ? who->host : "another node", l->silent_s);
}

void stk_look_judge(struct stk_look *l, const struct stk_alive *who, bool ended, double started_s,
                    double updated_s)
{
    double now = stk_look_real_now();
    enum stk_life life = ended ? STK_LIFE_GONE : stk_alive_check(who);
    l->silent_s = updated_s > 0 ? fmax(now - updated_s, 0) : NAN;
    l->state = ended                   ? STK_LOOK_ENDED
               : life == STK_LIFE_GONE ? STK_LOOK_DIED
               : life == STK_LIFE_UNKNOWN && !(l->silent_s < STK_LOOK_SILENT_S) ? STK_LOOK_SILENT
                                                                                : STK_LOOK_RUNS;
    bool goes_on = l->state == STK_LOOK_RUNS || l->state == STK_LOOK_SILENT;
    double until = goes_on || updated_s <= 0 ? now : updated_s;
    l->elapsed_s = started_s > 0 ? fmax(until - started_s, 0) : NAN;
    if (l->state == STK_LOOK_DIED)
        l->why = stk_look_printf(l, "process %lld on %s is gone, and did not say that it ended",
                                 (long long)who->pid, who->host);
    else if (l->state == STK_LOOK_SILENT)
        l->why = explain_silence(l, who);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

int stk_look_names(struct stk_look *l, int dirfd, const char *path,
                   bool (*counts)(const char *name), size_t max, const char ***names, size_t *n,
                   struct stk_err *err)
{
    struct stk_dir d;
    int rc = stk_dir_open_fd(&d, dirfd, path, err);
    const char **list = stk_arena_alloc(&l->arena, max * sizeof *list);
    if (!rc && !list)
        rc = stk_err_nomem(err, max);
    *n = 0;
    for (const struct dirent *e; !rc && *n < max && (e = stk_dir_next(&d));)
        if (counts(e->d_name))
            list[(*n)++] = stk_look_keep(l, e->d_name);
    rc = stk_dir_end(&d, rc, err);
    if (!rc)
        qsort(list, *n, sizeof *list, by_name);
    *names = list;
    return rc;
}

/* ---- rates --------------------------------------------------------------------------------- */

static double growth(double before, double now, double seconds)
{
    return seconds > 0 && now >= before ? (now - before) / seconds : NAN;
}

static void rate_figures(struct stk_look *l, const struct stk_look *old)
{
    for (size_t i = 0; i < l->nfigures; i++) {
        struct stk_look_figure *f = &l->figure[i];
        for (size_t k = 0; k < old->nfigures && f->counts && isnan(f->per_s); k++)
            if (strcmp(old->figure[k].key, f->key) == 0)
                f->per_s = growth(old->figure[k].value, f->value, l->at_s - old->at_s);
    }
}

/* The row of that name; mostly it is where it was. */
static const struct stk_look_cell *row_of(const struct stk_look_table *t, size_t guess,
                                          const char *name)
{
    if (guess < t->nrows && strcmp(t->cell[guess * t->ncolumns].text, name) == 0)
        return &t->cell[guess * t->ncolumns];
    for (size_t i = 0; i < t->nrows; i++)
        if (strcmp(t->cell[i * t->ncolumns].text, name) == 0)
            return &t->cell[i * t->ncolumns];
    return NULL;
}

static void rate_column(struct stk_look *l, const struct stk_look *old, size_t to, size_t from)
{
    const struct stk_look_table *t = &l->table;
    for (size_t i = 0; i < t->nrows; i++) {
        struct stk_look_cell *row = &t->cell[i * t->ncolumns];
        const struct stk_look_cell *was = row_of(&old->table, i, row[0].text);
        if (was)
            row[to].value = growth(was[from].value, row[from].value, l->at_s - old->at_s);
    }
}

static void rate_table(struct stk_look *l, const struct stk_look *old)
{
    const struct stk_look_table *t = &l->table;
    for (size_t i = 0; i < 2 && l->kind->grows[i].rate && old->table.column == t->column; i++)
        rate_column(l, old, column_of(t, l->kind->grows[i].rate),
                    column_of(t, l->kind->grows[i].of));
}

/* By the rate of the last seconds, if the kind does not know better. */
static void guess_left(struct stk_look *l)
{
    for (size_t i = 0; i < l->nfigures && isnan(l->left_s); i++) {
        const struct stk_look_figure *f = &l->figure[i];
        if (f->progress && f->per_s > 0 && f->of >= f->value)
            l->left_s = (f->of - f->value) / f->per_s;
    }
}

/* ---- watching ------------------------------------------------------------------------------ */

static void free_look(struct stk_look *l)
{
    if (l)
        stk_arena_release(&l->arena);
    free(l);
}

static int take_look(const struct stk_look_watch *v, struct stk_look *l, struct stk_err *err)
{
    int fd = open(v->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    l->kind = v->kind;
    l->title = "";
    l->at_s = stk_now();
    l->elapsed_s = l->left_s = l->silent_s = NAN;
    if (fd < 0) {
        l->absent = errno == ENOENT;
        return l->absent ? 0 : stk_err_sys(err, v->path, "open");
    }
    int rc = stk_folder_believe(v->path, v->kind->counts, v->trust, err);
    rc = rc ? rc : v->kind->read(l, fd, v->path, err);
    close(fd);
    return rc;
}

static void push(struct stk_look_watch *v, struct stk_look *l)
{
    if (v->n == STK_LOOKS_KEPT) {
        free_look(v->look[0]);
        memmove(v->look, v->look + 1, --v->n * sizeof *v->look);
    }
    v->look[v->n++] = l;
}

/* It removed its files: it ended by itself. */
static int take_end(struct stk_look_watch *v, struct stk_err *err)
{
    if (!v->n)
        return stk_err_set(err, STK_E_UNSUPPORTED, v->path, -1, "no `stoker %s` runs here now",
                           v->kind->name);
    struct stk_look *last = v->look[v->n - 1];
    last->state = STK_LOOK_ENDED;
    last->why = NULL;
    last->left_s = NAN;
    for (size_t i = 0; i < last->nfigures; i++)
        last->figure[i].per_s = NAN;
    return 0;
}

int stk_look_again(struct stk_look_watch *v, struct stk_err *err)
{
    struct stk_look *l = calloc(1, sizeof *l);
    int rc = l ? take_look(v, l, err) : stk_err_nomem(err, sizeof *l);
    if (rc || l->absent) {
        free_look(l);
        return rc ? rc : take_end(v, err);
    }
    if (v->n && !stk_look_is_over(l)) {
        rate_figures(l, v->look[0]);
        rate_table(l, v->look[0]);
        guess_left(l);
    }
    push(v, l);
    return 0;
}

const struct stk_look *stk_look_last(const struct stk_look_watch *v)
{
    return v->n ? v->look[v->n - 1] : NULL;
}

bool stk_look_is_over(const struct stk_look *l)
{
    return l->state == STK_LOOK_ENDED || l->state == STK_LOOK_DIED;
}

void stk_look_close(struct stk_look_watch *v)
{
    for (size_t i = 0; i < v->n; i++)
        free_look(v->look[i]);
    free(v->path);
    *v = (struct stk_look_watch){0};
}
