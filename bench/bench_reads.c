/*
 * bench_reads - the reads of a benchmark and nothing else: opens the files named on the standard
 * input one after another, reads each from its start to its end, and closes it. What a replay of the
 * same reads takes beyond this is its own.
 * Usage: bench_reads READ_BYTES ROUNDS < NAMES. Prints one JSON object: files, bytes, and of each
 * round the seconds that passed and those of the CPU.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct list {
    char **name;
    size_t n, room;
};

static double now_s(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int add(struct list *l, char *name)
{
    if (l->n == l->room) {
        size_t room = l->room ? 2 * l->room : 1024;
        char **more = realloc(l->name, room * sizeof *more);
        if (!more)
            return -1;
        l->name = more;
        l->room = room;
    }
    l->name[l->n] = strdup(name);
    return l->name[l->n++] ? 0 : -1;
}

static int read_names(struct list *l)
{
    char *line = NULL;
    size_t room = 0;
    ssize_t n;
    int rc = 0;
    while (rc == 0 && (n = getline(&line, &room, stdin)) > 0) {
        if (line[n - 1] == '\n')
            line[n - 1] = '\0';
        rc = add(l, line);
    }
    free(line);
    return rc;
}

static long long read_one(const char *name, char *buf, size_t size)
{
    struct stat st;
    long long total = 0;
    ssize_t n = 0;
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        n = -1;
    while (n >= 0 && total < st.st_size && (n = pread(fd, buf, size, total)) > 0)
        total += n;
    if (fd >= 0)
        close(fd);
    return n < 0 ? -1 : total;
}

static long long read_all(const struct list *l, char *buf, size_t size)
{
    long long total = 0, n = 0;
    for (size_t i = 0; i < l->n && n >= 0; i++, total += n)
        n = read_one(l->name[i], buf, size);
    return n < 0 ? -1 : total;
}

int main(int argc, char **argv)
{
    size_t size = argc == 3 ? strtoull(argv[1], NULL, 10) : 0;
    int rounds = argc == 3 ? atoi(argv[2]) : 0;
    struct list l = {0};
    char *buf = size ? aligned_alloc(4096, (size + 4095) / 4096 * 4096) : NULL;
    long long bytes = 0;
    if (!buf || rounds < 1) {
        fprintf(stderr, "usage: bench_reads READ_BYTES ROUNDS < NAMES\n");
        free(buf);
        return 2;
    }
    if (read_names(&l) < 0)
        bytes = -1;
    printf("{\"rounds\": [");
    for (int i = 0; i < rounds && bytes >= 0; i++) {
        double start = now_s(CLOCK_MONOTONIC), cpu = now_s(CLOCK_PROCESS_CPUTIME_ID);
        bytes = read_all(&l, buf, size);
        printf("%s{\"s\": %.6f, \"cpu_s\": %.6f}", i ? ", " : "", now_s(CLOCK_MONOTONIC) - start,
               now_s(CLOCK_PROCESS_CPUTIME_ID) - cpu);
    }
    printf("], \"files\": %zu, \"bytes\": %lld}\n", l.n, bytes);
    if (bytes < 0)
        perror("bench_reads");
    for (size_t i = 0; i < l.n; i++)
        free(l.name[i]);
    free(l.name);
    free(buf);
    return bytes < 0;
}
