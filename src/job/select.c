/* select.c - which jobs of a list are shown, and in which order. */
#include <ctype.h>
#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "job/totals.h"

/* ---- which -------------------------------------------------------------------------------- */

/* "OUT_OF_MEMORY", "out-of-memory" and "out of memory" are one word. */
static bool same_state(const char *word, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++) {
        char c = word[i] == '_' || word[i] == '-' ? ' ' : (char)tolower((unsigned char)word[i]);
        if (c != name[i]) /* which ends in NUL */
            return false;
    }
    return name[n] == '\0';
}

static bool parse_state(const char *word, size_t n, unsigned *mask)
{
    for (enum stk_slurm_state s = STK_SLURM_PENDING; s < STK_SLURM_STATES; s++)
        if (same_state(word, n, stk_slurm_state_name(s))) {
            *mask |= 1u << s;
            return true;
        }
    return false;
}

const char *const *stk_job_state_names(void)
{
    static char text[STK_SLURM_STATES][24];
    static const char *names[STK_SLURM_STATES + 1];
    for (enum stk_slurm_state s = STK_SLURM_PENDING; s < STK_SLURM_STATES; s++) {
        snprintf(text[s], sizeof text[s], "%s", stk_slurm_state_name(s));
        for (char *p = text[s]; (p = strchr(p, ' '));)
            *p = '-';
        names[s - STK_SLURM_PENDING] = text[s];
    }
    return names;
}

bool stk_job_states(const char *list, unsigned *mask)
{
    *mask = 0;
    for (const char *p = list; *p;) {
        size_t n = strcspn(p, ",");
        if (!parse_state(p, n, mask))
            return false;
        p += n;
        p += *p == ',';
    }
    return *mask != 0;
}

static bool is_listed(const char *list, const char *word)
{
    size_t len = strlen(word);
    for (const char *p = list; *p;) {
        size_t n = strcspn(p, ",");
        if (n == len && memcmp(p, word, n) == 0)
            return true;
        p += n;
        p += *p == ',';
    }
    return false;
}

bool stk_job_wanted(const struct stk_job_filter *f, const struct stk_slurm_job *j)
{
    int64_t from = j->start > 0 && !stk_slurm_waits(j->state) ? j->start : j->submit;
    return (!f->states || f->states & 1u << j->state) &&
           (!f->name || fnmatch(f->name, j->name, 0) == 0) &&
           (!f->partitions || is_listed(f->partitions, j->partition)) &&
           (f->until <= 0 || from <= f->until);
}

/* ---- in which order ----------------------------------------------------------------------- */

static const struct {
    const char *name;
    enum stk_job_order order;
} orders[] = {{"job", STK_JOB_BY_ID},        {"time", STK_JOB_BY_TIME}, {"cpu", STK_JOB_BY_CPU},
              {"memory", STK_JOB_BY_MEMORY}, {"idle", STK_JOB_BY_IDLE}, {"su", STK_JOB_BY_SU},
              {"waited", STK_JOB_BY_WAIT},   {"ended", STK_JOB_BY_END}};

const char *const *stk_job_order_names(void)
{
    static const char *names[sizeof orders / sizeof *orders + 1];
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++)
        names[i] = orders[i].name;
    return names;
}

bool stk_job_order(const char *text, enum stk_job_order *order)
{
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++)
        if (strcmp(orders[i].name, text) == 0) {
            *order = orders[i].order;
            return true;
        }
    return false;
}

/* Jobs without the figure come last. */
static double key_of(const struct stk_slurm_job *j, enum stk_job_order order,
                     const struct stk_job_scale *scale)
{
    struct stk_job_view v;
    struct stk_job_cost c;
    stk_job_judge(j, scale->now, scale->advise_s, &v);
    stk_job_cost(&v, &scale->su, &c);
    const double key[] = {
        [STK_JOB_BY_ID] = -(double)j->id, [STK_JOB_BY_TIME] = j->elapsed_s,
        [STK_JOB_BY_CPU] = v.cpu_share,   [STK_JOB_BY_MEMORY] = v.memory_share,
        [STK_JOB_BY_IDLE] = c.idle_h,     [STK_JOB_BY_SU] = isnan(c.su) ? -1 : c.su,
        [STK_JOB_BY_WAIT] = v.wait_s,     [STK_JOB_BY_END] = (double)j->end};
    return key[order];
}

struct ranked {
    double key;
    size_t at;
    struct stk_slurm_job job;
};

static int by_key(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? 1 : -1;
    return (x->at > y->at) - (x->at < y->at);
}

int stk_job_sort(struct stk_slurm_jobs *jobs, enum stk_job_order order,
                 const struct stk_job_scale *scale, struct stk_err *err)
{
    struct ranked *r = order == STK_JOB_UNSORTED || !jobs->n ? NULL : calloc(jobs->n, sizeof *r);
    if (order == STK_JOB_UNSORTED || !jobs->n)
        return 0;
    if (!r)
        return stk_err_nomem(err, jobs->n * sizeof *r);
    for (size_t i = 0; i < jobs->n; i++)
        r[i] = (struct ranked){key_of(&jobs->job[i], order, scale), i, jobs->job[i]};
    qsort(r, jobs->n, sizeof *r, by_key);
    for (size_t i = 0; i < jobs->n; i++)
        jobs->job[i] = r[i].job;
    free(r);
    return 0;
}
