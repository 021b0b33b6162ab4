/* crcs.c - compares the checksums that a zip has of its members. */
#include "dataset/crcs.h"
#include "base/file.h"
#include "dataset/fetch.h"

#include <stdlib.h>
#include <zlib.h>

#define STEP (1u << 20)

static int crc_of_range(int fd, const struct stk_extent *e, uint32_t *crc, const char *path,
                        struct stk_err *err)
{
    uint8_t *buf = malloc(STEP);
    int rc = buf ? 0 : stk_err_nomem(err, STEP);
    uint64_t at = 0;
    *crc = 0;
    while (rc == 0 && at < e->length) {
        size_t want = e->length - at < STEP ? (size_t)(e->length - at) : STEP, got;
        rc = stk_pread_full(fd, buf, want, e->offset + at, &got, path, err);
        if (rc == 0 && !got)
            rc = stk_err_set(err, STK_E_CORRUPT, path, (int64_t)(e->offset + at),
                             "the file became shorter");
        *crc = rc == 0 ? (uint32_t)crc32(*crc, buf, (uInt)got) : 0;
        at += rc == 0 ? got : 0;
    }
    free(buf);
    return rc;
}

/* Decoding compares it. */
static int decode(const struct stk_dataset *ds, int fd, uint64_t number, const struct stk_extent *e,
                  const char *path, struct stk_err *err)
{
    struct stk_buf in = STK_BUF_INIT, out = STK_BUF_INIT, scratch = STK_BUF_INIT;
    size_t got = 0;
    int rc = stk_buf_extend(&in, (size_t)e->length + 1) ? 0 : stk_err_nomem(err, e->length);
    if (rc == 0)
        rc = stk_pread_full(fd, in.data, (size_t)e->length, e->offset, &got, path, err);
    if (rc == 0 && got < e->length)
        rc = stk_err_set(err, STK_E_CORRUPT, path, (int64_t)(e->offset + got),
                         "the file became shorter");
    if (rc == 0)
        rc = stk_fetch_decode(ds, number, e, in.data, &out, &scratch, err);
    stk_buf_release(&in);
    stk_buf_release(&out);
    stk_buf_release(&scratch);
    return rc;
}

static int check(const struct stk_dataset *ds, const struct stk_index_crc *c, bool stored,
                 uint64_t *bytes, struct stk_err *err)
{
    struct stk_extent e;
    struct stk_file f;
    uint32_t crc = c->crc32;
    int rc = stk_index_extent(&ds->index, c->extent, &e, err);
    if (rc < 0 || (stored && e.chain))
        return rc;
    rc = stk_file_open(&ds->files, e.file, STK_FILE_PLAIN, &f, err);
    if (rc < 0)
        return rc;
    char *path = stk_files_path(&ds->files, e.file);
    rc = e.chain ? decode(ds, f.fd, c->extent, &e, path, err)
                 : crc_of_range(f.fd, &e, &crc, path, err);
    stk_file_close(&f);
    *bytes += rc == 0 ? e.length : 0;
    if (rc == 0 && crc != c->crc32)
        rc = stk_err_set(err, STK_E_CORRUPT, path, (int64_t)e.offset,
                         "the data's checksum does not match");
    free(path);
    return rc;
}

int stk_crcs_check(const struct stk_dataset *ds, bool stored, uint64_t *bytes,
                   void (*problem)(void *user, const struct stk_err *what), void *user,
                   struct stk_err *err)
{
    const struct stk_index_crc *c = ds->index.table[STK_T_CRCS];
    int rc = stk_index_touch(&ds->index, STK_T_CRCS, err);
    for (uint64_t i = 0; rc == 0 && i < stk_index_count(&ds->index, STK_T_CRCS); i++) {
        struct stk_err why = {0};
        rc = check(ds, &c[i], stored, bytes, &why);
        if (rc < 0 && stk_is_finding(rc)) {
            problem(user, &why);
            rc = 0;
        } else if (rc < 0 && err) {
            *err = why;
        }
    }
    return rc;
}
