/* dist.c - a length or a time that varies: parsing it, and its draws. */
#include "bench/workload.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "base/random.h"
#include "base/stats.h"
#include "base/text.h"
#include "base/units.h"

#define CHARACTERS_MAX 100

static const struct {
    const char *name;
    unsigned nargs;
    bool bare_first; /* the first argument is a number without a unit */
} kinds[] = {
    [STK_DIST_CONSTANT] = {"constant", 1, false},
    [STK_DIST_NORMAL] = {"normal", 2, false},
    [STK_DIST_UNIFORM] = {"uniform", 2, false},
    [STK_DIST_EXPONENTIAL] = {"exponential", 1, false},
    [STK_DIST_GAMMA] = {"gamma", 2, true},
    [STK_DIST_POISSON] = {"poisson", 1, false},
};
#define NKINDS (sizeof kinds / sizeof *kinds)

static int parse_value(const char *text, bool bare, enum stk_dist_unit unit, double *out,
                       struct stk_err *err)
{
    uint64_t bytes = 0;
    int64_t whole;
    int rc;
    if (bare && stk_num_parse(text, strlen(text), &whole, out) == STK_NUM_NONE)
        return stk_err_set(err, STK_E_USAGE, NULL, -1, "\"%s\" is not a number", text);
    if (bare)
        return 0;
    if (unit == STK_DIST_SECONDS)
        return stk_parse_duration(text, out, err);
    rc = stk_parse_size(text, &bytes, err);
    *out = (double)bytes;
    return rc;
}

static int find_kind(const char *name, enum stk_dist_kind *out, struct stk_err *err)
{
    const char *names[NKINDS + 1] = {0};
    for (size_t i = 0; i < NKINDS; i++) {
        names[i] = kinds[i].name;
        if (strcmp(name, names[i]) == 0) {
            *out = (enum stk_dist_kind)i;
            return 0;
        }
    }
    const char *near = stk_text_nearest(name, names);
    return stk_err_set(err, STK_E_USAGE, NULL, -1, "unknown distribution \"%s\"; %s%s%s", name,
                       near ? "did you mean "
                            : "constant, normal, uniform, exponential, gamma or poisson",
                       near ? near : "", near ? "?" : "");
}

static char *trim(char *s)
{
    s += strspn(s, " \t");
    for (size_t n = strlen(s); n && (s[n - 1] == ' ' || s[n - 1] == '\t'); n--)
        s[n - 1] = '\0';
    return s;
}

static int parse_call(char *text, char *open, enum stk_dist_unit unit, struct stk_dist *d,
                      struct stk_err *err)
{
    size_t n = strlen(open);
    if (open[n - 1] != ')')
        return stk_err_set(err, STK_E_USAGE, NULL, -1, "a closing parenthesis is missing");
    open[n - 1] = *open = '\0';
    int rc = find_kind(trim(text), &d->kind, err);
    double v[2] = {0, 0};
    unsigned i = 0;
    for (char *rest = open + 1, *word; rc == 0 && (word = strsep(&rest, ",")); i++)
        rc = i < 2 ? parse_value(trim(word), i == 0 && kinds[d->kind].bare_first, unit, &v[i], err)
                   : 0;
    if (rc == 0 && i != kinds[d->kind].nargs)
        rc = stk_err_set(err, STK_E_USAGE, NULL, -1, "%s takes %u value%s, not %u",
                         kinds[d->kind].name, kinds[d->kind].nargs,
                         kinds[d->kind].nargs == 1 ? "" : "s", i);
    d->a = v[0];
    d->b = v[1];
    if (rc == 0 && d->kind == STK_DIST_UNIFORM && d->a > d->b)
        rc = stk_err_set(err, STK_E_USAGE, NULL, -1, "uniform: the first value is the smaller one");
    if (rc == 0 && d->kind == STK_DIST_GAMMA && !(d->a > 0 && d->a < 1e6))
        rc = stk_err_set(err, STK_E_USAGE, NULL, -1,
                         "gamma: the shape is above 0 and below 1,000,000");
    return rc;
}

int stk_dist_parse(const char *text, enum stk_dist_unit unit, struct stk_dist *out,
                   struct stk_err *err)
{
    char copy[CHARACTERS_MAX];
    struct stk_dist d = {0};
    if ((size_t)snprintf(copy, sizeof copy, "%s", text) >= sizeof copy)
        return stk_err_set(err, STK_E_USAGE, NULL, -1, "too long for a number or a distribution");
    char *trimmed = trim(copy), *open = strchr(trimmed, '(');
    int rc = open ? parse_call(trimmed, open, unit, &d, err)
                  : parse_value(trimmed, false, unit, &d.a, err);
    if (rc == 0)
        *out = d;
    return rc;
}

/* Marsaglia and Tsang, "A simple method for generating gamma variables" (2000). */
static double draw_gamma(double shape, uint64_t *state)
{
    double more = shape < 1 ? pow(stk_random_unit(state) + 0x1p-54, 1 / shape) : 1;
    double d = (shape < 1 ? shape + 1 : shape) - 1.0 / 3, c = 1 / sqrt(9 * d);
    for (;;) {
        double x = stk_random_normal(state), v = 1 + c * x;
        if (v <= 0)
            continue;
        v = v * v * v;
        if (log(stk_random_unit(state) + 0x1p-54) < 0.5 * x * x + d - d * v + d * log(v))
            return d * v * more;
    }
}

#define POISSON_FEW 30 /* above, a normal distribution has the same shape */

static double draw_poisson(double mean, uint64_t *state)
{
    double left = exp(-mean), v = 0;
    if (mean > POISSON_FEW)
        return round(mean + sqrt(mean) * stk_random_normal(state));
    for (double p = stk_random_unit(state); p > left; p *= stk_random_unit(state))
        v++;
    return v;
}

double stk_dist_at(const struct stk_dist *d, uint64_t key)
{
    uint64_t state = stk_mix64(key ^ STK_GOLDEN64);
    double v = d->a;
    switch (d->kind) {
    case STK_DIST_CONSTANT:
        break;
    case STK_DIST_NORMAL:
        v = d->a + d->b * stk_random_normal(&state);
        break;
    case STK_DIST_UNIFORM:
        v = d->a + (d->b - d->a) * stk_random_unit(&state);
        break;
    case STK_DIST_EXPONENTIAL:
        v = -d->a * log1p(-stk_random_unit(&state));
        break;
    case STK_DIST_GAMMA:
        v = d->b * draw_gamma(d->a, &state);
        break;
    case STK_DIST_POISSON:
        v = draw_poisson(d->a, &state);
        break;
    }
    return v > 0 ? v : 0;
}

double stk_dist_mean(const struct stk_dist *d)
{
    return d->kind == STK_DIST_UNIFORM ? (d->a + d->b) / 2
           : d->kind == STK_DIST_GAMMA ? d->a * d->b
                                       : d->a;
}
