/* test_beacon.c - status files: whole, bounded in rate, and of a process that is told from others. */
#include "host/beacon.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "scratch.h"

static unsigned written;

static void put(void *user, struct stk_jw *w)
{
    (void)user;
    stk_jw_put_u64(w, "count", ++written);
}

static int read_it(int dir, struct stk_arena *arena, struct stk_beacon_seen *seen)
{
    stk_arena_reset(arena);
    return stk_beacon_read(arena, dir, "b.json", scratch, seen, NULL);
}

/* A beacon in every step would load the file system that is being measured. */
static void says_what_it_was_told_at_a_bounded_rate(void)
{
    struct stk_arena arena = STK_ARENA_INIT;
    struct stk_beacon_seen seen;
    struct stat st;
    int dir = open(scratch, O_RDONLY | O_DIRECTORY);
    struct stk_beacon b = {.name = "b.json", .command = "bench", .every_s = 1e6, .put = put};
    stk_beacon_begin(&b, dir);
    CHECK(read_it(dir, &arena, &seen) == 0 && !seen.ended && stk_beacon_u64(seen.now, "count") == 1);
    CHECK(strcmp(seen.command, "bench") == 0 && stk_alive_check(&seen.who) == STK_LIFE_RUNS);
    CHECK(seen.started_s > 1e9 && seen.updated_s >= seen.started_s);
    CHECK(stat(scratch_path("b.json"), &st) == 0 && (st.st_mode & 07777) == 0600);
    for (int i = 0; i < 1000; i++)
        stk_beacon_tick(&b, false);
    CHECK_INT(written, 1);
    stk_beacon_tick(&b, true);
    CHECK(read_it(dir, &arena, &seen) == 0 && stk_beacon_u64(seen.now, "count") == 2);
    stk_beacon_end(&b, true);
    CHECK(read_it(dir, &arena, &seen) == 0 && seen.ended);
    stk_beacon_end(&b, false); /* nothing any more */
    CHECK(access(scratch_path("b.json"), F_OK) == 0);
    stk_arena_release(&arena);
    close(dir);
}

/* A link in the place of the file would have been written through, or read. */
static void follows_no_link(void)
{
    struct stk_arena arena = STK_ARENA_INIT;
    struct stk_beacon_seen seen;
    struct stat st;
    int dir = open(scratch, O_RDONLY | O_DIRECTORY);
    struct stk_beacon b = {.name = "b.json", .command = "bench", .every_s = 1, .put = put};
    int victim = open(scratch_path("victim"), O_CREAT | O_WRONLY, 0600);
    CHECK(victim >= 0 && write(victim, "x", 1) == 1 && close(victim) == 0);
    (void)unlink(scratch_path("b.json"));
    CHECK(symlink("victim", scratch_path("b.json")) == 0);
    CHECK(read_it(dir, &arena, &seen) != 0);
    stk_beacon_begin(&b, dir);
    CHECK(stat(scratch_path("victim"), &st) == 0 && st.st_size == 1);
    CHECK(lstat(scratch_path("b.json"), &st) == 0 && S_ISREG(st.st_mode));
    stk_beacon_end(&b, false);
    CHECK(access(scratch_path("b.json"), F_OK) != 0 && stat(scratch_path("victim"), &st) == 0);
    stk_arena_release(&arena);
    close(dir);
}

/* The number of a process is reused, also after a restart, and means nothing elsewhere. */
static void who_lives(void)
{
    struct stk_alive self, other;
    stk_alive_self(&self);
    CHECK_INT(stk_alive_check(&self), STK_LIFE_RUNS);
    other = self;
    other.start++;
    CHECK_INT(stk_alive_check(&other), STK_LIFE_GONE);
    other = self;
    other.boot[0] ^= 1;
    CHECK_INT(stk_alive_check(&other), STK_LIFE_GONE); /* this host, before it was restarted */
    other.host[0] ^= 1;
    CHECK_INT(stk_alive_check(&other), STK_LIFE_UNKNOWN);
    other = self;
    other.space++;
    CHECK_INT(stk_alive_check(&other), STK_LIFE_UNKNOWN);
    other = self;
    other.start = 0;
    CHECK_INT(stk_alive_check(&other), STK_LIFE_UNKNOWN);
    other = (struct stk_alive){0};
    CHECK_INT(stk_alive_check(&other), STK_LIFE_UNKNOWN);
}

/* A child that was killed and not waited for yet is in /proc, and does nothing any more. */
static void a_zombie_is_gone(void)
{
    struct stk_alive child;
    siginfo_t info;
    int go[2];
    char text[sizeof child] = {0};
    CHECK(pipe(go) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        stk_alive_self(&child);
        _exit(write(go[1], &child, sizeof child) == (ssize_t)sizeof child ? (int)pause() : 1);
    }
    CHECK(read(go[0], text, sizeof text) == (ssize_t)sizeof child);
    memcpy(&child, text, sizeof child);
    CHECK_INT(stk_alive_check(&child), STK_LIFE_RUNS);
    kill(pid, SIGKILL);
    CHECK(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) == 0);
    CHECK_INT(stk_alive_check(&child), STK_LIFE_GONE);
    CHECK(waitpid(pid, NULL, 0) == pid);
    CHECK_INT(stk_alive_check(&child), STK_LIFE_GONE);
    close(go[0]);
    close(go[1]);
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    scratch_begin();
    CHECK_RUN(says_what_it_was_told_at_a_bounded_rate);
    CHECK_RUN(follows_no_link);
    CHECK_RUN(who_lives);
    CHECK_RUN(a_zombie_is_gone);
    scratch_done();
    return CHECK_DONE();
}
