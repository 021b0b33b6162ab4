/*
 * check.h - the whole unit-test framework: CHECK(cond) counts and prints failures with their
 * place, CHECK_DONE() is main's return value. A test program prints "ok" or its failures.
 */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <string.h>

static int check_failures;

static inline void check_fail(const char *file, int line, const char *what)
{
    fprintf(stderr, "FAIL %s:%d: %s\n", file, line, what);
    check_failures++;
}

static inline void check_text(const char *file, int line, const char *got, const char *want)
{
    if (got && want && strcmp(got, want) == 0)
        return;
    fprintf(stderr, "FAIL %s:%d: got \"%s\", want \"%s\"\n", file, line, got ? got : "(null)",
            want ? want : "(null)");
    check_failures++;
}

static inline void check_int(const char *file, int line, long long got, long long want)
{
    if (got == want)
        return;
    fprintf(stderr, "FAIL %s:%d: got %lld, want %lld\n", file, line, got, want);
    check_failures++;
}

static inline int check_done(void)
{
    if (!check_failures)
        puts("ok");
    return check_failures ? 1 : 0;
}

#define CHECK(cond)          ((cond) ? (void)0 : check_fail(__FILE__, __LINE__, #cond))
#define CHECK_STR(got, want) check_text(__FILE__, __LINE__, (got), (want))
#define CHECK_INT(got, want) check_int(__FILE__, __LINE__, (long long)(got), (long long)(want))
#define CHECK_SKIP(why)      (puts("skip: " why), 77)
#define CHECK_DONE()         check_done()

#endif
