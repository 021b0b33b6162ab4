/* formats.c - what this build can do and what it lacks, as tables and as JSON. */
#include "report/formats.h"

#include <stdio.h>

#include "base/confine.h"
#include "format/format.h"
#include "result/grid.h"
#include "report/report.h"

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

void stk_formats_text(unsigned columns, struct stk_buf *out)
{
    struct stk_buf suffixes = STK_BUF_INIT;
    struct stk_grid t;
    stk_grid_init(&t, "lllllw");
    stk_grid_row(&t, "format", "read", "write", "shards", "compress", "names end in");
    size_t i = 0;
    for (; stk_format_at(i) && !stk_format_at(i)->instead; i++)
        format_row(stk_format_at(i), &t, &suffixes);
    stk_grid_fit(&t, 0, columns);
    stk_grid_render(&t, 0, out);
    stk_buf_reset(&suffixes);
    for (; stk_format_at(i); i++)
        stk_buf_printf(&suffixes, "%s%s", suffixes.len ? ", " : "", stk_format_at(i)->name);
    stk_buf_putc(out, '\n');
    stk_report_sentence(out, 0, columns, "recognised, but not read: %s", stk_buf_cstr(&suffixes));
    stk_grid_release(&t);
    stk_buf_release(&suffixes);
}

void stk_formats_json(struct stk_jw *w)
{
    stk_jw_key(w, "formats");
    stk_jw_open(w, '[');
    size_t i = 0;
    for (; stk_format_at(i) && !stk_format_at(i)->instead; i++)
        format_json(stk_format_at(i), w);
    stk_jw_close(w, ']');
    stk_jw_key(w, "recognised");
    stk_jw_open(w, '[');
    for (; stk_format_at(i); i++) {
        stk_jw_open(w, '{');
        stk_jw_put_str(w, "name", stk_format_at(i)->name);
        stk_jw_put_str(w, "title", stk_format_at(i)->title);
        stk_jw_put_str(w, "instead", stk_format_at(i)->instead);
        stk_jw_close(w, '}');
    }
    stk_jw_close(w, ']');
}

/* ---- version ------------------------------------------------------------------------------ */

static const struct {
    unsigned lock;
    const char *title, *key;
} locks[] = {{STK_CONFINED_CALLS, "readers confined by seccomp", "seccomp"},
             {STK_CONFINED_FILES, "readers confined by Landlock", "landlock"}};

#define NLOCKS (sizeof locks / sizeof *locks)

void stk_version_text(const struct stk_build *b, struct stk_buf *out)
{
    struct stk_grid t;
    stk_grid_init(&t, "ll");
    for (size_t i = 0; i < b->nparts; i++) {
        const char *missing = b->part[i].missing;
        char lacks[96];
        snprintf(lacks, sizeof lacks, "no: install %s", missing ? missing : "");
        stk_grid_row(&t, b->part[i].name, missing ? lacks : "yes");
    }
    for (size_t i = 0; i < NLOCKS; i++)
        stk_grid_row(&t, locks[i].title,
                     b->locks & locks[i].lock ? "yes" : "no: not available on this machine");
    stk_buf_printf(out, "stoker %s\n", stk_version());
    stk_grid_render(&t, 2, out);
    stk_grid_release(&t);
}

void stk_version_json(const struct stk_build *b, struct stk_jw *w)
{
    stk_jw_key(w, "parts");
    stk_jw_open(w, '[');
    for (size_t i = 0; i < b->nparts; i++) {
        stk_jw_open(w, '{');
        stk_jw_put_str(w, "name", b->part[i].name);
        stk_jw_put_str(w, "missing_package", b->part[i].missing);
        stk_jw_close(w, '}');
    }
    stk_jw_close(w, ']');
    stk_jw_key(w, "confined_by");
    stk_jw_open(w, '{');
    for (size_t i = 0; i < NLOCKS; i++)
        stk_jw_put_bool(w, locks[i].key, b->locks & locks[i].lock);
    stk_jw_close(w, '}');
}
