/* data.h - the results of inspect, load, pack and verify: what was found in a dataset, and how fast. */
#ifndef STK_REPORT_DATA_H
#define STK_REPORT_DATA_H

#include "base/stats.h"
#include "dataset/dataset.h"
#include "dataset/inspect.h"
#include "dataset/verify.h"
#include "io/io.h"
#include "load/plan.h"
#include "pack/pack.h"
#include "result/field.h"
#include "result/screen.h"

/* ---- damage and notes of a dataset ----------------------------------------------------------- */

/* A table of problems, of a struct stk_problems; and how many there are in all, kept or not. */
extern const struct stk_result_field stk_problem_fields[];
void stk_put_problems(const void *problems, struct stk_jw *w);
/* Lines "file:offset: what". */
void stk_draw_problems(const struct stk_result_field *f, const struct stk_jval *obj, struct stk_screen *s);
#define STK_PROBLEM_FIELDS(key, title_, type, member)                                              \
    {key "_total", title_, STK_U_COUNT, STK_FROM(type, member.count), .flags = STK_F_IF_SET},      \
    {                                                                                              \
        key, title_, STK_U_TABLE, STK_FROM_AS(STRUCT, type, member), .put = stk_put_problems,      \
            .of = stk_problem_fields, .draw = stk_draw_problems, .most = 20                        \
    }

/* The same as members "problems_total" and "problems" of a group, of a struct stk_problems. */
extern const struct stk_result_field stk_problems_of[];

/* What was taken as something else, and what was left out, of a struct stk_notes. */
extern const struct stk_result_field stk_taken_fields[], stk_left_out_fields[];
void stk_put_taken(const void *notes, struct stk_jw *w);
void stk_put_left_out(const void *notes, struct stk_jw *w);
void stk_draw_taken(const struct stk_result_field *f, const struct stk_jval *obj, struct stk_screen *s);
void stk_draw_left_out(const struct stk_result_field *f, const struct stk_jval *obj, struct stk_screen *s);
/* Where the struct stk_notes is: STK_FROM_AS(STRUCT, …) or (POINTER, …). */
#define STK_NOTE_FIELDS(...)                                                                       \
    {"taken", "taken as", STK_U_TABLE, __VA_ARGS__, "What data was taken to be that does not say it.",   \
     .put = stk_put_taken, .of = stk_taken_fields, .draw = stk_draw_taken},                           \
    {                                                                                              \
        "left_out", "left out", STK_U_TABLE, __VA_ARGS__, "Sound, but not samples of this dataset.",     \
            .put = stk_put_left_out, .of = stk_left_out_fields, .draw = stk_draw_left_out             \
    }

/* "2 links, 1 dataset": what was left out, by kind. */
void stk_notes_summary(const struct stk_notes *s, struct stk_buf *out);

/* ---- inspect --------------------------------------------------------------------------------- */

struct stk_inspect_shown {
    const char *path; /* as the user named it */
    const struct stk_inspect *in;
    const struct stk_notes *notes;
    const struct stk_problems *problems;
    const struct stk_sample *first; /* NULL: there is none, or it cannot be read */
};
extern const struct stk_result_kind stk_inspect_kind; /* of a struct stk_inspect_shown */

/* sample.c: one sample, by its number. */
struct stk_sample_shown {
    const struct stk_sample *sample;
    uint64_t number;
};
extern const struct stk_result_kind stk_sample_kind; /* of a struct stk_sample_shown */
/* Its fields, as the rows of a table: kind, type, shape, size, a preview. */
extern const struct stk_result_field stk_sample_fields[];
void stk_put_sample_fields(const struct stk_sample *s, struct stk_jw *w);

/* ---- load; docs/loader.md defines each number ------------------------------------------------ */

/* Counters at one moment. */
struct stk_load_counts {
    double at_s;
    struct stk_loader_stats loader;
    int64_t device_bytes; /* read from storage, by the kernel's count; -1: unknown */
    double cpu_s;
};

struct stk_load_epoch {
    uint64_t epoch, batches, samples, bytes_asked, bytes_read;
    int64_t device_bytes;
    double seconds, wait_s;
    uint64_t p50_ns, p99_ns, max_ns;
};

struct stk_load_result {
    const char *path;       /* as the user named it */
    struct stk_dataset *ds; /* borrowed, as ld, notes and options */
    const struct stk_notes *notes;
    struct stk_loader *ld;
    const struct stk_loader_options *options;
    struct stk_rank rank;
    struct stk_io_choice storage; /* of the data, and how much of it was cached at the start */

    struct stk_load_counts start, end;
    double first_batch_s; /* since the loader was opened; 0: no batch came */
    uint64_t wait_ns;     /* in stk_loader_wait() and stk_loader_next() */
    uint64_t batches, samples;
    struct stk_histogram time; /* between two batches, ns */
    struct stk_buf epochs;     /* struct stk_load_epoch */
    bool hashed;
    uint64_t content; /* if hashed: sum of the samples' hashes */

    bool has_mixing;
    struct stk_mixing mixing;
    uint64_t block, window; /* of the order, in samples and blocks */
};

extern const struct stk_result_kind stk_load_kind; /* of a struct stk_load_result */

/* Samples passed over, and damage found when the dataset was listed. */
uint64_t stk_load_nproblems(const struct stk_load_result *r);
/* Bytes that came from storage between two moments; -1: not known. */
int64_t stk_load_device(const struct stk_load_result *r, const struct stk_load_counts *from,
                        const struct stk_load_counts *to);

/* ---- pack ------------------------------------------------------------------------------------ */

extern const struct stk_result_kind stk_pack_kind; /* of a struct stk_pack_result */
/* "a dataset of 40 samples: 8 more than now". Returns buf. */
const char *stk_pack_replaced(const struct stk_pack_result *r, char *buf, size_t n);

/* ---- verify ---------------------------------------------------------------------------------- */

extern const struct stk_result_kind stk_verify_kind; /* of a struct stk_verify_result */

#endif
