/* group.c - gathers members of one stem and lists them as a sample. */
#include "format/group.h"
#include "base/buf.h"
#include "format/members.h"

#include <stdlib.h>

#define LONE_MAX 64u   /* members without an extension held back while a sample is gathered */
#define EXT_MAX  1024u /* bytes of an extension */

struct group_ext {
    char *text, *name; /* one allocation; name: the field's name unless ambiguous */
    size_t len, name_len;
    int text_word, name_word; /* their numbers among the words */
    bool label;               /* "cls", which takes precedence over others */
    uint8_t kind;
    const char *codec;
    int field, whole_field; /* under name and under text; -1: not listed yet */
    uint64_t sample;        /* the last sample that had it */
};

#define NO_EXT (-1)

struct member {
    int ext; /* or NO_EXT: a sample of its own, under its name */
    size_t name_at, name_len;
    size_t first_part, nparts;
};

struct part {
    int64_t extent;
    uint64_t off, len;
};

void stk_grouper_init(struct stk_grouper *g, struct stk_lister *l, bool apart, size_t max_exts)
{
    *g = (struct stk_grouper){.lister = l, .apart = apart, .max_exts = max_exts};
}

void stk_grouper_release(struct stk_grouper *g)
{
    for (size_t i = 0; i < g->nexts; i++)
        free(g->ext[i].text);
    free(g->ext);
    free(g->word);
    free(g->word_len);
    stk_buf_release(&g->stem);
    stk_buf_release(&g->members);
    stk_buf_release(&g->parts);
    stk_buf_release(&g->names);
    stk_buf_release(&g->scratch);
    stk_buf_release(&g->words);
    *g = (struct stk_grouper){0};
}

/* ---- extensions ---- */

static bool same(const char *a, size_t a_len, const char *b, size_t b_len)
{
    return a_len == b_len && memcmp(a, b, a_len) == 0;
}

/* The caller has made room for two words. */
static int word_number(struct stk_grouper *g, const char *p, size_t n)
{
    for (size_t i = 0; i < g->nwords; i++)
        if (same(g->word[i], g->word_len[i], p, n))
            return (int)i;
    g->word[g->nwords] = p;
    g->word_len[g->nwords] = n;
    return (int)g->nwords++;
}

static int room_for_ext(struct stk_grouper *g, struct stk_err *err)
{
    if (g->ext)
        return 0;
    g->ext = calloc(g->max_exts, sizeof *g->ext);
    g->word = calloc(2 * g->max_exts, sizeof *g->word);
    g->word_len = calloc(2 * g->max_exts, sizeof *g->word_len);
    return g->ext && g->word && g->word_len ? 0 : stk_err_nomem(err, g->max_exts * sizeof *g->ext);
}

static int new_ext(struct stk_grouper *g, const char *text, size_t len, struct stk_err *err)
{
    struct stk_field_spec spec;
    int rc = room_for_ext(g, err);
    if (rc == 0)
        rc = stk_member_field(text, len, &g->scratch, &spec, err);
    if (rc < 0)
        return rc;
    struct group_ext *e = &g->ext[g->nexts];
    *e = (struct group_ext){.len = len,
                            .name_len = spec.name_len,
                            .label = same(text, len, "cls", 3),
                            .kind = spec.kind,
                            .codec = spec.codec,
                            .field = -1,
                            .whole_field = -1};
    e->text = malloc(len + spec.name_len);
    if (!e->text)
        return stk_err_nomem(err, len + spec.name_len);
    memcpy(e->text, text, len);
    e->name = memcpy(e->text + len, spec.name, spec.name_len);
    e->text_word = word_number(g, e->text, e->len);
    e->name_word = word_number(g, e->name, e->name_len);
    return (int)g->nexts++;
}

/* The number of an extension; NO_EXT if there are too many; below that an error. */
static int find_ext(struct stk_grouper *g, const char *text, size_t len, int *ext,
                    struct stk_err *err)
{
    for (size_t k = 0; k < g->nexts; k++) {
        size_t i = (g->next_ext + k) % g->nexts; /* extensions usually repeat in the same order */
        if (same(g->ext[i].text, g->ext[i].len, text, len)) {
            g->next_ext = i + 1;
            *ext = (int)i;
            return 0;
        }
    }
    *ext = NO_EXT;
    if (g->nexts == g->max_exts || len > EXT_MAX)
        return 0;
    int i = new_ext(g, text, len, err);
    *ext = i;
    return i < 0 ? i : 0;
}

static int field_of(struct stk_grouper *g, int ext, bool whole, struct stk_err *err)
{
    struct group_ext *e = &g->ext[ext];
    int *field = whole ? &e->whole_field : &e->field;
    struct stk_field_spec spec = {.name = whole ? e->text : e->name,
                                  .name_len = whole ? e->len : e->name_len,
                                  .kind = e->kind,
                                  .codec = e->codec};
    if (*field < 0)
        *field = stk_list_field(g->lister, &spec, err);
    return *field;
}

/* ---- members ---- */

/* Length of the stem; the extension follows it after a dot. */
static size_t split(const struct stk_grouper *g, const char *name, size_t len, const char **ext,
                    size_t *ext_len)
{
    size_t stem = stk_member_stem(name, len);
    *ext = stem + 1 < len ? name + stem + 1 : NULL;
    *ext_len = stem + 1 < len ? len - stem - 1 : 0;
    if (!*ext && !g->apart) { /* "KEY" is the payload, which may also be named "KEY.data" */
        *ext = "data";
        *ext_len = 4;
    }
    return stem;
}

bool stk_grouper_is_new(const struct stk_grouper *g, const char *name, size_t len)
{
    size_t stem = stk_member_stem(name, len);
    return !g->open || !same((const char *)g->stem.data, g->stem.len, name, stem);
}

static int take(struct stk_grouper *g, int ext, const char *name, size_t len, struct stk_err *err)
{
    struct member m = {.ext = ext,
                       .name_at = g->names.len,
                       .name_len = len,
                       .first_part = g->parts.len / sizeof(struct part)};
    if (ext == NO_EXT) {
        stk_buf_put(&g->names, name, len);
        g->nlone++;
    } else {
        g->ext[ext].sample = g->samples;
    }
    stk_buf_put(&g->members, &m, sizeof m);
    int rc = stk_buf_check(&g->names, err);
    return rc < 0 ? rc : stk_buf_check(&g->members, err);
}

/* Such a member does not end the sample around it: WebDataset skips it. */
static int take_lone(struct stk_grouper *g, const char *name, size_t len, struct stk_err *err)
{
    int rc = g->open && g->nlone < LONE_MAX ? 0 : stk_grouper_flush(g, err);
    return rc < 0 ? rc : take(g, NO_EXT, name, len, err);
}

int stk_grouper_member(struct stk_grouper *g, const char *name, size_t len, struct stk_err *err)
{
    const char *ext;
    size_t ext_len, stem = split(g, name, len, &ext, &ext_len);
    int number = NO_EXT, rc = ext ? find_ext(g, ext, ext_len, &number, err) : 0;
    if (rc < 0)
        return rc;
    if (number == NO_EXT)
        return take_lone(g, name, len, err);
    if (stk_grouper_is_new(g, name, len)) {
        rc = stk_grouper_flush(g, err);
        stk_buf_put(&g->stem, name, stem);
        g->open = true;
        g->samples++;
        if (rc == 0)
            rc = stk_buf_check(&g->stem, err);
        if (rc < 0)
            return rc;
    }
    return g->ext[number].sample == g->samples ? 1 : take(g, number, name, len, err);
}

int stk_grouper_part(struct stk_grouper *g, int64_t extent, uint64_t off, uint64_t len,
                     struct stk_err *err)
{
    struct part p = {.extent = extent, .off = off, .len = len};
    struct member *m = (struct member *)(void *)(g->members.data + g->members.len) - 1;
    m->nparts++;
    stk_buf_put(&g->parts, &p, sizeof p);
    return stk_buf_check(&g->parts, err);
}

/* ---- samples ---- */

static int list_parts(struct stk_grouper *g, const struct member *m, int field, struct stk_err *err)
{
    const struct part *p = (const struct part *)(const void *)g->parts.data + m->first_part;
    int rc = field < 0 ? field : 0;
    for (size_t i = 0; rc == 0 && i < m->nparts; i++)
        rc = p[i].extent < 0
                 ? stk_list_part_bytes(g->lister, field, p[i].off, p[i].len, err)
                 : stk_list_part(g->lister, field, p[i].extent, p[i].off, p[i].len, err);
    return rc;
}

/* The extensions of the sample, in the order of its members. */
static int gather_words(struct stk_grouper *g, struct stk_err *err)
{
    const struct member *m = (const void *)g->members.data;
    stk_buf_reset(&g->words);
    for (size_t i = 0; i < g->members.len / sizeof *m; i++) {
        if (m[i].ext == NO_EXT)
            continue;
        const struct group_ext *e = &g->ext[m[i].ext];
        struct stk_ext_words x = {.text = e->text_word, .name = e->name_word, .label = e->label};
        stk_buf_put(&g->words, &x, sizeof x);
    }
    return stk_buf_check(&g->words, err);
}

static int list_gathered(struct stk_grouper *g, struct stk_err *err)
{
    const struct member *m = (const void *)g->members.data;
    int rc = gather_words(g, err);
    if (rc < 0)
        return rc;
    struct stk_ext_words *x = (void *)g->words.data;
    stk_member_clashes(x, g->words.len / sizeof *x);
    bool begun = false;
    for (size_t i = 0; rc == 0 && i < g->members.len / sizeof *m; i++) {
        if (m[i].ext == NO_EXT)
            continue;
        int field = field_of(g, m[i].ext, x++->whole, err);
        if (field < 0)
            return field;
        if (!begun)
            rc = stk_list_sample(g->lister, (const char *)g->stem.data, g->stem.len, err);
        begun = true;
        if (rc == 0)
            rc = list_parts(g, &m[i], field, err);
    }
    return rc;
}

static int list_lone(struct stk_grouper *g, const struct member *m, struct stk_err *err)
{
    const struct stk_field_spec spec = {.name = "data", .kind = STK_BYTES};
    const char *name = (const char *)g->names.data + m->name_at;
    int field = stk_list_field(g->lister, &spec, err);
    int rc = field < 0 ? field : stk_list_sample(g->lister, name, m->name_len, err);
    return rc < 0 ? rc : list_parts(g, m, field, err);
}

int stk_grouper_flush(struct stk_grouper *g, struct stk_err *err)
{
    const struct member *m = (const void *)g->members.data;
    int rc = g->open ? list_gathered(g, err) : 0;
    for (size_t i = 0; rc == 0 && i < g->members.len / sizeof *m; i++)
        if (m[i].ext == NO_EXT)
            rc = list_lone(g, &m[i], err);
    g->open = false;
    g->nlone = 0;
    stk_buf_reset(&g->stem);
    stk_buf_reset(&g->members);
    stk_buf_reset(&g->parts);
    stk_buf_reset(&g->names);
    return rc;
}
