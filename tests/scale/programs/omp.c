/*
 * omp.c - an OpenMP program with a serial part: omp STEPS SERIAL. Integrates 4 / (1 + x^2) over
 * STEPS intervals by all threads, after SERIAL intervals by one. Prints "threads T pi P".
 */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

static double integrate(long steps, int threads)
{
    double sum = 0, width = 1.0 / (double)steps;
#pragma omp parallel for reduction(+ : sum) schedule(static) num_threads(threads)
    for (long i = 0; i < steps; i++) {
        double x = ((double)i + 0.5) * width;
        sum += 4.0 / (1.0 + x * x);
    }
    return sum * width;
}

int main(int argc, char **argv)
{
    long steps = argc > 1 ? atol(argv[1]) : 10000000, serial = argc > 2 ? atol(argv[2]) : 0;
    int threads = omp_get_max_threads();
    double first = serial > 0 ? integrate(serial, 1) : 0, pi = integrate(steps, threads);
    printf("threads %d pi %.9f serial %.3f\n", threads, pi, first);
    return 0;
}
