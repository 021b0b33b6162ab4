/* Which folder takes a copy: verdicts by facts, and the choice among real folders. */
#include "stage/target.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "hostset.h"

#define GIB  (UINT64_C(1) << 30)
#define NONE UINT64_MAX
#define ME   1000

/* A folder of ours on a local xfs with 100 GiB and a million inodes free. */
static struct stk_target good(void)
{
    struct stk_target t = {.name = "$TMPDIR", .path = "/local/7", .job_bytes = NONE};
    t.facts = (struct stk_fs_facts){.fs = "xfs",
                                    .reach = STK_REACH_LOCAL,
                                    .folder = true,
                                    .writable = true,
                                    .owner = ME,
                                    .mode = S_IFDIR | 0700,
                                    .free_bytes = 100 * GIB,
                                    .total_bytes = 200 * GIB,
                                    .free_files = 1000000,
                                    .quota_bytes = NONE,
                                    .quota_files = NONE};
    return t;
}

static const struct stk_target_wish ten_gib = {.bytes = 10 * GIB, .files = 1000};

static void expect(int line, struct stk_target t, const struct stk_target_wish *w,
                   enum stk_target_verdict v, const char *reason)
{
    stk_target_decide(&t, w, ME);
    check_text(__FILE__, line, stk_target_verdict_name(t.verdict), stk_target_verdict_name(v));
    check_text(__FILE__, line, t.reason, reason);
}
#define EXPECT(t, v, reason) expect(__LINE__, (t), &ten_gib, STK_TARGET_##v, (reason))

static void by_file_system(void)
{
    struct stk_target t = good();
    EXPECT(t, FITS, "xfs on this node, 100 GiB free");
    t.name = "$SCRATCH";
    strcpy(t.facts.fs, "lustre");
    t.facts.reach = STK_REACH_SHARED;
    EXPECT(t, SHARED, "lustre: shared; not local to this node");
    t.facts.purge.days = 90;
    EXPECT(t, SHARED, "lustre: shared, purged after 90 days; not local to this node");
    t.facts.reach = STK_REACH_UNKNOWN;
    t.facts.purge.days = 0;
    strcpy(t.facts.fs, "fuse.sshfs");
    EXPECT(t, UNKNOWN, "fuse.sshfs: not known to be local to this node");
    t.facts.fs[0] = '\0';
    EXPECT(t, UNKNOWN, "an unknown file system: not known to be local to this node");
}

static void by_owner(void)
{
    struct stk_target t = good();
    t.facts.owner = 0;
    t.facts.mode = S_IFDIR | 01777;
    EXPECT(t, FITS, "xfs on this node, 100 GiB free");
    t.facts.mode = S_IFDIR | 0777;
    EXPECT(t, FOREIGN, "others can rename what is in it (mode 0777, not sticky)");
    t.facts.mode = S_IFDIR | 0775;
    EXPECT(t, FOREIGN, "others can rename what is in it (mode 0775, not sticky)");
    t.facts.owner = ME;
    EXPECT(t, FITS, "xfs on this node, 100 GiB free");
    t.facts.owner = 4294967;
    t.facts.mode = S_IFDIR | 01777;
    EXPECT(t, FOREIGN, "belongs to uid 4294967");
    t = good();
    t.facts.foreign_link = true;
    EXPECT(t, FOREIGN, "is a link that another user made");
}

static void by_room(void)
{
    struct stk_target t = good();
    t.facts.free_bytes = 9 * GIB;
    EXPECT(t, SMALL, "xfs, 9.00 GiB free, 10.0 GiB needed");
    t = good();
    t.facts.quota_bytes = GIB;
    EXPECT(t, SMALL, "xfs, your quota leaves 1.00 GiB, 10.0 GiB needed");
    t = good();
    t.facts.free_files = 1000;
    EXPECT(t, SMALL, "xfs, 1,000 files can be made there, 1,001 needed");
    t = good();
    t.facts.quota_files = 5;
    EXPECT(t, SMALL, "xfs, 5 files can be made there, 1,001 needed");
    t = good();
    t.facts.free_bytes = NONE;
    t.facts.free_files = NONE;
    EXPECT(t, FITS, "xfs on this node, room not known");
    t = good();
    expect(__LINE__, t, &(struct stk_target_wish){.bytes = NONE, .files = NONE}, STK_TARGET_SMALL,
           "xfs, 100 GiB free, 16.0 EiB needed");
    t.facts.free_bytes = 0; /* full: also if the size of the copy is not known */
    expect(__LINE__, t, &(struct stk_target_wish){0}, STK_TARGET_SMALL,
           "xfs, 0 B free, 0 B needed");
}

static void by_memory(void)
{
    struct stk_target t = good();
    strcpy(t.facts.fs, "tmpfs");
    t.facts.reach = STK_REACH_MEMORY;
    t.job_bytes = 64 * GIB;
    EXPECT(t, FITS, "tmpfs in memory, 32.0 GiB for a copy");
    t.job_bytes = 16 * GIB;
    EXPECT(t, MEMORY,
           "tmpfs is memory and counts against the job: 16.0 GiB left, half of it for a copy, "
           "10.0 GiB needed");
}

static void by_answers(void)
{
    struct stk_target t = good();
    t.facts.error = ETIMEDOUT;
    EXPECT(t, STALLED, "did not answer within 5 s");
    t.facts.error = ENOENT;
    EXPECT(t, ABSENT, "does not exist");
    t.facts.error = EACCES;
    EXPECT(t, REFUSED, "cannot be used: Permission denied");
    t = good();
    t.facts.folder = false;
    EXPECT(t, REFUSED, "is not a folder");
    t = good();
    t.facts.read_only = true;
    EXPECT(t, REFUSED, "xfs, mounted read-only");
    t = good();
    t.facts.writable = false;
    EXPECT(t, REFUSED, "xfs, not writable for you");
    t.path[0] = '\0';
    EXPECT(t, UNSET, "not set");
}

static void warnings(void)
{
    struct stk_target t = good();
    t.facts.purge = (struct stk_purge){10, "/usr/lib/tmpfiles.d/tmp.conf"};
    stk_target_decide(&t, &ten_gib, ME);
    CHECK_STR(t.warning, "files there are removed when they are older than 10 days "
                         "(/usr/lib/tmpfiles.d/tmp.conf)");
    t.facts.purge.days = 0.5;
    stk_target_decide(&t, &ten_gib, ME);
    CHECK(strstr(t.warning, "older than 12 hours"));
    t = good();
    t.name = "DST";
    t.named = true; /* what the user names may be shared */
    strcpy(t.path, "/lustre/scratch/vic");
    strcpy(t.facts.fs, "lustre");
    t.facts.reach = STK_REACH_SHARED;
    stk_target_decide(&t, &ten_gib, ME);
    CHECK_INT(t.verdict, STK_TARGET_FITS);
    CHECK_STR(t.warning, "lustre is shared: this copy is not local to the node; many sites purge "
                         "such file systems by age; STOKER_PURGE_DAYS=N states the rule");
}

/* ---- real folders ------------------------------------------------------------------------- */

static struct stk_targets all;

static const struct stk_target *find(const char *name)
{
    for (size_t i = 0; i < all.n; i++)
        if (strcmp(all.target[i].name, name) == 0)
            return &all.target[i];
    abort();
}

/* On a machine whose mounts say that this folder is an xfs, whatever it is. */
static void mount_at(const char *path, const char *type)
{
    static char text[2000];
    host_begin();
    snprintf(text, sizeof text,
             "22 1 8:1 / / rw - nfs server:/ rw\n40 22 0:40 / %s rw - %s none rw\n", path, type);
    host_file("/proc/self/mountinfo", text);
}

static void find_for(uint64_t bytes)
{
    struct stk_target_wish w = {.bytes = bytes, .files = 1};
    CHECK_INT(stk_targets_find(&w, &all, NULL), 0);
}

static void chooses(void)
{
    const char *const variables[] = {"STOKER_SCRATCH", "SLURM_TMPDIR", "TMPDIR", "SCRATCH"};
    for (size_t i = 0; i < 4; i++)
        unsetenv(variables[i]);
    const char *a = scratch_path("a"), *b = scratch_path("b");
    CHECK_INT(stk_mkdirs(a, NULL), 0);
    CHECK_INT(stk_mkdirs(b, NULL), 0);
    CHECK_INT(symlink(a, scratch_path("link")), 0);
    mount_at(scratch, "xfs");
    setenv("SLURM_TMPDIR", a, 1);
    setenv("TMPDIR", scratch_path("link"), 1);
    setenv("SCRATCH", b, 1);
    find_for(1000);
    CHECK_STR(stk_targets_best(&all)->name, "$SLURM_TMPDIR");
    CHECK_INT(find("$TMPDIR")->verdict, STK_TARGET_SAME);
    CHECK_INT(find("$SCRATCH")->verdict, STK_TARGET_FITS);
    CHECK_INT(find("$STOKER_SCRATCH")->verdict, STK_TARGET_UNSET);
    CHECK_INT(find("/dev/shm")->verdict, STK_TARGET_SHARED); /* by the captured mounts */
    setenv("STOKER_SCRATCH", b, 1);                          /* the user's word wins */
    find_for(1000);
    CHECK_STR(stk_targets_best(&all)->name, "$STOKER_SCRATCH");
    find_for(UINT64_C(1) << 62);
    CHECK(!stk_targets_best(&all));
    mount_at(scratch, "tmpfs"); /* its memory is limited by the cgroup */
    host_file("/proc/meminfo", "MemTotal: 8192 kB\nMemAvailable: 4096 kB\n");
    find_for(1 << 20);
    CHECK_STR(stk_targets_best(&all)->reason, "tmpfs in memory, 2.00 MiB for a copy");
    find_for(3 << 20);
    CHECK_INT(find("$STOKER_SCRATCH")->verdict, STK_TARGET_MEMORY);
    for (size_t i = 0; i < 4; i++)
        unsetenv(variables[i]);
}

static bool is_empty(const char *folder)
{
    char line[700];
    snprintf(line, sizeof line, "[ -z \"$(ls -A '%s')\" ]", folder);
    return system(line) == 0;
}

static int stop_now(void *user)
{
    (void)user;
    return 1;
}

static void named_by_the_user(void)
{
    static struct stk_target t;
    struct stk_target_wish w = {.bytes = 1000}, stopped = {.limit.stop = stop_now};
    const char *folder = scratch_path("named");
    CHECK_INT(stk_mkdirs(folder, NULL), 0);
    mount_at(scratch, "nfs");
    CHECK_INT(stk_target_judge(scratch_path("named/not/yet"), &w, &t, NULL), 0);
    CHECK_INT(t.verdict, STK_TARGET_FITS);
    CHECK_STR(t.path, folder);
    CHECK_STR(t.warning, "nfs is shared: this copy is not local to the node");
    CHECK(is_empty(folder)); /* the probe has left nothing */
    CHECK_INT(stk_target_judge(folder, &stopped, &t, NULL), STK_E_STOPPED);
    if (geteuid() != 0) {
        CHECK_INT(chmod(folder, 0500), 0);
        CHECK_INT(stk_target_judge(folder, &w, &t, NULL), 0);
        CHECK_INT(t.verdict, STK_TARGET_REFUSED);
        CHECK_INT(chmod(folder, 0700), 0);
    }
}

/* ---- Lustre, by a recorded lfs ------------------------------------------------------------ */

static const char *read_log(void)
{
    static struct stk_buf log;
    stk_buf_reset(&log);
    (void)stk_read_file(scratch_path("lfs.log"), 4096, &log, NULL);
    return stk_buf_cstr(&log);
}

static void stripes_on_lustre_only(void)
{
    char what[64], text[600], path[300], want[600];
    const char *folder = scratch_path("lustre");
    CHECK_INT(stk_mkdirs(folder, NULL), 0);
    snprintf(text, sizeof text, "#!/bin/sh\n[ $1 = setstripe ] && echo \"$@\" >> %s/lfs.log\n:\n",
             scratch);
    chmod(scratch_file("bin/lfs", text, strlen(text)), 0755);
    snprintf(path, sizeof path, "%s/bin:/usr/bin:/bin", scratch);
    setenv("PATH", path, 1);
    mount_at(scratch, "xfs");
    stk_target_stripe(folder, 3 * GIB, 4 << 20, what, sizeof what);
    CHECK_STR(what, "");
    CHECK_STR(read_log(), "");
    mount_at(scratch, "lustre");
    stk_target_stripe(folder, 3 * GIB, 4 << 20, what, sizeof what);
    CHECK_STR(what, "3 stripes of 4.00 MiB");
    snprintf(want, sizeof want, "setstripe -c 3 -S 4194304 %s\n", folder);
    CHECK_STR(read_log(), want);
    stk_target_stripe(folder, 1000, 4 << 20, what, sizeof what);
    CHECK_STR(what, "1 stripe of 4.00 MiB");
}

int main(int argc, char **argv)
{
    scratch_begin();
    CHECK_BEGIN(argc, argv);
    CHECK_RUN(by_file_system);
    CHECK_RUN(by_owner);
    CHECK_RUN(by_room);
    CHECK_RUN(by_memory);
    CHECK_RUN(by_answers);
    CHECK_RUN(warnings);
    CHECK_RUN(chooses);
    CHECK_RUN(named_by_the_user);
    CHECK_RUN(stripes_on_lustre_only);
    scratch_done();
    return CHECK_DONE();
}
