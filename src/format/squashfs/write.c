/*
 * write.c - writing a squashfs image: samples become a tar stream that mksquashfs reads
 * from its standard input. No shell; its output is kept, and becomes the error message if it fails.
 */
#include "format/squashfs/squashfs.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/file.h"
#include "base/spawn.h"
#include "format/members.h"
#include "format/sample.h"
#include "format/tar/head.h"
#include "host/cpus.h"

#define TOOL     "mksquashfs"
#define PRINTED  700 /* bytes of its output in a message */
#define ARGS_MAX 40
/* The defaults of mksquashfs (gzip 9, zstd 15) are ten times slower and hardly smaller. */
#define LEVEL_DEFAULT 3

/* ---- before anything is written ------------------------------------------------------------ */

int stk_squashfs_prepare(struct stk_write_config *cfg, struct stk_err *err)
{
    const char *found;
    int missing = stk_find_tool(TOOL, &found, err);
    if (missing < 0)
        return missing;
    if (missing)
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                           "squashfs images are made by " TOOL
                           ", which is not installed: install squashfs-tools (4.5 or newer)");
    return stk_members_prepare(cfg, err);
}

/* The members of the sample as part of a tar stream. The image does the compression. */
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
    struct stk_child child;
    int in;      /* our end of its standard input */
    int printed; /* a file without a name that takes its output */
};

struct arguments {
    const char *arg[ARGS_MAX];
    size_t n;
    char level[16], processors[16];
};

static void add(struct arguments *a, const char *arg)
{
    a->arg[a->n++] = arg;
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

/* Keeps date, user and machine out of the image. */
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

/* mksquashfs refuses SOURCE_DATE_EPOCH together with its time options. */
static bool is_kept(const char *var, const void *user)
{
    (void)user;
    return strncmp(var, "SOURCE_DATE_EPOCH=", 18) != 0;
}

/* It runs in the output folder, whatever that is named by then. */
static int start(struct tool *t, const char *const *arg, const struct stk_out *o,
                 struct stk_err *err)
{
    char dir[STK_FD_PATH];
    const char *tool;
    int pair[2], rc = stk_find_tool(TOOL, &tool, err);
    errno = rc;
    if (rc)
        return rc < 0 ? rc : stk_err_sys(err, NULL, "find " TOOL);
    const char **env = stk_environment(is_kept, NULL, NULL);
    if (!env)
        return stk_err_nomem(err, sizeof *env);
    t->printed = memfd_create("stoker-" TOOL, MFD_CLOEXEC);
    /* A socket, not a pipe: writes to it can suppress SIGPIPE if the reader died. */
    if (t->printed < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        rc = errno;
    if (rc == 0) {
        t->in = pair[0];
        t->child = (struct stk_child){.argv = arg,
                                      .path = tool,
                                      .env = env,
                                      .dir = stk_fd_path(o->dirfd, NULL, dir),
                                      .fd = {pair[1], t->printed, t->printed},
                                      .keep_signals = true}; /* it ends when we do, not earlier */
        rc = stk_child_start(&t->child);
        close(pair[1]);
    }
    free(env);
    errno = rc;
    return rc ? stk_err_sys(err, stk_out_path(o), "start " TOOL " (of squashfs-tools)") : 0;
}

static void tool_close(struct tool *t)
{
    if (t->in >= 0)
        close(t->in);
    if (t->printed >= 0)
        close(t->printed);
    free(t);
}

/* The end of its output, on one line; "": none. */
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

/* Checks how it ended; it exits 0 even if it left out a file because of its name. */
static int tool_result(struct tool *t, const char *path, struct stk_err *err)
{
    char text[PRINTED + 1];
    (void)stk_child_wait(&t->child); /* if its status is unknown, assume success */
    const struct stk_ending *e = &t->child.ending;
    const char *said = tool_said(t, text);
    if (e->status == 0) {
        const char *twice = strstr(said, " already exists in the tar file");
        if (!twice)
            return 0;
        return stk_err_set(err, STK_E_UNSUPPORTED, path, -1,
                           "two samples have the same path: %.*s; --keys number gives every "
                           "sample its own",
                           (int)(twice - said), said);
    }
    const char *what = *said ? said : "no output";
    if (e->signal)
        return stk_err_set(err, STK_E_SYS, path, -1, TOOL " was ended by signal %d: %s", e->signal,
                           what);
    int rc =
        stk_err_set(err, STK_E_SYS, path, -1, TOOL " failed (exit status %d): %s", e->status, what);
    if (err && strstr(said, strerror(ENOSPC)))
        err->sys_errno = ENOSPC; /* lets callers recognise a full disk */
    return rc;
}

/* ---- one image ------------------------------------------------------------------------------ */

int stk_squashfs_begin(const struct stk_write_config *cfg, struct stk_out *o, struct stk_err *err)
{
    char here[STK_FD_PATH];
    struct arguments a = {0};
    snprintf(here, sizeof here, "./%s", o->name);
    int rc = make_arguments(&a, cfg, here, err);
    if (rc < 0)
        return rc;
    struct tool *t = malloc(sizeof *t);
    if (!t)
        return stk_err_nomem(err, sizeof *t);
    *t = (struct tool){.in = -1, .printed = -1};
    rc = start(t, a.arg, o, err);
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
    (void)stk_child_end(&t->child, STK_CHILD_END_S);
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
