/*
 * stdio.c - blocks, lines, characters, formatted text and positions of streams.
 */
/* TRUTH
{"in.bin": {"stdio": {"opens": 1, "closes": 1, "seeks": 5, "reads": 15, "eof_reads": 1,
                      "read_bytes": 16110, "first_reads": 1, "seq_reads": 11, "consec_reads": 10}},
 "lines.txt": {"stdio": {"opens": 2, "closes": 2, "seeks": 1, "reads": 303, "read_bytes": 3029,
                         "first_reads": 2, "seq_reads": 301, "consec_reads": 301}},
 "out.txt": {"stdio": {"opens": 1, "closes": 1, "write_opens": 1, "writes": 5, "write_bytes": 5712, "flushes": 1,
                       "seq_writes": 4, "consec_writes": 4}},
 "wrong.txt": {"stdio": {"errors": 1}}}
*/
#define _GNU_SOURCE
#include "truth.h"

#include <fcntl.h>

static char buffer[4096];

static void blocks(void)
{
    fpos_t at;
    FILE *f = fopen("in.bin", "rb");
    MUST(f && setvbuf(f, buffer, _IOFBF, sizeof(buffer)) == 0);
    for (int i = 0; i < 10; i++)
        MUST(fread(data, 10, 100, f) == 100); /* one first, nine consecutive */
    MUST(fgetpos(f, &at) == 0);
    MUST(fseek(f, 50000, SEEK_SET) == 0);
    MUST(fread_unlocked(data, 1, 1000, f) == 1000); /* sequential */
    MUST(fseeko(f, -500, SEEK_CUR) == 0);
    MUST(fread(data, 1, 100, f) == 100); /* goes back */
    MUST(fseek(f, 0, SEEK_END) == 0);
    MUST(fread(data, 1, 100, f) == 0); /* the end of data */
    MUST(fsetpos(f, &at) == 0);
    MUST(fread(data, 1, 10, f) == 10); /* goes back */
    rewind(f);
    for (int i = 0; i < 4000; i++)
        MUST(fgetc(f) != EOF); /* goes back; one run to the end of the buffer … */
    for (int i = 0; i < 1000; i++) {
        int c = i % 2 ? getc_unlocked(f) : getc(f);
        MUST(c != EOF);
        if (i == 500) { /* … and one behind it; what is put back and read again counts once */
            MUST(ungetc(c, f) == c);
            MUST(fgetc(f) == c);
        }
    }
    MUST(fclose(f) == 0);
}

static void lines(void)
{
    char line[64], *got = NULL;
    size_t room = 0;
    int number;
    FILE *f = fopen64("lines.txt", "r");
    MUST(f);
    for (int i = 0; i < 100; i++)
        MUST(fgets(line, sizeof(line), f) && strlen(line) == 10);
    for (int i = 0; i < 100; i++)
        MUST(getline(&got, &room, f) == 10);
    for (int i = 0; i < 100; i++)
        MUST(getdelim(&got, &room, '\n', f) == 10);
    free(got);
    MUST(fscanf(f, "line %d", &number) == 1 && number == 300);  /* 9 bytes */
    MUST(fscanf(f, " line %d", &number) == 1 && number == 301); /* 10 */
    MUST((f = freopen("lines.txt", "r", f)));
    MUST(fseeko(f, 5000, SEEK_SET) == 0);
    MUST(fread(line, 1, 10, f) == 10); /* the first through this description */
    MUST(fclose(f) == 0);
}

static void writing(void)
{
    FILE *f = fopen("out.txt", "w+");
    MUST(f && setvbuf(f, buffer, _IOFBF, sizeof(buffer)) == 0);
    MUST(fputs("hello\n", f) >= 0);
    MUST(fprintf(f, "%d\n", 12345) == 6);
    for (int i = 0; i < 5000; i++) /* 4,084 bytes until the buffer is full, and 916 */
        MUST((i % 3 == 2 ? putc_unlocked(data[i], f) : putc(data[i], f)) != EOF);
    MUST(fwrite(data, 7, 100, f) == 100);
    MUST(fflush(f) == 0 && fclose(f) == 0);
}

/* Streams without a file are not recorded. */
static void memory(void)
{
    char *text = NULL;
    size_t length = 0;
    FILE *f = open_memstream(&text, &length);
    MUST(f && fputs("abc", f) >= 0 && fputc('d', f) == 'd' && fclose(f) == 0 && length == 4);
    f = fmemopen(text, length, "r");
    MUST(f && fgetc(f) == 'a' && fread(data, 1, 10, f) == 3 && fclose(f) == 0);
    free(text);
}

int main(int argc, char **argv)
{
    begin(argc, argv);
    blocks();
    lines();
    writing();
    memory();
    MUST(!fopen("wrong.txt", "r"));
    return 0;
}
