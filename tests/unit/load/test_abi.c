/* test_abi.c - programs that were built with another header than the library, and calls that make
 * no sense: neither may crash, and the first must work. */
#include "check.h"
#include "recordset.h"
#include "stoker.h"

#include <unistd.h>

#define N 40

static struct stk_dataset *open_set(void)
{
    struct stk_dataset *ds = NULL;
    struct stk_open_options o = {.payload = "raw", .no_index_write = true};
    CHECK_INT(stk_dataset_open(scratch_path("set"), &o, &ds, NULL), 0);
    return ds;
}

/* ---- layout ---- */

/* A program that is not built again reads its members where they were. Members are only ever added
 * behind the last one, at a multiple of 8, so that the size of each former struct is known here. */
#define AT(S, member, where) _Static_assert(offsetof(struct S, member) == (where), #S " " #member)
#define SIZE(S, bytes)       _Static_assert(sizeof(struct S) == (bytes), "size of " #S)

#if __SIZEOF_POINTER__ == 8
SIZE(stk_err, 2096); /* these four never change */
SIZE(stk_value, 104);
SIZE(stk_span, 16);
SIZE(stk_column, 136);
AT(stk_err, offset, 8);
AT(stk_err, path, 16);
AT(stk_err, what, 1040);
AT(stk_value, dim, 8);
AT(stk_value, data, 72);
AT(stk_value, item, 88);
AT(stk_field, value, 16);
AT(stk_column, dim, 16);
AT(stk_column, data, 80);
AT(stk_column, value, 96);
AT(stk_batch, n, 16);
AT(stk_batch, id, 24);
AT(stk_batch, column, 56);
AT(stk_note, kind, 8);
AT(stk_note, nnames, 48);
AT(stk_problem, code, 8);
AT(stk_problem, offset, 16);
AT(stk_problem, what, 24);
AT(stk_open_options, jobs, 24);
AT(stk_open_options, header, 32);
AT(stk_open_options, progress, 56);
AT(stk_open_options, pass_over, 72);
AT(stk_open_options, follow_links, 96);
AT(stk_open_options, trust, 104);
AT(stk_loader_options, seed, 16);
AT(stk_loader_options, rank, 56);
AT(stk_loader_options, memory_bytes, 72);
AT(stk_loader_options, io, 88);
AT(stk_loader_options, state, 112);
AT(stk_loader_options, keys, 120);
AT(stk_loader_options, user, 144);
AT(stk_loader_options, tier, 152);
AT(stk_loader_options, tier_fill, 168);
AT(stk_loader_stats, bytes_asked, 48);
AT(stk_loader_stats, depth, 96);
AT(stk_loader_stats, io, 128);
AT(stk_loader_stats, left_out, 184);
AT(stk_loader_stats, source_bytes, 192);
AT(stk_loader_stats, tier_ended, 240);
AT(stk_pack_options, shards, 24);
AT(stk_pack_options, shuffle, 48);
AT(stk_pack_options, on_error, 52);
AT(stk_pack_options, include, 56);
AT(stk_pack_options, user, 112);
AT(stk_verify_options, memory_bytes, 0);
AT(stk_result_stats, seconds, 96);
AT(stk_result_stats, was_there, 112);
AT(stk_rank, local_rank, 8);
AT(stk_rank, from, 16);
#endif

_Static_assert(STK_BOOL == 12 && STK_BF16 == 13 && STK_C128 == 17, "numbers of types");
_Static_assert(STK_SHUFFLE_NONE == 2 && STK_LAST_SHORT == 2 && STK_ON_ERROR_REPLACE == 2 &&
                   STK_VALUES == 3 && STK_LIST == 5 && STK_E_STOPPED == -8,
               "numbers of enums");

/* ---- shorter and longer structs ---- */

struct short_options { /* struct stk_loader_options, had it ended there */
    uint32_t batch;
    int shuffle;
    int last;
    int on_error;
    uint64_t seed;
};

static void shorter_options(void)
{
    struct stk_dataset *ds = open_set();
    struct {
        struct short_options o;
        uint8_t behind[400]; /* what stands there on the caller's stack is not looked at */
    } old = {.o = {.batch = 7, .shuffle = STK_SHUFFLE_NONE}};
    memset(old.behind, 0xa5, sizeof old.behind);
    struct stk_loader *ld = NULL;
    struct stk_batch *b = NULL;
    CHECK_INT(stk_loader_open_sized(ds, (const void *)&old, sizeof old.o, &ld, NULL), 0);
    CHECK_INT(stk_loader_next(ld, &b, NULL), 1);
    CHECK_INT(b->n, 7);
    stk_batch_release(b);
    stk_loader_close(ld);
    ld = NULL;
    CHECK_INT(stk_loader_open_sized(ds, (const void *)&old, 0, &ld, NULL), 0); /* all defaults */
    CHECK_INT(stk_loader_next(ld, &b, NULL), 1);
    CHECK_INT(b->n, 32);
    stk_batch_release(b);
    stk_loader_close(ld);
    stk_dataset_close(ds);
    const char *format = "tfrecord"; /* struct stk_open_options of one member */
    CHECK_INT(stk_dataset_open_sized(scratch_path("set"), (const void *)&format, sizeof format, &ds,
                                     NULL),
              0);
    CHECK_INT(stk_dataset_len(ds), N);
    stk_dataset_close(ds);
}

/* An option that the library does not have must not be ignored. */
static void longer_options(void)
{
    struct stk_dataset *ds = open_set(), *again = NULL;
    struct {
        struct stk_loader_options o;
        uint64_t later;
    } new = {.o = {.batch = 7}};
    struct stk_loader *ld = NULL;
    struct stk_err err = {0};
    CHECK_INT(stk_loader_open_sized(ds, &new.o, sizeof new, &ld, NULL), 0);
    stk_loader_close(ld);
    new.later = 1;
    CHECK_INT(stk_loader_open_sized(ds, &new.o, sizeof new, &ld, &err), STK_E_USAGE);
    CHECK(strstr(err.what, "later version") != NULL);
    struct {
        struct stk_open_options o;
        const char *later;
    } open = {.later = "x"};
    CHECK_INT(stk_dataset_open_sized(scratch_path("set"), &open.o, sizeof open, &again, NULL),
              STK_E_USAGE);
    CHECK_INT(stk_pack_sized(scratch_path("set"), scratch_path("no"), &open.o, sizeof open, NULL, 0,
                             NULL, NULL),
              STK_E_USAGE);
    CHECK(access(scratch_path("no"), F_OK) < 0);
    stk_dataset_close(ds);
}

/* A result must not be written past the caller's struct, nor leave part of it as it was. */
static void stats_of_any_size(void)
{
    struct stk_dataset *ds = open_set();
    struct stk_loader *ld = NULL;
    struct stk_batch *b;
    CHECK_INT(stk_loader_open(ds, &(struct stk_loader_options){.batch = 8}, &ld, NULL), 0);
    CHECK_INT(stk_loader_next(ld, &b, NULL), 1);
    stk_batch_release(b);
    uint64_t two[3] = {1, 1, 77};
    stk_loader_stats_sized(ld, (void *)two, 16);
    CHECK(two[0] == 8 && two[1] == 1 && two[2] == 77);
    struct {
        struct stk_loader_stats s;
        uint64_t later;
    } more = {.later = 77};
    stk_loader_stats_sized(ld, &more.s, sizeof more);
    CHECK(more.s.batches == 1 && more.later == 0);
    uint32_t rank[3] = {9, 9, 9};
    CHECK_INT(stk_rank_detect_sized((void *)rank, 8, NULL), 0);
    CHECK(rank[1] >= 1 && rank[0] < rank[1] && rank[2] == 9);
    stk_loader_close(ld);
    stk_dataset_close(ds);
}

/* ---- NULL, and twice ---- */

static void null_is_harmless(void)
{
    struct stk_err err = {0};
    struct stk_batch *b;
    struct stk_loader *ld;
    struct stk_dataset *ds;
    struct stk_loader_stats st = {.samples = 1};
    struct stk_result_stats rs = {.samples = 1};
    char *text = NULL, buf[8] = "x";
    CHECK_STR(stk_err_text(NULL, buf, sizeof buf), "");
    CHECK_STR(stk_err_text(&err, NULL, 0), "");
    stk_sample_free(NULL);
    CHECK_STR(stk_sample_key(NULL, NULL), "");
    CHECK(!stk_sample_nfields(NULL) && !stk_sample_field(NULL, 0) && !stk_sample_get(NULL, "x"));
    CHECK_INT(stk_dataset_open(NULL, NULL, &ds, &err), STK_E_USAGE);
    CHECK_INT(stk_dataset_open(scratch_path("set"), NULL, NULL, &err), STK_E_USAGE);
    stk_dataset_close(NULL);
    CHECK(!stk_dataset_len(NULL) && !stk_dataset_note(NULL, 0) && !stk_dataset_classes(NULL, NULL));
    CHECK_STR(stk_dataset_format(NULL), "");
    CHECK_INT(stk_loader_open(NULL, NULL, &ld, &err), STK_E_USAGE);
    CHECK_INT(stk_loader_next(NULL, &b, &err), STK_E_USAGE);
    CHECK_INT(stk_loader_state(NULL, &text, &err), STK_E_USAGE);
    CHECK_INT(stk_loader_wait(NULL, 0), 1);
    CHECK(!stk_loader_steps(NULL) && !stk_loader_problem(NULL, 0) && !stk_loader_warning(NULL, 0));
    stk_loader_stats(NULL, &st);
    stk_loader_stats(NULL, NULL);
    stk_result_stats(NULL, &rs);
    CHECK(!st.samples && !rs.samples);
    stk_batch_release(NULL);
    stk_loader_close(NULL);
    CHECK_INT(stk_pack(NULL, "x", NULL, NULL, NULL, &err), STK_E_USAGE);
    CHECK_INT(stk_verify(scratch_path("set"), NULL, NULL, NULL, &err), STK_E_USAGE);
    CHECK(!stk_result_problem(NULL, 0) && !stk_result_note(NULL, 0));
    stk_result_free(NULL);
    CHECK_INT(stk_states_merge(NULL, 0, &text, &err), STK_E_USAGE);
    CHECK_INT(stk_states_merge((const char *[]){NULL}, 1, &text, &err), STK_E_USAGE);
    CHECK_INT(stk_rank_detect(NULL, &err), 0);
    stk_phase_begin(NULL);
}

static void twice_is_harmless(void)
{
    struct stk_dataset *ds = open_set(), *sub = NULL;
    struct stk_loader *ld = NULL;
    struct stk_batch *a, *b;
    struct stk_sample *s = stk_sample_new();
    struct stk_result *r = NULL;
    CHECK_INT(stk_dataset_slice(ds, 0, 1, 9, &sub, NULL), 0);
    CHECK_INT(stk_loader_open(sub, &(struct stk_loader_options){.batch = 2}, &ld, NULL), 0);
    CHECK(stk_loader_next(ld, &a, NULL) == 1 && stk_loader_next(ld, &b, NULL) == 1);
    CHECK_INT(stk_verify(scratch_path("set"), NULL, NULL, &r, NULL), 0);
    for (int i = 0; i < 2; i++) {
        stk_dataset_close(ds);
        stk_dataset_close(sub);
        stk_batch_release(a); /* while the loader is open */
        stk_sample_free(s);
        stk_result_free(r);
    }
    stk_loader_close(ld);
    stk_loader_close(ld);
    stk_batch_release(b); /* the last one takes the loader with it */
    stk_batch_release(b);
    stk_batch_release(a);
    stk_loader_close(ld);
}

/* Thousands of handles, released in another order, each once. */
static void many_handles(void)
{
    enum { MANY = 3000 };
    static struct stk_sample *s[MANY];
    for (size_t i = 0; i < MANY; i++)
        s[i] = stk_sample_new();
    for (size_t i = 0; i < MANY; i++) {
        stk_sample_free(s[i * 7 % MANY]);
        stk_sample_free(s[i * 7 % MANY]);
    }
}

/* ---- what there is besides ---- */

static void versions(void)
{
    char text[40];
    snprintf(text, sizeof text, "%d.%d.%d", STK_VERSION_MAJOR, STK_VERSION_MINOR,
             STK_VERSION_PATCH);
    CHECK_STR(STK_VERSION, text);
    CHECK_STR(stk_version(), STK_VERSION);
    CHECK_INT(stk_version_number(), STK_VERSION_NUMBER);
}

static void types(void)
{
    CHECK_STR(stk_dtype_name(STK_BF16), "bfloat16");
    CHECK_STR(stk_dtype_name(STK_C64), "complex64");
    CHECK_STR(stk_dtype_name((enum stk_dtype)18), "?");
    CHECK_INT(stk_dtype_size(STK_BF16), 2);
    CHECK_INT(stk_dtype_size(STK_F8_E4M3) + stk_dtype_size(STK_F8_E5M2), 2);
    CHECK_INT(stk_dtype_size(STK_C128), 16);
    CHECK_INT(stk_dtype_size((enum stk_dtype)18), 0);
}

static void pack_and_verify(void)
{
    char dst[300];
    snprintf(dst, sizeof dst, "%s", scratch_path("out.tar"));
    struct stk_pack_options o = {.shards = 2, .payload = "auto", .settings_json = "{\"by\": 1}"};
    struct stk_open_options open = {.payload = "raw"};
    struct stk_result *r = NULL;
    struct stk_result_stats st;
    struct stk_err err = {0};
    CHECK_INT(stk_pack(scratch_path("set"), dst, &open, &o, &r, &err), 0);
    CHECK_STR(err.what, "");
    stk_result_stats(r, &st);
    CHECK_STR(st.format, "tar"); /* by its ending */
    CHECK(st.samples == N && st.shards == 2 && st.bytes_written > 0 && st.whole && !st.was_there);
    stk_result_free(r);
    CHECK_INT(stk_pack(scratch_path("set"), dst, &open, &o, &r, &err), STK_E_EXISTS);
    CHECK(r == NULL);
    o.settings_json = "not json";
    CHECK_INT(stk_pack(scratch_path("set"), dst, NULL, &o, NULL, &err), STK_E_USAGE);
    o = (struct stk_pack_options){.on_error = STK_ON_ERROR_REPLACE, .force = true};
    CHECK_INT(stk_pack(scratch_path("set"), dst, NULL, &o, NULL, &err), STK_E_USAGE);
    CHECK_INT(stk_verify(dst, NULL, NULL, &r, &err), 0);
    stk_result_stats(r, &st);
    CHECK(st.samples == N && st.whole && st.bytes_checked > 0 && !stk_result_problem(r, 0));
    stk_result_free(r);
    scratch_file("bad/0.tfrecord", "nothing of the kind, but long enough", 36);
    open = (struct stk_open_options){.format = "tfrecord"};
    CHECK_INT(stk_verify(scratch_path("bad"), &open, NULL, &r, &err), 0);
    stk_result_stats(r, &st);
    CHECK(!st.whole && st.problems > 0);
    const struct stk_problem *p = stk_result_problem(r, 0);
    CHECK(p && p->code == STK_E_CORRUPT && strstr(p->path, "0.tfrecord") && *p->what);
    CHECK(!stk_result_problem(r, (size_t)st.problems));
    stk_result_free(r);
}

static void states(void)
{
    struct stk_dataset *ds = open_set();
    char *state[2] = {0}, *all = NULL;
    for (uint32_t i = 0; i < 2; i++) {
        struct stk_loader *ld = NULL;
        struct stk_batch *b;
        struct stk_loader_options o = {.batch = 4, .rank = i, .world = 2};
        CHECK_INT(stk_loader_open(ds, &o, &ld, NULL), 0);
        CHECK_INT(stk_loader_next(ld, &b, NULL), 1);
        stk_batch_release(b);
        CHECK_INT(stk_loader_state(ld, &state[i], NULL), 0);
        stk_loader_close(ld);
    }
    CHECK_INT(stk_states_merge((const char *const *)state, 2, &all, NULL), 0);
    struct stk_loader *ld = NULL;
    struct stk_loader_options o = {.batch = 4, .state = all};
    CHECK_INT(stk_loader_open(ds, &o, &ld, NULL), 0);
    CHECK_INT(stk_loader_steps(ld), (N - 8) / 4);
    stk_loader_close(ld);
    free(all);
    CHECK_INT(stk_states_merge((const char *[]){state[0], "{}"}, 2, &all, NULL), STK_E_CORRUPT);
    free(state[0]);
    free(state[1]);
    stk_dataset_close(ds);
}

int main(int argc, char **argv)
{
    scratch_begin();
    CHECK_BEGIN(argc, argv);
    make_set("set", N, 2, false);
    CHECK_RUN(shorter_options);
    CHECK_RUN(longer_options);
    CHECK_RUN(stats_of_any_size);
    CHECK_RUN(null_is_harmless);
    CHECK_RUN(twice_is_harmless);
    CHECK_RUN(many_handles);
    CHECK_RUN(versions);
    CHECK_RUN(types);
    CHECK_RUN(pack_and_verify);
    CHECK_RUN(states);
    scratch_done();
    return CHECK_DONE();
}
