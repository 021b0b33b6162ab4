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

struct status {
    struct stk_spread_node n;
    char run[32];
};
static const struct stk_jfield status_fields[] = {
#define NODE(type, name, member) STK_JFIELD(type, name, struct status, n.member)
    {NODE(CHARS, "node", name), .cut = true},
    {NODE(UNSIGNED, "rank", rank)},
    {NODE(UNSIGNED, "ranks", ranks)},
    {STK_JFIELD(CHARS, "run", struct status, run), .required = true},
    {NODE(WORD, "phase", phase), .words = stk_spread_phases},
    {NODE(UNSIGNED, "wanted_bytes", wanted)},
    {NODE(UNSIGNED, "there_bytes", there)},
    {NODE(UNSIGNED, "read_bytes", read)},
    {NODE(UNSIGNED, "sent_bytes", sent)},
    {NODE(UNSIGNED, "received_bytes", received)},
    {NODE(UNSIGNED, "written_bytes", written)},
    {NODE(REAL, "read_s", read_s)},
    {NODE(REAL, "seconds", seconds)},
    {NODE(CHARS, "path", path), .cut = true},
    {NODE(CHARS, "error", what), .cut = true},
    {NODE(UNSIGNED, "updated", updated)},
#undef NODE
    {0},
};

/* A status that cannot be written does not stop the copy. */
void stk_status_write(struct spread_status *s, const struct stk_spread_node *n, bool now)
{
    struct status status = {.n = *n};
    struct stk_buf b = STK_BUF_INIT;
    struct stk_alive self; /* for `stoker watch` */
    struct stk_jw w;
    if (!s || (!now && stk_now() - s->written < EVERY_S))
        return;
    s->written = stk_now();
    status.n.updated = (uint64_t)time(NULL);
    name_run(status.run);
    stk_alive_self(&self);
    stk_jw_init(&w, &b, true);
    stk_jw_open(&w, '{');
    stk_jfields_put(status_fields, &status, &w);
    stk_jfields_put(stk_alive_fields, &self, &w);
    stk_jw_close(&w, '}');
    stk_buf_putc(&b, '\n');
    if (!b.fail)
        (void)stk_write_file_at(s->fd, s->name, b.data, b.len, STK_PRIVATE, s->dir, NULL);
    stk_buf_release(&b);
}

void stk_status_read(struct spread_status *s, struct stk_spread_node *node, uint32_t nodes)
{
    char ours[32];
    name_run(ours);
    for (uint32_t i = 0; s && i < nodes; i++) {
        struct stk_buf b = STK_BUF_INIT;
        struct stk_arena a = STK_ARENA_INIT;
        struct status got = {.n = node[i]};
        char name[32];
        name_of(i, name);
        if (stk_read_file_at(s->fd, name, O_NOFOLLOW, TEXT_MAX, &b, s->dir, NULL) == 0 &&
            stk_jfields_parse(status_fields, stk_buf_cstr(&b), b.len, NULL, &a, &got, NULL) == 0 &&
            strcmp(got.run, ours) == 0) /* else an earlier run left it */
            node[i] = got.n;
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
