/*
 * load_batches.c - a training loop's side of the loader: batches of any dataset, shuffled, this
 * process's part of them when torchrun, mpirun or srun started several, and going on where a run
 * was stopped.
 *
 *   cc load_batches.c -o load_batches $(pkg-config --cflags --libs stoker)
 *   ./load_batches train-packed/ 3                   # three epochs
 *   ./load_batches train-packed/ 3 position.json     # the same, from where it was left
 *
 * Ctrl-C ends it after the batch in hand; with a file to keep the position in, the next run goes on
 * with the next batch. (With several processes each needs a file of its own.)
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stoker.h>

#define CLASSES 1000

static volatile sig_atomic_t stop;

static void on_signal(int sig)
{
    (void)sig;
    stop = 1;
}

static int complain(const struct stk_err *err)
{
    char text[2200];
    fprintf(stderr, "load_batches: %s\n", stk_err_text(err, text, sizeof text));
    return EXIT_FAILURE;
}

/* The whole file as a string, NULL when there is none. Caller frees. */
static char *read_text(const char *path)
{
    FILE *f = path ? fopen(path, "r") : NULL;
    char *text = f ? calloc(1, 1 << 20) : NULL;
    if (text && fread(text, 1, (1 << 20) - 1, f) == 0)
        text[0] = '\0';
    if (f)
        fclose(f);
    return text;
}

/* Where the loader is. Beside the old file first, so that a crash leaves one of the two. */
static int keep_position(const struct stk_loader *ld, const char *path, struct stk_err *err)
{
    char beside[4096], *text = NULL;
    int rc = path ? stk_loader_state(ld, &text, err) : 0;
    if (!text)
        return rc;
    snprintf(beside, sizeof beside, "%s.new", path);
    FILE *f = fopen(beside, "w");
    if (!f || fputs(text, f) == EOF || fclose(f) != 0 || rename(beside, path) != 0)
        perror(path);
    free(text);
    return 0;
}

/*
 * What a step of training would do with a batch. A column is a field of all its samples:
 * STK_DENSE, one array of n x shape, where all have the same type and shape (labels, pixels);
 * STK_SPANS, n byte strings (files, encoded images); STK_VALUES, n arrays that differ in shape.
 */
static void train(const struct stk_batch *b, uint64_t *count, uint64_t *bytes)
{
    for (size_t k = 0; k < b->ncolumns; k++) {
        const struct stk_column *c = &b->column[k];
        if (c->layout == STK_DENSE && c->dtype == STK_I64 && c->ndim == 0 &&
            strcmp(c->name, "label") == 0)
            for (size_t i = 0; i < b->n; i++) {
                int64_t label = ((const int64_t *)c->data)[i];
                if (label >= 0 && label < CLASSES)
                    count[label]++;
            }
        for (size_t i = 0; c->layout == STK_SPANS && i < b->n; i++)
            *bytes += c->span[i].size;
    }
}

/* One epoch: 1 at its end, 0 when a signal came, negative on error. */
static int epoch(struct stk_loader *ld, struct stk_err *err)
{
    uint64_t count[CLASSES] = {0}, bytes = 0, batches = 0, classes = 0, number = 0;
    struct stk_batch *b;
    int rc = 1;
    while (!stop && (rc = stk_loader_next(ld, &b, err)) > 0) {
        train(b, count, &bytes);
        number = b->epoch;
        batches++;
        stk_batch_release(b); /* may come later, and from another thread */
    }
    for (int i = 0; i < CLASSES; i++)
        classes += count[i] > 0;
    if (rc >= 0)
        printf("epoch %" PRIu64 ": %" PRIu64 " of %" PRIu64 " batches, %" PRIu64 " bytes, %" PRIu64
               " classes\n",
               number, batches, stk_loader_steps(ld), bytes, classes);
    return rc < 0 ? rc : rc == 0;
}

static int load(struct stk_dataset *ds, uint64_t epochs, const char *path, struct stk_err *err)
{
    struct stk_rank me;
    struct stk_loader *ld = NULL;
    struct stk_loader_stats stats;
    int rc = stk_rank_detect(&me, err);
    if (rc < 0)
        return rc;
    char *position = read_text(path);
    struct stk_loader_options o = {
        .batch = 64,
        .seed = 42,                    /* the same on all ranks */
        .epochs = epochs,              /* so that the next one is read ahead in time */
        .last = STK_LAST_DROP,         /* all ranks get the same number of full batches */
        .on_error = STK_ON_ERROR_SKIP, /* one bad sample does not end the run */
        .rank = me.rank,
        .world = me.world,
        .state = position,
    };
    rc = stk_loader_open(ds, &o, &ld, err);
    free(position);
    for (uint64_t i = 0; rc >= 0 && i < epochs && !stop; i++) {
        rc = epoch(ld, err);
        if (rc >= 0)
            rc = keep_position(ld, path, err);
    }
    if (rc >= 0) {
        stk_loader_stats(ld, &stats);
        printf("rank %" PRIu32 " of %" PRIu32 ": %" PRIu64 " samples, %" PRIu64 " skipped, waited "
               "%.3f s; engine %s\n",
               me.rank, me.world, stats.samples, stats.skipped, 1e-9 * (double)stats.stall_ns,
               stats.io);
    }
    for (size_t i = 0; ld && stk_loader_problem(ld, i); i++)
        fprintf(stderr, "load_batches: %s\n", stk_loader_problem(ld, i));
    stk_loader_close(ld);
    return rc < 0 ? rc : 0;
}

int main(int argc, char **argv)
{
    struct stk_err err = {.offset = -1, .what = "out of memory"};
    struct stk_dataset *ds = NULL;
    if (argc < 2 || argc > 4) {
        fprintf(stderr, "usage: load_batches PATH [EPOCHS [POSITION]]\n");
        return 2;
    }
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    if (stk_dataset_open(argv[1], NULL, &ds, &err) < 0)
        return complain(&err);
    int rc = load(ds, argc > 2 ? strtoull(argv[2], NULL, 10) : 1, argc > 3 ? argv[3] : NULL, &err);
    stk_dataset_close(ds);
    return rc < 0 ? complain(&err) : EXIT_SUCCESS;
}
