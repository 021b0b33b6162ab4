/*
 * unpack.c - what it costs a program to unpack files that are compressed as a whole (gzip). With
 * stoker's loader it does not: the loader unpacks in its own threads, and packed data may not be
 * compressed at all. So that part of the program's CPU time is taken off. It is measured with zlib,
 * which nearly all programs use.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>

#include "base/file.h"
#include "base/text.h"
#include "host/tree.h"
#include "tune/files.h"
#include "tune/priv.h"

#define FILES    4
#define FILE_MAX (8u << 20) /* of a larger one, this much */
#define WINDOW   (15 + 32)  /* largest; gzip or zlib, by the header */
#define OUT_SIZE (256u << 10)

/* Unpacks as much as there is; the stored bytes that took, and the CPU time. */
static void unpack(uint8_t *data, size_t n, uint8_t *out, double *bytes, double *seconds)
{
    z_stream z = {.next_in = data, .avail_in = (uInt)n};
    double begin = stk_thread_cpu_s();
    int rc = inflateInit2(&z, WINDOW);
    while (rc == Z_OK) {
        z.next_out = out;
        z.avail_out = OUT_SIZE;
        rc = inflate(&z, Z_NO_FLUSH);
    }
    *bytes += (double)(n - z.avail_in);
    *seconds += stk_thread_cpu_s() - begin;
    inflateEnd(&z);
}

static bool is_packed(const char *name)
{
    size_t n = strlen(name);
    return stk_name_has_suffix(name, n, ".gz") || stk_name_has_suffix(name, n, ".tgz");
}

void stk_tune_unpack(struct stk_tuner *t, const struct stk_tune_files *f)
{
    uint8_t *data = malloc(FILE_MAX), *out = malloc(OUT_SIZE);
    double bytes = 0, seconds = 0;
    size_t tried = 0;
    for (size_t i = 0; data && out && i < f->n && tried < FILES; i++) {
        if (!is_packed(f->file[i].name))
            continue;
        char *path = stk_path_join(t->s.source, f->file[i].name);
        int fd = path ? open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK) : -1;
        size_t got = 0;
        if (fd >= 0 && stk_pread_full(fd, data, FILE_MAX, 0, &got, path, NULL) == 0)
            unpack(data, got, out, &bytes, &seconds);
        if (fd >= 0)
            close(fd);
        free(path);
        tried++;
    }
    free(data);
    free(out);
    t->s.unpack_s = bytes > 0 ? seconds / bytes : 0;
}
