/*
 * folder.c - a study on disk: appends one line per run as it ends, which costs microseconds
 * and survives our death; publishes the whole study now and then and at the end.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/pool.h"
#include "study/priv.h"

#define SYNC_EVERY_S    2.0 /* the most that a power failure can lose */
#define PUBLISH_EVERY_S 10.0

/* ---- files of lines ----------------------------------------------------------------------- */

/* Reads the complete lines of the text; a rest without a line break is the remains of a crash. */
static int read_lines(const char *text, size_t len, const char *path, stk_line_fn *line, void *user,
                      size_t *whole, struct stk_err *err)
{
    struct stk_arena arena = STK_ARENA_INIT;
    int rc = 0;
    uint64_t number = 1;
    for (*whole = 0; !rc && *whole < len; number++) {
        const char *at = text + *whole, *end = memchr(at, '\n', len - *whole);
        if (!end)
            break;
        struct stk_jval *v;
        stk_arena_reset(&arena);
        rc = stk_json_parse(&arena, at, (size_t)(end - at), &v, err);
        rc = rc ? rc : line(user, v, err);
        *whole = (size_t)(end - text) + 1;
    }
    stk_arena_release(&arena);
    if (rc && rc != STK_E_NOMEM)
        rc = stk_err_set(err, STK_E_CORRUPT, path, -1, "line %llu is damaged",
                         (unsigned long long)number - 1);
    return rc;
}

int stk_lines_open(const struct stk_folder *f, const char *name, int *fd, stk_line_fn *line,
                   void *user, struct stk_err *err)
{
    struct stk_buf b = STK_BUF_INIT;
    size_t whole = 0;
    char *path = stk_folder_path(f, name);
    int rc = path ? stk_folder_append(f, name, fd, err) : stk_err_nomem(err, strlen(name));
    if (!rc && !stk_lock_alone(*fd))
        rc = stk_err_set(err, STK_E_USAGE, path, -1, "another stoker is working on this study");
    rc = rc ? rc : stk_folder_read(f, name, STK_STUDY_FILE_MAX, &b, err);
    if (!rc)
        rc = read_lines(stk_buf_cstr(&b), b.len, path, line, user, &whole, err);
    if (!rc && whole < b.len && ftruncate(*fd, (off_t)whole) != 0)
        rc = stk_err_sys(err, path, "truncate");
    stk_buf_release(&b);
    free(path);
    if (rc && *fd >= 0) {
        close(*fd);
        *fd = -1;
    }
    return rc;
}

/* One write: a line is complete, or its remains are cut off next time. */
int stk_lines_add(int fd, const struct stk_jfield *table, const void *from, const char *path,
                  struct stk_err *err)
{
    struct stk_buf line = STK_BUF_INIT;
    stk_jfields_text(table, from, false, &line);
    int rc = stk_buf_check(&line, err);
    rc = rc ? rc : stk_write_full(fd, line.data, line.len, path, err);
    stk_buf_release(&line);
    return rc;
}

/* ---- runs --------------------------------------------------------------------------------- */

int stk_runner_publish(struct stk_runner *r, struct stk_err *err)
{
    struct stk_buf b = STK_BUF_INIT;
    struct stk_jw w;
    stk_jw_init(&w, &b, true);
    stk_study_write_json(&r->study, &w);
    stk_buf_putc(&b, '\n');
    int rc = stk_buf_check(&b, err);
    rc = rc ? rc : stk_folder_write(&r->folder, "study.json", b.data, b.len, err);
    stk_buf_release(&b);
    r->published_s = stk_now();
    return rc;
}

int stk_runner_keep(struct stk_runner *r, struct stk_tally *t, const struct stk_study_run *run,
                    struct stk_err *err)
{
    int rc = stk_study_add(&r->study, t->series, run, err);
    rc = rc ? rc : stk_lines_add(r->journal_fd, stk_study_run_fields, run, r->dir, err);
    double now = stk_now();
    if (!rc && now - r->synced_s > SYNC_EVERY_S) {
        rc = fdatasync(r->journal_fd) == 0 ? 0 : stk_err_sys(err, r->dir, "fdatasync");
        r->synced_s = stk_now();
    }
    if (!rc && now - r->published_s > PUBLISH_EVERY_S)
        rc = stk_runner_publish(r, err);
    r->state.done++;
    stk_tally_update(r, t);
    stk_tally_compare(r);
    return rc;
}
