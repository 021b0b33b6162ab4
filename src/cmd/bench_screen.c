/* bench_screen.c - the live screen of `stoker bench`. */
#include "cmd/bench.h"

#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "cmd/terminal.h"
#include "result/grid.h"
#include "report/live/live.h"

#define EVERY_S 1.0

/* ---- the process that draws ---------------------------------------------------------------- */

struct drawing {
    struct stk_run *run;
    const char *path;
};

/* True when the benchmark says so, or is gone. */
static bool is_over(void)
{
    struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
    return poll(&p, 1, 0) != 0;
}

static void draw(const struct drawing *d, struct stk_look_watch *live)
{
    struct stk_buf b = STK_BUF_INIT;
    struct stk_look_frame f = {
        .columns = stk_terminal_columns(), .rows = stk_terminal_rows(), .utf8 = stk_term_utf8()};
    stk_look_text(stk_look_last(live), &f, &b);
    stk_terminal_draw(&b, "Ctrl-C: stop", stk_in_colour(d->run, stdout));
    stk_buf_release(&b);
}

/* Standard input is the pipe from the benchmark. A run of a moment gets no screen. */
static int draw_all(void *user)
{
    struct drawing *d = user;
    struct stk_look_watch live = {0};
    bool open = false;
    signal(SIGINT, SIG_IGN); /* the benchmark ends first */
    signal(SIGTERM, SIG_IGN);
    (void)stk_terminal_key(EVERY_S, STDIN_FILENO);
    int rc = stk_look_open(&live, d->path, NULL, NULL);
    while (!rc && !is_over()) {
        rc = stk_look_again(&live, NULL);
        if (rc || stk_look_is_over(stk_look_last(&live)))
            break;
        if (!open)
            stk_terminal_open(false);
        open = true;
        do
            draw(d, &live);
        while (stk_terminal_key(EVERY_S, STDIN_FILENO) == STK_KEY_REDRAW);
    }
    stk_terminal_close();
    stk_look_close(&live);
    return 0;
}

/* Of this process; the ranks have copies that nobody asks. */
static struct stk_child *drawer;

#define LEAVE_MS 1000

/* Also from the thread of attend.c, while the benchmark waits for its storage. */
static void leave_screen(void)
{
    if (!drawer || !write(drawer->pipe[0], "", 1))
        return;
    for (int ms = 0; ms < LEAVE_MS && !stk_child_has_ended(drawer); ms += 10)
        (void)poll(NULL, 0, 10);
}

static void start_drawer(struct stk_run *run, struct stk_bench_screen *s)
{
    struct drawing d = {.run = run, .path = s->board.path};
    s->drawer = (struct stk_child){
        .inside = draw_all, .user = &d, .fd = {STK_FD_PIPE, STK_FD_KEEP, STK_FD_KEEP}};
    fflush(NULL);
    if (stk_child_start(&s->drawer) != 0)
        s->drawer.pid = 0;
    drawer = s->drawer.pid ? &s->drawer : NULL;
    atomic_store(&run->leave_screen, drawer ? leave_screen : NULL);
}

/* ---- for the benchmark --------------------------------------------------------------------- */

/* mpirun of Open MPI gives its ranks a terminal as standard output, and nothing behind it. */
static bool has_terminal(const struct stk_run *run)
{
    const struct stk_common *c = run->common;
    return !c->quiet && !(c->json && strcmp(c->json, "-") == 0) && stk_terminal_can(false) &&
           isatty(STDERR_FILENO);
}

/* A board that cannot be made is an error only if the user named it. */
static int open_board(struct stk_run *run, struct stk_bench_screen *s, const char *status,
                      const char *data, const struct stk_workload *w, bool stoker, bool first)
{
    char *inside = status ? strdup(status) : stk_path_join(data, STK_BENCH_BOARD);
    struct stk_err why = {0};
    if (!inside)
        return stk_err_nomem(&run->err, strlen(data));
    int rc = stk_bench_board_open(&s->board, inside, w, stoker, first, &why);
    free(inside);
    if (rc && status)
        run->err = why;
    else if (rc && first && !run->common->quiet && has_terminal(run))
        stk_complain("bench", "`stoker watch` cannot show this run: its --data takes no status; "
                              "name another folder with --status");
    return status ? rc : 0;
}

int stk_bench_screen_open(struct stk_run *run, struct stk_bench_screen *s, const char *status,
                          const char *data, const struct stk_workload *w, bool stoker, bool first)
{
    *s = (struct stk_bench_screen){.board = STK_BENCH_BOARD_INIT};
    if (status && strcmp(status, "none") == 0)
        return 0;
    int rc = open_board(run, s, status, data, w, stoker, first);
    if (!rc && first && s->board.dirfd >= 0 && has_terminal(run))
        start_drawer(run, s);
    return rc;
}

bool stk_bench_screen_draws(const struct stk_bench_screen *s)
{
    return s->drawer.pid > 0;
}

/* A byte: ranks that hang may still hold the pipe. */
void stk_bench_screen_close(struct stk_bench_screen *s)
{
    if (s->drawer.pid > 0) {
        (void)!write(s->drawer.pipe[0], "", 1);
        drawer = NULL;
        stk_child_hang_up(&s->drawer);
        (void)stk_child_wait(&s->drawer);
    }
    stk_bench_board_close(&s->board);
}
