/*
 * ask.c - one question to one of Slurm's clients; its answer is merged into the list of jobs.
 * A client's failure is noted in the list and not an error: another client may know.
 */
#include <stdio.h>

#include "sched/slurm/priv.h"

/* ---- arguments and answers ---------------------------------------------------------------- */

void stk_slurm_arg(struct stk_slurm_args *a, const char *text)
{
    if (a->n < STK_SLURM_ARGV_MAX - 1)
        a->v[a->n++] = text;
}

void stk_slurm_args(struct stk_slurm_args *a, const struct stk_slurm *s, const char *client)
{
    *a = (struct stk_slurm_args){0};
    stk_slurm_arg(a, client);
    if (s && s->cluster && strcmp(client, "sstat") != 0) {
        stk_slurm_arg(a, "-M");
        stk_slurm_arg(a, s->cluster);
    }
}

unsigned stk_slurm_bit(unsigned source)
{
    return (unsigned)__builtin_ctz(source);
}

/* A client that hangs for a minute would do so again, job by job: after a failure it is not called
 * again, nor are others that use the same controller. */
static bool in_vain(struct stk_slurm_jobs *jobs, unsigned source)
{
    const unsigned controllers = STK_SLURM_BY_SQUEUE | STK_SLURM_BY_SCONTROL | STK_SLURM_BY_SSTAT;
    if (!(jobs->silent & (source & controllers ? controllers : source)))
        return false;
    if (!(jobs->failed & source))
        snprintf(jobs->why[stk_slurm_bit(source)], sizeof jobs->why[0],
                 "not asked: the controller is silent");
    jobs->failed |= source;
    return true;
}

/* Some versions end with status 0 although the controller or the database did not answer. */
static bool complains(const struct stk_slurm_output *out)
{
    return !out->out.len && out->err.len && memmem(out->err.data, out->err.len, "error: ", 7);
}

/* An answer that ends in the middle says nothing about the jobs that it does not name. */
static int judge(struct stk_slurm_jobs *jobs, unsigned source, int rc)
{
    if (rc != STK_SLURM_CUT)
        return rc;
    jobs->failed |= source;
    snprintf(jobs->why[stk_slurm_bit(source)], sizeof jobs->why[0], "its answer was cut short");
    return 0;
}

/* Runs a client whose failure is noted, not returned; only a request to stop and lack of memory are
 * errors. *said: out holds an answer. */
static int ask(const struct stk_slurm *s, const struct stk_slurm_args *a, unsigned source,
               struct stk_slurm_jobs *jobs, struct stk_slurm_output *out, bool *said,
               struct stk_err *err)
{
    struct stk_err why = {0};
    char *words = jobs->why[stk_slurm_bit(source)];
    jobs->asked |= source;
    *said = false;
    if (in_vain(jobs, source))
        return 0;
    int rc = stk_slurm_run(s, a->v, NULL, 0, out, &why);
    *said = rc == 0 && out->status == 0 && !complains(out);
    if (rc == STK_E_STOPPED || rc == STK_E_NOMEM) {
        if (err)
            *err = why;
        return rc;
    }
    if (*said)
        return 0;
    if (rc == 0 && out->trouble & STK_SLURM_NO_JOB) { /* an answer */
        *said = true;
        return 0;
    }
    jobs->failed |= source;
    jobs->silent |= out->trouble & (STK_SLURM_LATE | STK_SLURM_UNREACHABLE) ? source : 0;
    if (rc)
        snprintf(words, sizeof jobs->why[0], "%.239s", why.what);
    else
        stk_slurm_words(out, words, sizeof jobs->why[0]);
    return 0;
}

/* ---- the clients that report -------------------------------------------------------------- */

/* who: "-j", ids or "-u", user; since: for sacct by user, or NULL. */
int stk_slurm_ask_squeue(const struct stk_slurm *s, const char *who, const char *list,
                         struct stk_slurm_jobs *jobs, bool only, struct stk_err *err)
{
    char sep[STK_SLURM_SEP_MAX];
    struct stk_buf format = STK_BUF_INIT;
    struct stk_slurm_output out = {0};
    struct stk_slurm_args a;
    bool said;
    stk_slurm_separator(sep);
    for (const char *f = stk_slurm_squeue_fields; *f; f++)
        stk_buf_printf(&format, "%s%%%c", f == stk_slurm_squeue_fields ? "" : sep, *f);
    stk_slurm_args(&a, s, "squeue");
    stk_slurm_arg(&a, "-h");
    stk_slurm_arg(&a, "-t");
    stk_slurm_arg(&a, "all");
    stk_slurm_arg(&a, "-o");
    stk_slurm_arg(&a, stk_buf_cstr(&format));
    stk_slurm_arg(&a, who);
    stk_slurm_arg(&a, list);
    int rc = stk_buf_check(&format, err);
    rc = rc ? rc : ask(s, &a, STK_SLURM_BY_SQUEUE, jobs, &out, &said, err);
    if (!rc && said)
        rc = stk_slurm_read_squeue(jobs, (const char *)out.out.data, out.out.len, sep, only);
    rc = judge(jobs, STK_SLURM_BY_SQUEUE, rc);
    stk_buf_release(&format);
    stk_slurm_output_release(&out);
    return rc;
}

int stk_slurm_ask_sacct(const struct stk_slurm *s, const char *who, const char *list,
                        const struct stk_slurm_range *range, struct stk_slurm_jobs *jobs, bool only,
                        struct stk_err *err)
{
    char sep[STK_SLURM_SEP_MAX], delimiter[STK_SLURM_SEP_MAX + 16];
    struct stk_slurm_output out = {0};
    struct stk_slurm_args a;
    bool said;
    stk_slurm_separator(sep);
    snprintf(delimiter, sizeof delimiter, "--delimiter=%s", sep);
    stk_slurm_args(&a, s, "sacct");
    stk_slurm_arg(&a, "-D"); /* every life of a requeued job */
    stk_slurm_arg(&a, "-n");
    stk_slurm_arg(&a, "-P");
    stk_slurm_arg(&a, "--noconvert");
    stk_slurm_arg(&a, delimiter);
    stk_slurm_arg(&a, "-o");
    stk_slurm_arg(&a, stk_slurm_sacct_fields);
    stk_slurm_arg(&a, who);
    stk_slurm_arg(&a, list);
    if (range) {
        stk_slurm_arg(&a, "-S");
        stk_slurm_arg(&a, range->since);
    }
    if (range && range->until[0]) {
        stk_slurm_arg(&a, "-E");
        stk_slurm_arg(&a, range->until);
    }
    int rc = ask(s, &a, STK_SLURM_BY_SACCT, jobs, &out, &said, err);
    if (!rc && said)
        rc = stk_slurm_read_sacct(jobs, (const char *)out.out.data, out.out.len, sep, only);
    rc = judge(jobs, STK_SLURM_BY_SACCT, rc);
    stk_slurm_output_release(&out);
    return rc;
}

int stk_slurm_ask_scontrol(const struct stk_slurm *s, const char *id, uint64_t want,
                           struct stk_slurm_jobs *jobs, bool only, struct stk_err *err)
{
    struct stk_slurm_output out = {0};
    struct stk_slurm_args a;
    bool said;
    stk_slurm_args(&a, s, "scontrol");
    stk_slurm_arg(&a, "-d");
    stk_slurm_arg(&a, "show");
    stk_slurm_arg(&a, "job");
    stk_slurm_arg(&a, id);
    int rc = ask(s, &a, STK_SLURM_BY_SCONTROL, jobs, &out, &said, err);
    if (!rc && said)
        rc = stk_slurm_read_scontrol(jobs, (const char *)out.out.data, out.out.len, want, only);
    rc = judge(jobs, STK_SLURM_BY_SCONTROL, rc);
    stk_slurm_output_release(&out);
    return rc;
}

int stk_slurm_ask_sstat(const struct stk_slurm *s, const char *list, struct stk_slurm_jobs *jobs,
                        struct stk_err *err)
{
    struct stk_slurm_output out = {0};
    struct stk_slurm_args a;
    bool said;
    stk_slurm_args(&a, s, "sstat");
    stk_slurm_arg(&a, "-a");
    stk_slurm_arg(&a, "-n");
    stk_slurm_arg(&a, "-P");
    stk_slurm_arg(&a, "--noconvert");
    stk_slurm_arg(&a, "-o");
    stk_slurm_arg(&a, stk_slurm_sstat_fields);
    stk_slurm_arg(&a, "-j");
    stk_slurm_arg(&a, list);
    int rc = ask(s, &a, STK_SLURM_BY_SSTAT, jobs, &out, &said, err);
    if (!rc && said)
        rc = stk_slurm_read_sstat(jobs, (const char *)out.out.data, out.out.len, "|");
    rc = judge(jobs, STK_SLURM_BY_SSTAT, rc);
    stk_slurm_output_release(&out);
    return rc;
}
