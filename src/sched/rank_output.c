/* rank_output.c - whether what a rank prints is for itself, or goes where all ranks print. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/proc.h"
#include "host/root.h"
#include "sched/rank.h"

#define ENVIRONMENT_MAX (1u << 20)
#define ABOVE_MAX       32

struct environment {
    const char *text;
    size_t len;
};

static const char *look_up(void *user, const char *name)
{
    const struct environment *e = user;
    size_t n = strlen(name);
    for (const char *p = e->text; p < e->text + e->len; p += strlen(p) + 1)
        if (strncmp(p, name, n) == 0 && p[n] == '=')
            return p + n + 1;
    return NULL;
}

/* True for a process that the launcher started as this rank, or that one of those started. */
static bool is_in_rank(pid_t pid, const struct stk_rank *r, char *room)
{
    char path[64];
    struct stk_rank other = {0};
    snprintf(path, sizeof path, "/proc/%ld/environ", (long)pid);
    struct environment e = {room, stk_host_read(path, room, ENVIRONMENT_MAX)};
    return e.len && stk_rank_detect_from(look_up, &e, &other, NULL) == 0 &&
           other.world == r->world && other.rank == r->rank;
}

/* True if the process has this pipe open for reading. */
static bool reads(pid_t pid, const struct stat *pipe)
{
    char path[64];
    struct stat st, link;
    bool found = false;
    snprintf(path, sizeof path, "/proc/%ld/fd", (long)pid);
    DIR *d = opendir(path);
    for (struct dirent *e; d && !found && (e = readdir(d));)
        found = fstatat(dirfd(d), e->d_name, &st, 0) == 0 && st.st_ino == pipe->st_ino &&
                st.st_dev == pipe->st_dev &&
                fstatat(dirfd(d), e->d_name, &link, AT_SYMLINK_NOFOLLOW) == 0 &&
                link.st_mode & S_IRUSR;
    if (d)
        closedir(d);
    return found;
}

/* A shell or another program of this rank takes what is printed here, for itself: $(...). */
bool stk_rank_is_captured(const struct stk_rank *r)
{
    struct stk_proc_stat st;
    struct stat out;
    char *room = malloc(ENVIRONMENT_MAX);
    int proc = -1;
    bool captured = false;
    pid_t pid = fstat(STDOUT_FILENO, &out) == 0 && S_ISFIFO(out.st_mode) ? getppid() : 0;
    if (!room || stk_proc_open(&proc, NULL) != 0)
        pid = 0;
    for (int i = 0; pid > 1 && i < ABOVE_MAX && !captured && is_in_rank(pid, r, room); i++) {
        captured = reads(pid, &out);
        pid = stk_proc_stat(proc, pid, &st) ? st.ppid : 0;
    }
    if (proc >= 0)
        close(proc);
    free(room);
    return captured;
}
