/*
 * files.c - rules about how the data is divided into files: many small ones, too many or too
 * few shards, stripes.
 */
#include <math.h>
#include <string.h>

#include "advice/priv.h"
#include "analysis/parts.h"

/* ---- many-small-files ---- */

/* The evaluation folder beside this training folder; NULL: none was read. */
static const char *evaluated_beside(struct advisor *ad, const struct stk_usage *u)
{
    const char *parent = stk_advice_parent(ad, u->name);
    for (size_t i = 0; i < ad->a->ndirs; i++) {
        const struct stk_usage *d = &ad->a->dir[i];
        if (d != u && d->files_read && stk_kind_sample(d) && stk_kind_evaluated(d->name) &&
            strcmp(stk_advice_parent(ad, d->name), parent) == 0)
            return d->name;
    }
    return NULL;
}

/* Training data and evaluation data each get a loader. */
static void evaluation_action(struct advisor *ad, struct stk_finding *f, const struct stk_usage *u,
                              struct stk_action torch)
{
    torch.path = evaluated_beside(ad, u);
    torch.loader.shuffle = "none";
    torch.loader.last = "short";
    torch.loader.decode = u->use->decode_val;
    torch.note = "the validation set: every sample once, in order, nothing random";
    stk_advice_act(ad, f, torch);
}

static void pack_actions(struct advisor *ad, struct stk_finding *f, const struct stk_usage *u)
{
    struct stk_action pack = stk_advice_pack(ad, u->name);
    struct stk_action torch = stk_advice_loader(pack.to), other;
    bool evaluated = torch.loader.last;
    torch.loader.decode = evaluated ? u->use->decode_val : u->use->decode;
    /* A seed: files are listed by name, so classes would follow one another. */
    pack.depth = evaluated ? 0 : 1;
    stk_advice_act(ad, f, pack);
    stk_advice_act(ad, f, torch);
    if (!stk_advice_in_python(ad))
        return;
    if (!evaluated)
        evaluation_action(ad, f, u, torch);
    other = torch;
    other.instead = true;
    other.path = u->name;
    other.note = "or without packing, straight from the folder";
    stk_advice_act(ad, f, other);
    other = torch;
    other.instead = true;
    other.loader.framework = "tf";
    stk_advice_act(ad, f, other);
    other = torch;
    other.instead = true;
    other.kind = STK_ACT_MAP_DATASET;
    other.note =
        "or, in place of the dataset alone: your own code for each sample, your DataLoader";
    stk_advice_act(ad, f, other);
}

static void small_files_in(struct advisor *ad, const struct stk_usage *u)
{
    const uint64_t *c = u->n.c;
    double bytes = (double)c[STK_C_READ_BYTES];
    double size = stk_per((double)u->distinct_bytes, u->files_read);
    bool whole = c[STK_C_OPENS] && c[STK_C_READS] / c[STK_C_OPENS] <= stk_limits.whole_reads;
    if (u->files_read < stk_limits.least_files || size > (double)stk_limits.small_file || !whole ||
        stk_kind_stream(u) || stk_kind_model(u) || stk_kind_blocks(u))
        return;
    double old = u->read_s + u->meta_s;
    const struct stk_storage *st = stk_advice_storage(ad, u);
    double loaded = stk_advice_load_s(ad, st, bytes), gain = stk_advice_wall(ad, old) - loaded;
    enum reach reach = stk_advice_reach_of(u);
    /* Data in memory was put there: opening it is the only cost left. */
    if (reach == REACH_MEMORY ? !stk_advice_felt(ad, reach, gain) : !stk_advice_matters(ad, gain))
        return;
    struct stk_finding *f = stk_advice_begin(ad, "many-small-files", stk_advice_severity(ad, gain),
                                             "%s small files in %s", stk_advice_files(ad, u),
                                             stk_advice_show(ad, u->name));
    const char *n = stk_advice_files(ad, u);
    stk_advice_say(ad, f, "%c%s files, %s on average, were opened %s times.", *n == 'a' ? 'A' : *n,
                   n + 1, stk_advice_size(ad, size), stk_advice_count(ad, (double)c[STK_C_OPENS]));
    stk_advice_say(ad, f,
                   "Opening, stat, listing and closing took %s, reading %s: %s per opened file.",
                   stk_advice_time(ad, u->meta_s), stk_advice_time(ad, u->read_s),
                   stk_advice_time(ad, stk_per(old, c[STK_C_OPENS])));
    stk_advice_number(ad, f, "files_read", (double)u->files_read, "count");
    stk_advice_number(ad, f, "mean_file_bytes", size, "bytes");
    stk_advice_number(ad, f, "opens", (double)c[STK_C_OPENS], "count");
    stk_advice_number(ad, f, "meta_s", u->meta_s, "s");
    stk_advice_number(ad, f, "read_s", u->read_s, "s");
    stk_advice_path(ad, f, u->name);
    stk_advice_do(
        ad, f,
        "Pack them once into a few large files that are read in requests of megabytes. Where "
        "folders are classes, the labels are kept%s. Where the files are not tiny, or the storage "
        "is local, stoker's loader is often as fast on the folder itself: try that first.%s",
        stk_kind_evaluated(u->name)
            ? ""
            : "; --shuffle mixes them, so that readers do not meet one class after the other",
        stk_advice_in_python(ad) ? " MapDataset keeps your own decoding and your DataLoader." : "");
    pack_actions(ad, f, u);
    stk_advice_gain(ad, f, gain,
                    "%s in large requests, many at once, take %s instead of %s of the run, at %s.",
                    stk_advice_size(ad, bytes), stk_advice_time(ad, loaded),
                    stk_advice_time(ad, stk_advice_wall(ad, old)), stk_advice_pace(ad, st));
}

void stk_rule_many_small_files(struct advisor *ad)
{
    for (size_t i = 0; i < ad->a->ndirs; i++)
        small_files_in(ad, &ad->a->dir[i]);
}

/* ---- too-many-files ---- */

void stk_rule_too_many_files(struct advisor *ad)
{
    for (size_t i = 0; i < ad->a->nformats; i++) {
        const struct stk_usage *u = &ad->a->format[i];
        double per_file = stk_per((double)u->distinct_bytes, u->files_read);
        double io = stk_advice_wall(ad, u->io_s), meta = stk_advice_wall(ad, u->meta_s);
        bool many = u->files_read >= stk_limits.least_shards &&
                    (double)u->files_read >= stk_limits.shards_per_rank * ad->ranks;
        bool costs =
            u->meta_s >= stk_limits.meta_share * u->io_s ||
            (double)u->files_read >= stk_limits.plenty_of_shards * (double)stk_limits.least_shards;
        if (!stk_kind_stream(u) || !many || per_file > (double)stk_limits.shard_bytes / 2 ||
            stk_advice_share(ad, io) < stk_limits.exposed_share || !costs)
            continue;
        double target =
            fmax(ad->ranks, ceil((double)u->distinct_bytes / (double)stk_limits.shard_bytes));
        double gain = meta * (1 - fmin(1, target / (double)u->files_read));
        struct stk_finding *f = stk_advice_begin(
            ad, "too-many-files",
            stk_advice_matters(ad, gain) ? stk_advice_severity(ad, gain) : STK_SEV_NOTE,
            "%s %s files of %s: put more samples in each file",
            stk_advice_count(ad, (double)u->files_read), u->name, stk_advice_size(ad, per_file));
        stk_advice_say(ad, f, "%s files were opened %s times, %s of data in each.",
                       stk_advice_count(ad, (double)u->files_read),
                       stk_advice_count(ad, (double)u->n.c[STK_C_OPENS]),
                       stk_advice_size(ad, per_file));
        stk_advice_say(ad, f, "Calls that move no data took %s, %s of the I/O time.",
                       stk_advice_time(ad, u->meta_s),
                       stk_advice_percent(ad, u->io_s > 0 ? u->meta_s / u->io_s : 0));
        stk_advice_number(ad, f, "files_read", (double)u->files_read, "count");
        stk_advice_number(ad, f, "mean_file_bytes", per_file, "bytes");
        stk_advice_number(ad, f, "meta_s", u->meta_s, "s");
        size_t at = 0;
        const struct stk_usage *first = stk_files_of(ad->a, u->name, &at);
        const char *dir = first ? stk_advice_parent(ad, first->name) : ".";
        stk_advice_path(ad, f, dir);
        stk_advice_do(ad, f,
                      "Put more samples in each file: shards of 256 MiB, but no fewer shards than "
                      "ranks, or shuffling by file mixes too little.");
        struct stk_action pack = stk_advice_pack(ad, dir);
        pack.format = u->name;
        pack.count = stk_whole(target);
        stk_advice_act(ad, f, pack);
        stk_advice_gain(ad, f, gain,
                        "%s files instead of %s reduce the %s of opening in "
                        "proportion.",
                        stk_advice_count(ad, target), stk_advice_count(ad, (double)u->files_read),
                        stk_advice_time(ad, meta));
    }
}

/* ---- too-few-files ---- */

static bool one_target(const struct stk_usage *u)
{
    return stk_advice_stripes(u) && u->file->stripe_count == 1 &&
           u->ranks >= stk_limits.stripe_ranks &&
           u->n.c[STK_C_READ_BYTES] >= stk_limits.target_bytes;
}

/* Many ranks read files that each lie on one storage target. Returns whether that is a finding. */
static bool few_targets(struct advisor *ad)
{
    double s = 0;
    const struct stk_usage *u = NULL;
    for (size_t i = 0; i < ad->a->nfiles; i++)
        if (one_target(&ad->a->file[i])) {
            u = u ? u : &ad->a->file[i];
            s += ad->a->file[i].read_s;
        }
    if (!u || stk_advice_share(ad, stk_advice_wall(ad, s)) < stk_limits.medium_share)
        return false;
    struct stk_finding *f =
        stk_advice_begin(ad, "too-few-files", STK_SEV_LOW,
                         "%u ranks read one file from one storage target", u->ranks);
    stk_advice_say(ad, f, "%s has a stripe count of 1; %u ranks read %s of it.",
                   stk_advice_show(ad, u->name), u->ranks,
                   stk_advice_size(ad, (double)u->n.c[STK_C_READ_BYTES]));
    stk_advice_number(ad, f, "stripe_count", 1, "count");
    stk_advice_number(ad, f, "ranks", u->ranks, "count");
    stk_advice_path(ad, f, u->name);
    stk_advice_do(ad, f, "Spread the file over several targets, or cut it into shards.");
    stk_advice_act_all(
        ad, f, (struct stk_action){.kind = STK_ACT_STRIPE_FILE, .count = stk_limits.spread});
    stk_advice_gain(ad, f, 0, "Depends on how busy the targets are: try it.");
    return true;
}

static void few_shards(struct advisor *ad, const struct stk_usage *u)
{
    struct stk_finding *f =
        stk_advice_begin(ad, "too-few-files", STK_SEV_LOW, "%s files for %u ranks",
                         stk_advice_count(ad, (double)u->files_read), ad->p->nranks);
    stk_advice_say(ad, f, "Only %u of %u ranks read any of the %s %s files.", u->ranks,
                   ad->p->nranks, stk_advice_count(ad, (double)u->files_read), u->name);
    stk_advice_number(ad, f, "files_read", (double)u->files_read, "count");
    stk_advice_number(ad, f, "ranks", ad->p->nranks, "count");
    size_t at = 0;
    const struct stk_usage *first = stk_files_of(ad->a, u->name, &at);
    if (first) { /* not when all of them are among the files that are not kept individually */
        struct stk_action pack = stk_advice_pack(
            ad, u->files_read > 1 ? stk_advice_parent(ad, first->name) : first->name);
        pack.format = u->name;
        pack.count = stk_whole(stk_limits.shards_per_rank * ad->p->nranks);
        stk_advice_path(ad, f, first->name);
        stk_advice_act(ad, f, pack);
    }
    stk_advice_do(ad, f, "Divide the data into at least as many files as there are ranks.");
    stk_advice_gain(ad, f, 0, "Ranks without data do not train: time is not the issue.");
}

void stk_rule_too_few_files(struct advisor *ad)
{
    if (few_targets(ad))
        return;
    for (size_t i = 0; i < ad->a->nformats; i++) {
        const struct stk_usage *u = &ad->a->format[i];
        if (!stk_kind_stream(u) || !u->ranks || ad->p->nranks <= u->ranks ||
            u->files_read >= ad->p->nranks || u->n.c[STK_C_READ_BYTES] < stk_limits.shared_out)
            continue;
        few_shards(ad, u);
        return;
    }
}

/* ---- stripe-size ---- */

#define LEAST_STRIPE 65536 /* Lustre's minimum */

/* The stripe that divides a request among several targets, within Lustre's limits. */
static double fitting_stripe(double request)
{
    double s = LEAST_STRIPE;
    while (s * stk_limits.stripe_parts < request && s < (double)stk_limits.big_read)
        s *= 2;
    return s;
}

static void stripe_finding(struct advisor *ad, const struct stk_usage *u, double wait)
{
    const struct stk_prof_file *p = u->file;
    double request = u->mean_read_bytes, fit = fitting_stripe(request);
    const char *dir = stk_advice_parent(ad, u->name);
    struct stk_finding *f = stk_advice_begin(
        ad, "stripe-size", p->stripe_bytes ? STK_SEV_LOW : STK_SEV_NOTE,
        p->stripe_bytes ? "Lustre stripes of %s for requests of %s"
                        : "Lustre stripes %sshould suit requests of %s",
        p->stripe_bytes ? stk_advice_size(ad, p->stripe_bytes) : "", stk_advice_size(ad, request));
    stk_advice_say(ad, f, "%s lies on Lustre; its reads average %s and take %s of the run.",
                   stk_advice_show(ad, u->name), stk_advice_size(ad, request),
                   stk_advice_percent(ad, stk_advice_share(ad, wait)));
    if (p->stripe_bytes)
        stk_advice_say(ad, f, "Stripe size %s, stripe count %u: %s.",
                       stk_advice_size(ad, p->stripe_bytes), p->stripe_count,
                       p->stripe_bytes > request ? "one target serves a whole request"
                                                 : "a request is split into many small parts");
    stk_advice_number(ad, f, "stripe_bytes", p->stripe_bytes, "bytes");
    stk_advice_number(ad, f, "stripe_count", p->stripe_count, "count");
    stk_advice_number(ad, f, "mean_read_bytes", request, "bytes");
    stk_advice_path(ad, f, u->name);
    stk_advice_do(ad, f,
                  "Let a request span several targets: a stripe of about a quarter of the "
                  "request. New files inherit the directory's stripes; existing files must be "
                  "migrated. Try it on a copy: on a busy system fewer, larger requests (1 to 4 "
                  "MiB) help more.");
    uint64_t targets = stk_whole(stk_limits.stripe_parts);
    struct stk_action show = {.kind = STK_ACT_SHOW_STRIPES, .path = u->name};
    struct stk_action new = {
        .kind = STK_ACT_STRIPE_NEW, .path = dir, .count = targets, .bytes = stk_whole(fit)};
    struct stk_action old = {
        .kind = STK_ACT_STRIPE_FILE, .path = u->name, .count = targets, .bytes = stk_whole(fit)};
    if (!p->stripe_bytes)
        stk_advice_act(ad, f, show);
    stk_advice_act(ad, f, new);
    stk_advice_act(ad, f, old);
    stk_advice_gain(ad, f, 0, "Depends on the load of the targets: measure it on a copy.");
}

void stk_rule_stripe_size(struct advisor *ad)
{
    for (size_t i = 0; i < ad->a->nformats; i++) {
        const struct stk_usage *u;
        size_t at = 0;
        while ((u = stk_files_of(ad->a, ad->a->format[i].name, &at))) {
            const struct stk_prof_file *p = u->file;
            double wait = stk_advice_wall(ad, ad->a->format[i].read_s);
            double r = u->mean_read_bytes, s = p->stripe_bytes;
            bool striped = stk_advice_stripes(u) && r > 0 && !stk_kind_whole(u);
            bool bad = (s <= 0 && r < (double)stk_limits.unit_read) ||
                       s > stk_limits.stripe_over * r ||
                       (p->stripe_count > 1 && s * stk_limits.stripe_under < r);
            /* A stripe cannot be smaller: there is nothing to advise. */
            bool least = s > 0 && s <= LEAST_STRIPE && s > stk_limits.stripe_over * r;
            if (!striped || !bad || least || stk_advice_share(ad, wait) < stk_limits.medium_share)
                continue;
            stripe_finding(ad, u, wait);
            break; /* one per format: the others lie beside it */
        }
    }
}
