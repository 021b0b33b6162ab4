/*
 * truth.h - for programs whose I/O is known exactly: `PROGRAM FOLDER`. The test has put in.bin
 * (100,000 bytes) and lines.txt (1,000 lines of 10 bytes, "line 0000\n" ...) into FOLDER. What a
 * program does with each file stands in it, between TRUTH and the end of that comment, as JSON:
 * every counter that is not named there is 0.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A program that does not do what it says would make any profile look wrong. */
#define MUST(what)                                                                                 \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what);                             \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static char data[65536];

static inline void begin(int argc, char **argv)
{
    MUST(argc == 2 && chdir(argv[1]) == 0);
    memset(data, 'x', sizeof(data));
}
