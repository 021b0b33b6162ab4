/* watch_folder.c - `stoker watch DIR`: a running profile, benchmark, staging or study, live. */
#include <math.h>

#include "base/file.h"
#include "base/pool.h"
#include "cmd/terminal.h"
#include "cmd/watch.h"
#include "result/grid.h"
#include "report/live/live.h"

#define PART_OF_TIME 4 /* looking takes at most this part of the time: a large profile is slow */

struct view {
    struct stk_run *run;
    const struct stk_watch_folder *how;
    struct stk_look_watch live;
    bool terminal, quit;
    double next_line_s, cost_s; /* cost: of the last look */
    uint64_t samples;
};

static int look(struct view *v)
{
    double begin = stk_now();
    int rc = stk_look_again(&v->live, &v->run->err);
    v->cost_s = stk_now() - begin;
    v->samples++;
    return rc;
}

/* ---- showing ------------------------------------------------------------------------------- */

static void draw(const struct view *v)
{
    struct stk_buf b = STK_BUF_INIT;
    struct stk_look_frame f = {
        .columns = stk_terminal_columns(), .rows = stk_terminal_rows(), .utf8 = stk_term_utf8()};
    stk_look_text(stk_look_last(&v->live), &f, &b);
    stk_terminal_draw(&b, "q: quit", stk_in_colour(v->run, stdout));
    stk_buf_release(&b);
}

/* The first look has no rates, and no line unless it is the last. */
static void print_line(struct view *v)
{
    const struct stk_look *l = stk_look_last(&v->live);
    struct stk_buf b = STK_BUF_INIT;
    if (stk_look_is_over(l) || v->samples < 2 || stk_now() < v->next_line_s - v->how->every_s / 2)
        return;
    v->next_line_s = stk_now() + v->run->common->progress_every_s;
    stk_look_sentence(l, &b);
    stk_say(v->run, "%s\n", stk_buf_cstr(&b));
    fflush(stdout);
    stk_buf_release(&b);
}

static void show(struct view *v)
{
    if (v->how->once)
        return;
    if (v->terminal)
        draw(v);
    else
        print_line(v);
}

/* ---- the loop ------------------------------------------------------------------------------ */

static void wait_turn(struct view *v)
{
    double until = stk_now() + fmax(v->how->every_s, (PART_OF_TIME - 1) * v->cost_s);
    while (!v->quit && !stk_stop_signal() && stk_now() < until) {
        double left = fmin(until - stk_now(), 0.2);
        if (!v->terminal) {
            stk_nap(fmax(left, 0.001));
            continue;
        }
        int key = stk_terminal_key(left, -1);
        v->quit = key == 'q' || key == 'Q';
        if (key == STK_KEY_REDRAW)
            draw(v);
    }
}

/* Rates need two looks. */
static bool enough(const struct view *v)
{
    uint64_t most = v->how->once ? 2 : v->how->samples ? v->how->samples + 1 : UINT64_MAX;
    return v->quit || stk_look_is_over(stk_look_last(&v->live)) || v->samples >= most;
}

static int follow(struct view *v)
{
    int rc = look(v);
    if (!rc && v->terminal)
        stk_terminal_open(true);
    for (; !rc; rc = look(v)) {
        show(v);
        if (enough(v))
            break;
        wait_turn(v);
        if (stk_stop_signal())
            rc = stk_err_set(&v->run->err, STK_E_STOPPED, NULL, -1, "stopped");
        if (rc || v->quit)
            break;
    }
    stk_terminal_close();
    return rc;
}

/* The last look stays on the terminal. */
static int conclude(struct view *v)
{
    const struct stk_look *l = stk_look_last(&v->live);
    struct stk_buf b = STK_BUF_INIT;
    struct stk_look_frame f = {.columns = stk_columns(v->run), .utf8 = stk_term_utf8()};
    stk_look_json(l, &v->run->json);
    if (!v->quit)
        stk_look_text(l, &f, &b);
    int rc = stk_say_text(v->run, &b);
    return rc ? rc : l->state == STK_LOOK_DIED ? STK_EXIT_PROBLEM : STK_EXIT_DONE;
}

int stk_watch_folder(struct stk_run *run, const char *path, const struct stk_watch_folder *how)
{
    struct view v = {.run = run, .how = how};
    const struct stk_common *c = run->common;
    v.terminal = !how->once && !c->json && !c->quiet && stk_terminal_can(true);
    v.next_line_s = stk_now() + c->progress_every_s;
    int rc = stk_look_open(&v.live, path, how->trust, &run->err);
    rc = rc ? rc : follow(&v);
    rc = rc ? rc : conclude(&v);
    stk_look_close(&v.live);
    return rc;
}
