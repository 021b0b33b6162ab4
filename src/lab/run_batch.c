/*
 * run_batch.c - the job of one run: options of sbatch from what N sets, and a batch file whose only
 * line of ours runs this program again, which reads everything else from the plan. So no shell ever
 * sees a word of the command; the two paths it does see are quoted.
 */
#include <stdarg.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "base/quote.h"
#include "base/spawn.h"
#include "lab/run_priv.h"

static void add(struct stk_words *w, const char *fmt, ...) STK_PRINTF(2, 3);
static void add(struct stk_words *w, const char *fmt, ...)
{
    char text[128];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    stk_words_add(w, text);
}

static void add_number(struct stk_words *w, const char *name, uint64_t v)
{
    add(w, "--%s=%llu", name, (unsigned long long)v);
}

/* GPUs are asked for by node. */
static void add_gpus(const struct stk_runs_plan *p, uint64_t n, struct stk_words *w)
{
    uint64_t per_node = p->ranks_per_node && p->ranks_per_node < n ? p->ranks_per_node : n;
    struct stk_buf b = STK_BUF_INIT;
    stk_buf_printf(&b, "--gres=gpu:%s%s%llu", p->gpu_type ? p->gpu_type : "",
                   p->gpu_type ? ":" : "", (unsigned long long)per_node);
    w->fail = w->fail || b.fail;
    stk_words_add(w, stk_buf_cstr(&b));
    stk_buf_release(&b);
}

static void add_resources(const struct stk_runs_plan *p, uint64_t n, struct stk_words *w)
{
    uint64_t per_node = p->ranks_per_node;
    if (p->sets & STK_SETS_NODES) {
        add_number(w, "nodes", n);
        add_number(w, "ntasks-per-node", per_node ? per_node : 1);
    } else if (p->sets & STK_SETS_RANKS) {
        add_number(w, "ntasks", n);
        if (per_node)
            add_number(w, "ntasks-per-node", per_node < n ? per_node : n);
        else if (p->sets & STK_SETS_GPUS)
            add_number(w, "nodes", 1);
    } else if (p->sets) {
        add_number(w, "nodes", 1);
        add_number(w, "ntasks", 1);
    }
    if (p->sets & STK_SETS_THREADS)
        add_number(w, "cpus-per-task", n);
    else if (p->threads_per_rank)
        add_number(w, "cpus-per-task", p->threads_per_rank);
    if (p->sets & STK_SETS_GPUS)
        add_gpus(p, n, w);
}

/* Slurm replaces %j and its like in the name of the output: a % of the path stands for itself. */
static void add_output(const struct stk_runs *r, const char *name, struct stk_words *w)
{
    struct stk_buf b = STK_BUF_INIT;
    stk_buf_puts(&b, "--output=");
    for (const char *p = r->dir; *p; p++) {
        if (*p == '%')
            stk_buf_putc(&b, '%');
        stk_buf_putc(&b, *p);
    }
    stk_buf_printf(&b, "/jobs/%s.slurm", name);
    w->fail = w->fail || b.fail;
    stk_words_add(w, stk_buf_cstr(&b));
    stk_buf_release(&b);
}

/* Marks are replaced in #SBATCH lines alone: the rest is the user's own shell script. */
static void put_head(const char *head, const struct stk_runs_at *at, struct stk_buf *out)
{
    if (!head || strncmp(head, "#!", 2) != 0)
        stk_buf_puts(out, "#!/bin/sh\n");
    while (head && *head) {
        size_t n = strcspn(head, "\n");
        if (strncmp(head, "#SBATCH", 7) == 0) {
            struct stk_buf line = STK_BUF_INIT;
            stk_buf_put(&line, head, n);
            stk_runs_expand(out, stk_buf_cstr(&line), at);
            out->fail = out->fail || line.fail;
            stk_buf_release(&line);
        } else {
            stk_buf_put(out, head, n);
        }
        stk_buf_putc(out, '\n');
        head += n + (head[n] == '\n');
    }
}

static int check_path(const char *path, struct stk_err *err)
{
    if (!path[strcspn(path, "\\\n\r")])
        return 0;
    return stk_err_set(err, STK_E_USAGE, path, -1,
                       "Slurm cannot name files in a folder with a backslash or a line end in it");
}

void stk_job_name(const struct stk_job_run *j, char *name, size_t size)
{
    snprintf(name, size, "stoker-n%llu-r%llu%s%s", (unsigned long long)j->n,
             (unsigned long long)j->repeat, j->token[0] ? "-" : "", j->token);
}

int stk_batch_make(const struct stk_runs *r, const struct stk_job_run *j, struct stk_buf *script,
                   struct stk_words *args, struct stk_err *err)
{
    const struct stk_runs_plan *p = &r->plan;
    struct stk_runs_at at = stk_runs_at(p, j->n);
    char exe[PATH_MAX], name[64], job_name[96];
    int rc = stk_self_path(exe, sizeof exe, err);
    if (rc == 0)
        rc = check_path(r->dir, err);
    if (rc)
        return rc;
    snprintf(name, sizeof name, "n%llu-r%llu", (unsigned long long)j->n,
             (unsigned long long)j->repeat);
    stk_job_name(j, job_name, sizeof job_name);
    add(args, "--job-name=%s", job_name);
    add_output(r, name, args);
    add_resources(p, j->n, args);
    for (size_t i = 0; p->sbatch && p->sbatch[i]; i++)
        stk_words_add_expanded(args, p->sbatch[i], &at);
    put_head(p->batch_head, &at, script);
    stk_buf_puts(script, "exec ");
    stk_quote_raw(script, exe, strlen(exe));
    stk_buf_puts(script, " scale --quiet --resume ");
    stk_quote_raw(script, r->dir, strlen(r->dir));
    stk_buf_printf(script, " --inside %s\n", name);
    rc = stk_buf_check(script, err);
    return rc ? rc : args->fail ? stk_err_nomem(err, 4096) : 0;
}
