/*
 * files.c - rules about how the data is divided into files: many small ones, too many or too
 * few shards, stripes.
 */
#include <math.h>
#include <string.h>

#include "dataset/layout.h"
#include "advice/priv.h"
#include "analysis/parts.h"

/* ---- many-small-files ---- */

/* The evaluation folder beside this training folder; NULL: none was read. */
static const char *evaluated_beside(struct advisor *ad, const struct stk_usage *u)
{
    const char *parent = stk_advice_parent(ad, u->name);
    for (size_t i = 0; i < ad->a->ndirs; i++) {
        const struct stk_usage *d = &ad->a->dir[i];
        if (d != u && d->files_read && strcmp(d->format, u->format) == 0 &&
            stk_kind_evaluated(d->name) && strcmp(stk_advice_parent(ad, d->name), parent) == 0)
            return d->name;
    }
    return NULL;
}

/* Training data and evaluation data each get a loader. */
static void evaluation_action(struct advisor *ad, struct stk_finding *f, const struct stk_usage *u,
                              struct stk_action loader)
{
    loader.path = evaluated_beside(ad, u);
    loader.loader.shuffle = "none";
    loader.loader.last = "short";
    loader.loader.decode = stk_advice_decode(ad, u->use, true);
    loader.note = "the validation set: every sample once, in order, nothing random";
    stk_advice_act(ad, f, loader);
}

/* Whether the files lie in folders of their own, one per class. */
static bool has_classes(const struct advisor *ad, const struct stk_usage *u, const char *folder)
{
    size_t n = strlen(folder);
    for (size_t i = 0; i < ad->a->nfiles; i++) {
        const struct stk_usage *file = &ad->a->file[i];
        if (strcmp(file->dir, u->name) == 0 && strncmp(file->name, folder, n) == 0 &&
            file->n.c[STK_C_READ_BYTES])
            return strchr(file->name + n + (file->name[n] == '/'), '/');
    }
    return false;
}

/* The cheapest change first: the loader reads the folder as it is. Then the program's own code on
 * stoker's reads; then packing, which pays for tiny files and a busy metadata server. */
static void folder_actions(struct advisor *ad, struct stk_finding *f, const struct stk_usage *u,
                           const char *folder)
{
    struct stk_action loader = stk_advice_loader(ad, folder);
    struct stk_action pack = stk_advice_pack(ad, folder);
    bool ordered = loader.loader.last;
    loader.loader.decode = stk_advice_decode(ad, u->use, ordered);
    loader.loader.labelled = has_classes(ad, u, folder);
    if (stk_kind_sample(u)) /* each file as it is */
        loader.loader.field[0] = (struct stk_file_field){.name = "data", .format = u->format};
    stk_advice_act(ad, f, loader);
    if (stk_advice_in_python(ad) && !ordered)
        evaluation_action(ad, f, u, loader);
    stk_advice_map(ad, f, loader);
    /* A seed: files are listed by name, so classes would follow one another. */
    pack.depth = ordered ? 0 : 1;
    pack.instead = true;
    stk_advice_act(ad, f, pack);
    loader.path = pack.to;
    stk_advice_act(ad, f, loader);
}

struct child {        /* a folder in a folder */
    const char *path; /* not terminated */
    size_t len;
    double files;
};

/* The folder directly below `folder` in which a file lies, unless it lies in `folder` itself. */
static bool child_of(const struct stk_usage *file, const struct stk_usage *u, const char *folder,
                     struct child *out)
{
    size_t n = strlen(folder);
    if (!file->files_read || strcmp(file->dir, u->name) != 0 ||
        strncmp(file->name, folder, n) != 0 || file->name[n] != '/')
        return false;
    const char *slash = strchr(file->name + n + 1, '/');
    *out = (struct child){file->name, slash ? (size_t)(slash - file->name) : 0,
                          (double)file->files_read};
    return slash;
}

static bool same_child(const struct child *a, const struct child *b)
{
    return a->len == b->len && memcmp(a->path, b->path, a->len) == 0;
}

/* The child with most of the files, if there is one (Boyer-Moore), and how many it has. */
static struct child fullest_child(const struct advisor *ad, const struct stk_usage *u,
                                  const char *folder)
{
    struct child most = {0}, one;
    for (size_t i = 0; i < ad->a->nfiles; i++) {
        if (!child_of(&ad->a->file[i], u, folder, &one))
            continue;
        if (most.files > 0 && !same_child(&most, &one))
            most.files -= one.files;
        else if (most.files > 0)
            most.files += one.files;
        else
            most = one;
    }
    most.files = 0;
    for (size_t i = 0; most.path && i < ad->a->nfiles; i++)
        if (child_of(&ad->a->file[i], u, folder, &one) && same_child(&most, &one))
            most.files += one.files;
    return most;
}

/* The deepest folder that holds all but a few of the files: the others are strays. */
static const char *folder_of(struct advisor *ad, const struct stk_usage *u, double *files)
{
    const char *folder = u->name;
    *files = (double)u->files_read;
    for (;;) {
        struct child c = fullest_child(ad, u, folder);
        if (!c.path || c.files < stk_limits.nearly_all * (double)u->files_read)
            return folder;
        folder = stk_advice_text(ad, "%.*s", (int)c.len, c.path);
        *files = c.files;
    }
}

/* Which of images/ and labels/ a directory is, by its own name. */
static enum stk_layout_side side_of(struct advisor *ad, const char *dir)
{
    size_t from, n;
    const char *slash = strrchr(dir, '/');
    const char *name = stk_advice_text(ad, "%s/", slash ? slash + 1 : dir);
    return stk_layout_side(name, strlen(name), &from, &n);
}

/* A folder of files that were read. */
struct part {
    const char *folder, *format;
    double files, bytes;
};

static bool is_in(const struct stk_usage *file, const char *folder)
{
    size_t n = strlen(folder);
    return file->files_read && strncmp(file->name, folder, n) == 0 && file->name[n] == '/';
}

static struct part part_of(const struct advisor *ad, const char *folder)
{
    struct part p = {.folder = folder, .format = ""};
    for (size_t i = 0; i < ad->a->nfiles; i++) {
        const struct stk_usage *file = &ad->a->file[i];
        if (!is_in(file, folder))
            continue;
        p.format = *p.format ? p.format : file->format;
        p.files += (double)file->files_read;
        p.bytes += (double)file->distinct_bytes;
    }
    return p;
}

/* The stem of a file's name: what the parts of a sample have in common. */
static size_t stem_of(const struct stk_usage *file, const char **base)
{
    const char *slash = strrchr(file->name, '/');
    *base = slash ? slash + 1 : file->name;
    return strcspn(*base, ".");
}

static bool has_stem(const struct advisor *ad, const char *folder, const struct stk_usage *like)
{
    const char *want, *base;
    size_t n = stem_of(like, &want);
    for (size_t i = 0; i < ad->a->nfiles; i++)
        if (is_in(&ad->a->file[i], folder) && stem_of(&ad->a->file[i], &base) == n &&
            memcmp(base, want, n) == 0)
            return true;
    return false;
}

#define STEMS 16 /* that are compared */

/* As many files, of the same names, of another kind: no classes, but parts of the same samples. */
static bool have_same_names(const struct advisor *ad, const struct part *x, const struct part *y)
{
    double a = x->bytes / fmax(1, x->files), b = y->bytes / fmax(1, y->files);
    bool alike =
        strcmp(x->format, y->format) == 0 && fmax(a, b) < stk_limits.other_kind * fmin(a, b);
    size_t seen = 0;
    for (size_t i = 0; i < ad->a->nfiles && seen < STEMS; i++) {
        const struct stk_usage *file = &ad->a->file[i];
        if (alike || (uint64_t)x->files != (uint64_t)y->files ||
            (is_in(file, x->folder) && !has_stem(ad, y->folder, file)))
            return false;
        seen += is_in(file, x->folder);
    }
    return seen == STEMS;
}

/* images/ and masks/: stoker takes them as one dataset. */
static bool are_sides(struct advisor *ad, const char *a, const char *b)
{
    enum stk_layout_side x = side_of(ad, a), y = side_of(ad, b);
    return x != STK_SIDE_NONE && y != STK_SIDE_NONE && x != y;
}

/* The only two folders in a folder; false: there are others, or files beside them. */
static bool two_folders(struct advisor *ad, const struct stk_usage *u, const char *child[2])
{
    size_t n = 0, len = strlen(u->name), k;
    for (size_t i = 0; i < ad->a->nfiles; i++) {
        const struct stk_usage *file = &ad->a->file[i];
        if (strcmp(file->dir, u->name) != 0 || !is_in(file, u->name))
            continue;
        const char *end = strchr(file->name + len + 1, '/');
        size_t size = end ? (size_t)(end - file->name) : 0;
        for (k = 0; k < n && !(strlen(child[k]) == size && memcmp(child[k], file->name, size) == 0);)
            k++;
        if (!end || k == 2)
            return false;
        if (k == n)
            child[n++] = stk_advice_text(ad, "%.*s", (int)size, file->name);
    }
    return n == 2;
}

static bool are_parts(struct advisor *ad, struct part part[2], bool *known)
{
    *known = are_sides(ad, part[0].folder, part[1].folder);
    return *known || have_same_names(ad, &part[0], &part[1]);
}

static bool are_beside(const char *a, const char *b)
{
    const char *x = strrchr(a, '/'), *y = strrchr(b, '/');
    return x && y && x - a == y - b && memcmp(a, b, (size_t)(x - a)) == 0;
}

#define SIBLINGS 4 /* folders that are looked at */

/* Two folders whose files are read together, each sample from both: those in this folder, or this
 * one and another beside it (*other). */
static bool find_parts(struct advisor *ad, const struct stk_usage *u, struct part part[2],
                       const struct stk_usage **other, bool *known)
{
    const char *child[2] = {NULL};
    *other = NULL;
    if (two_folders(ad, u, child)) {
        for (size_t k = 0; k < 2; k++)
            part[k] = part_of(ad, child[k]);
        return are_parts(ad, part, known);
    }
    /* One of many folders is a class. */
    for (size_t i = 0, n = 0; i < ad->a->ndirs && n < SIBLINGS; i++) {
        const struct stk_usage *d = &ad->a->dir[i];
        if (d == u || !d->files_read || !are_beside(d->name, u->name))
            continue;
        n++;
        part[0] = part_of(ad, u->name);
        part[1] = part_of(ad, d->name);
        if (are_parts(ad, part, known)) {
            *other = d;
            return true;
        }
    }
    return false;
}

static bool in_torch(struct advisor *ad, const char *folder)
{
    return stk_advice_loader(ad, folder).loader.framework == STK_FRAMEWORK_TORCH;
}

/* What follows the stem in the names of all files of a folder; NULL: they differ. */
static const char *suffix_in(const struct advisor *ad, const char *folder)
{
    const char *all = NULL, *base;
    for (size_t i = 0; i < ad->a->nfiles; i++) {
        const struct stk_usage *file = &ad->a->file[i];
        if (!is_in(file, folder))
            continue;
        const char *suffix = (stem_of(file, &base), base + strcspn(base, "."));
        if (!*suffix || (all && strcmp(all, suffix + 1) != 0))
            return NULL;
        all = suffix + 1;
    }
    return all;
}

/* The fields of a sample whose files lie in images/ and masks/: "png" and "masks.png", which are
 * bytes, or "jpg" and "txt", which is parsed (dataset/walk_tree.c). None for other kinds. */
static void fields_of(struct advisor *ad, const struct part part[2], struct stk_file_field field[2])
{
    bool swapped = side_of(ad, part[0].folder) != STK_SIDE_IMAGES;
    const struct part *x = &part[swapped], *y = &part[!swapped];
    const char *name = suffix_in(ad, x->folder), *other = suffix_in(ad, y->folder);
    bool mask = stk_use_of(y->format)->how & STK_USE_PICTURE;
    bool parsed = other && (strcmp(other, "txt") == 0 || strcmp(other, "json") == 0);
    if (!name || !other || !(stk_use_of(x->format)->how & STK_USE_PICTURE) || !(mask || parsed))
        return;
    if (mask)
        other = stk_advice_text(ad, "%s.%s", strrchr(y->folder, '/') + 1, other);
    field[0] = (struct stk_file_field){.name = name, .format = x->format};
    field[1] = (struct stk_file_field){.name = other, .format = y->format, .parsed = parsed};
}

/* Files that are parts of the same samples, and a loader that would lose one of them. */
static void parts_actions(struct advisor *ad, struct stk_finding *f, const char *parent,
                          const struct part part[2], bool known)
{
    struct stk_action loader = stk_advice_loader(ad, parent), pack = stk_advice_pack(ad, parent);
    loader.loader.parts = true;
    if (known)
        fields_of(ad, part, loader.loader.field);
    if (!known) {
        stk_advice_do(ad, f,
                      "Each sample is a file of each folder, read one after the other: read more "
                      "samples at once. stoker's loader and `stoker pack` take such files as one "
                      "sample if the folders are called images/ and masks/ (or labels/).");
        stk_advice_act(ad, f,
                       (struct stk_action){.kind = STK_ACT_READERS, .path = parent,
                                           .count = stk_whole(stk_limits.most_readers)});
        return;
    }
    stk_advice_do(ad, f,
                  "Let stoker read the folder: it takes the files of one name as one sample, has "
                  "many of them open at once, and leaves decoding to your code. Packing pays if "
                  "the files are tiny or the metadata server is busy.");
    stk_advice_load(ad, f, loader);
    pack.depth = loader.loader.last ? 0 : 1;
    pack.instead = true;
    stk_advice_act(ad, f, pack);
    loader.path = pack.to;
    stk_advice_load(ad, f, loader);
}

/* Files that stoker reads go to its loader; those of other libraries are merged by these. */
static void small_files_actions(struct advisor *ad, struct stk_finding *f,
                                const struct stk_usage *u, const char *folder)
{
    bool sample = stk_kind_sample(u) || stk_kind_packable(u);
    if (!sample || !ad->trains)
        stk_advice_do(ad, f, "%s",
                      sample ? "Read several at once, or pack them once into a few large files: "
                               "stoker's loader does the first, in the order of their names."
                             : "Rewrite them once as a few large files of the same format.");
    else
        stk_advice_do(
            ad, f,
            "Let stoker's loader read the folder: it has many files open at once, and nothing "
            "needs to be converted.%s Packing pays if the files are tiny or the metadata server is "
            "busy: a few large files are read in requests of megabytes. Where folders are classes, "
            "the labels are kept%s.",
            in_torch(ad, folder) ? " MapDataset keeps your own decoding and your DataLoader, and saves less." : "",
            stk_kind_evaluated(folder)
                ? ""
                : "; --shuffle mixes them, so that readers do not meet one class after the other");
    if (sample)
        folder_actions(ad, f, u, folder);
    else
        stk_advice_act(ad, f,
                       (struct stk_action){.kind = STK_ACT_REWRITE,
                                           .path = folder,
                                           .to = stk_advice_text(ad, "%s-merged", folder),
                                           .use = u->use});
}

/* Small files of one folder, or of two that are read together. */
struct small {
    double files, opens, bytes, meta_s, read_s;
    struct stk_work work;
    struct part part[2];
    bool parts, known; /* stoker takes the two folders as one dataset */
    const char *folder, *n;
};

static void add_small(struct small *s, const struct stk_usage *u)
{
    s->files += (double)u->files_read;
    s->opens += (double)u->n.c[STK_C_OPENS];
    s->bytes += (double)u->n.c[STK_C_READ_BYTES];
    s->meta_s += u->meta_s;
    s->read_s += u->read_s;
    const struct stk_work w = stk_work_of(u);
    stk_work_add(&s->work, &w);
}

static struct small sum_small(struct advisor *ad, const struct stk_usage *u)
{
    struct small s = {.folder = u->name};
    const struct stk_usage *other;
    double files;
    s.parts = find_parts(ad, u, s.part, &other, &s.known);
    add_small(&s, u);
    if (s.parts && other) {
        add_small(&s, other);
        s.folder = stk_advice_parent(ad, u->name);
        s.n = stk_advice_count(ad, s.files);
        return s;
    }
    s.folder = s.parts ? u->name : folder_of(ad, u, &files);
    s.n = !s.parts && files < s.files ? stk_advice_count(ad, files) : stk_advice_files(ad, u);
    return s;
}

static bool are_small(const struct stk_usage *u)
{
    const uint64_t *c = u->n.c;
    double size = stk_per((double)u->distinct_bytes, u->files_read);
    bool whole = c[STK_C_OPENS] && c[STK_C_READS] / c[STK_C_OPENS] <= stk_limits.whole_reads;
    return u->files_read >= stk_limits.least_files && size <= (double)stk_limits.small_file &&
           whole && !stk_kind_stream(u) && !stk_kind_model(u) && !stk_usage_blocks(u) &&
           !stk_kind_store(u);
}

static void say_files(struct advisor *ad, struct stk_finding *f, const struct small *s, double size)
{
    const struct part *p = s->part;
    if (s->parts)
        stk_advice_say(ad, f,
                       "Each sample is a file of %s (%s on average) and one of %s (%s); they were "
                       "opened %s times.",
                       stk_advice_show(ad, p[0].folder),
                       stk_advice_size(ad, p[0].bytes / fmax(1, p[0].files)),
                       stk_advice_show(ad, p[1].folder),
                       stk_advice_size(ad, p[1].bytes / fmax(1, p[1].files)),
                       stk_advice_count(ad, s->opens));
    else
        stk_advice_say(ad, f, "%c%s files, %s on average, were opened %s times.",
                       *s->n == 'a' ? 'A' : *s->n, s->n + 1, stk_advice_size(ad, size),
                       stk_advice_count(ad, s->opens));
}

/* Seconds of the run that the loader saves. Of a thread that reads and decodes in turn, it takes
 * decode_s, too. Files that it cannot pair only get more readers. */
static double loader_saves_s(const struct advisor *ad, const struct stk_usage *u,
                             const struct small *s, double decode_s)
{
    const struct stk_storage *st = stk_advice_storage(ad, u);
    double now = stk_advice_wall(ad, s->read_s + s->meta_s);
    if (s->parts && !s->known)
        return stk_advice_spread_s(ad, st, &s->work, now, decode_s, stk_limits.most_readers);
    double cpu = ad->in_turn ? decode_s : ad->decode_s;
    double compute = stk_compute_of(ad->a) - decode_s;
    return now + decode_s - stk_advice_load_s(ad, st, s->bytes, cpu, compute);
}

static void small_files_in(struct advisor *ad, const struct stk_usage *u)
{
    if (!are_small(u))
        return;
    struct small s = sum_small(ad, u);
    const struct stk_storage *st = stk_advice_storage(ad, u);
    bool alone = s.parts && !s.known;
    bool decodes = alone || (stk_kind_sample(u) && stk_advice_decode(ad, u->use, false));
    double part = stk_per(s.bytes, ad->a->job.n.c[STK_C_READ_BYTES]);
    double decode = decodes && ad->in_turn ? ad->decode_s * part : 0;
    double old = s.read_s + s.meta_s, now = stk_advice_wall(ad, old) + decode;
    double gain = loader_saves_s(ad, u, &s, decode), io_gain = loader_saves_s(ad, u, &s, 0);
    double more = stk_limits.most_readers, loaded = now - gain;
    enum stk_reach reach = stk_advice_reach_of(u);
    /* Data in memory was put there: opening it is the only cost left. */
    bool felt = reach == STK_REACH_MEMORY ? stk_advice_felt(ad, reach, io_gain)
                                          : stk_advice_matters(ad, io_gain);
    if (!felt || (s.parts && stk_advice_said(ad, STK_RULE_MANY_SMALL_FILES, s.folder)))
        return;
    struct stk_finding *f =
        stk_advice_begin(ad, STK_RULE_MANY_SMALL_FILES, stk_advice_severity(ad, gain),
                         "%s small files in %s", s.n, stk_advice_show(ad, s.folder));
    double size = stk_per((double)u->distinct_bytes, u->files_read);
    say_files(ad, f, &s, size);
    stk_advice_say(
        ad, f,
        "Opening, stat, listing and closing took %s, reading %s; that is %s per opened file.",
        stk_advice_time(ad, s.meta_s), stk_advice_thread_time(ad, s.read_s),
        stk_advice_time(ad, old / s.opens));
    stk_advice_number(ad, f, "files_read", s.files, "count");
    stk_advice_number(ad, f, "mean_file_bytes", size, "bytes");
    stk_advice_number(ad, f, "opens", s.opens, "count");
    stk_advice_number(ad, f, "meta_s", s.meta_s, "s");
    stk_advice_number(ad, f, "read_s", s.read_s, "s");
    stk_advice_path(ad, f, s.folder);
    if (s.parts)
        parts_actions(ad, f, s.folder, s.part, s.known);
    else
        small_files_actions(ad, f, u, s.folder);
    if (alone)
        stk_advice_gain(ad, f, gain, "%.0f readers instead of %.1f take %s instead of %s.", more,
                        ad->readers_per_rank, stk_advice_time(ad, loaded), stk_advice_time(ad, now));
    else
        stk_advice_gain(
            ad, f, gain,
            "%s in large requests, many at once,%s take %s instead of %s of the run, at %s.",
            stk_advice_size(ad, s.bytes),
            stk_advice_matters(ad, decode) ? " and decoding in its threads" : "",
            stk_advice_time(ad, loaded), stk_advice_time(ad, now), stk_advice_pace(ad, st));
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
            ad, STK_RULE_TOO_MANY_FILES,
            stk_advice_matters(ad, gain) ? stk_advice_severity(ad, gain) : STK_SEV_NOTE,
            "%s %s files of %s: put more samples in each file",
            stk_advice_count(ad, (double)u->files_read), u->name, stk_advice_size(ad, per_file));
        stk_advice_say(ad, f, "%s files were opened %s times, %s of data in each.",
                       stk_advice_count(ad, (double)u->files_read),
                       stk_advice_count(ad, (double)u->n.c[STK_C_OPENS]),
                       stk_advice_size(ad, per_file));
        stk_advice_say(ad, f, "Calls that move no data took %s, %s of the I/O time.",
                       stk_advice_thread_time(ad, u->meta_s),
                       stk_advice_percent(ad, u->io_s > 0 ? u->meta_s / u->io_s : 0));
        stk_advice_number(ad, f, "files_read", (double)u->files_read, "count");
        stk_advice_number(ad, f, "mean_file_bytes", per_file, "bytes");
        stk_advice_number(ad, f, "meta_s", u->meta_s, "s");
        size_t at = 0;
        const struct stk_usage *first = stk_files_of(ad->a, u->name, &at);
        const char *dir = first ? stk_advice_parent(ad, first->name) : ".";
        stk_advice_path(ad, f, dir);
        stk_advice_do(
            ad, f,
            "Put more samples in each file: shards of 256 MiB, but no fewer shards than "
            "ranks. Fewer files reduce how well a shuffle by files mixes: --shuffle mixes "
            "the samples while packing; leave it out if their order matters.");
        struct stk_action pack = stk_advice_pack(ad, dir);
        pack.format = u->name;
        pack.depth = stk_kind_evaluated(dir) || !ad->trains ? 0 : 1;
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
        stk_advice_begin(ad, STK_RULE_TOO_FEW_FILES, STK_SEV_LOW,
                         "%u ranks read one file from one storage target", u->ranks);
    stk_advice_say(ad, f, "%s has a stripe count of 1; %u ranks read %s of it.",
                   stk_advice_show(ad, u->name), u->ranks,
                   stk_advice_size(ad, (double)u->n.c[STK_C_READ_BYTES]));
    stk_advice_number(ad, f, "stripe_count", 1, "count");
    stk_advice_number(ad, f, "ranks", u->ranks, "count");
    stk_advice_path(ad, f, u->name);
    stk_advice_do(ad, f,
                  "Spread the file over several targets, or cut it into shards. -c %llu: %u ranks "
                  "read at once, and a few targets serve many ranks; more stripes than that cost "
                  "more at each open.",
                  (unsigned long long)stk_limits.spread, u->ranks);
    stk_advice_act_all(
        ad, f, (struct stk_action){.kind = STK_ACT_STRIPE_FILE, .count = stk_limits.spread});
    stk_advice_gain(ad, f, 0, "Depends on how busy the targets are: try it.");
    return true;
}

static void few_shards(struct advisor *ad, const struct stk_usage *u)
{
    struct stk_finding *f =
        stk_advice_begin(ad, STK_RULE_TOO_FEW_FILES, STK_SEV_LOW, "%s files for %u ranks",
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

static const char *why_stripe(struct advisor *ad, double stripe, double request)
{
    double parts = ceil(request / stripe);
    if (stripe <= LEAST_STRIPE && parts < stk_limits.stripe_parts)
        return "Lustre has no smaller stripes";
    if (parts > stk_limits.stripe_parts)
        return "larger parts than 4 MiB gain nothing";
    return stk_advice_text(ad, "%.0f targets then serve it together, each with one part", parts);
}

static void stripe_finding(struct advisor *ad, const struct stk_usage *u, double wait)
{
    const struct stk_prof_file *p = u->file;
    double request = u->mean_read_bytes, fit = fitting_stripe(request);
    const char *dir = stk_advice_parent(ad, u->name);
    struct stk_finding *f = stk_advice_begin(
        ad, STK_RULE_STRIPE_SIZE, p->stripe_bytes ? STK_SEV_LOW : STK_SEV_NOTE,
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
                  "Let a request span several targets. `lfs setstripe -S %.0fK -c %.0f` sets a "
                  "stripe of %s because a request has %s: %s. New files inherit the directory's "
                  "stripes; `lfs migrate` rewrites an existing file. Try it on a copy: on a busy "
                  "system fewer, larger requests (1 to 4 MiB) help more.",
                  fit / 1024, stk_limits.stripe_parts, stk_advice_size(ad, fit),
                  stk_advice_size(ad, request), why_stripe(ad, fit, request));
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
