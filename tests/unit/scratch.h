/*
 * scratch.h - a folder of the test's own, files in it, and TFRecords to put there. Everything is
 * gone when scratch_done() was called.
 */
#ifndef SCRATCH_H
#define SCRATCH_H

#include "base/buf.h"
#include "base/hash.h"
#include "base/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static char scratch[256];
static char **scratch_paths; /* those given out; they live until scratch_done() */
static size_t scratch_npaths;

static inline const char *scratch_begin(void)
{
    const char *tmp = getenv("TMPDIR");
    umask(022); /* files that a group may write are not treated as our own */
    snprintf(scratch, sizeof scratch, "%s/stoker-test-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(scratch)) {
        perror(scratch);
        exit(1);
    }
    return scratch;
}

static inline void scratch_done(void)
{
    (void)stk_remove_tree(scratch, NULL);
    while (scratch_npaths)
        free(scratch_paths[--scratch_npaths]);
    free(scratch_paths);
    scratch_paths = NULL;
}

/* Path of a name in the folder; valid until scratch_done(). */
static inline const char *scratch_path(const char *name)
{
    char *path = NULL;
    if (STK_ARRAY_MORE(scratch_paths, scratch_npaths, NULL) < 0 ||
        asprintf(&path, "%s/%s", scratch, name) < 0)
        abort();
    return scratch_paths[scratch_npaths++] = path;
}

/* Writes a file, and the folders above it. */
static inline const char *scratch_file(const char *name, const void *data, size_t size)
{
    const char *path = scratch_path(name);
    char folder[600];
    snprintf(folder, sizeof folder, "%s", path);
    *strrchr(folder, '/') = '\0';
    FILE *f = stk_mkdirs(folder, NULL) == 0 ? fopen(path, "wb") : NULL;
    if (!f || (size && fwrite(data, size, 1, f) != 1) || fclose(f) != 0) {
        perror(path);
        exit(1);
    }
    return path;
}

static inline uint32_t scratch_masked(const void *p, size_t n)
{
    uint32_t c = stk_crc32c(0, p, n);
    return (c >> 15 | c << 17) + 0xa282ead8u;
}

/* Appends a TFRecord. */
static inline void scratch_record(struct stk_buf *b, const void *data, size_t size)
{
    uint8_t head[12], tail[4];
    stk_put_le64(head, size);
    stk_put_le32(head + 8, scratch_masked(head, 8));
    stk_put_le32(tail, scratch_masked(data, size));
    stk_buf_put(b, head, sizeof head);
    stk_buf_put(b, data, size);
    stk_buf_put(b, tail, sizeof tail);
}

#endif
