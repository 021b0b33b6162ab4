/*
 * test_compare.c - forms of data and the screen of a comparison, without staging anything. If it
 * failed, `stage --compare` would name the wrong form, or the wrong number of jobs.
 */
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/pool.h"
#include "base/spawn.h"
#include "check.h"
#include "report/stage.h"
#include "result/screen.h"
#include "stage/compare_priv.h"

static char folder[] = "/tmp/test-compare.XXXXXX";

static char *in_folder(const char *name)
{
    return stk_path_join(folder, name);
}

static void write_text(const char *name, const char *text)
{
    char *path = in_folder(name);
    CHECK(stk_write_file_atomic(path, text, strlen(text), NULL) == 0);
    free(path);
}

static void make_source(void)
{
    char *path = in_folder("data/a");
    CHECK(stk_mkdirs(path, NULL) == 0);
    free(path);
    write_text("data/a/1.txt", "one");
    write_text("data/a/2.txt", "two");
    write_text("data/3.txt", "three");
}

/* ---- forms ---------------------------------------------------------------------------------- */

/* Prepares a form as the comparison does. *out: its path. */
static bool prepare(const struct stk_form *f, const struct stk_source *src, char **out)
{
    struct stk_form_command cmd = {0};
    *out = in_folder(f->name);
    f->prepare(src, "stoker", *out, &cmd);
    struct stk_child c = {.argv = cmd.argv, .fd = {STK_FD_NULL, STK_FD_NULL, STK_FD_KEEP}};
    CHECK_INT(stk_child_start(&c), 0);
    return stk_child_wait(&c) == 0 && c.ending.status == 0;
}

static void every_form_becomes_usable(int which)
{
    const struct stk_form *f = &stk_forms[which];
    struct stk_source src = STK_SOURCE_INIT;
    struct stk_err err = {0};
    char why[320], *data = in_folder("data"), *dir = in_folder("out"), *form = NULL;
    if (stk_form_missing(f, why, sizeof why)) {
        CHECK_SKIP("a tool is not there");
        return;
    }
    CHECK_INT(stk_source_open(&src, data, NULL, &err), 0);
    CHECK(src.count == 3 && src.bytes == 11);
    CHECK(prepare(f, &src, &form));
    CHECK_INT(stk_mkdirs(dir, NULL), 0);
    double now = stk_now();
    struct stk_form_use use = {.copy = form, .dir = dir, .first_at = now, .last_at = now};
    CHECK_INT(f->open(&use, &err), 0);
    CHECK(use.first_at >= now && use.last_at >= use.first_at);
    struct stat st;
    CHECK(stat(form, &st) == 0 && (uint64_t)st.st_size <= stk_form_bytes(f, src.bytes, src.count));
    char *there = in_folder("out/data/a/2.txt");
    CHECK(which != STK_FORM_TAR || access(there, F_OK) == 0);
    free(there);
    use.copy = "/nowhere";
    CHECK(f->open(&use, &err) < 0);
    CHECK_INT(stk_remove_tree(dir, NULL), 0);
    stk_source_release(&src);
    free(data);
    free(dir);
    free(form);
}

/* ---- files of a comparison ------------------------------------------------------------------ */

static void points_find_their_form_and_leave_times(void)
{
    struct stk_folder dir = STK_FOLDER_INIT;
    struct stk_compare c = {.files = 3, .bytes = 11};
    struct stk_compare_spec spec = {0};
    struct stk_compare_job jobs[2] = {{0.5, 3}, {0.25, 2}}, one = {0.1, 1};
    struct stk_compare_step step = {.form = "tar", .n = 2, .jobs = 2};
    int fd;
    c.form[STK_FORM_TAR] = (struct stk_compare_form){.form = &stk_forms[STK_FORM_TAR],
                                                     .path = (char *)"/some/{n}/data.tar"};
    CHECK_INT(stk_folder_temp(&dir, folder, "compare", NULL), 0);
    CHECK_INT(stk_folder_below(&dir, STK_COMPARE_RESULTS, &fd, NULL), 0);
    close(fd);
    CHECK_INT(stk_compare_write_spec(&c, NULL, &dir, NULL), 0);
    CHECK_INT(stk_compare_read_spec(&spec, &dir, "tar", NULL), 0);
    CHECK_STR(spec.path, "/some/{n}/data.tar");
    CHECK(!spec.target && spec.files == 3 && spec.bytes == 11);
    CHECK(stk_compare_read_spec(&spec, &dir, "records", NULL) < 0); /* not prepared */
    CHECK(stk_compare_read_spec(&spec, &dir, "../x", NULL) < 0);
    stk_arena_release(&spec.arena);

    CHECK_INT(stk_compare_write_times(&dir, &step, jobs, NULL), 0);
    step = (struct stk_compare_step){.form = "tar", .n = 1, .jobs = 1};
    CHECK_INT(stk_compare_write_times(&dir, &step, &one, NULL), 0);
    CHECK_INT(stk_compare_read_times(&c, &dir, NULL), 0);
    const struct stk_compare_form *f = &c.form[STK_FORM_TAR];
    CHECK_INT(f->ntimes, 2);
    CHECK(f->times[0].n == 1 && f->times[0].jobs == 1 && f->times[0].first_s == 0.1);
    CHECK(f->times[1].n == 2 && f->times[1].jobs == 2 && f->times[1].first_s == 0.375);
    CHECK(f->times[1].last_s == 2.5 && f->times[1].slowest_s == 3);
    free(f->times);
    stk_folder_destroy(&dir);
    stk_folder_release(&dir);
}

/* ---- the screen ----------------------------------------------------------------------------- */

static struct stk_compare_times files_times[] = {{1, 3, 0.1, 64, 65}, {2, 6, 0.1, 66, 70}};
static struct stk_compare_times records_times[] = {{1, 3, 0.01, 8, 8.1}, {2, 6, 0.02, 16, 17}};

/* Their runs differ by 3 %. */
static struct stk_scaling_row rows[] = {{.n = 1, .runs = 3}, {.n = 2, .runs = 3}};
static const struct stk_scaling_series noisy = {.row = rows, .nrows = 2, .noise = {0.03, 4}};

static void fill(struct stk_compare *c)
{
    *c = (struct stk_compare){.source = (char *)"/qb/data",
                              .source_fs = "nfs",
                              .files = 1000,
                              .bytes = 64u << 20,
                              .runs = 3,
                              .complete = true,
                              .via = &stk_executor_local};
    c->form[STK_FORM_FILES] =
        (struct stk_compare_form){.form = &stk_forms[STK_FORM_FILES],
                                  .prepare_s = NAN,
                                  .times = files_times,
                                  .ntimes = 2,
                                  .series = &noisy,
                                  .bend = {.kind = STK_BEND_FLAT,
                                           .flat_to = 2,
                                           .flat_within = 0.117,
                                           .t1_s = 65}};
    c->form[STK_FORM_RECORDS] = (struct stk_compare_form){.form = &stk_forms[STK_FORM_RECORDS],
                                                          .prepare_s = 100,
                                                          .times = records_times,
                                                          .ntimes = 2,
                                                          .series = &noisy,
                                                          .bend = {.kind = STK_BEND_LIMIT,
                                                                   .flat_to = 1,
                                                                   .rises_at = 2,
                                                                   .t1_s = 8,
                                                                   .at = 1,
                                                                   .share = NAN,
                                                                   .ci = {NAN, NAN}}};
    c->form[STK_FORM_TAR] = (struct stk_compare_form){
        .form = &stk_forms[STK_FORM_TAR], .prepare_s = NAN, .why = "tar is not there"};
}

/* The screen, on one wide line per sentence; and all members. */
static void draw(const struct stk_compare *c, struct stk_buf *out, struct stk_buf *json)
{
    struct stk_arena arena = STK_ARENA_INIT;
    struct stk_jval *result = NULL;
    struct stk_jw w;
    struct stk_screen s = {.subject = "x", .columns = 400, .table_columns = 400, .out = out};
    CHECK_INT(stk_result_fill(&stk_forms_kind, c, &arena, &result, NULL), 0);
    stk_screen_draw(&stk_forms_kind, result, &s);
    stk_jw_init(&w, json, false);
    stk_jw_open(&w, '{');
    stk_fields_put(stk_forms_kind.fields, c, &w);
    stk_jw_close(&w, '}');
    stk_arena_release(&arena);
}

static void the_screen_says_which_form_and_how_many_jobs(void)
{
    struct stk_compare c;
    struct stk_buf out = STK_BUF_INIT, json = STK_BUF_INIT;
    fill(&c);
    draw(&c, &out, &json);
    const char *said = stk_buf_cstr(&out);
    CHECK(strstr(said, "/qb/data (nfs): 1,000 files, 64.0 MiB\n"));
    CHECK(strstr(said, "a folder of each node\n") && strstr(said, "3 of each, in random order\n"));
    CHECK(strstr(said, "1.00x") && strstr(said, "8.00x")); /* of files and of records */
    CHECK(strstr(said, "Use records: against files faster, 8x (95 %: 7.16x to 8.94x); preparing it takes"));
    CHECK(strstr(said, "which it saves in 2 stagings"));
    CHECK(strstr(said, "tar was not measured: tar is not there"));
    CHECK(strstr(said, "files: flat up to 2 jobs at once (same within 12 %), the most measured."));
    CHECK(strstr(said, "records: longer with 2 jobs at once; bends at 1; the most that jobs of this "
                       "form moved together was 8.00 MiB/s, with 1."));
    /* What one form moves is not what the storage can give: files of it may be small. */
    CHECK(!strstr(said, "can give"));
    /* Two runs that differ by two thirds show nothing: neither that records are faster ... */
    struct stk_scaling_series loud = {.row = rows, .nrows = 2, .noise = {0.9, 4}};
    c.form[STK_FORM_FILES].series = c.form[STK_FORM_RECORDS].series = &loud;
    c.form[STK_FORM_FILES].bend = (struct stk_bend){
        .flat_to = 1, .unclear_at = 2, .unclear = {.times = 0.97, .ci = {0.1, 9}, .more = 7}};
    stk_buf_reset(&out);
    draw(&c, &out, &json);
    said = stk_buf_cstr(&out);
    CHECK(strstr(said, "Stage it as it is: no other form is shown to be faster. records against "
                       "files: not known (8x measured): 3 runs of each show no difference of any "
                       "size"));
    /* ... nor that two jobs at once take as long as one. */
    CHECK(strstr(said, "files: 2 jobs at once against 1: not known (0.97x measured): a difference "
                       "up to 10x would not have been seen; 7 more runs of each would show it "
                       "if 0.97x is right."));
    CHECK(!strstr(said, "files: flat"));
    stk_buf_release(&json);
    stk_buf_release(&out);
}

static void has_verdict(const struct stk_compare *c, const char *words)
{
    struct stk_buf out = STK_BUF_INIT, json = STK_BUF_INIT;
    draw(c, &out, &json);
    CHECK(strstr(stk_buf_cstr(&out), words) && strstr(stk_buf_cstr(&json), words));
    stk_buf_release(&out);
    stk_buf_release(&json);
}

/* "The forms were measured; files were not." stood above a table of files: the sentence of the screen
 * was empty, and the page made one up. */
static void there_is_always_a_verdict(void)
{
    struct stk_compare c;
    fill(&c);
    c.form[STK_FORM_RECORDS].ntimes = 0;
    has_verdict(&c, "One form was measured, files: there is none to compare it with.");
    c.form[STK_FORM_FILES].ntimes = 0;
    has_verdict(&c, "No form was measured.");
    fill(&c);
    c.form[STK_FORM_FILES].ntimes = 0;
    has_verdict(&c, "One form was measured, records: there is none");
    c.form[STK_FORM_TAR] = c.form[STK_FORM_RECORDS];
    c.form[STK_FORM_TAR].form = &stk_forms[STK_FORM_TAR];
    c.form[STK_FORM_TAR].times = files_times;
    has_verdict(&c, "Whether a form is faster than files is not known: files were not measured. "
                    "records against tar: faster, 8x");
}

/* Nothing is said of a bend that no law shows. */
static void a_rise_without_a_law_has_no_bend(void)
{
    struct stk_compare c;
    fill(&c);
    c.form[STK_FORM_RECORDS].bend =
        (struct stk_bend){.flat_to = 1, .rises_at = 2, .at = NAN, .share = NAN};
    struct stk_buf out = STK_BUF_INIT, json = STK_BUF_INIT;
    draw(&c, &out, &json);
    CHECK(strstr(stk_buf_cstr(&out), "records: longer with 2 jobs at once; where it bends is not known "
                                     "from 2 numbers of jobs; the most"));
    struct stk_compare_times four[] = {{1, 3, 1, 8, 8}, {2, 6, 1, 9, 9}, {4, 12, 1, 16, 16}};
    c.form[STK_FORM_RECORDS].times = four;
    c.form[STK_FORM_RECORDS].ntimes = 3;
    c.form[STK_FORM_RECORDS].bend.rises_at = 4;
    stk_buf_reset(&out);
    draw(&c, &out, &json);
    CHECK(strstr(stk_buf_cstr(&out), "where between 1 and 4 jobs it bends is not known; the most that "
                                     "jobs of this form moved together was 16.0 MiB/s, with 4."));
    stk_buf_release(&json);
    stk_buf_release(&out);
}

/* Half an hour of preparing for two per cent is no advice. */
static void the_best_form_is_clearly_faster(void)
{
    struct stk_compare c;
    struct stk_compare_times squashfs = {1, 3, 7.9, 7.9, 8};
    fill(&c);
    CHECK(stk_compare_best(&c) == &c.form[STK_FORM_RECORDS]);
    c.form[STK_FORM_SQUASHFS] = (struct stk_compare_form){
        .form = &stk_forms[STK_FORM_SQUASHFS], .prepare_s = 1800, .times = &squashfs, .ntimes = 1};
    CHECK(stk_compare_best(&c) == &c.form[STK_FORM_RECORDS]);
    squashfs.last_s = 4;
    c.form[STK_FORM_SQUASHFS].series = &noisy;
    CHECK(stk_compare_best(&c) == &c.form[STK_FORM_SQUASHFS]);
    squashfs.last_s = records_times[0].last_s = 63;
    CHECK(stk_compare_best(&c) == &c.form[STK_FORM_FILES]);
    records_times[0].last_s = 8;
    c = (struct stk_compare){0};
    CHECK(!stk_compare_best(&c));
}

static void preparing_pays_or_never_does(void)
{
    struct stk_compare c;
    fill(&c);
    const struct stk_compare_form *files = &c.form[STK_FORM_FILES];
    CHECK(stk_compare_pays_after(&c.form[STK_FORM_RECORDS], files) == 2);
    CHECK(isnan(stk_compare_pays_after(files, files)));
    CHECK(isnan(stk_compare_pays_after(&c.form[STK_FORM_TAR], files)));
    records_times[0].last_s = 64.5;
    CHECK(isinf(stk_compare_pays_after(&c.form[STK_FORM_RECORDS], files)));
    records_times[0].last_s = 8;
}

static void json_is_whole(void)
{
    struct stk_compare c;
    struct stk_buf screen = STK_BUF_INIT, out = STK_BUF_INIT;
    struct stk_arena arena = STK_ARENA_INIT;
    struct stk_jval *v = NULL;
    fill(&c);
    draw(&c, &screen, &out);
    stk_buf_release(&screen);
    CHECK_INT(stk_json_parse(&arena, stk_buf_cstr(&out), out.len, &v, NULL), 0);
    const struct stk_jval *forms = v ? stk_json_get(v, "forms") : NULL;
    CHECK(forms && forms->len == 3);
    const struct stk_jval *bend = forms ? stk_json_get(&forms->item[2], "bend") : NULL;
    CHECK(bend && stk_json_get(bend, "rises_at")->i == 2);
    stk_arena_release(&arena);
    stk_buf_release(&out);
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    CHECK(mkdtemp(folder) != NULL);
    make_source();
    CHECK_FOR("tar", every_form_becomes_usable, STK_FORM_TAR);
    CHECK_FOR("squashfs", every_form_becomes_usable, STK_FORM_SQUASHFS);
    CHECK_RUN(points_find_their_form_and_leave_times);
    CHECK_RUN(the_screen_says_which_form_and_how_many_jobs);
    CHECK_RUN(there_is_always_a_verdict);
    CHECK_RUN(a_rise_without_a_law_has_no_bend);
    CHECK_RUN(the_best_form_is_clearly_faster);
    CHECK_RUN(preparing_pays_or_never_does);
    CHECK_RUN(json_is_whole);
    CHECK(stk_remove_tree(folder, NULL) == 0);
    return CHECK_DONE();
}
