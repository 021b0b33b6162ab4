/* formats.c - `stoker formats` and `stoker version`: what this build can do and what it lacks. */
#include "format/format.h"

#include "base/confine.h"
#include "cmd/cmd.h"
#include "report/grid.h"
#include "image/image.h"
#include "format/jail.h"

struct settings {
    struct stk_common common;
};

static const struct stk_opt options[] = {STK_COMMON_OPTIONS};

/* ---- formats ------------------------------------------------------------------------------ */

static const char *compression(unsigned caps)
{
    if (caps & STK_CAN_COMPRESS)
        return caps & STK_CAN_DEFLATE ? "zstd, lz4, deflate" : "zstd, lz4";
    return caps & STK_CAN_DEFLATE ? "deflate" : "-";
}

static void suffix_list(const struct stk_format *f, struct stk_buf *out)
{
    stk_buf_reset(out);
    for (const char *const *s = f->suffixes; s && *s; s++)
        stk_buf_printf(out, "%s%s", out->len ? " " : "", *s);
    if (f->caps & STK_CAN_GZIP)
        stk_buf_puts(out, " [.gz]");
    if (!out->len)
        stk_buf_puts(out, "-");
}

static void format_json(const struct stk_format *f, struct stk_jw *w)
{
    static const struct {
        const char *name;
        unsigned cap;
    } caps[] = {{"read", STK_CAN_READ},       {"write", STK_CAN_WRITE},
                {"shards", STK_CAN_SHARD},    {"compress", STK_CAN_COMPRESS},
                {"deflate", STK_CAN_DEFLATE}, {"payload", STK_CAN_CODEC},
                {"gzip_files", STK_CAN_GZIP}};
    stk_jw_open(w, '{');
    stk_jw_put_str(w, "name", f->name);
    stk_jw_put_str(w, "title", f->title);
    for (size_t i = 0; i < sizeof caps / sizeof *caps; i++) {
        stk_jw_key(w, caps[i].name);
        stk_jw_bool(w, f->caps & caps[i].cap);
    }
    stk_jw_key(w, "suffixes");
    stk_jw_open(w, '[');
    for (const char *const *s = f->suffixes; s && *s; s++)
        stk_jw_str(w, *s);
    stk_jw_close(w, ']');
    stk_jw_put_str(w, "missing_package", f->missing ? f->package : NULL);
    stk_jw_close(w, '}');
}

static void format_row(const struct stk_format *f, struct stk_grid *t, struct stk_buf *suffixes)
{
    char missing[64];
    snprintf(missing, sizeof missing, "needs %s", f->missing ? f->package : "");
    suffix_list(f, suffixes);
    stk_grid_row(t, f->name, f->caps & STK_CAN_READ ? "yes" : "no",
                 f->caps & STK_CAN_WRITE ? "yes" : "no", f->caps & STK_CAN_SHARD ? "yes" : "no",
                 compression(f->caps), f->missing ? missing : stk_buf_cstr(suffixes));
}

static int run_formats(struct stk_run *run)
{
    struct stk_buf text = STK_BUF_INIT, suffixes = STK_BUF_INIT;
    struct stk_grid t;
    stk_grid_init(&t, "llllll");
    stk_grid_row(&t, "format", "read", "write", "shards", "compress", "names end in");
    stk_jw_key(&run->json, "formats");
    stk_jw_open(&run->json, '[');
    for (size_t i = 0; stk_format_at(i); i++) {
        format_row(stk_format_at(i), &t, &suffixes);
        format_json(stk_format_at(i), &run->json);
    }
    stk_jw_close(&run->json, ']');
    stk_grid_render(&t, 0, &text);
    stk_say(run, "%s", stk_buf_cstr(&text));
    int rc = stk_buf_check(&text, &run->err);
    stk_grid_release(&t);
    stk_buf_release(&text);
    stk_buf_release(&suffixes);
    return rc;
}

static const struct stk_example format_examples[] = {
    {"stoker formats", "what this build reads and writes"},
    {NULL, NULL},
};

const struct stk_cmd stk_cmd_formats = {
    .name = "formats",
    .summary = "list the formats this build reads and writes",
    .args = "",
    .description = "Lists every dataset format: whether it can be read and written, whether a "
                   "dataset may be several files, how its samples can be compressed, and by which "
                   "names its files are recognised. A format that needs a library this build lacks "
                   "is listed with the package to install.",
    .examples = format_examples,
    .options = options,
    .settings_size = sizeof(struct settings),
    .run = run_formats,
};

/* ---- version ------------------------------------------------------------------------------ */

struct part {
    const char *name, *missing;
};

static size_t list_parts(struct part *part, size_t max)
{
    static const struct {
        const char *name;
        enum stk_filter_id id;
    } filters[] = {{"zstd", STK_FILTER_ZSTD}, {"lz4", STK_FILTER_LZ4F}, {"xz", STK_FILTER_XZ}};
    size_t n = 0;
    for (size_t i = 0; i < sizeof filters / sizeof *filters && n < max; i++)
        part[n++] = (struct part){filters[i].name, stk_filter_missing(filters[i].id)};
#ifdef STK_HAVE_LIBDEFLATE
    part[n++] = (struct part){"libdeflate", NULL};
#else
    part[n++] = (struct part){"libdeflate", "libdeflate-dev (zlib is used instead)"};
#endif
    for (size_t i = 0; stk_format_at(i) && n < max; i++) {
        const struct stk_format *f = stk_format_at(i);
        if (f->package)
            part[n++] = (struct part){f->name, f->missing ? f->package : NULL};
    }
#ifdef STK_HAVE_URING
    part[n++] = (struct part){"io_uring", NULL};
#else
    part[n++] = (struct part){"io_uring", "liburing-dev (threads are used instead)"};
#endif
    part[n++] = (struct part){"JPEG", stk_image_missing(false)};
    part[n++] = (struct part){"PNG", stk_image_missing(true)};
    return n;
}

/* How libraries that read untrusted HDF5, LMDB and squashfs files are confined: depends on the
 * kernel, and on the container if there is one. */
static void put_locks(struct stk_grid *t, struct stk_jw *w)
{
    static const struct {
        unsigned lock;
        const char *title, *key;
    } locks[] = {{STK_CONFINED_CALLS, "readers confined by seccomp", "seccomp"},
                 {STK_CONFINED_FILES, "readers confined by Landlock", "landlock"}};
    unsigned held = stk_jail_locks();
    stk_jw_key(w, "confined_by");
    stk_jw_open(w, '{');
    for (size_t i = 0; i < sizeof locks / sizeof *locks; i++) {
        bool on = held & locks[i].lock;
        stk_grid_row(t, locks[i].title, on ? "yes" : "no: not available on this machine");
        stk_jw_put_bool(w, locks[i].key, on);
    }
    stk_jw_close(w, '}');
}

static int run_version(struct stk_run *run)
{
    struct part part[80];
    size_t n = list_parts(part, 72);
    struct stk_jw *w = &run->json;
    struct stk_buf text = STK_BUF_INIT;
    struct stk_grid t;
    stk_grid_init(&t, "ll");
    stk_jw_key(w, "parts");
    stk_jw_open(w, '[');
    for (size_t i = 0; i < n; i++) {
        char lacks[96];
        snprintf(lacks, sizeof lacks, "no: install %s", part[i].missing ? part[i].missing : "");
        stk_grid_row(&t, part[i].name, part[i].missing ? lacks : "yes");
        stk_jw_open(w, '{');
        stk_jw_put_str(w, "name", part[i].name);
        stk_jw_put_str(w, "missing_package", part[i].missing);
        stk_jw_close(w, '}');
    }
    stk_jw_close(w, ']');
    put_locks(&t, w);
    stk_buf_printf(&text, "stoker %s\n", stk_version());
    stk_grid_render(&t, 2, &text);
    stk_say(run, "%s", stk_buf_cstr(&text));
    int rc = stk_buf_check(&text, &run->err);
    stk_grid_release(&t);
    stk_buf_release(&text);
    return rc;
}

const struct stk_cmd stk_cmd_version = {
    .name = "version",
    .summary = "print the version and what is built in",
    .args = "",
    .description =
        "Prints the version, which optional parts this build has, the package to install for each "
        "missing part, and how libraries that read untrusted files are confined here.",
    .options = options,
    .settings_size = sizeof(struct settings),
    .run = run_version,
};
