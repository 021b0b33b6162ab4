/*
 * list.c - the list of a set: the files of its source, written once, whole, before anything else.
 * It comes from a folder of ours, but nothing in it is believed: an error in it must not become a
 * path outside the copy.
 */
#include "tier/priv.h"

#include "base/hash.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC     "STKTLIST"
#define VERSION   2u
#define UNDATED   1u /* the version whose lists do not say when the source was changed */
#define FILES_MAX (UINT32_MAX / 8)
#define BYTES_MAX (UINT64_C(1) << 60)

struct head {
    char magic[8];
    uint32_t version;
    uint32_t formed; /* 1: there is a text more after the name, the format of a packed copy */
    uint64_t files, texts; /* bytes of all texts, each with its NUL: path, name, names in order */
    uint64_t identity;
    uint64_t hash; /* of everything after the header, and of the members before this one */
}; /* followed by the time of change, unless UNDATED */

struct item {
    uint64_t size;
    int64_t mtime_ns;
    uint64_t hash;
    uint32_t mode, hashed;
};

static uint64_t hash_of(const struct head *h, const void *rest, size_t n)
{
    struct stk_hash all;
    stk_hash_init(&all);
    stk_hash_update(&all, h, offsetof(struct head, hash));
    stk_hash_update(&all, rest, n);
    return stk_hash_final(&all);
}

static void put_text(struct stk_buf *out, const char *s)
{
    stk_buf_put(out, s, strlen(s) + 1);
}

int stk_tier_list_write(const struct stk_tier_source *src, struct stk_buf *out, struct stk_err *err)
{
    struct head h = {.version = VERSION,
                     .formed = src->form != NULL,
                     .files = src->count,
                     .identity = src->identity};
    size_t at = out->len;
    memcpy(h.magic, MAGIC, 8);
    stk_buf_zeros(out, sizeof h);
    stk_buf_put(out, &src->changed_ns, sizeof src->changed_ns);
    for (uint64_t i = 0; i < src->count; i++) {
        const struct stk_tier_file *f = &src->file[i];
        struct item item = {.size = f->size,
                            .mtime_ns = f->mtime_ns,
                            .hash = f->hashed ? f->hash : 0,
                            .mode = (uint32_t)f->mode & 0777,
                            .hashed = f->hashed};
        stk_buf_put(out, &item, sizeof item);
    }
    size_t texts = out->len;
    put_text(out, src->path);
    put_text(out, src->name);
    if (src->form)
        put_text(out, src->form);
    for (uint64_t i = 0; i < src->count; i++)
        put_text(out, src->file[i].name);
    int rc = stk_buf_check(out, err);
    if (rc < 0)
        return rc;
    h.texts = out->len - texts;
    h.hash = hash_of(&h, out->data + at + sizeof h, out->len - at - sizeof h);
    memcpy(out->data + at, &h, sizeof h);
    return 0;
}

uint64_t stk_tier_version(const struct stk_tier_source *src)
{
    struct stk_hash h;
    stk_hash_init(&h);
    stk_hash_update(&h, src->name, strlen(src->name) + 1);
    if (src->changed_ns)
        stk_hash_update(&h, &src->changed_ns, sizeof src->changed_ns);
    for (uint64_t i = 0; i < src->count; i++) {
        const struct stk_tier_file *f = &src->file[i];
        stk_hash_update(&h, f->name, strlen(f->name) + 1);
        stk_hash_update(&h, &f->size, sizeof f->size);
        stk_hash_update(&h, &f->mtime_ns, sizeof f->mtime_ns);
    }
    return stk_hash_final(&h);
}

/* ---- reading ---- */

static bool part_is_safe(const char *s, size_t n)
{
    return n && n <= NAME_MAX && !(n == 1 && s[0] == '.') &&
           !(n == 2 && s[0] == '.' && s[1] == '.');
}

/* A relative path that stays where it is. */
static bool is_safe(const char *s)
{
    if (strlen(s) >= PATH_MAX)
        return false;
    for (const char *slash; (slash = strchr(s, '/')); s = slash + 1)
        if (!part_is_safe(s, (size_t)(slash - s)))
            return false;
    return part_is_safe(s, strlen(s));
}

/* The next text, or NULL. */
static const char *take_text(const uint8_t **p, const uint8_t *end)
{
    const char *s = (const char *)*p;
    const uint8_t *nul = memchr(*p, 0, (size_t)(end - *p));
    if (!nul)
        return NULL;
    *p = nul + 1;
    return s;
}

static bool take_names(struct stk_tier_source *src, bool formed, const uint8_t *p,
                       const uint8_t *end)
{
    src->path = take_text(&p, end);
    src->name = src->path ? take_text(&p, end) : NULL;
    src->form = src->name && formed ? take_text(&p, end) : NULL;
    if (!src->name || !is_safe(src->name) || strchr(src->name, '/') || (formed && !src->form))
        return false;
    bool single = false;
    for (uint64_t i = 0; i < src->count; i++) {
        const char *name = src->file[i].name = take_text(&p, end);
        single = name && src->count == 1 && !name[0];
        if (!name || (!single && !is_safe(name)) || (i && strcmp(src->file[i - 1].name, name) >= 0))
            return false;
    }
    return p == end;
}

static bool take_items(struct stk_tier_source *src, const uint8_t *p)
{
    uint64_t all = 0;
    for (uint64_t i = 0; i < src->count; i++) {
        struct item item;
        memcpy(&item, p + i * sizeof item, sizeof item);
        src->file[i] = (struct stk_tier_file){.size = item.size,
                                              .mtime_ns = item.mtime_ns,
                                              .hash = item.hash,
                                              .hashed = item.hashed == 1,
                                              .mode = item.mode & 0777};
        if (item.size > BYTES_MAX || (all += item.size) > BYTES_MAX)
            return false;
    }
    return true;
}

static size_t date_len(const struct head *h)
{
    return h->version == UNDATED ? 0 : sizeof(int64_t);
}

static bool head_is_sound(const struct head *h, const uint8_t *rest, size_t n)
{
    bool known = memcmp(h->magic, MAGIC, 8) == 0 && h->formed <= 1 && h->files <= FILES_MAX &&
                 (h->version == VERSION || h->version == UNDATED);
    size_t items = known ? date_len(h) + h->files * sizeof(struct item) : 0;
    return known && n >= items && n - items == h->texts && h->hash == hash_of(h, rest, n);
}

int stk_tier_list_parse(const uint8_t *p, size_t n, struct stk_tier_source *src, const char *path,
                        struct stk_err *err)
{
    struct head h;
    *src = (struct stk_tier_source){0};
    if (n >= sizeof h)
        memcpy(&h, p, sizeof h);
    if (n < sizeof h || !head_is_sound(&h, p + sizeof h, n - sizeof h))
        return stk_err_set(err, STK_E_CORRUPT, path, -1, "damaged: not the list of a staged copy");
    src->identity = h.identity;
    src->count = h.files;
    src->file = calloc(h.files ? h.files : 1, sizeof *src->file);
    if (!src->file)
        return stk_err_nomem(err, h.files * sizeof *src->file);
    const uint8_t *items = p + sizeof h + date_len(&h);
    const uint8_t *texts = items + h.files * sizeof(struct item);
    memcpy(&src->changed_ns, p + sizeof h, date_len(&h));
    if (take_items(src, items) && take_names(src, h.formed, texts, p + n))
        return 0;
    free(src->file);
    *src = (struct stk_tier_source){0};
    return stk_err_set(err, STK_E_CORRUPT, path, -1, "damaged: a name or size in it is not valid");
}
