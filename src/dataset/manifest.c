/* manifest.c - reading and writing manifest.json. */
#include "dataset/manifest.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json_fields.h"
#include "dataset/index.h"
#include "io/files.h"
#include "format/format.h"
#include "format/sample.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define MANIFEST_MAX (256u << 20)
#define VERSION      2 /* 1 had no checksum of itself */

static const struct {
    const char *name;
    int filter;
} compressions[] = {
    {"none", 0}, {"zstd", STK_FILTER_ZSTD}, {"lz4", STK_FILTER_LZ4F}, {"deflate", STK_FILTER_ZLIB}};
#define NCOMPRESSIONS (sizeof compressions / sizeof *compressions)

const char *stk_compress_name(int filter)
{
    for (size_t i = 1; i < NCOMPRESSIONS; i++)
        if (compressions[i].filter == filter)
            return compressions[i].name;
    return "";
}

int stk_compress_parse(const char *text, int *filter, int *level, struct stk_err *err)
{
    const char *colon = text ? strchr(text, ':') : NULL;
    size_t n = colon ? (size_t)(colon - text) : text ? strlen(text) : 0;
    *filter = *level = 0;
    if (!n)
        return 0;
    size_t i = 0;
    while (i < NCOMPRESSIONS &&
           (strlen(compressions[i].name) != n || memcmp(compressions[i].name, text, n) != 0))
        i++;
    char *end = NULL;
    long v = colon ? strtol(colon + 1, &end, 10) : 0;
    if (i == NCOMPRESSIONS || (colon && (*end || end == colon + 1 || v < 0 || v > 22)))
        return stk_err_set(err, STK_E_USAGE, NULL, -1,
                           "'%s' is not a compression: none, zstd, lz4 or deflate, with a level "
                           "as in zstd:3",
                           text);
    *filter = compressions[i].filter;
    *level = (int)v;
    return 0;
}

/* ---- its members ---- */

struct text {
    uint64_t version;
    const char *by, *compression;
    struct stk_manifest m;
};

static const struct stk_jfield file_fields[] = {
#define FILE_(type, name, member)                                                                  \
    {                                                                                              \
        STK_JFIELD(type, name, struct stk_manifest_file, member), .required = true                 \
    }
    FILE_(TEXT, "name", name),
    FILE_(UNSIGNED, "size_bytes", size),
    FILE_(UNSIGNED, "samples", samples),
    FILE_(HASH, "xxh64", xxh64),
#undef FILE_
    {0},
};

/* What is not required is missing in older manifests. */
static const struct stk_jfield fields[] = {
#define MANIFEST(type, name, member) STK_JFIELD(type, name, struct text, m.member)
    {STK_JFIELD(UNSIGNED, "stoker_manifest", struct text, version), .required = true},
    {STK_JFIELD(TEXT, "stoker_version", struct text, by)},
    {MANIFEST(TEXT, "format", format), .required = true},
    {MANIFEST(TEXT, "payload", payload), .required = true},
    {STK_JFIELD(TEXT, "compression", struct text, compression), .required = true},
    {MANIFEST(FLAG, "grouped", grouped)},
    {MANIFEST(TEXT, "columns", columns)},
    {MANIFEST(UNSIGNED, "samples", samples), .required = true},
    {MANIFEST(UNSIGNED, "size_bytes", bytes), .required = true},
    {MANIFEST(TEXT, "source", source)},
    {MANIFEST(TEXT, "plan", plan)},
    {MANIFEST(TEXT, "label_from", label_from)},
    {STK_JFIELD_LIST(STRUCT, "shards", struct text, m.shard, m.nshards), .required = true,
     .table = file_fields},
    {STK_JFIELD_LIST(STRUCT, "other_files", struct text, m.other, m.nother), .required = true,
     .table = file_fields},
    {MANIFEST(FLAG, "class_by_class", class_by_class)},
    {STK_JFIELD_LIST(TEXT, "classes", struct text, m.classes, m.nclasses), .required = true},
#undef MANIFEST
    {0},
};
static const char *const last_fields[] = {"settings", "xxh64"};

/* ---- writing ---- */

/* The last member: the checksum of all text before it. */
static void write_own_checksum(struct stk_jw *w, const struct stk_buf *text)
{
    char hash[20];
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)stk_hash64(text->data, text->len));
    stk_jw_put_str(w, "xxh64", hash);
}

static void write_json(struct stk_jw *w, const struct stk_manifest *m, const struct stk_buf *text)
{
    struct text t = {VERSION, STK_VERSION, stk_compress_name(m->compress), *m};
    const char **empty[] = {&t.m.payload, &t.m.columns, &t.m.source, &t.m.plan, &t.m.label_from};
    for (size_t i = 0; i < sizeof empty / sizeof *empty; i++)
        *empty[i] = *empty[i] ? *empty[i] : "";
    stk_jw_open(w, '{');
    stk_jfields_put(fields, &t, w);
    stk_jw_key(w, "settings");
    if (m->settings_json)
        stk_jw_raw(w, m->settings_json, strlen(m->settings_json));
    else
        stk_jw_null(w);
    write_own_checksum(w, text);
    stk_jw_close(w, '}');
}

int stk_manifest_write(int dirfd, const char *dir, const struct stk_manifest *m,
                       struct stk_err *err)
{
    struct stk_buf b = STK_BUF_INIT;
    struct stk_jw w;
    stk_jw_init(&w, &b, true);
    write_json(&w, m, &b);
    stk_buf_putc(&b, '\n');
    char *path = stk_path_join(dir, STK_MANIFEST_NAME);
    int rc = path ? stk_buf_check(&b, err) : stk_err_nomem(err, strlen(dir));
    if (rc == 0)
        rc = stk_write_file_at(dirfd, STK_MANIFEST_NAME, b.data, b.len, STK_SHARED, path, err);
    free(path);
    stk_buf_release(&b);
    return rc;
}

/* ---- reading ---- */

static int bad(const char *path, struct stk_err *err, const char *what)
{
    return stk_err_set(err, STK_E_CORRUPT, path, -1, "damaged manifest: %s", what);
}

/* True if a member is missing, as in an older manifest, and another is unknown, as in a newer one:
 * then a name is damaged, and what it says would be lost. */
static bool has_damaged_name(const struct stk_jval *root)
{
    size_t n = 0, known = 0;
    for (; fields[n].name; n++)
        known += stk_json_get(root, fields[n].name) != NULL;
    for (size_t i = 0; i < sizeof last_fields / sizeof *last_fields; i++, n++)
        known += stk_json_get(root, last_fields[i]) != NULL;
    return known < n && known < root->len;
}

/* A wrong byte in a name or a number would change the data in silence. */
static int check_itself(const struct stk_jval *root, const char *text, size_t len, const char *path,
                        struct stk_err *err)
{
    const struct stk_jval *version = stk_json_get(root, "stoker_manifest");
    const struct stk_jval *hash = stk_json_get(root, "xxh64");
    const char *comma = memrchr(text, ',', len);
    char own[20] = "";
    if (comma)
        snprintf(own, sizeof own, "%016llx",
                 (unsigned long long)stk_hash64(text, (size_t)(comma - text)));
    if (!version || version->type != STK_JINT || version->i < 0)
        return bad(path, err, "it does not say that it is one of stoker");
    hash = hash && hash->type == STK_JSTR ? hash : NULL;
    if (hash ? strcmp(hash->str, own) != 0 : version->i > 1)
        return bad(path, err, hash ? "it is not what pack wrote: its own checksum does not match"
                                   : "its own checksum is missing");
    if (version->i > VERSION)
        return stk_err_set(err, STK_E_UNSUPPORTED, path, -1,
                           "a manifest of version %lld, by a later stoker: this one knows 1 to %d",
                           (long long)version->i, VERSION);
    return 0;
}

static bool are_safe(const struct stk_manifest_file *f, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!stk_key_is_safe_path(f[i].name, strlen(f[i].name)))
            return false;
    return true;
}

static int from_json(struct stk_manifest *m, const struct stk_jval *root, const char *path,
                     struct stk_err *err)
{
    struct text t = {0};
    int level;
    if (has_damaged_name(root))
        return bad(path, err, "a member is missing, and another has an unknown name");
    int rc = stk_jfields_read(fields, root, path, &m->arena, &t, err);
    if (rc < 0)
        return stk_err_wrap(err, rc, "damaged manifest");
    if (stk_compress_parse(t.compression, &t.m.compress, &level, NULL) < 0)
        return bad(path, err, "a compression this stoker does not know");
    t.m.arena = m->arena;
    *m = t.m;
    return are_safe(m->shard, m->nshards) && are_safe(m->other, m->nother)
               ? 0
               : bad(path, err, "the name of a file leaves the folder");
}

/* *text: in the arena, values point into it. *st: its owner. 1; 0: there is no such file, or it can
 * be none of ours (a folder, a pipe, a file of that size). */
static int get_text(const struct stk_manifest_at *at, const char *path, struct stk_manifest *m,
                    const char **text, size_t *len, struct stat *st, struct stk_err *err)
{
    uint64_t size;
    struct stk_buf b = STK_BUF_INIT;
    int fd = stk_file_open_at(at->dirfd, at->outside, STK_MANIFEST_NAME, path, &size, err);
    int rc = stk_if_there(fd, err);
    if (rc == STK_E_UNSUPPORTED || (rc == 1 && size > MANIFEST_MAX))
        rc = 0;
    if (rc == 1 && fstat(fd, st) < 0)
        rc = stk_err_sys(err, path, "stat");
    if (rc == 1 && stk_read_fd(fd, MANIFEST_MAX, &b, path, err) < 0)
        rc = err->code;
    if (rc == 1 && !(*text = stk_arena_dup(&m->arena, b.data, b.len)))
        rc = stk_err_nomem(err, b.len);
    *len = b.len;
    if (fd >= 0)
        close(fd);
    stk_buf_release(&b);
    return rc;
}

/* A manifest has two of our names: a damaged byte does not make it another program's, nor does the
 * loss of its text beside our index. root: NULL: it is not JSON. */
static bool is_ours(const struct stk_manifest_at *at, const struct stk_jval *root, const char *text,
                    size_t len)
{
    static const char *const name[] = {"stoker_manifest", "stoker_version"};
    bool object = root && root->type == STK_JOBJ, found = false;
    for (size_t i = 0; i < sizeof name / sizeof *name; i++)
        found |= object ? stk_json_get(root, name[i]) != NULL
                        : !root && memmem(text, len, name[i], strlen(name[i]));
    struct stat st;
    return found || fstatat(at->dirfd, STK_INDEX_NAME, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static int read_text(const struct stk_manifest_at *at, const char *path, struct stk_manifest *m,
                     struct stk_err *err)
{
    struct stk_err why = {0};
    struct stk_jval *root = NULL;
    struct stat st;
    size_t len;
    const char *text = NULL;
    int rc = get_text(at, path, m, &text, &len, &st, &why);
    if (rc < 0 && err)
        *err = why;
    if (rc < 1)
        return rc;
    bool parsed = stk_json_parse(&m->arena, text, len, &root, &why) == 0;
    if (!is_ours(at, parsed ? root : NULL, text, len))
        return 0;
    rc = at->trust ? stk_trust_check(at->trust, &st, path, err) : 0;
    if (rc == 0 && !parsed)
        rc = stk_err_set(err, STK_E_CORRUPT, path, why.offset, "damaged manifest: %s", why.what);
    if (rc == 0 && root->type != STK_JOBJ)
        rc = bad(path, err, "no object");
    if (rc == 0)
        rc = check_itself(root, text, len, path, err);
    if (rc == 0)
        rc = from_json(m, root, path, err);
    return rc < 0 ? rc : 1;
}

int stk_manifest_read_at(const struct stk_manifest_at *at, struct stk_manifest *m,
                         struct stk_err *err)
{
    *m = (struct stk_manifest){0};
    char *path = stk_path_join(at->dir, STK_MANIFEST_NAME);
    int rc = path ? read_text(at, path, m, err) : stk_err_nomem(err, strlen(at->dir));
    if (rc != 1)
        stk_manifest_release(m);
    free(path);
    return rc;
}

/* 1 if pack wrote the folder's index (that of a file named `index` is of no packed dataset). An index
 * that cannot be read may be one. */
static int was_packed(const struct stk_manifest_at *at, const char *path, struct stk_err *err)
{
    struct stk_index_header h = {0};
    struct stat st;
    size_t got = 0;
    int fd, there = stk_if_there(
                stk_read_open(at->dirfd, STK_INDEX_NAME, O_NOFOLLOW, &fd, &st, path, err), err);
    if (there != 1)
        return there == STK_E_UNSUPPORTED ? 0 : there; /* a folder, a pipe, a link: none of ours */
    int rc = stk_pread_full(fd, &h, sizeof h, 0, &got, path, err);
    close(fd);
    return rc < 0 ? rc
                  : got == sizeof h && h.header_hash == stk_index_header_hash(&h) && h.data_id != 0;
}

int stk_manifest_missing(const struct stk_manifest_at *at, struct stk_err *err)
{
    struct stk_err why = {0};
    char *index = stk_path_join(at->dir, STK_INDEX_NAME);
    char *path = stk_path_join(at->dir, STK_MANIFEST_NAME);
    int rc = index && path ? was_packed(at, index, &why) : stk_err_nomem(&why, strlen(at->dir));
    if (rc == 1)
        rc = stk_err_set(&why, STK_E_CORRUPT, path, -1,
                         "the manifest of this packed dataset is missing, or is not a file (a link "
                         "that leads elsewhere needs --follow-links)");
    if (rc < 0 && err)
        *err = why;
    free(index);
    free(path);
    return rc;
}

int stk_manifest_read(const char *dir, struct stk_manifest *m, struct stk_err *err)
{
    struct stk_manifest_at at = {.outside = true, .dir = dir};
    *m = (struct stk_manifest){0};
    at.dirfd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (at.dirfd < 0)
        return stk_is_absent(errno) ? 0 : stk_err_sys(err, dir, "open folder");
    int rc = stk_manifest_read_at(&at, m, err);
    close(at.dirfd);
    return rc;
}

uint64_t stk_manifest_id(const struct stk_manifest_file *shard, size_t n)
{
    struct stk_hash h;
    stk_hash_init(&h);
    for (size_t i = 0; i < n; i++) {
        uint64_t x[2] = {shard[i].size, shard[i].xxh64};
        stk_hash_update(&h, shard[i].name, strlen(shard[i].name) + 1);
        stk_hash_update(&h, x, sizeof x);
    }
    uint64_t id = stk_hash_final(&h);
    return id ? id : 1;
}

void stk_manifest_release(struct stk_manifest *m)
{
    stk_arena_release(&m->arena);
    *m = (struct stk_manifest){0};
}
