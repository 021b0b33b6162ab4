/* data_note.c - see data_priv.h: the note in a data folder. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "base/file.h"
#include "bench/data_priv.h"

#define NOTE_MAX  (1u << 20)
#define NOTE_KIND "stoker bench data"

static bool ends_with(const char *key, const char *end)
{
    size_t n = strlen(key), k = strlen(end);
    return n >= k && strcmp(key + n - k, end) == 0;
}

/* Only what decides the names and the bytes of the files. */
static bool decides(const char *key)
{
    if (strncmp(key, "files.", 6) == 0)
        return ends_with(key, ".count") || ends_with(key, ".size");
    return (strncmp(key, "dataset.", 8) == 0 && strcmp(key, "dataset.path") != 0) ||
           strcmp(key, "name") == 0;
}

int stk_bench_note_write(const struct stk_bench_data *d, bool complete, struct stk_err *err)
{
    struct stk_buf b = STK_BUF_INIT;
    struct stk_jw j;
    stk_jw_init(&j, &b, false); /* as stk_bench_note_compare() writes ours */
    stk_jw_open(&j, '{');
    stk_jw_put_str(&j, "kind", NOTE_KIND);
    stk_jw_put_bool(&j, "complete", complete);
    stk_jw_key(&j, "workload");
    stk_jw_open(&j, '{');
    stk_workload_json(d->w, &j);
    stk_jw_close(&j, '}');
    stk_jw_close(&j, '}');
    stk_buf_putc(&b, '\n');
    int rc = stk_buf_check(&b, err);
    rc = rc ? rc
            : stk_write_file_at(d->dirfd, STK_BENCH_NOTE, b.data, b.len, STK_SHARED, STK_BENCH_NOTE,
                                err);
    stk_buf_release(&b);
    return rc;
}

/* The note as a tree in the arena. STK_E_NOTFOUND: there is none. */
int stk_bench_note_read(int dirfd, const char *dir, struct stk_arena *arena, struct stk_jval **out,
                     struct stk_err *err)
{
    struct stk_buf b = STK_BUF_INIT;
    struct stk_err why = {0};
    char path[4400];
    snprintf(path, sizeof path, "%s/%s", dir, STK_BENCH_NOTE);
    *out = NULL;
    int rc = stk_read_file_at(dirfd, STK_BENCH_NOTE, O_NOFOLLOW, NOTE_MAX, &b, path, &why);
    if (rc < 0 && why.sys_errno == ENOENT) {
        stk_buf_release(&b);
        return 0;
    }
    char *text = rc == 0 ? stk_arena_dup(arena, b.data, b.len) : NULL;
    size_t n = b.len;
    stk_buf_release(&b);
    if (rc == 0 && !text)
        return stk_err_nomem(err, n);
    rc = rc ? rc : stk_json_parse(arena, text, n, out, &why);
    if (rc < 0 && !*why.path)
        stk_err_set(&why, rc, path, why.offset, "%s", why.what);
    const struct stk_jval *kind = rc == 0 ? stk_json_get(*out, "kind") : NULL;
    if (rc == 0 && (!kind || kind->type != STK_JSTR || strcmp(kind->str, NOTE_KIND) != 0))
        rc = stk_err_set(&why, STK_E_CORRUPT, path, -1, "not a note of stoker bench");
    if (rc < 0 && err)
        *err = why;
    return rc;
}

/* Compares the note's keys with ours, as JSON text. */
int stk_bench_note_compare(const struct stk_bench_data *d, const struct stk_jval *note,
                        struct stk_err *err)
{
    struct stk_buf b = STK_BUF_INIT;
    struct stk_arena arena = STK_ARENA_INIT;
    struct stk_jval *ours;
    struct stk_jw j;
    const struct stk_jval *theirs = stk_json_get(note, "workload");
    stk_jw_init(&j, &b, false);
    stk_jw_open(&j, '{');
    stk_workload_json(d->w, &j);
    stk_jw_close(&j, '}');
    int rc = stk_buf_check(&b, err);
    rc = rc ? rc : stk_json_parse(&arena, (const char *)b.data, b.len, &ours, err);
    for (size_t i = 0; rc == 0 && i < ours->len; i++) {
        const char *key = ours->name[i].str;
        const struct stk_jval *a = theirs ? stk_json_get(theirs, key) : NULL;
        const struct stk_jval *o = &ours->item[i];
        bool same = a && a->raw_len == o->raw_len && memcmp(a->raw, o->raw, o->raw_len) == 0;
        if (!same && decides(key))
            rc = stk_err_set(err, STK_E_EXISTS, d->dir, -1,
                             "holds the data of another workload: %s is %.*s there and %.*s here; "
                             "use another --data, or remove it with --clean",
                             key, a ? (int)a->raw_len : 7, a ? a->raw : "missing",
                             (int)o->raw_len, o->raw);
    }
    stk_arena_release(&arena);
    stk_buf_release(&b);
    return rc;
}

bool stk_bench_note_is_complete(const struct stk_jval *note)
{
    const struct stk_jval *v = stk_json_get(note, "complete");
    return v && v->type == STK_JBOOL && v->b;
}
