/* root.c - reads the small text files of /proc and /sys, of this machine or of a captured one. */
#include "host/root.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *root = ""; /* changed by tests only */

void stk_host_set_root(const char *dir)
{
    root = dir ? dir : "";
}

bool stk_host_is_captured(void)
{
    return *root;
}

int stk_host_open(const char *path, int flags)
{
    char full[4608];
    int n = snprintf(full, sizeof full, "%s%s", root, path);
    if (n < 0 || (size_t)n >= sizeof full) {
        errno = ENAMETOOLONG;
        return -1;
    }
    return open(full, flags | O_CLOEXEC);
}

FILE *stk_host_fopen(const char *path)
{
    int fd = stk_host_open(path, O_RDONLY);
    FILE *f = fd >= 0 ? fdopen(fd, "r") : NULL;
    if (!f && fd >= 0)
        close(fd);
    return f;
}

bool stk_host_exists(const char *path)
{
    int fd = stk_host_open(path, O_PATH);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

/* A short read is the end of such a file, which saves a call: this runs for every process, every
 * second. */
static size_t read_text(int fd, char *buf, size_t size)
{
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

size_t stk_host_read(const char *path, char *buf, size_t size)
{
    return read_text(stk_host_open(path, O_RDONLY), buf, size);
}

size_t stk_host_read_at(int dir_fd, const char *path, char *buf, size_t size)
{
    return read_text(openat(dir_fd, path, O_RDONLY | O_CLOEXEC), buf, size);
}

void stk_host_line(const char *path, char *out, size_t size)
{
    (void)stk_host_read(path, out, size);
    out[strcspn(out, "\n")] = '\0';
}

uint64_t stk_host_number(const char *text)
{
    text += strspn(text, " \t");
    return *text >= '0' && *text <= '9' ? strtoull(text, NULL, 10) : UINT64_MAX;
}

uint64_t stk_host_number_of(const char *text, const char *name)
{
    size_t n = strlen(name);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, n) == 0)
            return stk_host_number(line + n);
    }
    return UINT64_MAX;
}
