/* kind.c - how a file was read, in the terms of the rules. */
#include <string.h>
#include <strings.h>

#include "dataset/layout.h"
#include "format/format.h"
#include "advice/priv.h"

bool stk_kind_packable(const struct stk_usage *u)
{
    const struct stk_format *f = stk_format_find(u->format);
    return f && (f->caps & STK_CAN_READ);
}

double stk_per(double a, uint64_t b)
{
    return b ? a / (double)b : 0;
}

bool stk_kind_whole(const struct stk_usage *u)
{
    const uint64_t *c = u->n.c;
    double size = stk_per((double)u->distinct_bytes, u->files_read);
    return stk_kind_sample(u) && c[STK_C_OPENS] && size > 0 &&
           size <= (double)stk_limits.whole_file &&
           c[STK_C_READS] / c[STK_C_OPENS] <= stk_limits.whole_reads &&
           stk_per((double)c[STK_C_READ_BYTES], c[STK_C_OPENS]) >= stk_limits.most * size;
}

double stk_kind_request(const struct stk_usage *u)
{
    uint64_t reads = u->n.c[STK_C_READS], opens = u->n.c[STK_C_OPENS];
    return reads > 2 * opens ? stk_per((double)u->n.c[STK_C_READ_BYTES], reads - opens)
                             : u->mean_read_bytes;
}

double stk_kind_jumps(const struct stk_usage *u)
{
    const uint64_t *c = u->n.c;
    uint64_t first = c[STK_C_FIRST_READS] > c[STK_C_OPENS] ? c[STK_C_FIRST_READS] : c[STK_C_OPENS];
    uint64_t on = first + c[STK_C_CONSEC_READS];
    return c[STK_C_READS] > on ? (double)(c[STK_C_READS] - on) : 0;
}

bool stk_kind_read_ahead(const struct stk_usage *u)
{
    double mean = stk_per(u->read_s, u->n.c[STK_C_READS]);
    return u->consec >= stk_limits.consecutive && u->latency_p50_s > 0 &&
           stk_limits.read_ahead * u->latency_p50_s < mean;
}

bool stk_kind_again(const struct stk_usage *u)
{
    const uint64_t *c = u->n.c;
    double each = stk_per((double)c[STK_C_OPENS], u->procs ? u->procs : 1);
    return each >= (double)stk_limits.least_opens && !c[STK_C_WRITE_BYTES] && u->files <= 1 &&
           u->distinct_bytes && u->distinct_bytes <= stk_limits.whole_file &&
           stk_per((double)c[STK_C_READ_BYTES], c[STK_C_OPENS]) >
               stk_limits.most * (double)u->distinct_bytes;
}

enum split { NO_SPLIT, TRAINED, EVALUATED };

static enum split split_of(const char *name, size_t len, bool in_base)
{
    const char *split;
    size_t n;
    if (!stk_layout_split(name, len, in_base, &split, &n))
        return NO_SPLIT;
    return strncasecmp(split, "train", 5) == 0 ? TRAINED : EVALUATED;
}

bool stk_kind_evaluated(const char *path)
{
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    enum split split = split_of(base, strlen(base), true);
    if (split == NO_SPLIT && slash) {
        const char *above = memrchr(path, '/', (size_t)(slash - path));
        above = above ? above + 1 : path;
        split = split_of(above, (size_t)(slash + 1 - above), false);
    }
    return split == EVALUATED;
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
