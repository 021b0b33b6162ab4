/*
 * tiny.c - numbers read one by one from a stream, mixed with characters, jumps and other lengths:
 * what the buffer holds is counted in runs, and every call counts all the same.
 */
/* TRUTH
{"in.bin": {"stdio": {"opens": 1, "closes": 1, "reads": 20513, "read_bytes": 40510, "first_reads": 1,
                     "seq_reads": 20508, "consec_reads": 20507, "eof_reads": 1, "seeks": 6}}}
*/
#include "truth.h"

static char at[32];

static void get(FILE *f, size_t bytes, int times)
{
    for (int i = 0; i < times; i++)
        MUST(fread(at, 1, bytes, f) == bytes);
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    FILE *f = fopen("in.bin", "r");
    MUST(f);
    get(f, 1, 5000); /* consecutive, but for the first */
    rewind(f);
    get(f, 2, 10000); /* 0 to 20,000: the first goes back */
    for (int i = 0; i < 100; i++) { /* to 21,200 */
        get(f, 4, 1);
        get(f, 8, 1);
    }
    MUST(fseek(f, 0, SEEK_SET) == 0);
    get(f, 16, 200);
    MUST(fgetc(f) != EOF); /* a run of three characters is one read */
    MUST(fgetc(f) != EOF);
    MUST(fgetc(f) != EOF);
    get(f, 1, 3);
    MUST(fseek(f, 30000, SEEK_SET) == 0); /* sequential, not consecutive */
    get(f, 2, 5000);
    MUST(fseek(f, 39000, SEEK_SET) == 0);
    get(f, 10, 100);
    MUST(fseek(f, 38980, SEEK_SET) == 0);
    get(f, 20, 5); /* not tiny: each is recorded */
    get(f, 1, 4);
    MUST(fread(at, 1, 0, f) == 0); /* no read */
    MUST(fseek(f, 100000, SEEK_SET) == 0);
    MUST(fread(at, 1, 1, f) == 0); /* the end */
    MUST(fclose(f) == 0);
    return 0;
}
