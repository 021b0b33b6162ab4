/* beacon.c - see beacon.h. */
#include "host/beacon.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/pool.h"
#include "host/proc.h"
#include "host/root.h"

/* ---- which process --------------------------------------------------------------------------- */

static uint64_t pid_space(void)
{
    struct stat st;
    return stat("/proc/self/ns/pid", &st) == 0 ? (uint64_t)st.st_ino : 0;
}

static void find_machine(struct stk_alive *a)
{
    if (gethostname(a->host, sizeof a->host - 1) != 0)
        a->host[0] = '\0';
    stk_host_line("/proc/sys/kernel/random/boot_id", a->boot, sizeof a->boot);
    a->space = pid_space();
}

/* False: there is no such process, or it only waits to be reaped. */
static bool find_process(pid_t pid, uint64_t *start)
{
    struct stk_proc_stat st;
    int proc;
    if (stk_proc_open(&proc, NULL) != 0)
        return false;
    bool there = stk_proc_stat(proc, pid, &st) && st.state != 'Z' && st.state != 'X';
    if (there)
        *start = st.start;
    close(proc);
    return there;
}

void stk_alive_self(struct stk_alive *a)
{
    *a = (struct stk_alive){.pid = getpid()};
    find_machine(a);
    (void)find_process(getpid(), &a->start);
}

const struct stk_jfield stk_alive_fields[] = {
    {STK_JFIELD(CHARS, "host", struct stk_alive, host)},
    {STK_JFIELD(UNSIGNED, "pid", struct stk_alive, pid), .max = INT32_MAX},
    {STK_JFIELD(UNSIGNED, "pid_space", struct stk_alive, space)},
    {STK_JFIELD(CHARS, "boot_id", struct stk_alive, boot)},
    {STK_JFIELD(UNSIGNED, "start_ticks", struct stk_alive, start)},
    {0},
};

void stk_alive_get(const struct stk_jval *o, struct stk_alive *a)
{
    *a = (struct stk_alive){0};
    if (stk_jfields_read(stk_alive_fields, o, NULL, NULL, a, NULL))
        *a = (struct stk_alive){0};
}

enum stk_life stk_alive_check(const struct stk_alive *a)
{
    struct stk_alive here = {0};
    uint64_t start = 0;
    find_machine(&here);
    if (!a->pid || a->pid > INT32_MAX || !a->start || !a->boot[0])
        return STK_LIFE_UNKNOWN;
    if (strcmp(a->boot, here.boot) != 0)
        return a->host[0] && strcmp(a->host, here.host) == 0 ? STK_LIFE_GONE : STK_LIFE_UNKNOWN;
    if (a->space != here.space)
        return STK_LIFE_UNKNOWN;
    return find_process((pid_t)a->pid, &start) && start == a->start ? STK_LIFE_RUNS : STK_LIFE_GONE;
}

#define KIND    "stoker-status"
#define VERSION 1

/* ---- writing ------------------------------------------------------------------------------- */

static double real_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void write_text(const struct stk_beacon *b, bool ended, struct stk_buf *out)
{
    struct stk_jw w;
    stk_jw_init(&w, out, false);
    stk_jw_open(&w, '{');
    stk_jw_put_str(&w, "kind", KIND);
    stk_jw_put_u64(&w, "version", VERSION);
    stk_jw_put_str(&w, "command", b->command);
    stk_jw_put_str(&w, "state", ended ? "ended" : "running");
    stk_jfields_put(stk_alive_fields, &b->self, &w);
    stk_jw_put_f64(&w, "started_s", b->started_s);
    stk_jw_put_f64(&w, "updated_s", real_now());
    stk_jw_key(&w, "now");
    stk_jw_open(&w, '{');
    b->put(b->user, &w);
    stk_jw_close(&w, '}');
    stk_jw_close(&w, '}');
    stk_buf_putc(out, '\n');
}

/* The temporary name has our pid: two processes never write the same file. */
static bool replace(const struct stk_beacon *b, const struct stk_buf *text)
{
    char tmp[128];
    snprintf(tmp, sizeof tmp, "%.90s.partial.%ld", b->name, (long)b->self.pid);
    (void)stk_unlink_at(b->dirfd, tmp, tmp, NULL); /* of a killed process with our pid */
    int fd = stk_create_at(b->dirfd, tmp, b->mode ? b->mode : (mode_t)STK_PRIVATE);
    if (fd < 0)
        return false;
    bool good = stk_write_full(fd, text->data, text->len, tmp, NULL) == 0;
    good = close(fd) == 0 && good;
    good = good && stk_rename_at(b->dirfd, tmp, b->dirfd, b->name) == 0;
    if (!good)
        (void)stk_unlink_at(b->dirfd, tmp, tmp, NULL);
    return good;
}

static void publish(struct stk_beacon *b, bool ended)
{
    struct stk_buf text = STK_BUF_INIT;
    write_text(b, ended, &text);
    b->failed = text.fail || text.len > STK_BEACON_MAX || !replace(b, &text);
    stk_buf_release(&text);
}

void stk_beacon_begin(struct stk_beacon *b, int dirfd)
{
    b->started_s = real_now();
    b->next_s = 0;
    stk_alive_self(&b->self);
    b->dirfd = fcntl(dirfd, F_DUPFD_CLOEXEC, 3);
    stk_beacon_tick(b, true);
}

void stk_beacon_tick(struct stk_beacon *b, bool now)
{
    if (b->dirfd < 0 || (!now && stk_now() < b->next_s))
        return;
    publish(b, false);
    b->next_s = stk_now() + b->every_s;
}

void stk_beacon_end(struct stk_beacon *b, bool keep)
{
    if (b->dirfd < 0)
        return;
    if (keep)
        publish(b, true);
    else
        (void)stk_unlink_at(b->dirfd, b->name, b->name, NULL);
    close(b->dirfd);
    b->dirfd = -1;
}

/* ---- reading ------------------------------------------------------------------------------- */

double stk_beacon_f64(const struct stk_jval *o, const char *key)
{
    const struct stk_jval *v = o ? stk_json_get(o, key) : NULL;
    bool number = v && (v->type == STK_JINT || v->type == STK_JFLOAT);
    return number && isfinite(v->f) ? v->f : NAN;
}

uint64_t stk_beacon_u64(const struct stk_jval *o, const char *key)
{
    const struct stk_jval *v = o ? stk_json_get(o, key) : NULL;
    return v && v->type == STK_JINT && v->i > 0 ? (uint64_t)v->i : 0;
}

const char *stk_beacon_text(const struct stk_jval *o, const char *key)
{
    const struct stk_jval *v = o ? stk_json_get(o, key) : NULL;
    return v && v->type == STK_JSTR ? v->str : "";
}

static double time_of(const struct stk_jval *o, const char *key)
{
    double v = stk_beacon_f64(o, key);
    return v > 0 && v < 1e12 ? v : 0;
}

int stk_beacon_parse(struct stk_arena *arena, const char *text, size_t len,
                     struct stk_beacon_seen *out, struct stk_err *err)
{
    struct stk_jval *o;
    int rc = stk_json_parse(arena, text, len, &o, err);
    if (rc)
        return rc;
    if (o->type != STK_JOBJ || strcmp(stk_beacon_text(o, "kind"), KIND) != 0)
        return stk_err_set(err, STK_E_CORRUPT, NULL, -1, "not a status file of stoker");
    if (stk_beacon_u64(o, "version") != VERSION)
        return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                           "a status file of another version of stoker: use that version");
    *out = (struct stk_beacon_seen){.now = stk_json_get(o, "now")};
    if (!out->now || out->now->type != STK_JOBJ)
        return stk_err_set(err, STK_E_CORRUPT, NULL, -1, "a status file without figures");
    snprintf(out->command, sizeof out->command, "%s", stk_beacon_text(o, "command"));
    out->ended = strcmp(stk_beacon_text(o, "state"), "ended") == 0;
    stk_alive_get(o, &out->who);
    out->started_s = time_of(o, "started_s");
    out->updated_s = time_of(o, "updated_s");
    return 0;
}

int stk_beacon_read(struct stk_arena *arena, int dirfd, const char *name, const char *path,
                    struct stk_beacon_seen *out, struct stk_err *err)
{
    struct stk_buf b = STK_BUF_INIT;
    char *at = stk_path_join(path, name);
    int rc = at ? stk_read_file_at(dirfd, name, O_NOFOLLOW, STK_BEACON_MAX, &b, at, err)
                : stk_err_nomem(err, strlen(name));
    rc = rc ? rc : stk_beacon_parse(arena, stk_buf_cstr(&b), b.len, out, err);
    if (rc)
        stk_err_at(err, rc, at ? at : name);
    stk_buf_release(&b);
    free(at);
    return rc;
}
