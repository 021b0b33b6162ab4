/*
 * opened.c - looks at what processes have open. A path is read first, which waits for nothing; only
 * what the caller wants by its path is then looked at itself: its file system may hang.
 */
#include "host/opened.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/dir.h"
#include "base/pool.h"
#include "host/proc.h"
#include "host/root.h"

#define FRESH_S 1.0

/* ---- processes and their descriptors ---- */

/* Calls see() for each process; stops if it does not return 0. */
static int each_process(int (*see)(void *user, int proc, pid_t pid), void *user,
                        struct stk_err *err)
{
    struct stk_dir d;
    int proc = stk_host_open("/proc", O_RDONLY | O_DIRECTORY);
    int rc = stk_dir_take(&d, proc, "/proc", err);
    for (const struct dirent *e; !rc && (e = stk_dir_next(&d));) {
        pid_t pid = (pid_t)strtol(e->d_name, NULL, 10);
        rc = pid > 0 ? see(user, proc, pid) : 0;
    }
    return stk_dir_end(&d, rc, err);
}

/* The same for the descriptors of a process, as names in the folder fd. One that cannot be asked
 * has none: it has ended, or is another user's. */
static int each_descriptor(int proc, pid_t pid, int (*see)(void *user, int fd, const char *name),
                           void *user)
{
    struct stk_dir d;
    char path[64];
    snprintf(path, sizeof path, "%d/fd", (int)pid);
    int fd = openat(proc, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = stk_dir_take(&d, fd, path, NULL), seen = 0;
    for (const struct dirent *e; !rc && !seen && (e = stk_dir_next(&d));)
        seen = see(user, fd, e->d_name);
    (void)stk_dir_end(&d, rc, NULL);
    return seen;
}

/* ---- who has one file open ---- */

struct sought {
    const struct stat *file;
    bool reads;
    pid_t found;
};

static int is_that(void *user, int fd, const char *name)
{
    const struct sought *s = user;
    struct stat st, link;
    return fstatat(fd, name, &st, 0) == 0 && st.st_ino == s->file->st_ino &&
           st.st_dev == s->file->st_dev &&
           (!s->reads ||
            (fstatat(fd, name, &link, AT_SYMLINK_NOFOLLOW) == 0 && link.st_mode & S_IRUSR));
}

bool stk_proc_has_open(int proc_fd, pid_t pid, const struct stat *file, bool reads)
{
    struct sought s = {file, reads, 0};
    return each_descriptor(proc_fd, pid, is_that, &s) != 0;
}

static int is_stopped_with(void *user, int proc, pid_t pid)
{
    struct sought *s = user;
    struct stk_proc_stat st;
    if (!stk_proc_stat(proc, pid, &st) || (st.state != 'T' && st.state != 't') ||
        !stk_proc_has_open(proc, pid, s->file, false))
        return 0;
    s->found = pid;
    return 1;
}

pid_t stk_proc_stopped_with(const struct stat *file)
{
    struct sought s = {.file = file};
    (void)each_process(is_stopped_with, &s, NULL);
    return s.found;
}

/* ---- all that is wanted ---- */

struct look {
    struct stk_opened_list *l;
    bool (*wanted)(const char *path);
    struct stk_proc_reader reader;
    struct stk_buf text;
    ino_t *space; /* mount namespaces that were looked at */
    size_t spaces;
    pid_t pid; /* that is looked at now */
};

static int keep(struct look *k, int proc, const struct stk_opened *o, const char *path)
{
    struct stk_proc_stat ps = {0};
    char *copy = strdup(path);
    if (!copy || STK_ARRAY_MORE(k->l->item, k->l->n, NULL)) {
        free(copy);
        return STK_E_NOMEM;
    }
    struct stk_opened *to = &k->l->item[k->l->n++];
    (void)stk_proc_stat(proc, k->pid, &ps);
    *to = *o;
    to->path = copy;
    to->pid = k->pid;
    for (size_t i = 0; i < sizeof to->comm; i++) /* any process may take any name */
        to->comm[i] = (char)(ps.comm[i] && iscntrl((unsigned char)ps.comm[i]) ? '?' : ps.comm[i]);
    return 0;
}

/* at: where /proc/PID is, or the folder of its descriptors. */
static int see_link(struct look *k, int proc, int at, const char *name, bool place)
{
    char path[PATH_MAX];
    struct stat st;
    ssize_t n = readlinkat(at, name, path, sizeof path - 1);
    path[n > 0 ? n : 0] = '\0';
    if (path[0] != '/' || !k->wanted(path))
        return 0;
    bool known = fstatat(at, name, &st, 0) == 0;
    struct stk_opened o = {.place = place, .known = known};
    if (known)
        o.dev = st.st_dev, o.inode = st.st_ino;
    return keep(k, proc, &o, path);
}

struct descriptors {
    struct look *k;
    int proc;
};

static int see_descriptor(void *user, int fd, const char *name)
{
    const struct descriptors *d = user;
    return see_link(d->k, d->proc, fd, name, false);
}

/* "7f12a000-7f12b000 r--s 00000000 fd:01 4711    /path": the first of lines with the same path. */
static int see_maps(struct look *k, int proc, char *text)
{
    const char *last = "";
    char *rest, *line = strtok_r(text, "\n", &rest);
    int rc = 0;
    for (; !rc && line; line = strtok_r(NULL, "\n", &rest)) {
        unsigned major = 0, minor = 0;
        unsigned long long inode = 0;
        char *path = strchr(line, '/');
        if (!path || strcmp(path, last) == 0 || !k->wanted(path))
            continue;
        last = path;
        bool known = sscanf(line, "%*s %*s %*s %x:%x %llu", &major, &minor, &inode) == 3;
        struct stk_opened o = {.known = known, .any_dev = true, .inode = (ino_t)inode};
        rc = keep(k, proc, &o, path);
    }
    return rc;
}

/* Blanks and their like are written as \ooo. */
static void unescape(char *s)
{
    char *to = s;
    for (; *s; s++) {
        if (s[0] == '\\' && strspn(s + 1, "01234567") >= 3) {
            *to++ = (char)((s[1] - '0') << 6 | (s[2] - '0') << 3 | (s[3] - '0'));
            s += 3;
        } else {
            *to++ = *s;
        }
    }
    *to = '\0';
}

/* "36 35 98:0 /folder/of/the/file/system /where/it/is rw,noatime …" */
static int see_mounts(struct look *k, int proc, char *text)
{
    char at[PATH_MAX + 32], *rest, *line = strtok_r(text, "\n", &rest);
    int rc = 0;
    for (; !rc && line; line = strtok_r(NULL, "\n", &rest)) {
        char *field = NULL, *path = strtok_r(line, " ", &field), *where;
        for (int i = 0; path && i < 3; i++)
            path = strtok_r(NULL, " ", &field);
        if (!path || !k->wanted(path) || !(where = strtok_r(NULL, " ", &field)))
            continue;
        struct stat st;
        unescape(path);
        unescape(where);
        snprintf(at, sizeof at, "%d/root%s", (int)k->pid, where);
        bool known = fstatat(proc, at, &st, 0) == 0;
        struct stk_opened o = {.place = true, .known = known};
        if (known)
            o.dev = st.st_dev, o.inode = st.st_ino;
        rc = keep(k, proc, &o, path);
    }
    return rc;
}

/* Whether the mounts of the process are others than those that were looked at. */
static int is_new_space(struct look *k, int proc)
{
    char path[64];
    struct stat st;
    snprintf(path, sizeof path, "%d/ns/mnt", (int)k->pid);
    if (fstatat(proc, path, &st, 0) < 0)
        return 0;
    for (size_t i = 0; i < k->spaces; i++)
        if (k->space[i] == st.st_ino)
            return 0;
    if (STK_ARRAY_MORE(k->space, k->spaces, NULL))
        return STK_E_NOMEM;
    k->space[k->spaces++] = st.st_ino;
    return 1;
}

static int see_places(struct look *k, int proc)
{
    static const char *const name[] = {"cwd", "root"};
    char path[64];
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < 2; i++) {
        snprintf(path, sizeof path, "%d/%s", (int)k->pid, name[i]);
        rc = see_link(k, proc, proc, path, true);
    }
    rc = rc ? rc : is_new_space(k, proc);
    if (rc != 1)
        return rc;
    size_t n = stk_proc_read_all(proc, k->pid, "mountinfo", &k->text);
    return n ? see_mounts(k, proc, (char *)k->text.data) : 0;
}

static int see_process(void *user, int proc, pid_t pid)
{
    struct look *k = user;
    char path[64], exe[8];
    struct descriptors d = {k, proc};
    k->pid = pid;
    snprintf(path, sizeof path, "%d/exe", (int)pid);
    if (stk_proc_reader_is(&k->reader, pid) || readlinkat(proc, path, exe, sizeof exe) < 0)
        return 0; /* it has ended, is another user's, or the kernel's */
    int rc = each_descriptor(proc, pid, see_descriptor, &d);
    rc = rc ? rc : see_places(k, proc);
    if (rc == 0 && stk_proc_reader_read(&k->reader, pid, "maps", 'R', &k->text) == STK_PROC_READ &&
        k->text.len)
        rc = see_maps(k, proc, (char *)k->text.data);
    return rc;
}

int stk_opened_look(struct stk_opened_list *l, bool (*wanted)(const char *path),
                    struct stk_err *err)
{
    struct look k = {.l = l, .wanted = wanted, .text = STK_BUF_INIT};
    int proc = -1;
    double now = stk_now();
    if (l->at > 0 && now - l->at < FRESH_S)
        return 0;
    stk_opened_release(l);
    int rc = stk_proc_open(&proc, err);
    stk_proc_reader_init(&k.reader, proc);
    rc = rc ? rc : each_process(see_process, &k, err);
    if (rc == STK_E_NOMEM)
        stk_err_nomem(err, sizeof *l->item);
    l->at = rc == 0 ? now : 0;
    stk_proc_reader_release(&k.reader);
    if (proc >= 0)
        close(proc);
    stk_buf_release(&k.text);
    free(k.space);
    return rc;
}

void stk_opened_release(struct stk_opened_list *l)
{
    for (size_t i = 0; i < l->n; i++)
        free(l->item[i].path);
    free(l->item);
    *l = (struct stk_opened_list){0};
}
