/*
 * kind.c - what a file is, by its name, and how such files are used. Formats that stoker
 * reads describe themselves (format/format.h); the table here has those it knows but does not read.
 */
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "format/format.h"
#include "analysis/parts.h"
#include "proflog/system_files.h"

static const struct other {
    const char *name;
    struct stk_format_use use;
    const char *suffix[16];
} others[] = {
    {"image",
     {.how = STK_USE_SAMPLE,
      .decode = "image:224,crop=random,flip",
      .decode_val = "image:224,resize=256"},
     {".jpg", ".jpeg", ".png", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm", ".jp2",
      ".dcm", ".nii", ".nii.gz"}},
    {"audio", {.how = STK_USE_SAMPLE}, {".wav", ".flac", ".mp3", ".ogg", ".opus"}},
    {"video", {.how = STK_USE_SAMPLE}, {".mp4", ".avi", ".mkv", ".webm", ".mov"}},
    {"text", {.how = STK_USE_SAMPLE | STK_USE_LINES}, {".txt", ".xml"}},
    {"netcdf", {0}, {".nc", ".nc4"}},
    {"parquet", {0}, {".parquet"}},
    {"arrow", {0}, {".arrow", ".feather"}},
    {"zip", {.how = STK_USE_SAMPLE, .open = "zipfile.ZipFile({path})"}, {".zip"}},
    {"beton", {0}, {".beton"}},
    {"pickle", {.how = STK_USE_SAMPLE}, {".pkl", ".pickle"}},
    {"checkpoint",
     {.how = STK_USE_MODEL | STK_USE_CHECKPOINT},
     {".pt", ".pth", ".ckpt", ".keras", ".safetensors", ".pbtxt", ".orbax", ".distcp"}},
    {"log", {.how = STK_USE_MODEL}, {".log", ".out", ".err"}},
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

const char *stk_analysis_format(const struct stk_profile *p, const char *path)
{
    /* stoker's own profiles contain these only if the user asked for them. */
    if (strcmp(p->source, "darshan") == 0 && stk_system_file(path, strlen(path)))
        return "library";
    return stk_format_of_path(path);
}
