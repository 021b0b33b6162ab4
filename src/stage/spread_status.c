/*
 * spread_status.c - a file per node in a folder that all nodes see. A launcher may kill every rank
 * when one dies: what is known about each then stands in these files.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/pool.h"
#include "host/alive.h"
#include "stage/spread_priv.h"

#define EVERY_S  5.0
#define TEXT_MAX (64u << 10)

struct spread_status {
    char *dir;
    int fd;
    char name[32];
    double written;
};

static void name_of(uint32_t node, char name[32])
{
    snprintf(name, 32, "node-%04u.json", (unsigned)node);
}

int stk_status_begin(const char *dir, uint32_t node, const struct stk_spread_node *n,
                     struct spread_status **out, struct stk_err *err)
{
    *out = NULL;
    if (!dir)
        return 0;
    struct spread_status *s = calloc(1, sizeof *s);
    if (!s || !(s->dir = strdup(dir))) {
        free(s);
        return stk_err_nomem(err, sizeof *s);
    }
    int rc = stk_own_folder(dir, STK_OWN_MAKE | STK_OWN_PRIVATE, &s->fd, err);
    if (rc) {
        free(s->dir);
        free(s);
        return rc;
    }
    name_of(node, s->name);
    *out = s;
    stk_status_write(s, n, true);
    return 0;
}

/* What all ranks of one launch have in common, and no other launch has. */
static void name_run(char run[32])
{
    static const char *const variable[] = {"SLURM_JOB_ID",   "SLURM_STEP_ID",      "PMIX_NAMESPACE",
                                           "PMI_JOBID",      "PMI_FD_NAME",        "MASTER_PORT",
                                           "MASTER_ADDR",    "TORCHELASTIC_RUN_ID"};
    struct stk_hash h;
    stk_hash_init(&h);
    for (size_t i = 0; i < sizeof variable / sizeof *variable; i++) {
        const char *value = getenv(variable[i]);
        value = value ? value : "";
        stk_hash_update(&h, value, strlen(value) + 1);
    }
    snprintf(run, 32, "%016llx", (unsigned long long)stk_hash_final(&h));
}

static void write_node(struct stk_jw *w, const struct stk_spread_node *n)
{
    struct stk_alive self; /* for `stoker watch` */
    char run[32];
    stk_alive_self(&self);
    name_run(run);
    stk_jw_open(w, '{');
    stk_jw_put_str(w, "node", n->name);
    stk_jw_put_u64(w, "rank", n->rank);
    stk_jw_put_u64(w, "ranks", n->ranks);
    stk_jw_put_str(w, "run", run);
    stk_alive_put(&self, w);
    stk_jw_put_str(w, "phase", stk_spread_phase_name(n->phase));
    stk_jw_put_u64(w, "wanted_bytes", n->wanted);
    stk_jw_put_u64(w, "there_bytes", n->there);
    stk_jw_put_u64(w, "read_bytes", n->read);
    stk_jw_put_u64(w, "sent_bytes", n->sent);
    stk_jw_put_u64(w, "received_bytes", n->received);
    stk_jw_put_u64(w, "written_bytes", n->written);
    stk_jw_put_f64(w, "read_s", n->read_s);
    stk_jw_put_f64(w, "seconds", n->seconds);
    stk_jw_put_str(w, "path", n->path);
    stk_jw_put_str(w, "error", n->what);
    stk_jw_put_u64(w, "updated", (uint64_t)time(NULL));
    stk_jw_close(w, '}');
}

/* A status that cannot be written does not stop the copy. */
void stk_status_write(struct spread_status *s, const struct stk_spread_node *n, bool now)
{
    struct stk_buf b = STK_BUF_INIT;
    struct stk_jw w;
    if (!s || (!now && stk_now() - s->written < EVERY_S))
        return;
    s->written = stk_now();
    stk_jw_init(&w, &b, true);
    write_node(&w, n);
    stk_buf_putc(&b, '\n');
    if (!b.fail)
        (void)stk_write_file_at(s->fd, s->name, b.data, b.len, STK_PRIVATE, s->dir, NULL);
    stk_buf_release(&b);
}

static const char *text_of(const struct stk_jval *o, const char *key)
{
    const struct stk_jval *v = stk_json_get(o, key);
    return v && v->type == STK_JSTR ? v->str : NULL;
}

static void copy_text(const struct stk_jval *o, const char *key, char *to, size_t size)
{
    const char *text = text_of(o, key);
    if (text)
        snprintf(to, size, "%s", text);
}

static uint64_t number(const struct stk_jval *o, const char *key)
{
    const struct stk_jval *v = stk_json_get(o, key);
    return v && v->type == STK_JINT && v->i > 0 ? (uint64_t)v->i : 0;
}

static double real(const struct stk_jval *o, const char *key)
{
    const struct stk_jval *v = stk_json_get(o, key);
    return v && (v->type == STK_JINT || v->type == STK_JFLOAT) ? v->f : 0;
}

static void take_file(const struct stk_jval *o, struct stk_spread_node *n)
{
    char run[32] = "", ours[32];
    copy_text(o, "run", run, sizeof run);
    name_run(ours);
    if (strcmp(run, ours) != 0)
        return; /* an earlier run left it */
    copy_text(o, "node", n->name, sizeof n->name);
    n->ranks = (uint32_t)number(o, "ranks");
    n->updated = number(o, "updated");
    n->phase = stk_spread_phase_of(text_of(o, "phase"));
    copy_text(o, "path", n->path, sizeof n->path);
    copy_text(o, "error", n->what, sizeof n->what);
    n->wanted = number(o, "wanted_bytes");
    n->there = number(o, "there_bytes");
    n->read = number(o, "read_bytes");
    n->sent = number(o, "sent_bytes");
    n->received = number(o, "received_bytes");
    n->written = number(o, "written_bytes");
    n->read_s = real(o, "read_s");
    n->seconds = real(o, "seconds");
}

void stk_status_read(struct spread_status *s, struct stk_spread_node *node, uint32_t nodes)
{
    for (uint32_t i = 0; s && i < nodes; i++) {
        struct stk_buf b = STK_BUF_INIT;
        struct stk_arena a = STK_ARENA_INIT;
        struct stk_jval *o;
        char name[32];
        name_of(i, name);
        if (stk_read_file_at(s->fd, name, O_NOFOLLOW, TEXT_MAX, &b, s->dir, NULL) == 0 &&
            stk_json_parse(&a, (const char *)b.data, b.len, &o, NULL) == 0 && o->type == STK_JOBJ)
            take_file(o, &node[i]);
        stk_arena_release(&a);
        stk_buf_release(&b);
    }
}

void stk_status_end(struct spread_status *s, uint32_t nodes, bool remove)
{
    char name[32];
    if (!s)
        return;
    if (remove)
        (void)stk_unlink_at(s->fd, s->name, s->dir, NULL);
    for (uint32_t i = 0; i < nodes && remove; i++) {
        name_of(i, name);
        (void)stk_unlink_at(s->fd, name, s->dir, NULL);
    }
    close(s->fd);
    int parent;
    const char *last;
    if (remove && stk_open_parent(s->dir, &parent, &last, NULL) == 0) {
        (void)stk_rmdir_at(parent, last); /* stays if it holds anything else */
        close(parent);
    }
    free(s->dir);
    free(s);
}
