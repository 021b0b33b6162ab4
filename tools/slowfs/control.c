/*
 * control.c - commands while mounted: lines written to .slowfs-control, or a file read again on
 * SIGHUP. The write returns when the rules are in force and the kernel has dropped its caches of
 * the files concerned.
 */
#include "slowfs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/units.h"

#define LONGEST (64u << 10)

struct command {
    struct command *next;
    fuse_req_t req; /* NULL: read the file again */
    size_t size;
    char text[];
};

struct control {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct command *first, **last;
    bool stop;
};

/* ---- commands ------------------------------------------------------------------------------ */

static int set_latency(struct slowfs *fs, enum op op, const char *value, struct stk_err *err)
{
    double seconds;
    int rc = stk_parse_duration(value, &seconds, err);
    if (rc == 0 && seconds > 3600)
        rc = stk_err_set(err, STK_E_USAGE, NULL, -1, "longer than an hour: \"%s\"", value);
    if (rc == 0)
        fs->pace.latency_ns[op] = (uint64_t)(seconds * 1e9);
    return rc;
}

/* "set read 5ms", "set bandwidth 200MB" */
static int set_command(struct slowfs *fs, char *line, struct stk_err *err)
{
    char *rest = NULL;
    strtok_r(line, " \t", &rest);
    const char *name = strtok_r(NULL, " \t", &rest), *value = strtok_r(NULL, " \t", &rest);
    enum op op;
    uint64_t rate;
    if (!name || !value)
        return stk_err_set(err, STK_E_USAGE, NULL, -1, "expected: set NAME VALUE");
    if (pace_op_find(name, &op))
        return set_latency(fs, op, value, err);
    int rc = stk_parse_size(value, &rate, err);
    if (rc != 0)
        return rc;
    if (strcmp(name, "bandwidth") == 0)
        fs->pace.link_Bps = rate;
    else if (strcmp(name, "client-bandwidth") == 0)
        fs->pace.client_Bps = rate;
    else
        rc = stk_err_set(err, STK_E_USAGE, NULL, -1, "nothing to set: \"%s\"", name);
    return rc;
}

/* Lines that begin with "set " go to the settings, the rest to the rules. */
static int run_lines(struct slowfs *fs, const char *text, size_t size, struct stk_err *err)
{
    struct stk_buf rules = STK_BUF_INIT;
    int rc = 0;
    if (size > LONGEST || memchr(text, '\0', size))
        return stk_err_set(err, STK_E_USAGE, NULL, -1, "not a list of commands");
    for (size_t at = 0; rc == 0 && at < size;) {
        const char *end = memchr(text + at, '\n', size - at);
        size_t len = end ? (size_t)(end - text) - at : size - at;
        char *line = strndup(text + at, len);
        if (!line)
            rc = stk_err_nomem(err, len);
        else if (strncmp(line, "set ", 4) == 0)
            rc = set_command(fs, line, err);
        else
            stk_buf_put(&rules, text + at, len);
        stk_buf_putc(&rules, '\n'); /* keeps line numbers */
        free(line);
        at += len + 1;
    }
    if (rc == 0)
        rc = stk_buf_check(&rules, err);
    if (rc == 0)
        rc = faults_command(&fs->faults, (const char *)rules.data, rules.len, err);
    stk_buf_release(&rules);
    return rc;
}

/* ---- the kernel's caches ------------------------------------------------------------------- */

struct known {
    fuse_ino_t number, parent;
    char *name;
};

static void note(struct nodes *t, struct node *node, struct known *known)
{
    char dir[PATH_MAX];
    const char *slash = strrchr(node->path, '/');
    snprintf(dir, sizeof dir, "%.*s", slash ? (int)(slash - node->path) : 0, node->path);
    struct node *parent = nodes_find_locked(t, dir);
    known->number = node_number(t, node);
    known->parent = parent ? node_number(t, parent) : FUSE_ROOT_ID;
    known->name = strdup(slash ? slash + 1 : node->path);
}

/* Nodes that match the rules. NULL: none, or out of memory. */
static struct known *list_known(struct nodes *t, const struct rule *rule, size_t nrules, size_t *n)
{
    *n = 0;
    pthread_mutex_lock(&t->lock);
    struct known *known = calloc(t->count + 1, sizeof *known);
    for (size_t i = 0; known && i < t->nbuckets; i++) {
        for (struct node *node = t->bucket[i]; node; node = node->next) {
            if (faults_match(rule, nrules, node->path)) {
                note(t, node, &known[*n]);
                *n += known[*n].name != NULL;
            }
        }
    }
    pthread_mutex_unlock(&t->lock);
    return known;
}

/* Drops pages, attributes and the name: the next access asks us. Waits for reads in progress. */
static void make_kernel_forget(struct slowfs *fs, const struct rule *rule, size_t nrules)
{
    size_t n;
    struct known *known = list_known(&fs->nodes, rule, nrules, &n);
    for (size_t i = 0; i < n; i++) {
        fuse_lowlevel_notify_inval_inode(fs->session, known[i].number, 0, 0);
        fuse_lowlevel_notify_inval_entry(fs->session, known[i].parent, known[i].name,
                                         strlen(known[i].name));
        free(known[i].name);
    }
    free(known);
}

/* The rules before and after change their files. To drop a page, the kernel waits for the read that
 * fills it: no read may be stalled meanwhile, or the writer of the command waits as long. */
static int apply(struct slowfs *fs, const char *text, size_t size, struct stk_err *err)
{
    struct rule *rule = calloc(2 * MAX_RULES, sizeof *rule);
    if (!rule)
        return stk_err_nomem(err, 2 * MAX_RULES * sizeof *rule);
    size_t n = faults_copy(&fs->faults, rule);
    faults_pass_stalls(&fs->faults, true);
    int rc = run_lines(fs, text, size, err);
    if (rc == 0) {
        n += faults_copy(&fs->faults, rule + n);
        make_kernel_forget(fs, rule, n);
    }
    faults_pass_stalls(&fs->faults, false);
    free(rule);
    return rc;
}

/* ---- the thread ---------------------------------------------------------------------------- */

int control_load(struct slowfs *fs, bool mounted, struct stk_err *err)
{
    struct stk_buf file = STK_BUF_INIT, text = STK_BUF_INIT;
    int rc = stk_read_file(fs->set.faults, LONGEST, &file, err);
    stk_buf_puts(&text, "clear\n");
    stk_buf_put(&text, file.data, rc == 0 ? file.len : 0);
    if (rc == 0)
        rc = stk_buf_check(&text, err);
    if (rc == 0)
        rc = (mounted ? apply : run_lines)(fs, (const char *)text.data, text.len, err);
    if (rc != 0 && err->offset > 0) {
        err->offset--; /* the line we put before theirs */
        snprintf(err->path, sizeof err->path, "%s", fs->set.faults);
    }
    stk_buf_release(&file);
    stk_buf_release(&text);
    return rc;
}

static void carry_out(struct slowfs *fs, struct command *command)
{
    struct stk_err err = {0};
    int rc =
        command->req ? apply(fs, command->text, command->size, &err) : control_load(fs, true, &err);
    if (rc != 0)
        fprintf(stderr, "slowfs: line %lld: %s\n", (long long)err.offset, err.what);
    if (command->req && rc == 0)
        fuse_reply_write(command->req, command->size);
    else if (command->req)
        fuse_reply_err(command->req, rc == STK_E_NOMEM ? ENOMEM : EINVAL);
    free(command);
}

static struct command *next_command(struct control *c)
{
    pthread_mutex_lock(&c->lock);
    while (!c->first && !c->stop)
        pthread_cond_wait(&c->more, &c->lock);
    struct command *command = c->first;
    if (command && !(c->first = command->next))
        c->last = &c->first;
    pthread_mutex_unlock(&c->lock);
    return command;
}

static void *control_run(void *slowfs)
{
    struct slowfs *fs = slowfs;
    struct command *command;
    while ((command = next_command(fs->control)))
        carry_out(fs, command);
    return NULL;
}

static void enqueue(struct slowfs *fs, fuse_req_t req, const char *text, size_t size)
{
    struct control *c = fs->control;
    struct command *command = malloc(sizeof *command + size);
    if (!command) {
        if (req)
            fuse_reply_err(req, ENOMEM);
        return;
    }
    *command = (struct command){.req = req, .size = size};
    if (size)
        memcpy(command->text, text, size);
    pthread_mutex_lock(&c->lock);
    *c->last = command;
    c->last = &command->next;
    pthread_cond_signal(&c->more);
    pthread_mutex_unlock(&c->lock);
}

void control_write(struct slowfs *fs, fuse_req_t req, const char *text, size_t size)
{
    enqueue(fs, req, text, size);
}

void control_reload(struct slowfs *fs)
{
    if (fs->set.faults)
        enqueue(fs, NULL, NULL, 0);
}

int control_start(struct slowfs *fs)
{
    struct control *c = calloc(1, sizeof *c);
    if (!c)
        return ENOMEM;
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->more, NULL);
    c->last = &c->first;
    fs->control = c;
    int rc = pthread_create(&c->thread, NULL, control_run, fs);
    if (rc != 0) {
        free(c);
        fs->control = NULL;
    }
    return rc;
}

void control_stop(struct slowfs *fs)
{
    struct control *c = fs->control;
    if (!c)
        return;
    pthread_mutex_lock(&c->lock);
    c->stop = true;
    pthread_cond_signal(&c->more);
    pthread_mutex_unlock(&c->lock);
    pthread_join(c->thread, NULL);
    pthread_mutex_destroy(&c->lock);
    pthread_cond_destroy(&c->more);
    free(c);
}
