/*
 * read.c - reads a profile from what a run left behind: a folder of logs and run files, one
 * log, or Darshan logs. The folder may still grow.
 */
#include "profile/priv.h"

#include "base/file.h"
#include "base/text.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#define MAX_FILES 4000000u /* in the folder */

enum kind { OTHER, LOG, RUN, DARSHAN };

struct entry {
    enum kind kind;
    char *name;
};

struct listing {
    struct entry *entry;
    size_t n;
};

static enum kind kind_of(const char *name)
{
    size_t n = strlen(name);
    if (stk_text_ends(name, n, STK_LOG_SUFFIX))
        return LOG;
    if (strncmp(name, "run.", 4) == 0 && stk_text_ends(name, n, ".json"))
        return RUN;
    return stk_text_ends(name, n, ".darshan") ? DARSHAN : OTHER;
}

static int by_name(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    return strcmp(x->name, y->name);
}

static void listing_release(struct listing *l)
{
    for (size_t i = 0; i < l->n; i++)
        free(l->entry[i].name);
    free(l->entry);
    *l = (struct listing){0};
}

static int list_folder(const char *path, struct listing *l, struct stk_err *err)
{
    DIR *dir = opendir(path);
    if (!dir)
        return stk_err_sys(err, path, "open");
    int rc = 0;
    for (struct dirent *d; !rc && (d = readdir(dir));) {
        enum kind kind = kind_of(d->d_name);
        if (kind == OTHER)
            continue;
        rc = STK_ARRAY_MORE(l->entry, l->n, err);
        if (!rc && l->n >= MAX_FILES)
            rc = stk_err_set(err, STK_E_UNSUPPORTED, path, -1, "more than %u files", MAX_FILES);
        char *name = rc ? NULL : strdup(d->d_name);
        if (!rc && !name)
            rc = stk_err_nomem(err, strlen(d->d_name));
        if (!rc)
            l->entry[l->n++] = (struct entry){kind, name};
    }
    closedir(dir);
    if (l->n)
        qsort(l->entry, l->n, sizeof *l->entry, by_name);
    return rc;
}

static int read_entry(struct stk_pb *pb, const char *dir, const struct entry *e,
                      struct stk_err *err)
{
    char *path = stk_path_join(dir, e->name);
    if (!path)
        return stk_err_nomem(err, strlen(dir));
    int rc = e->kind == LOG   ? stk_pb_log(pb, path, e->name, err)
             : e->kind == RUN ? stk_pb_run(pb, dir, e->name, err)
                              : stk_pb_darshan(pb, path, err);
    free(path);
    if (!rc && pb->p->nrecs > pb->max_recs)
        rc = stk_pb_fold(pb, err);
    return rc;
}

static int read_folder(struct stk_pb *pb, const char *path, struct stk_err *err)
{
    struct listing l = {0};
    int rc = list_folder(path, &l, err);
    size_t ours = 0, damaged = 0;
    for (size_t i = 0; i < l.n; i++)
        ours += l.entry[i].kind != DARSHAN;
    if (!rc && !l.n)
        rc = stk_err_set(err, STK_E_USAGE, path, -1,
                         "holds no profile: no %s, run.*.json or *.darshan in it",
                         "*" STK_LOG_SUFFIX);
    if (!rc && !ours)
        pb->p->source = "darshan";
    for (size_t i = 0; i < l.n && !rc; i++) {
        if (!ours || l.entry[i].kind != DARSHAN)
            rc = read_entry(pb, path, &l.entry[i], err);
        if (rc == STK_E_CORRUPT && !ours && ++damaged < l.n) /* not the only one */
            rc = stk_pb_note(pb, err, "%s is left out: %s.", l.entry[i].name,
                             err ? err->what : "it is damaged");
    }
    listing_release(&l);
    return rc;
}

static int read_input(struct stk_pb *pb, const char *path, struct stk_err *err)
{
    struct stat sb;
    if (stat(path, &sb) < 0)
        return stk_err_sys(err, path, "open");
    if (S_ISDIR(sb.st_mode))
        return read_folder(pb, path, err);
    if (stk_is_darshan(path)) {
        pb->p->source = "darshan";
        return stk_pb_darshan(pb, path, err);
    }
    if (!S_ISREG(sb.st_mode) || !stk_text_ends(path, strlen(path), STK_LOG_SUFFIX))
        return stk_err_set(err, STK_E_USAGE, path, -1,
                           "neither a folder of `stoker profile` nor a Darshan log");
    return stk_pb_log(pb, path, stk_base_name(path), err);
}

/* Moves a table from malloc into the arena. */
static int move(struct stk_pb *pb, void *array, size_t n, size_t size, struct stk_err *err)
{
    void **p = array;
    void *copy = stk_arena_dup(&pb->p->arena, *p, n * size);
    if (!copy)
        return stk_err_nomem(err, n * size);
    free(*p);
    *p = copy;
    return 0;
}

/* If no run file has the command line or the job number, the first process may. */
static int fill_gaps(struct stk_pb *pb, struct stk_err *err)
{
    (void)err;
    struct stk_profile *p = pb->p;
    size_t first = 0;
    for (size_t i = 1; i < p->nprocs; i++)
        if (p->proc[i].start_s < p->proc[first].start_s)
            first = i;
    if (!*p->command && p->nprocs)
        p->command = p->proc[first].command;
    for (size_t i = 0; i < p->nprocs && !*p->job; i++)
        p->job = pb->proc[i].job;
    for (size_t i = 0; i < p->nhosts; i++)
        p->host[i].name = *p->host[i].name ? p->host[i].name : "unknown";
    return 0;
}

/* Everything that is computed once the input is complete, in this order. */
static const struct {
    const char *name;
    int (*run)(struct stk_pb *pb, struct stk_err *err);
    const char *why; /* the reason for its place */
} passes[] = {
    {"clocks", stk_pb_clocks, "first: all others depend on the common time axis"},
    {"who", stk_pb_who, "parents start before their children: after clocks"},
    {"sort", stk_pb_sort, "sums the records file by file; drops unused files"},
    {"sums", stk_pb_sums, "a rank and its workers count once: after who"},
    {"twins", stk_pb_twins, "compares threads with their process: after sums"},
    {"kernel", stk_pb_kernel,
     "compares with the observed bytes: after sums; by parents: after who"},
    {"bins", stk_pb_bins, "divides the run, whose length comes from clocks"},
    {"gaps", fill_gaps, "the command of the process that started first: after clocks"},
    {"notes", stk_pb_notes, "last: reports on everything above"},
};

static int run_passes(struct stk_pb *pb, struct stk_err *err)
{
    int rc = 0;
    for (size_t i = 0; i < sizeof passes / sizeof *passes && !rc; i++)
        rc = passes[i].run(pb, err);
    return rc;
}

static int hand_over(struct stk_pb *pb, struct stk_err *err)
{
    struct stk_profile *p = pb->p;
    const struct {
        void *array;
        size_t n, size;
    } all[] = {
        {&p->host, p->nhosts, sizeof *p->host},          {&p->proc, p->nprocs, sizeof *p->proc},
        {&p->file, p->nfiles, sizeof *p->file},          {&p->mark, p->nmarks, sizeof *p->mark},
        {&p->reading, p->nreadings, sizeof *p->reading}, {&p->note, p->nnotes, sizeof *p->note},
    };
    int rc = 0;
    size_t done = 0;
    for (; done < sizeof all / sizeof *all && !rc; done++)
        rc = move(pb, all[done].array, all[done].n, all[done].size, err);
    /* Tables that were not moved are still from malloc. */
    for (size_t i = rc ? done - 1 : done; i < sizeof all / sizeof *all; i++)
        free(*(void **)all[i].array);
    p->owned = p->rec;
    return rc;
}

int stk_profile_read(const char *path, struct stk_profile *p, struct stk_err *err)
{
    return stk_profile_read_within(path, 0, p, err);
}

int stk_profile_read_within(const char *path, size_t max_recs, struct stk_profile *p,
                            struct stk_err *err)
{
    struct stk_pb pb;
    int rc = 0;
    stk_pb_init(&pb, p);
    pb.max_recs = max_recs ? max_recs : pb.max_recs;
    if (!(p->path = stk_pb_text(&pb, path, strlen(path))))
        rc = stk_err_nomem(err, strlen(path));
    rc = rc ? rc : read_input(&pb, path, err);
    rc = rc ? rc : run_passes(&pb, err);
    int moved = hand_over(&pb, rc ? NULL : err);
    stk_pb_release(&pb);
    rc = rc ? rc : moved;
    if (rc)
        stk_profile_release(p);
    return rc;
}

void stk_profile_release(struct stk_profile *p)
{
    free(p->owned);
    stk_arena_release(&p->arena);
    *p = (struct stk_profile){0};
}
