/*
 * batch.c - the job of one run: options for sbatch from its point's resources, and a batch
 * file whose only line of ours runs this program again, which reads everything else from the plan.
 * So no shell ever sees a word of the command; the two paths that it does see are quoted.
 */
#include <stdarg.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "base/quote.h"
#include "base/spawn.h"
#include "study/priv.h"

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

/* GPUs are requested per node. */
static void add_gpus(const struct stk_resources *give, const char *type, struct stk_words *w)
{
    uint64_t per_node = give->ranks_per_node && give->ranks_per_node < give->gpus
                            ? give->ranks_per_node
                            : give->gpus;
    struct stk_buf b = STK_BUF_INIT;
    stk_buf_printf(&b, "--gres=gpu:%s%s%llu", type ? type : "", type ? ":" : "",
                   (unsigned long long)per_node);
    w->fail = w->fail || b.fail;
    stk_words_add(w, stk_buf_cstr(&b));
    stk_buf_release(&b);
}

static void add_tasks(const struct stk_resources *give, struct stk_words *w)
{
    uint64_t per_node = give->ranks_per_node;
    if (give->nodes && per_node) {
        add_number(w, "nodes", give->nodes);
        add_number(w, "ntasks-per-node", per_node);
    } else if (give->ranks) {
        add_number(w, "ntasks", give->ranks);
        if (per_node)
            add_number(w, "ntasks-per-node", per_node < give->ranks ? per_node : give->ranks);
        else if (give->nodes)
            add_number(w, "nodes", give->nodes);
    } else if (give->nodes) {
        add_number(w, "nodes", give->nodes);
        add_number(w, "ntasks", 1);
    }
}

static void add_resources(const struct stk_resources *give, const char *gpu_type,
                          struct stk_words *w)
{
    add_tasks(give, w);
    if (give->threads)
        add_number(w, "cpus-per-task", give->threads);
    if (give->gpus)
        add_gpus(give, gpu_type, w);
}

/* Slurm replaces %j and the like in the name of the output: a % of the path is escaped. */
static void add_output(const struct stk_runner *r, const char *name, struct stk_words *w)
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

/* Replaces marks in #SBATCH lines only: the rest is the user's own shell script. */
static void put_head(const char *head, const struct stk_marks *marks, struct stk_buf *out)
{
    if (!head || strncmp(head, "#!", 2) != 0)
        stk_buf_puts(out, "#!/bin/sh\n");
    while (head && *head) {
        size_t n = strcspn(head, "\n");
        if (strncmp(head, "#SBATCH", 7) == 0) {
            struct stk_buf line = STK_BUF_INIT;
            stk_buf_put(&line, head, n);
            stk_marks_expand(out, stk_buf_cstr(&line), marks);
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
                       "Slurm cannot name files in a folder whose path contains a backslash or a "
                       "line break");
}

void stk_job_name(const struct stk_job_run *j, char *name, size_t size)
{
    char run[STK_RUN_NAME_SIZE];
    stk_run_name(j->tally->point, j->repeat, run, sizeof run);
    snprintf(name, size, "stoker-%s%s%s", run, j->token[0] ? "-" : "", j->token);
}

int stk_batch_make(const struct stk_runner *r, const struct stk_job_run *j, struct stk_buf *script,
                   struct stk_words *args, struct stk_err *err)
{
    const struct stk_runner_plan *p = &r->plan;
    const struct stk_point *point = j->tally->point;
    const struct stk_marks marks = stk_point_marks(point);
    char exe[PATH_MAX], name[STK_RUN_NAME_SIZE], job_name[STK_JOB_NAME_SIZE];
    int rc = stk_self_path(exe, sizeof exe, err);
    rc = rc ? rc : check_path(r->dir, err);
    if (rc)
        return rc;
    stk_run_name(point, j->repeat, name, sizeof name);
    stk_job_name(j, job_name, sizeof job_name);
    add(args, "--job-name=%s", job_name);
    add_output(r, name, args);
    add_resources(&point->give, p->gpu_type, args);
    for (size_t i = 0; p->sbatch && p->sbatch[i]; i++)
        stk_words_add_expanded(args, p->sbatch[i], &marks);
    put_head(p->batch_head, &marks, script);
    stk_buf_puts(script, "exec ");
    stk_quote_raw(script, exe, strlen(exe));
    stk_buf_puts(script, " scale --quiet --resume ");
    stk_quote_raw(script, r->dir, strlen(r->dir));
    if (r->trust) {
        stk_buf_puts(script, " --trust ");
        stk_quote_raw(script, r->trust, strlen(r->trust));
    }
    stk_buf_printf(script, " --inside %s\n", name);
    rc = stk_buf_check(script, err);
    return rc ? rc : args->fail ? stk_err_nomem(err, 4096) : 0;
}
