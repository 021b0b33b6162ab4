/*
 * begin.c - what happens before the program runs: which task this is, what the program is,
 * where its profile goes. Only a fault of the command itself is an error here.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/spawn.h"
#include "base/text.h"
#include "record/priv.h"

#define TEXT_MAX 2048

/* With many tasks, one per node reports. */
void stk_launch_warn(struct stk_launch *l, const char *fmt, ...)
{
    char text[2 * TEXT_MAX];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (!l->ranked || !l->rank.local_world || !l->rank.local_rank)
        l->warning = stk_arena_dup(&l->arena, text, strlen(text));
}

void stk_launch_note(struct stk_launch *l, const char *fmt, ...)
{
    char text[TEXT_MAX];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (STK_ARRAY_MORE(l->note, l->nnotes, NULL))
        return;
    const char *kept = stk_arena_dup(&l->arena, text, strlen(text));
    if (kept)
        l->note[l->nnotes++] = kept;
}

/* "train" for `python3 -u train.py`: the name people use. */
static int name_program(struct stk_launch *l, struct stk_err *err)
{
    char name[64];
    const char *base = stk_base_name(l->o.argv[0]), *dot;
    if (strncmp(base, "python", 6) == 0)
        for (char *const *a = l->o.argv + 1; *a; a++) {
            if (**a != '-' && stk_text_ends(*a, strlen(*a), ".py")) {
                base = stk_base_name(*a);
                break;
            }
        }
    stk_launch_safe_name(base, 40, name, sizeof name);
    if ((dot = strrchr(name, '.')) && dot > name)
        name[dot - name] = '\0';
    l->name =
        stk_arena_dup(&l->arena, name[0] ? name : "program", strlen(name[0] ? name : "program"));
    return l->name ? 0 : stk_err_nomem(err, 64);
}

/* ---- before ------------------------------------------------------------------------------- */

static int find_program(struct stk_launch *l, struct stk_launch_result *r, struct stk_err *err)
{
    const char *name = l->o.argv[0];
    int wrong = stk_find_program(name, &l->program_path);
    if (!wrong) {
        stk_program_look(l->program_path, &l->program);
        return 0;
    }
    r->status = wrong == ENOENT || wrong == ENOTDIR ? 127 : 126;
    return stk_err_set(err, STK_E_USAGE, name, -1, "%s",
                       r->status == 126    ? "cannot be executed"
                       : strchr(name, '/') ? "there is no such program"
                                           : "no such program is found in PATH");
}

static int find_preload(struct stk_launch *l, struct stk_err *err)
{
    const struct stk_program *p = &l->program;
    if (p->linkage == STK_LINK_STATIC || p->linkage == STK_LINK_SETUID)
        stk_launch_note(l,
                        "%s is %s: no library can be preloaded into it, so only the kernel's "
                        "counts and the samples are known for it (not for programs it starts)",
                        stk_base_name(l->program_path),
                        p->linkage == STK_LINK_STATIC ? "linked statically" : "setuid");
    if (p->other_libc) {
        stk_launch_note(l,
                        "%s was built for another C library or machine than stoker: only the "
                        "kernel's counts and the samples are known for it and for what it starts",
                        stk_base_name(l->program_path));
        return 0;
    }
    int rc = l->o.preload ? (l->preload = realpath(l->o.preload, NULL))
                                ? 0
                                : stk_err_sys(err, l->o.preload, "find the library to preload")
                          : stk_launch_find_preload(&l->preload, err);
    if (!rc && strpbrk(l->preload, " :"))
        rc = stk_err_set(err, STK_E_UNSUPPORTED, l->preload, -1,
                         "a library whose path contains a blank or a colon cannot be preloaded");
    if (!rc && !stk_launch_preload_fits(l->preload))
        stk_launch_warn(l,
                        "%s is of another version than this stoker, which will not be able to read "
                        "its logs: install both together, or set STOKER_PRELOAD to the right one",
                        l->preload);
    return rc;
}

static int find_self(struct stk_launch *l, struct stk_err *err)
{
    char host[256] = "";
    struct stk_err why = {0};
    if (gethostname(host, sizeof host - 1) != 0 || !host[0])
        snprintf(host, sizeof host, "node");
    stk_launch_safe_name(host, 63, l->host, sizeof l->host);
    if (!getcwd(l->cwd, sizeof l->cwd))
        l->cwd[0] = '\0';
    l->start_real_ns = stk_launch_clock(CLOCK_REALTIME);
    l->start_mono_ns = stk_launch_clock(CLOCK_MONOTONIC);
    if (stk_rank_detect(&l->rank, &why) != 0) {
        l->rank = (struct stk_rank){.from = ""};
        stk_launch_note(l, "the rank of this process is unknown: %s", why.what);
    }
    l->ranked = l->rank.world > 1;
    l->local_dir = stk_launch_local_dir(&l->local_free_bytes);
    return name_program(l, err);
}

static int name_readings(struct stk_launch *l, struct stk_err *err)
{
    char name[128];
    int n = snprintf(name, sizeof name, "samples.%s.csv", l->stem);
    l->readings_name = stk_arena_dup(&l->arena, name, (size_t)n);
    return l->readings_name ? 0 : stk_err_nomem(err, sizeof name);
}

static int check_options(const struct stk_launch *l, struct stk_err *err)
{
    const struct stk_launch_options *o = &l->o;
    if (o->sample_s > 0 && o->sample_s < STK_SAMPLER_LEAST_S)
        return stk_err_set(err, STK_E_USAGE, NULL, -1,
                           "the shortest interval between samples is %g ms; 0 means no samples",
                           STK_SAMPLER_LEAST_S * 1e3);
    return stk_launch_check_rules(o, l->cwd, err);
}

/* Prepares the profile's folder. A failure here ends the recording, not the program. */
static void prepare_recording(struct stk_launch *l)
{
    struct stk_err why = {0};
    char text[TEXT_MAX];
    int rc = stk_launch_take_dir(l, &why);
    if (!rc)
        rc = stk_launch_take_spool(l, &why);
    if (!rc)
        rc = name_readings(l, &why);
    if (!rc) {
        stk_launch_make_slots(l);
        return;
    }
    stk_launch_warn(l, "nothing is recorded: %s. The program runs all the same",
                    stk_err_text(&why, text, sizeof text));
    stk_launch_drop_spool(l);
    stk_launch_drop_dir(l);
}

int stk_launch_begin(const struct stk_launch_options *o, struct stk_launch **out,
                     struct stk_launch_result *r, struct stk_err *err)
{
    static const struct sigaction none = {.sa_handler = SIG_IGN};
    struct stk_launch *l = calloc(1, sizeof *l);
    *r = (struct stk_launch_result){0};
    if (!l)
        return stk_err_nomem(err, sizeof *l);
    l->o = *o;
    l->folder = l->spool_folder = STK_FOLDER_INIT;
    l->slots_fd = -1;
    sigaction(SIGXFSZ, &none, &l->size); /* a limit on file sizes stops our writing, not us */
    int rc = find_self(l, err);
    if (!rc)
        rc = check_options(l, err);
    if (!rc)
        rc = find_program(l, r, err);
    if (!rc)
        rc = find_preload(l, err);
    if (rc) {
        stk_launch_free(l);
        return rc;
    }
    prepare_recording(l);
    r->dir = l->dir;
    r->run = l->run_id;
    r->warning = l->warning;
    *out = l;
    return 0;
}

void stk_launch_free(struct stk_launch *l)
{
    if (!l || l->stuck)
        return;
    stk_sampler_free(l->sampler);
    free(l->program_path);
    free(l->preload);
    stk_launch_release_slots(l);
    stk_folder_release(&l->folder);
    stk_folder_release(&l->spool_folder);
    free(l->note);
    stk_arena_release(&l->arena);
    free(l);
}
