/*
 * bench_profile - what a profiler adds to a call: THREADS threads, each with a descriptor of its
 * own, read FILE in order, 4 KiB a pread, again and again.
 *
 * Usage: bench_profile FILE CALLS THREADS [random]; CALLS are of all threads together. Prints one
 * JSON object: ns of a call, as one thread sees it (time of the slowest / its calls), and of its
 * CPU time, which other programs on the machine change less.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define READ_BYTES  4096
#define MAX_THREADS 64

static pthread_barrier_t together;

struct reader {
    pthread_t thread;
    const char *path;
    uint64_t calls;
    int random, failed;
    double seconds, cpu_s;
};

static double now_s(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int read_all(int fd, uint64_t pages, uint64_t calls, int random)
{
    static _Thread_local char buf[READ_BYTES];
    uint64_t page = 0, state = 88172645463325252ull;
    for (uint64_t i = 0; i < calls; i++) {
        if (pread(fd, buf, READ_BYTES, (off_t)(page * READ_BYTES)) != READ_BYTES)
            return -1;
        if (!random) {
            page = page + 1 == pages ? 0 : page + 1;
            continue;
        }
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        page = state % pages;
    }
    return 0;
}

static void *run_reader(void *arg)
{
    struct reader *r = arg;
    struct stat st = {0};
    int fd = open(r->path, O_RDONLY | O_CLOEXEC);
    uint64_t pages = fd >= 0 && fstat(fd, &st) == 0 ? (uint64_t)st.st_size / READ_BYTES : 0;
    r->failed = pages == 0 || read_all(fd, pages, pages, 0) != 0; /* warm */
    pthread_barrier_wait(&together);
    double start = now_s(CLOCK_MONOTONIC), cpu = now_s(CLOCK_THREAD_CPUTIME_ID);
    if (!r->failed)
        r->failed = read_all(fd, pages, r->calls, r->random) != 0;
    r->cpu_s = now_s(CLOCK_THREAD_CPUTIME_ID) - cpu;
    r->seconds = now_s(CLOCK_MONOTONIC) - start;
    if (fd >= 0)
        close(fd);
    return NULL;
}

int main(int argc, char **argv)
{
    static struct reader reader[MAX_THREADS];
    uint64_t calls = argc >= 4 ? strtoull(argv[2], NULL, 10) : 0;
    unsigned long threads = argc >= 4 ? strtoul(argv[3], NULL, 10) : 0;
    double slowest = 0, busiest = 0;
    int failed = 0;
    if (calls == 0 || threads == 0 || threads > MAX_THREADS) {
        fprintf(stderr, "usage: bench_profile FILE CALLS THREADS [random]\n");
        return 2;
    }
    pthread_barrier_init(&together, NULL, (unsigned)threads);
    for (unsigned long i = 0; i < threads; i++) {
        reader[i] = (struct reader){.path = argv[1],
                                    .calls = calls / threads,
                                    .random = argc > 4 && strcmp(argv[4], "random") == 0};
        failed |= pthread_create(&reader[i].thread, NULL, run_reader, &reader[i]);
    }
    for (unsigned long i = 0; i < threads && !failed; i++) {
        pthread_join(reader[i].thread, NULL);
        failed |= reader[i].failed;
        slowest = reader[i].seconds > slowest ? reader[i].seconds : slowest;
        busiest = reader[i].cpu_s > busiest ? reader[i].cpu_s : busiest;
    }
    if (failed) {
        perror(argv[1]);
        return 1;
    }
    double each = (double)calls / (double)threads;
    printf("{\"calls\": %llu, \"seconds\": %.6f, \"ns_per_call\": %.2f, "
           "\"cpu_ns_per_call\": %.2f}\n",
           (unsigned long long)calls, slowest, slowest * 1e9 / each, busiest * 1e9 / each);
    return 0;
}
