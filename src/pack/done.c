/*
 * done.c - the record of finished shards. Each entry is a text between NUL bytes that begins with
 * its checksum, so that an entry that was cut off is none, and spoils no other.
 */
#include "pack/done.h"
#include "base/array.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/own.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define RECORD_MAX (256u << 20) /* shards are at most 99,999 */
#define HASH_LEN   17           /* 16 digits and a space */

static void put_entry(struct stk_buf *b, const struct stk_manifest_file *f, struct stk_buf *body)
{
    stk_buf_reset(body);
    stk_buf_printf(body, "%" PRIu64 " %" PRIu64 " %016" PRIx64 " %s", f->size, f->samples, f->xxh64,
                   f->name);
    stk_buf_putc(b, '\0');
    stk_buf_printf(b, "%016" PRIx64 " ", stk_hash64(body->data, body->len));
    stk_buf_put(b, body->data, body->len);
    stk_buf_putc(b, '\0');
}

int stk_done_add(int dirfd, const char *path, const struct stk_manifest_file *shard,
                 const struct stk_manifest_file *side, struct stk_err *err)
{
    struct stk_buf b = STK_BUF_INIT, body = STK_BUF_INIT;
    int fd = -1;
    if (side->name)
        put_entry(&b, side, &body);
    put_entry(&b, shard, &body);
    int rc = body.fail ? stk_buf_check(&body, err) : stk_buf_check(&b, err);
    if (rc == 0)
        rc = stk_open_append(dirfd, STK_DONE_NAME, STK_PRIVATE, &fd, path, err);
    if (rc == 0)
        rc = stk_write_full(fd, b.data, b.len, path, err);
    if (rc == 0 && fdatasync(fd) < 0)
        rc = stk_err_sys(err, path, "fsync %s", STK_DONE_NAME);
    if (fd >= 0)
        close(fd);
    stk_buf_release(&b);
    stk_buf_release(&body);
    return rc;
}

/* An entry with a right checksum; its name is borrowed. */
static bool parse_entry(const char *text, struct stk_manifest_file *f)
{
    uint64_t hash;
    int at = 0;
    size_t len = strlen(text);
    if (len <= HASH_LEN || sscanf(text, "%16" SCNx64, &hash) != 1 ||
        hash != stk_hash64(text + HASH_LEN, len - HASH_LEN) ||
        sscanf(text + HASH_LEN, "%" SCNu64 " %" SCNu64 " %16" SCNx64 "%n", &f->size, &f->samples,
               &f->xxh64, &at) != 3 ||
        text[HASH_LEN + at] != ' ')
        return false;
    f->name = text + HASH_LEN + at + 1;
    return true;
}

static int parse(struct stk_done *d, struct stk_err *err)
{
    const char *text = stk_buf_cstr(&d->text);
    if (d->text.fail)
        return stk_buf_check(&d->text, err);
    int rc = 0;
    for (size_t at = 0; rc == 0 && at < d->text.len; at += strlen(text + at) + 1) {
        struct stk_manifest_file f;
        if (!parse_entry(text + at, &f))
            continue;
        if (STK_ARRAY_MORE(d->file, d->n, err))
            return STK_E_NOMEM;
        d->file[d->n] = f;
        rc = stk_lookup_add(&d->by_name, stk_hash64(f.name, strlen(f.name)), (uint32_t)d->n++, err);
    }
    return rc;
}

int stk_done_read(struct stk_done *d, int dirfd, const char *path, struct stk_err *err)
{
    struct stk_err why = {0};
    *d = (struct stk_done){0};
    int rc = stk_read_file_at(dirfd, STK_DONE_NAME, O_NOFOLLOW, RECORD_MAX, &d->text, path, &why);
    rc = stk_if_there(rc, &why);
    if (rc == 1)
        return parse(d, err);
    if (rc != STK_E_SYS && rc != STK_E_NOMEM) /* none, or no file */
        return 0;
    (void)stk_err_wrap(&why, rc, STK_DONE_NAME);
    return err ? (*err = why).code : rc;
}

const struct stk_manifest_file *stk_done_find(const struct stk_done *d, const char *name)
{
    const struct stk_manifest_file *last = NULL;
    uint32_t i;
    for (size_t at = 0; stk_lookup_next(&d->by_name, stk_hash64(name, strlen(name)), &at, &i);)
        if (strcmp(d->file[i].name, name) == 0 && (!last || &d->file[i] > last))
            last = &d->file[i];
    return last;
}

void stk_done_release(struct stk_done *d)
{
    free(d->file);
    stk_lookup_release(&d->by_name);
    stk_buf_release(&d->text);
    *d = (struct stk_done){0};
}
