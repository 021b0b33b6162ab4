/* proc_reader.c - see proc_reader.h. */
#include "host/proc_reader.h"

#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/file.h"
#include "base/pool.h"
#include "host/proc.h"

#define WAIT_S     1.0 /* for one file of a process: the helper may have to wait for a CPU */
#define WAIT_D_S   0.1 /* … of a process in state D */
#define ROUND_S    2.0 /* for all files of a round */
#define END_S      0.1 /* for the end of a killed helper */
#define ANSWER_MAX ((uint32_t)8 << 20)

struct question {
    pid_t pid;
    char file[16];
};

/* In the helper. */
static int answer_all(void *user)
{
    const struct stk_proc_reader *r = user;
    struct stk_buf text = STK_BUF_INIT;
    struct question q;
    int rc = 0;
    while (rc == 0 && recv(STDIN_FILENO, &q, sizeof q, MSG_WAITALL) == (ssize_t)sizeof q) {
        uint32_t n = (uint32_t)stk_proc_read_all(r->helper.keep, q.pid, q.file, &text);
        rc = stk_write_full(STDIN_FILENO, &n, sizeof n, NULL, NULL);
        rc = rc ? rc : stk_write_full(STDIN_FILENO, text.data, n, NULL, NULL);
    }
    stk_buf_release(&text);
    return 0;
}

/* False: not in time, or the helper has ended. */
static bool receive(struct stk_helper *h, void *to, size_t n, double seconds)
{
    ssize_t got = 1;
    for (size_t done = 0; done < n && got > 0; done += (size_t)got)
        got = stk_helper_receive(h, (char *)to + done, n - done, seconds);
    return got > 0;
}

static bool ask(struct stk_helper *h, const struct question *q, double limit_s, struct stk_buf *to)
{
    uint32_t n;
    if (!stk_helper_send(h, q, sizeof *q) || !receive(h, &n, sizeof n, limit_s) || n > ANSWER_MAX)
        return false;
    char *text = stk_buf_room(to, (size_t)n + 1);
    if (!text || !receive(h, text, n, WAIT_S))
        return false;
    text[n] = '\0';
    to->len = n;
    return true;
}

enum stk_proc_read stk_proc_reader_read(struct stk_proc_reader *r, pid_t pid, const char *file,
                                        char state, struct stk_buf *to)
{
    struct question q = {.pid = pid};
    double limit_s = state == 'D' ? WAIT_D_S : WAIT_S;
    snprintf(q.file, sizeof q.file, "%s", file);
    stk_buf_reset(to);
    if (r->left_s <= 0 || (!r->helper.child.pid && stk_helper_start(&r->helper) != 0))
        return STK_PROC_LATER;
    if (ask(&r->helper, &q, limit_s, to))
        return STK_PROC_READ;
    r->left_s -= limit_s;
    stk_buf_reset(to);
    stk_helper_end(&r->helper, END_S);
    return STK_PROC_HANGS;
}

bool stk_proc_reader_is(const struct stk_proc_reader *r, pid_t pid)
{
    return pid && (r->helper.child.pid == pid || stk_child_is_left(pid));
}

void stk_proc_reader_round(struct stk_proc_reader *r)
{
    r->left_s = ROUND_S;
}

void stk_proc_reader_init(struct stk_proc_reader *r, int proc_fd)
{
    *r = (struct stk_proc_reader){.helper = {.run = answer_all, .user = r, .keep = proc_fd},
                                  .left_s = ROUND_S};
}

void stk_proc_reader_release(struct stk_proc_reader *r)
{
    stk_helper_end(&r->helper, END_S);
}
