/* fuzz_tier.c - an arbitrary list and an arbitrary ledger of a staged copy. The first byte says
 * which; check values are made to fit, so that the fuzzer gets past them. */
#include "harness.h"

#include "base/hash.h"
#include "base/own.h"
#include "tier/priv.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define HEAD      48 /* of a list; its hash is in the last 8 bytes */
#define TWO_PARTS (STK_TIER_PARCEL + 100u)

static void fit_hash(uint8_t *p, size_t n)
{
    struct stk_hash h;
    if (n < HEAD)
        return;
    memcpy(p, "STKTLIST", 8);
    stk_hash_init(&h);
    stk_hash_update(&h, p, HEAD - 8);
    stk_hash_update(&h, p + HEAD, n - HEAD);
    uint64_t hash = stk_hash_final(&h);
    memcpy(p + HEAD - 8, &hash, sizeof hash);
}

static void touch_source(const struct stk_tier_source *src)
{
    stk_fuzz_touch(src->path, strlen(src->path));
    for (uint64_t i = 0; i < src->count; i++) {
        const char *name = src->file[i].name;
        stk_fuzz_touch(name, strlen(name));
        if (name[0] == '/' || strcmp(name, "..") == 0 || strncmp(name, "../", 3) == 0 ||
            strstr(name, "/../"))
            stk_fuzz_broken("a list names only files below its folder");
    }
}

static void try_list(uint8_t *p, size_t n, bool fit)
{
    struct stk_tier_source src, back;
    struct stk_buf text = STK_BUF_INIT;
    if (fit)
        fit_hash(p, n);
    if (stk_tier_list_parse(p, n, &src, "list", NULL) < 0)
        return;
    touch_source(&src);
    if (stk_tier_list_write(&src, &text, NULL) == 0) {
        if (stk_tier_list_parse(text.data, text.len, &back, "list", NULL) < 0 ||
            back.count != src.count)
            stk_fuzz_broken("a list that is written can be read");
        free(back.file);
    }
    stk_buf_release(&text);
    free(src.file);
}

/* Bytes become records and entries, sealed or not; readers must see no parcel of a file that was
 * never written. */
static void try_ledger(struct stk_tier_set *s, const uint8_t *p, size_t n, bool fit)
{
    struct stk_ledger_record r;
    if (fit && n >= sizeof r) {
        memcpy(&r, p, sizeof r);
        (void)stk_ledger_put_record(s, 0, &r, NULL);
        for (uint64_t i = 0; i < 2 && n >= sizeof r + 8 * (i + 1); i++)
            (void)stk_ledger_put_entry(s, 0, i, stk_le64(p + sizeof r + 8 * i), r.tag, NULL);
    } else if (pwrite(s->ledger, p, n < 4096 ? n : 4096, 64) < 0) {
        return;
    }
}

static void read_ledger(struct stk_tier *t)
{
    struct stk_tier_set *s = NULL;
    struct stk_tier_state st;
    if (stk_tier_set_find(t, 7, &s, NULL) != 1)
        return;
    (void)stk_tier_preload(s, NULL);
    for (uint64_t i = 0; i < 2; i++)
        if (stk_tier_has(s, 0, i))
            stk_fuzz_broken("a parcel that was never written is not there");
    if (stk_tier_state(s, &st, NULL) == 0 && st.bytes_there > st.bytes)
        stk_fuzz_broken("no more is there than there is");
    stk_tier_set_close(s);
}

static void with_ledger(const uint8_t *p, size_t n, bool fit)
{
    struct stk_tier_file file = {.name = "f", .size = TWO_PARTS};
    struct stk_tier_source src = {
        .path = "/s", .name = "s", .identity = 7, .file = &file, .count = 1};
    struct stk_tier_options make = {.make = true}, look = {0};
    struct stk_tier *t = NULL, *reader = NULL;
    struct stk_tier_set *s = NULL;
    char path[4200];
    snprintf(path, sizeof path, "%s/tier", stk_fuzz_folder());
    if (stk_tier_open(path, &make, &t, NULL) < 0)
        return;
    if (stk_tier_set_open(t, &src, &s, NULL) == 0) {
        try_ledger(s, p, n, fit);
        if (stk_tier_open(path, &look, &reader, NULL) == 0)
            read_ledger(reader);
        stk_tier_close(reader);
        stk_tier_set_close(s);
    }
    stk_tier_close(t);
    (void)stk_remove_tree(path, NULL);
}

int fuzz_tier(const uint8_t *data, size_t size)
{
    uint8_t *copy = size > 1 ? malloc(size - 1) : NULL;
    if (!copy)
        return 0;
    memcpy(copy, data + 1, size - 1);
    if (data[0] % 4 < 2)
        try_list(copy, size - 1, data[0] % 2);
    else if (stk_hash64(data, size) % 16 == 0) /* files cost more: one in some, always the same */
        with_ledger(copy, size - 1, data[0] % 2);
    free(copy);
    return 0;
}
