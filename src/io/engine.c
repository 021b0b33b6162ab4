/*
 * engine.c - the table of engines, and the choice of one for a request of the user. An engine
 * describes itself in its struct stk_io_ops; the names that users see come from here.
 */
#include "io/priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Engines that can read directly are tried in this order. */
static const struct stk_io_ops *const engines[] = {
    &stk_io_uring_ops,
    &stk_io_threads_ops,
    &stk_io_mmap_ops,
};
#define NENGINES (sizeof engines / sizeof *engines)

/* Choices that are not engines. */
static const char *const choices[] = {[STK_IO_AUTO] = "auto", [STK_IO_DIRECT] = "direct"};
#define NCHOICES (sizeof choices / sizeof *choices)

#define NNAMES (NCHOICES + NENGINES)

static const char *name_at(size_t i, enum stk_io_kind *kind)
{
    *kind = i < NCHOICES ? (enum stk_io_kind)i : engines[i - NCHOICES]->kind;
    return i < NCHOICES ? choices[i] : engines[i - NCHOICES]->name;
}

const char *const *stk_io_names(void)
{
    static const char *names[NNAMES + 1];
    enum stk_io_kind kind;
    for (size_t i = 0; i < NNAMES; i++)
        names[i] = name_at(i, &kind);
    return names;
}

int stk_io_find(const char *name, enum stk_io_kind *kind, struct stk_err *err)
{
    char known[128];
    int n = 0;
    for (size_t i = 0; i < NNAMES; i++) {
        const char *one = name_at(i, kind);
        if (strcmp(name, one) == 0)
            return 0;
        n += snprintf(known + n, sizeof known - (size_t)n, "%s%s", i ? ", " : "", one);
    }
    return stk_err_set(err, STK_E_USAGE, NULL, -1, "no engine '%s'; there are %s", name, known);
}

static const struct stk_io_ops *engine_of(enum stk_io_kind kind)
{
    for (size_t i = 0; i < NENGINES; i++)
        if (engines[i]->kind == kind)
            return engines[i];
    return NULL;
}

static int take(struct stk_io *io, const struct stk_io_ops *ops, struct stk_err *err)
{
    if (io->once && !(ops->caps & STK_IO_CAN_ONCE))
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1, "too many small files");
    io->ops = ops;
    io->name = ops->name;
    return ops->open ? ops->open(io, err) : 0;
}

static int take_direct(struct stk_io *io, struct stk_err *err)
{
    int rc = STK_E_UNSUPPORTED;
    for (size_t i = 0; i < NENGINES && rc < 0; i++)
        if (engines[i]->caps & STK_IO_CAN_DIRECT)
            rc = take(io, engines[i], err);
    if (rc == 0) {
        io->name = choices[STK_IO_DIRECT];
        snprintf(io->detail, sizeof io->detail, "%s, %s", io->name, io->ops->title);
    }
    return rc;
}

/* The engine itself, or threads in its place. */
static int take_named(struct stk_io *io, const struct stk_io_ops *wanted, struct stk_err *err)
{
    const char *more = wanted->caps & STK_IO_CAN_DIRECT ? "through the page cache" : "";
    struct stk_err why = {0};
    int rc = take(io, wanted, &why);
    if (rc < 0 && wanted != &stk_io_threads_ops) {
        rc = take(io, &stk_io_threads_ops, err);
        more = wanted->lacking ? wanted->lacking : why.what;
    } else if (rc < 0 && err) {
        *err = why;
    }
    snprintf(io->detail, sizeof io->detail, "%s%s%.80s", io->name, *more ? ", " : "", more);
    return rc;
}

int stk_io_take_engine(struct stk_io *io, enum stk_io_kind kind, struct stk_err *err)
{
    const struct stk_io_ops *wanted = engine_of(kind);
    struct stk_err why = {0};
    int rc = stk_err_set(&why, STK_E_USAGE, NULL, -1, "no such I/O engine");
    if (kind == STK_IO_DIRECT)
        rc = take_direct(io, &why);
    else if (wanted)
        rc = take_named(io, wanted, &why);
    if (rc < 0 && err)
        *err = why;
    return rc;
}

int stk_io_try_uring(struct stk_err *err)
{
    struct stk_io *io = calloc(1, sizeof *io);
    if (!io)
        return stk_err_nomem(err, sizeof *io);
    io->depth = 1;
    int rc = stk_io_uring_ops.open(io, err);
    if (!rc)
        stk_io_uring_ops.close(io);
    free(io);
    return rc;
}
