/*
 * folder.c - a folder of files: a file is a sample, its path below the folder the key.
 *
 * The dataset walks the folder (dataset/dataset.c). This file lists a file as one record, and writes
 * samples as files, never through a link and never over an existing file.
 */
#include "format/format.h"
#include "format/members.h"
#include "format/sample.h"
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const suffixes[] = {NULL};

static int bid(const struct stk_probe *p)
{
    (void)p; /* every file can be a sample; the dataset decides whether the folder is one of
              * samples */
    return 0;
}

static int list(struct stk_lister *l, struct stk_src *src, struct stk_err *err)
{
    const int compress = stk_list_opts(l)->compress;
    const struct stk_chain chain = {.nsteps = 1, .step[0].id = (uint16_t)compress};
    const struct stk_field_spec spec = {.name = "data", .kind = STK_BYTES};
    const char *name = stk_src_name(src);
    size_t len = strlen(name);
    int field = stk_list_field(l, &spec, err);
    if (field < 0)
        return field;
    if (stk_member_strip(compress, name, &len))
        return stk_list_record_filtered(l, field, 0, stk_src_size(src), &chain, name, len, err);
    return stk_list_record(l, field, 0, stk_src_size(src), NULL, 0, err);
}

/* ---- writing ---- */

/* A sample between encode and append: for each file u32 length of its name, u64 of its content,
 * then both. Compression and array headers are done in encode, which runs in parallel. */
#define FILE_HEAD 12u

static int encode(const struct stk_write_config *cfg, const struct stk_sample *s,
                  struct stk_buf *out, struct stk_err *err)
{
    const struct stk_member_rules rules = {.data_ext = "",
                                           .no_label = cfg->label_in_key,
                                           .compress = cfg->compress,
                                           .level = cfg->level};
    struct stk_members m = STK_MEMBERS_INIT;
    int rc = stk_members_make(&m, &rules, s, err);
    for (size_t i = 0; rc == 0 && i < m.n; i++) {
        const struct stk_member *e = &m.item[i];
        uint8_t head[FILE_HEAD];
        stk_put_le32(head, (uint32_t)e->name_len);
        stk_put_le64(head + 4, (uint64_t)e->head_len + e->len);
        stk_buf_put(out, head, sizeof head);
        stk_buf_put(out, e->name, e->name_len);
        stk_buf_put(out, e->head, e->head_len);
        stk_buf_put(out, e->data, e->len);
    }
    stk_members_release(&m);
    return rc < 0 ? rc : stk_buf_check(out, err);
}

/* The folder being written. The directory of the last file stays open: the next file is mostly in
 * it. */
struct tree {
    int root, dir;
    struct stk_buf dir_name; /* of dir, below root; "" is root itself */
    struct stk_buf name;     /* terminated copy of the file's name */
    struct stk_buf path;     /* for messages */
};

static int begin(const struct stk_write_config *cfg, struct stk_out *o, struct stk_err *err)
{
    (void)cfg;
    const char *path = stk_out_path(o);
    struct tree *t = calloc(1, sizeof *t);
    *stk_out_state(o) = t;
    if (!t)
        return stk_err_nomem(err, sizeof *t);
    t->root = t->dir = -1;
    return stk_own_folder_at(o->dirfd, o->name, STK_OWN_MAKE | STK_OWN_NEW, &t->root, path, err);
}

static void tree_free(struct stk_out *o)
{
    struct tree *t = *stk_out_state(o);
    if (!t)
        return;
    if (t->dir >= 0 && t->dir != t->root)
        close(t->dir);
    if (t->root >= 0)
        close(t->root);
    stk_buf_release(&t->dir_name);
    stk_buf_release(&t->name);
    stk_buf_release(&t->path);
    free(t);
    *stk_out_state(o) = NULL;
}

static const char *message_path(struct stk_out *o, struct tree *t)
{
    stk_buf_reset(&t->path);
    stk_buf_puts(&t->path, stk_out_path(o));
    stk_buf_putc(&t->path, '/');
    stk_buf_puts(&t->path, stk_buf_cstr(&t->name));
    return stk_buf_cstr(&t->path);
}

static int fail(struct stk_out *o, struct tree *t, const char *what, struct stk_err *err)
{
    int why = errno;
    const char *path = message_path(o, t);
    errno = why;
    return stk_err_sys(err, path, "%s", what);
}

static int conflict(struct stk_out *o, struct tree *t, const char *what, struct stk_err *err)
{
    return stk_err_set(err, STK_E_UNSUPPORTED, message_path(o, t), -1, "%s; use --keys number",
                       what);
}

/* Makes t->dir the directory of dir_len bytes of t->name, from the root down. */
static int change_dir(struct stk_out *o, struct tree *t, size_t dir_len, struct stk_err *err)
{
    char *name = (char *)t->name.data;
    int fd = t->root;
    if (t->dir >= 0 && t->dir != t->root)
        close(t->dir);
    t->dir = -1;
    for (size_t at = 0; at < dir_len;) {
        char *slash = memchr(name + at, '/', dir_len + 1 - at);
        *slash = '\0';
        int next = stk_enter_at(fd, name + at);
        int why = errno;
        *slash = '/';
        if (fd != t->root)
            close(fd);
        fd = next;
        errno = why;
        if (fd < 0 && (why == ENOTDIR || why == ELOOP))
            return conflict(o, t, "one sample's file is another's directory", err);
        if (fd < 0)
            return fail(o, t, "create its directory", err);
        at = (size_t)(slash + 1 - name);
    }
    t->dir = fd;
    stk_buf_reset(&t->dir_name);
    stk_buf_put(&t->dir_name, name, dir_len);
    return stk_buf_check(&t->dir_name, err);
}

static int write_file(struct stk_out *o, struct tree *t, const uint8_t *p, size_t n,
                      struct stk_err *err)
{
    const char *name = (const char *)t->name.data;
    const char *slash = strrchr(name, '/');
    size_t dir_len = slash ? (size_t)(slash - name) : 0;
    int rc = 0;
    if (t->dir < 0 || t->dir_name.len != dir_len ||
        (dir_len && memcmp(t->dir_name.data, name, dir_len) != 0))
        rc = change_dir(o, t, dir_len, err);
    if (rc < 0)
        return rc;
    int fd = stk_create_at(t->dir, slash ? slash + 1 : name, STK_SHARED);
    if (fd < 0 && errno == EEXIST)
        return conflict(o, t, "two samples need a file or directory of this name", err);
    if (fd < 0)
        return fail(o, t, "create", err);
    rc = stk_write_full(fd, p, n, NULL, err);
    if (rc < 0 && err) { /* builds the path only if needed */
        errno = err->sys_errno;
        rc = fail(o, t, "write", err);
    }
    if (close(fd) < 0 && rc == 0)
        rc = fail(o, t, "close", err);
    return rc;
}

static int append(const struct stk_write_config *cfg, struct stk_out *o, const uint8_t *bytes,
                  size_t len, uint64_t nsamples, struct stk_err *err)
{
    (void)cfg, (void)nsamples;
    struct tree *t = *stk_out_state(o);
    while (len >= FILE_HEAD) {
        size_t name_len = stk_le32(bytes);
        uint64_t size = stk_le64(bytes + 4);
        bytes += FILE_HEAD;
        len -= FILE_HEAD;
        if (name_len > len || size > len - name_len)
            break;
        stk_buf_reset(&t->name);
        stk_buf_put(&t->name, bytes, name_len);
        stk_buf_cstr(&t->name);
        int rc = stk_buf_check(&t->name, err);
        if (rc == 0)
            rc = write_file(o, t, bytes + name_len, (size_t)size, err);
        if (rc < 0)
            return rc;
        bytes += name_len + (size_t)size;
        len -= name_len + (size_t)size;
    }
    return len ? stk_err_set(err, STK_E_CORRUPT, stk_out_path(o), -1, "cut-off sample") : 0;
}

/* One call for all files: an fsync per file would take longer than everything else. */
static int finish(const struct stk_write_config *cfg, struct stk_out *o, struct stk_err *err)
{
    (void)cfg;
    struct tree *t = *stk_out_state(o);
    int rc = syncfs(t->root) < 0 ? stk_err_sys(err, stk_out_path(o), "sync") : 0;
    tree_free(o);
    return rc;
}

static void abort_folder(const struct stk_write_config *cfg, struct stk_out *o)
{
    (void)cfg;
    tree_free(o);
}

const struct stk_format stk_format_folder = {
    .name = "folder",
    .title = "folder of files",
    .holds = STK_HOLDS_SHAPES | STK_HOLDS_GAPS | STK_HOLDS_KEY,
    .suffix = "",
    .suffixes = suffixes,
    .caps = STK_CAN_TREE | STK_CAN_READ | STK_CAN_WRITE | STK_CAN_OWN_FILE | STK_CAN_COMPRESS,
    .bid = bid,
    .list = list,
    .prepare = stk_members_prepare,
    .encode = encode,
    .begin = begin,
    .append = append,
    .finish = finish,
    .abort = abort_folder,
};
