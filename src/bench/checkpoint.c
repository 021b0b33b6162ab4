/*
 * checkpoint.c - writes the files of a checkpoint as the workload says, reads them back, and
 * removes them. The sizes of a model's layers and their division among ranks are those of DLIO and
 * MLPerf Storage.
 */
#include "bench/rank.h"
#include "bench/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"

/* Parameters of the attention and the feed-forward part of a layer: tensor parallelism divides
 * them. */
static double block_parameters(const struct stk_workload *w)
{
    double h = (double)w->model.hidden, f = (double)w->model.ffn;
    double kv = (double)(w->model.hidden / w->model.heads * w->model.kv_heads);
    return h * (h + 2 * kv) + h * h + 3 * h * f;
}

double stk_model_parameters(const struct stk_workload *w)
{
    double h = (double)w->model.hidden, v = (double)w->model.vocabulary;
    return 2 * v * h + (double)w->model.layers * (2 * h + block_parameters(w)) + h;
}

static int wrong(const struct stk_workload *w, struct stk_err *err, const char *what)
{
    return stk_err_set(err, STK_E_USAGE, w->path, -1, "%s", what);
}

/* Ranks of one copy of the model. */
static uint64_t part_of(const struct stk_workload *w)
{
    return w->model.tensor * w->model.pipeline;
}

/* Copies of the model. */
static uint64_t copies_of(const struct stk_workload *w, uint64_t ranks)
{
    return w->model.data ? w->model.data : ranks / part_of(w);
}

/* The layers of a pipeline's stage, from *first to before *end. 0 is the embedding; behind the
 * transformer's follow the head and the last norm. */
static void stage_layers(const struct stk_workload *w, uint64_t stage, uint64_t *first,
                         uint64_t *end)
{
    uint64_t n = w->model.layers, stages = w->model.pipeline;
    uint64_t each = n / stages, more = n % stages;
    bool given = w->model.layer_bytes != 0; /* the layers are all there is */
    *first = 1 + stage * each + (stage < more ? stage : more);
    *end = *first + each + (stage < more);
    if (!given && stage == 0)
        *first = 0;
    if (!given && stage == stages - 1)
        *end = n + 3;
}

/* Bytes of a layer's file, or of its part of the one file, that one rank writes. */
static double layer_bytes(const struct stk_workload *w, uint64_t layer, uint64_t copies)
{
    double h = (double)w->model.hidden, v = (double)w->model.vocabulary;
    double tensor = (double)w->model.tensor, n;
    double shares = w->model.zero == 3 ? (double)copies : 1;
    if (w->model.layer_bytes)
        return (double)w->model.layer_bytes / tensor / shares;
    if (layer == 0 || layer == w->model.layers + 1)
        n = h * v / tensor;
    else if (layer == w->model.layers + 2)
        n = h;
    else
        n = 2 * h + block_parameters(w) / tensor;
    return n / shares * (double)w->model.weight_bytes;
}

/* One file per layer of the stage, as DeepSpeed writes them with pipelines; else one. */
static bool has_layer_files(const struct stk_workload *w)
{
    return w->model.pipeline > 1 && (w->model.zero == 1 || w->model.zero == 2);
}

static int check_ranks(const struct stk_workload *w, uint64_t ranks, struct stk_err *err)
{
    uint64_t part = part_of(w);
    if (w->model.data && ranks > w->model.data * part)
        return stk_err_set(err, STK_E_USAGE, w->path, -1,
                           "model.data: %llu copies of %llu ranks are fewer than %llu ranks",
                           (unsigned long long)w->model.data, (unsigned long long)part,
                           (unsigned long long)ranks);
    if (!w->model.data && ranks % part)
        return stk_err_set(err, STK_E_USAGE, w->path, -1,
                           "model.tensor: %llu x model.pipeline %llu does not divide %llu rank%s; "
                           "use more of them, or model.data to run a part of the job",
                           (unsigned long long)w->model.tensor,
                           (unsigned long long)w->model.pipeline, (unsigned long long)ranks,
                           ranks == 1 ? "" : "s");
    return 0;
}

int stk_model_check(const struct stk_workload *w, uint64_t ranks, struct stk_err *err)
{
    uint64_t first, end;
    if (!w->model.layers)
        return 0;
    int rc = check_ranks(w, ranks, err);
    if (rc < 0)
        return rc;
    if (w->model.layers < w->model.pipeline)
        return wrong(w, err, "model.pipeline: more stages than model.layers");
    if (w->model.hidden < w->model.heads)
        return wrong(w, err, "model.heads: more than model.hidden");
    if (w->model.zero == 3 && w->model.pipeline > 1)
        return wrong(w, err,
                     "model.zero: stage 3 divides the model by data parallelism, and "
                     "contradicts model.pipeline");
    stage_layers(w, 0, &first, &end);
    /* The last stage has one layer less or as many, and two files more than the first. */
    if (has_layer_files(w) && end - first + 3 > STK_CHECKPOINT_FILES)
        return wrong(w, err, "model.layers: more than 60 per stage of the pipeline");
    return 0;
}

static size_t weight_files(const struct stk_workload *w, uint64_t rank, uint64_t copies,
                           uint64_t bytes[STK_CHECKPOINT_FILES])
{
    uint64_t first, end;
    double all = 0;
    size_t n = 0;
    stage_layers(w, rank / w->model.tensor % w->model.pipeline, &first, &end);
    for (uint64_t i = first; i < end; i++) {
        double one = layer_bytes(w, i, copies);
        all += one;
        if (has_layer_files(w))
            bytes[n++] = (uint64_t)one;
    }
    if (!has_layer_files(w))
        bytes[n++] = (uint64_t)all;
    return n;
}

static uint64_t optimizer_bytes(const struct stk_workload *w, uint64_t copies)
{
    double shares = (double)part_of(w) * (w->model.zero >= 1 ? (double)copies : 1);
    if (w->model.state_bytes)
        return w->model.state_bytes;
    return (uint64_t)(stk_model_parameters(w) * (double)w->model.optimizer_bytes / shares);
}

size_t stk_checkpoint_files(const struct stk_workload *w, uint64_t rank, uint64_t ranks,
                            uint64_t bytes[STK_CHECKPOINT_FILES])
{
    size_t n = 0;
    if (!w->model.layers) {
        if (w->checkpoint.who == STK_WHO_ALL || rank == 0)
            for (; n < w->checkpoint.nfiles; n++)
                bytes[n] = w->checkpoint.bytes[n];
        return n;
    }
    uint64_t copies = copies_of(w, ranks);
    bool first = rank < part_of(w); /* the first of the copies */
    if (first || w->model.zero == 3)
        n = weight_files(w, rank, copies, bytes);
    if (first || w->model.zero >= 1)
        bytes[n++] = optimizer_bytes(w, copies);
    return n;
}

#define FOLDER        "checkpoint"
#define OWN_FOLDER    "stoker-bench-checkpoint" /* in a folder of the user */
#define PIECE         (64u << 20)               /* of a file that does not fit in memory at once */
#define RESTORE_PIECE (8u << 20)                /* of a read */

#define NAME "rank%05lu-%02lu.%s"

static const char *const endings[] = {[STK_CONTENT_RAW] = "ckpt", [STK_CONTENT_JSON] = "json"};

static void name_of(const struct stk_workload *w, uint32_t rank, size_t file, char *buf, size_t n)
{
    snprintf(buf, n, NAME, (unsigned long)rank, (unsigned long)file,
             endings[w->checkpoint.content]);
}

/* True for a name that name_of() gives for some workload. */
static bool is_ours(void *user, const char *name)
{
    unsigned long rank, file;
    char ending[8], same[64];
    (void)user;
    if (sscanf(name, "rank%lu-%lu.%7s", &rank, &file, ending) != 3 ||
        (strcmp(ending, endings[STK_CONTENT_RAW]) != 0 &&
         strcmp(ending, endings[STK_CONTENT_JSON]) != 0))
        return false;
    snprintf(same, sizeof same, NAME, rank, file, ending);
    return strcmp(same, name) == 0;
}

static const char *dir_of(const struct stk_bench_config *c)
{
    return c->w->checkpoint.dir ? c->w->checkpoint.dir : c->data->dir;
}

static const char *folder_of(const struct stk_bench_config *c)
{
    return c->w->checkpoint.dir ? OWN_FOLDER : FOLDER;
}

static void path_of(const struct stk_bench_config *c, const char *name, char *buf, size_t n)
{
    snprintf(buf, n, "%s/%s/%s", dir_of(c), folder_of(c), name);
}

/* The folder above that of the checkpoints. make: if it is missing. */
static int open_above(const struct stk_bench_config *c, bool make)
{
    const char *dir = c->w->checkpoint.dir;
    int fd = dir ? open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : c->data->dirfd;
    if (dir && fd < 0 && errno == ENOENT && make && stk_mkdirs(dir, NULL) == 0)
        fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd;
}

/* Opens the folder of the checkpoints. make: if it is missing. -1: failed, with errno. */
static int enter_folder(const struct stk_bench_config *c, bool make)
{
    const char *dir = c->w->checkpoint.dir;
    int above = open_above(c, make);
    int fd = above < 0 ? -1
             : make    ? stk_enter_at(above, folder_of(c))
                    : openat(above, folder_of(c), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int saved = errno;
    if (dir && above >= 0)
        close(above);
    errno = saved;
    return fd;
}

/* The bytes of a file: random, or one JSON string. */
static int content(const struct stk_workload *w, size_t file, uint8_t **out, size_t n,
                   struct stk_err *err)
{
    bool json = w->checkpoint.content == STK_CONTENT_JSON;
    uint8_t *p = malloc(n ? n : 1);
    if (!p)
        return stk_err_nomem(err, n);
    struct stk_bench_place at = {UINT64_MAX, file};
    if (json)
        stk_bench_fill_text(p, n, w->dataset.seed, at);
    else
        stk_bench_fill(p, n, w->dataset.seed, at);
    if (json && n >= 2)
        p[0] = p[n - 1] = '"';
    *out = p;
    return 0;
}

static int put_stdio(int fd, const uint8_t *p, size_t n, const char *path, struct stk_err *err)
{
    FILE *f = fdopen(dup(fd), "w");
    if (!f)
        return stk_err_sys(err, path, "fdopen");
    bool good = fwrite(p, 1, n, f) == n;
    good = fclose(f) == 0 && good;
    return good ? 0 : stk_err_sys(err, path, "write");
}

/* What the helper thread works with: it may outlast the caller. */
struct job {
    const struct stk_bench_config *c;
    struct stk_bench_patience *patience;
    struct stk_bench_clock clock;
    uint32_t rank;
    uint64_t size[STK_CHECKPOINT_FILES], bytes;
    size_t n;
};

static int write_bytes(const struct job *j, int fd, const uint8_t *p, uint64_t n, const char *path,
                       struct stk_err *err)
{
    const struct stk_workload *w = j->c->w;
    int rc = 0;
    for (uint64_t done = 0, k; done < n && rc == 0; done += k) {
        k = w->checkpoint.transfer_bytes && w->checkpoint.transfer_bytes < PIECE
                ? w->checkpoint.transfer_bytes
                : PIECE;
        k = n - done < k ? n - done : k;
        rc = w->checkpoint.via == STK_VIA_STDIO ? put_stdio(fd, p, (size_t)k, path, err)
                                                : stk_write_full(fd, p, (size_t)k, path, err);
        rc = rc ? rc : stk_bench_beat(j->patience);
    }
    if (rc == 0 && w->checkpoint.fsync && fsync(fd) < 0)
        rc = stk_err_sys(err, path, "fsync");
    return rc;
}

static int write_file(const struct job *j, int dirfd, size_t i, struct stk_err *err)
{
    const struct stk_workload *w = j->c->w;
    uint64_t n = j->size[i];
    char name[64], path[4400];
    uint8_t *p = NULL;
    int fd = -1;
    name_of(w, j->rank, i, name, sizeof name);
    path_of(j->c, name, path, sizeof path);
    int rc = content(w, i, &p, (size_t)(n < PIECE ? n : PIECE), err);
    rc = rc ? rc : stk_open_fresh(dirfd, name, STK_SHARED, &fd, path, err);
    rc = rc ? rc : write_bytes(j, fd, p, n, path, err);
    if (fd >= 0)
        close(fd);
    free(p);
    return rc;
}

static int write_all(void *arg, struct stk_err *err)
{
    struct job *j = arg;
    int dirfd = enter_folder(j->c, true), rc = 0;
    if (dirfd < 0)
        return stk_err_sys(err, dir_of(j->c), "make the folder %s", folder_of(j->c));
    for (size_t i = 0; i < j->n && rc == 0; i++) {
        rc = write_file(j, dirfd, i, err);
        stk_bench_spend(&j->clock, j->size[i]);
        j->bytes += j->size[i];
    }
    close(dirfd);
    return rc;
}

static uint32_t rank_of(const struct stk_bench_config *c)
{
    return c->comm ? stk_comm_rank(c->comm) : 0;
}

/* The rank whose files are read back: this one, or its counterpart on the next node, whose cache
 * does not have them. */
static uint32_t writer_of(const struct stk_bench_config *c, uint32_t rank)
{
    uint32_t here = 0, ranks = c->comm ? stk_comm_size(c->comm) : 1;
    if (!c->w->checkpoint.shift || !c->comm)
        return rank;
    for (uint32_t i = 0; i < ranks; i++)
        here += stk_comm_node(c->comm, i) == stk_comm_node(c->comm, rank);
    return (rank + here) % ranks;
}

static int do_job(const struct stk_bench_config *c, struct stk_bench_patience *patience,
                  stk_thread_fn *fn, uint32_t rank, struct stk_bench_clock *clock, uint64_t *bytes,
                  struct stk_err *err)
{
    struct job *j = calloc(1, sizeof *j);
    if (!j)
        return stk_err_nomem(err, sizeof *j);
    *j = (struct job){.c = c, .patience = patience, .clock = *clock, .rank = rank};
    j->n = stk_checkpoint_files(c->w, rank, c->comm ? stk_comm_size(c->comm) : 1, j->size);
    int rc = j->n ? stk_bench_within(patience, fn, free, j, err) : 0;
    if (patience->stuck)
        return rc;
    *clock = j->clock;
    *bytes += j->bytes;
    free(j);
    return rc;
}

int stk_bench_checkpoint(const struct stk_bench_config *c, struct stk_bench_patience *patience,
                         struct stk_bench_clock *clock, uint64_t *bytes, struct stk_err *err)
{
    return do_job(c, patience, write_all, rank_of(c), clock, bytes, err);
}

static int read_file(const struct job *j, int dirfd, size_t i, void *p, struct stk_err *err)
{
    const struct stk_bench_config *c = j->c;
    char name[64], path[4400];
    size_t got = 1;
    int fd = -1;
    name_of(c->w, j->rank, i, name, sizeof name);
    path_of(c, name, path, sizeof path);
    int rc = stk_read_open(dirfd, name, O_NOFOLLOW, &fd, NULL, path, err);
    if (rc == 0 && c->w->reader.cache != STK_CACHE_KEEP && fdatasync(fd) == 0)
        (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    for (uint64_t off = 0; rc == 0 && got; off += got) {
        rc = stk_pread_full(fd, p, RESTORE_PIECE, off, &got, path, err);
        rc = rc ? rc : stk_bench_beat(j->patience);
    }
    if (fd >= 0)
        close(fd);
    return rc;
}

static int read_back(void *arg, struct stk_err *err)
{
    struct job *j = arg;
    void *p = malloc(RESTORE_PIECE);
    int dirfd = enter_folder(j->c, false);
    int rc = !p          ? stk_err_nomem(err, RESTORE_PIECE)
             : dirfd < 0 ? stk_err_sys(err, dir_of(j->c), "open the folder %s", folder_of(j->c))
                         : 0;
    for (size_t i = 0; i < j->n && rc == 0; i++) {
        rc = read_file(j, dirfd, i, p, err);
        stk_bench_spend(&j->clock, j->size[i]);
        j->bytes += j->size[i];
    }
    if (dirfd >= 0)
        close(dirfd);
    free(p);
    return rc;
}

int stk_bench_restore(const struct stk_bench_config *c, struct stk_bench_patience *patience,
                      struct stk_bench_clock *clock, uint64_t *bytes, struct stk_err *err)
{
    return do_job(c, patience, read_back, writer_of(c, rank_of(c)), clock, bytes, err);
}

void stk_bench_checkpoint_clean(const struct stk_bench_config *c, uint32_t ranks)
{
    char name[64];
    uint64_t size[STK_CHECKPOINT_FILES];
    if (!c->w->checkpoint.nfiles && !c->w->model.layers)
        return;
    int dirfd = enter_folder(c, false), above = c->data->dirfd;
    for (uint32_t r = 0; dirfd >= 0 && r < ranks; r++)
        for (size_t i = 0; i < stk_checkpoint_files(c->w, r, ranks, size); i++) {
            name_of(c->w, r, i, name, sizeof name);
            (void)stk_unlink_at(dirfd, name, name, NULL);
        }
    if (dirfd >= 0)
        close(dirfd);
    if (c->w->checkpoint.dir)
        above = open(c->w->checkpoint.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (above >= 0)
        (void)stk_rmdir_at(above, folder_of(c));
    if (above >= 0 && c->w->checkpoint.dir)
        close(above);
}

int stk_bench_checkpoint_sweep(int dirfd, bool of_user, struct stk_left *left, const char *dir,
                               struct stk_err *err)
{
    const char *name = of_user ? OWN_FOLDER : FOLDER;
    char path[4400];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return stk_is_absent(errno) ? 0 : stk_err_sys(err, path, "open the folder");
    int rc = stk_remove_ours(fd, is_ours, NULL, left, path, err);
    close(fd);
    return rc ? rc : stk_rmdir_empty_at(dirfd, name, dir, err);
}
