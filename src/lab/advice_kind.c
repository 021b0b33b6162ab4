/* advice_kind.c - how a format is read: as a stream of records, as text, a sample a file. */
#include <string.h>

#include "format/format.h"
#include "lab/advice_priv.h"

static bool one_of(const char *s, const char *const *list)
{
    for (; *list; list++)
        if (strcmp(s, *list) == 0)
            return true;
    return false;
}

bool stk_kind_stream(const char *format)
{
    static const char *const list[] = {"tfrecord", "recordio", "tar", NULL};
    return one_of(format, list);
}

bool stk_kind_table(const char *format)
{
    static const char *const list[] = {"csv", "tsv", "json", "jsonl", NULL};
    return one_of(format, list);
}

bool stk_kind_sample(const char *format)
{
    static const char *const list[] = {"image", "audio", "video",  "text", "npy", "npz",
                                       "json",  "zip",   "pickle", "",     NULL};
    return one_of(format, list);
}

bool stk_kind_packable(const char *format)
{
    for (size_t i = 0; stk_format_at(i); i++)
        if (strcmp(stk_format_at(i)->name, format) == 0)
            return true;
    return false;
}

bool stk_kind_model(const char *format)
{
    static const char *const list[] = {"checkpoint", "log", NULL};
    return one_of(format, list);
}

double stk_per(double a, uint64_t b)
{
    return b ? a / (double)b : 0;
}

bool stk_kind_whole(const struct stk_usage *u)
{
    const uint64_t *c = u->n.c;
    double size = stk_per((double)u->distinct_bytes, u->files_read);
    return stk_kind_sample(u->format) && c[STK_C_OPENS] && size > 0 &&
           size <= (double)stk_limits.whole_file && c[STK_C_READS] / c[STK_C_OPENS] <= 64 &&
           stk_per((double)c[STK_C_READ_BYTES], c[STK_C_OPENS]) >= 0.5 * size;
}

const struct stk_usage *stk_files_of(const struct stk_analysis *a, const char *format, size_t *at)
{
    while (*at < a->nfiles) {
        const struct stk_usage *u = &a->file[(*at)++];
        if (strcmp(u->format, format) == 0)
            return u;
    }
    return NULL;
}
