/* rank_output.c - whether what a rank prints is for itself, or goes where all ranks print. */
#include <sys/stat.h>
#include <unistd.h>

#include "host/opened.h"
#include "host/proc.h"
#include "sched/rank.h"

#define ABOVE_MAX 32

struct environment {
    struct stk_buf text;
    size_t len;
};

static const char *look_up(void *user, const char *name)
{
    const struct environment *e = user;
    return stk_proc_variable((const char *)e->text.data, e->len, name);
}

/* True for a process that the launcher started as this rank, or that one of those started. */
static bool is_in_rank(int proc, pid_t pid, const struct stk_rank *r)
{
    struct environment e = {.text = STK_BUF_INIT};
    struct stk_rank other = {0};
    e.len = stk_proc_environ(proc, pid, &e.text);
    bool is = e.len && stk_rank_detect_from(look_up, &e, &other, NULL) == 0 &&
              other.world == r->world && other.rank == r->rank;
    stk_buf_release(&e.text);
    return is;
}

/* A shell or another program of this rank takes what is printed here, for itself: $(...). */
bool stk_rank_is_captured(const struct stk_rank *r)
{
    struct stk_proc_stat st;
    struct stat out;
    int proc = -1;
    bool captured = false;
    if (fstat(STDOUT_FILENO, &out) < 0 || !S_ISFIFO(out.st_mode) ||
        stk_proc_open(&proc, NULL) != 0)
        return false;
    pid_t pid = getppid();
    for (int i = 0; pid > 1 && i < ABOVE_MAX && !captured && is_in_rank(proc, pid, r); i++) {
        captured = stk_proc_has_open(proc, pid, &out, true);
        pid = stk_proc_stat(proc, pid, &st) ? st.ppid : 0;
    }
    close(proc);
    return captured;
}
