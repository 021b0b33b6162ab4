/* layout.c - lists of meaningful names, and the lookup of paths in them. */
#include "dataset/layout.h"
#include "base/file.h"
#include "base/text.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

static const char *const junk[] = {
    "Thumbs.db", "desktop.ini", "ehthumbs.db",
    "Icon\r",    "_SUCCESS", /* of Hadoop and Spark: marks a complete output */
    NULL};
static const char *const readmes[] = {"README",    "LICENSE", "LICENCE",  "COPYING",
                                      "CHANGELOG", "NOTICE",  "CITATION", NULL};
static const char *const media[] = {".jpg",  ".jpeg", ".png", ".bmp", ".gif",  ".webp", ".tif",
                                    ".tiff", ".ppm",  ".pgm", ".jp2", ".heic", ".exr",  ".hdr",
                                    ".avif", ".dcm",  ".nii", ".wav", ".mp3",  ".flac", ".ogg",
                                    ".opus", ".m4a",  ".mp4", ".avi", ".mkv",  ".mov",  ".webm",
                                    ".mpg",  ".npy",  ".npz", ".ply", ".obj",  ".stl",  NULL};
static const char *const annotations[] = {
    ".csv",    ".tsv",   ".json", ".jsonl", ".xml", ".txt",  ".parquet",
    ".yaml",   ".yml",   ".html", ".pkl",   ".mat", ".xlsx", ".toml",
    ".sqlite", ".cache", ".lst",  ".names", ".log", ".pdf",  NULL};
static const char *const splits[] = {"train", "training", "val",  "valid",      "validation", "dev",
                                     "test",  "testing",  "eval", "evaluation", NULL};
static const char *const images[] = {"images", "image", "imgs", "img", "jpegimages", NULL};
static const char *const labels[] = {"labels", "label", "annotations", "annotation", "xmls", NULL};
static const char *const masks[] = {
    "masks",       "mask",         "segmentation",      "segmentations",      "gt",
    "groundtruth", "ground_truth", "segmentationclass", "segmentationobject", NULL};

static bool is_one_of(const char *const *list, const char *p, size_t n)
{
    for (; *list; list++)
        if (strlen(*list) == n && strncasecmp(*list, p, n) == 0)
            return true;
    return false;
}

const char *stk_layout_suffix(const char *name)
{
    const char *base = stk_base_name(name), *dot = strrchr(base, '.');
    return dot ? dot : "";
}

bool stk_layout_is_junk(const char *name)
{
    const char *base = stk_base_name(name);
    return is_one_of(junk, base, strlen(base)) || strncmp(name, "__MACOSX/", 9) == 0;
}

bool stk_layout_is_readme(const char *name)
{
    const char *base = stk_base_name(name);
    return is_one_of(readmes, base, strcspn(base, ".")) ||
           stk_name_has_suffix(base, strlen(base), ".md");
}

bool stk_layout_is_media(const char *name)
{
    const char *suffix = stk_layout_suffix(name);
    return is_one_of(media, suffix, strlen(suffix));
}

bool stk_layout_is_annotation(const char *name)
{
    const char *suffix = stk_layout_suffix(name);
    return is_one_of(annotations, suffix, strlen(suffix));
}

/* The letters of a split's name, perhaps followed by digits ("val2017"). */
static bool is_split(const char *p, size_t n)
{
    size_t letters = 0;
    while (letters < n && isalpha((unsigned char)p[letters]))
        letters++;
    size_t end = letters;
    while (end < n && isdigit((unsigned char)p[end]))
        end++;
    return end == n && is_one_of(splits, p, letters);
}

/* Length of the word of letters and digits at p. */
static size_t word_len(const char *p, size_t n)
{
    size_t i = 0;
    while (i < n && isalnum((unsigned char)p[i]))
        i++;
    return i;
}

bool stk_layout_split(const char *name, size_t len, bool in_base, const char **split, size_t *n)
{
    const char *at = name, *end = name + len, *slash;
    while ((slash = memchr(at, '/', (size_t)(end - at)))) {
        *split = at;
        *n = (size_t)(slash - at);
        if (is_split(*split, *n))
            return true;
        at = slash + 1;
    }
    for (size_t i; in_base && at < end; at += i + 1) {
        i = word_len(at, (size_t)(end - at));
        *split = at;
        *n = i;
        if (is_split(at, i))
            return true;
    }
    return false;
}

bool stk_layout_is_neutral(const char *dir, size_t len)
{
    return is_split(dir, len) || is_one_of(images, dir, len);
}

enum stk_layout_side stk_layout_side(const char *name, size_t len, size_t *from, size_t *n)
{
    const char *at = name, *end = name + len, *slash;
    for (; (slash = memchr(at, '/', (size_t)(end - at))); at = slash + 1) {
        size_t dir = (size_t)(slash - at);
        *from = (size_t)(at - name);
        *n = dir + 1;
        if (is_one_of(images, at, dir))
            return STK_SIDE_IMAGES;
        if (is_one_of(labels, at, dir) || is_one_of(masks, at, dir))
            return STK_SIDE_LABELS;
    }
    return STK_SIDE_NONE;
}
