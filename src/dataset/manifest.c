/* manifest.c - reading and writing manifest.json. */
#include "dataset/manifest.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
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

/* ---- writing ---- */

static void write_files(struct stk_jw *w, const char *key, const struct stk_manifest_file *f,
                        size_t n)
{
    char hash[20];
    stk_jw_key(w, key);
    stk_jw_open(w, '[');
    for (size_t i = 0; i < n; i++) {
        snprintf(hash, sizeof hash, "%016llx", (unsigned long long)f[i].xxh64);
        stk_jw_open(w, '{');
        stk_jw_put_str(w, "name", f[i].name);
        stk_jw_put_u64(w, "size_bytes", f[i].size);
        stk_jw_put_u64(w, "samples", f[i].samples);
        stk_jw_put_str(w, "xxh64", hash);
        stk_jw_close(w, '}');
    }
    stk_jw_close(w, ']');
}

/* The last member: the checksum of all text before it. */
static void write_own_checksum(struct stk_jw *w, const struct stk_buf *text)
{
    char hash[20];
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)stk_hash64(text->data, text->len));
    stk_jw_put_str(w, "xxh64", hash);
}

static void write_json(struct stk_jw *w, const struct stk_manifest *m, const struct stk_buf *text)
{
    stk_jw_open(w, '{');
    stk_jw_put_u64(w, "stoker_manifest", VERSION);
    stk_jw_put_str(w, "stoker_version", STK_VERSION);
    stk_jw_put_str(w, "format", m->format);
    stk_jw_put_str(w, "payload", m->payload ? m->payload : "");
    stk_jw_put_str(w, "compression", stk_compress_name(m->compress));
    stk_jw_put_bool(w, "grouped", m->grouped);
    stk_jw_put_str(w, "columns", m->columns ? m->columns : "");
    stk_jw_put_u64(w, "samples", m->samples);
    stk_jw_put_u64(w, "size_bytes", m->bytes);
    stk_jw_put_str(w, "source", m->source ? m->source : "");
    stk_jw_put_str(w, "plan", m->plan ? m->plan : "");
    stk_jw_put_str(w, "label_from", m->label_from ? m->label_from : "");
    write_files(w, "shards", m->shard, m->nshards);
    write_files(w, "other_files", m->other, m->nother);
    stk_jw_put_bool(w, "class_by_class", m->class_by_class);
    stk_jw_put_strs(w, "classes", m->classes, m->nclasses);
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

static const char *get_str(const struct stk_jval *obj, const char *name)
{
    const struct stk_jval *v = stk_json_get(obj, name);
    return v && v->type == STK_JSTR && strlen(v->str) == v->len ? v->str : NULL;
}

static bool get_u64(const struct stk_jval *obj, const char *name, uint64_t *out)
{
    const struct stk_jval *v = stk_json_get(obj, name);
    if (!v || v->type != STK_JINT || v->i < 0)
        return false;
    *out = (uint64_t)v->i;
    return true;
}

static bool get_file(const struct stk_jval *v, struct stk_manifest_file *f)
{
    const char *hash = get_str(v, "xxh64");
    char *end = NULL;
    f->name = get_str(v, "name");
    if (!f->name || !hash || strlen(hash) != 16 || !stk_key_is_safe_path(f->name, strlen(f->name)))
        return false;
    f->xxh64 = strtoull(hash, &end, 16);
    return !*end && get_u64(v, "size_bytes", &f->size) && get_u64(v, "samples", &f->samples);
}

static int get_files(struct stk_manifest *m, const struct stk_jval *root, const char *key,
                     struct stk_manifest_file **out, size_t *n, const char *path,
                     struct stk_err *err)
{
    const struct stk_jval *v = stk_json_get(root, key);
    if (!v || v->type != STK_JARR)
        return bad(path, err, "no list of files");
    *n = v->len;
    *out = stk_arena_alloc(&m->arena, v->len * sizeof **out);
    if (!*out)
        return stk_err_nomem(err, v->len * sizeof **out);
    for (size_t i = 0; i < v->len; i++)
        if (!get_file(&v->item[i], &(*out)[i]))
            return bad(path, err, "a file's entry is incomplete, or its name leaves the folder");
    return 0;
}

/* False if missing, as in an older manifest. */
static bool get_bool(const struct stk_jval *root, const char *name)
{
    const struct stk_jval *v = stk_json_get(root, name);
    return v && v->type == STK_JBOOL && v->b;
}

static int get_classes(struct stk_manifest *m, const struct stk_jval *root, const char *path,
                       struct stk_err *err)
{
    const struct stk_jval *v = stk_json_get(root, "classes");
    if (!v || v->type != STK_JARR)
        return bad(path, err, "no list of classes");
    m->nclasses = v->len;
    m->classes = stk_arena_alloc(&m->arena, v->len * sizeof *m->classes);
    if (!m->classes)
        return stk_err_nomem(err, v->len * sizeof *m->classes);
    for (size_t i = 0; i < v->len; i++) {
        if (v->item[i].type != STK_JSTR)
            return bad(path, err, "a class that is not text");
        m->classes[i] = v->item[i].str;
    }
    return 0;
}

/* True if a member is missing, as in an older manifest, and another is unknown, as in a newer one:
 * then a name is damaged, and what it says would be lost. */
static bool has_damaged_name(const struct stk_jval *root)
{
    static const char *const names[] = {
        "stoker_manifest", "stoker_version", "format",      "payload",        "compression",
        "grouped",         "columns",        "samples",     "size_bytes",     "source",
        "plan",            "label_from",     "shards",      "other_files",    "class_by_class",
        "classes",         "settings",       "xxh64"};
    const size_t n = sizeof names / sizeof *names;
    size_t known = 0;
    for (size_t i = 0; i < n; i++)
        known += stk_json_get(root, names[i]) != NULL;
    return known < n && known < root->len;
}

/* A wrong byte in a name or a number would change the data in silence. */
static int check_itself(const struct stk_jval *root, const char *text, size_t len, const char *path,
                        struct stk_err *err)
{
    uint64_t version = 0;
    const char *hash = get_str(root, "xxh64"), *comma = memrchr(text, ',', len);
    char own[20] = "";
    if (comma)
        snprintf(own, sizeof own, "%016llx",
                 (unsigned long long)stk_hash64(text, (size_t)(comma - text)));
    if (!get_u64(root, "stoker_manifest", &version))
        return bad(path, err, "it does not say that it is one of stoker");
    if (hash ? strcmp(hash, own) != 0 : version > 1)
        return bad(path, err, hash ? "it is not what pack wrote: its own checksum does not match"
                                   : "its own checksum is missing");
    if (version > VERSION)
        return stk_err_set(err, STK_E_UNSUPPORTED, path, -1,
                           "a manifest of version %llu, by a later stoker: this one knows 1 to %d",
                           (unsigned long long)version, VERSION);
    return 0;
}

static int from_json(struct stk_manifest *m, const struct stk_jval *root, const char *path,
                     struct stk_err *err)
{
    const char *compression = get_str(root, "compression");
    int level;
    m->grouped = get_bool(root, "grouped");
    m->class_by_class = get_bool(root, "class_by_class");
    m->format = get_str(root, "format");
    m->payload = get_str(root, "payload");
    m->source = get_str(root, "source");
    m->label_from = get_str(root, "label_from");
    m->columns = get_str(root, "columns");
    m->plan = get_str(root, "plan");
    if (has_damaged_name(root))
        return bad(path, err, "a member is missing, and another has an unknown name");
    if (!m->format || !m->payload || !compression || !get_u64(root, "samples", &m->samples) ||
        !get_u64(root, "size_bytes", &m->bytes))
        return bad(path, err, "format, payload, compression or counts are missing");
    if (stk_compress_parse(compression, &m->compress, &level, NULL) < 0)
        return bad(path, err, "a compression this stoker does not know");
    int rc = get_files(m, root, "shards", &m->shard, &m->nshards, path, err);
    if (rc == 0)
        rc = get_files(m, root, "other_files", &m->other, &m->nother, path, err);
    return rc < 0 ? rc : get_classes(m, root, path, err);
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
