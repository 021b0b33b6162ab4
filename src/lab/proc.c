/* proc.c - reads what /proc says of one process. */
#include "lab/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Less than was asked for is the end of such a file: mostly one call, which is made for every
 * process, every second. */
size_t stk_proc_read(int proc_fd, pid_t pid, const char *file, char *buf, size_t size)
{
    char path[64];
    snprintf(path, sizeof path, "%d/%s", (int)pid, file);
    int fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
    size_t n = 0;
    while (fd >= 0 && n < size - 1) {
        ssize_t got = read(fd, buf + n, size - 1 - n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        bool end = (size_t)got < size - 1 - n;
        n += (size_t)got;
        if (end)
            break;
    }
    if (fd >= 0)
        close(fd);
    buf[n] = '\0';
    return n;
}

/* "pid (any) thing)) S ppid …": the name may hold blanks and brackets. */
bool stk_proc_stat(int proc_fd, pid_t pid, struct stk_proc_stat *out)
{
    char buf[1024];
    stk_proc_read(proc_fd, pid, "stat", buf, sizeof buf);
    char *open = strchr(buf, '('), *close = strrchr(buf, ')'), state;
    int ppid;
    unsigned long long u, s, cu, cs, threads, start;
    long long pages;
    if (!open || !close || close < open ||
        sscanf(close + 1,
               " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %llu %llu %*d %*d %llu %*d "
               "%llu %*u %lld",
               &state, &ppid, &u, &s, &cu, &cs, &threads, &start, &pages) != 9)
        return false;
    *close = '\0';
    *out = (struct stk_proc_stat){
        .ppid = ppid,
        .start = start,
        .threads = (uint32_t)threads,
        .ticks = u + s,
        .children_ticks = cu + cs,
        .resident_bytes = pages > 0 ? (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE) : 0,
        .state = state};
    snprintf(out->comm, sizeof out->comm, "%.15s", open + 1);
    return true;
}

void stk_proc_io(int proc_fd, pid_t pid, uint64_t io[STK_IO_COUNTS])
{
    static const char *const name[STK_IO_COUNTS] = {
        "rchar: ", "wchar: ", "read_bytes: ", "\nwrite_bytes: "};
    char buf[512];
    stk_proc_read(proc_fd, pid, "io", buf, sizeof buf);
    for (size_t i = 0; i < STK_IO_COUNTS; i++) {
        const char *at = strstr(buf, name[i]);
        if (at)
            io[i] = strtoull(at + strlen(name[i]), NULL, 10);
    }
}

size_t stk_proc_command(int proc_fd, pid_t pid, char *buf, size_t size)
{
    size_t n = stk_proc_read(proc_fd, pid, "cmdline", buf, size);
    while (n && !buf[n - 1])
        n--;
    for (size_t i = 0; i < n; i++)
        if (!buf[i])
            buf[i] = ' ';
    buf[n] = '\0';
    return n;
}
