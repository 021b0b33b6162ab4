/* example.h - what the reading and the writing half of tf.train.Example share. */
#ifndef STK_FORMAT_CODEC_EXAMPLE_H
#define STK_FORMAT_CODEC_EXAMPLE_H

#include "format/sample.h"
#include "format/codec/wire.h"

/* Members of the oneof in message Feature (feature.proto), and a FeatureList beside them. */
enum stk_feature_kind {
    STK_FEATURE_NONE = 0, /* the oneof is not set: legal, means no value */
    STK_FEATURE_BYTES = 1,
    STK_FEATURE_FLOAT = 2,
    STK_FEATURE_INT64 = 3,
    STK_FEATURE_STEPS = 4,
};

/* Guards against records made to blow up in memory: a feature takes 5 bytes stored, 100 here. */
#define STK_EXAMPLE_MAX_FEATURES (1u << 16)

/* Companions: an Example has only lists of bytes, float32 and int64. Features NAME/shape (int64
 * list) and NAME/dtype (text: "uint8", …, "json") hold the rest. */
#define STK_EXAMPLE_SHAPE      "/shape"
#define STK_EXAMPLE_DTYPE      "/dtype"
#define STK_EXAMPLE_SUFFIX_LEN 6 /* of both */

/* One entry of the map of features, as found in the record. All pointers go into the record. */
struct stk_feature {
    const char *name;
    size_t name_len;
    const uint8_t *body; /* the part of the Feature message that determines its kind, or the
                          * FeatureList */
    size_t body_len;
    size_t count;       /* values; steps of a FeatureList */
    const uint8_t *run; /* the last value (bytes) or packed run */
    size_t run_len;
    uint32_t runs; /* floats: 1 if all values are in one piece */
    uint8_t kind;  /* enum stk_feature_kind */
    bool gone;     /* overridden by a later one, used as the key, or a companion */
    struct stk_feature *shape, *dtype; /* companions */
    struct stk_value *value;           /* when already made */
};

/* The scanners return NULL, or the error as text. They set *odd if there are fields that
 * feature.proto does not have (legal, but not ours). */
/* Determines kind and count of the Feature message p; keeps the name. */
const char *stk_feature_scan(struct stk_feature *f, const uint8_t *p, size_t len, bool *odd);
/* One entry of map<string, Feature>, or with steps of map<string, FeatureList>. */
const char *stk_feature_scan_entry(struct stk_feature *f, const uint8_t *p, size_t len, bool steps,
                                   bool *odd);

/* The values of a scanned feature one by one, over all its list messages: 1, 0 at the end. A value
 * is a byte string, one number, or a packed run of numbers. */
struct stk_feature_cursor {
    struct stk_wire feature, list;
    uint8_t kind;
};

struct stk_feature_cursor stk_feature_cursor(const struct stk_feature *f);
int stk_feature_next(struct stk_feature_cursor *c, struct stk_wire_field *v, bool *odd);

/* True for valid values of NAME/dtype. */
bool stk_dtype_known(const void *p, size_t n);
/* For a record too large to examine whole: guesses from its first n bytes and its length;
 * "example", "sequence", or NULL. */
const char *stk_example_guess_large(const uint8_t *p, size_t n, uint64_t total);
int stk_example_bid(const uint8_t *p, size_t n);
int stk_sequence_bid(const uint8_t *p, size_t n);
int stk_example_implode(const struct stk_sample *s, struct stk_buf *out, struct stk_err *err);
int stk_sequence_implode(const struct stk_sample *s, struct stk_buf *out, struct stk_err *err);

#endif
