/*
 * form.c - the table of forms: the programs that prepare them, and what makes a staged copy
 * readable: a tar is extracted, a squashfs image is listed.
 */
#include "stage/compare.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "base/file.h"
#include "base/pool.h"
#include "base/spawn.h"
#include "host/cpus.h"

#define TAR_HEAD 1536 /* a header, a long name, and padding */
#define RECORD   512  /* a frame, a key, a label, and its entries in the index */
#define BLOCK    4096 /* a file of one byte takes a block of a file system */

/* ---- preparing ----------------------------------------------------------------------------- */

static void add(struct stk_form_command *c, const char *const *words)
{
    size_t n = 0;
    while (c->argv[n])
        n++;
    for (; *words && n + 1 < STK_FORM_WORDS; words++)
        c->argv[n++] = *words;
    c->argv[n] = NULL;
}

static void prepare_tar(const struct stk_source *src, const char *self, const char *out,
                        struct stk_form_command *c)
{
    (void)self;
    snprintf(c->parent, sizeof c->parent, "%.*s", (int)(strlen(src->path) - strlen(src->name)),
             src->path);
    add(c, (const char *[]){"tar", "-C", c->parent, "-cf", out, "--", src->name, NULL});
}

static void prepare_records(const struct stk_source *src, const char *self, const char *out,
                            struct stk_form_command *c)
{
    add(c, (const char *[]){self, "pack", "--quiet", "--no-write-index", "--format", "tfrecord",
                            "--", src->path, out, NULL});
}

/* Level 1: the usual levels take ten times as long, and data for training is compressed already. */
static void prepare_squashfs(const struct stk_source *src, const char *self, const char *out,
                             struct stk_form_command *c)
{
    (void)self;
    snprintf(c->jobs, sizeof c->jobs, "%u", stk_cpus());
    add(c, (const char *[]){"mksquashfs", src->path, out, "-noappend", "-no-progress", "-quiet",
                            "-no-xattrs", "-comp", "gzip", "-Xcompression-level", "1",
                            "-processors", c->jobs, NULL});
}

/* ---- making a copy readable ---------------------------------------------------------------- */

/* The end of the first file: tar names a member when it begins with it. */
struct listing {
    bool any, done;
    double first_at;
    char last; /* byte of the line so far */
};

static void see_names(struct listing *l, const struct stk_buf *text)
{
    for (size_t i = 0; i < text->len && !l->done; i++) {
        char c = (char)text->data[i];
        if (c != '\n') {
            /* A second name: the file before it is complete. Folders end in '/'. */
            l->done = l->any;
            l->last = c;
        } else if (l->last != '/') {
            l->any = true;
        }
    }
    if (l->done && l->first_at == 0)
        l->first_at = stk_now();
}

static void watch_names(struct stk_child *c, struct listing *l)
{
    struct stk_buf text = STK_BUF_INIT;
    while (stk_child_read(c, 1, &text, SIZE_MAX) >= 0) {
        see_names(l, &text);
        stk_buf_reset(&text);
    }
    stk_buf_release(&text);
}

static int sync_folder(const char *dir, struct stk_err *err)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc = fd < 0 || syncfs(fd) != 0;
    rc = rc ? stk_err_sys(err, dir, "sync") : 0;
    if (fd >= 0)
        close(fd);
    return rc;
}

static int extract(struct stk_form_use *use, struct stk_err *err)
{
    const char *argv[] = {"tar", "-C", use->dir, "-xvf", use->copy, NULL}, *tool = NULL;
    struct listing l = {0};
    int why = stk_find_tool("tar", &tool, err);
    if (why < 0)
        return why;
    struct stk_child c = {.argv = argv,
                          .path = tool,
                          .fd = {STK_FD_NULL, STK_FD_PIPE, STK_FD_KEEP},
                          .death_signal = SIGTERM};
    errno = why ? why : stk_child_start(&c);
    if (errno)
        return stk_err_sys(err, NULL, "start tar");
    watch_names(&c, &l);
    (void)stk_child_wait(&c);
    stk_child_hang_up(&c);
    if (c.ending.status)
        return stk_err_set(err, STK_E_SYS, use->copy, -1, "tar ended with status %d",
                           c.ending.status);
    int rc = sync_folder(use->dir, err);
    use->last_at = stk_now();
    use->first_at = l.first_at > 0 ? l.first_at : use->last_at;
    return rc;
}

/* Lists the image and reads one sample. The image is of use only as a whole: its tables are at its
 * end. */
static int list_image(struct stk_form_use *use, struct stk_err *err)
{
    struct stk_open_options o = {.no_index_write = true};
    struct stk_dataset *ds = NULL;
    struct stk_sample *s = stk_sample_new();
    int rc = s ? stk_dataset_open(use->copy, &o, &ds, err) : stk_err_nomem(err, 1);
    if (!rc && stk_dataset_len(ds) == 0)
        rc = stk_err_set(err, STK_E_CORRUPT, use->copy, -1, "no sample in it");
    rc = rc ? rc : stk_dataset_read(ds, 0, s, err);
    stk_dataset_close(ds);
    stk_sample_free(s);
    use->first_at = use->last_at = stk_now();
    return rc;
}

/* ---- the table ----------------------------------------------------------------------------- */

const struct stk_form stk_forms[STK_FORMS] = {
    [STK_FORM_FILES] = {.id = "files", .does = "as it is", .copies = 1},
    [STK_FORM_TAR] = {.id = "tar",
                      .does = "one tar, then extracted",
                      .name = "data.tar",
                      .tool = "tar",
                      .package = "tar",
                      .copies = 2,
                      .per_file = TAR_HEAD,
                      .prepare = prepare_tar,
                      .open = extract},
    [STK_FORM_RECORDS] = {.id = "records",
                          .does = "record shards",
                          .name = "records",
                          .copies = 1,
                          .per_file = RECORD,
                          .prepare = prepare_records},
    [STK_FORM_SQUASHFS] = {.id = "squashfs",
                           .does = "a squashfs image",
                           .name = "data.squashfs",
                           .tool = "mksquashfs",
                           .package = "squashfs-tools",
                           .copies = 1,
                           .per_file = RECORD,
                           .prepare = prepare_squashfs,
                           .open = list_image},
};

const char *const stk_form_ids[] = {"files", "tar", "records", "squashfs", NULL};

const struct stk_form *stk_form_find(const char *id)
{
    for (size_t i = 0; i < STK_FORMS; i++)
        if (strcmp(stk_forms[i].id, id) == 0)
            return &stk_forms[i];
    return NULL;
}

const char *stk_form_missing(const struct stk_form *f, char *why, size_t size)
{
    struct stk_err err = {0};
    const char *path;
    int rc = f->tool ? stk_find_tool(f->tool, &path, &err) : 0;
    if (!rc)
        return NULL;
    if (rc < 0)
        stk_err_text(&err, why, size);
    else
        snprintf(why, size, "%s is not there: install the package %s", f->tool, f->package);
    return why;
}

uint64_t stk_form_bytes(const struct stk_form *f, uint64_t bytes, uint64_t files)
{
    return f->name ? bytes + files * f->per_file + (1u << 20) : 0;
}

uint64_t stk_form_target_bytes(const struct stk_form *f, uint64_t bytes, uint64_t files)
{
    return f->copies * (bytes + files * BLOCK) + (1u << 20);
}
