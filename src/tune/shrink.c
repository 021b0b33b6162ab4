/* shrink.c - how much smaller the data would be with zstd, from pieces of some files: whether
 * compression can pay is known before anything is packed. */
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "format/format.h"
#include "tune/files.h"
#include "tune/priv.h"

#define FILES 8
#define PIECE (128u << 10)

/* Adds a piece from the middle of a file, and what zstd leaves of it. */
static void try_piece(const char *path, uint64_t bytes, uint8_t *piece, double *in, double *out)
{
    struct stk_buf packed = STK_BUF_INIT;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    off_t at = bytes > PIECE ? (off_t)((bytes - PIECE) / 2) : 0;
    ssize_t n = fd >= 0 ? pread(fd, piece, PIECE, at) : -1;
    if (n > 0 && stk_filter_encode(STK_FILTER_ZSTD, 0, piece, (size_t)n, &packed, NULL) == 0) {
        *in += (double)n;
        *out += (double)packed.len;
    }
    if (fd >= 0)
        close(fd);
    stk_buf_release(&packed);
}

void stk_tune_shrink(struct stk_tuner *t, const struct stk_tune_files *f)
{
    uint8_t *piece = malloc(PIECE);
    double in = 0, out = 0;
    for (size_t i = 0; piece && i < FILES && i < f->n; i++) {
        const struct stk_tune_file *file = &f->file[i * f->n / (f->n < FILES ? f->n : FILES)];
        char *path = stk_path_join(t->s.source, file->name);
        if (path)
            try_piece(path, file->bytes, piece, &in, &out);
        free(path);
    }
    free(piece);
    t->s.zstd_leaves = in > 0 ? out / in : 0;
}
