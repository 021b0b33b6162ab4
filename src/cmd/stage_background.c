/*
 * stage_background.c - stages in the background: the same command again, in a session of its own,
 * so that it outlives the shell command but not the job. The command returns once the set is there:
 * from then on loaders find it. Until then the other process speaks through our standard error;
 * afterwards it writes a log in the tier.
 */
#include "cmd/stage.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/own.h"
#include "base/spawn.h"
#include "base/text.h"
#include "host/scratch.h"

#define BEGUN    "begun "
#define TEXT_MAX 8192u
#define NICE     10

/* Training comes first: it has the CPU when both want it. */
static int new_session(void *user)
{
    (void)user;
    int rc = setsid() < 0 ? errno : 0;
    (void)!nice(NICE);
    return rc;
}

/* Our arguments, without what concerns only this process. */
static const char **make_argv(const struct stk_run *run, const char *self)
{
    const char **argv = calloc((size_t)run->argc + 5, sizeof *argv);
    size_t n = 0;
    bool options = true;
    if (!argv)
        return NULL;
    argv[n++] = self;
    argv[n++] = "stage";
    argv[n++] = "--in-background";
    for (int i = 0; i < run->argc; i++) {
        const char *a = run->argv[i];
        bool json = options && strncmp(a, "--json", 6) == 0 && (!a[6] || a[6] == '=');
        options = options && strcmp(a, "--") != 0;
        i += json && !a[6];
        if (!json)
            argv[n++] = a;
    }
    return argv;
}

/* Reads until the copy has begun, or the process has ended. True: begun. */
static bool hear(struct stk_child *c, struct stk_buf *text)
{
    while (c->pipe[1] >= 0 && stk_child_read(c, 1, text, TEXT_MAX) >= 0)
        if (memchr(text->data, '\n', text->len) && strncmp(stk_buf_cstr(text), BEGUN, 6) == 0)
            return true;
    return false;
}

static int say_begun(struct stk_stage_job *job, const struct stk_child *c, struct stk_buf *text)
{
    struct stk_run *run = job->run;
    char *log = (char *)(uintptr_t)stk_buf_cstr(text) + strlen(BEGUN);
    log[strcspn(log, "\n")] = '\0';
    char *path = realpath(job->given, NULL);
    stk_say(run, "staging in the background, process %ld; log: %s\n", (long)c->pid, log);
    stk_jw_put_bool(&run->json, "background", true);
    stk_jw_put_u64(&run->json, "pid", (uint64_t)c->pid);
    stk_jw_put_str(&run->json, "log", log);
    stk_jw_put_str(&run->json, "path", path);
    stk_stage_print_path(job, path ? path : job->given);
    free(path);
    return STK_EXIT_DONE;
}

/* It ended before: it has said why, and printed a path. */
static int pass_on(struct stk_stage_job *job, struct stk_child *c, struct stk_buf *text)
{
    struct stk_run *run = job->run;
    int why = stk_child_wait(c);
    stk_jw_put_bool(&run->json, "background", false);
    if (!job->silent && !(run->common->json && strcmp(run->common->json, "-") == 0))
        fputs(stk_buf_cstr(text), stdout);
    return why ? STK_EXIT_FAILED : c->ending.status;
}

int stk_stage_background(struct stk_stage_job *job, const char *dst)
{
    struct stk_run *run = job->run;
    struct stk_buf text = STK_BUF_INIT;
    char self[4096], id[STK_JOB_ID_MAX];
    (void)dst;
    /* In a session of its own, it still fills the tier of this one. */
    setenv("STOKER_JOB", stk_job_id(id), 1);
    int rc = stk_self_path(self, sizeof self, &run->err);
    const char **argv = rc ? NULL : make_argv(run, self);
    if (rc == 0 && !argv)
        rc = stk_err_nomem(&run->err, 0);
    struct stk_child c = {.argv = argv,
                          .path = self,
                          .fd = {STK_FD_NULL, STK_FD_PIPE, STK_FD_KEEP},
                          .inside = new_session};
    if (rc == 0 && (errno = stk_child_start(&c)) != 0)
        rc = stk_err_sys(&run->err, self, "start in the background");
    if (rc == 0)
        rc = hear(&c, &text) ? say_begun(job, &c, &text) : pass_on(job, &c, &text);
    stk_child_hang_up(&c);
    stk_buf_release(&text);
    free(argv);
    return rc;
}

/* ---- in the other process ---- */

/* From here on it writes to the log: the terminal and the pipe belong to others. */
void stk_stage_report_begun(struct stk_stage_job *job)
{
    char *name = NULL, *path = NULL;
    int dir = -1, fd = -1;
    if (asprintf(&name, "%s.log", job->src.name) >= 0 && (path = stk_path_join(job->at.tier, name)) &&
        stk_own_folder(job->at.tier, 0, &dir, NULL) == 0 &&
        stk_open_fresh(dir, name, STK_PRIVATE, &fd, path, NULL) == 0)
        printf(BEGUN "%s\n", path);
    else
        printf(BEGUN "-\n");
    fflush(stdout);
    fd = fd < 0 ? STDIN_FILENO : fd; /* /dev/null */
    (void)dup2(fd, STDOUT_FILENO);
    (void)dup2(fd, STDERR_FILENO);
    job->run->progress.bar = false;
    if (dir >= 0)
        close(dir);
    if (fd > STDERR_FILENO)
        close(fd);
    free(name);
    free(path);
}
