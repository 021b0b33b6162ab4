/* A report is read on terminals of any width and by programs: names must not steer the one, and
 * numbers of any size must not break either. */
#include <math.h>
#include <stdlib.h>

#include "base/csv.h"
#include "base/text.h"
#include "check.h"
#include "report/compare.h"
#include "report/report_priv.h"
#include "scratch.h"

#define EVIL "evil\x1b[2Jname\n\xff\xe2\x80\xae.h5"

static struct stk_profile p;
static struct stk_prof_proc proc[2];
static struct stk_prof_file file[2];
static struct stk_prof_rec rec[4];
static struct stk_prof_mark mark[40];
static struct stk_prof_reading reading[3];
static struct stk_prof_host host = {.name = EVIL, .cores = 4, .gpu_kind = "", .local_dir = ""};
static const char *notes[] = {"A note " EVIL
                              " that is long enough to be broken into lines, twice."};

static void make_records(uint64_t big)
{
    size_t n = 0;
    for (uint32_t f = 0; f < 2; f++) {
        for (uint32_t i = 0; i < 2; i++) {
            struct stk_prof_rec *r = &rec[n++];
            *r = (struct stk_prof_rec){.proc = i, .file = f, .api = STK_API_POSIX};
            stk_counts_init(&r->n);
            r->n.c[STK_C_OPENS] = 1;
            r->n.c[STK_C_READS] = r->n.c[STK_C_SEQ_READS] = 10;
            r->n.c[STK_C_READ_BYTES] = big;
            r->n.c[STK_C_READ_NS] = big;
            r->n.read_size[9] = 10;
            r->n.read_latency[35] = 10;
            r->n.stride[0] = (struct stk_common_value){1ull << 63, 3};
        }
    }
}

/* A run of two processes with hostile names; `big` is the number of bytes in each record. */
static void make(uint64_t big, double run_s)
{
    p = (struct stk_profile){.source = &stk_source_stoker,
                             .path = EVIL,
                             .command = "python " EVIL,
                             .job = EVIL,
                             .start_real_s = 1e9,
                             .run_s = run_s,
                             .exit_status = -1,
                             .nranks = 2,
                             .host = &host,
                             .nhosts = 1,
                             .proc = proc,
                             .nprocs = 2,
                             .file = file,
                             .nfiles = 2,
                             .rec = rec,
                             .nrecs = 4,
                             .bin_s = run_s / 400,
                             .reading = reading,
                             .nreadings = 3,
                             .mark = mark,
                             .nmarks = 40,
                             .note = notes,
                             .nnotes = 1};
    for (uint32_t i = 0; i < 2; i++) {
        proc[i] = (struct stk_prof_proc){.pid = 4194304,
                                         .parent = (int32_t)i - 1,
                                         .born = i ? STK_BORN_FORK : STK_BORN_START,
                                         .worker = i,
                                         .rank = i,
                                         .world = 2,
                                         .exe = EVIL,
                                         .command = EVIL,
                                         .cwd = EVIL,
                                         .end_s = run_s,
                                         .ended = STK_END_NONE,
                                         .seen_read_bytes = big,
                                         .kernel_read_bytes = 1,
                                         .threads = UINT32_MAX,
                                         .io_sum_s = run_s,
                                         .io_union_s = run_s};
        file[i] = (struct stk_prof_file){.path = i ? EVIL : "/a/*.jpg",
                                         .group = !i,
                                         .fs = "",
                                         .files = i ? 1 : 1000,
                                         .size_bytes = big,
                                         .distinct_bytes = big,
                                         .ranks = 2,
                                         .rank_distinct_bytes = big};
    }
    make_records(big);
    for (size_t i = 0; i < STK_PROF_BINS; i++)
        p.bin[i] = (struct stk_prof_bin){big, big, big / 1000, big / 1000, big, big, big};
    for (uint32_t i = 0; i < 40; i++)
        mark[i] = (struct stk_prof_mark){.proc = i / 20,
                                         .kind = i % 4,
                                         .at_s = i * run_s / 40,
                                         .length_s = run_s / 40,
                                         .name = i % 2 ? EVIL : "",
                                         .number = UINT64_MAX - i,
                                         .depth = i * 100};
    reading[0] = (struct stk_prof_reading){.cpu_cores = 1e300, .gpu_util = 0.5};
    reading[1] = (struct stk_prof_reading){.at_s = 1e300, .cpu_cores = -1, .gpu_util = -1};
    reading[2] =
        (struct stk_prof_reading){.at_s = run_s / 2, .launcher = UINT32_MAX, .gpu_util = 1};
}

static struct stk_snippet code[] = {{STK_SHELL, "echo \\\n"}, {STK_PYTHON, "cat '" EVIL "'\n"}};
static const char *sentences[] = {"A sentence about " EVIL " with many words, so that it must be "
                                  "broken into lines that fit the width of the terminal."};
static struct stk_evidence evidence = {"reads", NAN, "count"};
static const char *paths[] = {EVIL};
static struct stk_action action = {.kind = STK_ACT_STAGE,
                                   .path = EVIL,
                                   .paths = paths,
                                   .npaths = 1,
                                   .to = "",
                                   .count = UINT64_MAX};
static struct stk_finding findings[] = {{.rule = STK_RULE_SMALL_READS,
                                         .id = "small-reads",
                                         .severity = STK_SEV_HIGH,
                                         .title = "a title " EVIL,
                                         .sentence = sentences,
                                         .nsentences = 1,
                                         .evidence = &evidence,
                                         .nevidence = 1,
                                         .path = paths,
                                         .npaths = 1,
                                         .what_to_do = "Do something about " EVIL ".",
                                         .action = &action,
                                         .nactions = 1,
                                         .snippet = code,
                                         .nsnippets = 2,
                                         .gain_s = INFINITY,
                                         .gain_why = "Because of " EVIL "."}};
static const struct stk_advice advice = {.finding = findings, .nfindings = 1, .verdict = "One."};

static void check_lines(const char *text, unsigned columns, bool fits)
{
    for (const char *s = text; *s;) {
        size_t n = strcspn(s, "\n");
        for (size_t i = 0; i < n;) {
            uint32_t cp = 0;
            size_t len = stk_utf8_next(s + i, n - i, &cp);
            CHECK(len && (stk_style_is_mark(cp) || !stk_cp_is_control(cp)));
            i += len ? len : 1;
        }
        CHECK(!fits || stk_text_width(s, n) <= columns);
        CHECK(n == 0 || s[n - 1] != ' ');
        s += n + (s[n] == '\n');
    }
}

static void check_parts(const struct stk_analysis *a, bool sane)
{
    for (unsigned columns = 60; columns <= 120; columns += 20) {
        for (unsigned part = 0; part < 13; part++) {
            struct stk_buf out = STK_BUF_INIT;
            struct stk_report r = {a, &advice, columns, columns % 40 == 0, part % 2};
            stk_report_text(&r, 1u << part, &out);
            CHECK(!out.fail && out.len > 0);
            /* Lines to paste are never broken; tables of 60 columns may run over. */
            check_lines(stk_buf_cstr(&out), columns,
                        sane && columns >= 80 && 1u << part != STK_PART_FINDINGS);
            stk_buf_release(&out);
        }
    }
}

static void check_json(const struct stk_analysis *a)
{
    struct stk_buf out = STK_BUF_INIT;
    struct stk_arena arena = STK_ARENA_INIT;
    struct stk_report r = {a, &advice, 80, true, 0};
    struct stk_jval *v = NULL;
    struct stk_jw w;
    stk_jw_init(&w, &out, true);
    stk_jw_open(&w, '{');
    stk_report_json(&r, &w);
    stk_jw_close(&w, '}');
    CHECK(stk_json_parse(&arena, (const char *)out.data, out.len, &v, NULL) == 0);
    const struct stk_jval *records = stk_json_get(v, "records");
    CHECK(records && records->len == p.nrecs);
    if (records && records->len) {
        const struct stk_jval *counters = stk_json_get(&records->item[0], "counters");
        CHECK(counters && counters->len == STK_C_COUNT);
        CHECK(stk_json_get(counters, "min_offset")->type == STK_JNULL);
        CHECK(stk_json_get(counters, "reads")->i == 10);
    }
    stk_arena_release(&arena);
    stk_buf_release(&out);
}

static void test_any_numbers(void)
{
    static const uint64_t big[] = {0, 1, 123456789, UINT64_MAX / 8, UINT64_MAX};
    static const double run_s[] = {0, 1e-6, 60, 1e12};
    for (size_t i = 0; i < 5; i++) {
        for (size_t k = 0; k < 4; k++) {
            struct stk_analysis a;
            make(big[i], run_s[k]);
            CHECK(stk_analyze(&p, &a, NULL) == 0);
            check_parts(&a, i < 3 && k == 2);
            check_json(&a);
            stk_analysis_release(&a);
        }
    }
}

static void test_nothing(void)
{
    struct stk_analysis a;
    p = (struct stk_profile){
        .source = &stk_source_stoker, .path = "x", .command = "", .job = ""};
    CHECK(stk_analyze(&p, &a, NULL) == 0);
    check_parts(&a, true);
    check_json(&a);
    stk_analysis_release(&a);
}

static void test_files(void)
{
    struct stk_analysis a;
    struct stk_err err = {0};
    uint64_t events, marks;
    make(1 << 20, 60);
    CHECK(stk_analyze(&p, &a, NULL) == 0);
    for (const char *const *t = stk_report_csv_names(); *t; t++) {
        struct stk_buf b = STK_BUF_INIT;
        CHECK(stk_report_csv(&a, *t, scratch_path(*t), NULL, &err) == 0);
        CHECK(stk_read_file(scratch_path(*t), 1 << 20, &b, &err) == 0 && b.len > 10);
        stk_buf_release(&b);
    }
    CHECK(stk_report_csv(&a, "files", scratch_path("no/such/folder"), NULL, &err) == STK_E_SYS);
    /* Not traced: says so, and leaves no file. */
    CHECK(stk_report_trace(&p, scratch_path("trace"), NULL, &events, &marks, &err) == STK_E_UNSUPPORTED);
    CHECK(strstr(err.what, "--trace") != NULL);
    stk_analysis_release(&a);
}

static void test_series(void)
{
    struct stk_analysis a;
    struct stk_buf out = STK_BUF_INIT;
    make(0, 100);
    memset(p.bin, 0, sizeof p.bin);
    p.nreadings = p.nmarks = 0;
    p.bin[0].read_bytes = 1 << 20; /* all of it in the first quarter of a second */
    CHECK(stk_analyze(&p, &a, NULL) == 0);
    struct stk_report r = {&a, &advice, 80, false, 0};
    stk_report_text(&r, STK_PART_TIMELINE, &out);
    const char *first = strstr(stk_buf_cstr(&out), "KiB/s"); /* 1 MiB in 100 / 24 s */
    CHECK(first && !strstr(first + 1, "KiB/s"));
    CHECK(first && strncmp(first - 4, "246 ", 4) == 0);
    stk_analysis_release(&a);
    stk_buf_release(&out);
}

/* A command is read to know which program it was, and pasted to run it again. */
static void test_commands(void)
{
    struct stk_buf b = STK_BUF_INIT;
    const char *paste = "python -c 'open('\\''big'\\'')'";
    CHECK_STR(stk_word_command(&b, paste, 80), paste);
    CHECK_STR(stk_word_command(&b, "/usr/bin/python3 /home/me/train.py --epochs 9", 30),
              "python3 train.py --epochs 9");
    CHECK_STR(stk_word_command(&b, "/usr/bin/dd if=/dev/zero of=/tmp/x", 28),
              "dd if=/dev/zero of=/tmp/x");
    CHECK_STR(stk_word_command(&b, "/usr/bin/dd if=/dev/zero of=/tmp/x", 12), "dd if=/de...");
    CHECK_STR(stk_word_command(&b, "x\x1b[2J", 80), "x\\x1b[2J");
    stk_buf_release(&b);
}

static void test_about(void)
{
    char buf[40];
    CHECK_STR(stk_word_about(4956, false, buf, sizeof buf), "about 5,000");
    CHECK_STR(stk_word_about(4956, true, buf, sizeof buf), "4,956");
    CHECK_STR(stk_word_about(99, false, buf, sizeof buf), "about 99");
    CHECK_STR(stk_word_about(UINT64_MAX, false, buf, sizeof buf),
              "about 18,000,000,000,000,000,000");
}

/* A file's name could be a formula that a spreadsheet runs. */
static void test_csv_cells(void)
{
    static const char *const all[][2] = {{"a b", "a b"},
                                         {"=1+1", "\"'=1+1\""},
                                         {"\t=1", "\"'\t=1\""},
                                         {"\r=1", "\"'\r=1\""},
                                         {"-x", "\"'-x\""},
                                         {"@A", "\"'@A\""},
                                         {"a,\"b\"", "\"a,\"\"b\"\"\""},
                                         {"", ""}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct stk_buf b = STK_BUF_INIT;
        stk_csv_put_text(&b, all[i][0]);
        CHECK_STR(stk_buf_cstr(&b), all[i][1]);
        stk_buf_release(&b);
    }
}

/* A narrow terminal: a long command must not take the whole screen. */
/* A reading is about the time before it: drawn after it, a GPU would seem to fall one second after
 * the reads that it waits for. */
static void test_readings_cover_the_time_before_them(void)
{
    static const struct stk_prof_reading readings[] = {
        {.at_s = 0.5, .cpu_cores = 0}, {.at_s = 2, .cpu_cores = 3}, {.at_s = 4, .cpu_cores = 1},
        {.at_s = 3.5, .launcher = 1, .cpu_cores = 5},
    };
    double v[4];
    make(0, 4);
    p.reading = (struct stk_prof_reading *)readings;
    p.nreadings = 3;
    CHECK(stk_report_series(&p, STK_SERIES_CPU, v, 4));
    CHECK(v[0] > 2.99 && v[1] > 2.99 && v[1] < 3.01 && v[2] == 1 && v[3] == 1);
    p.nreadings = 2;
    CHECK(stk_report_series(&p, STK_SERIES_CPU, v, 4));
    CHECK(v[3] == -1); /* nobody looked */
    p.reading += 3;
    p.nreadings = 1;
    CHECK(stk_report_series(&p, STK_SERIES_CPU, v, 4));
    CHECK(v[2] == -1 && v[3] == 10); /* 5 of each launcher, and one of two is known */
}

static void test_narrow(void)
{
    static char command[2000];
    struct stk_analysis a;
    struct stk_buf out = STK_BUF_INIT;
    memset(command, 'x', sizeof command - 1);
    make(1 << 20, 60);
    proc[0].command = proc[1].command = command;
    CHECK(stk_analyze(&p, &a, NULL) == 0);
    struct stk_report r = {&a, &advice, 60, false, 0};
    stk_report_text(&r, STK_PART_PROCESSES | STK_PART_PHASES, &out);
    check_lines(stk_buf_cstr(&out), 100, true);
    stk_analysis_release(&a);
    stk_buf_release(&out);
}

/* The numbers beside a chart are the run's, not the terminal's. */
static void test_peak(void)
{
    make(0, 100);
    memset(p.bin, 0, sizeof p.bin);
    p.nreadings = p.nmarks = 0;
    p.bin[7].read_bytes = 1 << 20; /* in a bin of a quarter of a second */
    for (unsigned columns = 60; columns <= 120; columns += 60) {
        struct stk_analysis a;
        struct stk_buf out = STK_BUF_INIT;
        CHECK(stk_analyze(&p, &a, NULL) == 0);
        struct stk_report r = {&a, &advice, columns, false, 0};
        stk_report_chart(&r, &out);
        CHECK(strstr(stk_buf_cstr(&out), "read   peak 4.00 MiB/s"));
        CHECK(strstr(stk_buf_cstr(&out), "mean 10.2 KiB/s"));
        stk_analysis_release(&a);
        stk_buf_release(&out);
    }
}

/* A run that ended well. */
static void make_whole(void)
{
    make(1 << 20, 60);
    p.exit_status = p.exit_signal = 0;
    p.running = p.stopped_early = false;
}

/* Whatever there is to say, the first look does not scroll away, and a wide terminal is used. */
static void test_screen_fits(void)
{
    static struct stk_finding many[40];
    static const char *notes_[] = {"one", "two", "three", "four"};
    for (size_t i = 0; i < 40; i++)
        many[i] = findings[0];
    const struct stk_advice all = {.finding = many, .nfindings = 40, .verdict = advice.verdict};
    for (unsigned columns = 80; columns <= 400; columns += 160) {
        struct stk_analysis a;
        struct stk_buf out = STK_BUF_INIT;
        make(1 << 20, 60);
        p.note = notes_;
        p.nnotes = 4;
        CHECK(stk_analyze(&p, &a, NULL) == 0);
        struct stk_report r = {&a, &all, columns, false, 0};
        stk_report_text(&r, STK_PART_SCREEN, &out);
        size_t rows = 0, widest = 0;
        for (const char *at = stk_buf_cstr(&out), *end; (end = strchr(at, '\n')); at = end + 1) {
            rows++;
            widest = (size_t)(end - at) > widest ? (size_t)(end - at) : widest;
        }
        CHECK(rows <= 23 && widest <= columns && widest > columns - 20);
        stk_analysis_release(&a);
        stk_buf_release(&out);
    }
}

/* The screen of a comparison of two runs, on one line. */
static const char *compared_as(const struct stk_analysis *x, const struct stk_advice *was,
                               const struct stk_analysis *y)
{
    static char text[8192];
    struct stk_buf out = STK_BUF_INIT;
    struct stk_arena arena = STK_ARENA_INIT;
    struct stk_jval *result = NULL;
    bool whole = stk_compared_whole(x, y);
    const struct stk_compared_pair pair = {{"before", x, was, whole},
                                           {"after", y, &advice, whole}};
    const struct stk_result_kind *kind = &stk_profile_pair_kind;
    struct stk_screen s = {.columns = 80, .table_columns = 80, .out = &out};
    CHECK_INT(stk_result_fill(kind, &pair, &arena, &result, NULL), 0);
    stk_screen_draw(kind, result, &s);
    snprintf(text, sizeof text, "%s", stk_buf_cstr(&out));
    for (char *at = text, *to = text; (*to = *at); at++) {
        bool blank = *at == '\n' || *at == ' ';
        *to = blank ? ' ' : *at;
        to += !(blank && to > text && to[-1] == ' ');
    }
    stk_arena_release(&arena);
    stk_buf_release(&out);
    return text;
}

static const char *compared(const struct stk_analysis *x, const struct stk_analysis *y)
{
    return compared_as(x, &advice, y);
}

/* A rule that fires for two folders, and then for one, is left, not left and gone. */
static void test_compare(void)
{
    struct stk_finding two[] = {findings[0], findings[0]};
    struct stk_advice was = {.finding = two, .nfindings = 2, .verdict = ""};
    struct stk_analysis a;
    make_whole();
    CHECK(stk_analyze(&p, &a, NULL) == 0);
    const char *text = compared_as(&a, &was, &a);
    char left[120];
    snprintf(left, sizeof left, "findings left %s ", findings[0].id);
    CHECK(strstr(text, left) && !strstr(text, "gone"));
    stk_analysis_release(&a);
}

/* Nobody is told that a crash made the program fast, or that a lighter run did. */
static void test_compare_what_differs(void)
{
    struct stk_analysis a, b;
    struct stk_profile other;
    make_whole();
    CHECK(stk_analyze(&p, &a, NULL) == 0);
    b = a;
    other = p;
    b.p = &other;
    other.run_s = 6;
    CHECK(strstr(compared(&a, &b), "x measured): one run of each"));
    CHECK(!strstr(compared(&a, &b), "busy") && !strstr(compared(&a, &b), "different"));
    b.other_cores_mean = 3;
    b.cores = 4;
    CHECK(strstr(compared(&a, &b), "busy during the run after: other programs used 3.0 of 4"));
    a.steps = (struct stk_steps){.marked = true, .count = 100};
    b.steps = (struct stk_steps){.marked = true, .count = 50};
    CHECK(strstr(compared(&a, &b), "different work: 100 steps before, 50 steps after."));
    b.job.distinct_bytes = a.job.distinct_bytes / 2;
    CHECK(strstr(compared(&a, &b), "They read different data: "));
    other.exit_status = 3;
    CHECK(strstr(compared(&a, &b), "not compared") && !strstr(compared(&a, &b), "measured"));
    CHECK(strstr(compared(&a, &b), "The run after failed (exit status 3)."));
    CHECK(strstr(compared(&b, &a), "The run before failed"));
    other.exit_status = 0;
    other.running = true;
    CHECK(strstr(compared(&a, &b), "has not ended"));
    stk_analysis_release(&a);
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    scratch_begin();
    CHECK_RUN(test_csv_cells);
    CHECK_RUN(test_any_numbers);
    CHECK_RUN(test_nothing);
    CHECK_RUN(test_files);
    CHECK_RUN(test_series);
    CHECK_RUN(test_readings_cover_the_time_before_them);
    CHECK_RUN(test_narrow);
    CHECK_RUN(test_peak);
    CHECK_RUN(test_screen_fits);
    CHECK_RUN(test_compare);
    CHECK_RUN(test_compare_what_differs);
    CHECK_RUN(test_commands);
    CHECK_RUN(test_about);
    scratch_done();
    return CHECK_DONE();
}
