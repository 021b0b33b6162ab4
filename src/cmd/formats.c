/* formats.c - `stoker formats` and `stoker version`: what this build can do and what it lacks. */
#include "format/format.h"

#include "cmd/cmd.h"
#include "report/node.h"
#include "image/image.h"
#include "format/jail.h"
#include "report/html/page.h"

struct settings {
    struct stk_common common;
};

static const struct stk_opt options[] = {STK_COMMON_OPTIONS};

/* ---- formats ------------------------------------------------------------------------------ */

static int run_formats(struct stk_run *run)
{
    return stk_say_result(run, &stk_formats_kind, NULL, NULL);
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

size_t stk_list_parts(struct stk_build_part *part)
{
    static const struct {
        const char *name;
        enum stk_filter_id id;
    } filters[] = {{"zstd", STK_FILTER_ZSTD}, {"lz4", STK_FILTER_LZ4F}, {"xz", STK_FILTER_XZ}};
    size_t n = 0;
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++)
        part[n++] =
            (struct stk_build_part){filters[i].name, stk_filter_missing(filters[i].id), false};
#ifdef STK_HAVE_LIBDEFLATE
    part[n++] = (struct stk_build_part){"libdeflate", NULL, false};
#else
    part[n++] = (struct stk_build_part){
        "libdeflate", "libdeflate-dev (zlib is used instead)", false};
#endif
    for (size_t i = 0; stk_format_at(i) && n < STK_BUILD_PARTS_MAX - 3; i++) {
        const struct stk_format *f = stk_format_at(i);
        if (f->package)
            part[n++] = (struct stk_build_part){f->name, f->missing ? f->package : NULL, false};
    }
#ifdef STK_HAVE_URING
    part[n++] = (struct stk_build_part){"io_uring", NULL, true};
#else
    part[n++] = (struct stk_build_part){
        "io_uring", "liburing-dev (threads are used instead)", true};
#endif
    part[n++] = (struct stk_build_part){"JPEG", stk_image_missing(false), false};
    part[n++] = (struct stk_build_part){"PNG", stk_image_missing(true), false};
    part[n++] = (struct stk_build_part){
        "page", stk_page_check(NULL) ? "nodejs and npm" : NULL, false};
    return n;
}

static int run_version(struct stk_run *run)
{
    struct stk_build_part part[STK_BUILD_PARTS_MAX];
    struct stk_build b = {part, stk_list_parts(part), stk_jail_locks()};
    return stk_say_result(run, &stk_version_kind, &b, NULL);
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
