/* su.c - service units: their weights from text, and the price of an allocation. */
#include "scaling/su.h"

#include <math.h>
#include <string.h>

#include "base/num.h"

#define WEIGHT_MAX 1e6

static bool parse_weight(const char *p, size_t n, double *to)
{
    int64_t i;
    return stk_num_parse(p, n, &i, to) != STK_NUM_NONE && *to >= 0 && *to <= WEIGHT_MAX;
}

bool stk_su_parse(const char *text, struct stk_su_rates *r)
{
    const char *const names[] = {"core", "gpu", "node"};
    double *const to[] = {&r->core, &r->gpu, &r->node};
    *r = (struct stk_su_rates){0};
    for (const char *p = text; *p;) {
        size_t n = strcspn(p, ","), k = 0;
        const char *eq = memchr(p, '=', n);
        size_t name = eq ? (size_t)(eq - p) : 0;
        while (k < 3 && !(strlen(names[k]) == name && memcmp(names[k], p, name) == 0))
            k++;
        if (k == 3 || !parse_weight(eq + 1, n - name - 1, to[k]))
            return false;
        p += n;
        p += *p == ',';
    }
    return r->core > 0 || r->gpu > 0 || r->node > 0;
}

static double part(double weight, double count)
{
    return weight > 0 ? weight * (count < 0 ? (double)NAN : count) : 0;
}

double stk_su_per_hour(const struct stk_su_rates *r, double cores, double gpus, double nodes)
{
    return part(r->core, cores) + part(r->gpu, gpus) + part(r->node, nodes);
}
