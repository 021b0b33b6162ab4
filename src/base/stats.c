/*
 * stats.c - medians and their intervals by order statistics, pooled noise, outliers by the median
 * absolute deviation. Small n is the normal case here: repeats of a job are expensive.
 */
#include "base/stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define OUTLIER_Z     14.826 /* 10 robust standard deviations, hyperfine's rule */
#define OUTLIER_SHARE 0.05   /* closer than this, no decision changes */
#define OUTLIER_RUNS  5      /* the deviation of fewer runs means nothing */
#define OUTLIER_RARE  10     /* one in so many, and one more, may be outliers */
#define LOUDER        0.2    /* of runs as noisy as the others that count as noisier */
#define T_DOF_MAX     200 /* of Student's t: beyond, it changes by less than a hundredth */
#define MODES_RUNS    5      /* the gaps between fewer runs are chance */
#define MODES_SHARE   0.10   /* a smaller difference is noise */
#define MODES_GAP     24     /* two or three close values are chance: few runs need a wider gap */

bool stk_interval_known(struct stk_interval i)
{
    return isfinite(i.lo) && isfinite(i.hi);
}

int stk_by_f64(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int stk_by_u64(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static double quantile_sorted(const double *v, size_t n, double q)
{
    if (!n)
        return NAN;
    double at = q * (double)(n - 1);
    size_t i = at > 0 ? (size_t)at : 0;
    if (i + 1 >= n)
        return v[n - 1];
    double part = at - (double)i;
    return part > 0 ? isfinite(v[i + 1]) ? v[i] + part * (v[i + 1] - v[i]) : v[i + 1] : v[i];
}

double stk_median(double *v, size_t n)
{
    qsort(v, n, sizeof *v, stk_by_f64);
    return quantile_sorted(v, n, 0.5);
}

struct stk_interval stk_middle95(double *v, size_t n)
{
    qsort(v, n, sizeof *v, stk_by_f64);
    return (struct stk_interval){quantile_sorted(v, n, 0.025),
                                 quantile_sorted(v, n, 0.975)};
}

double stk_t95(double dof)
{
    static const double table[] = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306,
                                   2.262,  2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
                                   2.110,  2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064,
                                   2.060,  2.056, 2.052, 2.048, 2.045, 2.042};
    size_t n = sizeof table / sizeof *table;
    if (!(dof >= 1))
        return NAN;
    if (dof < (double)n)
        return table[(size_t)dof - 1];
    /* The first term of the expansion in 1/dof: three digits from here on. */
    return 1.960 + 2.373 / dof;
}

/* The integral of cos^(dof - 1) from an angle to a right angle: the tail of Student's t beyond
 * sqrt(dof) tan(angle), but for a factor. By parts, from the exponent 0 or 1 upwards. */
static double tail_from(double angle, int dof)
{
    double s = sin(angle), c = cos(angle);
    int odd = (dof - 1) % 2;
    double sum = odd ? 1 - s : acos(0) - angle, power = odd ? c * c : c;
    for (int k = odd + 2; k < dof; k += 2, power *= c * c)
        sum = ((k - 1) * sum - s * power) / k;
    return sum;
}

double stk_t_of(double dof, double error)
{
    if (!(dof >= 1) || error == 0.05)
        return stk_t95(dof);
    int n = (int)fmin(dof, T_DOF_MAX); /* rounded down, as in the table */
    double angle = 0, want = error * tail_from(0, n), step = 1;
    for (int i = 0; i < 100 && step > 1e-14; i++) { /* Newton: the tail is convex, from below */
        step = (tail_from(angle, n) - want) / pow(cos(angle), n - 1);
        angle += step;
    }
    return sqrt(n) * tan(angle);
}

/* The largest rank k (from 1) such that [k-th, (n+1-k)-th] of n values contains the median in 95 %
 * of cases: each tail has probability sum_{i<k} C(n,i) / 2^n. 0: none. */
static size_t median_rank(size_t n, double *coverage)
{
    double p = pow(0.5, (double)n), tail = 0;
    size_t k = 0;
    *coverage = 0;
    if (n > 1000) { /* 2^-n is too small; the normal limit is exact enough */
        *coverage = 0.95;
        return (size_t)(((double)n - 1.96 * sqrt((double)n)) / 2);
    }
    for (size_t i = 0; 2 * i + 1 < n; i++) {
        tail += p;
        if (2 * tail > 0.05)
            break;
        k = i + 1;
        *coverage = 1 - 2 * tail;
        p *= (double)(n - i) / (double)(i + 1);
    }
    return k;
}

static void fill_median_ci(const double *sorted, struct stk_summary *s)
{
    size_t n = s->n, k = median_rank(n, &s->coverage);
    if (n < 2)
        return;
    s->ci_is_range = k == 0;
    if (s->ci_is_range) {
        k = 1;
        s->coverage = 1 - pow(0.5, (double)(n - 1));
    }
    s->median_ci = (struct stk_interval){sorted[k - 1], sorted[n - k]};
}

static void fill_moments(const double *v, struct stk_summary *s)
{
    double n = (double)s->n, squares = 0;
    for (size_t i = 0; i < s->n; i++)
        s->mean += v[i] / n;
    for (size_t i = 0; i < s->n; i++)
        squares += (v[i] - s->mean) * (v[i] - s->mean);
    s->sd = s->n > 1 ? sqrt(squares / (n - 1)) : NAN;
    double half = s->n > 1 ? stk_t95(n - 1) * s->sd / sqrt(n) : NAN;
    s->mean_ci = (struct stk_interval){s->mean - half, s->mean + half};
}

double stk_half_width(const struct stk_summary *s)
{
    struct stk_interval i = s->n < 6 ? s->mean_ci : s->median_ci;
    return stk_interval_known(i) && s->median > 0 ? (i.hi - i.lo) / 2 / s->median : NAN;
}

/* True for a value far from the median: more than 10 robust standard deviations (a modified z-score
 * above 14.826) and more than 5 % of the median. With fewer than 5 values: never. Outliers are
 * rare: if more than one value, plus one in ten, is that far away, none of them is an outlier. */
static bool is_outlier(const struct stk_summary *s, double value)
{
    return fabs(value - s->median) > s->outlier_off;
}

static void count_outliers(const double *v, struct stk_summary *s)
{
    s->outlier_off =
        s->n < OUTLIER_RUNS ? INFINITY : fmax(OUTLIER_Z * s->mad, OUTLIER_SHARE * fabs(s->median));
    for (size_t i = 0; i < s->n; i++)
        s->outliers += is_outlier(s, v[i]);
    if (s->outliers > 1 + s->n / OUTLIER_RARE) { /* that is how the values are distributed */
        s->outlier_off = INFINITY;
        s->outliers = 0;
    }
    s->first_is_slow_outlier = v[0] > s->median && is_outlier(s, v[0]);
}

bool stk_summarise(const double *v, size_t n, struct stk_summary *out)
{
    size_t bytes;
    *out = (struct stk_summary){.n = n, .median_ci = {NAN, NAN}};
    if (!n || __builtin_mul_overflow(n, sizeof *v, &bytes))
        return false;
    double *sorted = malloc(bytes);
    if (!sorted)
        return false;
    memcpy(sorted, v, bytes);
    out->median = stk_median(sorted, n);
    out->min = sorted[0];
    out->max = sorted[n - 1];
    fill_median_ci(sorted, out);
    fill_moments(v, out);
    for (size_t i = 0; i < n; i++)
        sorted[i] = fabs(v[i] - out->median);
    out->mad = stk_median(sorted, n);
    free(sorted);
    count_outliers(v, out);
    return true;
}

/* The k-th widest gap between sorted values, from 0. */
static double gap_of_rank(const double *v, size_t n, size_t k)
{
    double gap = INFINITY;
    for (size_t rank = 0; rank <= k; rank++) {
        double next = 0;
        for (size_t i = 1; i < n; i++) {
            double here = log(v[i] / v[i - 1]);
            next = here < gap && here > next ? here : next;
        }
        gap = next;
    }
    return gap;
}

/* Divides sorted values at gaps of this width or more. False: too many groups, or one of a single
 * value. */
static bool divide(const double *v, size_t n, double gap, struct stk_modes *m, double *widest)
{
    size_t from = 0;
    *m = (struct stk_modes){0};
    *widest = 0;
    for (size_t i = 1; i <= n; i++) {
        if (i < n && log(v[i] / v[i - 1]) < gap)
            continue;
        if (m->n == STK_MODES_MAX || i - from < 2)
            return false;
        *widest = fmax(*widest, log(v[i - 1] / v[from]));
        if (!m->n && i < n)
            m->cut = sqrt(v[i - 1] * v[i]);
        m->mode[m->n].median = quantile_sorted(v + from, i - from, 0.5);
        m->mode[m->n++].runs = i - from;
        from = i;
    }
    return true;
}

struct stk_modes stk_modes_of(double *v, size_t n)
{
    struct stk_modes one = {.n = 1}, m;
    one.mode[0].median = stk_median(v, n);
    one.mode[0].runs = n;
    for (size_t count = 2; n >= MODES_RUNS && count <= STK_MODES_MAX && 2 * count <= n; count++) {
        double wide, gap = gap_of_rank(v, n, count - 2);
        if (gap > log1p(MODES_SHARE) && divide(v, n, gap, &m, &wide) &&
            gap > fmax(MODES_GAP / (double)(n - count), 3) * wide)
            return m;
    }
    return one;
}

double stk_median_worth(double runs)
{
    return runs > 2 ? 1 + (runs - 1) * 0.6366 : runs;
}

double stk_step_of(const double *v, size_t n)
{
    for (double per = 1; per <= 1000; per *= 10) {
        size_t whole = 0;
        while (whole < n && fabs(v[whole] * per - round(v[whole] * per)) <= 1e-9 * v[whole] * per)
            whole++;
        if (whole == n && n)
            return 1 / per;
    }
    return 0;
}

/* ---- noise -------------------------------------------------------------------------------- */

/* relative_sd holds sums of squared relative deviations until finish. */
void stk_noise_add(struct stk_noise *pool, const double *v, size_t n)
{
    struct stk_summary s;
    if (n < 2 || !stk_summarise(v, n, &s))
        return;
    double mean = 0, count = 0, squares = 0;
    for (size_t i = 0; i < n; i++)
        if (!is_outlier(&s, v[i])) {
            mean += v[i];
            count++;
        }
    mean /= count;
    if (count < 2 || !(mean > 0))
        return;
    for (size_t i = 0; i < n; i++)
        if (!is_outlier(&s, v[i]))
            squares += (v[i] / mean - 1) * (v[i] / mean - 1);
    pool->relative_sd += squares;
    pool->dof += count - 1;
}

void stk_noise_finish(struct stk_noise *pool)
{
    pool->relative_sd = pool->dof > 0 ? sqrt(pool->relative_sd / pool->dof) : NAN;
}

struct stk_noise stk_noise_without(const struct stk_noise *pool, const struct stk_noise *own)
{
    double dof = pool->dof - own->dof;
    double squares = pool->dof * pool->relative_sd * pool->relative_sd - own->relative_sd;
    return (struct stk_noise){
        .relative_sd = dof >= 1 ? sqrt(fmax(squares, 0) / dof) : NAN,
        .dof = fmax(dof, 0),
    };
}

const struct stk_noise *stk_noise_of(const struct stk_noise *pool, const struct stk_noise *own,
                                     struct stk_noise *room)
{
    if (!own || !(own->dof >= 1))
        return pool;
    struct stk_noise others = stk_noise_without(pool, own);
    *room = *own;
    stk_noise_finish(room);
    return room->relative_sd > stk_t_of(others.dof, LOUDER) * others.relative_sd ? room : pool;
}

enum stk_noise_verdict stk_noise_verdict(const struct stk_noise *noise)
{
    double sd = noise->relative_sd;
    return !(noise->dof > 0) || isnan(sd) ? STK_NOISE_UNKNOWN
           : sd <= 0.02                   ? STK_NOISE_QUIET
           : sd <= 0.05                   ? STK_NOISE_FAIR
           : sd <= 0.10                   ? STK_NOISE_NOISY
                                          : STK_NOISE_BAD;
}

const char *stk_noise_word(enum stk_noise_verdict v)
{
    static const char *const words[] = {"unknown", "quiet", "fair", "noisy", "very noisy"};
    return words[v];
}

/* ---- random numbers ----------------------------------------------------------------------- */

double stk_random_normal(uint64_t *state)
{
    double u = 1 - stk_random_unit(state), v = stk_random_unit(state);
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

/* ---- histograms ------------------------------------------------------------------------------ */

/* Log-scaled buckets: the leading bits of a value select its bucket, so adding takes a shift and
 * an increment. */

#define SUB_BITS 5u /* log2(STK_HISTOGRAM_SUB) */

/* Each value below 2 * SUB has its own bucket; above, there are SUB buckets per power of two. */
static unsigned bucket_of(uint64_t v)
{
    if (v < 2 * STK_HISTOGRAM_SUB)
        return (unsigned)v;
    unsigned top = 63u - (unsigned)__builtin_clzll(v), shift = top - SUB_BITS;
    return shift * STK_HISTOGRAM_SUB + (unsigned)(v >> shift);
}

/* The largest value of a bucket. */
static uint64_t last_of(unsigned b)
{
    if (b < 2 * STK_HISTOGRAM_SUB)
        return b;
    unsigned shift = b / STK_HISTOGRAM_SUB - 1;
    uint64_t lead = b % STK_HISTOGRAM_SUB + STK_HISTOGRAM_SUB;
    return (lead << shift) + (((uint64_t)1 << shift) - 1);
}

void stk_histogram_add(struct stk_histogram *h, uint64_t value)
{
    h->bucket[bucket_of(value)]++;
    h->min = h->count && h->min < value ? h->min : value;
    h->max = h->max > value ? h->max : value;
    h->sum += (double)value;
    h->count++;
}

void stk_histogram_merge(struct stk_histogram *into, const struct stk_histogram *from)
{
    if (!from->count)
        return;
    into->min = into->count && into->min < from->min ? into->min : from->min;
    into->max = into->max > from->max ? into->max : from->max;
    into->sum += from->sum;
    into->count += from->count;
    for (unsigned b = 0; b < STK_HISTOGRAM_BUCKETS; b++)
        into->bucket[b] += from->bucket[b];
}

uint64_t stk_histogram_percentile(const struct stk_histogram *h, double fraction)
{
    if (!h->count)
        return 0;
    double f = fraction > 0 ? fraction < 1 ? fraction : 1 : 0;
    uint64_t wanted = (uint64_t)ceil(f * (double)h->count), seen = 0;
    for (unsigned b = 0; b < STK_HISTOGRAM_BUCKETS; b++) {
        seen += h->bucket[b];
        if (seen && seen >= wanted)
            return last_of(b) < h->max ? last_of(b) : h->max;
    }
    return h->max;
}

double stk_histogram_mean(const struct stk_histogram *h)
{
    return h->count ? h->sum / (double)h->count : 0;
}

uint64_t stk_histogram_octave(const struct stk_histogram *h, unsigned power)
{
    uint64_t n = 0;
    if (power > 63)
        return 0;
    unsigned from = power ? bucket_of((uint64_t)1 << power) : 0;
    unsigned to = power < 63 ? bucket_of((uint64_t)2 << power) : STK_HISTOGRAM_BUCKETS;
    for (unsigned b = from; b < to && b < STK_HISTOGRAM_BUCKETS; b++)
        n += h->bucket[b];
    return n;
}
