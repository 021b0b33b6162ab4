/* cost_profile.c - takes rates from the files of a profile that are below the source. */
#include "stage/cost_profile.h"

#include <string.h>

#include "model/fit.h"
#include "host/fs.h"

static bool is_below(const char *name, const char *path)
{
    size_t n = strlen(path);
    return strncmp(name, path, n) == 0 && (name[n] == '/' || !name[n]);
}

/* Time in which the training loop did not wait for files. */
static double busy_s(const struct stk_analysis *a)
{
    double waits = a->io_share_main > 0 && a->io_share_main < 1 ? a->io_share_main : 0;
    return a->p->run_s * (1 - waits);
}

bool stk_cost_take_profile(const struct stk_analysis *a, const char *path, struct stk_cost_case *c)
{
    double bytes = 0;
    const char *fs = NULL;
    for (size_t i = 0; i < a->nfiles; i++)
        if (is_below(a->file[i].name, path)) {
            bytes += (double)a->file[i].n.c[STK_C_READ_BYTES];
            fs = fs ? fs : a->file[i].fs; /* that with the most time */
        }
    if (!(bytes > 0) || !fs)
        return false;
    const struct stk_fs *known = stk_fs_by_name(fs);
    struct stk_storage st =
        stk_storage_fit(a, fs, known ? stk_reach_of(known) : STK_REACH_UNKNOWN);
    if (st.read_measured)
        c->source.read_Bps = st.read_Bps;
    if (st.latency_measured) {
        c->source.open_s = st.open_s;
        c->source.latency_s = st.latency_s;
    }
    if (busy_s(a) > 0)
        c->need_Bps = bytes / busy_s(a);
    return true;
}
