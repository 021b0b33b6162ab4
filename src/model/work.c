/* work.c - see work.h. */
#include "model/work.h"

#include <math.h>

#include "load/options.h"

/* At which the kernel gives a process memory that it has not used before. */
#define TOUCH_BPS 2e9

double stk_slower(double a, double b)
{
    return isnan(a) || isnan(b) ? NAN : fmax(a, b);
}

static double transfer_s(double bytes, double Bps)
{
    return bytes <= 0 ? 0 : Bps > 0 ? bytes / Bps : NAN;
}

static double one_or_more(double v)
{
    return v > 1 ? v : 1;
}

/* ---- work ----------------------------------------------------------------------------------- */

static void add(struct stk_work *to, const struct stk_work *w, double times)
{
    to->opens += times * w->opens;
    to->asks += times * w->asks;
    to->requests += times * w->requests;
    to->bytes += times * w->bytes;
    to->creates += times * w->creates;
    to->written += times * w->written;
    to->cpu_s += times * w->cpu_s;
}

void stk_work_add(struct stk_work *to, const struct stk_work *w)
{
    to->piped = (to->piped || to->requests <= 0) && w->piped;
    add(to, w, 1);
}

void stk_work_scale(struct stk_work *w, double times)
{
    const struct stk_work once = *w;
    add(w, &once, times - 1);
}

/* A request that is not longer than what the kernel or the storage cuts it into. */
static double request(const struct stk_storage *st, double piece)
{
    return one_or_more(st->window > 0 ? fmin(piece, st->window) : piece);
}

struct stk_work stk_work_read(const struct stk_storage *st, double bytes, double piece)
{
    return (struct stk_work){
        .requests = ceil(bytes / request(st, piece)), .bytes = bytes, .piped = true};
}

/* Gaps between sorted random offsets are distributed exponentially around span / batch. Of bytes
 * that are drawn at random, those that came before are in memory. */
struct stk_work stk_work_sorted(const struct stk_storage *st, struct stk_work w, double span,
                                double batch)
{
    double mean = fmax(1, span / fmax(1, batch)), gaps = st->window / mean;
    double apart = exp(-gaps), merged = 1 - 1 / fmax(1, batch);
    w.bytes += w.requests * merged * mean * (1 - apart * (1 + gaps));
    w.requests *= 1 - merged * (1 - apart);
    double drawn = fmax(1e-9, w.bytes / fmax(1, span)), fresh = (1 - exp(-drawn)) / drawn;
    w.bytes *= fresh;
    w.requests *= fresh;
    return w;
}

double stk_work_s(const struct stk_storage *st, const struct stk_work *w)
{
    double lanes = one_or_more(w->lanes), cpus = w->cpus > 0 ? fmin(lanes, w->cpus) : lanes;
    double wait = w->opens * st->open_s + w->asks * st->ask_s + w->requests * st->latency_s +
                  w->creates * st->create_s;
    double write = transfer_s(w->written, st->write_Bps);
    double own = transfer_s(w->bytes, st->stream_Bps > 0 ? st->stream_Bps : st->read_Bps) + write;
    double client = stk_slower(transfer_s(w->bytes, st->read_Bps), write), all = 0;
    if (st->all_Bps > 0)
        all = transfer_s(one_or_more(w->clients) * w->bytes, st->all_Bps);
    double lane = (w->piped ? stk_slower(wait, own) : wait + own) + w->cpu_s;
    double transfer = stk_slower(client, all), busy = st->memory ? lane : w->cpu_s;
    return stk_slower(stk_slower(lane / lanes, transfer), busy / cpus);
}

double stk_work_saved_s(const struct stk_storage *st, double measured_s,
                        const struct stk_work *before, const struct stk_work *after)
{
    double was = stk_work_s(st, before), is = stk_work_s(st, after);
    return was > 0 && is < was ? measured_s * (1 - is / was) : 0;
}

/* ---- a program ------------------------------------------------------------------------------ */

double stk_run_ahead_s(double compute_s, double io_s, double first_s)
{
    return stk_slower(compute_s + first_s, io_s);
}

double stk_first_batch_s(double io_s, double readers, double batches)
{
    return io_s * fmin(1, one_or_more(readers) / one_or_more(batches));
}

/* ---- stoker's loader ------------------------------------------------------------------------ */

struct stk_work stk_loader_work(const struct stk_storage *st, double bytes)
{
    return (struct stk_work){
        .requests = bytes / request(st, (double)STK_LOADER_BYTES(STK_LOADER_BLOCK_MIB)),
        .bytes = bytes,
        .lanes = st->network ? STK_IO_DEPTH_NETWORK : STK_IO_DEPTH,
        .piped = true};
}

double stk_loader_io_s(const struct stk_storage *st, const struct stk_work *w, double cpu_s,
                       double cpus)
{
    double serving = st->served ? transfer_s(one_or_more(w->clients) * w->bytes, st->read_Bps) : 0;
    struct stk_work io = *w;
    io.cpus = one_or_more(cpus);
    return stk_slower(stk_work_s(st, &io), cpu_s / io.cpus + serving);
}

double stk_loader_window(double bytes)
{
    return fmin(bytes, (double)STK_LOADER_BYTES(STK_LOADER_WINDOW_MIB));
}

double stk_loader_windows(double bytes, double size, double ranks)
{
    double window = (double)STK_LOADER_BYTES(STK_LOADER_WINDOW_MIB) * ranks;
    return fmax(bytes, fmin(size, ceil(bytes / window) * window));
}

double stk_loader_start_s(const struct stk_storage *st)
{
    return STK_LOADER_START_S + STK_LOADER_OPENS * (st->open_s + st->latency_s);
}

double stk_loader_first_s(const struct stk_storage *st, double bytes, double clients,
                          double touched)
{
    struct stk_work w = stk_loader_work(st, bytes);
    w.clients = clients;
    return stk_work_s(st, &w) + touched / TOUCH_BPS;
}
