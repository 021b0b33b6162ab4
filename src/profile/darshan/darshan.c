/*
 * darshan.c - Darshan logs as profiles, through darshan-parser, which knows all their versions. It
 * runs without a shell; its output (or a file that holds it) is read line by line and trusted no
 * more than any other file.
 */
#include "profile/darshan/priv.h"

#include "base/file.h"
#include "base/own.h"
#include "base/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define DARSHAN_MAGIC 6567223 /* darshan-log-format.h */
#define MAX_LINE      65536u  /* a path has at most 4,096 bytes */

enum kind { NEITHER, LOG, TEXT, OLD };

/* Darshan 1 and 2 compressed a log as a whole, and offer no other way to recognise it. */
static bool is_old(const char *path, const char *head)
{
    return (memcmp(head, "\x1f\x8b", 2) == 0 || memcmp(head, "BZh", 3) == 0) &&
           strstr(stk_base_name(path), ".darshan");
}

/* Recognises a log by its magic number, the output of darshan-parser by its first line. */
static enum kind kind_of(const char *path)
{
    static const char begin[] = "# darshan log version:";
    char head[4097]; /* for some versions of logs a warning comes first */
    size_t got = 0;
    int fd;
    if (stk_read_open(AT_FDCWD, path, 0, &fd, NULL, path, NULL) < 0)
        return NEITHER;
    int rc = stk_pread_full(fd, head, sizeof head - 1, 0, &got, path, NULL);
    close(fd);
    if (rc || got < 16)
        return NEITHER;
    head[got] = '\0';
    uint64_t magic = stk_le64(head + 8); /* in the byte order of the machine that wrote it */
    if (magic == DARSHAN_MAGIC || __builtin_bswap64(magic) == DARSHAN_MAGIC)
        return LOG;
    if (is_old(path, head))
        return OLD;
    return head[0] == '#' && strstr(head, begin) ? TEXT : NEITHER;
}

bool stk_is_darshan(const char *path)
{
    return kind_of(path) != NEITHER;
}

/* ---- running it ---- */

struct parser {
    struct stk_child child;
    int errors; /* holds its messages */
};

static const char *parser_name(void)
{
    const char *name = getenv("STOKER_DARSHAN_PARSER");
    return name && *name ? name : "darshan-parser";
}

static int missing(const char *path, int why, struct stk_err *err)
{
    if (why != ENOENT)
        return stk_err_set(err, STK_E_UNSUPPORTED, path, -1, "cannot run %s: %s", parser_name(),
                           strerror(why));
    return stk_err_set(err, STK_E_UNSUPPORTED, path, -1,
                       "reading a Darshan log requires darshan-parser, which is not in PATH: it "
                       "is part of darshan-util (`module load darshan` or `spack install "
                       "darshan-util`); or set STOKER_DARSHAN_PARSER to its path");
}

static int start(struct parser *r, const char *path, struct stk_err *err)
{
    /* A name that begins with "-" must not become an option. */
    char *file = path[0] == '-' ? stk_path_join("./", path) : strdup(path);
    const char *const argv[] = {parser_name(), "--show-incomplete", file, NULL};
    if (!file)
        return stk_err_nomem(err, strlen(path));
    r->errors = memfd_create("darshan-parser", MFD_CLOEXEC);
    int rc = r->errors < 0 ? stk_err_sys(err, path, "darshan-parser") : 0;
    if (!rc) {
        const char *tool = NULL;
        int why = stk_find_tool(argv[0], &tool, err);
        r->child = (struct stk_child){
            .path = tool, .argv = argv, .fd = {STK_FD_NULL, STK_FD_PIPE, r->errors}};
        why = why ? why : stk_child_start(&r->child);
        rc = why > 0 ? missing(path, why, err) : why;
    }
    if (rc && r->errors >= 0)
        close(r->errors);
    free(file);
    return rc;
}

/* Its first error message; without one, its first line. */
static void complaint(const struct parser *r, char *text, size_t size)
{
    ssize_t n = pread(r->errors, text, size - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    char *from = strstr(text, "Error: ");
    from = from ? from : text + strspn(text, "\n# ");
    memmove(text, from, strlen(from) + 1);
    size_t length = strcspn(text, "\n");
    length = length < 300 ? length : 300;
    while (length && text[length - 1] == '.')
        length--;
    text[length] = '\0';
}

/* It also exits with 0 when it cannot read some modules: only its messages tell. */
static int finish(struct parser *r, struct stk_darshan *d, const char *path, int rc,
                  struct stk_err *err)
{
    char text[4096];
    stk_child_hang_up(&r->child); /* before waiting: if we stopped early, SIGPIPE ends it */
    (void)stk_child_wait(&r->child);
    complaint(r, text, sizeof text);
    close(r->errors);
    if (rc)
        return rc;
    if (r->child.ending.status == 127)
        return missing(path, ENOENT, err);
    bool failed = r->child.ending.status != 0;
    bool partly = strncmp(text, "Error: ", 7) == 0;
    if (failed || (partly && !d->nrecs && d->module == STK_DM_NONE))
        return stk_err_set(err, STK_E_CORRUPT, path, -1, "darshan-parser cannot read it: %s",
                           *text ? text : "it failed without a message");
    return partly ? stk_pb_note(d->pb, err, "%s cannot be read completely (darshan-parser: %s).",
                                stk_base_name(path), text)
                  : 0;
}

/* ---- reading its output ---- */

/* Passes on the whole lines of b and moves the rest to its beginning. Cuts overlong lines. */
static int take_lines(struct stk_darshan *d, struct stk_buf *b, bool last, struct stk_err *err)
{
    const char *p = (const char *)b->data, *end = p + b->len;
    int rc = 0;
    while (p < end && !rc) {
        const char *line = memchr(p, '\n', (size_t)(end - p));
        if (!line && !last && (size_t)(end - p) < MAX_LINE)
            break;
        const char *stop = line ? line : end;
        rc = stk_darshan_line(d, p, (size_t)(stop - p), err);
        p = line ? line + 1 : end;
    }
    b->len = (size_t)(end - p);
    memmove(b->data, p, b->len);
    return rc;
}

static int take_output(struct stk_darshan *d, int fd, const char *path, struct stk_err *err)
{
    struct stk_buf b = STK_BUF_INIT;
    int rc = 0;
    for (;;) {
        char *room = stk_buf_room(&b, 1u << 18);
        ssize_t n = room ? read(fd, room, 1u << 18) : -1;
        if (room && n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            rc = !room ? stk_err_nomem(err, 1u << 18) : n < 0 ? stk_err_sys(err, path, "read") : 0;
            break;
        }
        b.len += (size_t)n;
        rc = take_lines(d, &b, false, err);
        if (rc)
            break;
    }
    if (!rc && b.len)
        rc = take_lines(d, &b, true, err);
    stk_buf_release(&b);
    return rc;
}

static int take_parser(struct stk_darshan *d, const char *path, struct stk_err *err)
{
    struct parser r;
    int rc = start(&r, path, err);
    if (rc)
        return rc;
    rc = take_output(d, r.child.pipe[1], path, err);
    return finish(&r, d, path, rc, err);
}

static int take_file(struct stk_darshan *d, const char *path, struct stk_err *err)
{
    int fd, rc = stk_read_open(AT_FDCWD, path, 0, &fd, NULL, path, err);
    if (rc < 0)
        return rc;
    rc = take_output(d, fd, path, err);
    close(fd);
    return rc;
}

int stk_pb_darshan(struct stk_pb *pb, const char *path, struct stk_err *err)
{
    struct stk_darshan d;
    enum kind kind = kind_of(path);
    if (kind == OLD)
        return stk_darshan_old(path, err);
    stk_darshan_begin(&d, pb, path);
    int rc = kind == TEXT ? take_file(&d, path, err) : take_parser(&d, path, err);
    rc = rc ? rc : stk_darshan_end(&d, path, err);
    stk_darshan_release(&d);
    return rc;
}
