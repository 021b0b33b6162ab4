/*
 * test_study.c - studies: files read, speedups, service units, plateau, the N recommended. If it
 * failed, a user would ask for the wrong number of GPUs, or pay for what brings nothing.
 */
#include <math.h>
#include <stdlib.h>

#include "check.h"
#include "scaling/scaling.h"
#include "study/study.h"
#include "report/scale.h"
#include "result/screen.h"

static struct stk_study study;
static struct stk_scaling all;
static struct stk_err err;

static const struct stk_scaling_options plain = {.su = STK_SU_RATES_INIT, .seed = 1};

/* Computes the study that is in the CSV. */
static void compute(const char *csv, const struct stk_scaling_options *o)
{
    stk_scaling_release(&all);
    stk_study_release(&study);
    err = (struct stk_err){0};
    int rc = stk_study_read_csv(&study, csv, strlen(csv), "t.csv", NULL, &err);
    if (!rc)
        rc = stk_scaling_compute(&study, o ? o : &plain, &all, &err);
    if (rc)
        fprintf(stderr, "%s:%lld: %s\n", err.path, (long long)err.offset, err.what);
    CHECK_INT(rc, 0);
}

static const struct stk_scaling_row *row_of(size_t series, uint64_t n)
{
    for (size_t i = 0; i < all.series[series].nrows; i++)
        if (all.series[series].row[i].n == n)
            return &all.series[series].row[i];
    CHECK_INT(n, 0); /* there is no such N */
    return &all.series[series].row[0];
}

static uint64_t chosen(size_t series, enum stk_wish w)
{
    const struct stk_choice *c = &all.series[series].choice[w];
    return c->asked && c->found ? all.series[series].row[c->row].n : 0;
}

static bool cautioned(const char *id)
{
    for (size_t i = 0; i < all.ncautions; i++)
        if (strcmp(all.caution[i].id, id) == 0)
            return true;
    return false;
}

#define NEAR(got, want, off) CHECK(fabs((got) - (want)) <= (off))

/* ---- published tables --------------------------------------------------------------------- */

struct published {
    uint64_t n;
    double time_s;
    const char *speedup;
    double relative_su;
};

static void hold_against(size_t series, const struct published *want, size_t n)
{
    char text[32];
    for (size_t i = 0; i < n; i++) {
        const struct stk_scaling_row *r = row_of(series, want[i].n);
        snprintf(text, sizeof text, "%.2f", r->speedup);
        CHECK_STR(text, want[i].speedup);
        NEAR(r->relative_su, want[i].relative_su, 0.01);
        CHECK(r->value == want[i].time_s && isnan(r->su));
    }
}

/* PyTorch DDP on MNIST, "Benchmarking Parallel Programs". */
static void published_tables_come_out(void)
{
    static const struct published k80[] = {{1, 226, "1.00", 1.00},
                                           {2, 134, "1.69", 1.18},
                                           {3, 95, "2.38", 1.26},
                                           {4, 76, "2.97", 1.35}};
    static const struct published rtx[] = {{1, 171, "1.00", 1.00}, {2, 108, "1.58", 1.26},
                                           {3, 79, "2.16", 1.39},  {4, 64, "2.67", 1.50},
                                           {5, 57, "3.00", 1.67},  {6, 52, "3.29", 1.82},
                                           {7, 51, "3.35", 2.09},  {8, 49, "3.49", 2.29},
                                           {9, 49, "3.49", 2.58},  {10, 49, "3.49", 2.87}};
    compute("n,time,series\n1,226,K80\n2,134,K80\n3,95,K80\n4,76,K80\n"
            "1,171,RTX 2080 Ti\n2,108,RTX 2080 Ti\n3,79,RTX 2080 Ti\n4,64,RTX 2080 Ti\n"
            "5,57,RTX 2080 Ti\n6,52,RTX 2080 Ti\n7,51,RTX 2080 Ti\n8,49,RTX 2080 Ti\n"
            "9,49,RTX 2080 Ti\n10,49,RTX 2080 Ti\n",
            NULL);
    CHECK_INT(all.nseries, 2);
    hold_against(0, k80, 4);
    hold_against(1, rtx, 10);
    NEAR(row_of(0, 2)->relative_su, 1.186, 0.0005); /* printed there as 1.18 */
    CHECK(!all.series[0].plateau.found);
    CHECK(all.series[1].plateau.found && all.series[1].plateau.n == 6);
    CHECK(!all.series[1].plateau.noise_known && !all.series[1].plateau.sure);
    CHECK_INT(chosen(1, STK_WISH_FASTEST), 8);
    CHECK_INT(chosen(1, STK_WISH_CHEAPEST), 1);
    CHECK_INT(chosen(1, STK_WISH_BALANCED), 6);
    CHECK_INT(chosen(0, STK_WISH_FASTEST), 4);
    CHECK_INT(chosen(0, STK_WISH_BALANCED), 4);
    /* "On a single GPU device, the latter is 30% faster." */
    CHECK(all.ncomparisons == 1 &&
          strstr(all.comparison[0].text, "with N=1 not known (1.32x measured): one run of each"));
    CHECK(all.comparison[0].n == 4 && fabs(all.comparison[0].at_n.times - 76 / 64.0) < 1e-9);
    CHECK(cautioned("single-runs"));
}

static void service_units_are_of_what_was_allocated(void)
{
    struct stk_scaling_options o = plain;
    /* A whole node of 40 cores each time: the SUs fall as the time does. */
    compute("n,time,cores,gpus\n1,3600,40,1\n2,1800,40,2\n4,1200,40,4\n", NULL);
    NEAR(row_of(0, 1)->su, 42, 1e-9);
    NEAR(row_of(0, 2)->su, 22, 1e-9);
    NEAR(row_of(0, 4)->relative_su, (48 * 1200.0) / (42 * 3600.0), 1e-12);
    CHECK(all.series[0].su_known);
    CHECK_INT(chosen(0, STK_WISH_CHEAPEST), 4);
    /* Allocated in proportion: N / s. */
    o.cores_per_n = 1;
    o.gpus_per_n = 1;
    o.max_relative_su = 1.2;
    o.deadline_s = 100;
    compute("1,226\n2,134\n3,95\n4,76\n", &o);
    NEAR(row_of(0, 1)->su, 3 * 226 / 3600.0, 1e-9);
    NEAR(row_of(0, 4)->relative_su, 4 / (226.0 / 76), 1e-12);
    CHECK_INT(chosen(0, STK_WISH_MAX_SU), 2);
    CHECK_INT(chosen(0, STK_WISH_DEADLINE), 3);
    /* One run in twelve was late: the median and its interval do not show it, a deadline does. */
    o.deadline_s = 100;
    compute("n,time,time,time,time,time,time,time,time,time,time,time,time\n"
            "1,90,91,90,91,90,91,90,91,90,91,90,180\n2,50,51,50,51,50,51,50,51,50,51,50,51\n",
            &o);
    CHECK_INT(chosen(0, STK_WISH_DEADLINE), 2);
    o.deadline_s = 10;
    compute("1,226\n2,134\n3,95\n4,76\n", &o);
    CHECK_INT(chosen(0, STK_WISH_DEADLINE), 0);
    CHECK(strstr(all.series[0].choice[STK_WISH_DEADLINE].reason, "1 min 16 s"));
}

/* The screen, in one line. */
static bool text_has(const char *words)
{
    struct stk_buf b = STK_BUF_INIT;
    struct stk_arena arena = STK_ARENA_INIT;
    struct stk_screen s = {.columns = 80, .table_columns = 80, .out = &b};
    struct stk_jval *result;
    CHECK_INT(stk_result_fill(&stk_scale_kind, &all, &arena, &result, NULL), 0);
    stk_screen_draw(&stk_scale_kind, result, &s);
    size_t n = 0;
    for (size_t i = 0; i < b.len; i++) { /* no indentation */
        uint8_t c = b.data[i] == '\n' ? ' ' : b.data[i];
        if (c != ' ' || (n && b.data[n - 1] != ' '))
            b.data[n++] = c;
    }
    b.len = n;
    bool has = strstr(stk_buf_cstr(&b), words);
    stk_arena_release(&arena);
    stk_buf_release(&b);
    return has;
}

/* Each resource has its own source; what no source gives is named. */
static void missing_service_units_are_explained(void)
{
    struct stk_scaling_options o = plain;
    o.cores_per_n = 1;
    o.su = (struct stk_su_rates){.core = 1.5, .node = 10};
    compute("n,time\n1,3600\n2,1800\n8,900\n", &o);
    CHECK(isnan(row_of(0, 1)->su) && all.series[0].su_missing == STK_SU_NO_NODES);
    CHECK(text_has("no SU: missing is the number of nodes (column nodes, or --nodes-per-n)"));
    o.nodes_per_n = 0.25;
    compute("n,time\n1,3600\n2,1800\n8,900\n", &o);
    NEAR(row_of(0, 1)->su, 11.5, 1e-9);
    NEAR(row_of(0, 8)->su, (12 + 20) * 0.25, 1e-9);
    NEAR(row_of(0, 8)->relative_su, 8 / 11.5, 1e-9);
    CHECK(all.series[0].su_known && !all.series[0].su_missing);
    o.nodes_per_n = 0; /* the list of hosts tells */
    compute("n,time,host\n1,3600,n1\n2,1800,\"n[1-2,04]\"\n8,900,\"a,b,c1-x\"\n", &o);
    CHECK(row_of(0, 1)->nodes == 1 && row_of(0, 2)->nodes == 3 && row_of(0, 8)->nodes == 3);
    CHECK(stk_study_hosts("n[1-") == 0 && stk_study_hosts("my node") == 0 &&
          stk_study_hosts("") == 0 && stk_study_hosts("n[1-4]-ib,m") == 5);
    o = plain;
    o.cores_per_n = 4;
    compute("n,time,gpus\n1,3600,1\n2,1800,2\n", &o);
    NEAR(row_of(0, 2)->su, (8 + 4) * 0.5, 1e-9);
    compute("n,time,gpus\n1,3600,1\n2,1800,2\n", NULL);
    CHECK(text_has("no SU: missing is the number of cores (column cores"));
    o.su = (struct stk_su_rates){.gpu = 1};
    o.cores_per_n = 0;
    compute("n,time\n1,3600\n2,1800\n", &o);
    CHECK(text_has("missing is the number of GPUs (column gpus, or --gpus-per-n)"));
    /* Rates have no SUs, but their weights make the relative ones. */
    compute("n,rate,cores,gpus\n1,10,4,1\n2,20,4,2\n", NULL);
    CHECK(isnan(row_of(0, 2)->su) && text_has("missing is the time of a run"));
    NEAR(row_of(0, 2)->relative_su, 8 / 6.0 / 2, 1e-12);
    compute("n,time,cores\n1,3600,1\n2,1800,\n", NULL);
    CHECK(text_has("no SU for some N: missing is the number of cores"));
}

static void a_deadline_needs_times(void)
{
    struct stk_scaling_options o = plain;
    o.deadline_s = 60;
    compute("n,rate\n1,10\n2,20\n", &o);
    CHECK(text_has(
        "Deadline: whether an N finishes within 1 min 00 s is unknown; no run has a time"));
    compute("n,rate,time\n1,10,\n2,20,50\n", &o);
    CHECK_INT(chosen(0, STK_WISH_DEADLINE), 2);
    CHECK(text_has("some runs have no time"));
}

/* What an N costs and gains can only be said against another. */
static void one_n_is_no_choice(void)
{
    compute("n,time\n4,100\n4,101\n8,\n", NULL);
    CHECK(text_has("Plateau: not known from one N.") && !text_has("larger N were not measured"));
    CHECK(text_has("Fastest: N=4 takes 1 min 41 s; no other N was measured.") ||
          text_has("Fastest: N=4 takes 1 min 40 s; no other N was measured."));
    CHECK(!text_has("1 % more speed") && !text_has("costs fewer SUs"));
}

/* Eight quiet N do not make the ninth quiet. */
static void a_noisy_n_has_its_own_noise(void)
{
    compute("n,time\n1,100.03\n1,101.02\n1,99.04\n2,51.02\n2,50.33\n2,49.71\n3,34.02\n3,33.81\n"
            "3,33.27\n4,25.02\n4,25.24\n4,24.81\n6,17.01\n6,16.83\n6,16.65\n8,13.01\n8,12.93\n"
            "8,12.72\n16,9.01\n16,14.02\n16,8.53\n",
            NULL);
    CHECK(text_has("not known") && chosen(0, STK_WISH_FASTEST) == 16);
    CHECK_INT(all.series[0].plateau.last_step.kind, STK_VERDICT_NOT_KNOWN);
}

/* A scheduler counts whole seconds: 11, 11, 11 and 10, 10, 10 are not shown to differ. */
static void whole_seconds_are_no_exact_times(void)
{
    compute("n,time\n1,11\n1,11\n1,11\n2,10\n2,10\n2,10\n", NULL);
    CHECK(text_has("Fastest measured: N=2") || text_has("1 min") || text_has("not known"));
    CHECK_INT(all.series[0].plateau.last_step.kind, STK_VERDICT_NOT_KNOWN);
    compute("n,time\n1,11.02\n1,11.01\n1,11.02\n2,10.01\n2,10.02\n2,10.02\n", NULL);
    CHECK_INT(all.series[0].plateau.last_step.kind, STK_VERDICT_FASTER);
}

/* "± 0.00" and "a difference up to 5.3x would not have been seen" side by side need their reason. */
static void rounding_is_said(void)
{
    compute("n,time,time,time\n1,3,3,3\n2,2,2,2\n4,1,1,1\n8,1,1,1\n", NULL);
    CHECK(cautioned("rounded") && text_has("the times are in whole seconds"));
    CHECK(text_has("up to 5.3x would not have been seen, for the times are rounded."));
    compute("n,time,time\n1,.9,.9\n2,.5,.5\n", NULL);
    CHECK(cautioned("rounded") && text_has("in steps of 0.1 s"));
    compute("n,time,time\n1,300,301\n2,160,161\n", NULL);
    CHECK(!cautioned("rounded") && !text_has("rounded"));
    compute("n,time,time\n1,3.02,3.01\n2,2.04,2.03\n", NULL);
    CHECK(!cautioned("rounded"));
}

/* "Cheapest: N=1; no larger N costs fewer SUs" where the speedup was 0.84 to 1.85. */
static void every_wish_says_what_is_not_known(void)
{
    compute("n,time,time,time\n1,100,130,90\n2,80,50,105\n4,60,95,40\n8,70,35,90\n", NULL);
    CHECK(text_has("Cheapest measured: N=1") && text_has("the SUs of N=2 against its: not known "
                                                         "(1.6x measured): a difference up to"));
    CHECK(text_has("Balanced as measured: N=1") && text_has("time times SUs of N=2 against its: not "
                                                            "known (1.28x measured): a difference"));
    CHECK(!text_has("by the law") && !text_has("no larger N costs") && !text_has("Peak: none"));
    for (int w = 0; w <= STK_WISH_BALANCED; w++)
        CHECK(!all.series[0].choice[w].known);
    /* One run of each. */
    compute("n,time\n1,100\n2,70\n", NULL);
    CHECK(text_has("N=1 against it: not known (0.7x measured): one run of each does not show"));
    CHECK(text_has("the SUs of N=2 against its: not known (1.4x measured): one run of each"));
    CHECK(text_has("time times SUs of N=1 against its: not known (1.02x measured): one run of each"));
    /* Faster at 1.84 times the SUs as measured. */
    compute("n,rate\n1,10\n1,14\n2,19\n2,13\n4,30\n4,22\n", NULL);
    CHECK(text_has("Perhaps cheapest: N=4") && text_has("its SUs against those of N=1: not known"));
    CHECK(!all.series[0].choice[STK_WISH_CHEAPEST].known);
    /* Quiet runs know all three. */
    compute("n,time,time,time\n1,100.1,100.2,100.3\n2,60.2,60.1,60.3\n4,45.1,45.2,45.3\n", NULL);
    for (int w = 0; w <= STK_WISH_BALANCED; w++)
        CHECK(all.series[0].choice[w].known);
    CHECK(text_has("Fastest: N=4") && text_has("Cheapest: N=1") && text_has("Balanced: N=2"));
}

/* SU counts the whole run, the metric a part of it: "its SUs" would contradict the column. */
static void relative_su_of_a_metric_is_of_the_same_work(void)
{
    compute("n,rate,time,cores\n1,100,10,4\n2,190,9,8\n", NULL);
    CHECK(text_has("x its SUs for the same work ("));
    compute("n,time,cores\n1,100,4\n2,52,8\n", NULL);
    CHECK(text_has("x its SUs (") && !text_has("for the same work ("));
}

/* A failed N was not measured: no sentence may speak of it as if it were. */
static void only_measured_n_count(void)
{
    compute("n,time,status\n1,100,ok\n2,55,ok\n8,,failed\n", NULL);
    CHECK(text_has("Plateau: none up to N=2, as one run of each shows it.") &&
          !text_has("no larger N that was measured"));
    CHECK(text_has("it is the largest N measured") && text_has("larger N were not measured"));
    compute("n,time,status\n1,,failed\n2,55,ok\n4,30,ok\n8,,pending\n", NULL);
    CHECK(text_has("Plateau: none up to N=4, as one run of each shows it.") && all.series[0].last == 2);
    CHECK(cautioned("failed") && cautioned("not-run"));
    CHECK(row_of(0, 8)->lost == 1 && row_of(0, 8)->bad == 0 && row_of(0, 1)->bad == 1);
}

static void basic_formulas_hold(void)
{
    compute("n,time\n2,60\n4,40\n8,30\n", NULL);
    /* The base is N=2: taken to be perfect, and said. */
    NEAR(row_of(0, 2)->speedup, 2, 1e-12);
    NEAR(row_of(0, 8)->speedup, 4, 1e-12);
    NEAR(row_of(0, 8)->efficiency, 0.5, 1e-12);
    NEAR(row_of(0, 8)->karp_flatt, (1 / 4.0 - 1 / 8.0) / (1 - 1 / 8.0), 1e-12);
    CHECK(isnan(row_of(0, 2)->karp_flatt) && cautioned("base"));
    /* A rate: more is better. */
    compute("n,rate\n1,100\n2,190\n4,300\n", NULL);
    CHECK(study.metric && study.higher_better);
    NEAR(row_of(0, 4)->speedup, 3, 1e-12);
    NEAR(row_of(0, 4)->value, 300, 1e-9);
    NEAR(row_of(0, 4)->relative_su, 4 / 3.0, 1e-12);
    CHECK_INT(chosen(0, STK_WISH_FASTEST), 4);
}

static void weak_scaling(void)
{
    study.weak = false;
    compute("1,100\n2,105\n4,110\n8,120\n", NULL);
    stk_scaling_release(&all);
    study.weak = true;
    CHECK_INT(stk_scaling_compute(&study, &plain, &all, &err), 0);
    NEAR(row_of(0, 8)->speedup, 8 * 100 / 120.0, 1e-12);
    NEAR(row_of(0, 8)->efficiency, 100 / 120.0, 1e-12);
    NEAR(row_of(0, 8)->relative_su, 1.2, 1e-12);
    CHECK(isnan(row_of(0, 8)->karp_flatt));
    CHECK_INT(chosen(0, STK_WISH_FASTEST), 8);
}

/* ---- noise -------------------------------------------------------------------------------- */

static void noise_is_taken_into_account(void)
{
    /* 8 is 1 % faster than 4, runs differ by 5 %: nobody should pay double for that. */
    compute("n,time,time,time\n1,100,104,97\n2,52,49,51\n4,30,31.5,29\n8,29.7,31,28.6\n", NULL);
    CHECK_INT(chosen(0, STK_WISH_FASTEST), 4);
    CHECK(strstr(all.series[0].choice[STK_WISH_FASTEST].reason, "8 against it: not known (1.01x"));
    CHECK_INT(all.series[0].plateau.last_step.kind, STK_VERDICT_NOT_KNOWN);
    CHECK(all.series[0].plateau.found && all.series[0].plateau.n == 4 &&
          all.series[0].plateau.sure);
    CHECK(stk_interval_known(row_of(0, 8)->speedup_ci) && row_of(0, 8)->cost.ci_is_range);
    CHECK(row_of(0, 8)->speedup_ci.lo < row_of(0, 8)->speedup);
    /* Loud enough that the plateau could be anywhere. */
    compute("n,time,time\n1,100,140\n2,60,80\n4,50,70\n8,48,66\n", NULL);
    CHECK(all.series[0].plateau.found && !all.series[0].plateau.sure);
    CHECK(cautioned("noisy") && !cautioned("spread")); /* they are all alike: said once */
    compute("n,time,time,time\n1,100,101,99\n2,51,70,50\n4,26,26.2,26.1\n8,15,15.1,15\n", NULL);
    CHECK(cautioned("spread"));
    compute("n,time\n1,9\n1,5\n1,5.01\n1,5\n1,4.99\n1,5\n", NULL);
    CHECK(cautioned("outliers") && cautioned("few-points"));
}

/* Two modes are neither quiet nor outliers, and a node may explain them. */
static void modes_are_reported(void)
{
    compute("n,time,time,time,time,time\n1,1,1.01,2,2.01,2.02\n2,.55,.56,1.1,1.11,1.12\n"
            "4,.33,.331,.332,.333,.66\n",
            NULL);
    CHECK(cautioned("modes") && cautioned("noisy") && !cautioned("superlinear"));
    CHECK(row_of(0, 1)->modes.mode[0].runs == 2 && row_of(0, 1)->modes.mode[1].runs == 3);
    CHECK(
        text_has("N=1: the times have two modes: 2 of 5 runs are near 1.00 s, 3 near 2.01 s (2x)"));
    CHECK(!text_has("a warm-up run helps"));
    CHECK(text_has("(151 % efficient; two modes: 3.03x by the fast runs of both)"));
    compute("n,time,time,time,time,time,time\n1,1,1.01,2,2.01,3,3.01\n2,.5,.51,1,1.01,1.5,1.51\n", NULL);
    CHECK(text_has("N=1: the times have three modes: 2 of 6 runs are near 1.00 s, 2 near 2.00 s, 2 "
                   "near 3.00 s (3x)"));
    compute("n,time,host\n1,1,a\n1,2,b\n1,1.01,a\n1,2.01,b\n1,1.02,c\n", NULL);
    CHECK(text_has("the slow runs are those on b.") && !cautioned("slow-node"));
    compute("n,time,host\n1,1,a\n1,2,a\n1,1.01,b\n1,2.01,b\n1,1.02,b\n", NULL);
    CHECK(text_has("the node does not explain it"));
    /* Three runs per N are too few for modes; over all N a slow node shows. */
    compute("n,time,host\n1,10,a\n1,14,b\n1,10.1,c\n2,5,a\n2,7.1,b\n2,5.05,c\n"
            "4,2.6,c\n4,3.6,b\n4,2.5,a\n",
            NULL);
    CHECK(cautioned("slow-node") && text_has("b is slow: 3 runs there took 1.40x as long"));
    compute("n,rate,rate,rate,rate,rate\n1,1,1.01,2,2.01,2.02\n", NULL);
    CHECK(!cautioned("outliers"));
}

static void odd_data_are_pointed_out(void)
{
    compute("n,time,kind\n1,100,k80\n2,50,k80\n4,10,a100\n", NULL);
    CHECK(cautioned("mixed-kinds") && cautioned("superlinear"));
    compute("n,time\n1,100\n2,50\n4,80\n8,20\n", NULL);
    CHECK(cautioned("not-monotonic"));
    compute("n,time\n1,100\n2,60\n4,40\n8,50\n", NULL); /* a peak is no zigzag */
    CHECK(!cautioned("not-monotonic"));
    compute("n,time,status,cores\n1,100,ok,1\n2,,OUT_OF_MEMORY,2\n4,30,COMPLETED,4\n4,31,ok,8\n",
            NULL);
    CHECK(cautioned("failed") && cautioned("mixed-allocation"));
    CHECK(row_of(0, 2)->why == STK_RUN_MEMORY && row_of(0, 2)->runs == 0 && row_of(0, 2)->bad == 1);
    CHECK_INT(chosen(0, STK_WISH_FASTEST), 4);
    compute("n,time,status\n1,,failed\n2,,timeout\n", NULL);
    CHECK(cautioned("empty") && !all.series[0].choice[STK_WISH_FASTEST].found);
    compute("n,time\n1,100\n2,60\n", NULL);
    CHECK(cautioned("few-points") && !stk_interval_known(all.series[0].laws->fit[0].serial_ci));
    /* In the order of running, no two of the same N follow each other. */
    compute("n,time,cores\n1,100,4\n2,50,8\n1,101,40\n2,51,8\n", NULL);
    CHECK(cautioned("mixed-allocation"));
}

static void accelerators_are_held_against_cpus(void)
{
    compute("n,time,series,cores,gpus\n1,1000,cpu,1,0\n8,150,cpu,8,0\n1,30,gpu,4,1\n2,18,gpu,8,2\n",
            NULL);
    CHECK(all.ncomparisons == 1 && all.comparison[0].accelerator && all.comparison[0].pays);
    NEAR(all.comparison[0].speed, 150 / 18.0, 1e-12);
    NEAR(all.comparison[0].su, 6 * 30.0 / 1000, 1e-12);
    CHECK(strstr(all.comparison[0].text, "As measured, the accelerator pays"));
    compute("n,time,series,cores,gpus\n1,900,gpu,4,1\n1,1000,cpu,1,0\n4,300,cpu,4,0\n", NULL);
    CHECK(!all.comparison[0].pays && all.comparison[0].a == 1);
    CHECK(strstr(all.comparison[0].text, "does not pay"));
}

static int read_json(const char *text)
{
    stk_scaling_release(&all);
    stk_study_release(&study);
    int rc = stk_study_read_json(&study, text, strlen(text), "s.json", &err);
    return rc ? rc : stk_scaling_compute(&study, &plain, &all, &err);
}

/* A difference between placements, or kinds, may be chance: the comparison says so. */
static void comparisons_know_the_noise(void)
{
    compute(
        "n,time,time,time,series\n4,10,10.1,9.9,packed\n8,6,6.1,5.9,packed\n16,4,4.1,3.9,packed\n"
        "4,12,12.1,11.9,spread\n8,6.02,6.1,5.9,spread\n16,5,5.1,4.9,spread\n",
        NULL);
    const struct stk_comparison *c = &all.comparison[0];
    CHECK(c->common == 3 && c->clear == 2 && c->n == 16 && c->at_n.kind == STK_VERDICT_SLOWER);
    CHECK(strstr(c->text, "; with N=16 slower, 0.8x (95 %:"));
    CHECK(strstr(c->text, "at 2 of their 3 common N one is shown to be faster"));
    compute("n,time,time,series\n4,10,11,a\n4,10.2,11,b\n", NULL);
    CHECK(strstr(all.comparison[0].text, "b against a: with N=4 not known (0.991x measured): a "));
    compute("n,time,series\n4,10,a\n4,12,b\n", NULL);
    CHECK(strstr(all.comparison[0].text, "one run of each does not show the noise"));
}

/* A launcher of 0.3 s in runs of a second is not a serial part of the program. */
static void launchers_are_told_apart(void)
{
    static const char text[] =
        "{\"stoker_study\": 1, \"series\": [{\"name\": \"\", \"runs\": [{\"n\": 1, \"wall_s\": 4, "
        "\"launch_s\": 0.1}, {\"n\": 8, \"wall_s\": 1, \"launch_s\": 0.3}, {\"n\": 8, \"wall_s\": "
        "1}]}]}";
    CHECK_INT(read_json(text), 0);
    CHECK(cautioned("launch") && text_has("N=8: the launcher alone takes 300 ms of 1.00 s (30.0 %)"));
    CHECK_INT(read_json("{\"stoker_study\": 1, \"series\": [{\"name\": \"\", \"runs\": [{\"n\": 2, "
                        "\"wall_s\": 2, \"launch_s\": 4}]}]}"),
              0);
    CHECK(text_has("as long as the whole run (4.00 s, 2.00 s)")); /* not "4 s of 2 s (200 %)" */
    CHECK_INT(read_json(text), 0);
    CHECK(study.series[0].run[1].launch_s == 0.3 && isnan(study.series[0].run[2].launch_s));
    compute("n,time,job\n1,20,7\n8,3,8\n", NULL);
    CHECK(text_has("jobs of N=8 take less than 10 s"));
    compute("n,time,job\n1,200,7\n8,30,8\n", NULL);
    CHECK(!cautioned("launch"));
}

/* ---- files -------------------------------------------------------------------------------- */

static int read_bad(const char *csv)
{
    struct stk_study s = STK_STUDY_INIT;
    err = (struct stk_err){0};
    int rc = stk_study_read_csv(&s, csv, strlen(csv), "t.csv", NULL, &err);
    stk_study_release(&s);
    return rc;
}

static void tables_are_read_as_people_write_them(void)
{
    compute("\xef\xbb\xbf# from a spreadsheet\r\n N ; Time (s) ; Speedup \r\n1;226;1.00\r\n\r\n"
            "2;2m14s;1.69\r\n4;0:01:16;\r\n8;1-00:00:01;\r\n",
            NULL);
    CHECK(row_of(0, 2)->value == 134 && row_of(0, 4)->value == 76 && row_of(0, 8)->value == 86401);
    compute("n,time,repeat,series,cores,gpus,nodes,host,status\n1,226,0,\"K80, old\",4,1,1,n042,ok\n2,134,0,\"K80, old\",8,2,1,n042,ok\n", NULL);
    CHECK_STR(study.series[0].name, "K80, old");
    CHECK(row_of(0, 2)->gpus == 2 && strcmp(study.series[0].run[0].host, "n042") == 0);
    /* Markdown, a decimal comma, blanks as gnuplot reads them, a column that is N by its place. */
    compute("|N|Time (s)|Speedup|\n|---|:-:|---|\n|1|226 |1.00 |\n|2| 134|1.69|\n", NULL);
    CHECK(row_of(0, 1)->value == 226 && row_of(0, 2)->value == 134);
    compute("N;Time [s]\r\n1;10,5\r\n2;0,125\r\n", NULL);
    CHECK(row_of(0, 1)->value == 10.5 && row_of(0, 2)->value == 0.125);
    compute("# n t\n 1   10 \n2 \t 5.5\n", NULL);
    CHECK(row_of(0, 1)->value == 10 && row_of(0, 2)->value == 5.5);
    compute("gpus,time\n1,10\n2,6\n", NULL);
    CHECK(row_of(0, 2)->value == 6 && row_of(0, 2)->gpus == 2);
    compute("n,threads,time\n1,4,10\n2,8,6\n", NULL);
    CHECK(row_of(0, 2)->value == 6);
}

static struct stk_headings headings;

static void compute_as(const char *columns, const char *csv)
{
    stk_scaling_release(&all);
    stk_study_release(&study);
    CHECK_INT(stk_headings_parse(columns, &headings, &err), 0);
    study.headings = &headings;
    CHECK_INT(stk_study_read_csv(&study, csv, strlen(csv), "t.csv", NULL, &err), 0);
    CHECK_INT(stk_scaling_compute(&study, &plain, &all, &err), 0);
}

static void units_are_in_headings(void)
{
    static const struct {
        const char *csv;
        double value;
    } same[] = {
        {"n,Time (sec)\n1,90\n", 90},
        {"n,time [ms]\n1,90000\n", 90},
        {"n,time_ms\n1,90000\n", 90},
        {"n,Wall time (min)\n1,1.5\n", 90},
        {"n,runtime_h\n1,0.025\n", 90},
        {"n,elapsed (h:mm:ss)\n1,0:01:30\n", 90},
        {"n,elapsed (mm:ss)\n1,1:30\n", 90},
        {"n,time (h:mm)\n1,1:30\n", 5400},
        {"n,time (ms)\n1,1.5m\n", 90}, /* a unit in the cell wins */
        {"n,Seconds\n1,90\n", 90},
        {"n,milliseconds\n1,90000\n", 90},
        {"n;Time (s)\n1;90,5\n", 90.5},
        {"n,runtime_avg[s],runtime_std[s]\n1,90,3\n", 90},
        {"n,mean,median,min,max\n1,99,90,1,2\n", 90},
        {"n,step time (ms)\n1,90000\n", 90},
        {"n,epoch_time_avg,epoch_time_min\n1,90,80\n", 90},
        {"n,time to solution [s],cpu_time,start_time\n1,90,x,x\n", 90},
        {"n,epoch_time,time\n1,7,90\n", 90}, /* the plain one wins */
        {"n,run1,run2,run3\n1,90,95,80\n", 90},
        {"n,t1,t2,t3\n1,90,95,80\n", 90},
        {"n,time_1,time_2,time_3\n1,90,95,80\n", 90},
        {"# time [ms] n\n90000 1\n", 90}, /* a header for gnuplot */
        {"# of a Monday\n1,90\n", 90},    /* none */
        {"n,img/s\n1,90\n", 90},
        {"n,throughput [img/s]\n1,90\n", 90},
        {"n,tokens per second\n1,90\n", 90},
        {"n,perf (GFLOP/s)\n1,90\n", 90},
    };
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        compute(same[i].csv, NULL);
        if (fabs(row_of(0, 1)->value - same[i].value) > 1e-9)
            fprintf(stderr, "%s: %g\n", same[i].csv, row_of(0, 1)->value);
        NEAR(row_of(0, 1)->value, same[i].value, 1e-9);
    }
    CHECK_STR(study.metric, "GFLOP/s");
    CHECK(study.higher_better);
    CHECK_INT(read_bad("n,time (parsec)\n1,3\n"), STK_E_CORRUPT);
    CHECK_INT(read_bad("n,epoch_time,step_time\n1,3,4\n"), STK_E_CORRUPT);
    CHECK(strstr(err.what, "several columns could be the time"));
    CHECK_INT(read_bad("n,cpu_time\n1,3\n"), STK_E_CORRUPT);
    CHECK_INT(read_bad("n,step_time_max\n1,3\n"), STK_E_CORRUPT);
    CHECK_INT(read_bad("\xff\xfen"), STK_E_CORRUPT);
    CHECK(strstr(err.what, "UTF-16"));
    compute_as("n=x,time=solve", "x,y,solve [ms],time\n1,2,3000,99\n");
    CHECK(row_of(0, 1)->value == 3 && row_of(0, 1)->runs == 1);
    compute_as("time=solver_avg", "Tasks,img/s,solver_avg\n4,7,3\n"); /* times were asked for */
    CHECK(row_of(0, 4)->value == 3 && !study.metric);
    CHECK_STR(study.unit, "tasks");
    CHECK_INT(stk_headings_parse("n=x,speed=y", &headings, &err), STK_E_USAGE);
    CHECK_INT(stk_headings_parse("n=", &headings, &err), STK_E_USAGE);
    stk_headings_parse("n=nosuch", &headings, &err);
    study.headings = &headings;
    CHECK_INT(stk_study_read_csv(&study, "n,time\n1,2\n", 11, "t", NULL, &err), STK_E_CORRUPT);
    CHECK(strstr(err.what, "there is no column \"nosuch\""));
}

static void n_is_what_varies(void)
{
    compute("nodes,gpus,time\n1,4,10\n2,8,6\n", NULL);
    CHECK(row_of(0, 8)->nodes == 2 && row_of(0, 8)->value == 6);
    CHECK_STR(study.unit, "GPUs");
    compute("nodes,gpus,time\n1,0,10\n2,0,6\n", NULL);
    CHECK(row_of(0, 2)->value == 6 && row_of(0, 2)->gpus == 0);
    compute("Number of GPUs;Time (s)\n1;10\n4;3\n", NULL);
    CHECK(row_of(0, 4)->gpus == 4);
    compute("world_size,epoch_time\n1,10\n4,3\n", NULL);
    CHECK_STR(study.unit, "ranks");
    compute("cores,ntasks,time\n8,,10\n16,4,6\n", NULL); /* not in every row */
    CHECK(row_of(0, 16)->value == 6);
    compute("n,rate,rate,time\n1,10,11,5\n2,20,21,4\n", NULL); /* repeats, as of times */
    CHECK(row_of(0, 2)->runs == 2 && row_of(0, 2)->wall_s == 4);
}

/* As sacct -P and JUBE write them. */
static void tables_of_other_tools(void)
{
    compute("JobID|JobName|AllocCPUS|NTasks|NNodes|Elapsed|State|AllocTRES|NodeList\n"
            "11|a|4||1|00:10:00|COMPLETED|billing=4,cpu=4,gres/gpu:k80=2,gres/gpu=2,node=1|n1\n"
            "11.batch|batch|4|1|1|00:10:00|COMPLETED|cpu=4,node=1|n1\n"
            "11.0|solve|4|4|1|00:09:58|COMPLETED|cpu=4,node=1|n1\n"
            "12|a|8||2|00:06:00|COMPLETED|billing=8,cpu=8,mem=4G,node=2|n[1-2]\n"
            "12.0|solve|8|8|2|00:05:00|COMPLETED|cpu=8,node=2|n[1-2]\n"
            "13|a|16||4|00:00:00|CANCELLED by 0|cpu=16,node=4|None assigned\n"
            "14|a|16||4|00:01:00|RUNNING|cpu=16,node=4|n[1-4]\n",
            NULL);
    CHECK(row_of(0, 4)->runs == 1 && row_of(0, 4)->value == 600 && row_of(0, 4)->gpus == 2);
    CHECK(row_of(0, 8)->value == 360 && row_of(0, 8)->nodes == 2 && row_of(0, 8)->gpus == 0);
    CHECK(row_of(0, 16)->lost == 1 && row_of(0, 16)->bad == 0 && row_of(0, 16)->runs == 0);
    compute("JobID|NTasks|Elapsed\n11.0|4|00:10:00\n12.0|8|00:05:00\n", NULL); /* only steps */
    CHECK(row_of(0, 8)->value == 300);
    compute("result:\n| tasks | runtime_avg[s] | runtime_std[s] |\n|-------|----------------|---|\n"
            "|     1 |          10.0  | 0.1 |\n|     2 |           5.5  | 0.2 |\n",
            NULL);
    CHECK(row_of(0, 2)->value == 5.5);
    CHECK_STR(study.unit, "tasks");
    compute("tasks,runtime_avg[s],runtime_cnt\n1,10,3\n2,5.5,3\n", NULL);
    CHECK(row_of(0, 2)->value == 5.5);
    compute("result:\n  tasks | time[s]\n  ------+--------\n      1 |    10.0\n", NULL);
    CHECK(row_of(0, 1)->value == 10);
}

static void tables_of_sacct(void)
{
    /* -p ends each line with a separator; a job that never started was allocated nothing. */
    compute("JobIDRaw|AllocCPUS|ElapsedRaw|CPUTimeRAW|Planned|State|\n"
            "11|4|600|2400|00:00:00|COMPLETED|\n"
            "11.batch|4|600|2400||COMPLETED|\n"
            "12|0|0|0|00:01:00|PENDING|\n"
            "13|0|0|0|00:01:00|CANCELLED by 1000|\n"
            "14|4|1|4|00:01:00|PREEMPTED|\n",
            NULL);
    CHECK(row_of(0, 4)->value == 600 && row_of(0, 4)->runs == 1 && row_of(0, 4)->lost == 1);
    CHECK_INT(read_bad("JobID|AllocCPUS|Elapsed|State\n1|0|00:00:10|COMPLETED\n"), STK_E_CORRUPT);
    /* Without -P: cells are empty, or contain blanks. */
    compute("JobID           Account  AllocCPUS      State    Elapsed \n"
            "------------ ---------- ---------- ---------- ---------- \n"
            "10                  lab          1  COMPLETED   00:01:40 \n"
            "11                               2  COMPLETED   00:00:55 \n"
            "11.batch            lab          2  COMPLETED   00:00:55 \n"
            "12                  a b          4 CANCELLED+   00:00:10 \n",
            NULL);
    CHECK(row_of(0, 1)->value == 100 && row_of(0, 2)->value == 55 && row_of(0, 2)->runs == 1);
    CHECK(row_of(0, 4)->lost == 1);
}

static void tables_of_hyperfine(void)
{
    compute("command,mean,median,parameter_algo,parameter_threads\n"
            "x,1,2,a,1\nx,1,1.5,a,2\nx,1,7,b,1\nx,1,6,b,2\n",
            NULL);
    CHECK_INT(study.nseries, 2);
    CHECK_STR(study.series[1].name, "algo=b");
    CHECK(row_of(1, 2)->value == 6 && row_of(1, 2)->runs == 1);
    compute("command,median,parameter_size\nx,2,10\nx,4,20\n", NULL); /* the only one is N */
    CHECK(row_of(0, 20)->value == 4);
}

static void json_of_other_tools(void)
{
    CHECK_INT(read_json("{\"results\": [{\"command\": \"x\", \"mean\": 2, \"times\": [1, 2, 9], "
                        "\"exit_codes\": [0, 0, 1], \"parameters\": {\"threads\": \"4\"}}, "
                        "{\"median\": 3.5, \"mean\": 4, \"parameters\": {\"threads\": \"8\"}}]}"),
              0);
    CHECK(row_of(0, 4)->runs == 2 && row_of(0, 4)->bad == 1 && row_of(0, 8)->value == 3.5);
    CHECK_STR(study.unit, "threads");
    CHECK_INT(read_json("{\"results\": [{\"times\": [1], \"parameters\": {\"x\": \"3\"}}]}"), 0);
    CHECK(row_of(0, 3)->value == 1);
    CHECK_INT(read_json("{\"results\": [{\"times\": [1], \"parameters\": {\"algo\": \"a, b\", "
                        "\"n\": \"3\"}}]}"),
              0);
    CHECK_STR(study.series[0].name, "algo=a, b");
    CHECK_INT(read_json("{\"results\": [{\"times\": [1], \"parameters\": {}}]}"), STK_E_CORRUPT);
    CHECK(strstr(err.what, "--parameter-list"));
    CHECK_INT(
        read_json(
            "{\"results\": [{\"times\": [1], \"parameters\": {\"x\": \"1\", \"y\": \"2\"}}]}"),
        STK_E_CORRUPT);
    CHECK(strstr(err.what, "--columns n=NAME"));
    /* ReFrame 4: a value with reference, bounds, unit and verdict. */
    CHECK_INT(
        read_json("{\"session_info\": {\"data_version\": \"4.1\"}, \"runs\": [{\"testcases\": ["
                  "{\"name\": \"solve %num_tasks=2\", \"result\": \"pass\", \"num_tasks\": 2, "
                  "\"jobid\": \"71\", \"job_nodelist\": [\"n1\", \"n2\"], \"perfvalues\": "
                  "{\"hpc:main:solve_time\": [1500, 0, null, null, \"ms\", \"pass\"], "
                  "\"hpc:main:setup_time\": [200, 0, null, null, \"ms\", \"pass\"]}}]}]}"),
        STK_E_CORRUPT); /* which value is the time? */
    CHECK(strstr(err.what, "several columns could be the time"));
    stk_scaling_release(&all);
    stk_study_release(&study);
    CHECK_INT(stk_headings_parse("time=solve_time", &headings, &err), 0);
    static const char report[] =
        "{\"session_info\": {}, \"runs\": [{\"testcases\": ["
        "{\"name\": \"solve %num_tasks=2\", \"result\": \"pass\", \"num_tasks\": 2, "
        "\"jobid\": \"71\", \"job_nodelist\": [\"n1\", \"n2\"], \"perfvalues\": "
        "{\"hpc:main:solve_time\": [1500, 0, null, null, \"ms\", \"pass\"]}}, "
        "{\"name\": \"solve %num_tasks=4\", \"result\": \"fail\", \"num_tasks\": 4, "
        "\"jobid\": null, \"perfvalues\": {}}]}]}";
    study.headings = &headings;
    CHECK_INT(stk_study_read_json(&study, report, strlen(report), "r.json", &err), 0);
    CHECK_INT(stk_scaling_compute(&study, &plain, &all, &err), 0);
    CHECK(row_of(0, 2)->value == 1.5 && row_of(0, 2)->nodes == 2 && row_of(0, 4)->bad == 1);
    /* Parameters other than N are curves, and so are tests. */
    CHECK_INT(
        read_json("{\"session_info\": {}, \"runs\": [{\"testcases\": ["
                  "{\"name\": \"solve %num_threads=2 %algo=a %x=1 2\", \"result\": \"pass\", "
                  "\"num_threads\": 2, \"num_tasks\": 1, \"perfvalues\": "
                  "{\"h:p:elapsed\": [9, 0, null, null, \"s\", \"pass\"]}}, "
                  "{\"name\": \"solve %num_threads=4 %algo=b\", \"result\": \"pass\", "
                  "\"num_threads\": 4, \"num_tasks\": 1, \"perfvalues\": "
                  "{\"h:p:elapsed\": [5, 0, null, null, \"s\", \"pass\"]}}, "
                  "{\"name\": \"other\", \"result\": \"pass\", \"num_threads\": 8, \"perfvalues\": "
                  "{\"h:p:elapsed\": [3, 0, null, null, \"s\", \"pass\"]}}]}]}"),
        0);
    CHECK_INT(study.nseries, 3);
    CHECK_STR(study.series[0].name, "solve, algo=a, x=1 2");
    CHECK_STR(study.series[1].name, "solve, algo=b");
    CHECK_STR(study.series[2].name, "other");
    CHECK(row_of(0, 2)->value == 9 && row_of(1, 4)->value == 5 && row_of(2, 8)->value == 3);
    /* Version 3 has a list, and parameters apart. */
    CHECK_INT(
        read_json("{\"session_info\": {}, \"runs\": [{\"testcases\": [{\"result\": \"success\", "
                  "\"check_params\": {\"num_threads\": 8}, \"perfvars\": [{\"name\": \"bw\", "
                  "\"unit\": \"GB/s\", \"value\": 30.5}]}]}]}"),
        0);
    CHECK(row_of(0, 8)->value == 30.5 && study.higher_better);
    CHECK_INT(read_json("{\"session_info\": {}, \"runs\": [{\"testcases\": [7, {}]}]}"),
              STK_E_CORRUPT);
}

static void errors_name_the_line(void)
{
    CHECK_INT(read_bad("n,time\n1,10\n2,abc\n"), STK_E_CORRUPT);
    CHECK(err.offset == 3 && strstr(err.what, "\"abc\" is not a time"));
    CHECK_INT(read_bad("n,time\n0,10\n"), STK_E_CORRUPT);
    CHECK_INT(err.offset, 2);
    CHECK_INT(read_bad("n,time\n1,0\n"), STK_E_CORRUPT);
    CHECK_INT(read_bad("n,time\n1,-5\n"), STK_E_CORRUPT);
    CHECK_INT(read_bad("n,time\n1,inf\n"), STK_E_CORRUPT);
    CHECK_INT(read_bad("n,speed\n1,2\n"), STK_E_CORRUPT);
    CHECK(strstr(err.what, "`n`"));
    CHECK_INT(read_bad("n,time\n1,\"2\n"), STK_E_CORRUPT);
    CHECK_INT(read_bad("n,time\n1,2,3\n"), STK_E_CORRUPT);
    CHECK_INT(read_bad(""), STK_E_CORRUPT);
    CHECK_INT(read_bad("n,time\n,3\n"), STK_E_CORRUPT);
    CHECK_INT(read_bad("n;time\n1;1,250\n"), STK_E_CORRUPT); /* a thousand, or one and a quarter */
    CHECK_INT(read_bad("kind,time\n1,10\n"), STK_E_CORRUPT);
    CHECK(strstr(err.what, "--columns n=HEADING"));
    CHECK_INT(read_bad("n,img/s,GB/s\n1,10,2\n"), STK_E_CORRUPT);
    CHECK(strstr(err.what, "several columns could be compared"));
    CHECK_INT(read_bad("n time\n1 10\n\n 2 x\n"), STK_E_CORRUPT);
    CHECK_INT(err.offset, 4);
    /* A second file without times is as wrong as a first one. */
    struct stk_study s = STK_STUDY_INIT;
    CHECK_INT(stk_study_read_csv(&s, "1,2\n", 4, "a.csv", NULL, &err), 0);
    CHECK_INT(stk_study_read_csv(&s, "n,time\n", 7, "b.csv", NULL, &err), STK_E_CORRUPT);
    stk_study_release(&s);
}

static void studies_survive_json(void)
{
    struct stk_study back = STK_STUDY_INIT;
    struct stk_buf a = STK_BUF_INIT, b = STK_BUF_INIT;
    struct stk_jw w;
    compute("n,time,series,cores,gpus,nodes,host,status,kind,note,jobid,queue\n"
            "1,226.25,a,4,1,1,h\xc3\xa4,ok,k80,,17_1,3.5\n2,,b,8,2,1,,OUT_OF_MEMORY,,\"says "
            "\"\"no\"\"\",,\n",
            NULL);
    stk_jw_init(&w, &a, true);
    stk_study_write_json(&study, &w);
    CHECK_INT(stk_study_read_json(&back, (const char *)a.data, a.len, "s.json", &err), 0);
    stk_jw_init(&w, &b, true);
    stk_study_write_json(&back, &w);
    CHECK(a.len == b.len && memcmp(a.data, b.data, a.len) == 0);
    CHECK(back.nseries == 2 && back.series[1].run[0].status == STK_RUN_MEMORY);
    stk_study_release(&back);
    static const char *const bad[] = {
        "{}",
        "[]",
        "{\"stoker_study\": 2, \"series\": []}",
        "{\"stoker_study\": 1}",
        "{\"stoker_study\": 1, \"series\": [{\"runs\": [{\"n\": 0}]}]}",
        "{\"stoker_study\": 1, \"series\": [{\"runs\": [{\"n\": 1, \"wall_s\": -1}]}]}",
        "{\"stoker_study\": 1, \"series\": [{\"runs\": [{\"n\": 1, \"wall_s\": \"x\"}]}]}",
        "{\"stoker_study\": 1, \"series\": [{\"runs\": [7]}]}",
        "{\"stoker_study\": 1, \"series\": [{\"runs\": [{\"n\": 1, \"status\": 5}]}]}",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK_INT(stk_study_read_json(&back, bad[i], strlen(bad[i]), "s.json", &err),
                  STK_E_CORRUPT);
        stk_study_release(&back);
    }
    stk_buf_release(&a);
    stk_buf_release(&b);
}

/* Runs of other points would count as repeats of this one. */
static void points_and_other_studies(void)
{
    static const char text[] =
        "{\"stoker_study\": 1, \"metric\": \"x\", \"series\": [{\"name\": \"\", \"runs\": "
        "[{\"n\": 2, \"point\": \"n2-on1\", \"value\": 3}]}, {\"name\": \"b\", \"runs\": []}]}";
    struct stk_study from = STK_STUDY_INIT, to = STK_STUDY_INIT;
    CHECK_INT(stk_study_read_json(&from, text, strlen(text), "s.json", &err), 0);
    CHECK_STR(from.series[0].run[0].point, "n2-on1");
    CHECK_INT(stk_study_set_metric(&to, "x", false, &err), 0);
    CHECK_INT(stk_study_append(&to, &from, "this", &err), 0);
    CHECK(to.nseries == 2 && to.nruns == 1);
    CHECK_STR(to.series[0].name, "this");
    stk_study_release(&from);
    CHECK_STR(to.series[0].run[0].point, "n2-on1");
    stk_study_release(&to);
    to.fixed = true; /* it compares times, and says so before it has any */
    CHECK_INT(stk_study_read_json(&to, text, strlen(text), "s.json", &err), STK_E_USAGE);
    stk_study_release(&to);
}

static void add_synthetic(double a, double b, uint64_t seed);

/* Five normal runs have a tiny deviation from their median in one case of thirty. */
static void clean_data_raise_no_alarm(void)
{
    unsigned alarms = 0;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        struct stk_buf b = STK_BUF_INIT;
        uint64_t state = seed;
        stk_buf_puts(&b, "n,time,time,time,time,time\n");
        for (int n = 1; n <= 8; n *= 2) {
            stk_buf_printf(&b, "%d", n);
            for (int k = 0; k < 5; k++)
                stk_buf_printf(&b, ",%.6f", 100.0 / n * (1 + 0.04 * stk_random_normal(&state)));
            stk_buf_putc(&b, '\n');
        }
        compute(stk_buf_cstr(&b), NULL);
        alarms += cautioned("outliers") || cautioned("spread") || cautioned("superlinear") ||
                  cautioned("not-monotonic");
        stk_buf_release(&b);
    }
    CHECK(alarms <= 5);
}

/* Sentences that contradict each other, or promise what two noisy points cannot know. */
static void no_more_is_said_than_is_known(void)
{
    /* Whether N=2 is faster is not known: the one is named that took less, and that it is not. */
    compute("n,time,time\n1,10,5\n2,8,4.5\n", NULL);
    CHECK_INT(chosen(0, STK_WISH_FASTEST), 2);
    CHECK(strstr(all.series[0].choice[STK_WISH_FASTEST].sentence, "Fastest measured: N=2"));
    CHECK(strstr(all.series[0].choice[STK_WISH_FASTEST].reason, "N=1 against it: not known (0.833x"));
    CHECK_INT(chosen(0, STK_WISH_CHEAPEST), 1);
    CHECK(!text_has("cannot become") && !text_has("Peak:"));
    CHECK(text_has("could be anything from"));
    /* Amdahl misses the last point, where it is flat already. */
    compute("n,time\n1,100\n2,60\n4,40\n8,36\n16,36\n32,36\n", NULL);
    CHECK(!text_has("cannot become"));
    compute("n,time\n1,10\n2,30\n4,9\n8,40\n16,8\n", NULL); /* a law that is none has no number */
    CHECK(text_has("Law: none fits") && !text_has("serial part"));
    add_synthetic(0.1, 0, 1);
    CHECK(text_has("cannot become more than about 9.96x"));
    struct stk_scaling_options o = plain;
    o.note = "Others were busy\0The budget was..";
    o.note_size = 17;
    o.nnotes = 2;
    compute("n,time\n1,10\n2,5\n", &o);
    CHECK(cautioned("conditions"));
    CHECK_STR(all.caution[all.ncautions - 2].text, "Others were busy");
}

/* A problem that grows with N takes more SUs the larger N is: that does not make N=1 the cheapest.
 */
static void prices_are_of_the_same_work(void)
{
    const char *csv =
        "n,time,cores,gpus,series\n1,10,1,0,cpu\n4,10,1,0,cpu\n1,10,1,1,gpu\n4,10,1,1,gpu\n";
    compute(csv, NULL);
    stk_scaling_release(&all);
    study.weak = true;
    CHECK_INT(stk_scaling_compute(&study, &plain, &all, &err), 0);
    CHECK_INT(all.ncomparisons, 1);
    NEAR(all.comparison[0].su, 3, 1e-9);
    compute("n,time,rate,cores,series\n1,10,100,1,a\n2,1,100,2,a\n1,10,100,1,b\n2,10,100,2,b\n",
            NULL);
    NEAR(all.comparison[0].su, 1, 1e-9);
}

static void values_are_no_times(void)
{
    static const char csv[] = "n,value\n1,2m\n";
    struct stk_study s = STK_STUDY_INIT;
    CHECK_INT(stk_study_read_csv(&s, csv, strlen(csv), "v.csv", NULL, &err), STK_E_CORRUPT);
    CHECK(strstr(err.what, "\"2m\" is not a number"));
    stk_study_release(&s);
    compute("n,time,state\n1,10,COMPLETED\n2,9,OUT_OF_ME+\n4,9,cancelled by 7\n",
            NULL); /* as sacct */
    CHECK(row_of(0, 2)->why == STK_RUN_MEMORY && row_of(0, 4)->why == STK_RUN_CANCELLED);
    compute("n,value\n1,2.5\n2,-\n", NULL);
    CHECK(row_of(0, 1)->value == 2.5 && row_of(0, 2)->runs == 0);
}

/* ---- synthetic programs ------------------------------------------------------------------- */

/* Twenty seeds of a program that follows the law: parameters, peak and recommendation. */
static void add_synthetic(double a, double b, uint64_t seed)
{
    static const uint64_t n[] = {1, 2, 4, 8, 16, 32, 64};
    size_t series;
    stk_scaling_release(&all);
    stk_study_release(&study);
    CHECK_INT(stk_study_series(&study, "", 0, &series, &err), 0);
    for (size_t i = 0; i < 7; i++)
        for (unsigned k = 0; k < 5; k++) {
            struct stk_study_run r = STK_STUDY_RUN_INIT;
            double x = (double)n[i];
            r.n = n[i];
            r.repeat = k;
            r.wall_s = 10 * ((1 - a) / x + a + b * (x - 1)) * (1 + 0.01 * stk_random_normal(&seed));
            CHECK_INT(stk_study_add(&study, series, &r, &err), 0);
        }
    CHECK_INT(stk_scaling_compute(&study, &plain, &all, &err), 0);
}

static void known_laws_are_found_for_every_seed(void)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        add_synthetic(0.1, 0, seed);
        const struct stk_laws *l = all.series[0].laws;
        CHECK_INT(l->chosen, STK_LAW_AMDAHL);
        NEAR(l->fit[STK_LAW_AMDAHL].serial, 0.1, 0.05 * 0.1);
        CHECK(!l->has_peak);
        CHECK_INT(chosen(0, STK_WISH_BALANCED), 8); /* (1 - f) / f = 9 */
        CHECK_INT(chosen(0, STK_WISH_CHEAPEST), 1);
        CHECK_INT(chosen(0, STK_WISH_FASTEST), 64);
        add_synthetic(0.05, 0.004, 100 + seed);
        l = all.series[0].laws;
        CHECK_INT(l->chosen, STK_LAW_USL);
        NEAR(l->fit[STK_LAW_USL].serial, 0.05, 0.05 * 0.05);
        NEAR(l->fit[STK_LAW_USL].coherence, 0.004, 0.05 * 0.004);
        CHECK(l->has_peak);
        NEAR(l->fit[STK_LAW_USL].peak_n, sqrt(0.95 / 0.004), 1); /* 15.4 */
        CHECK_INT(chosen(0, STK_WISH_FASTEST), 16);
        CHECK_INT(chosen(0, STK_WISH_BALANCED), 8);
        CHECK(all.series[0].plateau.found && all.series[0].plateau.n == 8);
    }
}

/* Programs: x in 0..1 chooses one of a kind. */
typedef double program(double n, double x);

static double amdahl(double n, double x)
{
    double f = 0.02 * pow(20, x);
    return f + (1 - f) / n;
}

static double with_floor(double n, double x)
{
    return fmax(0.01 + 0.99 / n, 0.03 * pow(10, x));
}

static double with_coherence(double n, double x)
{
    return 0.97 / n + 0.03 + 0.0001 * pow(100, x) * (n - 1);
}

static double with_reduction(double n, double x)
{
    return 1 / n + 0.005 * pow(20, x) * log2(n); /* follows no law */
}

static double with_cache(double n, double x)
{
    return amdahl(n, x) * (n < 4 ? 1.3 : 1); /* superlinear */
}

struct balance {
    unsigned small, large, far;
};

/* Adds the studies whose balanced N is too small, too large, and more than one step off. */
static void balance_studies(program *of, unsigned studies, double noise, struct balance *b)
{
    uint64_t state = 3;
    for (unsigned i = 0; i < studies; i++) {
        double x = stk_random_unit(&state), best = 0;
        size_t series, want = 0;
        stk_scaling_release(&all);
        stk_study_release(&study);
        CHECK_INT(stk_study_series(&study, "", 0, &series, &err), 0);
        for (size_t k = 0; k < 18; k++) {
            struct stk_study_run r = STK_STUDY_RUN_INIT;
            r.n = 1ull << k / 3;
            double t = of((double)r.n, x), worth = 1 / (t * t * (double)r.n);
            want = worth > best ? k / 3 : want;
            best = fmax(best, worth);
            r.wall_s = t * exp(noise * stk_random_normal(&state));
            CHECK_INT(stk_study_add(&study, series, &r, &err), 0);
        }
        CHECK_INT(stk_scaling_compute(&study, &plain, &all, &err), 0);
        size_t got = all.series[0].choice[STK_WISH_BALANCED].row;
        b->small += got < want;
        b->large += got > want;
        b->far += got + 1 < want || got > want + 1;
    }
}

/* A choice that leans to small N costs somebody half the speed that the SUs would buy, and one that
 * leans to large N the SUs. */
static void balanced_is_in_the_middle(void)
{
    static program *const programs[] = {amdahl, with_floor, with_coherence, with_reduction,
                                        with_cache};
    unsigned n = getenv("STOKER_LONG") ? 1000 : 60, many = 5 * n;
    struct balance noisy = {0};
    for (size_t i = 0; i < 5; i++) {
        struct balance b = {0};
        balance_studies(programs[i], n, 0.03, &b);
        CHECK(b.small * 10 <= n && b.large * 10 <= n && b.far * 20 < n);
        balance_studies(programs[i], n, 0.1, &noisy);
    }
    CHECK(noisy.small * 8 < many && noisy.large * 8 < many && noisy.far * 20 < many);
}

static void add_placed(size_t series, const char *point, int64_t nodes, const double *wall_s,
                       size_t runs)
{
    for (size_t i = 0; i < runs; i++) {
        struct stk_study_run r = STK_STUDY_RUN_INIT;
        r.n = 8;
        r.point = point;
        r.nodes = nodes;
        r.wall_s = wall_s[i];
        CHECK_INT(stk_study_add(&study, series, &r, &err), 0);
    }
}

static const struct stk_placement *place(const double *packed, const double *spread, size_t runs)
{
    size_t a, b;
    stk_scaling_release(&all);
    stk_study_release(&study);
    CHECK_INT(stk_study_series(&study, "8 per node", 10, &a, &err), 0);
    CHECK_INT(stk_study_series(&study, "1 per node", 10, &b, &err), 0);
    add_placed(a, "n8-by8", 1, packed, runs);
    add_placed(b, "n8-by1", 8, spread, runs);
    CHECK_INT(stk_scaling_compute(&study, &plain, &all, &err), 0);
    return &all.placement;
}

/* Who reads three comparisons still does not know how to place the ranks. */
static void placement_has_a_verdict(void)
{
    static const double slow[] = {10.02, 10.11, 9.93}, fast[] = {5, 5.1, 4.9},
                        near[] = {9.96, 10.17, 10.01};
    const struct stk_placement *p = place(slow, fast, 3);
    CHECK(p->found && p->verdict.kind == STK_VERDICT_FASTER && p->best == 1 && p->n == 8);
    CHECK(strstr(p->text, "1 per node against 8 per node: faster, 2x") && strstr(p->text, "spread them"));
    p = place(fast, slow, 3);
    CHECK(p->verdict.kind == STK_VERDICT_FASTER && p->best == 0);
    p = place(slow, near, 3);
    CHECK(p->verdict.kind == STK_VERDICT_SAME && p->best == 0 &&
          strstr(p->text, "the fewest nodes, 1"));
    p = place(slow, fast, 1);
    CHECK(p->found && strstr(p->text, "one run of each does not show the noise"));
    compute("n,time,series,nodes\n8,1,a,1\n8,2,b,2\n", NULL); /* two machines, not placements */
    CHECK(!all.placement.found);
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    CHECK_RUN(published_tables_come_out);
    CHECK_RUN(service_units_are_of_what_was_allocated);
    CHECK_RUN(missing_service_units_are_explained);
    CHECK_RUN(a_deadline_needs_times);
    CHECK_RUN(one_n_is_no_choice);
    CHECK_RUN(a_noisy_n_has_its_own_noise);
    CHECK_RUN(whole_seconds_are_no_exact_times);
    CHECK_RUN(rounding_is_said);
    CHECK_RUN(every_wish_says_what_is_not_known);
    CHECK_RUN(relative_su_of_a_metric_is_of_the_same_work);
    CHECK_RUN(only_measured_n_count);
    CHECK_RUN(modes_are_reported);
    CHECK_RUN(balanced_is_in_the_middle);
    CHECK_RUN(placement_has_a_verdict);
    CHECK_RUN(basic_formulas_hold);
    CHECK_RUN(weak_scaling);
    CHECK_RUN(noise_is_taken_into_account);
    CHECK_RUN(odd_data_are_pointed_out);
    CHECK_RUN(accelerators_are_held_against_cpus);
    CHECK_RUN(comparisons_know_the_noise);
    CHECK_RUN(launchers_are_told_apart);
    CHECK_RUN(clean_data_raise_no_alarm);
    CHECK_RUN(tables_are_read_as_people_write_them);
    CHECK_RUN(units_are_in_headings);
    CHECK_RUN(n_is_what_varies);
    CHECK_RUN(tables_of_other_tools);
    CHECK_RUN(tables_of_sacct);
    CHECK_RUN(tables_of_hyperfine);
    CHECK_RUN(json_of_other_tools);
    CHECK_RUN(errors_name_the_line);
    CHECK_RUN(studies_survive_json);
    CHECK_RUN(points_and_other_studies);
    CHECK_RUN(known_laws_are_found_for_every_seed);
    CHECK_RUN(no_more_is_said_than_is_known);
    CHECK_RUN(prices_are_of_the_same_work);
    CHECK_RUN(values_are_no_times);
    stk_scaling_release(&all);
    stk_study_release(&study);
    return CHECK_DONE();
}
