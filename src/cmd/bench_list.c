/* bench_list.c - `stoker bench --list`: the workloads that come with stoker. */
#include <stdlib.h>

#include "base/dir.h"
#include "base/installed.h"
#include "base/text.h"
#include "base/units.h"
#include "bench/workload.h"
#include "cmd/bench_list.h"
#include "result/grid.h"

#define SUFFIX    ".yaml"
#define LISTED    64 /* at most */
#define ONE_OF_US "workloads/imagenet" SUFFIX

struct names {
    char *name[LISTED + 1]; /* NULL after the last */
    size_t n;
};

static void release_names(struct names *list)
{
    for (size_t i = 0; i < list->n; i++)
        free(list->name[i]);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool is_workload(const char *name)
{
    size_t n = strlen(name), suffix = strlen(SUFFIX);
    return n > suffix && *name != '.' && strcmp(name + n - suffix, SUFFIX) == 0;
}

static int find_names(const char *folder, struct names *list, struct stk_err *err)
{
    struct stk_dir d;
    int rc = stk_dir_open(&d, folder, err);
    for (const struct dirent *e; list->n < LISTED && (e = stk_dir_next(&d));) {
        char *copy = is_workload(e->d_name) ? strdup(e->d_name) : NULL;
        if (copy)
            list->name[list->n++] = copy;
    }
    qsort(list->name, list->n, sizeof *list->name, by_name);
    return stk_dir_end(&d, rc, err);
}

/* Without compression and what a format adds. */
static double data_bytes(const struct stk_workload *w)
{
    if (w->dataset.format == STK_BENCH_NONE)
        return 0;
    return (double)w->dataset.files * (double)w->dataset.samples_per_file *
           stk_dist_mean(&w->dataset.record);
}

static int read_one(const char *path, bool small, struct stk_workload *w, struct stk_err *err)
{
    int rc = stk_workload_read(path, small, w, err);
    return rc ? rc : stk_workload_settle(w, err);
}

static const char *size_text(double bytes, char *buf, size_t n)
{
    if (bytes > 0)
        return stk_format_size((uint64_t)bytes, buf, n);
    return "no data";
}

static int list_one(struct stk_run *run, const char *path, struct stk_grid *t)
{
    struct stk_workload w = {0}, small = {0};
    char ranks[32], data[32], little[32];
    int rc = read_one(path, false, &w, &run->err);
    rc = rc ? rc : read_one(path, true, &small, &run->err);
    if (rc == 0) {
        snprintf(ranks, sizeof ranks, "%llu", (unsigned long long)w.training.ranks);
        stk_grid_row(t, w.name, ranks, size_text(data_bytes(&w), data, sizeof data),
                     size_text(data_bytes(&small), little, sizeof little), w.description);
        stk_jw_open(&run->json, '{');
        stk_jw_put_str(&run->json, "name", w.name);
        stk_jw_put_str(&run->json, "description", w.description);
        stk_jw_put_str(&run->json, "path", path);
        stk_jw_put_u64(&run->json, "ranks", w.training.ranks);
        stk_jw_put_u64(&run->json, "bytes", (uint64_t)data_bytes(&w));
        stk_jw_put_u64(&run->json, "small_bytes", (uint64_t)data_bytes(&small));
        stk_jw_close(&run->json, '}');
    }
    stk_workload_release(&w);
    stk_workload_release(&small);
    return rc;
}

static int list_folder(struct stk_run *run, const char *folder, struct stk_buf *out)
{
    struct names list = {0};
    struct stk_grid t;
    char path[4400];
    int rc = find_names(folder, &list, &run->err);
    stk_grid_init(&t, "lrrrl");
    stk_grid_row(&t, "NAME", "RANKS", "DATA", "--small", "");
    stk_jw_key(&run->json, "workloads");
    stk_jw_open(&run->json, '[');
    for (size_t i = 0; i < list.n && rc == 0; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, list.name[i]);
        rc = list_one(run, path, &t);
    }
    stk_jw_close(&run->json, ']');
    stk_grid_render(&t, 0, out);
    stk_grid_release(&t);
    release_names(&list);
    return rc;
}

/* NULL: this installation has none. Caller frees with free(). */
static char *find_folder(void)
{
    char *folder = stk_installed(ONE_OF_US);
    char *end = folder ? strrchr(folder, '/') : NULL;
    if (end)
        *end = '\0';
    return folder;
}

const char *stk_bench_nearest(const char *name, char *buf, size_t n)
{
    char *folder = find_folder();
    struct names list = {0};
    if (folder)
        (void)find_names(folder, &list, NULL); /* a hint */
    for (size_t i = 0; i < list.n; i++)
        list.name[i][strlen(list.name[i]) - strlen(SUFFIX)] = '\0';
    const char *near = stk_text_nearest(name, (const char *const *)list.name);
    snprintf(buf, n, "%s", near ? near : "");
    release_names(&list);
    free(folder);
    return near ? buf : NULL;
}

int stk_bench_list(struct stk_run *run)
{
    struct stk_buf out = STK_BUF_INIT;
    char *folder = find_folder();
    if (!folder)
        return stk_err_set(&run->err, STK_E_SYS, NULL, -1,
                           "%s is not there: this installation of stoker is incomplete", ONE_OF_US);
    int rc = list_folder(run, folder, &out);
    free(folder);
    if (rc == 0)
        return stk_say_text(run, &out);
    stk_buf_release(&out);
    return rc;
}
