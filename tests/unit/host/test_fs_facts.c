/* File systems by captured machines: mounts, rules of purging, the job's name, and what a recorded
 * lfs says of Lustre. */
#include "host/fs_facts.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "host/fs.h"
#include "host/scratch.h"
#include "hostset.h"

static struct stk_mount mount;
static struct stk_fs_facts facts;

/* ---- mounts ------------------------------------------------------------------------------- */

#define MOUNTS                                                                                     \
    "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"                                      \
    "23 22 0:21 / /dev/shm rw,nosuid - tmpfs tmpfs rw\n"                                           \
    "40 22 0:40 / /scratch rw - lustre 10.0.0.1@o2ib:/scratch rw,flock\n"                          \
    "41 22 0:41 / /scratch/a\\040b ro,nodev - fuse.sshfs vic@host:/x\\011y ro\n"                   \
    "42 22 0:42 / /scratch2 rw - nfs4 server:/s rw\n"                                              \
    "43 22 0:43 / /over rw - overlay overlay rw,lowerdir=/l,upperdir=/ram/up,workdir=/ram/w\n"     \
    "not a line of mountinfo\n"                                                                    \
    "44 22 0:44 / /over rw - xfs /dev/sdb rw\n"

static void check_mount(const char *path, const char *type, const char *point)
{
    CHECK(stk_mount_of(path, &mount));
    CHECK_STR(mount.type, type);
    CHECK_STR(mount.point, point);
}

static void mounts_by_name(void)
{
    host_begin();
    host_file("/proc/self/mountinfo", MOUNTS);
    check_mount("/etc", "ext4", "/");
    check_mount("/", "ext4", "/");
    check_mount("/scratch/vic/data", "lustre", "/scratch");
    check_mount("/scratch2/vic", "nfs4", "/scratch2");
    check_mount("/scratchy", "ext4", "/");
    check_mount("/scratch/a b/c", "fuse.sshfs", "/scratch/a b");
    CHECK(mount.read_only);
    CHECK_STR(mount.source, "vic@host:/x\ty");
    check_mount("/over/x", "xfs", "/over"); /* the later one hides the other */
    CHECK_STR(mount.upper, "");
    host_begin();
    CHECK(!stk_mount_of("/etc", &mount));
}

static void overlay_has_an_upper_folder(void)
{
    host_begin();
    host_file("/proc/self/mountinfo",
              "43 22 0:43 / /o rw - overlay overlay rw,lowerdir=/l,upperdir=/ram/up,workdir=/w\n");
    CHECK(stk_mount_of("/o", &mount));
    CHECK_STR(mount.upper, "/ram/up");
}

/* ---- purging ------------------------------------------------------------------------------ */

static struct stk_purge purge;

static void tmpfiles_rules(void)
{
    host_begin();
    host_file("/usr/lib/tmpfiles.d/tmp.conf", "# comment\nq /tmp 1777 root root 10d\n"
                                              "q /var/tmp 1777 root root 30d\n");
    host_file("/usr/lib/tmpfiles.d/other.conf", "d /run/x 0755 root root -\nx /tmp/keep - - - 5d\n"
                                                "e /scratch_local - - - bmA:1w12h\nq /short\n");
    CHECK(stk_purge_rule("/tmp/vic", &purge));
    CHECK(purge.days == 10);
    CHECK_STR(purge.from, "/usr/lib/tmpfiles.d/tmp.conf");
    CHECK(stk_purge_rule("/tmp", &purge));
    CHECK(!stk_purge_rule("/tmpx", &purge));
    CHECK(!stk_purge_rule("/tmp/keep", &purge));
    CHECK(stk_purge_rule("/scratch_local/7", &purge));
    CHECK(purge.days == 7.5);
    host_file("/etc/tmpfiles.d/tmp.conf", "q /tmp 1777 root root -\n"); /* replaces the other */
    CHECK(!stk_purge_rule("/tmp/vic", &purge));
    CHECK(!stk_purge_rule("/var/tmp", &purge));
}

static void purge_days_of_the_user(void)
{
    static const struct {
        const char *value, *path;
        double days;
    } cases[] = {
        {"60", "/scratch/x", 60},
        {"/scratch=30:/tmp=10", "/tmp/x", 10},
        {"/scratch=30:60", "/tmp", 60},
        {"60:/scratch=30", "/scratch/a", 30},
        {"/scratch=30", "/tmp", 0},
        {"0", "/tmp/x", 0},
        {"x", "/tmp/x", 0},
        {"/scratch=", "/scratch", 0},
        {"-3", "/tmp", 0},
        {"/=5", "/tmp", 5},
        {"", "/tmp", 0},
        {"nan", "/tmp", 0},
    };
    host_begin();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        setenv("STOKER_PURGE_DAYS", cases[i].value, 1);
        CHECK_INT(stk_purge_rule(cases[i].path, &purge), cases[i].days > 0);
        CHECK(purge.days == cases[i].days);
    }
    unsetenv("STOKER_PURGE_DAYS");
}

/* ---- the job ------------------------------------------------------------------------------ */

static void tier_of_the_job(void)
{
    char id[STK_JOB_ID_MAX], want[300];
    const char *const variables[] = {"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID",
                                     "JOB_ID"};
    for (size_t i = 0; i < 5; i++)
        unsetenv(variables[i]);
    unsetenv("STOKER_JOB");
    CHECK_INT(strncmp(stk_job_id(id), "session-", 8), 0);
    CHECK_INT(stk_job_over(id), 0);
    setenv("STOKER_JOB", "mine/1", 1);
    CHECK_STR(stk_job_id(id), "mine_1");
    CHECK_INT(stk_job_over("mine_2"), -1);
    setenv("PBS_JOBID", "12[3].host/../x", 1);
    CHECK_STR(stk_job_id(id), "12_3_.host_.._x");
    setenv("SLURM_JOB_ID", "77", 1);
    char *path = stk_scratch_tier("/local");
    snprintf(want, sizeof want, "/local/stoker-%u-job-77", (unsigned)geteuid());
    CHECK_STR(path, want);
    free(path);
    unsetenv("SLURM_JOB_ID");
    unsetenv("PBS_JOBID");
    unsetenv("STOKER_JOB");
}

/* The session of a child that has ended is over, that of a living one is not. */
static void sessions_end(void)
{
    char id[STK_JOB_ID_MAX] = "", other[STK_JOB_ID_MAX];
    int to[2], from[2];
    stk_host_set_root(NULL);
    CHECK_INT(pipe(to) | pipe(from), 0);
    pid_t child = fork();
    if (child == 0) {
        char byte;
        setsid();
        ssize_t n = write(from[1], stk_job_id(id), sizeof id);
        close(to[1]);
        n += read(to[0], &byte, 1);
        _exit(n > 0 ? 0 : 1);
    }
    close(to[0]);
    CHECK_INT(read(from[0], id, sizeof id), sizeof id);
    CHECK(strcmp(id, stk_job_id(other)) != 0);
    CHECK_INT(stk_job_over(id), 0);
    close(to[1]);
    CHECK_INT(waitpid(child, NULL, 0), child);
    CHECK_INT(stk_job_over(id), 1);
    char *boot = strchr(id + 8, '-'); /* another start of the machine, another container */
    boot[1] = boot[1] == '0' ? '1' : '0';
    CHECK_INT(stk_job_over(id), 1);
    strcat(other, "9");
    CHECK_INT(stk_job_over(other), -1);
    static const char *const odd[] = {"", "77", "session-", "session-1-x", "session-x-y-z"};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
        CHECK_INT(stk_job_over(odd[i]), -1);
    close(from[0]);
    close(from[1]);
}

/* ---- Lustre, by a recorded lfs -------------------------------------------------------------- */

static void make_lfs(const char *body)
{
    static char *path;
    char text[4096];
    snprintf(text, sizeof text, "#!/bin/sh\necho \"$@\" >> %s/lfs.log\n%s\n", scratch, body);
    const char *file = scratch_file("bin/lfs", text, strlen(text));
    chmod(file, 0755);
    free(path);
    CHECK(asprintf(&path, "%s/bin:/usr/bin:/bin", scratch) > 0);
    setenv("PATH", path, 1);
}

static void make_lustre(void)
{
    char text[700];
    host_begin();
    snprintf(text, sizeof text,
             "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n40 22 0:40 / %s rw - lustre 10.0.0.1@o2ib:/s "
             "rw\n",
             scratch);
    host_file("/proc/self/mountinfo", text);
}

static void lustre_facts(void)
{
    make_lfs("case $1 in\n"
             "getstripe) echo 'stripe_count:  4 stripe_size:   16777216 pattern: 0 stripe_offset: "
             "-1';;\n"
             "quota) printf '%s\\n  2048* 0 1050624 - 90 0 100 -\\n' \"$5\";;\n"
             "esac");
    make_lustre();
    CHECK_INT(stk_fs_facts(scratch, NULL, &facts), 0);
    CHECK_STR(facts.fs, "lustre");
    CHECK_INT(facts.reach, STK_REACH_SHARED);
    CHECK_INT(facts.stripe.count, 4);
    CHECK_INT(facts.stripe.size_bytes, 16 << 20);
    CHECK(!facts.stripe.progressive);
    CHECK(facts.quota_told);
    CHECK_INT(facts.quota_bytes, 1024ll << 20);
    CHECK_INT(facts.quota_files, 10);
}

/* Nothing is known, and nothing is taken for 0. */
static void lustre_without_answers(void)
{
    static const char *const bodies[] = {"exit 1",
                                         "echo",
                                         "echo 'stripe_count: x stripe_size: y'",
                                         "kill -9 $$",
                                         "printf '%s 1 2' \"$5\"",
                                         "printf '%s a b c d e f g h' \"$5\""};
    make_lustre();
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        make_lfs(bodies[i]);
        CHECK_INT(stk_fs_facts(scratch, NULL, &facts), 0);
        CHECK_STR(facts.fs, "lustre");
        CHECK_INT(facts.stripe.size_bytes, 0);
        CHECK(!facts.quota_told);
        CHECK(facts.quota_bytes == UINT64_MAX && facts.quota_files == UINT64_MAX);
    }
}

static void lustre_layouts(void)
{
    struct stk_lustre_stripe s;
    make_lfs("[ $2 = -d ] && exit 0\nprintf 'f\\nlmm_stripe_count:  1\\nlmm_stripe_size: "
             "1048576\\nlmm_stripe_count: 8\\n'");
    CHECK(stk_lustre_stripe("f", &s)); /* a file: asked a second time */
    CHECK_INT(s.count, 1);
    CHECK(s.progressive);
    s = stk_lustre_stripe_fit(100, 0);
    CHECK(s.count == 1 && s.size_bytes == 1 << 20);
    s = stk_lustre_stripe_fit(UINT64_C(3) << 30, 5 << 20);
    CHECK(s.count == 3 && s.size_bytes == 8 << 20);
    s = stk_lustre_stripe_fit(UINT64_MAX, UINT64_MAX);
    CHECK(s.count == 8 && s.size_bytes == 64 << 20);
}

static void lustre_stripe_is_set(void)
{
    struct stk_lustre_stripe s = {4, 8 << 20, false};
    struct stk_err err = {0};
    struct stk_buf log = STK_BUF_INIT;
    (void)stk_remove_tree(scratch_path("lfs.log"), NULL);
    make_lfs("");
    CHECK_INT(stk_lustre_stripe_set("/some/folder", &s, &err), 0);
    CHECK_INT(stk_read_file(scratch_path("lfs.log"), 4096, &log, NULL), 0);
    CHECK_STR(stk_buf_cstr(&log), "setstripe -c 4 -S 8388608 /some/folder\n");
    make_lfs("echo 'lfs setstripe: no such OST' >&2; exit 3");
    CHECK_INT(stk_lustre_stripe_set("/some/folder", &s, &err), STK_E_UNSUPPORTED);
    CHECK_STR(err.what, "lfs setstripe failed: lfs setstripe: no such OST");
    setenv("PATH", scratch_path("empty"), 1);
    CHECK_INT(stk_lustre_stripe_set("/some/folder", &s, &err), STK_E_UNSUPPORTED);
    CHECK(!stk_lustre_stripe("/", &s));
    stk_buf_release(&log);
}

/* ---- paths -------------------------------------------------------------------------------- */

static void paths(void)
{
    struct stk_fs_look nearest = {.nearest = true};
    stk_host_set_root(NULL);
    CHECK_INT(stk_fs_facts(scratch_path("no/such"), NULL, &facts), ENOENT);
    CHECK(facts.free_bytes == UINT64_MAX);
    CHECK_INT(stk_fs_facts(scratch_path("no/such"), &nearest, &facts), 0);
    CHECK(strstr(facts.path, "stoker-test-") && facts.folder && facts.writable);
    CHECK(facts.owner == geteuid() && facts.ino);
    const char *file = scratch_file("file", "x", 1);
    CHECK_INT(stk_fs_facts(file, NULL, &facts), 0);
    CHECK(!facts.folder && !facts.writable);
}

int main(int argc, char **argv)
{
    scratch_begin();
    CHECK_BEGIN(argc, argv);
    CHECK_RUN(mounts_by_name);
    CHECK_RUN(overlay_has_an_upper_folder);
    CHECK_RUN(tmpfiles_rules);
    CHECK_RUN(purge_days_of_the_user);
    CHECK_RUN(tier_of_the_job);
    CHECK_RUN(sessions_end);
    CHECK_RUN(lustre_facts);
    CHECK_RUN(lustre_without_answers);
    CHECK_RUN(lustre_layouts);
    CHECK_RUN(lustre_stripe_is_set);
    CHECK_RUN(paths);
    scratch_done();
    return CHECK_DONE();
}
