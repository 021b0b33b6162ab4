/*
 * squashfs.c - squashfs images: every regular file is a sample, its path the key.
 *
 * libsquashfs (in a child process) walks the directories and reports the blocks of each file; the
 * blocks are then read and decoded without it. Small files and tails share fragment blocks: one
 * extent, one slice per file. format/squashfs/squashfs.c writes.
 */

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>
#include "format/group.h"
#include "format/members.h"
#include "base/file.h"
#include "base/spawn.h"
#include "format/tar/head.h"
#include "host/cpus.h"

static const char *const suffixes[] = {".sqsh", ".squashfs", ".sqfs", ".sfs", NULL};

#ifdef STK_HAVE_SQUASHFS

#include <stdlib.h>

#include <sqfs/block.h>
#include <sqfs/compressor.h>
#include <sqfs/dir.h>
#include <sqfs/dir_reader.h>
#include <sqfs/error.h>
#include <sqfs/frag_table.h>
#include <sqfs/inode.h>
#include <sqfs/io.h>
#include <sqfs/super.h>

#include "base/buf.h"
#include "format/jail.h"
#include "format/sample.h"

/* ---- writing --------------------------------------------------------------------------------- */

/*
 * Writing a squashfs image: samples become a tar stream that mksquashfs reads from its standard
 * input. No shell; its output is kept, and becomes the error message if it fails.
 */

#define TOOL     "mksquashfs"
#define PRINTED  700 /* bytes of its output in a message */
#define ARGS_MAX 40
/* The defaults of mksquashfs (gzip 9, zstd 15) are ten times slower and hardly smaller. */
#define LEVEL_DEFAULT 3

/* ---- before anything is written ------------------------------------------------------------ */

static int prepare(struct stk_write_config *cfg, struct stk_err *err)
{
    const char *found;
    int missing = stk_find_tool(TOOL, &found, err);
    if (missing < 0)
        return missing;
    if (missing)
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                           "squashfs images are made by " TOOL
                           ", which is not installed: install squashfs-tools (4.5 or newer)");
    return stk_members_prepare(cfg, err);
}

/* The members of the sample as part of a tar stream. The image does the compression. */
static int encode(const struct stk_write_config *cfg, const struct stk_sample *s,
                        struct stk_buf *out, struct stk_err *err)
{
    const struct stk_member_rules rules = {.data_ext = "", .no_label = cfg->label_in_key};
    struct stk_members m = STK_MEMBERS_INIT;
    int rc = stk_members_make(&m, &rules, s, err);
    for (size_t i = 0; rc == 0 && i < m.n; i++) {
        const struct stk_member *e = &m.item[i];
        uint64_t size = (uint64_t)e->head_len + e->len;
        stk_tar_put_head(out, e->name, e->name_len, size);
        stk_buf_put(out, e->head, e->head_len);
        stk_buf_put(out, e->data, e->len);
        stk_buf_zeros(out, stk_tar_padding(size));
    }
    stk_members_release(&m);
    return rc < 0 ? rc : stk_buf_check(out, err);
}

/* ---- the program ---------------------------------------------------------------------------- */

struct tool {
    struct stk_child child;
    int in;      /* our end of its standard input */
    int printed; /* a file without a name that takes its output */
};

struct arguments {
    const char *arg[ARGS_MAX];
    size_t n;
    char level[16], processors[16];
};

static void add(struct arguments *a, const char *arg)
{
    a->arg[a->n++] = arg;
}

static int add_compressor(struct arguments *a, const struct stk_write_config *cfg,
                          struct stk_err *err)
{
    bool lz4 = cfg->compress == STK_FILTER_LZ4F, gzip = cfg->compress == STK_FILTER_ZLIB ||
                                                        cfg->compress == STK_FILTER_DEFLATE ||
                                                        stk_filter_missing(STK_FILTER_ZSTD);
    int most = gzip ? 9 : 22;
    add(a, "-comp");
    add(a, lz4 ? "lz4" : gzip ? "gzip" : "zstd");
    if (lz4 && cfg->level > 0)
        add(a, "-Xhc");
    if (lz4)
        return 0;
    int level = cfg->level ? cfg->level : LEVEL_DEFAULT;
    if (level < 1 || level > most)
        return stk_err_set(err, STK_E_USAGE, NULL, -1, "%s level %d: from 1 to %d for squashfs",
                           gzip ? "deflate" : "zstd", level, most);
    snprintf(a->level, sizeof a->level, "%d", level);
    add(a, "-Xcompression-level");
    add(a, a->level);
    return 0;
}

/* Keeps date, user and machine out of the image. */
static int make_arguments(struct arguments *a, const struct stk_write_config *cfg, const char *path,
                          struct stk_err *err)
{
    static const char *const fixed[] = {
        "-tar",         "-noappend",  "-mkfs-time", "0",          "-all-time",      "0",
        "-all-root",    "-no-xattrs", "-root-mode", "0755",       "-exit-on-error", "-quiet",
        "-no-progress", "-mem",       "512M",       "-processors"};
    add(a, TOOL);
    add(a, "-");
    add(a, path);
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        add(a, fixed[i]);
    snprintf(a->processors, sizeof a->processors, "%u", stk_cpus());
    add(a, a->processors);
    int rc = add_compressor(a, cfg, err);
    a->arg[a->n] = NULL;
    return rc;
}

/* mksquashfs refuses SOURCE_DATE_EPOCH together with its time options. */
static bool is_kept(const char *var, const void *user)
{
    (void)user;
    return strncmp(var, "SOURCE_DATE_EPOCH=", 18) != 0;
}

/* It runs in the output folder, whatever that is named by then. */
static int start(struct tool *t, const char *const *arg, const struct stk_out *o,
                 struct stk_err *err)
{
    char dir[STK_FD_PATH];
    const char *tool;
    int pair[2], rc = stk_find_tool(TOOL, &tool, err);
    errno = rc;
    if (rc)
        return rc < 0 ? rc : stk_err_sys(err, NULL, "find " TOOL);
    const char **env = stk_environment(is_kept, NULL, NULL);
    if (!env)
        return stk_err_nomem(err, sizeof *env);
    t->printed = memfd_create("stoker-" TOOL, MFD_CLOEXEC);
    /* A socket, not a pipe: writes to it can suppress SIGPIPE if the reader died. */
    if (t->printed < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        rc = errno;
    if (rc == 0) {
        t->in = pair[0];
        t->child = (struct stk_child){.argv = arg,
                                      .path = tool,
                                      .env = env,
                                      .dir = stk_fd_path(o->dirfd, NULL, dir),
                                      .fd = {pair[1], t->printed, t->printed},
                                      .keep_signals = true}; /* it ends when we do, not earlier */
        rc = stk_child_start(&t->child);
        close(pair[1]);
    }
    free(env);
    errno = rc;
    return rc ? stk_err_sys(err, stk_out_path(o), "start " TOOL " (of squashfs-tools)") : 0;
}

static void tool_close(struct tool *t)
{
    if (t->in >= 0)
        close(t->in);
    if (t->printed >= 0)
        close(t->printed);
    free(t);
}

/* The end of its output, on one line; "": none. */
static const char *tool_said(const struct tool *t, char text[PRINTED + 1])
{
    off_t size = lseek(t->printed, 0, SEEK_END);
    off_t from = size > PRINTED ? size - PRINTED : 0;
    ssize_t n = size > 0 ? pread(t->printed, text, PRINTED, from) : 0;
    n = n < 0 ? 0 : n;
    while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == ' '))
        n--;
    for (ssize_t i = 0; i < n; i++)
        if ((unsigned char)text[i] < ' ')
            text[i] = text[i] == '\n' ? ';' : ' ';
    text[n] = '\0';
    return text;
}

/* Checks how it ended; it exits 0 even if it left out a file because of its name. */
static int tool_result(struct tool *t, const char *path, struct stk_err *err)
{
    char text[PRINTED + 1];
    (void)stk_child_wait(&t->child); /* if its status is unknown, assume success */
    const struct stk_ending *e = &t->child.ending;
    const char *said = tool_said(t, text);
    if (e->status == 0) {
        const char *twice = strstr(said, " already exists in the tar file");
        if (!twice)
            return 0;
        return stk_err_set(err, STK_E_UNSUPPORTED, path, -1,
                           "two samples have the same path: %.*s; --keys number gives every "
                           "sample its own",
                           (int)(twice - said), said);
    }
    const char *what = *said ? said : "no output";
    if (e->signal)
        return stk_err_set(err, STK_E_SYS, path, -1, TOOL " was ended by signal %d: %s", e->signal,
                           what);
    int rc =
        stk_err_set(err, STK_E_SYS, path, -1, TOOL " failed (exit status %d): %s", e->status, what);
    if (err && strstr(said, strerror(ENOSPC)))
        err->sys_errno = ENOSPC; /* lets callers recognise a full disk */
    return rc;
}

/* ---- one image ------------------------------------------------------------------------------ */

static int begin(const struct stk_write_config *cfg, struct stk_out *o, struct stk_err *err)
{
    char here[STK_FD_PATH];
    struct arguments a = {0};
    snprintf(here, sizeof here, "./%s", o->name);
    int rc = make_arguments(&a, cfg, here, err);
    if (rc < 0)
        return rc;
    struct tool *t = malloc(sizeof *t);
    if (!t)
        return stk_err_nomem(err, sizeof *t);
    *t = (struct tool){.in = -1, .printed = -1};
    rc = start(t, a.arg, o, err);
    if (rc < 0)
        tool_close(t);
    else
        *stk_out_state(o) = t;
    return rc;
}

static int append(const struct stk_write_config *cfg, struct stk_out *o, const uint8_t *bytes,
                        size_t len, uint64_t nsamples, struct stk_err *err)
{
    (void)cfg, (void)nsamples;
    struct tool *t = *stk_out_state(o);
    while (len) {
        ssize_t n = send(t->in, bytes, len, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno != EPIPE && errno != ECONNRESET)
            return stk_err_sys(err, stk_out_path(o), "write to " TOOL);
        if (n < 0) {
            int rc = tool_result(t, stk_out_path(o), err);
            return rc < 0 ? rc
                          : stk_err_set(err, STK_E_SYS, stk_out_path(o), -1,
                                        TOOL " ended before it had read all");
        }
        bytes += n;
        len -= (size_t)n;
    }
    return 0;
}

static void give_up(const struct stk_write_config *cfg, struct stk_out *o)
{
    (void)cfg;
    struct tool *t = *stk_out_state(o);
    if (!t)
        return;
    (void)stk_child_end(&t->child, STK_CHILD_END_S);
    tool_close(t);
    *stk_out_state(o) = NULL;
}

static int finish(const struct stk_write_config *cfg, struct stk_out *o, struct stk_err *err)
{
    static const uint8_t end[2 * STK_TAR_BLOCK]; /* two blocks of zeros end an archive */
    struct tool *t = *stk_out_state(o);
    int rc = append(cfg, o, end, sizeof end, 0, err);
    if (rc == 0) {
        close(t->in);
        t->in = -1;
        rc = tool_result(t, stk_out_path(o), err);
    }
    give_up(cfg, o);
    return rc;
}

#define NO_FRAGMENT 0xffffffffu

static int bid(const struct stk_probe *p)
{
    return p->head_len >= 96 && stk_le32(p->head) == SQFS_MAGIC && stk_le16(p->head + 28) == 4 ? 99
                                                                                               : 0;
}

/* A directory still to be walked. */
struct pending {
    sqfs_inode_generic_t *inode;
    char *path; /* "" for the root */
};

struct walk {
    struct stk_lister *l;
    struct stk_err *err;
    const char *file_name;
    uint64_t file_size;
    sqfs_file_t *file;
    sqfs_super_t super;
    sqfs_compressor_t *cmp;
    sqfs_dir_reader_t *dirs;
    sqfs_frag_table_t *frags;
    int field;
    struct stk_chain chain; /* of compressed blocks */
    int64_t empty, hole;    /* extents for empty data and for zeros; -1 until needed */
    int64_t *frag_extent;   /* by number of fragment block; -1 until needed */
    uint64_t nfrags;
    uint8_t *seen;         /* a bit per directory's inode number: a directory occurs only once */
    uint64_t entries_left; /* at 0, the image has too many and must be cyclic */
    struct pending *todo;
    size_t ntodo, cap;
    struct stk_buf key;
    struct stk_grouper group;
};

static const char *reason(int code)
{
    switch (code) {
    case SQFS_ERROR_ALLOC:
        return "out of memory";
    case SQFS_ERROR_IO:
        return "read error";
    case SQFS_ERROR_COMPRESSOR:
        return "damaged compressed data";
    case SQFS_ERROR_UNSUPPORTED:
        return "not supported";
    case SQFS_ERROR_OUT_OF_BOUNDS:
        return "it points outside of the image";
    default:
        return "damaged";
    }
}

static int failed(struct walk *w, const char *what, int code)
{
    int own = code == SQFS_ERROR_UNSUPPORTED ? STK_E_UNSUPPORTED : STK_E_CORRUPT;
    return stk_err_set(w->err, own, w->file_name, -1, "%s: %s", what, reason(code));
}

/* ---- opening -------------------------------------------------------------------------------- */

static int choose_filter(struct walk *w)
{
    static const uint16_t filter[SQFS_COMP_MAX + 1] = {
        [SQFS_COMP_GZIP] = STK_FILTER_ZLIB,
        [SQFS_COMP_XZ] = STK_FILTER_XZ,
        [SQFS_COMP_LZ4] = STK_FILTER_LZ4B,
        [SQFS_COMP_ZSTD] = STK_FILTER_ZSTD,
    };
    unsigned id = w->super.compression_id;
    uint16_t f = id <= SQFS_COMP_MAX ? filter[id] : 0;
    const char *name = id >= SQFS_COMP_MIN && id <= SQFS_COMP_MAX
                           ? sqfs_compressor_name_from_id((SQFS_COMPRESSOR)id)
                           : "an unknown compressor";
    if (!f)
        return stk_err_set(w->err, STK_E_UNSUPPORTED, w->file_name, 20,
                           "an image compressed by %s cannot be read; mksquashfs -comp zstd makes "
                           "one that can",
                           name ? name : "?");
    const char *missing = stk_filter_missing((enum stk_filter_id)f);
    if (missing)
        return stk_err_set(w->err, STK_E_UNSUPPORTED, w->file_name, 20,
                           "an image compressed by %s: install %s and build again", name, missing);
    w->chain = (struct stk_chain){.nsteps = 1, .max_decoded = w->super.block_size};
    w->chain.step[0].id = f;
    return 0;
}

static int open_tables(struct walk *w)
{
    sqfs_compressor_config_t cfg;
    int rc = sqfs_compressor_config_init(&cfg, w->super.compression_id, w->super.block_size,
                                         SQFS_COMP_FLAG_UNCOMPRESS);
    if (rc == 0)
        rc = sqfs_compressor_create(&cfg, &w->cmp);
    if (rc != 0)
        return failed(w, "libsquashfs has no such compressor", rc);
    w->dirs = sqfs_dir_reader_create(&w->super, w->cmp, w->file, 0);
    w->frags = sqfs_frag_table_create(0);
    w->seen = calloc(w->super.inode_count / 8 + 1, 1);
    if (!w->dirs || !w->frags || !w->seen)
        return stk_err_nomem(w->err, w->super.inode_count / 8);
    rc = sqfs_frag_table_read(w->frags, w->file, &w->super, w->cmp);
    if (rc != 0)
        return failed(w, "the table of fragments cannot be read", rc);
    w->nfrags = sqfs_frag_table_get_size(w->frags);
    w->frag_extent = malloc((w->nfrags + 1) * sizeof *w->frag_extent);
    if (!w->frag_extent)
        return stk_err_nomem(w->err, w->nfrags * sizeof *w->frag_extent);
    for (uint64_t i = 0; i < w->nfrags; i++)
        w->frag_extent[i] = -1;
    return 0;
}

static int open_image(struct walk *w, struct stk_src *src)
{
    w->file = sqfs_open_file(stk_src_library_path(src), SQFS_FILE_OPEN_READ_ONLY);
    if (!w->file)
        return stk_err_sys(w->err, w->file_name, "open");
    int rc = sqfs_super_read(&w->super, w->file);
    if (rc == SFQS_ERROR_SUPER_VERSION)
        return stk_err_set(w->err, STK_E_UNSUPPORTED, w->file_name, 28,
                           "an image of another version than 4.0; mksquashfs 4 makes those");
    if (rc != 0)
        return stk_err_set(w->err, STK_E_CORRUPT, w->file_name, 0,
                           "damaged superblock (libsquashfs error %d)", rc);
    if (w->super.bytes_used > w->file_size)
        return stk_err_set(w->err, STK_E_CORRUPT, w->file_name, (int64_t)w->file_size,
                           "truncated: the image says %llu bytes, the file has %llu",
                           (unsigned long long)w->super.bytes_used,
                           (unsigned long long)w->file_size);
    rc = choose_filter(w);
    if (rc == 0)
        rc = open_tables(w);
    /* A directory entry takes at least 9 bytes; 8 KiB of them may compress to a few bytes. */
    w->entries_left = w->super.bytes_used / 8 * (SQFS_META_BLOCK_SIZE / 9) + 1024;
    return rc;
}

static void walk_release(struct walk *w)
{
    stk_grouper_release(&w->group);
    for (size_t i = 0; i < w->ntodo; i++) {
        sqfs_free(w->todo[i].inode);
        free(w->todo[i].path);
    }
    free(w->todo);
    free(w->seen);
    free(w->frag_extent);
    sqfs_destroy(w->frags);
    sqfs_destroy(w->dirs);
    sqfs_destroy(w->cmp);
    sqfs_destroy(w->file);
    stk_buf_release(&w->key);
}

/* ---- files ---------------------------------------------------------------------------------- */

/* The extent of a stored block; size is squashfs's size word: bit 24 means "not compressed". */
static int64_t block_extent(struct walk *w, uint64_t off, uint32_t size, uint64_t decoded)
{
    uint64_t stored = SQFS_ON_DISK_BLOCK_SIZE(size);
    bool plain = !SQFS_IS_BLOCK_COMPRESSED(size);
    if (off > w->file_size || stored > w->file_size - off || (plain && stored < decoded))
        return stk_err_set(w->err, STK_E_CORRUPT, w->file_name, (int64_t)off,
                           "a block of %llu bytes is outside of the image or too short",
                           (unsigned long long)stored);
    return stk_list_extent(w->l, off, stored, plain ? NULL : &w->chain, w->err);
}

static int64_t hole_extent(struct walk *w)
{
    struct stk_chain zeros = {.nsteps = 1, .max_decoded = w->super.block_size};
    zeros.step[0].id = STK_FILTER_ZEROS;
    zeros.step[0].arg = w->super.block_log;
    if (w->hole < 0)
        w->hole = stk_list_extent(w->l, 0, 1, &zeros, w->err);
    return w->hole;
}

static int64_t fragment_extent(struct walk *w, uint32_t index, uint64_t end)
{
    sqfs_fragment_t f;
    if (index >= w->nfrags || end > w->super.block_size ||
        sqfs_frag_table_lookup(w->frags, index, &f) != 0)
        return stk_err_set(w->err, STK_E_CORRUPT, w->file_name, -1,
                           "fragment %u is not in the table, or is too short", index);
    if (w->frag_extent[index] < 0)
        w->frag_extent[index] = block_extent(w, f.start_offset, f.size, end);
    return w->frag_extent[index];
}

struct blocks {
    uint64_t size, start; /* of the file; of its first block */
    uint32_t frag, frag_off;
    uint64_t count; /* of whole blocks and, without a fragment, the tail */
};

static bool file_blocks(const struct walk *w, const sqfs_inode_generic_t *inode, struct blocks *b)
{
    uint64_t unit = w->super.block_size;
    sqfs_u64 size, start;
    if (sqfs_inode_get_file_size(inode, &size) != 0 ||
        sqfs_inode_get_file_block_start(inode, &start) != 0 ||
        sqfs_inode_get_frag_location(inode, &b->frag, &b->frag_off) != 0)
        return false;
    b->size = size;
    b->start = start;
    b->count = size / unit + (size % unit && b->frag == NO_FRAGMENT);
    return b->count == sqfs_inode_get_file_block_count(inode);
}

/* The extents of a file (int64_t each), in order. All are made before the sample, so that a damaged
 * file is left out whole. */
static int make_extents(struct walk *w, const sqfs_inode_generic_t *inode, const struct blocks *b,
                        struct stk_buf *extents)
{
    uint64_t unit = w->super.block_size, off = b->start;
    for (uint64_t i = 0; i < b->count; i++) {
        uint32_t word = inode->extra[i];
        uint64_t left = b->size - i * unit;
        int64_t e = SQFS_IS_SPARSE_BLOCK(word)
                        ? hole_extent(w)
                        : block_extent(w, off, word, left < unit ? left : unit);
        if (e < 0)
            return (int)e;
        off += SQFS_ON_DISK_BLOCK_SIZE(word);
        stk_buf_put(extents, &e, sizeof e);
    }
    if (b->frag != NO_FRAGMENT && b->size % unit) {
        int64_t e = fragment_extent(w, b->frag, (uint64_t)b->frag_off + b->size % unit);
        if (e < 0)
            return (int)e;
        stk_buf_put(extents, &e, sizeof e);
    }
    if (!extents->len && !extents->fail) {
        if (w->empty < 0)
            w->empty = stk_list_extent(w->l, 0, 0, NULL, w->err);
        if (w->empty < 0)
            return (int)w->empty;
        stk_buf_put(extents, &w->empty, sizeof w->empty);
    }
    return stk_buf_check(extents, w->err);
}

static int list_parts(struct walk *w, const struct blocks *b, const struct stk_buf *extents)
{
    uint64_t unit = w->super.block_size;
    uint64_t n = extents->len / sizeof(int64_t);
    const char *key = (const char *)w->key.data;
    bool grouped = stk_list_opts(w->l)->grouped;
    int rc = grouped ? stk_grouper_member(&w->group, key, w->key.len, w->err)
                     : stk_list_sample(w->l, key, w->key.len, w->err);
    if (rc == 1)
        return stk_list_left_out(w->l, "file", stk_buf_cstr(&w->key), STK_GROUP_TWICE, w->err);
    for (uint64_t i = 0; rc == 0 && i < n; i++) {
        int64_t e;
        memcpy(&e, extents->data + i * sizeof e, sizeof e);
        uint64_t left = b->size - i * unit, len = left < unit ? left : unit;
        uint64_t off = i < b->count || !b->size ? 0 : b->frag_off;
        rc = grouped ? stk_grouper_part(&w->group, e, off, len, w->err)
                     : stk_list_part(w->l, w->field, e, off, len, w->err);
    }
    return rc;
}

/* Lists the file with its path in w->key. Reports damage and continues the walk. */
static int list_file(struct walk *w, const sqfs_inode_generic_t *inode)
{
    struct blocks b;
    struct stk_err why = {0}, *err = w->err;
    if (!file_blocks(w, inode, &b))
        return stk_list_problem(w->l, -1, err, "'%.*s': damaged inode", (int)w->key.len,
                                (const char *)w->key.data);
    struct stk_buf extents = STK_BUF_INIT;
    w->err = &why;
    int rc = make_extents(w, inode, &b, &extents);
    w->err = err;
    if (rc == 0)
        rc = list_parts(w, &b, &extents);
    else if (rc == STK_E_CORRUPT)
        rc = stk_list_problem(w->l, why.offset, err, "'%.*s': %s", (int)w->key.len,
                              (const char *)w->key.data, why.what);
    else if (err)
        *err = why;
    stk_buf_release(&extents);
    return rc;
}

/* ---- directories ---------------------------------------------------------------------------- */

static bool first_visit(struct walk *w, const sqfs_inode_generic_t *inode)
{
    uint32_t n = inode->base.inode_number;
    uint8_t bit = (uint8_t)(1u << n % 8);
    if (n > w->super.inode_count || w->seen[n / 8] & bit)
        return false;
    w->seen[n / 8] |= bit;
    return true;
}

/* Takes ownership of inode, also on error. */
static int push(struct walk *w, sqfs_inode_generic_t *inode, const char *path, size_t len)
{
    if (!first_visit(w, inode)) {
        sqfs_free(inode);
        return stk_list_problem(w->l, -1, w->err, "'%.*s': a directory that occurs twice", (int)len,
                                path);
    }
    bool room = STK_ARRAY_ROOM(w->todo, w->cap, w->ntodo + 1, w->err) == 0;
    char *copy = room ? strndup(path, len) : NULL;
    if (!copy) {
        sqfs_free(inode);
        return stk_err_nomem(w->err, len);
    }
    w->todo[w->ntodo++] = (struct pending){.inode = inode, .path = copy};
    return 0;
}

static int take_entry(struct walk *w, const char *dir, const sqfs_dir_entry_t *e)
{
    size_t name_len = (size_t)e->size + 1;
    stk_buf_reset(&w->key);
    if (*dir) {
        stk_buf_puts(&w->key, dir);
        stk_buf_putc(&w->key, '/');
    }
    stk_buf_put(&w->key, e->name, name_len);
    if (w->key.fail)
        return stk_buf_check(&w->key, w->err);
    const char *key = (const char *)w->key.data;
    if (memchr(e->name, '/', name_len) || !stk_key_is_safe_path(key, w->key.len))
        return stk_list_problem(w->l, -1, w->err, "'%.*s': not a name for a file", (int)w->key.len,
                                key);
    if (e->type != SQFS_INODE_FILE && e->type != SQFS_INODE_DIR)
        return stk_list_left_out(w->l, "file", stk_buf_cstr(&w->key),
                                 e->type == SQFS_INODE_SLINK ? "a symbolic link"
                                                             : "a device, a FIFO or a socket",
                                 w->err);
    sqfs_inode_generic_t *inode;
    int rc = sqfs_dir_reader_get_inode(w->dirs, &inode);
    if (rc != 0)
        return stk_list_problem(w->l, -1, w->err, "'%.*s': its inode cannot be read: %s",
                                (int)w->key.len, key, reason(rc));
    if (e->type == SQFS_INODE_DIR)
        return push(w, inode, key, w->key.len);
    rc = list_file(w, inode);
    sqfs_free(inode);
    return rc;
}

/* Lists files immediately; directories wait until this one is done. */
static int list_dir(struct walk *w, const struct pending *d)
{
    size_t before = w->ntodo;
    int rc = sqfs_dir_reader_open_dir(w->dirs, d->inode, 0);
    int own = 0;
    while (rc == 0 && own == 0) {
        sqfs_dir_entry_t *e = NULL;
        rc = sqfs_dir_reader_read(w->dirs, &e);
        if (rc != 0)
            break;
        if (w->entries_left-- == 0)
            own = stk_err_set(w->err, STK_E_CORRUPT, w->file_name, -1,
                              "more directory entries than an image of this size can have");
        else
            own = take_entry(w, d->path, e);
        sqfs_free(e);
        stk_list_alive(w->l);
    }
    if (own == 0 && rc < 0)
        own = stk_list_problem(w->l, -1, w->err, "directory '%s' cannot be read: %s", d->path,
                               reason(rc));
    /* The stack is walked from its end: reverse them to walk by name. */
    for (size_t i = before, j = w->ntodo; i + 1 < j; i++) {
        struct pending p = w->todo[i];
        w->todo[i] = w->todo[--j];
        w->todo[j] = p;
    }
    return own;
}

static int list_tree(struct walk *w)
{
    sqfs_inode_generic_t *root;
    int rc = sqfs_dir_reader_get_root_inode(w->dirs, &root);
    if (rc != 0)
        return failed(w, "the root directory cannot be read", rc);
    rc = push(w, root, "", 0);
    while (rc == 0 && w->ntodo) {
        struct pending d = w->todo[--w->ntodo];
        rc = list_dir(w, &d);
        sqfs_free(d.inode);
        free(d.path);
    }
    return rc;
}

static int list(struct stk_lister *l, struct stk_src *src, struct stk_err *err)
{
    struct walk w = {.l = l, .err = err, .file_name = stk_src_path(src), .empty = -1, .hole = -1};
    const struct stk_field_spec spec = {.name = "data", .kind = STK_BYTES};
    w.file_size = stk_src_size(src);
    stk_grouper_init(&w.group, l, false, STK_GROUP_EXTS);
    int rc = open_image(&w, src);
    if (rc == 0) {
        w.field = stk_list_field(l, &spec, err);
        rc = w.field < 0 ? w.field : list_tree(&w);
    }
    if (rc == 0)
        rc = stk_grouper_flush(&w.group, err);
    walk_release(&w);
    return rc;
}

#endif

const struct stk_format stk_format_squashfs = {
    .name = "squashfs",
    .title = "squashfs image",
    .holds = STK_HOLDS_SHAPES | STK_HOLDS_GAPS | STK_HOLDS_KEY,
    .suffix = ".sqsh",
    .suffixes = suffixes,
    .package = "libsquashfs-dev",
#ifdef STK_HAVE_SQUASHFS
    .caps = STK_CAN_READ | STK_CAN_WRITE | STK_CAN_SHARD | STK_CAN_COMPRESS | STK_CAN_DEFLATE |
            STK_CAN_OWN_FILE | STK_CAN_CRASH | STK_CAN_PATHS | STK_CAN_BE_ONE,
    .bid = bid,
    .list = list,
    .prepare = prepare,
    .encode = encode,
    .begin = begin,
    .append = append,
    .finish = finish,
    .abort = give_up,
#else
    .missing = true,
#endif
};
