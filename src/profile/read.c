/*
 * read.c - reads a profile from what a run left behind: a folder of logs and run files, one
 * log, or Darshan logs. The folder may still grow.
 */
#include "profile/priv.h"

#include "base/dir.h"
#include "base/file.h"
#include "base/text.h"
#include "proflog/slots.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_FILES 4000000u /* in the folder */

enum kind { OTHER, LOG, RUN, DARSHAN, SLOTS };

struct entry {
    enum kind kind;
    char *name;
    char *file;  /* LOG: that has it in a slot; NULL: it is a file itself */
    uint64_t at; /* of the slot */
};

struct listing {
    struct entry *entry;
    size_t n;
};

static enum kind kind_of(const char *name)
{
    size_t n = strlen(name);
    if (stk_text_ends(name, n, STK_LOG_SUFFIX))
        return stk_text_ends(name, n, STK_SLOTS_SUFFIX) ? SLOTS : LOG;
    if (strncmp(name, "run.", 4) == 0 && stk_text_ends(name, n, ".json"))
        return RUN;
    return stk_text_ends(name, n, ".darshan") ? DARSHAN : OTHER;
}

static int by_name(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    int c = strcmp(x->name, y->name);
    return c ? c : (x->file != NULL) - (y->file != NULL); /* a log's own file before its slot */
}

static void entry_release(struct entry *e)
{
    free(e->name);
    free(e->file);
}

static void listing_release(struct listing *l)
{
    for (size_t i = 0; i < l->n; i++)
        entry_release(&l->entry[i]);
    free(l->entry);
    *l = (struct listing){0};
}

static int add_entry(struct listing *l, enum kind kind, const char *name, const char *file,
                     uint64_t at, struct stk_err *err)
{
    int rc = STK_ARRAY_MORE(l->entry, l->n, err);
    if (!rc && l->n >= MAX_FILES)
        rc = stk_err_set(err, STK_E_UNSUPPORTED, name, -1, "more than %u files", MAX_FILES);
    struct entry e = {.kind = kind, .at = at};
    if (!rc && (!(e.name = strdup(name)) || (file && !(e.file = strdup(file))))) {
        entry_release(&e);
        rc = stk_err_nomem(err, strlen(name));
    }
    if (!rc)
        l->entry[l->n++] = e;
    return rc;
}

/* A slot that is empty, or whose log has moved to a file of its own, has no magic number. */
static int list_slot(struct listing *l, const char *file, int fd, uint32_t i, struct stk_err *err)
{
    struct stk_log_header h;
    size_t got = 0;
    if (stk_pread_full(fd, &h, sizeof h, stk_slot_at(i), &got, file, NULL) || got < sizeof h ||
        h.magic != STK_LOG_MAGIC)
        return 0;
    h.name[sizeof h.name - 1] = '\0';
    bool safe = kind_of(h.name) == LOG && !strchr(h.name, '/');
    return add_entry(l, LOG, safe ? h.name : file, file, stk_slot_at(i), err);
}

/* fd: -1 has none. */
static uint32_t slots_in(int fd, uint64_t size)
{
    uint64_t head[2] = {0}; /* magic number; version, and whether it is closed */
    size_t got = 0;
    if (fd < 0 || stk_pread_full(fd, head, sizeof head, 0, &got, "", NULL) ||
        head[0] != STK_SLOTS_MAGIC || (uint32_t)head[1] != STK_LOG_VERSION)
        return UINT32_MAX;
    uint64_t n = size > STK_SLOTS_HEAD ? (size - STK_SLOTS_HEAD) / STK_LOG_FIRST : 0;
    return n < STK_SLOTS_MOST ? (uint32_t)n : STK_SLOTS_MOST;
}

/* The logs in a file of slots. If it is damaged or of another version, it is listed as a log, and
 * then reported as one. */
static int list_slots(struct listing *l, const char *folder, const char *file, struct stk_err *err)
{
    struct stat sb = {0};
    int fd = -1;
    char *path = stk_path_join(folder, file);
    if (!path)
        return stk_err_nomem(err, strlen(file));
    (void)stk_read_open(AT_FDCWD, path, 0, &fd, &sb, path, NULL);
    uint32_t n = slots_in(fd, (uint64_t)sb.st_size);
    int rc = n == UINT32_MAX ? add_entry(l, LOG, file, NULL, 0, err) : 0;
    for (uint32_t i = 0; !rc && n != UINT32_MAX && i < n; i++)
        rc = list_slot(l, file, fd, i, err);
    if (fd >= 0)
        close(fd);
    free(path);
    return rc;
}

/* The file has its magic number once everything else is in it. One that cannot be opened counts as
 * complete: reading it says why. */
static bool is_complete(const char *folder, const char *name)
{
    struct stk_log_file f = {.fd = -1};
    char *path = stk_path_join(folder, name);
    int rc = path ? stk_log_open(&f, &(struct stk_log_at){path, 0}, NULL) : STK_E_NOMEM;
    stk_log_close(&f);
    free(path);
    return rc == 0 || rc == STK_E_SYS;
}

/* If a process was killed while its log moved from its slot to a file, both have it. */
static void drop_twins(const char *folder, struct listing *l)
{
    size_t kept = 0;
    for (size_t i = 0; i < l->n; i++) {
        struct entry *e = &l->entry[i], *before = kept ? &l->entry[kept - 1] : NULL;
        if (!before || !e->file || before->file || strcmp(before->name, e->name) != 0) {
            l->entry[kept++] = *e;
        } else if (is_complete(folder, e->name)) {
            entry_release(e);
        } else {
            entry_release(before);
            *before = *e;
        }
    }
    l->n = kept;
}

static int list_folder(const char *path, struct listing *l, struct stk_err *err)
{
    struct stk_dir d;
    int rc = stk_dir_open(&d, path, err);
    for (const struct dirent *e; !rc && (e = stk_dir_next(&d));) {
        enum kind kind = kind_of(e->d_name);
        if (kind == SLOTS)
            rc = list_slots(l, path, e->d_name, err);
        else if (kind != OTHER)
            rc = add_entry(l, kind, e->d_name, NULL, 0, err);
    }
    rc = stk_dir_end(&d, rc, err);
    if (l->n)
        qsort(l->entry, l->n, sizeof *l->entry, by_name);
    drop_twins(path, l);
    return rc;
}

static int read_entry(struct stk_pb *pb, const char *dir, const struct entry *e,
                      struct stk_err *err)
{
    char *path = stk_path_join(dir, e->file ? e->file : e->name);
    if (!path)
        return stk_err_nomem(err, strlen(dir));
    const struct stk_log_at where = {path, e->at};
    int rc = e->kind == LOG   ? stk_pb_log(pb, &where, e->name, err)
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
        pb->p->source = &stk_source_darshan;
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
        pb->p->source = &stk_source_darshan;
        return stk_pb_darshan(pb, path, err);
    }
    if (!S_ISREG(sb.st_mode) || !stk_text_ends(path, strlen(path), STK_LOG_SUFFIX))
        return stk_err_set(err, STK_E_USAGE, path, -1,
                           "neither a folder of `stoker profile` nor a Darshan log");
    return stk_pb_log(pb, &(struct stk_log_at){path, 0}, stk_base_name(path), err);
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
    {"unite", stk_pb_unite, "needs the records by process, as they were read: before sort"},
    {"sort", stk_pb_sort, "sums the records file by file; drops unused files"},
    {"sums", stk_pb_sums, "a rank and its workers count once: after who"},
    {"launch", stk_pb_launch, "weighs processes and what they moved: after sums; before bins"},
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
