/* test_select.c - which samples are packed and where shards are cut: every sample in exactly one
 * shard, by numbers that do not depend on the number of jobs. */
#include "check.h"
#include "scratch.h"
#include "pack/priv.h"

static struct stk_dataset *ds;

/* Ten files of i * 10 bytes: a/0 … a/4, b/5 … b/9. */
static void make_dataset(void)
{
    char name[20], bytes[100] = {0};
    for (unsigned i = 0; i < 10; i++) {
        snprintf(name, sizeof name, "set/%c/%u", i < 5 ? 'a' : 'b', i);
        scratch_file(name, bytes, i * 10);
    }
    struct stk_open_options o = {.no_index_write = true};
    CHECK_INT(stk_dataset_open(scratch_path("set"), &o, &ds, NULL), 0);
}

/* Selected samples in order, shards apart: "0 1|2". */
static const char *selected(const struct stk_select_options *o, int want_rc)
{
    static struct stk_buf text;
    struct stk_select s;
    struct stk_err err = {0};
    stk_buf_reset(&text);
    int rc = stk_select_init(&s, ds, o, &err);
    CHECK_INT(rc, want_rc);
    uint64_t bytes = 0;
    for (uint64_t k = 0; rc == 0 && k < s.nshards; k++) {
        CHECK(s.cut[k] <= s.cut[k + 1]);
        for (uint64_t i = s.cut[k]; i < s.cut[k + 1]; i++) {
            stk_buf_printf(&text, "%s%llu",
                           i > s.cut[k] ? " "
                           : k          ? "|"
                                        : "",
                           (unsigned long long)stk_select_at(&s, i));
            bytes += 10 * stk_select_at(&s, i);
        }
    }
    CHECK(rc < 0 || s.bytes == bytes);
    stk_select_release(&s);
    return stk_buf_cstr(&text);
}

static void by_count(void)
{
    CHECK_STR(selected(&(struct stk_select_options){.shards = 1}, 0), "0 1 2 3 4 5 6 7 8 9");
    CHECK_STR(selected(&(struct stk_select_options){.shards = 3}, 0), "0 1 2|3 4 5|6 7 8 9");
    CHECK_STR(selected(&(struct stk_select_options){.shards = 10}, 0), "0|1|2|3|4|5|6|7|8|9");
    /* No shard is empty. */
    CHECK_STR(selected(&(struct stk_select_options){.shards = 99}, 0), "0|1|2|3|4|5|6|7|8|9");
}

static void by_size(void)
{
    CHECK_STR(selected(&(struct stk_select_options){.shard_size_bytes = 100}, 0),
              "0 1 2 3 4|5|6|7|8|9");
    CHECK_STR(selected(&(struct stk_select_options){.shard_size_bytes = 451}, 0),
              "0 1 2 3 4 5 6 7 8 9");
    /* Larger than a shard: one of its own. */
    CHECK_STR(selected(&(struct stk_select_options){.shard_size_bytes = 1}, 0),
              "0 1|2|3|4|5|6|7|8|9");
}

static void by_glob(void)
{
    const char *a[] = {"a/*", NULL}, *odd[] = {"*/1", "*/3", "*/[79]", NULL}, *none[] = {"x", NULL};
    const char *star[] = {"*", NULL};
    CHECK_STR(selected(&(struct stk_select_options){.include = a, .shards = 1}, 0), "0 1 2 3 4");
    CHECK_STR(selected(&(struct stk_select_options){.include = odd, .shards = 2}, 0), "1 3|7 9");
    CHECK_STR(selected(&(struct stk_select_options){.exclude = odd, .shards = 1}, 0),
              "0 2 4 5 6 8");
    CHECK_STR(selected(&(struct stk_select_options){.include = a, .exclude = odd, .shards = 1}, 0),
              "0 2 4");
    CHECK_STR(selected(&(struct stk_select_options){.include = none, .shards = 3}, 0), "");
    CHECK_STR(selected(&(struct stk_select_options){.exclude = star, .shard_size_bytes = 5}, 0),
              "");
}

static void shuffled(void)
{
    const char *b[] = {"b/*", NULL};
    struct stk_select_options o = {.shuffle = true, .seed = 3, .shards = 2, .include = b};
    char first[100];
    snprintf(first, sizeof first, "%s", selected(&o, 0));
    CHECK_STR(selected(&o, 0), first);
    CHECK(strcmp(first, "5 6|7 8 9") != 0);
    for (const char *c = "56789"; *c; c++)
        CHECK(strchr(first, *c));
    o.seed = 4;
    CHECK(strcmp(selected(&o, 0), first) != 0);
}

/* A format without keys outside the records cannot be filtered by them: said, not guessed. */
static void without_keys(void)
{
    struct stk_buf b = STK_BUF_INIT;
    const char *a[] = {"*", NULL};
    scratch_record(&b, "x", 1);
    scratch_record(&b, "yy", 2);
    scratch_file("x.tfrecord", b.data, b.len);
    stk_buf_release(&b);
    stk_dataset_close(ds);
    struct stk_open_options o = {.no_index_write = true};
    CHECK_INT(stk_dataset_open(scratch_path("x.tfrecord"), &o, &ds, NULL), 0);
    selected(&(struct stk_select_options){.include = a, .shards = 1}, STK_E_UNSUPPORTED);
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    scratch_begin();
    make_dataset();
    CHECK_RUN(by_count);
    CHECK_RUN(by_size);
    CHECK_RUN(by_glob);
    CHECK_RUN(shuffled);
    CHECK_RUN(without_keys);
    stk_dataset_close(ds);
    scratch_done();
    return CHECK_DONE();
}
