/* progress.c - drawing progress with rate and time left, and the flag that signals set. */
#include "cmd/cmd.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/pool.h"
#include "base/text.h"
#include "base/units.h"
#include "result/grid.h"

#define BAR_EVERY_S  0.1
#define MARK_EVERY_S 0.5 /* 16 marks: the rate covers the last eight seconds */

/* Lock-free, so safe in a handler; read by any thread. */
static _Atomic int stop_signal;

static void on_signal(int sig)
{
    stop_signal = sig;
}

void stk_stop_on_signals(void)
{
    struct sigaction act = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND | SA_RESTART};
    sigemptyset(&act.sa_mask);
    sigaction(SIGINT, &act, NULL);
    sigaction(SIGTERM, &act, NULL);
    signal(SIGXFSZ, SIG_IGN); /* a file size limit becomes an error of write(), with the file's
                               * name */
}

void stk_stop_on_loss(void)
{
    struct sigaction old, act = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&act.sa_mask);
    sigaction(SIGPIPE, &act, NULL);
    if (sigaction(SIGHUP, NULL, &old) == 0 && old.sa_handler != SIG_IGN) /* not with nohup */
        sigaction(SIGHUP, &act, NULL);
}

int stk_stop_signal(void)
{
    return stop_signal;
}

void stk_progress_init(struct stk_progress *p, FILE *to, const char *command, double every_s)
{
    *p = (struct stk_progress){.to = to, .command = command, .every_s = every_s};
    pthread_mutex_init(&p->lock, NULL);
    const char *term = getenv("TERM");
    p->bar = to && isatty(fileno(to)) && term && strcmp(term, "dumb") != 0;
    p->utf8 = stk_term_utf8();
}

void stk_progress_release(struct stk_progress *p)
{
    stk_progress_clear(p);
    pthread_mutex_destroy(&p->lock);
}

struct amounts {
    uint64_t bytes, bytes_total, samples, samples_total;
    double now_s, fraction, rate; /* fraction < 0: unknown. rate: of bytes, else of samples */
    bool by_bytes;
};

static uint64_t done_of(const struct amounts *a)
{
    return a->by_bytes ? a->bytes : a->samples;
}

static uint64_t total_of(const struct amounts *a)
{
    return a->by_bytes ? a->bytes_total : a->samples_total;
}

static void begin_phase(struct stk_progress *p, const char *phase, const struct amounts *a)
{
    double now = a->now_s;
    snprintf(p->phase, sizeof p->phase, "%s", phase);
    p->phase_start_s = now;
    p->next_s = now + (p->bar ? BAR_EVERY_S : p->every_s);
    p->mark[0] = (struct stk_progress_mark){.at_s = now, .done = done_of(a)};
    p->nmarks = 1;
}

/* Units per second over the window. */
static double rate_now(struct stk_progress *p, double now, uint64_t done)
{
    struct stk_progress_mark *oldest = &p->mark[0], *newest = &p->mark[p->nmarks - 1];
    double rate = now > oldest->at_s && done > oldest->done
                      ? (double)(done - oldest->done) / (now - oldest->at_s)
                      : 0;
    if (now - newest->at_s >= MARK_EVERY_S) {
        if (p->nmarks == STK_PROGRESS_WINDOW)
            memmove(p->mark, p->mark + 1, sizeof p->mark - sizeof *p->mark);
        else
            p->nmarks++;
        p->mark[p->nmarks - 1] = (struct stk_progress_mark){.at_s = now, .done = done};
    }
    return rate;
}

/* Whole seconds: an estimate is no more precise. */
static const char *time_left(const struct amounts *a, char *buf, size_t size)
{
    double s = (double)(total_of(a) - done_of(a)) / a->rate;
    if (s < 59.5)
        snprintf(buf, size, "%.0f s", s < 1 ? 1 : s);
    else
        stk_format_duration(s, buf, size);
    return buf;
}

/* "1.20 GiB of 2.70 GiB, 34,000 samples, 512 MiB/s, 3 s left"; brief: no samples if there are
 * bytes. */
static void describe(const struct stk_progress *p, const struct amounts *a, bool brief,
                     struct stk_buf *out)
{
    char one[32], two[32];
    const char *noun = p->counted ? p->counted : "samples";
    if (a->bytes || a->bytes_total)
        stk_buf_printf(out, "%s", stk_format_size(a->bytes, one, sizeof one));
    if (a->bytes_total)
        stk_buf_printf(out, " of %s", stk_format_size(a->bytes_total, two, sizeof two));
    const char *comma = out->len ? ", " : "";
    if (a->samples_total && !a->bytes_total)
        stk_buf_printf(out, "%s%s of %s %s", comma, stk_format_count(a->samples, one, sizeof one),
                       stk_format_count(a->samples_total, two, sizeof two), noun);
    else if (a->samples && !(brief && a->bytes_total))
        stk_buf_printf(out, "%s%s %s", comma, stk_format_count(a->samples, one, sizeof one), noun);
    if (a->rate > 0 && a->by_bytes)
        stk_buf_printf(out, ", %s/s", stk_format_size((uint64_t)a->rate, one, sizeof one));
    else if (a->rate > 0)
        stk_buf_printf(out, ", %s %s/s", stk_format_count((uint64_t)a->rate, one, sizeof one), noun);
    if (a->rate > 0 && total_of(a) > done_of(a))
        stk_buf_printf(out, ", %s left", time_left(a, one, sizeof one));
    else if (a->fraction < 0)
        stk_buf_printf(out, ", %s so far",
                       stk_format_duration(a->now_s - p->phase_start_s, one, sizeof one));
}

/* The bar, padded with blanks to `width`. */
static void draw_bar(const struct stk_progress *p, double fraction, unsigned width,
                     struct stk_buf *out)
{
    size_t start = out->len;
    stk_grid_bar(fraction, width, p->utf8, out);
    size_t shown = out->fail ? width : stk_text_width((char *)out->data + start, out->len - start);
    for (; shown < width; shown++)
        stk_buf_putc(out, ' ');
}

static unsigned width_of(FILE *f)
{
    struct winsize ws;
    return ioctl(fileno(f), TIOCGWINSZ, &ws) == 0 && ws.ws_col >= 20 ? ws.ws_col : 80;
}

/* One line that never wraps: drops what does not fit, the bar first. */
static void show_bar(struct stk_progress *p, const struct amounts *a)
{
    struct stk_buf text = STK_BUF_INIT, line = STK_BUF_INIT;
    unsigned width = width_of(p->to) - 1;
    describe(p, a, width < 100, &text);
    stk_buf_printf(&line, "%s ", p->phase);
    size_t taken = line.len + text.len + 1;
    if (a->fraction >= 0) {
        size_t spare = width > taken + 5 ? width - taken - 5 : 0;
        unsigned bar = (unsigned)(spare > 32 ? 30 : spare > 2 ? spare - 2 : 0);
        if (bar >= 5) {
            stk_buf_putc(&line, '[');
            draw_bar(p, a->fraction, bar, &line);
            stk_buf_putc(&line, ']');
        }
        stk_buf_printf(&line, "%3.0f%% ", a->fraction * 100);
    }
    stk_buf_put(&line, text.data, text.len);
    struct stk_buf shown = STK_BUF_INIT;
    stk_text_escape(&shown, stk_buf_cstr(&line), line.len, width);
    fprintf(p->to, "\r%s\033[K", stk_buf_cstr(&shown));
    fflush(p->to);
    p->drawn = true;
    stk_buf_release(&text);
    stk_buf_release(&line);
    stk_buf_release(&shown);
}

static void show_line(const struct stk_progress *p, const struct amounts *a)
{
    struct stk_buf text = STK_BUF_INIT;
    describe(p, a, false, &text);
    char percent[16] = "";
    if (a->fraction >= 0)
        snprintf(percent, sizeof percent, "%.0f%%, ", a->fraction * 100);
    const char *phase = strcmp(p->phase, p->command) == 0 ? "" : p->phase;
    fprintf(p->to, "stoker: %s: %s%s%s%s\n", p->command, phase, *phase ? ": " : "", percent,
            stk_buf_cstr(&text));
    fflush(p->to);
    stk_buf_release(&text);
}

static void show(struct stk_progress *p, struct amounts *a)
{
    uint64_t done = done_of(a), total = total_of(a);
    a->fraction = !total ? -1 : done >= total ? 1 : (double)done / (double)total;
    a->rate = rate_now(p, a->now_s, done);
    if (p->bar)
        show_bar(p, a);
    else
        show_line(p, a);
    p->next_s = a->now_s + (p->bar ? BAR_EVERY_S : p->every_s);
}

int stk_progress_update(struct stk_progress *p, const char *phase, uint64_t bytes_done,
                        uint64_t bytes_total, uint64_t samples_done, uint64_t samples_total)
{
    /* If another thread is drawing, go back to work. */
    if (p->to && pthread_mutex_trylock(&p->lock) == 0) {
        struct amounts a = {.bytes = bytes_done,
                            .bytes_total = bytes_total,
                            .samples = samples_done,
                            .samples_total = samples_total,
                            .now_s = stk_now()};
        a.by_bytes = bytes_total || (!samples_total && bytes_done);
        if (!p->nmarks || strcmp(phase, p->phase) != 0)
            begin_phase(p, phase, &a);
        if (a.now_s >= p->next_s)
            show(p, &a);
        pthread_mutex_unlock(&p->lock);
    }
    return stop_signal;
}

int stk_progress_say(struct stk_progress *p, const char *text)
{
    double now = stk_now();
    if (!p->to || pthread_mutex_trylock(&p->lock) != 0)
        return stop_signal;
    if (p->next_s == 0) /* the first line comes after one interval, like all others */
        p->next_s = now + (p->bar ? BAR_EVERY_S : p->every_s);
    if (now >= p->next_s) {
        struct stk_buf b = STK_BUF_INIT;
        stk_text_escape(&b, text, strlen(text), p->bar ? width_of(p->to) - 1 : SIZE_MAX);
        if (p->bar)
            fprintf(p->to, "\r%s\033[K", stk_buf_cstr(&b));
        else
            fprintf(p->to, "stoker: %s: %s\n", p->command, stk_buf_cstr(&b));
        fflush(p->to);
        p->drawn = p->bar;
        p->next_s = now + (p->bar ? BAR_EVERY_S : p->every_s);
        stk_buf_release(&b);
    }
    pthread_mutex_unlock(&p->lock);
    return stop_signal;
}

void stk_progress_clear(struct stk_progress *p)
{
    if (!p->drawn)
        return;
    fputs("\r\033[K", p->to);
    fflush(p->to);
    p->drawn = false;
}
