/*
 * kind.c - what a file is, by its name, and how such files are used. Formats describe
 * themselves (format/format.h); the table here has what is no format of data.
 */
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "format/format.h"
#include "analysis/parts.h"
#include "proflog/system_files.h"
#include "format_code.h"

static const struct other {
    const char *name;
    struct stk_format_use use;
    const char *suffix[16];
} others[] = {
    {"audio", {.how = STK_USE_SAMPLE}, {".wav", ".flac", ".mp3", ".ogg", ".opus"}},
    {"video", {.how = STK_USE_SAMPLE}, {".mp4", ".avi", ".mkv", ".webm", ".mov"}},
    {"text", {.how = STK_USE_SAMPLE | STK_USE_LINES}, {".txt", ".xml"}},
    {"netcdf",
     {.how = STK_USE_LIBRARY,
      .package = "netCDF4",
      .open = stk_code_netcdf_open_py,
      .keep = stk_code_netcdf_keep_py},
     {".nc", ".nc4"}},
    {"checkpoint",
     {.how = STK_USE_MODEL | STK_USE_CHECKPOINT},
     {".pt", ".pth", ".ckpt", ".keras", ".safetensors", ".pbtxt", ".orbax", ".distcp"}},
    {"log", {.how = STK_USE_MODEL | STK_USE_LOG}, {".log", ".out", ".err"}},
    {"library", {.how = STK_USE_MODEL | STK_USE_SYSTEM}, {NULL}},
    {"", {.how = STK_USE_SAMPLE}, {NULL}}, /* unknown: a file is taken to be one sample */
};

const struct stk_format_use *stk_use_of(const char *format)
{
    static const struct stk_format_use nothing;
    const struct stk_format *f = stk_format_find(format);
    if (f)
        return f->use ? f->use : &nothing;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(others[i].name, format) == 0)
            return &others[i].use;
    return &nothing;
}

static bool has_suffix_of(const struct other *o, const char *name)
{
    for (const char *const *s = o->suffix; *s; s++)
        if (stk_name_has_suffix(name, strlen(name), *s))
            return true;
    return false;
}

static bool has_digits(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (s[i] < '0' || s[i] > '9')
            return false;
    return true;
}

/* "train-00001-of-01024", as TensorFlow's tools name files. */
static bool is_shard_name(const char *name)
{
    size_t n = strlen(name);
    return n > 15 && name[n - 15] == '-' && has_digits(name + n - 14, 5) &&
           memcmp(name + n - 9, "-of-", 4) == 0 && has_digits(name + n - 5, 5);
}

static bool is_checkpoint_name(const char *name)
{
    return strcasestr(name, "ckpt") || strcasestr(name, "checkpoint") ||
           strstr(name, "model_states") || strstr(name, "optim_states") ||
           strncmp(name, "pytorch_model", 13) == 0;
}

/* "checkpoints/epoch_3.npz", "checkpoint-500/optimizer.bin". */
static bool in_checkpoints(const char *path, const char *slash)
{
    const char *dir = slash;
    while (dir && dir > path && dir[-1] != '/')
        dir--;
    return dir && dir < slash &&
           (strncasecmp(dir, "checkpoint", 10) == 0 || strncasecmp(dir, "ckpt", 4) == 0);
}

/* A temporary name until the file is complete: "model.pt.tmp", "a.ckpt.part". */
static bool is_unfinished(const char *name, size_t *len)
{
    static const char *const ends[] = {".tmp", ".temp", ".part", ".partial", ".incomplete", ".new"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (stk_name_has_suffix(name, strlen(name), ends[i])) {
            *len = strlen(name) - strlen(ends[i]);
            return true;
        }
    return false;
}

/* A format whose shards need no suffix, or "". */
static const char *format_of_shard(void)
{
    for (size_t i = 0; stk_format_at(i); i++)
        if (stk_use_of(stk_format_at(i)->name)->how & STK_USE_BARE)
            return stk_format_at(i)->name;
    return "";
}

static const char *format_of_name(const char *name)
{
    if (strstr(name, ".tfevents."))
        return "log";
    if (is_checkpoint_name(name))
        return "checkpoint";
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (has_suffix_of(&others[i], name))
            return others[i].name;
    for (size_t i = 0; stk_format_at(i); i++)
        if (stk_format_suffix_matches(stk_format_at(i), name))
            return stk_format_at(i)->name;
    return is_shard_name(name) ? format_of_shard() : "";
}

const char *stk_format_of_path(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    char final[256];
    size_t len;
    if (in_checkpoints(path, slash))
        return "checkpoint";
    if (!is_unfinished(name, &len) || len >= sizeof final)
        return format_of_name(name);
    memcpy(final, name, len);
    final[len] = '\0';
    return format_of_name(final);
}

/* ---- stores ---- */

static bool is_zarr_metadata(const char *name)
{
    static const char *const names[] = {"zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

static size_t store_above(const struct stk_stores *s, const char *path, size_t len)
{
    for (size_t i = 0; i < s->n; i++)
        if (stk_path_below(path, len, s->root[i].path, s->root[i].len))
            return s->root[i].len;
    return 0;
}

void stk_stores_find(const struct stk_profile *p, struct stk_stores *out)
{
    out->n = 0;
    for (size_t i = 0; i < p->nfiles; i++) {
        const char *path = p->file[i].path, *slash = strrchr(path, '/');
        if (!slash || slash == path || !is_zarr_metadata(slash + 1))
            continue;
        size_t len = (size_t)(slash - path), kept = 0;
        if (store_above(out, path, len))
            continue;
        for (size_t k = 0; k < out->n; k++) /* arrays of this group were found before it */
            if (!stk_path_below(out->root[k].path, out->root[k].len, path, len))
                out->root[kept++] = out->root[k];
        out->n = kept;
        if (out->n < ANALYSIS_STORES) {
            out->root[out->n].path = path;
            out->root[out->n++].len = len;
        }
    }
}

size_t stk_store_of(const struct stk_stores *s, const char *path, const char **format)
{
    static const struct {
        const char *end, *format;
    } named[] = {{".zarr/", "zarr"}, {".n5/", "n5"}};
    for (size_t i = 0; i < sizeof named / sizeof *named; i++) {
        const char *end = strstr(path, named[i].end);
        *format = named[i].format;
        if (end)
            return (size_t)(end - path) + strlen(named[i].end) - 1;
    }
    *format = "zarr";
    return store_above(s, path, strlen(path));
}

const char *stk_analysis_format(const struct stk_profile *p, const struct stk_stores *stores,
                                const char *path)
{
    const char *format = stk_format_of_path(path), *store;
    if (!(p->source->knows & STK_KNOWS_DATA) && stk_system_file(path, strlen(path), STK_LANG_ANY))
        return "library";
    bool saved = stk_use_of(format)->how & STK_USE_MODEL; /* checkpoints may be stores, too */
    return !saved && stk_store_of(stores, path, &store) ? store : format;
}

static uint64_t libraries_of(const struct stk_profile *p)
{
    uint64_t all = 0;
    for (size_t i = 0; i < p->nprocs; i++)
        all |= p->proc[i].libraries;
    return all;
}

bool stk_analysis_knows_libraries(const struct stk_analysis *a)
{
    return libraries_of(a->p) & STK_LIBRARIES_SEEN;
}

bool stk_analysis_loaded(const struct stk_analysis *a, const char *library)
{
    uint64_t all = libraries_of(a->p);
    return !(all & STK_LIBRARIES_SEEN) || (all & stk_library_bit(library, strlen(library)));
}
