/* measure_data.c - tests of files that are there: what it takes to open and to read them. */
#include "model/measure_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/dir.h"
#include "base/file.h"

#define FOUND_MAX 256u  /* files of a dataset */
#define SEEN_MAX  4000u /* names looked at to find them */
#define DEPTH_MAX 5u

struct walk {
    struct task *task;
    unsigned seen;
};

static int add_file(struct task *t, const char *path, uint64_t size)
{
    if (STK_ARRAY_MORE(t->file, t->nfiles, NULL) < 0 || !(t->file[t->nfiles].path = strdup(path)))
        return ENOMEM;
    t->file[t->nfiles++].size = size;
    return 0;
}

static int find_files(struct walk *w, const char *folder, unsigned depth)
{
    struct stk_err err = {0};
    struct stk_dir d;
    int wrong = 0, rc = stk_dir_open(&d, folder, &err);
    for (const struct dirent *e; !wrong && (e = stk_dir_next(&d));) {
        struct stat st;
        char *path = e->d_name[0] == '.' ? NULL : stk_path_join(folder, e->d_name);
        if (!path || lstat(path, &st) != 0)
            st.st_mode = 0; /* some files are enough */
        if (w->task->nfiles >= FOUND_MAX || w->seen++ >= SEEN_MAX || stk_measure_is_over(w->task))
            st.st_mode = 0;
        if (S_ISREG(st.st_mode) && st.st_size > 0)
            wrong = add_file(w->task, path, (uint64_t)st.st_size);
        else if (S_ISDIR(st.st_mode) && depth < DEPTH_MAX)
            (void)find_files(w, path, depth + 1); /* one that cannot be read is left out */
        free(path);
    }
    rc = stk_dir_end(&d, rc, &err);
    return wrong || !rc ? wrong : err.sys_errno;
}

static int find(struct task *t)
{
    struct walk w = {t, 0};
    struct stat st;
    if (stat(t->path, &st) != 0)
        return errno;
    stk_measure_begin(t);
    int wrong = S_ISDIR(st.st_mode) ? find_files(&w, t->path, 0)
                                    : add_file(t, t->path, (uint64_t)st.st_size);
    return wrong ? wrong : t->nfiles ? 0 : ENOENT;
}

static int by_size(const void *a, const void *b)
{
    uint64_t x = ((const struct file *)a)->size, y = ((const struct file *)b)->size;
    return (x < y) - (x > y);
}

static int open_one(void *user, uint64_t item, unsigned thread, struct stk_err *err)
{
    struct task *t = user;
    (void)err;
    if (stk_measure_is_over(t))
        return 0;
    int fd = stk_measure_open(t, item, O_DIRECT);
    fd = fd < 0 ? stk_measure_open(t, item, 0) : fd;
    if (fd >= 0 && pread(fd, t->buf[thread % STK_MEASURE_READERS], SMALL, 0) > 0)
        t->done++;
    if (fd >= 0)
        close(fd);
    return 0;
}

#define FEW 8u /* files: too few to tell a rate */

static void test_opens(struct task *t)
{
    if (t->nfiles < FEW)
        return;
    stk_measure_begin(t);
    double start = stk_now();
    (void)stk_pool_run(STK_MEASURE_READERS, t->nfiles, open_one, t, NULL);
    double took = stk_now() - start;
    if (took > 0 && t->done)
        t->out->opens_per_s = (double)t->done / took;
}

/* Opens first: nothing of these files has been asked for yet. */
int stk_measure_test_data(void *user, void *answer)
{
    struct task *t = user;
    uint64_t size[FOUND_MAX];
    t->out = answer;
    t->dirfd = -1;
    int wrong = stk_measure_buffers(t);
    wrong = wrong ? wrong : find(t);
    if (wrong)
        return wrong;
    test_opens(t);
    qsort(t->file, t->nfiles, sizeof *t->file, by_size);
    for (size_t i = 0; i < t->nfiles; i++)
        size[i] = t->file[i].size;
    wrong = stk_measure_reads(t, size, t->nfiles);
    if (t->way == WAY_NONE)
        t->out->opens_per_s = 0;
    return wrong;
}
