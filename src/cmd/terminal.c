/* terminal.c - see terminal.h. */
#include "cmd/terminal.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/text.h"

/* The other screen, no cursor, no wrapping; and back. */
#define ENTER "\033[?1049h\033[?25l\033[?7l"
#define LEAVE "\033[0m\033[?7h\033[?25h\033[?1049l"

/* One terminal per process; used by signal handlers. */
static struct {
    volatile sig_atomic_t open, keys, changed, suspended, stops;
    struct termios before, raw;
    struct sigaction stop[2]; /* of SIGINT and SIGTERM, from before */
} t;

static const int fatal[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGQUIT, SIGHUP};
#define FATAL (sizeof fatal / sizeof *fatal)

/* Both are safe in a handler. */
static void enter(void)
{
    if (t.keys)
        tcsetattr(STDIN_FILENO, TCSANOW, &t.raw);
    (void)!write(STDOUT_FILENO, ENTER, sizeof ENTER - 1);
}

static void leave(void)
{
    (void)!write(STDOUT_FILENO, LEAVE, sizeof LEAVE - 1);
    if (t.keys)
        tcsetattr(STDIN_FILENO, TCSANOW, &t.before);
}

static void die(int sig)
{
    if (t.open)
        leave();
    signal(sig, SIG_DFL);
    raise(sig);
}

/* The first asks to stop, as without a screen; the second ends the process. */
static void on_stop(int sig)
{
    const struct sigaction *old = &t.stop[sig == SIGTERM];
    bool handled = old->sa_handler != SIG_DFL && old->sa_handler != SIG_IGN;
    if (t.stops++ || (!handled && old->sa_handler != SIG_IGN))
        die(sig);
    else if (handled)
        old->sa_handler(sig);
}

static void on_change(int sig)
{
    t.changed = 1;
    t.suspended |= sig == SIGTSTP;
}

/* No SA_RESTART: a wait for a key ends. */
static void handle(int sig, void (*what)(int), struct sigaction *old)
{
    struct sigaction act = {.sa_handler = what, .sa_flags = SA_NODEFER};
    sigemptyset(&act.sa_mask);
    sigaction(sig, &act, old);
}

static bool is_terminal(int fd)
{
    const char *term = getenv("TERM");
    return isatty(fd) && term && *term && strcmp(term, "dumb") != 0;
}

bool stk_terminal_can(bool keys)
{
    return is_terminal(STDOUT_FILENO) && (!keys || is_terminal(STDIN_FILENO));
}

void stk_terminal_open(bool keys)
{
    t.keys = keys && tcgetattr(STDIN_FILENO, &t.before) == 0;
    t.raw = t.before;
    t.raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    t.raw.c_cc[VMIN] = 0;
    t.raw.c_cc[VTIME] = 0;
    fflush(stdout);
    handle(SIGINT, on_stop, &t.stop[0]);
    handle(SIGTERM, on_stop, &t.stop[1]);
    handle(SIGWINCH, on_change, NULL);
    handle(SIGTSTP, on_change, NULL);
    for (size_t i = 0; i < FATAL; i++)
        handle(fatal[i], die, NULL);
    t.open = 1;
    enter();
}

void stk_terminal_close(void)
{
    if (!t.open)
        return;
    fflush(stdout);
    leave();
    t.open = 0;
    for (size_t i = 0; i < FATAL; i++)
        signal(fatal[i], SIG_DFL);
    signal(SIGWINCH, SIG_DFL);
    signal(SIGTSTP, SIG_DFL);
    sigaction(SIGINT, &t.stop[0], NULL);
    sigaction(SIGTERM, &t.stop[1], NULL);
}

/* ---- drawing ------------------------------------------------------------------------------- */

static struct winsize size(void)
{
    struct winsize ws = {0};
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &ws) != 0 || ws.ws_col < 20 || ws.ws_row < 4)
        return (struct winsize){.ws_col = ws.ws_col ? 20 : 80, .ws_row = ws.ws_row ? 4 : 24};
    return ws;
}

unsigned stk_terminal_columns(void)
{
    return size().ws_col;
}

unsigned stk_terminal_rows(void)
{
    return size().ws_row - 1u;
}

/* Clears line by line, then the rest of the screen, so that nothing flickers. A line is cleared before
 * its text: after a text that fills it, the cursor is still on the last letter. */
void stk_terminal_draw(struct stk_buf *text, const char *foot, bool colour)
{
    struct stk_buf out = STK_BUF_INIT;
    const char *p = stk_buf_cstr(text);
    stk_buf_puts(&out, "\033[H");
    for (unsigned rows = stk_terminal_rows(); *p && rows; rows--) {
        size_t n = strcspn(p, "\n");
        stk_buf_puts(&out, "\033[K");
        stk_style_apply(p, n, colour, &out);
        stk_buf_puts(&out, "\r\n");
        p += n + (p[n] == '\n');
    }
    stk_buf_printf(&out, "\033[J%s", foot);
    fwrite(out.data, 1, out.fail ? 0 : out.len, stdout);
    fflush(stdout);
    stk_buf_release(&out);
}

/* ---- keys ---------------------------------------------------------------------------------- */

/* Stops as Ctrl-Z asks, with the terminal as it was, until it is continued. */
static void suspend(void)
{
    t.suspended = 0;
    leave();
    raise(SIGSTOP);
    enter();
}

static int take_change(void)
{
    if (t.suspended)
        suspend();
    int key = t.changed ? STK_KEY_REDRAW : STK_KEY_NONE;
    t.changed = 0;
    return key;
}

int stk_terminal_key(double seconds, int also)
{
    struct pollfd p[2] = {{.fd = t.keys ? STDIN_FILENO : -1, .events = POLLIN},
                          {.fd = also, .events = POLLIN}};
    char c = 0;
    (void)poll(p, 2, seconds > 0 ? (int)(seconds * 1000) + 1 : 0);
    int key = take_change();
    if (!key && p[0].revents && read(STDIN_FILENO, &c, 1) == 1)
        key = c == STK_KEY_REDRAW ? STK_KEY_NONE : (unsigned char)c;
    return key;
}
