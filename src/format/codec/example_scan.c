/*
 * example_scan.c - the wire format of tf.train.Example: its features with their kinds and counts.
 * Copies and allocates nothing: struct stk_feature points into the record. Also the bids, which
 * accept only records in which the two .proto files explain every byte.
 */
#include "format/codec/example.h"

/* Next value of a feature over all its list messages (protobuf merges repeated ones). */
int stk_feature_next(struct stk_feature_cursor *c, struct stk_wire_field *v, bool *odd)
{
    for (;;) {
        int r = stk_wire_next(&c->list, v);
        if (r < 0 || (r > 0 && v->number == 1))
            return r;
        if (r > 0) {
            *odd = true;
            continue;
        }
        struct stk_wire_field list;
        r = stk_wire_next(&c->feature, &list);
        if (r <= 0)
            return r;
        if (list.number == c->kind && list.type == STK_WIRE_LEN)
            c->list = stk_wire_of(list.p, list.len);
    }
}

struct stk_feature_cursor stk_feature_cursor(const struct stk_feature *f)
{
    return (struct stk_feature_cursor){
        .feature = stk_wire_of(f->body, f->body_len), .list = {f->body, f->body}, .kind = f->kind};
}

/* Number of varints in a packed run; SIZE_MAX: the last one is cut off. */
static size_t count_varints(const uint8_t *p, size_t n)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += p[i] < 0x80;
    return n && p[n - 1] >= 0x80 ? SIZE_MAX : count;
}

static const char *count_value(struct stk_feature *f, const struct stk_wire_field *v)
{
    size_t n = 1;
    if (f->kind == STK_FEATURE_BYTES) {
        if (v->type != STK_WIRE_LEN)
            return "a value of a bytes list is not bytes";
    } else if (v->type == STK_WIRE_LEN && f->kind == STK_FEATURE_FLOAT) {
        if (v->len % 4)
            return "a packed float list is not a multiple of 4 bytes";
        n = v->len / 4;
    } else if (v->type == STK_WIRE_LEN) {
        n = count_varints(v->p, v->len);
        if (n == SIZE_MAX)
            return "a packed int64 list ends within a value";
    } else if (v->type != (f->kind == STK_FEATURE_FLOAT ? STK_WIRE_FIXED32 : STK_WIRE_VARINT)) {
        return "a value has the wrong wire type for its list";
    }
    f->run = v->p;
    f->run_len = v->len;
    f->runs += f->runs < UINT32_MAX;
    f->count += n;
    return NULL;
}

const char *stk_feature_scan(struct stk_feature *f, const uint8_t *p, size_t len, bool *odd)
{
    struct stk_wire w = stk_wire_of(p, len);
    struct stk_wire_field v;
    int r;
    *f = (struct stk_feature){.name = f->name, .name_len = f->name_len, .body = p, .body_len = len};
    for (const uint8_t *at = w.p; (r = stk_wire_next(&w, &v)) > 0; at = w.p) {
        if (v.number > STK_FEATURE_INT64) {
            *odd = true;
            continue;
        }
        if (v.type != STK_WIRE_LEN)
            return "a feature's list is not a message";
        if (v.number == f->kind)
            continue;
        /* A oneof: the last member wins. */
        f->kind = (uint8_t)v.number;
        f->body = at;
        f->body_len = (size_t)(w.end - at);
    }
    if (r < 0)
        return "a feature is cut off or not a message";
    struct stk_feature_cursor c = stk_feature_cursor(f);
    const char *why = NULL;
    while (!why && (r = stk_feature_next(&c, &v, odd)) > 0)
        why = count_value(f, &v);
    return r < 0 ? "a feature's list is cut off or not a message" : why;
}

static const char *scan_steps(struct stk_feature *f, const uint8_t *p, size_t len, bool *odd)
{
    struct stk_wire w = stk_wire_of(p, len);
    struct stk_wire_field v;
    int r;
    *f = (struct stk_feature){.name = f->name,
                              .name_len = f->name_len,
                              .kind = STK_FEATURE_STEPS,
                              .body = p,
                              .body_len = len};
    while ((r = stk_wire_next(&w, &v)) > 0) {
        struct stk_feature step = {0};
        if (v.number != 1) {
            *odd = true;
            continue;
        }
        f->count++;
        const char *why = v.type == STK_WIRE_LEN ? stk_feature_scan(&step, v.p, v.len, odd)
                                                 : "a step of a feature list is not a message";
        if (why)
            return why;
    }
    return r < 0 ? "a feature list is cut off or not a message" : NULL;
}

/* One entry of map<string, Feature> (or FeatureList). */
const char *stk_feature_scan_entry(struct stk_feature *f, const uint8_t *p, size_t len, bool steps,
                                   bool *odd)
{
    struct stk_wire w = stk_wire_of(p, len);
    struct stk_wire_field v;
    const char *why = NULL;
    int r;
    *f = (struct stk_feature){.name = "", .kind = steps ? STK_FEATURE_STEPS : STK_FEATURE_NONE};
    while (!why && (r = stk_wire_next(&w, &v)) > 0) {
        if (v.number > 2)
            *odd = true;
        else if (v.type != STK_WIRE_LEN)
            why = "a map entry's key or value has the wrong wire type";
        else if (v.number == 2)
            why = steps ? scan_steps(f, v.p, v.len, odd) : stk_feature_scan(f, v.p, v.len, odd);
        else if (v.len && !stk_is_text(v.p, v.len))
            why = "a feature's name is not UTF-8 text";
        else
            f->name = (const char *)v.p, f->name_len = v.len;
    }
    return why ? why : r < 0 ? "a map entry is cut off or not a message" : NULL;
}

/* Number of features with a value in a strictly valid Features (or FeatureLists) message, or -1. */
static int count_strict(const uint8_t *p, size_t n, bool steps)
{
    struct stk_wire w = stk_wire_of(p, n);
    struct stk_wire_field v;
    bool odd = false;
    int r, count = 0;
    while ((r = stk_wire_next(&w, &v)) > 0) {
        struct stk_feature f;
        if (v.number != 1 || v.type != STK_WIRE_LEN ||
            stk_feature_scan_entry(&f, v.p, v.len, steps, &odd) || odd || !f.name_len ||
            count >= (int)STK_EXAMPLE_MAX_FEATURES)
            return -1;
        count += f.kind != STK_FEATURE_NONE;
    }
    return r < 0 ? -1 : count;
}

static int bid_as(const uint8_t *p, size_t n, bool sequence)
{
    struct stk_wire w = stk_wire_of(p, n);
    struct stk_wire_field v;
    int r, seen[3] = {0}, values = 0;
    while ((r = stk_wire_next(&w, &v)) > 0) {
        if (v.number > (sequence ? 2 : 1) || v.type != STK_WIRE_LEN || seen[v.number]++)
            return 0;
        int count = count_strict(v.p, v.len, v.number == 2);
        if (count < 0)
            return 0;
        values += count;
    }
    /* A SequenceExample without feature lists has the bytes of an Example. */
    return r < 0 || !values || (sequence && !seen[2]) ? 0 : 90;
}

int stk_example_bid(const uint8_t *p, size_t n)
{
    return bid_as(p, n, false);
}

int stk_sequence_bid(const uint8_t *p, size_t n)
{
    return bid_as(p, n, true);
}

/* Skips tag and length of a LEN field of this number; *len: the length. */
static bool take_head(struct stk_wire *w, unsigned number, uint64_t *len)
{
    return w->p < w->end && *w->p++ == (number << 3 | STK_WIRE_LEN) && stk_wire_varint(w, len);
}

/* True if a map entry begins here, within `room` bytes, with text as its key. */
static bool entry_begins(struct stk_wire *w, uint64_t room)
{
    uint64_t entry, key;
    const uint8_t *at = w->p;
    if (!take_head(w, 1, &entry) || (uint64_t)(w->p - at) > room)
        return false;
    return entry <= room - (uint64_t)(w->p - at) && take_head(w, 1, &key) && key && key < entry &&
           key <= (size_t)(w->end - w->p) && stk_is_text(w->p, (size_t)key);
}

const char *stk_example_guess_large(const uint8_t *p, size_t n, uint64_t total)
{
    struct stk_wire w = stk_wire_of(p, n);
    uint64_t features, lists;
    if (!take_head(&w, 1, &features) || features > total - (uint64_t)(w.p - p))
        return NULL;
    uint64_t end = (uint64_t)(w.p - p) + features;
    if (features && !entry_begins(&w, features))
        return NULL;
    if (end == total)
        return features ? "example" : NULL;
    if (end >= n)
        return NULL;
    w = stk_wire_of(p + end, n - (size_t)end);
    if (!take_head(&w, 2, &lists) || lists != total - (uint64_t)(w.p - p))
        return NULL;
    return entry_begins(&w, lists) ? "sequence" : NULL;
}
