/*
 * load_state.c - where a run stopped: read at its start, written at its end. The states of all
 * ranks at one moment are merged, to resume with another number of ranks.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "cmd/load.h"
#include "dataset/trust.h"

#define STATE_MAX ((size_t)64 << 20) /* more than a million ranks with refills need */

/* Reads the states in a file, one per line, into `all`. */
static int read_states(const struct stk_trust *trust, const char *path, struct stk_buf *all,
                       struct stk_err *err)
{
    struct stk_buf text = STK_BUF_INIT;
    int rc = stk_trust_read(trust, path, STATE_MAX, &text, err);
    const char *p = rc ? "" : stk_buf_cstr(&text);
    size_t found = 0;
    while (!rc && *p) {
        size_t n = strcspn(p, "\n");
        struct stk_state one;
        if (n && p[strspn(p, " \t\r")] != '\n') {
            rc = stk_state_read(p, n, &one, err);
            if (!rc)
                stk_buf_put(all, &one, sizeof one);
            found += !rc;
        }
        p += n + (p[n] == '\n');
    }
    if (!rc && !found)
        rc = stk_err_set(err, STK_E_CORRUPT, path, -1, "holds no state");
    stk_buf_release(&text);
    return rc ? stk_err_at(err, rc, path) : stk_buf_check(all, err);
}

static int collect(const struct stk_load *l, const struct stk_trust *trust, struct stk_buf *all,
                   struct stk_err *err)
{
    const struct stk_load_settings *s = l->s;
    if (s->state && stk_may_exist(AT_FDCWD, s->state))
        return read_states(trust, s->state, all, err);
    for (const char **path = s->from; path && *path; path++) {
        int rc = read_states(trust, *path, all, err);
        if (rc)
            return rc;
    }
    return 0;
}

/* The state must not silently override what the user asked for. */
static int check_against(const struct stk_load *l, const struct stk_state *st)
{
    const struct stk_opts *o = &l->run->opts;
    struct stk_err *err = &l->run->err;
    if (stk_opts_given(o, "seed") && l->s->loader.seed != st->seed)
        return stk_err_set(err, STK_E_USAGE, NULL, -1,
                           "--seed %llu: the state is from a run with --seed %llu",
                           (unsigned long long)l->s->loader.seed, (unsigned long long)st->seed);
    if (stk_opts_given(o, "shuffle") && l->s->loader.shuffle != st->shuffle)
        return stk_err_set(err, STK_E_USAGE, NULL, -1,
                           "--shuffle %s: the state is from a run with --shuffle %s",
                           stk_shuffle_name(l->s->loader.shuffle), stk_shuffle_name(st->shuffle));
    return 0;
}

/* Merges the states of all ranks into one. */
static int merge(struct stk_load *l, const struct stk_state *state, size_t n, char **text)
{
    struct stk_err *err = &l->run->err;
    struct stk_buf out = STK_BUF_INIT;
    int rc = stk_state_write_merged(state, n, &out, err);
    if (!rc && !(*text = strdup(stk_buf_cstr(&out))))
        rc = stk_err_nomem(err, out.len);
    stk_buf_release(&out);
    return rc;
}

int stk_load_read_state(struct stk_load *l, char **text)
{
    struct stk_buf all = STK_BUF_INIT;
    struct stk_trust trust;
    *text = NULL;
    int rc = stk_trust_init(&trust, l->s->open.trust, &l->run->err);
    if (!rc && stat(l->run->opts.arg[0], &trust.data) < 0)
        rc = stk_err_sys(&l->run->err, l->run->opts.arg[0], "open");
    if (!rc)
        rc = collect(l, &trust, &all, &l->run->err);
    stk_trust_release(&trust);
    struct stk_state *state = (struct stk_state *)(void *)all.data;
    size_t n = all.len / sizeof *state;
    if (!rc && n)
        rc = check_against(l, &state[0]);
    if (!rc && n)
        rc = merge(l, state, n, text);
    for (size_t i = 0; i < n; i++)
        stk_state_release(&state[i]);
    stk_buf_release(&all);
    return rc;
}

int stk_load_write_state(struct stk_load *l)
{
    struct stk_err *err = &l->run->err;
    char *text = NULL;
    if (!l->s->state)
        return 0;
    int rc = stk_loader_state(l->r.ld, &text, err);
    if (rc)
        return rc;
    struct stk_buf b = STK_BUF_INIT;
    stk_buf_printf(&b, "%s\n", text);
    rc = stk_buf_check(&b, err);
    if (!rc)
        rc = stk_write_file_atomic(l->s->state, b.data, b.len, err);
    stk_buf_release(&b);
    free(text);
    return rc;
}
