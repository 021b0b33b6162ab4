/* shrink.c - how much smaller the data would be with zstd, and the CPU time to unpack it, from
 * pieces of some files: whether compression can pay is known before anything is packed. */
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "format/format.h"
#include "host/tree.h"
#include "tune/files.h"
#include "tune/priv.h"

#define FILES 8
#define PIECE (128u << 10)

struct tried {
    double in, out, seconds; /* bytes, those that zstd leaves, CPU time to unpack them */
};

static double unpack_s(const struct stk_buf *packed)
{
    const struct stk_chain chain = {.nsteps = 1, .step = {{.id = STK_FILTER_ZSTD}}};
    struct stk_buf out = STK_BUF_INIT, scratch = STK_BUF_INIT;
    double begin = stk_thread_cpu_s();
    (void)stk_filter_decode(&chain, packed->data, packed->len, &out, &scratch, "", 0, NULL);
    double seconds = stk_thread_cpu_s() - begin;
    stk_buf_release(&out);
    stk_buf_release(&scratch);
    return seconds;
}

/* A piece from the middle of a file. */
static void try_piece(const char *path, uint64_t bytes, uint8_t *piece, struct tried *t)
{
    struct stk_buf packed = STK_BUF_INIT;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    off_t at = bytes > PIECE ? (off_t)((bytes - PIECE) / 2) : 0;
    ssize_t n = fd >= 0 ? pread(fd, piece, PIECE, at) : -1;
    if (n > 0 && stk_filter_encode(STK_FILTER_ZSTD, 0, piece, (size_t)n, &packed, NULL) == 0) {
        t->in += (double)n;
        t->out += (double)packed.len;
        t->seconds += unpack_s(&packed);
    }
    if (fd >= 0)
        close(fd);
    stk_buf_release(&packed);
}

void stk_tune_shrink(struct stk_tuner *t, const struct stk_tune_files *f)
{
    uint8_t *piece = malloc(PIECE);
    struct tried all = {0};
    for (size_t i = 0; piece && i < FILES && i < f->n; i++) {
        const struct stk_tune_file *file = &f->file[i * f->n / (f->n < FILES ? f->n : FILES)];
        char *path = stk_tune_file_path(t->s.source, file);
        if (path)
            try_piece(path, file->bytes, piece, &all);
        free(path);
    }
    free(piece);
    t->s.zstd_leaves = all.in > 0 ? all.out / all.in : 0;
    t->s.unzstd_s = all.in > 0 ? all.seconds / all.in : 0;
}
