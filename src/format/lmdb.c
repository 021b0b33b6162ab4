/*
 * lmdb.c - LMDB: one B+tree in one file, key to value. Listing asks liblmdb (in a child process,
 * because it trusts the file) where each value is; values are then read without it. Writing inserts
 * samples by key, so a reader gets them in key order.
 */
#include "format_code.h"
#include "format/format.h"

static const char *const suffixes[] = {".mdb", ".lmdb", NULL};
static const char *const side[] = {"lock.mdb", "*-lock", NULL};

#ifdef STK_HAVE_LMDB

#include <errno.h>
#include <fcntl.h>
#include <lmdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/own.h"
#include "format/jail.h"
#include "format/codec/codec.h"
#include "format/sample.h"

#define KEY_MAX       511  /* liblmdb's compile-time default */
#define NAMED_LOOK_AT 64   /* entries checked for being named databases */
#define LOOK_AT       64   /* entries examined, at most, to detect the payload */
#define NAMED_SIZE    48   /* bytes of the record that describes one */
#define BATCH_PUTS    4096 /* entries per transaction: each may dirty a few pages, kept in memory */
#define BATCH_BYTES   ((size_t)32 << 20)
#define MAP_SLACK     ((size_t)256 << 20) /* more than the pages such a batch can dirty */

/* ---- recognising: the two meta pages ------------------------------------------------------- */

#define META_MAGIC   16 /* u32 0xBEEFC0DE, then u32 version */
#define META_PSIZE   40 /* u32; shares the place of the free list's flags */
#define META_LAST_PG 136
#define META_TXN     144
#define META_LEN     152

static bool known_version(const uint8_t *version)
{
    return stk_le32(version) == 1 || stk_le32(version) == 999;
}

static bool is_meta(const uint8_t *p, size_t n)
{
    return n >= META_LEN && stk_le32(p + META_MAGIC) == 0xbeefc0deu &&
           known_version(p + META_MAGIC + 4);
}

/* The kind of an LMDB file that this liblmdb cannot read; NULL: none. The page header has 16 bytes
 * here, 12 on a 32-bit machine, and 24 in data version 2. */
static const char *foreign_meta(const uint8_t *p, size_t n)
{
    static const uint8_t big[] = {0xbe, 0xef, 0xc0, 0xde}, little[] = {0xde, 0xc0, 0xef, 0xbe};
    for (size_t at = 12; at <= 24 && at + 8 <= n; at += 4) {
        if (memcmp(p + at, big, 4) == 0)
            return "an LMDB file of a big-endian machine";
        if (memcmp(p + at, little, 4) == 0 && at == META_MAGIC && known_version(p + at + 4))
            return NULL; /* readable, though it may be truncated */
        if (memcmp(p + at, little, 4) == 0)
            return at == 12 ? "an LMDB file of a 32-bit machine"
                            : "an LMDB file of a newer data version (LMDB 1.0, lmdb-js)";
    }
    return NULL;
}

static int bid(const struct stk_probe *p)
{
    return is_meta(p->head, p->head_len) || foreign_meta(p->head, p->head_len) ? 99 : 0;
}

/* Reports a file that ends before its tree does: liblmdb would crash on it. */
static int check_size(struct stk_src *src, struct stk_err *err)
{
    const uint8_t *p;
    size_t got;
    int rc = stk_src_peek(src, 0, META_LEN, &p, &got, err);
    if (rc < 0)
        return rc;
    const char *path = stk_src_path(src), *foreign = foreign_meta(p, got);
    if (foreign)
        return stk_err_set(err, STK_E_UNSUPPORTED, path, 0,
                           "%s, which liblmdb 0.9 does not read: convert it with mdb_dump there "
                           "and mdb_load here",
                           foreign);
    if (!is_meta(p, got))
        return stk_err_set(err, STK_E_CORRUPT, path, 0, "not an LMDB data file");
    uint64_t psize = stk_le32(p + META_PSIZE), last = stk_le64(p + META_LAST_PG);
    uint64_t txn = stk_le64(p + META_TXN), need;
    if (psize < 256 || psize > 65536 || psize & (psize - 1))
        return stk_err_set(err, STK_E_CORRUPT, path, META_PSIZE, "a page size of %llu",
                           (unsigned long long)psize);
    rc = stk_src_peek(src, psize, META_LEN, &p, &got, err);
    if (rc < 0)
        return rc;
    if (!is_meta(p, got))
        return stk_err_set(err, STK_E_CORRUPT, path, (int64_t)psize, "damaged second meta page");
    if (stk_le64(p + META_TXN) > txn)
        last = stk_le64(p + META_LAST_PG);
    if (__builtin_add_overflow(last, 1, &need) || __builtin_mul_overflow(need, psize, &need) ||
        need > stk_src_size(src))
        return stk_err_set(err, STK_E_CORRUPT, path, (int64_t)stk_src_size(src),
                           "truncated: the tree has %llu pages of %llu bytes, the file ends before",
                           (unsigned long long)last + 1, (unsigned long long)psize);
    return 0;
}

/* ---- listing ------------------------------------------------------------------------------- */

struct walk {
    struct stk_lister *l;
    struct stk_src *src;
    struct stk_err *err;
    const char *path;
    MDB_env *env;
    MDB_txn *txn;
    MDB_dbi dbi;
    unsigned flags;     /* of the database */
    const uint8_t *map; /* address of byte 0 of the file; NULL until needed */
    int field;
};

static int failed(const char *path, const char *what, int code, struct stk_err *err)
{
    if (code > 0) {
        errno = code;
        return stk_err_sys(err, path, "%s", what);
    }
    int own = code == MDB_VERSION_MISMATCH || code == MDB_INCOMPATIBLE ? STK_E_UNSUPPORTED
                                                                       : STK_E_CORRUPT;
    return stk_err_set(err, own, path, -1, "%s: %s", what, mdb_strerror(code));
}

static int open_env(struct walk *w)
{
    int rc = mdb_env_create(&w->env);
    if (rc == 0)
        rc = mdb_env_set_maxdbs(w->env, NAMED_LOOK_AT + 1);
    /* The map a writer requested may be a terabyte; the file's size is enough. */
    if (rc == 0)
        rc = mdb_env_set_mapsize(w->env, (size_t)stk_src_size(w->src));
    if (rc == 0)
        rc = mdb_env_open(w->env, stk_src_library_path(w->src),
                          MDB_NOSUBDIR | MDB_RDONLY | MDB_NOLOCK | MDB_NOTLS, 0);
    if (rc == 0)
        rc = mdb_txn_begin(w->env, NULL, MDB_RDONLY, &w->txn);
    if (rc == 0)
        rc = mdb_dbi_open(w->txn, NULL, 0, &w->dbi);
    if (rc == 0)
        rc = mdb_dbi_flags(w->txn, w->dbi, &w->flags);
    return rc == 0 ? 0 : failed(w->path, "liblmdb cannot open it", rc, w->err);
}

/* True when an entry of the main database describes a named one; *dbi is then open. */
static bool is_named(struct walk *w, const MDB_val *key, const MDB_val *data, MDB_dbi *dbi)
{
    char name[KEY_MAX + 1];
    if (data->mv_size != NAMED_SIZE || key->mv_size > KEY_MAX || !key->mv_size ||
        memchr(key->mv_data, 0, key->mv_size))
        return false;
    memcpy(name, key->mv_data, key->mv_size);
    name[key->mv_size] = '\0';
    return mdb_dbi_open(w->txn, name, 0, dbi) == 0;
}

/* A file of named databases: takes the only one; with several, it is not clear which is the
 * dataset. */
static int choose_database(struct walk *w)
{
    MDB_cursor *cur;
    MDB_val key, data;
    MDB_dbi dbi, found = 0;
    char names[256] = "";
    size_t named = 0, plain = 0, used = 0;
    int rc = mdb_cursor_open(w->txn, w->dbi, &cur);
    if (rc != 0)
        return failed(w->path, "liblmdb cannot read it", rc, w->err);
    rc = mdb_cursor_get(cur, &key, &data, MDB_FIRST);
    for (; rc == 0 && named + plain < NAMED_LOOK_AT;
         rc = mdb_cursor_get(cur, &key, &data, MDB_NEXT)) {
        if (!is_named(w, &key, &data, &dbi)) {
            plain++;
            continue;
        }
        named++;
        found = dbi;
        if (used < sizeof names)
            used += (size_t)snprintf(names + used, sizeof names - used, "%s%.*s", used ? ", " : "",
                                     (int)key.mv_size, (const char *)key.mv_data);
    }
    mdb_cursor_close(cur);
    if (rc != 0 && rc != MDB_NOTFOUND)
        return failed(w->path, "liblmdb cannot read it", rc, w->err);
    if (!named)
        return 0;
    if (named > 1 || plain)
        return stk_err_set(w->err, STK_E_UNSUPPORTED, w->path, -1,
                           "it holds named databases (%s)%s: which is the dataset cannot be told",
                           names, plain ? " beside other entries" : "");
    w->dbi = found;
    rc = mdb_dbi_flags(w->txn, w->dbi, &w->flags);
    return rc == 0 ? 0 : failed(w->path, "liblmdb cannot read it", rc, w->err);
}

/* Records of ImageFolder2LMDB and similar tools with the number and names of entries. */
static bool is_metadata(const MDB_val *key)
{
    return (key->mv_size == 7 && memcmp(key->mv_data, "__len__", 7) == 0) ||
           (key->mv_size == 8 && memcmp(key->mv_data, "__keys__", 8) == 0);
}

/* liblmdb does not say where it mapped the file (me_mapaddr is for another kind of map): the kernel
 * does, for an address in it. */
static int find_map(struct walk *w, const void *inside)
{
    FILE *f = fopen("/proc/self/maps", "re");
    char line[4096 + 128];
    if (!f)
        return stk_err_sys(w->err, "/proc/self/maps", "open");
    while (!w->map && fgets(line, sizeof line, f)) {
        unsigned long from, to, off;
        if (sscanf(line, "%lx-%lx %*s %lx", &from, &to, &off) == 3 && (uintptr_t)inside >= from &&
            (uintptr_t)inside < to)
            w->map = (const uint8_t *)(from - off);
    }
    fclose(f);
    return w->map ? 0
                  : stk_err_set(w->err, STK_E_CORRUPT, w->path, -1,
                                "liblmdb gave a value that is not in the file: it is damaged");
}

/* The offset of a value in the file. 1: found; 0: outside of it; negative: unknown. */
static int value_place(struct walk *w, const MDB_val *data, uint64_t *off)
{
    const uint8_t *p = data->mv_data;
    int rc = w->map ? 0 : find_map(w, p);
    if (rc < 0)
        return rc;
    uint64_t size = stk_src_size(w->src);
    *off = (uint64_t)(p - w->map);
    return p >= w->map && *off <= size && data->mv_size <= size - *off;
}

/* Offers the first values for payload detection. */
static int look(void *user, struct stk_payload_guess *g, struct stk_err *err)
{
    struct walk *w = user;
    MDB_cursor *cur;
    MDB_val key, data;
    size_t seen = 0, looked = 0;
    int rc = mdb_cursor_open(w->txn, w->dbi, &cur);
    if (rc != 0)
        return failed(w->path, "liblmdb cannot read it", rc, err);
    rc = mdb_cursor_get(cur, &key, &data, MDB_FIRST);
    for (; rc == 0 && looked < LOOK_AT && g->looked < STK_PAYLOAD_RECORDS && seen < STK_PEEK_MAX;
         rc = mdb_cursor_get(cur, &key, &data, MDB_NEXT), looked++) {
        uint64_t off;
        if (is_metadata(&key) || value_place(w, &data, &off) != 1)
            continue;
        size_t n = data.mv_size < STK_PEEK_MAX ? data.mv_size : STK_PEEK_MAX;
        stk_payload_look(g, data.mv_data, n, data.mv_size, false);
        seen += n;
    }
    mdb_cursor_close(cur);
    return 0;
}

/* Keys of MDB_INTEGERKEY databases are machine words; in decimal they can be read and written. */
static size_t key_text(const struct walk *w, const MDB_val *key, char text[32], const char **p)
{
    *p = key->mv_data;
    if (!(w->flags & MDB_INTEGERKEY) || (key->mv_size != 4 && key->mv_size != 8))
        return key->mv_size;
    uint64_t v = key->mv_size == 4 ? stk_le32(key->mv_data) : stk_le64(key->mv_data);
    *p = text;
    return (size_t)snprintf(text, 32, "%llu", (unsigned long long)v);
}

static int list_entry(struct walk *w, const MDB_val *key, const MDB_val *data)
{
    uint64_t off;
    int rc = value_place(w, data, &off);
    if (rc < 0)
        return rc;
    if (rc == 0)
        return stk_list_problem(w->l, -1, w->err,
                                "damaged: an entry's value of %zu bytes is outside of the file",
                                data->mv_size);
    if (w->field < 0 && (w->field = stk_payload_field(w->l, "example", look, w, w->err)) < 0)
        return w->field;
    const struct stk_chain chain = {.nsteps = 1,
                                    .step[0].id = (uint16_t)stk_list_opts(w->l)->compress};
    char number[32];
    const char *text;
    size_t len = key_text(w, key, number, &text);
    return stk_list_record_filtered(w->l, w->field, off, data->mv_size,
                                    chain.step[0].id ? &chain : NULL, text, len, w->err);
}

/* `entries`: the count in the tree; a damaged tree may be cyclic. */
static int walk_entries(struct walk *w, MDB_cursor *cur, size_t entries)
{
    MDB_val key, data;
    uint64_t listed = 0, skipped = 0;
    int own = 0, rc = mdb_cursor_get(cur, &key, &data, MDB_FIRST);
    while (rc == 0 && own == 0 && listed + skipped < entries) {
        if (is_metadata(&key))
            skipped++;
        else if ((own = list_entry(w, &key, &data)) == 0)
            listed++;
        rc = mdb_cursor_get(cur, &key, &data, MDB_NEXT);
    }
    if (own < 0)
        return own;
    if (rc != 0 && rc != MDB_NOTFOUND)
        return stk_list_problem(w->l, -1, w->err, "damaged after %llu entries: %s",
                                (unsigned long long)listed, mdb_strerror(rc));
    if (rc == 0 || listed + skipped != entries)
        return stk_list_problem(w->l, -1, w->err,
                                "damaged: it says %zu entries, %s than that are there", entries,
                                rc == 0 ? "more" : "fewer");
    return 0;
}

static int list_entries(struct walk *w)
{
    MDB_cursor *cur;
    MDB_stat st;
    int rc = mdb_stat(w->txn, w->dbi, &st);
    if (rc == 0)
        rc = mdb_cursor_open(w->txn, w->dbi, &cur);
    if (rc != 0)
        return failed(w->path, "liblmdb cannot read it", rc, w->err);
    /* Pages that point to the same pages make an endless walk through a small file. */
    if (st.ms_entries > stk_src_size(w->src))
        rc = stk_list_problem(w->l, -1, w->err,
                              "damaged: it claims %zu entries, more than it has "
                              "bytes",
                              st.ms_entries);
    else
        rc = walk_entries(w, cur, st.ms_entries);
    mdb_cursor_close(cur);
    return rc;
}

static int list(struct stk_lister *l, struct stk_src *src, struct stk_err *err)
{
    struct walk w = {.l = l, .src = src, .err = err, .path = stk_src_path(src), .field = -1};
    int rc = stk_src_size(src) ? check_size(src, err) : 0;
    if (rc == 0 && stk_src_size(src) == 0)
        rc = stk_err_set(err, STK_E_CORRUPT, w.path, 0, "empty file: not an LMDB data file");
    if (rc == 0)
        rc = open_env(&w);
    if (rc == 0)
        rc = choose_database(&w);
    if (rc == 0)
        rc = list_entries(&w);
    if (w.txn)
        mdb_txn_abort(w.txn);
    if (w.env)
        mdb_env_close(w.env);
    return rc;
}

/* ---- writing ------------------------------------------------------------------------------- */

/* encode writes u32 length of the key, u32 length of the value, key, value: workers encode, append
 * only inserts. */
#define NOTE 8

static int prepare(struct stk_write_config *cfg, struct stk_err *err)
{
    struct stk_buf b = STK_BUF_INIT;
    int rc = cfg->first && cfg->codec ? cfg->codec->implode(cfg->first, &b, err) : 0;
    stk_buf_release(&b);
    return rc;
}

static int check_key(const struct stk_sample *s, struct stk_err *err)
{
    if (s->key_len && s->key_len <= KEY_MAX)
        return 0;
    return stk_err_set(
        err, STK_E_UNSUPPORTED, NULL, -1,
        "a key of %zu bytes: LMDB takes 1 to %d; --keys number gives every sample one", s->key_len,
        KEY_MAX);
}

static int encode(const struct stk_write_config *cfg, const struct stk_sample *s,
                  struct stk_buf *out, struct stk_err *err)
{
    int rc = check_key(s, err);
    if (rc < 0)
        return rc;
    size_t note = out->len, value;
    stk_buf_extend(out, NOTE);
    stk_buf_put(out, s->key, s->key_len);
    value = out->len;
    if (s->record && s->record_codec == cfg->codec)
        stk_buf_put(out, s->record, s->record_len);
    else
        rc = cfg->codec->implode(s, out, err);
    if (rc == 0 && cfg->compress && !out->fail) {
        struct stk_buf packed = STK_BUF_INIT;
        rc = stk_filter_encode((enum stk_filter_id)cfg->compress, cfg->level, out->data + value,
                               out->len - value, &packed, err);
        out->len = value;
        stk_buf_put(out, packed.data, packed.len);
        stk_buf_release(&packed);
    }
    if (rc == 0)
        rc = stk_buf_check(out, err);
    if (rc == 0 && out->len - value > INT32_MAX)
        rc = stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                         "a sample of %zu bytes: LMDB takes up to 2 GiB", out->len - value);
    if (rc == 0) {
        stk_put_le32(out->data + note, (uint32_t)s->key_len);
        stk_put_le32(out->data + note + 4, (uint32_t)(out->len - value));
    }
    return rc;
}

/* One file being written. */
struct writer {
    MDB_env *env;
    MDB_txn *txn; /* NULL between batches */
    MDB_dbi dbi;
    size_t puts, bytes; /* in this transaction */
    bool unsorted;      /* a key came after a greater one */
    size_t last_len;    /* of the greatest key so far */
    uint8_t last[KEY_MAX];
};

static void writer_free(struct writer *w)
{
    if (w->txn)
        mdb_txn_abort(w->txn);
    if (w->env)
        mdb_env_close(w->env);
    free(w);
}

static int begin(const struct stk_write_config *cfg, struct stk_out *o, struct stk_err *err)
{
    (void)cfg;
    const char *path = stk_out_path(o);
    char at[STK_FD_PATH];
    struct writer *w = calloc(1, sizeof *w);
    if (!w)
        return stk_err_nomem(err, sizeof *w);
    int rc = mdb_env_create(&w->env);
    if (rc == 0)
        rc = mdb_env_set_mapsize(w->env, MAP_SLACK);
    /* Not synced here: publishing the file does that once. No other process has it open. */
    if (rc == 0)
        rc = mdb_env_open(w->env, stk_fd_path(o->dirfd, o->name, at),
                          MDB_NOSUBDIR | MDB_NOLOCK | MDB_NOSYNC | MDB_NOTLS, 0666);
    if (rc != 0) {
        writer_free(w);
        return failed(path, "liblmdb cannot create it", rc, err);
    }
    *stk_out_state(o) = w;
    return 0;
}

/* Doubles the map until the next batch fits, whatever pages it dirties. */
static int ensure_map(struct writer *w, size_t value)
{
    MDB_envinfo info;
    MDB_stat st;
    int rc = mdb_env_info(w->env, &info);
    if (rc == 0)
        rc = mdb_env_stat(w->env, &st);
    if (rc != 0)
        return rc;
    size_t used = (info.me_last_pgno + 1) * st.ms_psize, map = info.me_mapsize;
    size_t need = used + (value > BATCH_BYTES ? value : BATCH_BYTES) + MAP_SLACK / 2;
    if (need <= map)
        return 0;
    while (map < need)
        map *= 2;
    return mdb_env_set_mapsize(w->env, map);
}

static int start_batch(struct writer *w, size_t value)
{
    int rc = ensure_map(w, value);
    if (rc == 0)
        rc = mdb_txn_begin(w->env, NULL, 0, &w->txn);
    if (rc == 0)
        rc = mdb_dbi_open(w->txn, NULL, 0, &w->dbi);
    w->puts = w->bytes = 0;
    return rc;
}

static int end_batch(struct writer *w)
{
    MDB_txn *txn = w->txn;
    w->txn = NULL;
    return txn ? mdb_txn_commit(txn) : 0;
}

/* LMDB's order of keys. */
static bool key_after(const struct writer *w, const uint8_t *key, size_t len)
{
    size_t n = len < w->last_len ? len : w->last_len;
    int d = n ? memcmp(key, w->last, n) : 0;
    return d > 0 || (d == 0 && len > w->last_len);
}

static int put(struct writer *w, const uint8_t *key, size_t key_len, const uint8_t *p, size_t n)
{
    int rc = 0;
    if (w->txn && (w->puts == BATCH_PUTS || w->bytes + n > BATCH_BYTES))
        rc = end_batch(w);
    if (rc == 0 && !w->txn)
        rc = start_batch(w, n);
    if (rc != 0)
        return rc;
    /* In ascending order pages are filled completely, not split in half. */
    bool after = key_after(w, key, key_len);
    MDB_val k = {key_len, (void *)(uintptr_t)key}, v = {n, (void *)(uintptr_t)p};
    rc = mdb_put(w->txn, w->dbi, &k, &v, after ? MDB_APPEND : MDB_NOOVERWRITE);
    w->puts++;
    w->bytes += n;
    if (after) {
        memcpy(w->last, key, key_len);
        w->last_len = key_len;
    } else {
        w->unsorted = true;
    }
    return rc;
}

/* liblmdb reports any short write as an I/O error. The file is lost anyway: writing at its end
 * shows whether the disk is full or the quota is used up. */
static int write_failed(const struct stk_out *o, int code, struct stk_err *err)
{
    static const uint8_t zeros[64 << 10];
    const int flags = O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC;
    int fd = code == EIO ? openat(o->dirfd, o->name, flags) : -1;
    for (size_t done = 0; fd >= 0 && code == EIO && done < 2 * BATCH_BYTES; done += sizeof zeros)
        if (write(fd, zeros, sizeof zeros) < 0)
            code = errno;
    if (fd >= 0)
        close(fd);
    return failed(stk_out_path(o), "write (liblmdb)", code, err);
}

static int append(const struct stk_write_config *cfg, struct stk_out *o, const uint8_t *bytes,
                  size_t len, uint64_t nsamples, struct stk_err *err)
{
    (void)cfg, (void)nsamples;
    struct writer *w = *stk_out_state(o);
    while (len > NOTE) {
        size_t key_len = stk_le32(bytes), n = stk_le32(bytes + 4);
        const uint8_t *key = bytes + NOTE;
        int rc = put(w, key, key_len, key + key_len, n);
        if (rc == MDB_KEYEXIST)
            return stk_err_set(err, STK_E_UNSUPPORTED, stk_out_path(o), -1,
                               "two samples have the key '%.*s': LMDB holds one of each; "
                               "--keys number gives every sample its own",
                               (int)key_len, (const char *)key);
        if (rc != 0)
            return write_failed(o, rc, err);
        bytes += NOTE + key_len + n;
        len -= NOTE + key_len + n;
    }
    return 0;
}

/* Values inserted out of key order are stored in insertion order. They are read in key order, so
 * the file is copied once in that order. */
static int compact(struct writer *w, struct stk_out *o, struct stk_err *err)
{
    struct stk_new copy;
    const char *path = stk_out_path(o);
    int rc = stk_new_begin_at(&copy, o->dirfd, o->name, STK_SHARED, path, err);
    if (rc < 0)
        return rc;
    int why = mdb_env_copyfd2(w->env, copy.fd, MDB_CP_COMPACT);
    if (why == 0)
        return stk_new_commit(&copy, err);
    stk_new_abort(&copy);
    return failed(path, "liblmdb cannot copy it in the order of keys", why, err);
}

static void abandon(const struct stk_write_config *cfg, struct stk_out *o)
{
    (void)cfg;
    struct writer *w = *stk_out_state(o);
    if (w)
        writer_free(w);
    *stk_out_state(o) = NULL;
}

static int finish(const struct stk_write_config *cfg, struct stk_out *o, struct stk_err *err)
{
    struct writer *w = *stk_out_state(o);
    int rc = end_batch(w);
    rc = rc == 0 ? 0 : write_failed(o, rc, err);
    if (rc == 0 && w->unsorted)
        rc = compact(w, o, err);
    abandon(cfg, o);
    return rc;
}

#endif

static const struct stk_format_use use = {
    .how = STK_USE_LIBRARY,
    .package = "lmdb",
    .open = stk_code_lmdb_open_py,
    .larger = stk_code_lmdb_larger_py,
};

const struct stk_format stk_format_lmdb = {
    .name = "lmdb",
    .title = "LMDB",
    .holds = STK_HOLDS_KEY,
    .suffix = ".mdb",
    .suffixes = suffixes,
    .payload = "example",
    .package = "liblmdb-dev",
    .side = side,
#ifdef STK_HAVE_LMDB
    .caps = STK_CAN_READ | STK_CAN_WRITE | STK_CAN_SHARD | STK_CAN_BE_ONE | STK_CAN_COMPRESS |
            STK_CAN_CODEC | STK_CAN_OWN_FILE | STK_CAN_CRASH | STK_CAN_BE_FOLDER,
    .bid = bid,
    .list = list,
    .prepare = prepare,
    .encode = encode,
    .begin = begin,
    .append = append,
    .finish = finish,
    .abort = abandon,
#else
    .missing = true,
    .caps = STK_CAN_BE_FOLDER,
#endif
    .use = &use,
};
