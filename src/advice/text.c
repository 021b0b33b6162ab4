/*
 * text.c - building a finding: sentences, numbers, actions. Everything is in the advice's
 * arena and safe to show: file names are escaped in sentences and quoted in code (code.c).
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/units.h"
#include "dataset/place.h"
#include "advice/priv.h"

#define SENTENCES 12
#define NUMBERS   20
#define PATHS     10
#define ACTIONS   8

static const char *keep(struct advisor *ad, const char *s, size_t n)
{
    const char *kept = stk_arena_dup(&ad->out->arena, s, n);
    if (!kept)
        ad->nomem = true;
    return kept ? kept : "";
}

static const char *vtext(struct advisor *ad, const char *fmt, va_list args)
{
    va_list again;
    va_copy(again, args);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    int n = vsnprintf(NULL, 0, fmt, again);
    va_end(again);
    char *to = n >= 0 ? stk_arena_alloc(&ad->out->arena, (size_t)n + 1) : NULL;
    if (!to) {
        ad->nomem = true;
        return "";
    }
    vsnprintf(to, (size_t)n + 1, fmt, args);
#pragma GCC diagnostic pop
    return to;
}

const char *stk_advice_text(struct advisor *ad, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const char *s = vtext(ad, fmt, args);
    va_end(args);
    return s;
}

static const char *take(struct advisor *ad, struct stk_buf *b)
{
    if (b->fail)
        ad->nomem = true;
    const char *s = keep(ad, stk_buf_cstr(b), strlen(stk_buf_cstr(b)));
    stk_buf_release(b);
    return s;
}

static void *room(struct advisor *ad, size_t n)
{
    void *p = stk_arena_alloc(&ad->out->arena, n);
    if (p)
        memset(p, 0, n);
    else
        ad->nomem = true;
    return p;
}

/* Never NULL: without memory, the finding goes to a place that nobody reads. */
struct stk_finding *stk_advice_begin(struct advisor *ad, enum stk_rule rule, enum stk_severity s,
                                     const char *fmt, ...)
{
    static struct stk_finding lost;     /* has no capacity, so nothing is written to it */
    if (ad->out->nfindings == ad->room) /* there are enough */
        return &lost;
    const char **sentence = room(ad, SENTENCES * sizeof *sentence);
    const char **path = room(ad, PATHS * sizeof *path);
    struct stk_action *action = room(ad, ACTIONS * sizeof *action);
    struct stk_evidence *evidence = room(ad, NUMBERS * sizeof *evidence);
    va_list args;
    va_start(args, fmt);
    const char *title = vtext(ad, fmt, args);
    va_end(args);
    if (ad->nomem)
        return &lost;
    struct stk_finding *f = &ad->out->finding[ad->out->nfindings++];
    *f = (struct stk_finding){.rule = rule,
                              .id = stk_rule_id(rule, NULL),
                              .severity = s,
                              .title = title,
                              .sentence = sentence,
                              .evidence = evidence,
                              .path = path,
                              .action = action,
                              .what_to_do = "",
                              .gain_why = ""};
    return f;
}

void stk_advice_say(struct advisor *ad, struct stk_finding *f, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    if (f->sentence && f->nsentences < SENTENCES)
        f->sentence[f->nsentences++] = vtext(ad, fmt, args);
    va_end(args);
}

void stk_advice_do(struct advisor *ad, struct stk_finding *f, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    if (f->sentence)
        f->what_to_do = vtext(ad, fmt, args);
    va_end(args);
}

static const char *keep_path(struct advisor *ad, const char *path)
{
    return path ? keep(ad, path, strlen(path)) : NULL;
}

void stk_advice_act(struct advisor *ad, struct stk_finding *f, struct stk_action a)
{
    if (!f->action || f->nactions == ACTIONS || !stk_action_applies(&a, &ad->scene) ||
        stk_advice_circular(ad, f, &a))
        return;
    struct stk_action *to = &f->action[f->nactions++];
    *to = a;
    to->path = keep_path(ad, a.path);
    to->to = keep_path(ad, a.to);
    if (!a.paths && a.path) {
        to->paths = &to->path;
        to->npaths = 1;
    }
}

void stk_advice_act_all(struct advisor *ad, struct stk_finding *f, struct stk_action a)
{
    a.path = f->npaths ? f->path[0] : NULL;
    a.paths = f->path;
    a.npaths = f->npaths;
    stk_advice_act(ad, f, a);
}

static enum stk_framework framework_of(const struct advisor *ad)
{
    if (!ad->scene.python)
        return STK_FRAMEWORK_C;
    return ad->scene.framework ? ad->scene.framework : STK_FRAMEWORK_TORCH;
}

struct stk_action stk_advice_loader(struct advisor *ad, const char *path)
{
    struct stk_action a = {.kind = STK_ACT_LOADER,
                           .path = path,
                           .loader = {.framework = framework_of(ad),
                                      .batch = ad->batch ? ad->batch : 32,
                                      .batch_known = ad->batch,
                                      .size_known = ad->image}};
    /* A program that does not train means the order it reads in. */
    if ((path && stk_kind_evaluated(path)) || !ad->trains) {
        a.loader.shuffle = "none";
        a.loader.last = "short";
    }
    return a;
}

struct stk_action stk_advice_loader_for(struct advisor *ad, const struct stk_usage *u,
                                        const char *path)
{
    struct stk_action a = stk_advice_loader(ad, path);
    if (stk_advice_said(ad, STK_RULE_RANDOM_READS, u->name) && !stk_kind_evaluated(u->name))
        a.loader.shuffle = "block";
    return a;
}

void stk_advice_map(struct advisor *ad, struct stk_finding *f, struct stk_action loader)
{
    if (loader.loader.framework != STK_FRAMEWORK_TORCH)
        return;
    loader.kind = STK_ACT_MAP_DATASET;
    loader.instead = true;
    loader.note = "or, in place of the dataset alone, which saves less (the gain is that of the "
                  "loader): your own code for each sample, your DataLoader";
    stk_advice_act(ad, f, loader);
}

void stk_advice_load(struct advisor *ad, struct stk_finding *f, struct stk_action loader)
{
    stk_advice_act(ad, f, loader);
    stk_advice_map(ad, f, loader);
}

const char *stk_advice_dataset(struct advisor *ad)
{
    const struct stk_usage *most = NULL;
    for (size_t i = 0; i < ad->a->nfiles; i++) {
        const struct stk_usage *u = &ad->a->file[i];
        bool data = (stk_kind_packable(u) || stk_kind_sample(u)) && !stk_kind_model(u);
        if (data && u->n.c[STK_C_READ_BYTES] &&
            (!most || u->n.c[STK_C_READ_BYTES] > most->n.c[STK_C_READ_BYTES]))
            most = u;
    }
    if (!most)
        return NULL;
    const struct stk_usage *dir = NULL; /* several files of it: their folder */
    for (size_t i = 0; i < ad->a->ndirs; i++)
        if (strcmp(ad->a->dir[i].name, most->dir) == 0)
            dir = &ad->a->dir[i];
    bool several = most->file->group || (dir && dir->files_read > 1);
    return several ? stk_advice_tree(ad, most) : most->name;
}

const char *stk_advice_decode(struct advisor *ad, const struct stk_format_use *use, bool evaluated)
{
    const char *text = evaluated ? use->decode_val : use->decode;
    unsigned size, resize;
    if (text && !ad->trains) /* what it makes of the images is its own business */
        return "image";
    if (!text || !ad->image)
        return text;
    const char *comma = strchr(text, ',');
    if (sscanf(text, "image:%u,resize=%u", &size, &resize) == 2)
        return stk_advice_text(ad, "image:%llu,resize=%llu", (unsigned long long)ad->image,
                               (unsigned long long)(ad->image * resize / size));
    return stk_advice_text(ad, "image:%llu%s", (unsigned long long)ad->image, comma ? comma : "");
}

struct stk_action stk_advice_library(const struct advisor *ad, const struct stk_usage *u,
                                     double size)
{
    bool fits = size < (double)stk_advice_memory(ad) * stk_limits.keep_share;
    bool keep = fits && u->use->keep && !u->use->larger;
    return (struct stk_action){.kind = keep ? STK_ACT_KEEP_DATA : STK_ACT_LARGER_READS,
                               .bytes = keep ? (uint64_t)size : stk_limits.big_read,
                               .use = u->use};
}

static bool is_listed(const struct advisor *ad, const char *folder)
{
    const struct stk_profile *p = ad->p;
    for (size_t i = 0; i < p->nrecs; i++)
        if (p->rec[i].n.c[STK_C_DIR_READS] && p->rec[i].file < p->nfiles &&
            strcmp(p->file[p->rec[i].file].path, folder) == 0)
            return true;
    return false;
}

/* Beside the whole dataset: in a folder that the program lists, it would be a sample. "set/train" goes
 * to "set-packed/train". */
static const char *pack_to(struct advisor *ad, const char *path)
{
    const char *folder = stk_advice_parent(ad, path);
    const char *whole = is_listed(ad, folder) ? folder : path;
    bool inside;
    char *up = stk_place_beside(path, whole, &inside);
    size_t n = up ? strlen(up) : 0;
    n -= n && up[n - 1] == '/';
    bool above = up && strncmp(path, up, n) == 0 && path[n] == '/' && path[n + 1];
    const char *name = above ? path + n + 1 : "", *rest = above ? strchr(name, '/') : NULL;
    free(up);
    if (!rest)
        return stk_advice_text(ad, "%s-packed", path);
    return stk_advice_text(ad, "%.*s-packed%s", (int)(rest - path), path, rest);
}

struct stk_action stk_advice_pack(struct advisor *ad, const char *path)
{
    return (struct stk_action){.kind = STK_ACT_PACK,
                               .path = path,
                               .to = pack_to(ad, path),
                               .format = "tfrecord"};
}

static void make_code(struct advisor *ad, struct stk_finding *f)
{
    struct stk_snippets code = {0};
    stk_actions_render(f->action, f->nactions, &ad->scene, &code);
    f->snippet = room(ad, (code.n + 1) * sizeof *f->snippet);
    for (size_t i = 0; f->snippet && i < code.n; i++) {
        const struct stk_snippet *s = &code.snippet[i];
        f->snippet[f->nsnippets++] =
            (struct stk_snippet){s->language, keep(ad, s->text, strlen(s->text))};
    }
    ad->nomem = ad->nomem || code.fail;
    stk_snippets_release(&code);
}

void stk_advice_lines(struct advisor *ad)
{
    struct stk_advice *o = ad->out;
    size_t kept = 0;
    for (size_t i = 0; i < o->nfindings; i++)
        if (o->finding[i].nactions)
            o->finding[kept++] = o->finding[i];
    o->nfindings = kept;
    for (size_t i = 0; !ad->nomem && i < kept; i++)
        make_code(ad, &o->finding[i]);
}

void stk_advice_gain(struct advisor *ad, struct stk_finding *f, double seconds, const char *fmt,
                     ...)
{
    va_list args;
    va_start(args, fmt);
    if (f->sentence) {
        /* A gain is at most the run; a NaN is no gain. */
        f->gain_s = seconds > 0 ? seconds < ad->run_s ? seconds : ad->run_s : 0;
        if (f->gain_s > 0) /* so that the order by severity is the order by gain */
            f->severity = stk_advice_severity(ad, f->gain_s);
        f->gain_why = vtext(ad, fmt, args);
    }
    va_end(args);
}

void stk_advice_number(struct advisor *ad, struct stk_finding *f, const char *name, double value,
                       const char *unit)
{
    (void)ad;
    if (f->evidence && f->nevidence < NUMBERS)
        f->evidence[f->nevidence++] =
            (struct stk_evidence){.name = name, .value = value, .unit = unit};
}

void stk_advice_path(struct advisor *ad, struct stk_finding *f, const char *path)
{
    if (f->path && f->npaths < PATHS)
        f->path[f->npaths++] = keep(ad, path, strlen(path));
}

const char *stk_advice_size(struct advisor *ad, double bytes)
{
    char buf[64];
    if (bytes >= 1024 && bytes < 10000) /* "6.0 KiB" reads better than "6,144 B" in a sentence */
        return stk_advice_text(ad, "%.1f KiB", bytes / 1024);
    uint64_t n = bytes > 0 && bytes < 1.8e19 ? (uint64_t)(bytes + 0.5) : 0;
    stk_format_size(n, buf, sizeof buf);
    return keep(ad, buf, strlen(buf));
}

const char *stk_advice_rate(struct advisor *ad, double Bps)
{
    return stk_advice_text(ad, "%s/s", stk_advice_size(ad, Bps));
}

const char *stk_advice_time(struct advisor *ad, double seconds)
{
    char buf[64];
    stk_format_duration(seconds > 0 ? seconds : 0, buf, sizeof buf);
    return keep(ad, buf, strlen(buf));
}

const char *stk_advice_thread_time(struct advisor *ad, double seconds)
{
    double threads = 0;
    for (size_t i = 0; i < ad->p->nprocs; i++)
        threads += ad->p->proc[i].threads;
    if (threads < 2)
        return stk_advice_time(ad, seconds);
    return stk_advice_text(ad, "%s summed over %s threads", stk_advice_time(ad, seconds),
                           stk_advice_count(ad, threads));
}

const char *stk_advice_count(struct advisor *ad, double n)
{
    char buf[64];
    stk_format_count(n > 0 && n < 1.8e19 ? (uint64_t)(n + 0.5) : 0, buf, sizeof buf);
    return keep(ad, buf, strlen(buf));
}

const char *stk_advice_percent(struct advisor *ad, double share)
{
    double v = share * 100;
    if (v > 0 && v < 0.01)
        return "under 0.01 %";
    return stk_advice_text(ad, "%.*f %%", v >= 10 ? 0 : v >= 0.1 || v <= 0 ? 1 : 2, v);
}

const char *stk_advice_show(struct advisor *ad, const char *path)
{
    struct stk_buf b = STK_BUF_INIT;
    stk_text_escape(&b, path, strlen(path), 120);
    return take(ad, &b);
}

bool stk_advice_in_python(const struct advisor *ad)
{
    return ad->scene.python;
}

const char *stk_advice_rank(struct advisor *ad, uint32_t unit)
{
    for (size_t i = 0; i < ad->p->nprocs; i++)
        if (ad->p->proc[i].unit == unit && ad->p->proc[i].world)
            return stk_advice_text(ad, "rank %u", ad->p->proc[i].rank);
    return "one process";
}

bool stk_advice_said(const struct advisor *ad, enum stk_rule rule, const char *path)
{
    for (size_t i = 0; i < ad->out->nfindings; i++) {
        const struct stk_finding *f = &ad->out->finding[i];
        if (f->rule != rule)
            continue;
        for (size_t k = 0; k < f->npaths; k++)
            if (!path || strcmp(f->path[k], path) == 0)
                return true;
    }
    return false;
}

const char *stk_advice_pace(struct advisor *ad, const struct stk_storage *st)
{
    return stk_advice_text(ad, "%s per request (%s), %s (%s)", stk_advice_time(ad, st->latency_s),
                           st->latency_measured ? "measured" : "assumed",
                           stk_advice_rate(ad, st->read_Bps), st->read_measured ? "measured" : "assumed");
}

const char *stk_advice_calls(struct advisor *ad)
{
    if (ad->wall_per_io > 0.95)
        return "";
    return stk_advice_text(ad,
                           " Processes and threads work at once: a second in calls is %s of the "
                           "run.",
                           stk_advice_time(ad, ad->wall_per_io));
}

const char *stk_advice_parent(struct advisor *ad, const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        return ".";
    return slash == path ? "/" : keep(ad, path, (size_t)(slash - path));
}

const char *stk_advice_tree(struct advisor *ad, const struct stk_usage *u)
{
    size_t n = strlen(u->dir);
    bool above = strncmp(u->name, u->dir, n) == 0 && u->name[n] == '/'; /* not "(other)" */
    return n && above ? u->dir : stk_advice_parent(ad, u->name);
}

/* With as many digits as the estimate supports. */
const char *stk_advice_files(struct advisor *ad, const struct stk_usage *u)
{
    double unit = 1, n = (double)u->files_read;
    if (u->files_exact || n < 10)
        return stk_advice_count(ad, n);
    while (n / unit >= 100)
        unit *= 10;
    return stk_advice_text(ad, "about %s", stk_advice_count(ad, round(n / unit) * unit));
}
