/* spool.c - tables on disk in files without a name. */
#include "base/spool.h"
#include "base/file.h"
#include "base/guard.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define SPOOL_BUF (256u << 10)

const char *stk_tmpdir(void)
{
    const char *tmp = getenv("TMPDIR");
    return tmp && tmp[0] ? tmp : "/tmp";
}

int stk_nameless_file(const char *dir, struct stk_err *err)
{
    int fd = dir ? stk_create_nameless(dir) : -1;
    if (fd < 0)
        fd = stk_create_nameless(stk_tmpdir());
    return fd < 0 ? stk_err_sys(err, stk_tmpdir(), "make a temporary file") : fd;
}

void stk_spool_init(struct stk_spool *s, const char *dir)
{
    *s = (struct stk_spool){.fd = -1, .slot = -1, .dir = dir};
}

/* The file has no name: the folder tells which disk it is on. */
static const char *place(const struct stk_spool *s)
{
    return s->dir ? s->dir : stk_tmpdir();
}

static bool is_intact(const struct stk_spool *s)
{
    return !s->damaged && (!s->map || stk_guard_damage(s->slot) == UINT64_MAX);
}

static void unmap(struct stk_spool *s)
{
    s->damaged = !is_intact(s);
    if (s->map) {
        munmap(s->map, s->mapped);
        stk_guard_release(s->slot, 1);
    }
    s->map = NULL;
    s->slot = -1;
}

void stk_spool_release(struct stk_spool *s)
{
    unmap(s);
    if (s->fd >= 0)
        close(s->fd);
    stk_buf_release(&s->buf);
    stk_spool_init(s, NULL);
}

/* After a failure every call fails: the table must not be mapped past its end. */
static int flush(struct stk_spool *s, struct stk_err *err)
{
    if (s->fd < 0 && (s->fd = stk_nameless_file(s->dir, err)) < 0)
        return STK_E_SYS;
    int rc = s->failed ? stk_err_set(err, STK_E_SYS, place(s), -1, "an earlier write failed")
                       : stk_write_full(s->fd, s->buf.data, s->buf.len, place(s), err);
    if (rc < 0) {
        s->failed = true;
        return stk_err_wrap(err, rc, "temporary file");
    }
    s->flushed += s->buf.len;
    stk_buf_reset(&s->buf);
    return 0;
}

int stk_spool_put(struct stk_spool *s, const void *p, size_t n, struct stk_err *err)
{
    stk_buf_put(&s->buf, p, n);
    if (s->buf.len < SPOOL_BUF)
        return stk_buf_check(&s->buf, err);
    return s->buf.fail ? stk_buf_check(&s->buf, err) : flush(s, err);
}

static int cannot_map(struct stk_spool *s, struct stk_err *err)
{
    if (s->slot < 0)
        return stk_err_set(err, STK_E_SYS, place(s), -1, "too many files are mapped");
    int rc = stk_err_sys(err, place(s), "map a temporary file");
    stk_guard_release(s->slot, 1);
    s->slot = -1;
    return rc;
}

int stk_spool_map(struct stk_spool *s, const void **p, struct stk_err *err)
{
    unmap(s);
    *p = s->buf.data;
    if (!s->flushed)
        return 0;
    int rc = s->buf.len ? flush(s, err) : 0;
    if (rc < 0)
        return rc;
    s->mapped = (size_t)s->flushed;
    s->slot = stk_guard_reserve(1);
    void *m = s->slot < 0 ? MAP_FAILED : mmap(NULL, s->mapped, PROT_READ, MAP_SHARED, s->fd, 0);
    if (m == MAP_FAILED)
        return cannot_map(s, err);
    stk_guard_add(s->slot, m, s->mapped);
    *p = s->map = m;
    return 0;
}

int stk_spool_intact(const struct stk_spool *s, struct stk_err *err)
{
    if (is_intact(s))
        return 0;
    return stk_err_set(err, STK_E_SYS, place(s), -1,
                       "a temporary file became shorter or could not be read");
}
