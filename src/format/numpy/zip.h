/*
 * zip.h - the directory of a ZIP file, read and written: what NPZ needs (stored and deflated
 * members, ZIP64), with every length checked against the file.
 */
#ifndef STK_FORMAT_NUMPY_ZIP_H
#define STK_FORMAT_NUMPY_ZIP_H

#include "format/format.h"

#define STK_ZIP_MEMBERS_MAX 16384u

enum { STK_ZIP_STORED = 0, STK_ZIP_DEFLATED = 8 };

struct stk_zip_entry {
    const char *name; /* terminated too; in the zip's arena */
    size_t name_len;
    uint16_t method, flags;
    uint32_t crc;
    uint64_t stored, size; /* bytes in the file; bytes when decoded */
    uint64_t header_off;   /* of the local header */
    uint64_t data_off;     /* of the stored bytes */
};

struct stk_zip {
    struct stk_zip_entry *entry; /* in the order of the directory */
    size_t nentries;
    struct stk_arena arena;
};

/* Reads the directory and every local header. The entries are inside the file, do not overlap and
 * have unique names. Errors name the file and the offset. Caller frees with stk_zip_release(), also
 * on error. */
int stk_zip_read(struct stk_zip *z, struct stk_src *src, struct stk_err *err);
void stk_zip_release(struct stk_zip *z);

/* Writing: local header, the member's bytes, ...; then a central header per member and the end. All
 * dates are 1980-01-01: the same content gives the same bytes. */
void stk_zip_put_local(struct stk_buf *out, const struct stk_zip_entry *e);
void stk_zip_put_central(struct stk_buf *out, const struct stk_zip_entry *e);
void stk_zip_put_end(struct stk_buf *out, uint64_t nentries, uint64_t directory_off,
                     uint64_t directory_size);

#endif
