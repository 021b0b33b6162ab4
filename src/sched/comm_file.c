/*
 * comm_file.c - a file that all ranks read together: MPI-IO's collective read if there is MPI, else
 * each rank reads its own range.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "sched/comm_priv.h"

struct stk_comm_file {
    struct comm_root *root;
    int fd; /* -1: MPI-IO */
    char *path;
    uint64_t room[8];
};

bool stk_comm_has_mpiio(const struct stk_comm *c)
{
    return c->root->ops && c->root->ops->file_open && c->root->files;
}

/* Without the lock: the signs of life go on while storage is slow. */
static int open_together(struct stk_comm *c, struct stk_comm_file *f, struct stk_err *err)
{
    struct comm_root *r = c->root;
    uint32_t *rank = calloc(c->size, sizeof *rank);
    if (!rank)
        return stk_err_nomem(err, c->size * sizeof *rank);
    for (uint32_t i = 0; i < c->size; i++)
        rank[i] = stk_comm_world(c, i);
    int rc = r->ops->file_open(r->impl, rank, c->size, f->path, f->room, err);
    free(rank);
    return rc;
}

int stk_comm_file_open(struct stk_comm *c, const char *path, struct stk_comm_file **out,
                       struct stk_err *err)
{
    struct stk_comm_file *f = calloc(1, sizeof *f);
    char *copy = f ? stk_path_join("", path) : NULL;
    int rc = copy ? 0 : stk_err_nomem(err, sizeof *f);
    if (!rc) {
        *f = (struct stk_comm_file){.root = c->root, .fd = -1, .path = copy};
        rc = stk_comm_has_mpiio(c) ? open_together(c, f, err)
                                   : stk_read_open(AT_FDCWD, path, 0, &f->fd, NULL, path, err);
    }
    if (!rc) {
        *out = f;
        return 0;
    }
    free(copy);
    free(f);
    return rc;
}

int stk_comm_file_read_all(struct stk_comm_file *f, uint64_t off, void *p, size_t n, size_t *got,
                           struct stk_err *err)
{
    struct comm_root *r = f->root;
    if (f->fd >= 0)
        return stk_pread_full(f->fd, p, n, off, got, f->path, err);
    if (n > STK_COMM_MSG_MAX)
        return stk_err_set(err, STK_E_USAGE, f->path, -1, "a read of %zu bytes", n);
    return r->ops->file_read_all(r->impl, f->room, off, p, n, got, err);
}

void stk_comm_file_close(struct stk_comm_file *f)
{
    if (!f)
        return;
    struct comm_root *r = f->root;
    if (f->fd >= 0)
        close(f->fd);
    else if (!r->failed && stk_pulse_lost(r, NULL, 0) < 0)
        r->ops->file_close(r->impl, f->room);
    free(f->path);
    free(f);
}
