/*
 * bench_profile - what a profiler adds to a call: THREADS threads, each with a descriptor of its
 * own, read FILE, 4 KiB a pread, again and again, in blocks of 500 calls: one block as programs
 * call it (which a preloaded library sees), one straight into the C library (which it does not),
 * in turns. The two blocks are a millisecond apart, so whatever else the machine does falls out
 * of their difference.
 *
 * Usage: bench_profile PATH CALLS THREADS [random]; CALLS of the first kind, of all threads
 * together. Where PATH is a folder, every file in it is open and each call reads another, at
 * random. Prints one JSON object: medians over the blocks, mean over the threads.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define READ_BYTES  4096
#define BLOCK       500
#define MAX_THREADS 64

typedef ssize_t read_fn(int, void *, size_t, off_t);

static pthread_barrier_t together;
static read_fn *straight;

struct reader {
    pthread_t thread;
    const char *path;
    size_t blocks;
    int random, failed;
    int *fd;
    size_t nfds, at;
    uint64_t pages, page, state; /* pages: of the smallest file */
    double *seen, *bare, *added; /* ns a call, of each block */
};

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void next_page(struct reader *r)
{
    if (!r->random) {
        r->page = r->page + 1 == r->pages ? 0 : r->page + 1;
        return;
    }
    r->state ^= r->state << 13;
    r->state ^= r->state >> 7;
    r->state ^= r->state << 17;
    r->page = r->state % r->pages;
    r->at = (r->state >> 32) % r->nfds;
}

/* ns a call of one block; both kinds through a pointer, so that only the way differs. */
static double read_block(struct reader *r, read_fn *call)
{
    static _Thread_local char buf[READ_BYTES];
    pthread_barrier_wait(&together); /* all threads do the same kind at the same time */
    double start = now_ns();
    for (int i = 0; i < BLOCK; i++) {
        r->failed |=
            call(r->fd[r->at], buf, READ_BYTES, (off_t)(r->page * READ_BYTES)) != READ_BYTES;
        next_page(r);
    }
    return (now_ns() - start) / BLOCK;
}

static void open_one(struct reader *r, int folder, const char *name)
{
    struct stat st = {0};
    int fd = openat(folder, name, O_RDONLY | O_CLOEXEC);
    uint64_t pages = fd >= 0 && fstat(fd, &st) == 0 ? (uint64_t)st.st_size / READ_BYTES : 0;
    int *more = realloc(r->fd, (r->nfds + 1) * sizeof *more);
    if (!pages || !more) {
        r->failed = 1;
        return;
    }
    r->fd = more;
    r->fd[r->nfds++] = fd;
    r->pages = r->nfds > 1 && r->pages < pages ? r->pages : pages;
}

static void open_all(struct reader *r)
{
    DIR *d = opendir(r->path);
    if (!d) {
        open_one(r, AT_FDCWD, r->path);
        return;
    }
    r->random = 1;
    for (struct dirent *e; (e = readdir(d)) && !r->failed;)
        if (e->d_name[0] != '.')
            open_one(r, dirfd(d), e->d_name);
    closedir(d);
}

static void *run_reader(void *arg)
{
    struct reader *r = arg;
    open_all(r);
    if (r->failed || !r->nfds) {
        r->failed = 1;
        r->pages = 0;
    }
    for (size_t i = 0; i < r->blocks && r->pages; i++) {
        double first = read_block(r, i & 1 ? straight : pread);
        double second = read_block(r, i & 1 ? pread : straight);
        r->seen[i] = i & 1 ? second : first;
        r->bare[i] = i & 1 ? first : second;
        r->added[i] = r->seen[i] - r->bare[i];
    }
    for (size_t i = 0; i < r->nfds; i++)
        close(r->fd[i]);
    free(r->fd);
    return NULL;
}

static int by_value(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static double median(double *v, size_t n)
{
    qsort(v, n, sizeof *v, by_value);
    return v[n / 2];
}

static int prepare(struct reader *r, const char *path, size_t blocks, int random)
{
    *r = (struct reader){.path = path, .blocks = blocks, .random = random};
    r->state = 88172645463325252ull;
    r->seen = calloc(blocks, sizeof *r->seen);
    r->bare = calloc(blocks, sizeof *r->bare);
    r->added = calloc(blocks, sizeof *r->added);
    return !r->seen || !r->bare || !r->added;
}

int main(int argc, char **argv)
{
    static struct reader reader[MAX_THREADS];
    unsigned long calls = argc >= 4 ? strtoul(argv[2], NULL, 10) : 0;
    unsigned long threads = argc >= 4 ? strtoul(argv[3], NULL, 10) : 0;
    double seen = 0, bare = 0, added = 0;
    int failed = 0;
    if (threads == 0 || threads > MAX_THREADS || calls < threads * BLOCK) {
        fprintf(stderr, "usage: bench_profile PATH CALLS THREADS [random]\n");
        return 2;
    }
    void *libc = dlopen("libc.so.6", RTLD_NOW);
    void *symbol = libc ? dlsym(libc, "pread") : NULL;
    if (!symbol)
        return 1;
    memcpy(&straight, &symbol, sizeof straight);
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    pthread_barrier_init(&together, NULL, (unsigned)threads);
    size_t blocks = calls / threads / BLOCK;
    for (unsigned long i = 0; i < threads; i++) {
        failed |= prepare(&reader[i], argv[1], blocks, argc > 4 && strcmp(argv[4], "random") == 0);
        failed |= pthread_create(&reader[i].thread, NULL, run_reader, &reader[i]);
    }
    for (unsigned long i = 0; i < threads && !failed; i++) {
        pthread_join(reader[i].thread, NULL);
        failed |= reader[i].failed;
        seen += median(reader[i].seen, blocks) / (double)threads;
        bare += median(reader[i].bare, blocks) / (double)threads;
        added += median(reader[i].added, blocks) / (double)threads;
    }
    if (failed) {
        perror(argv[1]);
        return 1;
    }
    printf("{\"calls\": %zu, \"seen_ns\": %.2f, \"bare_ns\": %.2f, \"added_ns\": %.2f}\n",
           blocks * BLOCK * threads, seen, bare, added);
    return 0;
}
