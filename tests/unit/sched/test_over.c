/* Whether a job is over, by recorded answers of Slurm's clients. */
#include "sched/slurm/slurm.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "scratch.h"

static void make(const char *name, const char *body)
{
    char text[600], path[300], file[40];
    snprintf(file, sizeof file, "bin/%s", name);
    snprintf(text, sizeof text, "#!/bin/sh\n%s\n", body);
    chmod(scratch_file(file, text, strlen(text)), 0755);
    snprintf(path, sizeof path, "%s/bin:/usr/bin:/bin", scratch);
    setenv("PATH", path, 1);
}

static void by_slurm(void)
{
    unsetenv("SLURM_JOB_ID");
    make("squeue", "exit 0"); /* answers, and knows no such job */
    make("sacct", "exit 1");
    make("scontrol", "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1");
    CHECK_INT(stk_job_is_over("77", NULL), 1);
    make("squeue", "echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1");
    make("scontrol", "exit 1");
    CHECK_INT(stk_job_is_over("77", NULL), -1); /* silence proves nothing */
    make("squeue", "exit 0");
    CHECK_INT(stk_job_is_over("77.pbs", NULL), -1);
    CHECK_INT(stk_job_is_over("99999999999999999999", NULL), -1);
    setenv("SLURM_JOB_ID", "77", 1);
    CHECK_INT(stk_job_is_over("77", NULL), 0); /* it is ours */
    unsetenv("SLURM_JOB_ID");
}

/* By a process that has not been disappointed yet. */
static int asked_anew(const char *id)
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0)
        _exit(stk_job_is_over(id, NULL) + 1);
    (void)waitpid(pid, &status, 0);
    return WEXITSTATUS(status) - 1;
}

/* A job that the rest of an answer names runs, and its copy stays. */
static void cut_short(void)
{
    unsetenv("SLURM_JOB_ID");
    make("sacct", "exit 1");
    make("scontrol", "exit 1");
    make("squeue", "exit 0");
    CHECK_INT(asked_anew("77"), 1);
    make("squeue", "printf 7");
    CHECK_INT(asked_anew("77"), -1);
    make("squeue", "echo 'squeue: error: the controller does not answer' >&2; exit 0");
    CHECK_INT(asked_anew("77"), -1);
    make("squeue", "sep=$(expr \"$5\" : '%i\\(.*\\)%A'); echo \"78${sep}78${sep}RUNN\"");
    CHECK_INT(asked_anew("77"), -1);
}

int main(int argc, char **argv)
{
    scratch_begin();
    CHECK_BEGIN(argc, argv);
    CHECK_RUN(cut_short);
    CHECK_RUN(by_slurm);
    scratch_done();
    return CHECK_DONE();
}
