/*
 * bench_pread - a plain pread loop over a file into one buffer that is used again and again: the
 * least anyone can do to get the bytes, so the limit of the memory for a file that is cached.
 * Usage: bench_pread FILE READ_BYTES ROUNDS. Prints one JSON object: bytes, seconds of each round.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static long long read_through(int fd, char *buf, size_t size)
{
    long long total = 0;
    ssize_t n;

    while ((n = pread(fd, buf, size, total)) > 0)
        total += n;
    return n < 0 ? -1 : total;
}

int main(int argc, char **argv)
{
    size_t size = argc == 4 ? strtoull(argv[2], NULL, 10) : 0;
    int rounds = argc == 4 ? atoi(argv[3]) : 0;
    int fd = argc == 4 ? open(argv[1], O_RDONLY | O_CLOEXEC) : -1;
    char *buf = size ? aligned_alloc(4096, (size + 4095) / 4096 * 4096) : NULL;
    long long bytes = 0;

    if (size == 0 || rounds < 1) {
        fprintf(stderr, "usage: bench_pread FILE READ_BYTES ROUNDS\n");
        free(buf);
        return 2;
    }
    printf("{\"round_s\": [");
    for (int i = 0; i < rounds && fd >= 0 && buf && bytes >= 0; i++) {
        double start = now_s();
        bytes = read_through(fd, buf, size);
        printf("%s%.6f", i ? ", " : "", now_s() - start);
    }
    printf("], \"bytes\": %lld}\n", bytes);
    if (bytes <= 0)
        perror(argv[1]);
    if (fd >= 0)
        close(fd);
    free(buf);
    return bytes > 0 ? 0 : 1;
}
