/*
 * members.h - how the fields of a sample become members (files) named after its key, and back.
 *
 * Shared by folder, tar and squashfs; docs/formats.md is the table this implements. A name is a
 * stem, a dot and an extension; the extension says which field it is and of what kind:
 *   cls label | npy array | json json | txt text | anything else bytes.
 */
#ifndef STK_FORMAT_MEMBERS_H
#define STK_FORMAT_MEMBERS_H

#include "format/format.h"
#include "format/sample.h"

/* ---- reading ---- */

/* Length of the stem: up to the first dot of the base name that is not one it begins with
 * (".profile" has no extension, ".a.txt" has "txt"). len when there is no such dot. */
size_t stk_member_stem(const char *name, size_t len);

/* Drops "." components and doubled slashes in place and returns the new length. */
size_t stk_member_clean(char *name, size_t len);

/* True for names WebDataset keeps for itself: the first component is "__…__". */
bool stk_member_is_meta(const char *name, size_t len);

/* True where the base name begins with a dot: WebDataset has no key for it. */
bool stk_member_is_hidden(const char *name, size_t len);

/* What a member of that extension (no dot; len > 0) is: a spec for stk_list_field(), its name
 * without what says the kind, "%2F" and "%25" put back. spec->name is borrowed from scratch. */
int stk_member_field(const char *ext, size_t len, struct stk_buf *scratch,
                     struct stk_field_spec *spec, struct stk_err *err);

/* An extension among those of its sample, as numbers that are equal where the texts are. */
struct stk_ext_words {
    int text, name; /* the extension, and the name it would give the field */
    bool label;     /* "cls": others give way to it */
    bool whole;     /* found out: the field is called by the whole extension */
};
/* Which fields of a sample keep their whole extension as their name ("x.txt" beside "x.json" or
 * "x"), so that no two are called the same. Does not depend on the order. */
void stk_member_clashes(struct stk_ext_words *x, size_t n);

/* ".zst", ".lz4" or "" for what per-sample compression adds to names. */
const char *stk_member_suffix(int compress);
/* True when name ends in the suffix of `compress`; *len then loses it. */
bool stk_member_strip(int compress, const char *name, size_t *len);

/* The length of what compressed bytes beginning with p[0..n) decode to; false when they do not
 * say. Ours always do. 32 bytes suffice. */
bool stk_member_decoded_len(int compress, const uint8_t *p, size_t n, uint64_t *len);

/* ---- writing ---- */

struct stk_member_rules {
    const char *data_ext; /* of `data` under a key without an extension: "data", or "" for none */
    bool no_label;        /* the key's directory says the class already */
    int compress, level;  /* enum stk_filter_id or 0: every member but the label */
};

struct stk_member {
    const char *name; /* not terminated */
    size_t name_len;
    const void *head; /* stands before data: the header of an array. head_len may be 0. */
    size_t head_len;
    const void *data;
    size_t len;
    /* While the set is made: the field, where in text and packed the above will be, and how long
     * the name is without what compression adds. */
    const struct stk_field *field;
    size_t name_at, head_at, packed_at, plain_len;
};

/* The members of one sample, sorted by name, no name twice. */
struct stk_members {
    struct stk_member *item; /* name, head, data borrowed: valid until release or the sample's */
    size_t n, cap;
    struct stk_buf text, packed;
    struct stk_buf full; /* a byte for each: 1 where its short name would be misread */
};

#define STK_MEMBERS_INIT                                                                           \
    {                                                                                              \
        0                                                                                          \
    }

/* Fills m (initialised or used before). Refuses lists, keys that are no safe paths, and fields
 * that would get the same name. */
int stk_members_make(struct stk_members *m, const struct stk_member_rules *r,
                     const struct stk_sample *s, struct stk_err *err);
void stk_members_release(struct stk_members *m);
/* Where the key's extension will say what the payload is (in a tar): refuses one that is not that,
 * since nobody could read the sample again. */
int stk_members_check_payload(const struct stk_sample *s, struct stk_err *err);

/* prepare() of formats made of members: refuses lists with the reason, and notes whether samples
 * take several members. */
int stk_members_prepare(struct stk_write_config *cfg, struct stk_err *err);

#endif
