/*
 * check.h - the whole unit-test framework. A test program is a list of cases:
 *
 *     int main(int argc, char **argv)
 *     {
 *         CHECK_BEGIN(argc, argv);
 *         CHECK_RUN(round_trip);                            the case `round_trip`
 *         CHECK_FOR("gzip", every_way, gz);                 the case `every_way[gzip]`
 *         return CHECK_DONE();
 *     }
 *
 * CHECK(cond) and its like count failures and print them with their place. Each case prints one
 * line: `ok NAME`, `FAIL NAME` or `skip NAME: WHY`. Arguments are the names of the cases to run
 * (none: all); -l lists them.
 */
#ifndef CHECK_H
#define CHECK_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int check_failures;

static struct {
    char **wanted; /* NULL: all */
    bool list;
    char name[120]; /* of the case that runs; "" outside of them */
    const char *skipped;
    int seen, failed; /* cases */
    int before;       /* failures when the case began */
} check_state;

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

/* How often to repeat what finds more the longer it runs: `many` for `make check-stress`. */
static inline unsigned check_repeats(unsigned few, unsigned many)
{
    const char *s = getenv("STOKER_LONG");
    return s && strcmp(s, "1") == 0 ? many : few;
}

static inline void check_begin(int argc, char **argv)
{
    check_state.list = argc == 2 && strcmp(argv[1], "-l") == 0;
    check_state.wanted = argc > 1 && !check_state.list ? argv + 1 : NULL;
}

/* Whether the case is to be run. */
static inline bool check_case(const char *name, const char *label)
{
    char full[sizeof check_state.name];
    bool wanted = !check_state.wanted;
    snprintf(full, sizeof full, label ? "%s[%s]" : "%s", name, label);
    for (char **w = check_state.wanted; w && *w; w++)
        wanted = wanted || strcmp(*w, full) == 0;
    if (!wanted)
        return false;
    check_state.seen++;
    if (check_state.list) {
        puts(full);
        return false;
    }
    memcpy(check_state.name, full, sizeof full);
    check_state.before = check_failures;
    check_state.skipped = NULL;
    return true;
}

/* Flushed at once: a child that a later case forks must not print it again, and after a crash the
 * last line tells how far it came. */
static inline void check_case_done(void)
{
    if (check_failures > check_state.before) {
        check_state.failed++;
        printf("FAIL %s\n", check_state.name);
    } else if (check_state.skipped) {
        printf("skip %s: %s\n", check_state.name, check_state.skipped);
    } else {
        printf("ok %s\n", check_state.name);
    }
    fflush(stdout);
    check_state.name[0] = '\0';
}

static inline int check_done(void)
{
    if (check_state.wanted && !check_state.seen) {
        fprintf(stderr, "there is no such case; -l lists them\n");
        return 2;
    }
    if (check_failures && !check_state.failed)
        puts("FAIL outside of the cases");
    return check_failures ? 1 : 0;
}

#define CHECK(cond)          ((cond) ? (void)0 : check_fail(__FILE__, __LINE__, #cond))
#define CHECK_STR(got, want) check_text(__FILE__, __LINE__, (got), (want))
#define CHECK_INT(got, want) check_int(__FILE__, __LINE__, (long long)(got), (long long)(want))

#define CHECK_BEGIN(argc, argv)  check_begin((argc), (argv))
#define CHECK_RUN(f)             CHECK_CASE(#f, NULL, f())
#define CHECK_FOR(label, f, ...) CHECK_CASE(#f, (label), f(__VA_ARGS__))
#define CHECK_CASE(name, label, call)                                                              \
    do {                                                                                           \
        if (check_case((name), (label))) {                                                         \
            call;                                                                                  \
            check_case_done();                                                                     \
        }                                                                                          \
    } while (0)
/* In a case: nothing more is tested in it, for this reason; the caller returns. */
#define CHECK_SKIP(why) ((void)(check_state.skipped = (why)))
#define CHECK_DONE()    check_done()

#endif
