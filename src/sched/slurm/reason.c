/*
 * reason.c - why a job waits: the meaning of Slurm's reasons, and which of them never end.
 */
#include "sched/slurm/slurm.h"

static const struct reason {
    const char *reason;
    const char *means;
    bool final; /* whatever others do, the job never starts */
} reasons[] = {
    {"Priority", "jobs with a higher priority come first", false},
    {"Resources", "it is next, and waits for enough free resources", false},
    {"Dependency", "it waits for another job", false},
    {"DependencyNeverSatisfied", "the job it depends on failed: it will never start; cancel it",
     true},
    {"JobHeldUser", "its owner holds it: release it with scontrol release", false},
    {"JobHeldAdmin", "an administrator holds it: ask your site", false},
    {"BeginTime", "its begin time has not come; a requeued job also waits a while", false},
    {"JobArrayTaskLimit", "the array runs as many tasks as its limit allows (%)", false},
    {"PartitionTimeLimit",
     "it requests more time than the partition allows: it will never start as it is", true},
    {"PartitionNodeLimit",
     "it requests more nodes than the partition allows: it will never start as it is", true},
    {"PartitionConfig",
     "it requests more than the partition has or allows: it will never start as it is", true},
    {"PartitionDown", "the partition is closed", false},
    {"PartitionInactive", "the partition is closed", false},
    {"BadConstraints", "no node has what it requests: it will never start as it is", true},
    {"ReqNodeNotAvail", "a node it requests is down, drained or reserved", false},
    {"Reservation", "its reservation has not started", false},
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
    {"launch failed requeued held", "its start failed, and it is held: ask your site", false},
    {"job requeued in held state", "it was requeued and is held: release it with scontrol release",
     false},
    {"InvalidAccount",
     "the account does not exist, or not for this user: it will never start as it is", true},
    {"InvalidQOS", "the QOS does not exist, or not for this account: it will never start as it is",
     true},
    {"AccountNotAllowed",
     "the partition does not accept this account: it will never start as it "
     "is",
     true},
    {"QOSNotAllowed", "the partition does not accept this QOS: it will never start as it is", true},
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
    return r ? r->final : strstr(reason, "PerJob") != NULL; /* QOSMaxCpuPerJobLimit and the like */
}
