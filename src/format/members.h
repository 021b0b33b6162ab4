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

/* Length of the stem: up to the first dot of the base name that is not its first character
 * (".profile" has no extension, ".a.txt" has "txt"). len if there is no such dot. */
size_t stk_member_stem(const char *name, size_t len);

/* Drops "." components and doubled slashes in place and returns the new length. */
size_t stk_member_clean(char *name, size_t len);

/* True for names WebDataset keeps for itself: the first component is "__…__". */
bool stk_member_is_meta(const char *name, size_t len);

/* True if the base name begins with a dot: WebDataset has no key for it. */
bool stk_member_is_hidden(const char *name, size_t len);

/* The field of a member with that extension (no dot; len > 0): a spec for stk_list_field(), its
 * name without the kind's extension, with "%2F" and "%25" unescaped. spec->name is borrowed from
 * scratch. */
int stk_member_field(const char *ext, size_t len, struct stk_buf *scratch,
                     struct stk_field_spec *spec, struct stk_err *err);

/* An extension of a sample, as numbers that are equal if the texts are. */
struct stk_ext_words {
    int text, name; /* the extension, and the name it would give the field */
    bool label;     /* "cls": takes precedence over others */
    bool whole;     /* result: the field's name is the whole extension */
};
/* Determines which fields of a sample keep their whole extension as their name ("x.txt" next to
 * "x.json" or "x"), so that names are unique. Does not depend on the order. */
void stk_member_clashes(struct stk_ext_words *x, size_t n);

/* ".zst", ".lz4" or "" for what per-sample compression adds to names. */
const char *stk_member_suffix(int compress);
/* True when name ends in the suffix of `compress`; *len then loses it. */
bool stk_member_strip(int compress, const char *name, size_t *len);

/* The decoded length of compressed bytes beginning with p[0..n); false if it is not recorded. Ours
 * always record it. 32 bytes suffice. */
bool stk_member_decoded_len(int compress, const uint8_t *p, size_t n, uint64_t *len);

/* ---- writing ---- */

struct stk_member_rules {
    const char *data_ext; /* of `data` under a key without an extension: "data", or "" for none */
    bool no_label;        /* the key's directory is the class already */
    int compress, level;  /* enum stk_filter_id or 0: every member but the label */
};

struct stk_member {
    const char *name; /* not terminated */
    size_t name_len;
    const void *head; /* precedes data: the header of an array. head_len may be 0. */
    size_t head_len;
    const void *data;
    size_t len;
    /* During construction: the field, the offsets of the above in text and packed, and the length
     * of the name without the compression suffix. */
    const struct stk_field *field;
    size_t name_at, head_at, packed_at, plain_len;
};

/* The members of one sample, sorted by name, no name twice. */
struct stk_members {
    struct stk_member *item; /* name, head, data borrowed: valid until release or the sample's */
    size_t n, cap;
    struct stk_buf text, packed;
    struct stk_buf full; /* a byte per member: 1 if its short name would be misread */
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
/* If the key's extension will determine the payload's kind (in a tar): refuses a payload of another
 * kind, which could not be read again. */
int stk_members_check_payload(const struct stk_sample *s, struct stk_err *err);

/* prepare() of formats made of members: refuses lists with the reason, and sets whether samples
 * take several members. */
int stk_members_prepare(struct stk_write_config *cfg, struct stk_err *err);

#endif
