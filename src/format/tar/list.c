/*
 * list.c - lists tar as WebDataset reads it: adjacent members with the same stem are a sample,
 * the extension names the field. Hops from header to header, also in compressed archives; a damaged
 * header loses the members up to the next good one. A hard link has the data of its target; sound
 * members without data in the archive are left out.
 */
#include "format/format.h"
#include "format/group.h"
#include "format/members.h"
#include "format/sample.h"
#include "format/tar/head.h"
#include "base/buf.h"
#include "base/hash.h"

#include <stdlib.h>

/* ---- hard links ------------------------------------------------------------------------------ */

/* A list of hashed names that is sorted at the first lookup, and again after many additions: most
 * archives have no links, and pay only an append per member. */

#define TAIL_MAX 64 /* minimum number of unsorted entries to scan */

static int by_hash(const void *a, const void *b)
{
    const struct stk_tar_place *x = a, *y = b;
    return x->hash != y->hash ? (x->hash > y->hash) - (x->hash < y->hash)
                              : (x->at > y->at) - (x->at < y->at);
}

int stk_tar_links_add(struct stk_tar_links *k, const char *name, size_t name_len, uint64_t at,
                      uint64_t len, struct stk_err *err)
{
    if (k->n == STK_TAR_LINKABLE)
        return 0;
    if (STK_ARRAY_ROOM(k->item, k->cap, k->n + 1, err))
        return STK_E_NOMEM;
    k->item[k->n++] =
        (struct stk_tar_place){.hash = stk_hash64(name, name_len), .at = at, .len = len};
    return 0;
}

/* The last sorted entry with that hash. */
static const struct stk_tar_place *find_sorted(const struct stk_tar_links *k, uint64_t hash)
{
    size_t lo = 0, hi = k->sorted; /* the first with a greater hash */
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (k->item[mid].hash <= hash)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo && k->item[lo - 1].hash == hash ? &k->item[lo - 1] : NULL;
}

const struct stk_tar_place *stk_tar_links_find(struct stk_tar_links *k, const char *name,
                                               size_t name_len)
{
    const struct stk_tar_place *found = NULL;
    uint64_t hash = stk_hash64(name, name_len);
    if (k->n - k->sorted > TAIL_MAX + k->sorted / 8) {
        qsort(k->item, k->n, sizeof *k->item, by_hash);
        k->sorted = k->n;
    }
    for (size_t i = k->n; i > k->sorted && !found; i--)
        found = k->item[i - 1].hash == hash ? &k->item[i - 1] : NULL;
    found = found ? found : find_sorted(k, hash);
    return found && found->len != STK_TAR_NO_DATA ? found : NULL;
}

void stk_tar_links_release(struct stk_tar_links *k)
{
    free(k->item);
    *k = (struct stk_tar_links){0};
}

#define META_MAX   (1u << 20) /* longest pax header or GNU long name accepted */
#define EXTS_MAX   1024       /* number of extensions distinguished per archive */
#define RESYNC     (1u << 20) /* window of the search for the next header */
#define AFTER_END  (1u << 20) /* searched for an archive appended after the end marker */
#define SHOWN_NAME 300        /* bytes of a name in a message */
#define VOLUME     "its beginning is in another volume"
#define ONE_OF     "a volume of several (tar -M), and they are not joined; tar -xM unpacks them all"

struct part {
    uint64_t off, len;
    bool packed; /* by per-sample compression, into decoded_len bytes */
    uint64_t decoded_len;
};

/* Headers that precede and describe a member's header. */
struct notes {
    bool has_path, has_link, has_size, sparse;
    bool rest;     /* the member continues from another volume */
    bool label;    /* this is a volume of several */
    bool unusable; /* could not be read: the member's name or size is unknown */
    bool too_long; /* was not read because of its length */
    uint64_t size;
    struct stk_buf path, link;
};

struct tar {
    struct stk_lister *l;
    struct stk_src *src;
    struct stk_err *err;
    struct stk_chain chain; /* per-sample compression */
    uint64_t off;           /* of the current block */
    bool ended;
    bool volume; /* a header says that this is one of several */
    struct notes local, global;
    struct stk_buf name, target;
    struct stk_tar_links links;
    struct stk_grouper group;
};

#define SHOW(b) (int)((b)->len < SHOWN_NAME ? (b)->len : SHOWN_NAME), (const char *)(b)->data

/* ---- members ---- */

static int leave_out(struct tar *t, const char *why)
{
    return stk_list_left_out(t->l, "member", (const char *)t->name.data, why, t->err);
}

static int unsafe_name(struct tar *t)
{
    return stk_list_problem(t->l, (int64_t)t->off, t->err,
                            "member '%.*s': unsafe name (absolute, '..', NUL or overlong)",
                            SHOW(&t->name));
}

static int add_part(struct tar *t, const struct part *p)
{
    if (!p->packed)
        return stk_grouper_part(&t->group, -1, p->off, p->len, t->err);
    int64_t extent = stk_list_extent(t->l, p->off, p->len, &t->chain, t->err);
    return extent < 0 ? (int)extent
                      : stk_grouper_part(&t->group, extent, 0, p->decoded_len, t->err);
}

static int add_member(struct tar *t, size_t len, const struct part *p)
{
    const char *name = (const char *)t->name.data;
    /* Without an extension, or past the limit of extensions, the whole name is a key. */
    if (stk_member_stem(name, len) + 1 >= len && !stk_key_is_safe_path(name, len))
        return unsafe_name(t);
    int rc = stk_grouper_member(&t->group, name, len, t->err);
    if (rc == 1)
        return leave_out(t, STK_GROUP_TWICE "; webdataset refuses such an archive");
    return rc < 0 ? rc : add_part(t, p);
}

/* Reads the decoded length from a compressed member's first bytes. 1: not there, and reported. */
static int unpacked_len(struct tar *t, struct part *p)
{
    const uint8_t *head;
    size_t got;
    if (stk_src_is_stream(t->src))
        return stk_err_set(t->err, STK_E_UNSUPPORTED, stk_src_path(t->src), (int64_t)t->off,
                           "compressed samples in a compressed archive");
    int rc = stk_src_peek(t->src, p->off, p->len < 32 ? (size_t)p->len : 32, &head, &got, t->err);
    if (rc < 0)
        return rc;
    if (stk_member_decoded_len((int)t->chain.step[0].id, head, got, &p->decoded_len))
        return 0;
    rc = stk_list_problem(t->l, (int64_t)p->off, t->err,
                          "member '%.*s': not compressed, or damaged", SHOW(&t->name));
    return rc < 0 ? rc : 1;
}

static int add_regular(struct tar *t, uint64_t data, uint64_t size)
{
    struct part p = {.off = data, .len = size};
    size_t len = t->name.len;
    const char *name = (const char *)t->name.data;
    if (name[0] == '/' || !stk_key_is_safe_path(name, stk_member_stem(name, len)) ||
        memchr(name, '\0', len))
        return unsafe_name(t);
    if (stk_member_is_meta(name, len))
        return 0;
    if (stk_member_is_hidden(name, len))
        return leave_out(t, "hidden: its name begins with a dot");
    p.packed = stk_member_strip((int)t->chain.step[0].id, name, &len);
    if (p.packed) {
        int rc = unpacked_len(t, &p);
        if (rc)
            return rc < 0 ? rc : 0;
    }
    return add_member(t, len, &p);
}

/* The archive ends here: does it continue in another volume? */
static bool is_volume(const struct tar *t)
{
    uint64_t size = stk_src_size(t->src);
    return t->volume || (!stk_src_is_stream(t->src) && size % STK_TAR_RECORD == 0 &&
                         stk_tar_goes_on(stk_src_path(t->src), (const char *)t->name.data,
                                         t->name.data ? t->name.len : 0));
}

/* True if [off, off+size) exists. Else the problem was reported, and *rc is the result of
 * list(). */
static bool data_is_there(struct tar *t, uint64_t off, uint64_t size, int *rc)
{
    uint64_t end;
    const uint8_t *p;
    size_t got = 1;
    *rc = 0;
    bool there =
        !__builtin_add_overflow(off, size, &end) && end <= stk_src_size(t->src) && end <= INT64_MAX;
    if (there && size && stk_src_is_stream(t->src)) {
        *rc = stk_src_peek(t->src, end - 1, 1, &p, &got, t->err);
        there = got == 1;
    }
    if (*rc == 0 && !there && is_volume(t))
        *rc = stk_list_left_out(t->l, "archive", stk_src_name(t->src), ONE_OF, t->err);
    else if (*rc == 0 && !there)
        *rc =
            stk_list_problem(t->l, (int64_t)t->off, t->err,
                             "truncated: a member of %llu bytes begins here, the file ends before",
                             (unsigned long long)size);
    t->ended = t->ended || *rc < 0 || !there;
    return *rc == 0 && there;
}

static void skip_data(struct tar *t, uint64_t data, uint64_t size)
{
    t->off = data + size + stk_tar_padding(size);
}

/* Copies a name, cleaned, with a NUL after it that is not counted. */
static int set_name(struct stk_buf *to, const void *p, size_t len, struct stk_err *err)
{
    stk_buf_reset(to);
    stk_buf_put(to, p, len);
    stk_buf_putc(to, '\0');
    int rc = stk_buf_check(to, err);
    if (rc < 0)
        return rc;
    to->len = stk_member_clean((char *)to->data, len);
    to->data[to->len] = '\0';
    return 0;
}

static int copy_names(struct tar *t, const struct stk_tar_head *h)
{
    const struct notes *n = t->local.has_path ? &t->local : &t->global;
    int rc = n->has_path ? set_name(&t->name, n->path.data, n->path.len, t->err)
                         : set_name(&t->name, h->name, h->name_len, t->err);
    n = t->local.has_link ? &t->local : &t->global;
    if (rc == 0)
        rc = n->has_link ? set_name(&t->target, n->link.data, n->link.len, t->err)
                         : set_name(&t->target, h->link, h->link_len, t->err);
    return rc;
}

/* With some tars, links, devices and folders have no data despite a size; with others they do: the
 * next block decides. */
static int without_data(struct tar *t, uint64_t *size)
{
    struct stk_tar_head next;
    const uint8_t *p;
    size_t got;
    if (!*size)
        return 0;
    int rc = stk_src_peek(t->src, t->off + STK_TAR_BLOCK, STK_TAR_BLOCK, &p, &got, t->err);
    if (rc == 0 && (got < STK_TAR_BLOCK || stk_tar_parse(p, &next) != STK_TAR_GARBAGE))
        *size = 0;
    return rc;
}

/* The map of a GNU sparse file continues in separate blocks. */
static int skip_sparse_map(struct tar *t, const struct stk_tar_head *h, uint64_t *data)
{
    bool more = h->more;
    while (more) {
        const uint8_t *p;
        size_t got;
        int rc = stk_src_peek(t->src, *data, STK_TAR_BLOCK, &p, &got, t->err);
        if (rc < 0)
            return rc;
        more = got == STK_TAR_BLOCK && p[504];
        *data += STK_TAR_BLOCK;
    }
    return 0;
}

/* Why a sound member is not a sample; NULL: it may be one, or has no data anyway. */
static const char *foreign(const struct tar *t, const struct stk_tar_head *h)
{
    if (t->local.sparse || t->global.sparse || h->type == 'S')
        return "a sparse file; tar without --sparse writes it whole";
    if (t->local.rest || t->global.rest)
        return VOLUME;
    if (t->local.too_long)
        return "its extended header is longer than 1 MiB";
    switch (h->type) {
    case '0':
    case '1':
    case '5': /* a folder; */
    case 'D': /* GNU's list of what is in one; */
    case 'V': /* the name of the archive */
        return NULL;
    case '2':
        return "a symbolic link; tar --dereference stores its target";
    case '3':
    case '4':
    case '6':
        return "a device or a FIFO";
    case 'M':
        return VOLUME;
    default:
        return "of an unknown type";
    }
}

static int take_link(struct tar *t, uint64_t data, uint64_t size)
{
    const char *target = (const char *)t->target.data;
    const struct stk_tar_place *to = stk_tar_links_find(&t->links, target, t->target.len);
    if (to)
        return add_regular(t, to->at + STK_TAR_BLOCK, to->len);
    if (size) /* POSIX allows a link to include the data */
        return add_regular(t, data, size);
    return leave_out(t, "a hard link to a member that is not before it, or is not read; tar "
                        "--hard-dereference stores its target");
}

/* A member with data [data, data+size), if any. */
static int list_member(struct tar *t, const struct stk_tar_head *h, uint64_t data, uint64_t size)
{
    const char *why = foreign(t, h), *name = (const char *)t->name.data;
    if (t->local.unusable)
        return stk_list_problem(t->l, (int64_t)t->off, t->err,
                                "member '%.*s': skipped, the extended header before it is damaged",
                                SHOW(&t->name));
    int rc = why              ? leave_out(t, why)
             : h->type == '1' ? take_link(t, data, size)
             : h->type == '0' ? add_regular(t, data, size)
                              : 0;
    bool linkable = !why && h->type == '0';
    return rc < 0 ? rc
                  : stk_tar_links_add(&t->links, name, t->name.len, t->off,
                                      linkable ? size : STK_TAR_NO_DATA, t->err);
}

static int take_member(struct tar *t, const struct stk_tar_head *h)
{
    uint64_t data = t->off + STK_TAR_BLOCK, size = h->size;
    int rc = copy_names(t, h);
    t->volume |= h->type == 'M' || t->local.rest || t->global.rest || t->global.label ||
                 (rc == 0 && h->type == 'V' &&
                  stk_tar_is_volume_label((const char *)t->name.data, t->name.len));
    if (t->local.has_size || t->global.has_size)
        size = t->local.has_size ? t->local.size : t->global.size;
    if (rc == 0 && h->type >= '1' && h->type <= '6')
        rc = without_data(t, &size);
    if (rc == 0)
        rc = skip_sparse_map(t, h, &data);
    if (rc < 0 || !data_is_there(t, data, size, &rc))
        return rc;
    rc = list_member(t, h, data, size);
    skip_data(t, data, size);
    return rc;
}

/* ---- headers that describe the next one ---- */

static void notes_reset(struct notes *n)
{
    struct stk_buf path = n->path, link = n->link;
    stk_buf_reset(&path);
    stk_buf_reset(&link);
    *n = (struct notes){.path = path, .link = link};
}

static bool set_text(struct stk_buf *to, const char *p, size_t len)
{
    stk_buf_reset(to);
    stk_buf_put(to, p, len);
    return true;
}

static void take_pax(struct notes *n, const char *text, size_t len)
{
    struct stk_tar_pax pax = {.has_size = n->has_size, .size = n->size, .sparse = n->sparse};
    if (!stk_tar_pax_parse(text, len, &pax))
        n->unusable = true;
    n->has_size = pax.has_size;
    n->size = pax.size;
    n->sparse = pax.sparse;
    n->rest = n->rest || pax.rest;
    n->label = n->label || pax.label;
    if (pax.path)
        n->has_path = set_text(&n->path, pax.path, pax.path_len);
    if (pax.link)
        n->has_link = set_text(&n->link, pax.link, pax.link_len);
}

/* Reads 'x' and 'g' (pax records), 'L' (a long name) and 'K' (a long link target). */
static int read_notes(struct tar *t, const struct stk_tar_head *h, const uint8_t *p, size_t len)
{
    struct notes *n = h->type == 'g' ? &t->global : &t->local;
    const char *text = (const char *)p;
    if (h->type == 'L')
        n->has_path = set_text(&n->path, text, strnlen(text, len));
    else if (h->type == 'K')
        n->has_link = set_text(&n->link, text, strnlen(text, len));
    else
        take_pax(n, text, len);
    int rc = stk_buf_check(&n->path, t->err);
    rc = rc < 0 ? rc : stk_buf_check(&n->link, t->err);
    if (rc < 0 || !t->global.unusable)
        return rc;
    t->global.unusable = false;
    return stk_list_problem(t->l, (int64_t)t->off, t->err, "damaged global extended header");
}

static int take_notes(struct tar *t, const struct stk_tar_head *h)
{
    uint64_t data = t->off + STK_TAR_BLOCK;
    int rc = 0;
    if (h->size && h->size <= META_MAX) {
        const uint8_t *p;
        size_t got;
        rc = stk_src_peek(t->src, data, (size_t)h->size, &p, &got, t->err);
        if (rc == 0 && got == h->size)
            rc = read_notes(t, h, p, got);
    } else if (h->size) {
        t->local.too_long = true;
    }
    stk_buf_reset(&t->name); /* the member's name is not known yet */
    if (rc == 0 && data_is_there(t, data, h->size, &rc))
        skip_data(t, data, h->size);
    return rc;
}

/* ---- the walk ---- */

/* Searches for the next header after a damaged one. Only headers with a magic count: file data
 * matches a checksum by chance too easily. */
static int resync(struct tar *t)
{
    uint64_t from = t->off;
    struct stk_tar_head h;
    const uint8_t *p;
    size_t got;
    /* Another sample of the same key may follow. */
    int rc = stk_grouper_flush(&t->group, t->err);
    notes_reset(&t->local);
    for (t->off += STK_TAR_BLOCK; rc == 0; t->off += got & ~(size_t)(STK_TAR_BLOCK - 1)) {
        rc = stk_src_peek(t->src, t->off, RESYNC, &p, &got, t->err);
        if (rc < 0)
            return rc;
        for (size_t i = 0; i + STK_TAR_BLOCK <= got; i += STK_TAR_BLOCK)
            if (stk_tar_parse(p + i, &h) == STK_TAR_HEADER && h.has_magic) {
                t->off += i;
                return stk_list_problem(t->l, (int64_t)from, t->err,
                                        "damaged header; the next good one is %llu bytes on",
                                        (unsigned long long)(t->off - from));
            }
        if (got < RESYNC)
            break;
    }
    t->ended = true;
    return rc < 0 ? rc
                  : stk_list_problem(t->l, (int64_t)from, t->err,
                                     from ? "damaged header, and no good one after it"
                                          : "not a tar archive: no header at its beginning");
}

/* Zeros end the archive. No tar sees members after them without --ignore-zeros, so they are
 * reported. */
static int end_marker(struct tar *t)
{
    struct stk_tar_head h;
    const uint8_t *p;
    size_t got;
    t->ended = true;
    int rc = stk_src_peek(t->src, t->off, AFTER_END, &p, &got, t->err);
    for (size_t i = 0; rc == 0 && i + STK_TAR_BLOCK <= got; i += STK_TAR_BLOCK) {
        enum stk_tar_what what = stk_tar_parse(p + i, &h);
        if (what == STK_TAR_HEADER && h.has_magic)
            return stk_list_left_out(t->l, "archive", stk_src_name(t->src),
                                     "appended after the end marker of the first one, where no "
                                     "tar reads it; tar --concatenate joins them",
                                     t->err);
        if (what != STK_TAR_ZEROS)
            break;
    }
    return rc;
}

static int end_of_file(struct tar *t, size_t got)
{
    t->ended = true;
    if (got)
        return stk_list_problem(t->l, (int64_t)t->off, t->err,
                                "truncated: %zu bytes of a 512-byte header", got);
    stk_buf_reset(&t->name); /* the next volume may begin with any member */
    if (t->off && is_volume(t))
        return stk_list_left_out(t->l, "archive", stk_src_name(t->src), ONE_OF, t->err);
    return stk_list_problem(t->l, (int64_t)t->off, t->err,
                            t->off ? "no end-of-archive marker: the archive may be truncated"
                                   : "the file is empty");
}

static int step(struct tar *t)
{
    struct stk_tar_head h;
    const uint8_t *p;
    size_t got;
    int rc = stk_src_peek(t->src, t->off, STK_TAR_BLOCK, &p, &got, t->err);
    if (rc < 0)
        return rc;
    if (got < STK_TAR_BLOCK)
        return end_of_file(t, got);
    enum stk_tar_what what = stk_tar_parse(p, &h);
    if (what == STK_TAR_ZEROS)
        return end_marker(t);
    if (what == STK_TAR_GARBAGE || !h.size_ok)
        return resync(t);
    if (strchr("xXgLK", h.type))
        return take_notes(t, &h);
    rc = take_member(t, &h);
    notes_reset(&t->local);
    t->global.rest = false; /* GNU puts it in a global header, but for one member only */
    return rc;
}

int stk_tar_list(struct stk_lister *l, struct stk_src *src, struct stk_err *err)
{
    struct tar t = {.l = l, .src = src, .err = err};
    stk_grouper_init(&t.group, l, true, EXTS_MAX);
    t.chain.nsteps = 1;
    t.chain.step[0].id = (uint16_t)stk_list_opts(l)->compress;
    int rc = 0;
    while (rc == 0 && !t.ended)
        rc = step(&t);
    if (rc == 0)
        rc = stk_grouper_flush(&t.group, err);
    stk_grouper_release(&t.group);
    stk_tar_links_release(&t.links);
    stk_buf_release(&t.local.path);
    stk_buf_release(&t.local.link);
    stk_buf_release(&t.global.path);
    stk_buf_release(&t.global.link);
    stk_buf_release(&t.name);
    stk_buf_release(&t.target);
    return rc;
}
