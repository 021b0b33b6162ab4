/*
 * target.c - judges folders for copies, and says where a copy goes. A copy that was begun is
 * completed where it is; a place that the user names is taken if it can be written to.
 */
#include "stage/target.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/helper.h"
#include "base/units.h"
#include "host/cgroup.h"

#define LIMIT_S     5.0
#define PROBE_BYTES ((size_t)1 << 20)
#define FILE_BYTES                                                                                 \
    4096u              /* of disk for each file beyond its bytes: the rest of a block, records     \
                        */
#define MEMORY_SHARE 2 /* a copy takes at most one half of the memory that is left */

const char *stk_target_verdict_name(enum stk_target_verdict v)
{
    static const char *const names[] = {"fits",   "unset",   "absent",  "same",
                                        "shared", "unknown", "foreign", "refused",
                                        "small",  "memory",  "stalled"};
    return names[v];
}

/* ---- by the facts alone ------------------------------------------------------------------- */

static bool say(struct stk_target *t, enum stk_target_verdict v, const char *fmt, ...)
    STK_PRINTF(3, 4);
static bool say(struct stk_target *t, enum stk_target_verdict v, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(t->reason, sizeof t->reason, fmt, ap);
    va_end(ap);
    t->verdict = v;
    return true;
}

static void warn(struct stk_target *t, const char *fmt, ...) STK_PRINTF(2, 3);
static void warn(struct stk_target *t, const char *fmt, ...)
{
    size_t n = strlen(t->warning);
    va_list ap;
    n += (size_t)snprintf(t->warning + n, sizeof t->warning - n, "%s", n ? "; " : "");
    va_start(ap, fmt);
    vsnprintf(t->warning + n, sizeof t->warning - n, fmt, ap);
    va_end(ap);
}

/* "90 days", "36 hours" */
static const char *age_text(double days, char *buf, size_t size)
{
    if (days >= 2)
        snprintf(buf, size, "%.0f days", days);
    else
        snprintf(buf, size, "%.0f hours", days * 24);
    return buf;
}

static bool cannot_be_seen(struct stk_target *t, double limit_s)
{
    int e = t->facts.error;
    if (e == ETIMEDOUT)
        return say(t, STK_TARGET_STALLED, "did not answer within %.0f s", limit_s);
    if (e == ENOENT || e == ENOTDIR)
        return say(t, STK_TARGET_ABSENT, "does not exist");
    if (e)
        return say(t, STK_TARGET_REFUSED, "cannot be used: %s", strerror(e));
    return !t->facts.folder && say(t, STK_TARGET_REFUSED, "is not a folder");
}

static const char *kind(const struct stk_target *t)
{
    return t->facts.fs[0] ? t->facts.fs : "an unknown file system";
}

static bool is_elsewhere(struct stk_target *t)
{
    const struct stk_fs_facts *f = &t->facts;
    char age[32], purged[64] = "";
    if (f->purge.days > 0)
        snprintf(purged, sizeof purged, ", purged after %s",
                 age_text(f->purge.days, age, sizeof age));
    if (f->reach == STK_REACH_SHARED && !t->named)
        return say(t, STK_TARGET_SHARED, "%s: shared%s; not local to this node", kind(t), purged);
    if (f->reach == STK_REACH_UNKNOWN && !t->named)
        return say(t, STK_TARGET_UNKNOWN, "%s%s: not known to be local to this node", kind(t),
                   purged);
    return false;
}

/* In a sticky folder of root, only the owner renames what is in it. */
static bool is_foreign(struct stk_target *t, uid_t me)
{
    const struct stk_fs_facts *f = &t->facts;
    char name[64];
    bool others_write = f->mode & (S_IWGRP | S_IWOTH), sticky = f->mode & S_ISVTX;
    if (f->foreign_link)
        return say(t, STK_TARGET_FOREIGN, "is a link that another user made");
    if (f->owner != me && f->owner != 0)
        return say(t, STK_TARGET_FOREIGN, "belongs to %s", stk_user_name(f->owner, name));
    if (others_write && !sticky && (f->mode & S_IWOTH || f->owner != me))
        return say(t, STK_TARGET_FOREIGN, "others can rename what is in it (mode %04o, not sticky)",
                   (unsigned)f->mode & 07777);
    return false;
}

static bool is_refused(struct stk_target *t)
{
    if (t->facts.read_only)
        return say(t, STK_TARGET_REFUSED, "%s, mounted read-only", kind(t));
    return !t->facts.writable && say(t, STK_TARGET_REFUSED, "%s, not writable for you", kind(t));
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static void compute_room(struct stk_target *t)
{
    const struct stk_fs_facts *f = &t->facts;
    t->room_bytes = least(f->free_bytes, f->quota_bytes);
    if (f->reach == STK_REACH_MEMORY && t->job_bytes != UINT64_MAX)
        t->room_bytes = least(t->room_bytes, t->job_bytes / MEMORY_SHARE);
}

static struct stk_limit limit_of(const struct stk_target_wish *w)
{
    struct stk_limit limit = w->limit;
    limit.seconds = limit.seconds > 0 ? limit.seconds : LIMIT_S;
    return limit;
}

static uint64_t need_of(const struct stk_target_wish *w)
{
    uint64_t more;
    return __builtin_mul_overflow(w->files, FILE_BYTES, &more) ||
                   __builtin_add_overflow(w->bytes, more, &more)
               ? UINT64_MAX - 1
               : more;
}

/* "67.5 MiB": a user who knows the size of the data asks where the rest comes from. */
static void describe_need(const struct stk_target_wish *w, uint64_t need, char *out, size_t size)
{
    char data[32], n[32];
    (void)stk_format_size(need, out, size);
    size_t len = strlen(out);
    if (w->files && need < UINT64_MAX - 1 && need - w->bytes >= need / 50)
        snprintf(out + len, size - len, " (%s and 4 KiB of disk for each of %s files)",
                 stk_format_size(w->bytes, data, sizeof data),
                 stk_format_count(w->files, n, sizeof n));
}

static bool is_small(struct stk_target *t, const struct stk_target_wish *w)
{
    const struct stk_fs_facts *f = &t->facts;
    uint64_t need = need_of(w);
    char has[32], wants[120];
    describe_need(w, need, wants, sizeof wants);
    if (f->free_bytes < need || !f->free_bytes)
        return say(t, STK_TARGET_SMALL, "%s, %s free, %s needed", kind(t),
                   stk_format_size(f->free_bytes, has, sizeof has), wants);
    if (f->quota_bytes < need)
        return say(t, STK_TARGET_SMALL, "%s, your quota leaves %s, %s needed", kind(t),
                   stk_format_size(f->quota_bytes, has, sizeof has), wants);
    uint64_t files = least(f->free_files, f->quota_files);
    if (files <= w->files) /* and one for a folder, at least */
        return say(t, STK_TARGET_SMALL, "%s, %s files can be made there, %s needed", kind(t),
                   stk_format_count(files, has, sizeof has),
                   stk_format_count(w->files + 1, wants, sizeof wants));
    if (t->room_bytes < need)
        return say(t, STK_TARGET_MEMORY,
                   "%s is memory and counts against the job: %s left, half of it for a copy, %s "
                   "needed",
                   kind(t), stk_format_size(t->job_bytes, has, sizeof has), wants);
    return false;
}

/* Site scripts that purge are not visible; the name is a hint. */
static bool sounds_purged(const struct stk_target *t)
{
    return t->facts.reach == STK_REACH_SHARED &&
           (strcmp(t->name, "$SCRATCH") == 0 || strcasestr(t->path, "scratch"));
}

static void add_warnings(struct stk_target *t)
{
    const struct stk_fs_facts *f = &t->facts;
    char age[32];
    if (f->reach == STK_REACH_SHARED)
        warn(t, "%s is shared: this copy is not local to the node", kind(t));
    else if (f->reach == STK_REACH_UNKNOWN)
        warn(t, "%s: not known to be local to the node", kind(t));
    if (f->purge.days > 0)
        warn(t, "files there are removed when they are older than %s (%s)",
             age_text(f->purge.days, age, sizeof age), f->purge.from);
    else if (sounds_purged(t))
        warn(t, "many sites purge such file systems by age; STOKER_PURGE_DAYS=N states the rule");
}

static void accept(struct stk_target *t)
{
    const struct stk_fs_facts *f = &t->facts;
    char has[32];
    bool memory = f->reach == STK_REACH_MEMORY;
    (void)stk_format_size(t->room_bytes, has, sizeof has);
    if (t->room_bytes == UINT64_MAX)
        snprintf(has, sizeof has, "room not known");
    say(t, STK_TARGET_FITS, "%s%s, %s%s", kind(t),
        memory                        ? " in memory"
        : f->reach == STK_REACH_LOCAL ? " on this node"
                                      : "",
        has,
        t->room_bytes == UINT64_MAX ? ""
        : memory                    ? " for a copy"
                                    : " free");
    add_warnings(t);
}

void stk_target_decide(struct stk_target *t, const struct stk_target_wish *wish, uid_t me)
{
    t->reason[0] = t->warning[0] = '\0';
    compute_room(t);
    if (!t->path[0])
        (void)say(t, STK_TARGET_UNSET, "not set");
    else if (!cannot_be_seen(t, limit_of(wish).seconds) && !is_elsewhere(t) &&
             !is_foreign(t, me) && !is_refused(t) && !is_small(t, wish))
        accept(t);
}

/* ---- the write probe ---------------------------------------------------------------------- */

/* The file has no name: nothing is left, however this ends. */
static int write_some(void *user, void *answer)
{
    const struct stk_target *t = user;
    static char block[PROBE_BYTES];
    (void)answer;
    int fd = stk_create_nameless(t->path);
    if (fd < 0)
        return errno;
    struct stk_err err = {0};
    int wrong = 0;
    if (stk_write_full(fd, block, sizeof block, t->path, &err) < 0)
        wrong = err.sys_errno ? err.sys_errno : EIO;
    else if (fdatasync(fd) != 0 && errno != EINVAL)
        wrong = errno;
    close(fd);
    return wrong;
}

static void probe(struct stk_target *t, const struct stk_target_wish *w)
{
    char nothing = 0;
    const struct stk_limit limit = limit_of(w);
    int wrong = stk_helper_ask(write_some, t, &limit, &nothing, sizeof nothing);
    if (!wrong)
        return;
    t->warning[0] = '\0';
    if (wrong == ETIMEDOUT)
        (void)say(t, STK_TARGET_STALLED, "%s, a write took more than %.0f s", kind(t), limit.seconds);
    else
        (void)say(t, STK_TARGET_REFUSED, "%s, a write failed: %s", kind(t), strerror(wrong));
}

/* ---- choosing ----------------------------------------------------------------------------- */

static bool is_stopped(const struct stk_target_wish *w)
{
    return w->limit.stop && w->limit.stop(w->limit.user);
}

static int judge(struct stk_target *t, const char *path, const struct stk_target_wish *w,
                 struct stk_err *err)
{
    struct stk_fs_look look = {limit_of(w), t->named, w->no_purge};
    t->job_bytes = UINT64_MAX;
    if (path) {
        (void)stk_fs_facts(path, &look, &t->facts);
        snprintf(t->path, sizeof t->path, "%s", t->facts.path);
    }
    if (t->facts.reach == STK_REACH_MEMORY)
        t->job_bytes = stk_memory_free();
    stk_target_decide(t, w, geteuid());
    if (t->verdict == STK_TARGET_FITS && !w->no_probe)
        probe(t, w);
    return is_stopped(w) ? stk_err_set(err, STK_E_STOPPED, path, -1, "stopped") : 0;
}

static void note_same(struct stk_targets *all, size_t i)
{
    struct stk_target *t = &all->target[i];
    for (size_t k = 0; k < i && t->path[0] && !t->facts.error; k++) {
        const struct stk_target *o = &all->target[k];
        if (o->path[0] && !o->facts.error && o->facts.dev == t->facts.dev &&
            o->facts.ino == t->facts.ino) {
            t->warning[0] = '\0';
            (void)say(t, STK_TARGET_SAME, "the same folder as %s", o->name);
            return;
        }
    }
}

/* What the user has set, then disks, then memory. */
static size_t choose(const struct stk_targets *t)
{
    for (int memory = 0; memory < 2; memory++)
        for (size_t i = 0; i < t->n; i++) {
            const struct stk_target *c = &t->target[i];
            bool set = strcmp(c->name, "$STOKER_SCRATCH") == 0;
            if (c->verdict == STK_TARGET_FITS &&
                (set || (c->facts.reach == STK_REACH_MEMORY) == (memory == 1)))
                return i;
        }
    return t->n;
}

int stk_targets_find(const struct stk_target_wish *wish, struct stk_targets *out,
                     struct stk_err *err)
{
    struct stk_scratch list[STK_SCRATCHES];
    int rc = 0;
    memset(out, 0, sizeof *out);
    out->n = stk_scratch_list(list);
    out->best = out->n;
    for (size_t i = 0; i < out->n && !rc; i++) {
        out->target[i].name = list[i].name;
        rc = judge(&out->target[i], list[i].path, wish, err);
        note_same(out, i);
    }
    out->best = rc ? out->n : choose(out);
    return rc;
}

const struct stk_target *stk_targets_best(const struct stk_targets *t)
{
    return t->best < t->n ? &t->target[t->best] : NULL;
}

int stk_target_judge(const char *path, const struct stk_target_wish *wish, struct stk_target *out,
                     struct stk_err *err)
{
    memset(out, 0, sizeof *out);
    out->name = "DST";
    out->named = true;
    return judge(out, path, wish, err);
}

/* The user may give more than one half of the memory to a copy, but not more than there is. */
static bool is_too_small(const struct stk_target *t, const struct stk_target_wish *w)
{
    return t->verdict == STK_TARGET_SMALL ||
           (t->verdict == STK_TARGET_MEMORY && t->job_bytes < need_of(w));
}

int stk_target_room(const char *path, uint64_t bytes, uint64_t files, struct stk_err *err)
{
    struct stk_target_wish wish = {
        .bytes = bytes, .files = files, .no_probe = true, .no_purge = true};
    struct stk_target *t = calloc(1, sizeof *t);
    if (!t)
        return stk_err_nomem(err, sizeof *t);
    int rc = stk_target_judge(path, &wish, t, err);
    if (rc == 0 && is_too_small(t, &wish))
        rc = stk_err_set(err, STK_E_UNSUPPORTED, path, -1, "too small for the copy: %s", t->reason);
    free(t);
    return rc;
}

/* ---- Lustre ------------------------------------------------------------------------------- */

void stk_target_stripe(const char *folder, uint64_t file_bytes, uint64_t request_bytes, char *what,
                       size_t size)
{
    struct stk_lustre_stripe s = stk_lustre_stripe_fit(file_bytes, request_bytes);
    struct stk_fs_look look = {.no_purge = true};
    struct stk_fs_facts facts;
    char text[32];
    *what = '\0';
    if (stk_fs_facts(folder, &look, &facts) || !facts.stripes ||
        stk_lustre_stripe_set(folder, &s, NULL) < 0)
        return;
    snprintf(what, size, "%lld stripe%s of %s", (long long)s.count, s.count == 1 ? "" : "s",
             stk_format_size(s.size_bytes, text, sizeof text));
}

#define FS_ANSWER_S   10.0            /* for a file system */
#define REQUEST_BYTES STK_TIER_PARCEL /* loaders and copiers read about that much at once */

static bool exists(const char *path)
{
    struct stat sb;
    return stat(path, &sb) == 0;
}

/* ---- a copy that was begun ---- */

/* Whether the tier has a set of this source. */
static void look_into(const struct stk_choose_options *c, const struct stk_source *src,
                      const char *path, struct stk_chosen *out)
{
    struct stk_tier *tier = NULL;
    struct stk_tier_set *set = NULL;
    struct stk_tier_state state = {0};
    out->begun = out->there = false;
    if (!exists(path) || stk_tier_open(path, &(struct stk_tier_options){0}, &tier, NULL) < 0)
        return;
    uint64_t identity = c->form ? stk_stage_pack_identity(src, c->form) : src->identity;
    out->begun = stk_tier_set_find(tier, identity, &set, NULL) == 1;
    out->there = out->begun && stk_tier_state(set, &state, NULL) == 0 && state.published;
    stk_tier_set_close(set);
    stk_tier_close(tier);
}

/* A folder that lacks only the room that the begun copy takes. */
static bool may_go_on(const struct stk_target *t)
{
    return t->verdict == STK_TARGET_FITS || t->verdict == STK_TARGET_SMALL ||
           t->verdict == STK_TARGET_MEMORY;
}

static struct stk_target *find_begun(const struct stk_choose_options *c,
                                     const struct stk_source *src, struct stk_chosen *out)
{
    struct stk_targets *all = out->targets;
    for (size_t i = 0; i < all->n && !out->begun; i++) {
        char *tier = may_go_on(&all->target[i]) ? stk_scratch_tier(all->target[i].path) : NULL;
        if (tier)
            look_into(c, src, tier, out);
        free(tier);
        if (out->begun) {
            all->best = i;
            return &all->target[i];
        }
    }
    return NULL;
}

/* ---- named by the user ---- */

char *stk_tier_named(const char *dst)
{
    char *here = dst[0] == '/' ? NULL : getcwd(NULL, 0);
    char *full = here ? stk_path_join(here, dst) : strdup(dst);
    char *tier = full ? stk_tier_at(full) : NULL;
    free(here);
    free(full);
    return tier;
}

static bool answers(const char *path)
{
    struct stk_fs_look look = {.limit.seconds = FS_ANSWER_S, .nearest = true, .no_purge = true};
    static struct stk_fs_facts facts;
    return stk_fs_facts(path, &look, &facts) != ETIMEDOUT;
}

/* The verdict on size is the tier's: it may hold a part already, or make room. */
static int take_named(const struct stk_choose_options *c, const struct stk_source *src,
                      struct stk_chosen *out, struct stk_err *err)
{
    out->named = true;
    if (!answers(c->dst))
        return stk_err_set(err, STK_E_UNSUPPORTED, c->dst, -1, "its file system does not answer");
    out->tier = stk_tier_named(c->dst);
    out->target = calloc(1, sizeof *out->target);
    if (!out->tier || !out->target)
        return stk_err_nomem(err, strlen(c->dst));
    out->taken = stk_scratch_taken(out->tier);
    look_into(c, src, out->tier, out);
    /* A begun copy takes writes; a disk that is flushing would keep us waiting. */
    struct stk_target_wish wish = {.limit.stop = c->stop, .no_probe = out->begun};
    int rc = stk_target_judge(out->tier, &wish, out->target, err);
    if (rc == 0 && !out->begun && out->target->verdict == STK_TARGET_STALLED)
        rc = stk_err_set(err, STK_E_UNSUPPORTED, c->dst, -1, "%s", out->target->reason);
    return rc;
}

/* ---- a folder of the node ---- */

static int no_place(const struct stk_targets *all, uint64_t bytes, struct stk_err *err)
{
    struct stk_buf text = STK_BUF_INIT;
    char size[32];
    for (size_t i = 0; i < all->n; i++) {
        const struct stk_target *t = &all->target[i];
        if (t->verdict != STK_TARGET_UNSET && t->verdict != STK_TARGET_ABSENT &&
            t->verdict != STK_TARGET_SAME)
            stk_buf_printf(&text, "%s%s: %s", text.len ? "; " : "", t->name, t->reason);
    }
    int rc = stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                         "no folder on this node takes a copy of %s (%s); name one as DST, or in "
                         "STOKER_SCRATCH",
                         stk_format_size(bytes, size, sizeof size), stk_buf_cstr(&text));
    stk_buf_release(&text);
    return rc;
}

static int take_best(const struct stk_choose_options *c, const struct stk_source *src,
                     struct stk_chosen *out, struct stk_err *err)
{
    struct stk_target_wish wish = {.bytes = c->bytes, .files = src->count, .limit.stop = c->stop};
    out->targets = calloc(1, sizeof *out->targets);
    if (!out->targets)
        return stk_err_nomem(err, sizeof *out->targets);
    int rc = stk_targets_find(&wish, out->targets, err);
    if (rc)
        return rc;
    struct stk_targets *all = out->targets;
    out->target = find_begun(c, src, out);
    if (!out->target && all->best < all->n)
        out->target = &all->target[all->best];
    if (!out->target)
        return no_place(all, c->bytes, err);
    stk_buf_printf(&out->why, "%s: %s", out->target->name,
                   out->begun ? "the copy was begun there" : out->target->reason);
    out->tier = stk_scratch_tier(out->target->path);
    if (!out->tier)
        return stk_err_nomem(err, strlen(out->target->path));
    out->taken = stk_scratch_taken(out->tier);
    return 0;
}

int stk_choose_tier(const struct stk_choose_options *c, const struct stk_source *src,
                    struct stk_chosen *out, struct stk_err *err)
{
    *out = (struct stk_chosen){.file_bytes = src->count ? src->bytes / src->count : 0};
    return c->dst ? take_named(c, src, out, err) : take_best(c, src, out, err);
}

void stk_chosen_release(struct stk_chosen *c)
{
    if (!c->targets)
        free(c->target);
    free(c->targets);
    free(c->tier);
    stk_buf_release(&c->why);
    *c = (struct stk_chosen){0};
}

void stk_chosen_stripe(struct stk_chosen *c, const char *path, uint64_t file_bytes)
{
    char what[64];
    /* Only Lustre has stripes, and the folder was looked at when it was judged. */
    if (c->target && !c->target->facts.error && !c->target->facts.stripes)
        return;
    stk_target_stripe(path, file_bytes ? file_bytes : c->file_bytes, REQUEST_BYTES, what,
                      sizeof what);
    if (what[0])
        stk_buf_printf(&c->why, "%s%s", c->why.len ? "; " : "", what);
}

/* ---- tiers without a source ---- */

int stk_tiers_each(const char *dst, int (*see)(void *user, const char *path), void *user)
{
    struct stk_scratch list[STK_SCRATCHES];
    int rc = 0;
    if (dst) {
        char *tier = stk_tier_named(dst);
        rc = tier ? see(user, tier) : STK_E_NOMEM;
        free(tier);
        return rc;
    }
    size_t n = stk_scratch_list(list);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        char *tier = list[i].path ? stk_scratch_tier(list[i].path) : NULL;
        bool again = false;
        for (size_t k = 0; k < i && tier; k++)
            again = again || (list[k].path && strcmp(list[k].path, list[i].path) == 0);
        if (tier && !again && exists(tier))
            rc = see(user, tier);
        free(tier);
    }
    return rc;
}

/* ---- a folder in the source ---- */

/* The real path of the nearest folder above that exists; NULL: there is none. malloc'ed. */
static char *nearest(const char *path)
{
    char *at = strdup(path), *real = NULL, *slash = at;
    while (at && slash && !(real = realpath(at[0] ? at : "/", NULL)))
        if ((slash = strrchr(at, '/')))
            *slash = '\0';
    free(at);
    return real;
}

bool stk_path_is_inside(const char *path, const char *folder)
{
    size_t n = strlen(folder);
    char *real = nearest(path);
    n -= n && folder[n - 1] == '/';
    bool inside = real && strncmp(real, folder, n) == 0 && (!real[n] || real[n] == '/');
    free(real);
    return inside;
}
