/*
 * handles.c - the open files: looked up by number, shared by readers, closed by age when there are
 * too many. files.c opens them.
 */
#include "io/files.h"

#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#define LIMIT_MIN 16u
#define LIMIT_MAX 512u

unsigned stk_handles_limit(void)
{
    struct rlimit rl;
    rlim_t n = getrlimit(RLIMIT_NOFILE, &rl) == 0 ? rl.rlim_cur / 4 : LIMIT_MIN;
    return n < LIMIT_MIN ? LIMIT_MIN : n > LIMIT_MAX ? LIMIT_MAX : (unsigned)n;
}

int stk_handles_init(struct stk_handles *h, const struct stk_files *files, enum stk_file_mode mode,
                     unsigned limit, struct stk_err *err)
{
    uint32_t n = 32;
    while (n < 2 * limit)
        n *= 2;
    *h = (struct stk_handles){.files = files, .mode = mode, .limit = limit, .mask = n - 1};
    h->bucket = calloc(n, sizeof(struct stk_file *));
    if (!h->bucket)
        return stk_err_nomem(err, n * sizeof(struct stk_file *));
    pthread_mutex_init(&h->lock, NULL);
    return 0;
}

void stk_handles_release(struct stk_handles *h)
{
    if (!h->bucket)
        return;
    for (struct stk_file *f; (f = h->newest);) {
        h->newest = f->older;
        stk_file_close(f);
        free(f);
    }
    free(h->bucket);
    h->bucket = NULL;
    pthread_mutex_destroy(&h->lock);
}

/* ---- the table; all with the lock held ---- */

static struct stk_file **place_of(struct stk_handles *h, uint32_t number)
{
    struct stk_file **p = &h->bucket[(number * 2654435761u >> 7) & h->mask];
    while (*p && (*p)->number != number)
        p = &(*p)->chain;
    return p;
}

static void unlink_age(struct stk_handles *h, struct stk_file *f)
{
    *(f->older ? &f->older->newer : &h->oldest) = f->newer;
    *(f->newer ? &f->newer->older : &h->newest) = f->older;
    f->older = f->newer = NULL;
}

static void link_newest(struct stk_handles *h, struct stk_file *f)
{
    f->older = h->newest;
    f->newer = NULL;
    *(f->older ? &f->older->newer : &h->oldest) = f;
    h->newest = f;
}

static struct stk_file *pin(struct stk_handles *h, struct stk_file *f)
{
    f->refs++;
    if (f != h->newest) {
        unlink_age(h, f);
        link_newest(h, f);
    }
    return f;
}

/* Removes and returns the least recently used unpinned file if there is no room for another. */
static struct stk_file *take_surplus(struct stk_handles *h)
{
    struct stk_file *f = h->count >= h->limit ? h->oldest : NULL;
    while (f && f->refs)
        f = f->newer;
    if (!f)
        return NULL;
    *place_of(h, f->number) = f->chain;
    unlink_age(h, f);
    h->count--;
    return f;
}

/* ---- the calls ---- */

struct stk_file *stk_handles_find(struct stk_handles *h, uint32_t number)
{
    pthread_mutex_lock(&h->lock);
    struct stk_file *f = *place_of(h, number);
    if (f)
        pin(h, f);
    pthread_mutex_unlock(&h->lock);
    return f;
}

static void drop(struct stk_file *f)
{
    if (f)
        stk_file_close(f);
    free(f);
}

/* Makes room, then opens: never more than the limit, except for pinned files. */
static int open_new(struct stk_handles *h, uint32_t number, struct stk_file **out,
                    struct stk_err *err)
{
    struct stk_file *f = malloc(sizeof *f), *old;
    if (!f)
        return stk_err_nomem(err, sizeof *f);
    do {
        pthread_mutex_lock(&h->lock);
        old = take_surplus(h);
        pthread_mutex_unlock(&h->lock);
        drop(old);
    } while (old);
    atomic_fetch_add_explicit(&h->opens, 1, memory_order_relaxed);
    int rc = stk_file_open(h->files, number, h->mode, f, err);
    if (rc < 0)
        free(f);
    else
        *out = f;
    return rc;
}

int stk_handles_get(struct stk_handles *h, uint32_t number, struct stk_file **out,
                    struct stk_err *err)
{
    *out = stk_handles_find(h, number);
    if (*out)
        return 0;
    struct stk_file *f = NULL;
    int rc = open_new(h, number, &f, err);
    if (rc < 0)
        return rc;
    pthread_mutex_lock(&h->lock);
    struct stk_file **p = place_of(h, number);
    bool second = *p != NULL; /* another thread was faster */
    if (!second) {
        *p = f;
        link_newest(h, f);
        h->count++;
    }
    *out = pin(h, *p);
    pthread_mutex_unlock(&h->lock);
    if (second)
        drop(f);
    return 0;
}

void stk_handles_put(struct stk_handles *h, struct stk_file *f)
{
    pthread_mutex_lock(&h->lock);
    f->refs--;
    pthread_mutex_unlock(&h->lock);
}

int stk_handles_plain(struct stk_handles *h, struct stk_file *f, struct stk_err *err)
{
    if (!f->align)
        return f->fd;
    pthread_mutex_lock(&h->lock);
    int fd = f->plain_fd;
    pthread_mutex_unlock(&h->lock);
    if (fd >= 0)
        return fd;
    fd = stk_file_open_plain(f, err);
    if (fd < 0)
        return fd;
    pthread_mutex_lock(&h->lock);
    int faster = f->plain_fd; /* of another request */
    if (faster < 0)
        f->plain_fd = fd;
    pthread_mutex_unlock(&h->lock);
    if (faster >= 0)
        close(fd);
    return faster < 0 ? fd : faster;
}
