/*
 * io_table.c - which files are open: looked up by number, shared by the requests that read them,
 * closed by age when there are too many. Opening itself is io_files.c's.
 */
#include "data/io_priv.h"

#include <stdlib.h>
#include <sys/resource.h>

#define LIMIT_MIN 16u
#define LIMIT_MAX 512u

unsigned stk_io_files_limit(void)
{
    struct rlimit rl;
    rlim_t n = getrlimit(RLIMIT_NOFILE, &rl) == 0 ? rl.rlim_cur / 4 : LIMIT_MIN;
    return n < LIMIT_MIN ? LIMIT_MIN : n > LIMIT_MAX ? LIMIT_MAX : (unsigned)n;
}

int stk_io_files_init(struct stk_io_files *files, struct stk_dataset *ds, struct stk_err *err)
{
    files->ds = ds;
    files->limit = files->map ? STK_IO_MAPS : stk_io_files_limit();
    uint32_t n = 32;
    while (n < 2 * files->limit)
        n *= 2;
    files->mask = n - 1;
    files->bucket = calloc(n, sizeof(struct stk_io_file *));
    if (!files->bucket)
        return stk_err_nomem(err, n * sizeof(struct stk_io_file *));
    pthread_mutex_init(&files->lock, NULL);
    return 0;
}

void stk_io_files_release(struct stk_io_files *files)
{
    if (!files->bucket)
        return;
    for (uint32_t i = 0; i <= files->mask; i++)
        while (files->bucket[i]) {
            struct stk_io_file *f = files->bucket[i];
            files->bucket[i] = f->chain;
            if (f->state == STK_FILE_OPEN)
                stk_io_file_close(f);
            free(f);
        }
    free(files->bucket);
    files->bucket = NULL;
    pthread_mutex_destroy(&files->lock);
}

/* ---- the table; all with the lock held ---- */

static struct stk_io_file **place_of(struct stk_io_files *files, uint32_t number)
{
    struct stk_io_file **p = &files->bucket[(number * 2654435761u >> 7) & files->mask];
    while (*p && (*p)->number != number)
        p = &(*p)->chain;
    return p;
}

static void unlink_age(struct stk_io_files *files, struct stk_io_file *f)
{
    *(f->older ? &f->older->newer : &files->oldest) = f->newer;
    *(f->newer ? &f->newer->older : &files->newest) = f->older;
    f->older = f->newer = NULL;
}

static void link_newest(struct stk_io_files *files, struct stk_io_file *f)
{
    f->older = files->newest;
    f->newer = NULL;
    *(f->older ? &f->older->newer : &files->oldest) = f;
    files->newest = f;
}

static void remove_file(struct stk_io_files *files, struct stk_io_file *f)
{
    *place_of(files, f->number) = f->chain;
    unlink_age(files, f);
    files->count--;
}

/* The least recently used file nobody holds, taken out, when there are too many. */
static struct stk_io_file *take_surplus(struct stk_io_files *files)
{
    if (files->count <= files->limit || files->map)
        return NULL;
    struct stk_io_file *f = files->oldest;
    while (f && (f->refs || f->state != STK_FILE_OPEN))
        f = f->newer;
    if (f)
        remove_file(files, f);
    return f;
}

/* ---- the calls ---- */

static enum stk_io_got get_locked(struct stk_io_files *files, struct stk_io_req *req)
{
    struct stk_io_file **p = place_of(files, req->file), *f = *p;
    enum stk_io_got got = STK_GOT_FILE;
    if (!f) {
        f = calloc(1, sizeof *f);
        if (!f)
            return STK_GOT_ERROR;
        f->number = req->file;
        f->fd = f->plain_fd = -1;
        *p = f;
        link_newest(files, f);
        files->count++;
        got = STK_GOT_TO_OPEN;
    } else if (f->state == STK_FILE_OPENING) {
        stk_io_push(&f->waiting, req);
        got = STK_GOT_WAIT;
    } else if (f != files->newest) {
        unlink_age(files, f);
        link_newest(files, f);
    }
    f->refs++;
    req->held = f;
    return got;
}

enum stk_io_got stk_io_files_get(struct stk_io_files *files, struct stk_io_req *req)
{
    pthread_mutex_lock(&files->lock);
    enum stk_io_got got = get_locked(files, req);
    pthread_mutex_unlock(&files->lock);
    if (got == STK_GOT_ERROR) {
        struct stk_err why = {0};
        stk_err_nomem(&why, sizeof(struct stk_io_file));
        stk_io_fail(files->ds, req, &why);
    }
    return got;
}

static void close_surplus(struct stk_io_files *files)
{
    for (;;) {
        pthread_mutex_lock(&files->lock);
        struct stk_io_file *old = take_surplus(files);
        pthread_mutex_unlock(&files->lock);
        if (!old)
            return;
        stk_io_file_close(old);
        free(old);
    }
}

void stk_io_files_open(struct stk_io_files *files, struct stk_io_file *f,
                       struct stk_io_list *waited)
{
    close_surplus(files);
    struct stk_err why = {0};
    int rc = stk_io_file_open(files, f, &why);
    pthread_mutex_lock(&files->lock);
    stk_io_append(waited, &f->waiting);
    f->state = STK_FILE_OPEN;
    if (rc < 0)
        remove_file(files, f); /* the next request tries again */
    pthread_mutex_unlock(&files->lock);
    if (rc == 0)
        return;
    for (struct stk_io_req *req = waited->first; req; req = req->next) {
        req->held = NULL;
        stk_io_fail(files->ds, req, &why);
    }
    free(f);
}

void stk_io_files_put(struct stk_io_files *files, struct stk_io_req *req)
{
    if (!req->held)
        return;
    pthread_mutex_lock(&files->lock);
    req->held->refs--;
    pthread_mutex_unlock(&files->lock);
    req->held = NULL;
}
