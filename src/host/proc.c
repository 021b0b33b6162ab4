/* proc.c - reads /proc for one process. */
#include "host/proc.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/socket.h>

#include "base/dir.h"
#include "base/secret.h"
#include "host/root.h"
#include "base/file.h"
#include "base/pool.h"

#define FDS_MAX       1024
#define COMMAND_MAX   4096 /* bytes of a command that are read */
#define READ_LEAST    ((size_t)32 << 10)
#define READ_MAX      ((size_t)8 << 20) /* of an environment: a quarter of the stack limit */

int stk_proc_open(int *proc_fd, struct stk_err *err)
{
    *proc_fd = stk_host_open("/proc", O_RDONLY | O_DIRECTORY);
    return *proc_fd < 0 ? stk_err_sys(err, "/proc", "open") : 0;
}

bool stk_proc_is_own(int proc_fd)
{
    char self[32] = "";
    return readlinkat(proc_fd, "self", self, sizeof self - 1) > 0 &&
           strtol(self, NULL, 10) == getpid();
}

size_t stk_proc_read(int proc_fd, pid_t pid, const char *file, char *buf, size_t size)
{
    char path[64];
    snprintf(path, sizeof path, "%d/%s", (int)pid, file);
    return stk_host_read_at(proc_fd, path, buf, size);
}

/* ---- stat and io -------------------------------------------------------------------------- */

/* Fields of proc(5), counted from the third. */
enum { STATE, PPID, UTIME = 11, STIME, CUTIME, CSTIME, THREADS = 17, START = 19, RSS = 21, FIELDS };

/* By hand: sscanf would take longer than the kernel takes to write the line. */
static bool parse_fields(const char *at, unsigned long long v[FIELDS])
{
    char *end;
    for (size_t i = PPID; i < FIELDS; i++, at = end) {
        v[i] = strtoull(at, &end, 10);
        if (end == at)
            return false;
    }
    return true;
}

/* "pid (any) thing)) S ppid …": the name may contain blanks and parentheses. */
bool stk_proc_stat(int proc_fd, pid_t pid, struct stk_proc_stat *out)
{
    char buf[1024];
    unsigned long long v[FIELDS];
    stk_proc_read(proc_fd, pid, "stat", buf, sizeof buf);
    char *open = strchr(buf, '('), *close = strrchr(buf, ')');
    if (!open || !close || close < open || close[1] != ' ' || !close[2] ||
        !parse_fields(close + 3, v))
        return false;
    *close = '\0';
    *out = (struct stk_proc_stat){
        .ppid = (pid_t)v[PPID],
        .start = v[START],
        .threads = (uint32_t)v[THREADS],
        .ticks = v[UTIME] + v[STIME],
        .children_ticks = v[CUTIME] + v[CSTIME],
        .resident_bytes = (long long)v[RSS] > 0 ? v[RSS] * (uint64_t)sysconf(_SC_PAGESIZE) : 0,
        .state = close[2]};
    snprintf(out->comm, sizeof out->comm, "%.15s", open + 1);
    return true;
}

void stk_proc_io(int proc_fd, pid_t pid, uint64_t io[STK_IO_COUNTS])
{
    static const char *const name[STK_IO_COUNTS] = {
        "rchar: ", "wchar: ", "read_bytes: ", "write_bytes: "};
    char buf[512];
    if (!stk_proc_read(proc_fd, pid, "io", buf, sizeof buf))
        return;
    for (size_t i = 0; i < STK_IO_COUNTS; i++) {
        uint64_t v = stk_host_number_of(buf, name[i]);
        io[i] = v == UINT64_MAX ? io[i] : v;
    }
}

/* ---- identity ----------------------------------------------------------------------------- */

size_t stk_proc_command_of(const char *list, size_t n, char *buf, size_t size)
{
    struct stk_buf text = STK_BUF_INIT;
    struct stk_secret secret = {0};
    n = n < COMMAND_MAX ? n : COMMAND_MAX - 1;
    while (n && !list[n - 1])
        n--;
    for (size_t at = 0; at < n;) {
        size_t len = strnlen(list + at, n - at);
        if (at)
            stk_buf_putc(&text, ' ');
        stk_secret_put(&secret, list + at, len, &text);
        at += len + 1;
    }
    n = text.fail ? 0 : text.len < size ? text.len : size - 1;
    if (n)
        memcpy(buf, text.data, n);
    buf[n] = '\0';
    stk_buf_release(&text);
    return n;
}

/* "NSpid: 4711 2": the last is the pid in the innermost namespace. */
pid_t stk_proc_own_pid(int proc_fd, pid_t pid)
{
    char buf[4096];
    pid_t own = pid;
    stk_proc_read(proc_fd, pid, "status", buf, sizeof buf);
    char *at = strstr(buf, "\nNSpid:");
    for (at = at ? at + 7 : NULL; at && (*at == '\t' || *at == ' ');)
        own = (pid_t)strtol(at, &at, 10);
    return own > 0 ? own : pid;
}

/* "Uid: 1001 1001 1001 1001". The owner of /proc/PID would be root for a process that may not be
 * inspected. */
uid_t stk_proc_uid(int proc_fd, pid_t pid)
{
    char buf[4096], *end;
    stk_proc_read(proc_fd, pid, "status", buf, sizeof buf);
    const char *at = strstr(buf, "\nUid:");
    unsigned long uid = at ? strtoul(at + 5, &end, 10) : 0;
    return at && end != at + 5 && uid < STK_NOBODY ? (uid_t)uid : STK_NOBODY;
}

bool stk_proc_has_uring(int proc_fd, pid_t pid)
{
    char path[64], link[32];
    snprintf(path, sizeof path, "%d/fd", (int)pid);
    int fd = openat(proc_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct stk_dir d;
    int rc = stk_dir_take(&d, fd, path, NULL), left = FDS_MAX;
    bool found = false;
    for (const struct dirent *e; !found && left-- && (e = stk_dir_next(&d));) {
        ssize_t n = readlinkat(fd, e->d_name, link, sizeof link - 1);
        link[n > 0 ? n : 0] = '\0';
        found = strcmp(link, "anon_inode:[io_uring]") == 0;
    }
    (void)stk_dir_end(&d, rc, NULL); /* processes end, and those of others do not show theirs */
    return found;
}

/* ---- environment -------------------------------------------------------------------------- */

size_t stk_proc_read_all(int proc_fd, pid_t pid, const char *file, struct stk_buf *buf)
{
    char path[64];
    ssize_t got = 1;
    snprintf(path, sizeof path, "%d/%s", (int)pid, file);
    int fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
    stk_buf_reset(buf);
    /* The kernel gives a list (maps, mountinfo) by pages, however much is asked for. */
    while (fd >= 0 && got > 0 && buf->len < READ_MAX) {
        size_t most = READ_MAX - buf->len < READ_LEAST ? READ_MAX - buf->len : READ_LEAST;
        char *to = stk_buf_room(buf, most);
        got = to ? read(fd, to, most) : -1;
        buf->len += got > 0 ? (size_t)got : 0;
    }
    if (fd >= 0)
        close(fd);
    (void)stk_buf_cstr(buf); /* terminated, but that does not count */
    return buf->fail ? 0 : buf->len;
}

size_t stk_proc_environ(int proc_fd, pid_t pid, struct stk_buf *buf)
{
    return stk_proc_read_all(proc_fd, pid, "environ", buf);
}

const char *stk_proc_variable(const char *env, size_t n, const char *name)
{
    size_t len = strlen(name);
    for (size_t at = 0; at < n; at += strlen(env + at) + 1)
        if (strncmp(env + at, name, len) == 0 && env[at + len] == '=')
            return env + at + len + 1;
    return NULL;
}

/* ---- files that may hang --------------------------------------------------------------------- */

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
