/* formats.c - the results of `stoker formats` and `stoker version`: what this build can do and lacks. */
#include "report/node.h"

#include <stdio.h>

#include "base/helper.h"
#include "format/format.h"
#include "result/blocks.h"
#include "result/screen.h"

/* ---- formats -------------------------------------------------------------------------------- */

#define FORMAT(member)           STK_FROM(struct stk_format, member)
#define CAN(name, cap)           STK_BOOL_OF(name, struct stk_format, r->caps & (cap))
#define TEXT(name, expression)   STK_TEXT_OF(name, struct stk_format, expression)

CAN(can_read, STK_CAN_READ)
CAN(can_write, STK_CAN_WRITE)
CAN(can_shard, STK_CAN_SHARD)
CAN(can_compress, STK_CAN_COMPRESS)
CAN(can_deflate, STK_CAN_DEFLATE)
CAN(can_codec, STK_CAN_CODEC)
CAN(can_gzip, STK_CAN_GZIP)
TEXT(missing, r->missing ? r->package : NULL)
TEXT(compression, r->caps & STK_CAN_COMPRESS ? r->caps & STK_CAN_DEFLATE ? "zstd, lz4, deflate"
                                                                         : "zstd, lz4"
                  : r->caps & STK_CAN_DEFLATE ? "deflate"
                                              : NULL)

static void put_suffixes(const void *base, struct stk_jw *w)
{
    const struct stk_format *f = base;
    stk_jw_open(w, '[');
    for (const char *const *s = f->suffixes; s && *s; s++)
        stk_jw_str(w, *s);
    stk_jw_close(w, ']');
}

static void put_names(const void *base, struct stk_jw *w)
{
    const struct stk_format *f = base;
    struct stk_buf out = STK_BUF_INIT;
    for (const char *const *s = f->suffixes; s && *s; s++)
        stk_buf_printf(&out, "%s%s", out.len ? " " : "", *s);
    if (f->caps & STK_CAN_GZIP)
        stk_buf_puts(&out, " [.gz]");
    if (f->missing) {
        stk_buf_reset(&out);
        stk_buf_printf(&out, "needs %s", f->package);
    }
    stk_jw_str(w, out.len ? stk_buf_cstr(&out) : NULL);
    stk_buf_release(&out);
}

static const struct stk_result_field format_fields[] = {
    {"name", "format", STK_U_TEXT, FORMAT(name)},
    {"title", NULL, STK_U_TEXT, FORMAT(title)},
    {"read", "read", STK_U_FLAG, .put = can_read},
    {"write", "write", STK_U_FLAG, .put = can_write},
    {"shards", "shards", STK_U_FLAG, .put = can_shard, .meaning = "a dataset may be several files"},
    {"compress", NULL, STK_U_FLAG, .put = can_compress, .meaning = "samples, by zstd and lz4"},
    {"deflate", NULL, STK_U_FLAG, .put = can_deflate},
    {"compression", "compress", STK_U_TEXT, .put = compression},
    {"payload", NULL, STK_U_FLAG, .put = can_codec, .meaning = "a codec says what a record has"},
    {"gzip_files", NULL, STK_U_FLAG, .put = can_gzip},
    {"suffixes", NULL, STK_U_LIST, .put = put_suffixes},
    {"names", "names end in", STK_U_TEXT, .put = put_names, .flags = STK_F_WRAP},
    {"missing_package", NULL, STK_U_TEXT, .put = missing},
    {NULL}};

static const struct stk_result_field recognised_fields[] = {
    {"name", "name", STK_U_TEXT, FORMAT(name)},
    {"title", "title", STK_U_TEXT, FORMAT(title)},
    {"instead", "instead", STK_U_TEXT, FORMAT(instead)},
    {NULL}};

/* Formats that are read come first. */
static void put_formats(const struct stk_result_field *fields, bool read, struct stk_jw *w)
{
    stk_jw_open(w, '[');
    for (size_t i = 0; stk_format_at(i); i++) {
        if (!stk_format_at(i)->instead != read)
            continue;
        stk_jw_open(w, '{');
        stk_fields_put(fields, stk_format_at(i), w);
        stk_jw_close(w, '}');
    }
    stk_jw_close(w, ']');
}

static void put_read(const void *base, struct stk_jw *w)
{
    (void)base;
    put_formats(format_fields, true, w);
}

static void put_recognised(const void *base, struct stk_jw *w)
{
    (void)base;
    put_formats(recognised_fields, false, w);
}

static void draw_recognised(const struct stk_result_field *f, const struct stk_jval *obj,
                            struct stk_screen *s)
{
    const struct stk_jval *rows = stk_json_get(obj, f->key);
    struct stk_buf line = STK_BUF_INIT;
    for (size_t i = 0; i < rows->len; i++)
        stk_buf_printf(&line, "%s%s", i ? ", " : "recognised, but not read: ",
                       stk_pg_text(&rows->item[i], "name", ""));
    stk_screen_part(s);
    stk_report_wrapped(stk_buf_cstr(&line), 0, s->columns, s->out);
    stk_buf_release(&line);
}

static const struct stk_result_field formats_fields[] = {
    {"formats", "formats", STK_U_TABLE, .put = put_read, .of = format_fields},
    {"recognised", "recognised, but not read", STK_U_TABLE, .put = put_recognised,
     .of = recognised_fields, .draw = draw_recognised},
    {NULL}};

const struct stk_result_kind stk_formats_kind = {
    .command = "formats", .doing = "Formats", .subject = SIZE_MAX, .fields = formats_fields};

/* ---- version -------------------------------------------------------------------------------- */

STK_TEXT_OF(there, struct stk_build_part, r->missing ? "no" : "yes")

const struct stk_result_field stk_part_fields[] = {
    {"name", "part", STK_U_TEXT, STK_FROM(struct stk_build_part, name)},
    {"there", "built in", STK_U_TEXT, .put = there},
    {"missing_package", "install", STK_U_TEXT, STK_FROM(struct stk_build_part, missing),
     .flags = STK_F_IF_SET},
    {NULL}};

void stk_put_parts(const void *build, struct stk_jw *w)
{
    const struct stk_build *b = build;
    stk_rows_put(stk_part_fields, b->part, b->nparts, sizeof *b->part, w);
}

STK_BOOL_OF(seccomp, struct stk_build, r->locks & STK_CONFINED_CALLS)
STK_BOOL_OF(landlock, struct stk_build, r->locks & STK_CONFINED_FILES)

const struct stk_result_field stk_lock_fields[] = {
    {"seccomp", "readers confined by seccomp", STK_U_FLAG, .put = seccomp},
    {"landlock", "readers confined by Landlock", STK_U_FLAG, .put = landlock},
    {NULL}};

static void put_version(const void *base, struct stk_jw *w)
{
    (void)base;
    stk_jw_str(w, stk_version());
}

static const struct stk_result_field version_fields[] = {
    {"version", "version", STK_U_TEXT, .put = put_version, .flags = STK_F_HEAD, .say = "stoker %"},
    {"parts", "parts", STK_U_TABLE, .put = stk_put_parts, .of = stk_part_fields},
    {"confined_by", NULL, STK_U_GROUP, .of = stk_lock_fields},
    {NULL}};

const struct stk_result_kind stk_version_kind = {
    .command = "version", .doing = "This build", .subject = SIZE_MAX, .fields = version_fields};
