/*
 * law.c - a program of known law, which waits exactly as long as it says: law N T1_MS SERIAL
 * COHERENCE NOISE SEED FILE. The time of N is T1 ((1 - a) / N + a + b (N - 1)) after Amdahl (b = 0)
 * or the Universal Scalability Law, times 1 + NOISE * x with x about normal, drawn from SEED and
 * from how many runs have been (a byte each in FILE). No libraries: it is to start fast.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

static double uniform(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return ((double)((z ^ (z >> 31)) >> 11) + 0.5) / 9007199254740992.0;
}

int main(int argc, char **argv)
{
    struct timespec start, until;
    struct stat st = {0};
    clock_gettime(CLOCK_MONOTONIC, &start);
    if (argc < 8)
        return 2;
    double n = atof(argv[1]), t1 = atof(argv[2]) / 1e3, a = atof(argv[3]), b = atof(argv[4]);
    FILE *f = fopen(argv[7], "a");
    if (!f || stat(argv[7], &st) != 0 || fputc('.', f) == EOF || fclose(f) != 0)
        return 1;
    uint64_t state = (uint64_t)atol(argv[6]) * 1000003u + (uint64_t)st.st_size * 7919u;
    double x = -6;
    for (int i = 0; i < 12; i++)
        x += uniform(&state);
    double t = t1 * ((1 - a) / n + a + b * (n - 1)) * (1 + atof(argv[5]) * x);
    double end = (double)start.tv_sec + (double)start.tv_nsec * 1e-9 + t;
    until.tv_sec = (time_t)end;
    until.tv_nsec = (long)((end - (double)until.tv_sec) * 1e9);
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) != 0)
        ;
    printf("waited %.6f\n", t);
    return 0;
}
