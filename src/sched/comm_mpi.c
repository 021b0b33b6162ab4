/*
 * comm_mpi.c - a communicator through MPI: its messages through the functions of a module, and the
 * modules: finding, loading and building them. One communicator per process: MPI begins once.
 *
 * A module is libstoker-mpi-NAME.so, one per MPI: those that were installed with stoker, and those
 * that were built later, in the user's own folder, which come first.
 */
#include "sched/comm_priv.h"
#include "sched/mpi/stoker_mpi.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/dir.h"
#include "base/file.h"
#include "base/helper.h"
#include "base/api.h"

#define PREFIX   "libstoker-mpi-"
#define SUFFIX   ".so"
#define SOURCE   "stoker_mpi.c"
#define LOAD_S   20.0  /* to load one in a child */
#define BUILD_S  120.0 /* to compile one */
#define BUILD_IT "`stoker doctor --build-mpi=MPICC` builds one with the compiler of an MPI"

struct found {
    struct stk_comm_module *item;
    size_t n;
    struct stk_err *err;
};

/* ---- the launcher ---- */

enum family { UNKNOWN, OPENMPI, MPICH, PMIX };

static bool has(const char *variable)
{
    const char *v = getenv(variable);
    return v && *v;
}

/* By the variables that it leaves for its processes. */
static enum family launched_by(void)
{
    if (has("OMPI_COMM_WORLD_SIZE"))
        return OPENMPI;
    if (has("PMI_RANK") || has("PMI_FD") || has("PMI_SIZE") || has("HYDI_CONTROL_FD") ||
        has("MV2_COMM_WORLD_RANK") || has("PMI_CONTROL_PORT"))
        return MPICH;
    return has("PMIX_RANK") || has("PMIX_NAMESPACE") ? PMIX : UNKNOWN;
}

static bool is_openmpi(const char *name)
{
    return strcmp(name, "openmpi") == 0;
}

/* Higher is better; 0: it would see each process alone. */
static int fitness(const char *name, enum family by)
{
    bool other = strcmp(name, "mpi") == 0; /* an MPI that the module does not know by name */
    switch (by) {
    case OPENMPI:
        return is_openmpi(name) ? 3 : other;
    case MPICH:
        return !is_openmpi(name) ? 3 - other : 0;
    case PMIX:
        return is_openmpi(name) ? 3 : 2 - other;
    default:
        return 1;
    }
}

/* ---- finding ---- */

static int user_folder(char **out, struct stk_err *err)
{
    const char *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    struct stk_buf b = STK_BUF_INIT;
    if (data && *data == '/')
        stk_buf_printf(&b, "%s/stoker/mpi", data);
    else if (home && *home == '/')
        stk_buf_printf(&b, "%s/.local/share/stoker/mpi", home);
    else
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                           "neither XDG_DATA_HOME nor HOME is set: no place for modules");
    *out = strdup(stk_buf_cstr(&b));
    stk_buf_release(&b);
    return *out ? 0 : stk_err_nomem(err, PATH_MAX);
}

static bool is_known(const struct found *f, const char *name)
{
    for (size_t i = 0; i < f->n; i++)
        if (strcmp(f->item[i].name, name) == 0)
            return true;
    return false;
}

static int add(struct found *f, const char *name, size_t len, const char *path)
{
    struct stk_comm_module m = {0};
    snprintf(m.name, sizeof m.name, "%.*s", (int)len, name);
    if (snprintf(m.path, sizeof m.path, "%s", path) >= (int)sizeof m.path || is_known(f, m.name))
        return 0;
    if (STK_ARRAY_MORE(f->item, f->n, f->err))
        return STK_E_NOMEM;
    f->item[f->n++] = m;
    return 0;
}

static int add_folder(void *user, const char *folder)
{
    struct found *f = user;
    char path[2 * PATH_MAX];
    struct stk_dir d;
    int rc = stk_dir_open_optional(&d, folder, f->err);
    for (const struct dirent *e; !rc && (e = stk_dir_next(&d));) {
        size_t n = strlen(e->d_name), fix = strlen(PREFIX) + strlen(SUFFIX);
        if (n <= fix || n - fix >= sizeof f->item->name ||
            strncmp(e->d_name, PREFIX, strlen(PREFIX)) != 0 ||
            strcmp(e->d_name + n - strlen(SUFFIX), SUFFIX) != 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        rc = add(f, e->d_name + strlen(PREFIX), n - fix, path);
    }
    return stk_dir_end(&d, rc, f->err);
}

/* A folder in which others may write could hold code of theirs. */
static bool is_ours(const char *folder)
{
    int fd;
    if (stk_own_folder(folder, 0, &fd, NULL) != 0)
        return false;
    close(fd);
    return true;
}

static int by_name(const void *a, const void *b)
{
    const struct stk_comm_module *x = a, *y = b;
    return strcmp(y->name, x->name); /* openmpi before mpich, if nothing else decides */
}

static int find_all(struct found *f)
{
    char *mine = NULL;
    int rc = 0;
    if (user_folder(&mine, NULL) == 0 && is_ours(mine))
        rc = add_folder(f, mine);
    free(mine);
    rc = rc ? rc : stk_installed_folders(add_folder, f);
    if (f->n > 1)
        qsort(f->item, f->n, sizeof *f->item, by_name);
    return rc;
}

/* ---- loading ---- */

static const struct stoker_mpi *table_of(void *lib, struct stk_comm_module *m)
{
    const struct stoker_mpi *t = dlsym(lib, STOKER_MPI_TABLE);
    if (!t)
        snprintf(m->problem, sizeof m->problem, "it is no module of stoker");
    else if (t->version != STOKER_MPI_VERSION || t->size != sizeof *t || t->room > 64 ||
             t->file_room > 64)
        snprintf(m->problem, sizeof m->problem,
                 "it has version %u of the table, and this stoker needs %d: build it again",
                 (unsigned)t->version, STOKER_MPI_VERSION);
    else
        return t;
    return NULL;
}

/* With its symbols for all: plugins of an MPI look for those of its library. */
static const struct stoker_mpi *load(struct stk_comm_module *m)
{
    void *lib = dlopen(m->path, RTLD_NOW | RTLD_GLOBAL);
    if (!lib) {
        const char *why = dlerror();
        snprintf(m->problem, sizeof m->problem, "%.255s", why ? why : "it cannot be loaded");
        return NULL;
    }
    const struct stoker_mpi *t = table_of(lib, m);
    if (!t)
        dlclose(lib);
    return t;
}

static int no_module(const struct found *f, enum family by, struct stk_err *err)
{
    static const char *const launcher[] = {"", "Open MPI", "MPICH or a relative", "PMIx"};
    for (size_t i = 0; i < f->n; i++)
        if (f->item[i].problem[0] && fitness(f->item[i].name, by))
            return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1, "the MPI module %s: %s",
                               f->item[i].path, f->item[i].problem);
    return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                       "%s started these processes, and there is no MPI module for it: " BUILD_IT,
                       launcher[by]);
}

static int load_best(const struct stoker_mpi **out, struct stk_err *err)
{
    struct found f = {.err = err};
    enum family by = launched_by();
    if (by == UNKNOWN)
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                           "these processes were started without PMIx and PMI, so no MPI can "
                           "connect them: use mpirun, or srun with --mpi=pmix (srun --mpi=list "
                           "shows what there is)");
    int rc = find_all(&f);
    *out = NULL;
    for (int want = 3; want > 0 && !rc && !*out; want--)
        for (size_t i = 0; i < f.n && !*out; i++)
            if (fitness(f.item[i].name, by) == want)
                *out = load(&f.item[i]);
    if (!rc && !*out)
        rc = no_module(&f, by, err);
    free(f.item);
    return rc;
}

/* A name, or a path if it has a slash. */
static int load_named(const char *want, const struct stoker_mpi **out, struct stk_err *err)
{
    struct found f = {.err = err};
    int rc = strchr(want, '/') ? add(&f, "named", 5, want) : find_all(&f);
    size_t i = 0;
    while (!rc && i < f.n && !strchr(want, '/') && strcmp(f.item[i].name, want) != 0)
        i++;
    if (!rc && i == f.n)
        rc = stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                         "STOKER_MPI=%.60s: there is no MPI module of this name; " BUILD_IT, want);
    if (!rc && !(*out = load(&f.item[i])))
        rc = stk_err_set(err, STK_E_UNSUPPORTED, f.item[i].path, -1, "an MPI module: %s",
                         f.item[i].problem);
    free(f.item);
    return rc;
}

int stk_module_load(const char *want, const struct stoker_mpi **out, struct stk_err *err)
{
    return want ? load_named(want, out, err) : load_best(out, err);
}

/* "Open MPI v4.1.4", "MPICH Version:\t4.0.2": of the first line, the words before a comma. */
static void library_of(const struct stoker_mpi *mpi, char *text, size_t size)
{
    char *to = text;
    mpi->library(text, size);
    text[strcspn(text, "\n,")] = '\0';
    for (const char *from = text; *from;) {
        if (strncmp(from, " Version:", 9) == 0)
            from += 9;
        *to++ = *from == '\t' ? ' ' : *from;
        from += *from != '\0';
    }
    *to = '\0';
}

/* ---- for people ---- */

struct known {
    char name[sizeof((struct stk_comm_module *)0)->name]; /* as it says itself */
    char library[sizeof((struct stk_comm_module *)0)->library];
    char problem[sizeof((struct stk_comm_module *)0)->problem];
};

/* In a helper: the symbols of two MPIs do not go together, and a library may hang or print. */
static int ask_library(void *user, void *answer)
{
    struct stk_comm_module m = *(const struct stk_comm_module *)user;
    struct known *k = answer;
    (void)dup2(STDOUT_FILENO, STDERR_FILENO);
    const struct stoker_mpi *t = load(&m);
    if (t)
        library_of(t, k->library, sizeof k->library);
    snprintf(k->name, sizeof k->name, "%s", t ? t->name : "");
    snprintf(k->problem, sizeof k->problem, "%s", m.problem);
    return 0;
}

static void look_at(struct stk_comm_module *m, char name[32])
{
    const struct stk_limit limit = {.seconds = LOAD_S};
    struct known k;
    int why = stk_helper_ask(ask_library, m, &limit, &k, sizeof k);
    if (why)
        snprintf(k.problem, sizeof k.problem, "it does not load%s",
                 why == ETIMEDOUT ? " in time" : "");
    snprintf(m->problem, sizeof m->problem, "%.255s", k.problem);
    if (m->problem[0])
        return;
    snprintf(m->library, sizeof m->library, "%.159s", k.library);
    snprintf(name, sizeof m->name, "%.31s", k.name);
}

/* The one that stk_comm_open() would take. */
static void mark_chosen(struct found *f)
{
    const char *want = getenv("STOKER_MPI");
    enum family by = launched_by();
    struct stk_comm_module *best = NULL;
    int most = 0;
    for (size_t i = 0; i < f->n; i++) {
        struct stk_comm_module *m = &f->item[i];
        int fit = want && *want ? 4 * (strcmp(want, m->name) == 0 || strcmp(want, m->path) == 0)
                                : fitness(m->name, by);
        if (!m->problem[0] && fit > most) {
            best = m;
            most = fit;
        }
    }
    if (best)
        best->chosen = true;
}

int stk_comm_found(struct stk_comm_module **list, size_t *n, struct stk_err *err)
{
    struct found f = {.err = err};
    const char *want = getenv("STOKER_MPI");
    char name[32];
    int rc = find_all(&f);
    if (!rc && want && strchr(want, '/'))
        rc = add(&f, "named", 5, want);
    for (size_t i = 0; i < f.n && !rc; i++)
        look_at(&f.item[i], name);
    if (rc) {
        free(f.item);
        return rc;
    }
    mark_chosen(&f);
    *list = f.item;
    *n = f.n;
    return 0;
}

/* ---- building ---- */

static int compile(const char *compiler, const char *source, const char *out, struct stk_err *err)
{
    const char *argv[] = {compiler, "-shared", "-fPIC", "-O2", "-o", out, source, NULL};
    struct stk_buf text = STK_BUF_INIT;
    struct stk_child c = {.argv = argv,
                          .path = compiler,
                          .fd = {STK_FD_NULL, STK_FD_NULL, STK_FD_PIPE},
                          .own_group = true,
                          .timeout_s = BUILD_S,
                          .text = {NULL, NULL, &text},
                          .text_max = {0, 0, 600}};
    int rc = 0;
    errno = stk_child_start(&c);
    if (errno == 0)
        errno = stk_child_attend(&c);
    if (errno)
        rc = stk_err_sys(err, compiler, "cannot be run");
    else if (c.timed_out || c.ending.status)
        rc = stk_err_set(err, STK_E_UNSUPPORTED, compiler, -1,
                         "it did not build the module (is it the compiler of an MPI?)%s%.*s",
                         text.len ? ": " : "", (int)strcspn(stk_buf_cstr(&text), "\n"),
                         stk_buf_cstr(&text));
    stk_buf_release(&text);
    return rc;
}

/* Builds in a folder of its own, beside those that are in use. */
static int build_in(const char *folder, int fd, const char *compiler, const char *source,
                    struct stk_comm_module *m, struct stk_err *err)
{
    char *tmp = NULL;
    int tmp_fd = -1, rc = stk_own_temp_folder(folder, "build", &tmp, &tmp_fd, err);
    if (rc)
        return rc;
    char file[sizeof m->name + 32], name[32] = "";
    *m = (struct stk_comm_module){0};
    if (snprintf(m->path, sizeof m->path, "%s/module.so", tmp) >= (int)sizeof m->path)
        rc = stk_err_set(err, STK_E_USAGE, tmp, -1, "the path is too long");
    rc = rc ? rc : compile(compiler, source, m->path, err);
    if (!rc)
        look_at(m, name);
    if (!rc && m->problem[0])
        rc = stk_err_set(err, STK_E_UNSUPPORTED, compiler, -1, "the module was built, but %s",
                         m->problem);
    snprintf(m->name, sizeof m->name, "%s", name);
    snprintf(file, sizeof file, PREFIX "%s" SUFFIX, name);
    if (!rc && stk_rename_at(tmp_fd, "module.so", fd, file) != 0)
        rc = stk_err_sys(err, folder, "rename to %s", file);
    snprintf(m->path, sizeof m->path, "%.900s/%s", folder, file);
    close(tmp_fd);
    (void)stk_remove_at(fd, stk_base_name(tmp), tmp, NULL);
    free(tmp);
    return rc;
}

int stk_comm_build(const char *mpicc, struct stk_comm_module *m, struct stk_err *err)
{
    char *folder = NULL, *compiler = NULL, *source = stk_installed(SOURCE);
    int fd = -1, rc = 0;
    mpicc = mpicc && *mpicc ? mpicc : "mpicc";
    if (!source)
        rc =
            stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                        "the source of the module, %s, is not in %s", SOURCE, stk_installed_folder);
    if (!rc && (errno = stk_find_program(mpicc, &compiler)) != 0)
        rc = stk_err_sys(err, mpicc,
                         "find the compiler of an MPI (`module load` the MPI, or give a path)");
    rc = rc ? rc : user_folder(&folder, err);
    rc = rc ? rc : stk_mkdirs(folder, err);
    rc = rc ? rc : stk_own_folder(folder, STK_OWN_MAKE | STK_OWN_PRIVATE, &fd, err);
    rc = rc ? rc : build_in(folder, fd, compiler, source, m, err);
    if (fd >= 0)
        close(fd);
    free(folder);
    free(compiler);
    free(source);
    return rc;
}

static const struct stoker_mpi *the_mpi; /* of this process, since stk_comm_mpi_join() */

static int failed(const char *why, struct stk_err *err)
{
    return stk_err_set(err, STK_E_STOPPED, NULL, -1, "%s", why);
}

static int mpi_isend(void *impl, uint32_t to, int tag, const void *p, size_t n, uint64_t *room,
                     struct stk_err *err)
{
    const struct stoker_mpi *mpi = impl;
    char why[STOKER_MPI_WHY] = "";
    return mpi->isend(room, (int)to, tag, p, (int)n, why) ? failed(why, err) : 0;
}

static int mpi_irecv(void *impl, uint32_t from, int tag, void *p, size_t n, uint64_t *room,
                     struct stk_err *err)
{
    const struct stoker_mpi *mpi = impl;
    char why[STOKER_MPI_WHY] = "";
    return mpi->irecv(room, from == STK_COMM_ANY ? -1 : (int)from, tag, p, (int)n, why)
               ? failed(why, err)
               : 0;
}

static int mpi_test(void *impl, uint64_t *room, bool *done, uint32_t *from, size_t *n,
                    struct stk_err *err)
{
    const struct stoker_mpi *mpi = impl;
    char why[STOKER_MPI_WHY] = "";
    int is_done = 0, source = 0, count = 0;
    if (mpi->test(room, &is_done, &source, &count, why))
        return failed(why, err);
    *done = is_done;
    *from = source < 0 ? 0 : (uint32_t)source;
    *n = count < 0 ? 0 : (size_t)count;
    return 0;
}

static void mpi_cancel(void *impl, uint64_t *room)
{
    const struct stoker_mpi *mpi = impl;
    char why[STOKER_MPI_WHY];
    (void)mpi->cancel(room, why);
}

/* An MPI library may print a banner when it begins or ends, and our standard output may be data. */
static int output_aside(void)
{
    fflush(stdout);
    int kept = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
    if (kept >= 0)
        (void)dup2(STDERR_FILENO, STDOUT_FILENO);
    return kept;
}

static void output_back(int kept)
{
    fflush(stdout);
    if (kept < 0)
        return;
    (void)dup2(kept, STDOUT_FILENO);
    close(kept);
}

/* MPI_Finalize waits for all ranks: after a failure it might wait forever. */
static void mpi_close(void *impl, bool is_failed)
{
    const struct stoker_mpi *mpi = impl;
    char why[STOKER_MPI_WHY];
    int kept = output_aside();
    if (!is_failed)
        (void)mpi->finalize(why);
    output_back(kept);
}

static int mpi_file_open(void *impl, const uint32_t *rank, uint32_t n, const char *path, void *room,
                         struct stk_err *err)
{
    const struct stoker_mpi *mpi = impl;
    char why[STOKER_MPI_WHY] = "";
    int *ranks = calloc(n, sizeof *ranks);
    if (!ranks)
        return stk_err_nomem(err, n * sizeof *ranks);
    for (uint32_t i = 0; i < n; i++)
        ranks[i] = (int)rank[i];
    int rc = mpi->file_open(room, ranks, (int)n, path, why);
    free(ranks);
    return rc ? stk_err_set(err, STK_E_SYS, path, -1, "%s", why) : 0;
}

static int mpi_file_read_all(void *impl, void *room, uint64_t off, void *p, size_t n, size_t *got,
                             struct stk_err *err)
{
    const struct stoker_mpi *mpi = impl;
    char why[STOKER_MPI_WHY] = "";
    int count = 0;
    if (mpi->file_read_all(room, (int64_t)off, p, (int)n, &count, why))
        return stk_err_set(err, STK_E_SYS, NULL, (int64_t)off, "%s", why);
    *got = count < 0 ? 0 : (size_t)count;
    return 0;
}

static void mpi_file_close(void *impl, void *room)
{
    const struct stoker_mpi *mpi = impl;
    char why[STOKER_MPI_WHY];
    (void)mpi->file_close(room, why);
}

static const struct comm_ops ops = {
    .isend = mpi_isend,
    .irecv = mpi_irecv,
    .test = mpi_test,
    .cancel = mpi_cancel,
    .close = mpi_close,
    .file_open = mpi_file_open,
    .file_read_all = mpi_file_read_all,
    .file_close = mpi_file_close,
};

/* Each process alone: MPI did not recognise the launcher. */
static int check_size(const struct stoker_mpi *mpi, int size, uint32_t world, struct stk_err *err)
{
    if (size > 0 && (uint32_t)size == world)
        return 0;
    char why[STOKER_MPI_WHY];
    if (size == 1)
        (void)mpi->finalize(why);
    return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                       "the launcher started %u processes, and the MPI of module \"%s\" sees %d: "
                       "start them with its own mpirun, or with srun --mpi=pmix (srun --mpi=list "
                       "shows what there is), or name another module in STOKER_MPI",
                       (unsigned)world, mpi->name, size);
}

int stk_comm_mpi_join(const struct stoker_mpi *mpi, uint32_t world,
                      const struct stk_comm_options *o, struct stk_comm **out, struct stk_err *err)
{
    char why[STOKER_MPI_WHY] = "";
    int rank = 0, size = 0, threads = o->files ? 2 : 1;
    if (the_mpi)
        return stk_err_set(err, STK_E_USAGE, NULL, -1, "MPI begins only once in a process");
    the_mpi = mpi;
    int kept = output_aside(), failed_init = mpi->init(&rank, &size, &threads, why);
    output_back(kept);
    if (failed_init)
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1, "MPI does not start: %s", why);
    int rc = check_size(mpi, size, world, err);
    if (rc)
        return rc;
    rc = stk_comm_make(&ops, (void *)(uintptr_t)mpi, mpi->name, (uint32_t)rank, (uint32_t)size,
                       threads, o->node, out, err);
    if (rc)
        return rc;
    (*out)->root->files = threads > 1;
    return 0;
}
