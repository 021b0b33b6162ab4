/*
 * names.c - turns paths into entries: one per file for the first STOKER_PROFILE_FILES of them, then
 * "DIR/" "*.ext", and "*.ext" when even those are too many. Looking one up takes no lock. The text
 * is in the log, where the reader of a killed process's log finds it.
 */
#include "preload/priv.h"

#define GROUPS  1024u /* by folder and suffix */
#define ENDINGS 256u  /* by suffix alone; after that one for all */
#define LABELS  1024u
#define ENDING  12u /* longest suffix, including its dot */
#define PROC_FD "/proc/self/fd/"
#define DELETED " (deleted)"

struct stk_pl_lock stk_pl_names_lock;
static uint32_t *table; /* ids by hash: 0 free (atomic). Small, since accesses are scattered */
static uint32_t table_mask;
static struct stk_pl_file *file; /* by id, from 1 */
static uint32_t nfiles, file_room;
static uint32_t limit, single, groups, endings, labels;
static uint32_t named_why[STK_PL_ABSENT + 1];
static struct stk_log_block *block; /* of names; epoch says whose */
static uint32_t block_epoch;

static struct {
    char text[PATH_MAX];
    uint32_t length;  /* 0: unknown */
    uint32_t version; /* counts chdir() calls; the text belongs to one of them */
} cwd;
static uint32_t moves;
struct stk_pl_lock stk_pl_cwd_lock;

int stk_pl_names_start(uint32_t most)
{
    uint32_t slots = 1024;
    limit = most;
    file_room = limit + GROUPS + ENDINGS + LABELS + 2;
    while (slots < 2 * file_room)
        slots *= 2;
    table = stk_pl_memory((size_t)slots * sizeof *table);
    file = stk_pl_memory((size_t)file_room * sizeof *file);
    table_mask = slots - 1;
    return table && file ? 0 : -1;
}

struct stk_pl_file *stk_pl_file_by_id(uint32_t id)
{
    return id && id <= __atomic_load_n(&nfiles, __ATOMIC_ACQUIRE) ? &file[id] : NULL;
}

static struct stk_pl_file *find(uint64_t hash)
{
    for (uint32_t i = (uint32_t)hash & table_mask;; i = (i + 1) & table_mask) {
        uint32_t id = __atomic_load_n(&table[i], __ATOMIC_ACQUIRE);
        if (!id)
            return NULL;
        if (file[id].hash == hash)
            return &file[id];
    }
}

/* Appends the text of f to this process's log; the lock is held. */
static bool write_text(struct stk_pl_file *f, const char *text)
{
    uint32_t bytes = (uint32_t)(sizeof(struct stk_log_name) + f->length + 7) & ~7u;
    if (!block || block_epoch != stk_pl.epoch || !stk_pl_log_fits(block, bytes)) {
        struct stk_log_block *b = stk_pl_log_block(STK_BLK_NAMES, 0);
        if (!b)
            return false;
        block = b;
        block_epoch = stk_pl.epoch;
    }
    struct stk_log_name *n = (struct stk_log_name *)((char *)(block + 1) + block->used);
    n->id = f->id;
    n->length = f->length;
    memcpy(n->text, text, f->length);
    __atomic_store_n(&block->used, block->used + bytes, __ATOMIC_RELEASE);
    f->text = n->text;
    __atomic_store_n(&f->logged, stk_pl.epoch, __ATOMIC_RELEASE);
    return true;
}

bool stk_pl_file_log(struct stk_pl_file *f)
{
    if (LIKELY(__atomic_load_n(&f->logged, __ATOMIC_ACQUIRE) == stk_pl.epoch))
        return true;
    stk_pl_lock(&stk_pl_names_lock);
    bool there = f->logged == stk_pl.epoch || write_text(f, f->text);
    stk_pl_unlock(&stk_pl_names_lock);
    return there;
}

/* A new entry; the lock is held. */
static struct stk_pl_file *add(uint64_t hash, const char *text, uint32_t length, bool group)
{
    if (nfiles + 1 >= file_room)
        return NULL;
    struct stk_pl_file *f = &file[nfiles + 1];
    *f = (struct stk_pl_file){.hash = hash, .length = length, .id = nfiles + 1, .group = group};
    if (!write_text(f, text))
        return NULL;
    __atomic_store_n(&nfiles, nfiles + 1, __ATOMIC_RELEASE);
    uint32_t i = (uint32_t)hash & table_mask;
    while (table[i])
        i = (i + 1) & table_mask;
    __atomic_store_n(&table[i], f->id, __ATOMIC_RELEASE);
    return f;
}

/* ".jpg" of "a/b.jpg"; numbers and long suffixes are not kinds of files. */
static size_t ending_of(const char *path, size_t length, const char **ending)
{
    size_t i = length;
    while (i > 0 && path[i - 1] != '.' && path[i - 1] != '/')
        i--;
    size_t n = length - i + 1;
    *ending = path + i - 1;
    if (i < 2 || path[i - 1] != '.' || path[i - 2] == '/' || n < 2 || n > ENDING)
        return 0;
    return strspn(path + i, "0123456789") >= n - 1 ? 0 : n;
}

/* The entry of "FOLDER/" "*" ".ext", created if there is room; the lock is held. */
static struct stk_pl_file *group_entry(const char *folder, size_t n, const char *ending, size_t m,
                                       uint32_t *count, uint32_t most)
{
    static STK_TABLE char text[PATH_MAX + 32]; /* guarded by the lock */
    memcpy(text, folder, n);
    text[n] = '*';
    memcpy(text + n + 1, ending, m);
    uint32_t length = (uint32_t)(n + 1 + m);
    uint64_t hash = stk_mix64(stk_path_hash(text, length) ^ 0x67726f7570ull); /* no file's */
    struct stk_pl_file *f = find(hash);
    if (!f && *count < most && (f = add(hash, text, length, true)))
        ++*count;
    return f;
}

static struct stk_pl_file *group(const char *path, size_t length)
{
    const char *ending;
    size_t m = ending_of(path, length, &ending), n = length;
    while (n > 0 && path[n - 1] != '/')
        n--;
    struct stk_pl_file *f = group_entry(path, n, ending, m, &groups, GROUPS);
    if (!f)
        f = group_entry("", 0, ending, m, &endings, ENDINGS);
    return f ? f : group_entry("", 0, "", 0, &endings, ENDINGS + 1);
}

struct stk_pl_file *stk_pl_group_of(const struct stk_pl_file *f)
{
    stk_pl_lock(&stk_pl_names_lock);
    struct stk_pl_file *g = group(f->text, f->length);
    stk_pl_unlock(&stk_pl_names_lock);
    return g;
}

/* Names that are only searched for and not found (by an interpreter) get an eighth of the room,
 * names of files that exist but are only queried (a listed tree) a quarter, so that they do not
 * crowd out the files that are read. */
struct stk_pl_file *stk_pl_file_of(const struct stk_pl_path *p, enum stk_pl_why why)
{
    struct stk_pl_file *f = find(p->hash);
    if (f)
        return f;
    stk_pl_lock(&stk_pl_names_lock);
    f = find(p->hash);
    const uint32_t most[] = {limit, limit / 4 + 1, limit / 8 + 1};
    if (!f && single < limit && named_why[why] < most[why]) {
        f = add(p->hash, p->text, p->length, false);
        if (f) {
            single++;
            named_why[why]++;
        }
    } else if (!f) {
        f = group(p->text, p->length);
    }
    stk_pl_unlock(&stk_pl_names_lock);
    return f;
}

struct stk_pl_file *stk_pl_label(const char *text)
{
    size_t length = strnlen(text, 255);
    uint64_t hash = stk_mix64(stk_path_hash(text, length) ^ 0x6c6162656cull);
    struct stk_pl_file *f = find(hash);
    if (!f) {
        stk_pl_lock(&stk_pl_names_lock);
        f = find(hash);
        if (!f && labels < LABELS && (f = add(hash, text, (uint32_t)length, false)))
            labels++;
        stk_pl_unlock(&stk_pl_names_lock);
    }
    return f;
}

void stk_pl_path_moved(void)
{
    __atomic_fetch_add(&moves, 1, __ATOMIC_SEQ_CST);
}

/* Copies the working directory to `to`; returns its length, 0: unknown. */
static size_t working_directory(char *to)
{
    size_t n = 0;
    stk_pl_lock(&stk_pl_cwd_lock);
    uint32_t version = __atomic_load_n(&moves, __ATOMIC_SEQ_CST);
    if (!cwd.length || cwd.version != version) {
        long length = stk_sys2(SYS_getcwd, cwd.text, sizeof cwd.text); /* counts the NUL */
        cwd.length = length > 1 && cwd.text[0] == '/' ? (uint32_t)length - 1 : 0;
        cwd.version = version;
    }
    n = cwd.length;
    memcpy(to, cwd.text, n);
    stk_pl_unlock(&stk_pl_cwd_lock);
    return n;
}

bool stk_pl_path_of_fd(struct stk_pl_thread *t, int fd)
{
    char link[sizeof PROC_FD + 16] = PROC_FD, digits[12];
    size_t k = sizeof digits, at = sizeof PROC_FD - 1;
    uint32_t v = (uint32_t)fd;
    do
        digits[--k] = (char)('0' + v % 10);
    while (v /= 10);
    memcpy(link + at, digits + k, sizeof digits - k);
    long n = stk_sys4(SYS_readlinkat, AT_FDCWD, link, t->path.text, sizeof t->path.text - 1);
    if (n <= 0)
        return false;
    t->path.text[n] = 0;
    size_t gone = sizeof DELETED - 1;
    if ((size_t)n > gone && memcmp(t->path.text + (size_t)n - gone, DELETED, gone) == 0)
        t->path.text[n -= (long)gone] = 0;
    t->path.length = (uint32_t)n;
    t->path.hash = stk_path_hash(t->path.text, (size_t)n);
    return true;
}

/* Appends `path` to to[0..n), with "//" and "/./" as one slash. false: too long, or it contains
 * ".." (then only the kernel can resolve it, since there may be links on the way). */
static bool append(char *to, size_t n, const char *path, size_t *length)
{
    for (const char *p = path; *p;) {
        size_t part = strcspn(p, "/");
        if (part == 2 && p[0] == '.' && p[1] == '.')
            return false;
        if (part && !(part == 1 && p[0] == '.')) {
            if (n + part + 2 > PATH_MAX)
                return false;
            if (!n || to[n - 1] != '/')
                to[n++] = '/';
            memcpy(to + n, p, part);
            n += part;
        }
        p += part;
        while (*p == '/')
            p++;
    }
    if (!n)
        to[n++] = '/';
    to[n] = 0;
    *length = n;
    return true;
}

bool stk_pl_path_make(struct stk_pl_thread *t, int dirfd, const char *path, int fd)
{
    size_t n = 0, length = 0;
    if (!path)
        return false;
    bool relative = path[0] != '/';
    if (relative && dirfd == AT_FDCWD)
        n = working_directory(t->path.text);
    else if (relative && fd < 0 && stk_pl_path_of_fd(t, dirfd))
        n = t->path.length;
    bool known = !relative || n;
    if (known && append(t->path.text, n, path, &length)) {
        t->path.length = (uint32_t)length;
        t->path.hash = stk_path_hash(t->path.text, length);
        return true;
    }
    if (fd >= 0)
        return stk_pl_path_of_fd(t, fd);
    if (!known || strlen(path) + n + 2 > PATH_MAX)
        return false;
    t->path.text[n] = '/'; /* as it is, with its ".." */
    strcpy(t->path.text + n + (n > 0 && relative), path);
    t->path.length = (uint32_t)strlen(t->path.text);
    t->path.hash = stk_path_hash(t->path.text, t->path.length);
    return true;
}
