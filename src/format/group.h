/*
 * group.h - members of one stem as one sample: WebDataset's rule, for tar, grouped folders and
 * grouped squashfs images.
 *
 * Which field a member is depends on its neighbours: "x.json" is the field "x", but "x.json" beside
 * "x" or "x.txt" keeps its whole extension as its name. So a sample's members are gathered and only
 * listed when the next stem begins; their names never depend on other samples.
 */
#ifndef STK_FORMAT_GROUP_H
#define STK_FORMAT_GROUP_H

#include "format/format.h"

/* Why a member with a repeated extension is left out. */
#define STK_GROUP_TWICE "its sample already has a member with that ending, which is the one taken"

/* Number of extensions distinguished in trees of files. */
#define STK_GROUP_EXTS 4096u

struct stk_grouper {
    struct stk_lister *lister;
    bool apart;      /* a member without an extension is its own sample, field "data" */
    size_t max_exts; /* number of extensions distinguished; others are taken as none */
    /* The sample being gathered. */
    bool open;
    uint64_t samples;
    struct stk_buf stem, members, parts, names;
    size_t nlone;
    /* Extensions met so far. */
    struct group_ext *ext;
    size_t nexts, next_ext;
    const char **word; /* their texts and names, each once */
    size_t *word_len, nwords;
    struct stk_buf scratch, words;
};

/* max_exts: at most 65535. Caller releases with stk_grouper_release(). */
void stk_grouper_init(struct stk_grouper *g, struct stk_lister *l, bool apart, size_t max_exts);
void stk_grouper_release(struct stk_grouper *g);
/* True when a member of that name does not belong to the sample being gathered. */
bool stk_grouper_is_new(const struct stk_grouper *g, const char *name, size_t len);
/* Takes a member; its parts follow. Lists the open sample first if the member does not belong to
 * it. 1: the sample already has that extension, and the member was not taken. */
int stk_grouper_member(struct stk_grouper *g, const char *name, size_t len, struct stk_err *err);
/* A part of the last member, like stk_list_part(); like stk_list_part_bytes() if extent is
 * negative. */
int stk_grouper_part(struct stk_grouper *g, int64_t extent, uint64_t off, uint64_t len,
                     struct stk_err *err);
/* Lists the sample being gathered, and clears it. */
int stk_grouper_flush(struct stk_grouper *g, struct stk_err *err);

#endif
