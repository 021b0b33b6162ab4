/*
 * unseen.c - processes without a log: static programs, programs for another machine, and
 * those that a process with a log executed. Only the kernel's counts are known for them.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/dir.h"
#include "base/file.h"
#include "base/text.h"
#include "record/priv.h"

/* The last log of a process: HOST.PID.N.stklog with the largest N. */
struct last_log {
    bool here; /* HOST is the launcher's; a container may have another */
    pid_t pid; /* within its container */
    unsigned long number;
    uint32_t slot; /* that has it, + 1; 0: a file */
};

struct logs {
    struct last_log *log;
    size_t n;
    size_t all;
};

static int by_pid(const void *a, const void *b)
{
    const struct last_log *x = a, *y = b;
    if (x->here != y->here)
        return x->here ? 1 : -1;
    if (x->pid != y->pid)
        return x->pid < y->pid ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

static bool parse_name(const char *name, const char *host, struct last_log *out)
{
    size_t len = strlen(name);
    char *end;
    if (!stk_text_ends(name, len, STK_LOG_SUFFIX))
        return false;
    len -= sizeof STK_LOG_SUFFIX - 1;
    for (int dots = 0; len && (dots += name[len - 1] == '.') < 2;)
        len--; /* HOST may contain dots too: PID and N are the last parts */
    if (!len)
        return false;
    long pid = strtol(name + len, &end, 10);
    if (*end != '.' || pid <= 0)
        return false;
    out->here = len - 1 == strlen(host) && memcmp(name, host, len - 1) == 0;
    out->pid = (pid_t)pid;
    out->number = strtoul(end + 1, &end, 10);
    return strcmp(end, STK_LOG_SUFFIX) == 0;
}

static int add_log(const struct stk_launch *l, struct logs *logs, const char *name, uint32_t slot,
                   struct stk_err *err)
{
    struct last_log one = {.slot = slot};
    if (!parse_name(name, l->host, &one))
        return 0;
    if (STK_ARRAY_MORE(logs->log, logs->n, err))
        return STK_E_NOMEM;
    logs->log[logs->n++] = one;
    logs->all += one.here;
    return 0;
}

static int list_files(const struct stk_launch *l, struct logs *logs, struct stk_err *err)
{
    struct stk_dir d;
    int rc = stk_dir_open(&d, l->logs, err);
    for (const struct dirent *e; !rc && (e = stk_dir_next(&d));)
        rc = add_log(l, logs, e->d_name, 0, err);
    return stk_dir_end(&d, rc, err);
}

static int list_slots(const struct stk_launch *l, struct logs *logs, struct stk_err *err)
{
    struct stk_log_header h;
    uint32_t n = stk_slots_taken(l->slots_fd);
    int rc = 0;
    for (uint32_t i = 0; !rc && i < n; i++) {
        if (!stk_slot_read(l->slots_fd, i, &h) || h.magic != STK_LOG_MAGIC)
            continue;
        h.name[sizeof h.name - 1] = '\0';
        rc = add_log(l, logs, h.name, i + 1, err);
    }
    return rc;
}

/* The last log of each process, sorted. */
static int list_logs(const struct stk_launch *l, struct logs *logs, struct stk_err *err)
{
    int rc = list_files(l, logs, err);
    rc = rc ? rc : list_slots(l, logs, err);
    if (rc)
        return rc;
    if (logs->n)
        qsort(logs->log, logs->n, sizeof *logs->log, by_pid);
    size_t kept = 0;
    for (size_t i = 0; i < logs->n; i++) {
        const struct last_log *one = &logs->log[i];
        if (i + 1 == logs->n || one->pid != one[1].pid || one->here != one[1].here)
            logs->log[kept++] = *one;
    }
    logs->n = kept;
    return 0;
}

static const struct last_log *find_log(const struct logs *logs, bool here, pid_t pid)
{
    struct last_log first = {.here = here, .pid = pid};
    size_t lo = 0, hi = logs->n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (by_pid(&logs->log[mid], &first) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    const struct last_log *found = lo < logs->n ? &logs->log[lo] : NULL;
    return found && found->here == here && found->pid == pid ? found : NULL;
}

/* A container may have its own host name; processes outside containers have the node's. */
static const struct last_log *log_of(const struct logs *logs, const struct stk_proc *p)
{
    const struct last_log *log = find_log(logs, true, p->own_pid);
    return log || p->own_pid == p->pid ? log : find_log(logs, false, p->own_pid);
}

static bool read_header(const struct stk_launch *l, const struct last_log *log,
                        struct stk_log_header *h)
{
    struct stk_buf path = STK_BUF_INIT;
    size_t got = 0;
    if (log->slot)
        return stk_slot_read(l->slots_fd, log->slot - 1, h);
    stk_buf_printf(&path, "%s/%s.%d.%lu%s", l->logs, l->host, (int)log->pid, log->number,
                   STK_LOG_SUFFIX);
    int fd = open(stk_buf_cstr(&path), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    stk_buf_release(&path);
    if (fd < 0)
        return false;
    (void)stk_pread_full(fd, h, sizeof *h, 0, &got, "", NULL);
    close(fd);
    return got == sizeof *h;
}

/* Did the process execute a program without a log? io is then only what followed. */
static bool went_on_unseen(const struct stk_launch *l, const struct last_log *log, uint64_t *io)
{
    struct stk_log_header h;
    if (!read_header(l, log, &h) || h.magic != STK_LOG_MAGIC || h.end != STK_END_EXEC)
        return false;
    for (size_t i = 0; i < STK_IO_COUNTS; i++)
        io[i] = io[i] > h.kernel[i] ? io[i] - h.kernel[i] : 0;
    return true;
}

static int by_bytes(const void *a, const void *b)
{
    const struct stk_unseen *x = a, *y = b;
    uint64_t m = x->io[0] + x->io[1], n = y->io[0] + y->io[1];
    return (m < n) - (m > n);
}

static void add_unseen(const struct stk_launch *l, const struct logs *logs,
                       const struct stk_proc *p, struct stk_unseen *out, size_t *n)
{
    struct stk_unseen u = {.pid = p->pid, .command = p->command ? p->command : p->stat.comm};
    const struct last_log *log = p->ours ? log_of(logs, p) : NULL;
    memcpy(u.io, p->io, sizeof u.io);
    if (!p->ours || (log && (!log->here || !went_on_unseen(l, log, u.io))))
        return;
    if (u.io[0] + u.io[1] + u.io[2] + u.io[3])
        out[(*n)++] = u;
}

int stk_launch_unseen(struct stk_launch *l, struct stk_unseen **out, size_t *n, struct stk_err *err)
{
    const struct stk_tree *t = stk_sampler_tree(l->sampler);
    struct logs logs = {0};
    *out = NULL;
    *n = 0;
    int rc = list_logs(l, &logs, err);
    if (!rc && !(*out = malloc((t->n + t->ngone + 1) * sizeof **out)))
        rc = stk_err_nomem(err, (t->n + t->ngone + 1) * sizeof **out);
    for (size_t i = 0; !rc && i < t->n; i++)
        add_unseen(l, &logs, &t->p[i], *out, n);
    for (size_t i = 0; !rc && i < t->ngone; i++)
        add_unseen(l, &logs, &t->gone[i], *out, n);
    if (!rc && *n)
        qsort(*out, *n, sizeof **out, by_bytes);
    l->logs_found = logs.all;
    free(logs.log);
    return rc;
}
