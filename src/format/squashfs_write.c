/*
 * squashfs_write.c - writing a squashfs image: samples become a tar stream that mksquashfs reads
 * from its standard input. No shell; what it prints is kept, and is the error message when it
 * fails.
 */
#include "format/squashfs.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "host/cpus.h"
#include "format/members.h"
#include "format/sample.h"
#include "format/tarhead.h"

#define TOOL     "mksquashfs"
#define PRINTED  700 /* bytes of what it printed that go into a message */
#define ARGS_MAX 40
/* mksquashfs's own (gzip 9, zstd 15) packs images ten times slower and hardly smaller. */
#define LEVEL_DEFAULT 3

extern char **environ;

/* ---- before anything is written ------------------------------------------------------------ */

static bool on_path(const char *program)
{
    const char *dirs = getenv("PATH");
    for (const char *p = dirs ? dirs : "/bin:/usr/bin"; *p;) {
        size_t n = strcspn(p, ":");
        char file[4096];
        if (snprintf(file, sizeof file, "%.*s%s%s", (int)n, p, n ? "/" : "", program) <
                (int)sizeof file &&
            access(file, X_OK) == 0)
            return true;
        p += n + (p[n] == ':');
    }
    return false;
}

int stk_squashfs_prepare(struct stk_write_config *cfg, struct stk_err *err)
{
    if (!on_path(TOOL))
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                           "squashfs images are made by " TOOL ", which is not here: install "
                           "squashfs-tools (4.5 or newer)");
    return stk_members_prepare(cfg, err);
}

/* The members of the sample as a piece of a tar stream. Compression is the image's own. */
int stk_squashfs_encode(const struct stk_write_config *cfg, const struct stk_sample *s,
                        struct stk_buf *out, struct stk_err *err)
{
    const struct stk_member_rules rules = {.data_ext = "", .no_label = cfg->label_in_key};
    struct stk_members m = STK_MEMBERS_INIT;
    int rc = stk_members_make(&m, &rules, s, err);
    for (size_t i = 0; rc == 0 && i < m.n; i++) {
        const struct stk_member *e = &m.item[i];
        uint64_t size = (uint64_t)e->head_len + e->len;
        stk_tar_put_head(out, e->name, e->name_len, size);
        stk_buf_put(out, e->head, e->head_len);
        stk_buf_put(out, e->data, e->len);
        stk_buf_zeros(out, stk_tar_padding(size));
    }
    stk_members_release(&m);
    return rc < 0 ? rc : stk_buf_check(out, err);
}

/* ---- the program ---------------------------------------------------------------------------- */

struct tool {
    pid_t pid;   /* 0: not running */
    int in;      /* our end of its standard input */
    int printed; /* a file without a name that takes its output */
};

struct arguments {
    char *arg[ARGS_MAX];
    size_t n;
    char level[16], processors[16];
};

static void add(struct arguments *a, const char *arg)
{
    a->arg[a->n++] = (char *)(uintptr_t)arg;
}

static int add_compressor(struct arguments *a, const struct stk_write_config *cfg,
                          struct stk_err *err)
{
    bool lz4 = cfg->compress == STK_FILTER_LZ4F, gzip = cfg->compress == STK_FILTER_ZLIB ||
                                                        cfg->compress == STK_FILTER_DEFLATE ||
                                                        stk_filter_missing(STK_FILTER_ZSTD);
    int most = gzip ? 9 : 22;
    add(a, "-comp");
    add(a, lz4 ? "lz4" : gzip ? "gzip" : "zstd");
    if (lz4 && cfg->level > 0)
        add(a, "-Xhc");
    if (lz4)
        return 0;
    int level = cfg->level ? cfg->level : LEVEL_DEFAULT;
    if (level < 1 || level > most)
        return stk_err_set(err, STK_E_USAGE, NULL, -1, "%s level %d: from 1 to %d for squashfs",
                           gzip ? "deflate" : "zstd", level, most);
    snprintf(a->level, sizeof a->level, "%d", level);
    add(a, "-Xcompression-level");
    add(a, a->level);
    return 0;
}

/* Nothing of the day, the user or the machine gets into the image. */
static int make_arguments(struct arguments *a, const struct stk_write_config *cfg, const char *path,
                          struct stk_err *err)
{
    static const char *const fixed[] = {
        "-tar",         "-noappend",  "-mkfs-time", "0",          "-all-time",      "0",
        "-all-root",    "-no-xattrs", "-root-mode", "0755",       "-exit-on-error", "-quiet",
        "-no-progress", "-mem",       "512M",       "-processors"};
    add(a, TOOL);
    add(a, "-");
    add(a, path);
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        add(a, fixed[i]);
    snprintf(a->processors, sizeof a->processors, "%u", stk_cpus());
    add(a, a->processors);
    int rc = add_compressor(a, cfg, err);
    a->arg[a->n] = NULL;
    return rc;
}

/* The environment without SOURCE_DATE_EPOCH, which mksquashfs refuses beside its time options.
 * malloc'ed; the strings are not copies. */
static char **make_environment(void)
{
    size_t n = 0, kept = 0;
    while (environ && environ[n])
        n++;
    char **env = malloc((n + 1) * sizeof *env);
    for (size_t i = 0; env && i < n; i++)
        if (strncmp(environ[i], "SOURCE_DATE_EPOCH=", 18) != 0)
            env[kept++] = environ[i];
    if (env)
        env[kept] = NULL;
    return env;
}

static int spawn(struct tool *t, int their_in, char *const *arg, char *const *env)
{
    posix_spawn_file_actions_t fa;
    int rc = posix_spawn_file_actions_init(&fa);
    if (rc != 0)
        return rc;
    rc = posix_spawn_file_actions_adddup2(&fa, their_in, STDIN_FILENO);
    if (rc == 0)
        rc = posix_spawn_file_actions_adddup2(&fa, t->printed, STDOUT_FILENO);
    if (rc == 0)
        rc = posix_spawn_file_actions_adddup2(&fa, t->printed, STDERR_FILENO);
    pid_t pid = 0;
    if (rc == 0)
        rc = posix_spawnp(&pid, TOOL, &fa, NULL, arg, env);
    posix_spawn_file_actions_destroy(&fa);
    if (rc == 0)
        t->pid = pid;
    return rc;
}

static int start(struct tool *t, char *const *arg, const char *path, struct stk_err *err)
{
    char **env = make_environment();
    int pair[2];
    if (!env)
        return stk_err_nomem(err, sizeof *env);
    t->printed = memfd_create("stoker-" TOOL, MFD_CLOEXEC);
    /* A socket, not a pipe: writing to one whose reader died can be told not to raise SIGPIPE. */
    int rc =
        t->printed < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0 ? errno : 0;
    if (rc == 0) {
        t->in = pair[0];
        rc = spawn(t, pair[1], arg, env);
        close(pair[1]);
    }
    free(env);
    if (rc == 0)
        return 0;
    errno = rc;
    return stk_err_sys(err, path, "start " TOOL " (of squashfs-tools)");
}

static void tool_close(struct tool *t)
{
    if (t->in >= 0)
        close(t->in);
    if (t->printed >= 0)
        close(t->printed);
    free(t);
}

/* Its exit status (0..255), 256 + the signal that ended it, or -1 when nobody can tell. */
static int tool_wait(struct tool *t)
{
    int status;
    pid_t got;
    do
        got = waitpid(t->pid, &status, 0);
    while (got < 0 && errno == EINTR);
    t->pid = 0;
    if (got < 0)
        return -1;
    return WIFSIGNALED(status) ? 256 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* The end of what it printed, on one line; "" when nothing. */
static const char *tool_said(const struct tool *t, char text[PRINTED + 1])
{
    off_t size = lseek(t->printed, 0, SEEK_END);
    off_t from = size > PRINTED ? size - PRINTED : 0;
    ssize_t n = size > 0 ? pread(t->printed, text, PRINTED, from) : 0;
    n = n < 0 ? 0 : n;
    while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == ' '))
        n--;
    for (ssize_t i = 0; i < n; i++)
        if ((unsigned char)text[i] < ' ')
            text[i] = text[i] == '\n' ? ';' : ' ';
    text[n] = '\0';
    return text;
}

/* Looks at how it ended; it exits 0 also when it left out a file because of its name. */
static int tool_result(struct tool *t, const char *path, struct stk_err *err)
{
    char text[PRINTED + 1];
    int status = tool_wait(t);
    const char *said = tool_said(t, text);
    if (status == 0 || status == -1) {
        const char *twice = strstr(said, " already exists in the tar file");
        if (!twice)
            return 0;
        return stk_err_set(err, STK_E_UNSUPPORTED, path, -1,
                           "two samples have the same path: %.*s; --keys number gives every "
                           "sample its own",
                           (int)(twice - said), said);
    }
    const char *what = *said ? said : "it said nothing";
    if (status > 256)
        return stk_err_set(err, STK_E_SYS, path, -1, TOOL " was ended by signal %d: %s",
                           status - 256, what);
    int rc =
        stk_err_set(err, STK_E_SYS, path, -1, TOOL " failed (exit status %d): %s", status, what);
    if (err && strstr(said, strerror(ENOSPC)))
        err->sys_errno = ENOSPC; /* so that callers can tell it from the rest */
    return rc;
}

/* ---- one image ------------------------------------------------------------------------------ */

int stk_squashfs_begin(const struct stk_write_config *cfg, struct stk_out *o, struct stk_err *err)
{
    const char *path = stk_out_path(o);
    struct arguments a = {0};
    int rc = make_arguments(&a, cfg, path, err);
    if (rc < 0)
        return rc;
    if (unlink(path) < 0 && errno != ENOENT)
        return stk_err_sys(err, path, "remove");
    struct tool *t = malloc(sizeof *t);
    if (!t)
        return stk_err_nomem(err, sizeof *t);
    *t = (struct tool){.in = -1, .printed = -1};
    rc = start(t, a.arg, path, err);
    if (rc < 0)
        tool_close(t);
    else
        *stk_out_state(o) = t;
    return rc;
}

int stk_squashfs_append(const struct stk_write_config *cfg, struct stk_out *o, const uint8_t *bytes,
                        size_t len, uint64_t nsamples, struct stk_err *err)
{
    (void)cfg, (void)nsamples;
    struct tool *t = *stk_out_state(o);
    while (len) {
        ssize_t n = send(t->in, bytes, len, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno != EPIPE && errno != ECONNRESET)
            return stk_err_sys(err, stk_out_path(o), "write to " TOOL);
        if (n < 0) {
            int rc = tool_result(t, stk_out_path(o), err);
            return rc < 0 ? rc
                          : stk_err_set(err, STK_E_SYS, stk_out_path(o), -1,
                                        TOOL " ended before it had read all");
        }
        bytes += n;
        len -= (size_t)n;
    }
    return 0;
}

void stk_squashfs_abort(const struct stk_write_config *cfg, struct stk_out *o)
{
    (void)cfg;
    struct tool *t = *stk_out_state(o);
    if (!t)
        return;
    if (t->pid > 0) {
        (void)kill(t->pid, SIGKILL);
        (void)tool_wait(t);
    }
    tool_close(t);
    *stk_out_state(o) = NULL;
}

int stk_squashfs_finish(const struct stk_write_config *cfg, struct stk_out *o, struct stk_err *err)
{
    static const uint8_t end[2 * STK_TAR_BLOCK]; /* two blocks of zeros end an archive */
    struct tool *t = *stk_out_state(o);
    int rc = stk_squashfs_append(cfg, o, end, sizeof end, 0, err);
    if (rc == 0) {
        close(t->in);
        t->in = -1;
        rc = tool_result(t, stk_out_path(o), err);
    }
    stk_squashfs_abort(cfg, o);
    return rc;
}
