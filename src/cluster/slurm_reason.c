/*
 * slurm_reason.c - why a job waits: what Slurm's reasons mean, and which of them never end.
 */
#include "cluster/slurm.h"

static const struct reason {
    const char *reason;
    const char *means;
    bool final; /* whatever others do, the job never begins */
} reasons[] = {
    {"Priority", "jobs with a higher priority are before it", false},
    {"Resources", "it is next, and waits until enough is free", false},
    {"Dependency", "it waits for another job", false},
    {"DependencyNeverSatisfied", "the job it depends on failed: it will never start; cancel it",
     true},
    {"JobHeldUser", "it is held by its owner: scontrol release lets it go", false},
    {"JobHeldAdmin", "it is held by an administrator: ask the site", false},
    {"BeginTime", "its time to begin has not come; a job that was requeued waits a while, too",
     false},
    {"JobArrayTaskLimit", "as many tasks of the array run as it allows itself (%)", false},
    {"PartitionTimeLimit",
     "it asks for more time than the partition allows: it will never start as it is", true},
    {"PartitionNodeLimit",
     "it asks for more nodes than the partition allows: it will never start as it is", true},
    {"PartitionConfig",
     "it asks for more than the partition has or allows: it will never start as it is", true},
    {"PartitionDown", "the partition is closed", false},
    {"PartitionInactive", "the partition is closed", false},
    {"BadConstraints", "no node has what it asks for: it will never start as it is", true},
    {"ReqNodeNotAvail", "a node it asks for is down, drained or reserved", false},
    {"Reservation", "its reservation has not begun", false},
    {"Licenses", "it waits for a licence", false},
    {"AssocGrpBillingMinutes", "the account has used up its service units", false},
    {"AssocGrpCPUMinutesLimit", "the account has used up its CPU time", false},
    {"AssocGrpGRES", "the account uses as many GPUs as it may", false},
    {"AssocGrpCpuLimit", "the account uses as many CPUs as it may", false},
    {"AssocMaxJobsLimit", "the user runs as many jobs as the account allows", false},
    {"QOSMaxJobsPerUserLimit", "the user runs as many jobs as the QOS allows", false},
    {"QOSMaxCpuPerUserLimit", "the user uses as many CPUs as the QOS allows", false},
    {"QOSMaxGRESPerUser", "the user uses as many GPUs as the QOS allows", false},
    {"QOSGrpCpuLimit", "all CPUs of the QOS are in use", false},
    {"QOSGrpGRES", "all GPUs of the QOS are in use", false},
    {"MaxCpuPerAccount", "the account uses as many CPUs as it may", false},
    {"launch failed requeued held", "its start failed, and it is held: ask the site", false},
    {"job requeued in held state", "it was requeued and is held: scontrol release lets it go",
     false},
    {"InvalidAccount",
     "there is no such account, or not for this user: it will never start as it is", true},
    {"InvalidQOS", "there is no such QOS, or not for this account: it will never start as it is",
     true},
    {"AccountNotAllowed", "the partition does not take this account: it will never start as it is",
     true},
    {"QOSNotAllowed", "the partition does not take this QOS: it will never start as it is", true},
};

/* "ReqNodeNotAvail, UnavailableNodes:…" */
static const struct reason *find(const char *reason)
{
    size_t n = strcspn(reason, ",(");
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (strlen(reasons[i].reason) == n && memcmp(reasons[i].reason, reason, n) == 0)
            return &reasons[i];
    return NULL;
}

const char *stk_slurm_reason_text(const char *reason)
{
    const struct reason *r = find(reason);
    return r ? r->means : NULL;
}

bool stk_slurm_reason_is_final(const char *reason)
{
    const struct reason *r = find(reason);
    return r ? r->final : strstr(reason, "PerJob") != NULL; /* QOSMaxCpuPerJobLimit and its like */
}
