/*
 * action.c - the table of actions: their names in JSON, and the code that each becomes, which stands
 * in files (advice/code, format/code). What is chosen here is which file, and the values of its
 * places.
 */
#include "advice/action.h"

#include "advice_code.h"
#include "base/text.h"

#include <stdio.h>

struct rendering {                       /* an action on its way to code */
    const struct stk_action *a, *before; /* NULL: this is the first action */
    bool followed;                       /* by another loader */
    const struct stk_action_scene *scene;
    struct stk_snippets *out;
};

typedef void (*put_fn)(const struct rendering *);

/*
 * The code of one kind: `shell` comes first, then that of the format (`of_format`), then `python`,
 * or `c` where there is one and the program is not Python.
 */
struct row {
    struct stk_action_info info;
    const char *shell, *python, *c;
    const char *numpy, *tf; /* instead of `python` if the program uses no framework, or TensorFlow */
    size_t of_format;       /* offset of the code in struct stk_format_use; 0: none */
    bool besides;           /* with an unknown framework, the other code follows the format's */
    bool own_file;          /* the code needs a file that the program opens itself */
    put_fn put;             /* replaces all of the above */
};

/* ---- places --------------------------------------------------------------------------------- */

#define PLACES 32

struct places {
    struct stk_place at[PLACES + 1]; /* the last one has no name */
    size_t n;
    struct stk_arena arena; /* of values that are made here */
    bool fail;
};

static void set(struct places *p, const char *name, const char *value)
{
    p->at[p->n++] = (struct stk_place){.name = name, .value = value};
}

static void set_raw(struct places *p, const char *name, const char *value)
{
    p->at[p->n++] = (struct stk_place){.name = name, .value = value, .raw = true};
}

/* Takes what is in the buffer. */
static const char *keep(struct places *p, struct stk_buf *b)
{
    const char *text = stk_buf_cstr(b);
    char *kept = b->fail ? NULL : stk_arena_dup(&p->arena, text, strlen(text));
    p->fail = p->fail || !kept;
    stk_buf_release(b);
    return kept;
}

static void set_number(struct places *p, const char *name, uint64_t n, const char *end)
{
    struct stk_buf b = STK_BUF_INIT;
    stk_buf_printf(&b, "%llu%s", (unsigned long long)n, end);
    set_raw(p, name, n ? keep(p, &b) : NULL);
    stk_buf_release(&b);
}

/* In code, as people write sizes: "4 << 20". */
static void set_bytes(struct places *p, uint64_t bytes, enum stk_language language)
{
    bool whole = language != STK_SHELL && bytes % (1u << 20) == 0;
    set_number(p, "BYTES", whole ? bytes >> 20 : bytes, whole ? " << 20" : "");
}

static void set_open(struct places *p, const struct stk_action *a)
{
    const struct stk_place source[] = {{"SOURCE", a->path ? a->path : "PATH", .raw = !a->path}, {0}};
    struct stk_buf b = STK_BUF_INIT;
    stk_code_fill(&b, STK_PYTHON, a->use && a->use->open ? a->use->open : stk_code_any_open_py,
                  source, false);
    b.len -= b.len > 0; /* its line break */
    set_raw(p, "OPEN", keep(p, &b));
}

/* An empty `to` means that only the node knows: $TMPDIR, which must be set. */
static void set_target(struct places *p, const char *to, enum stk_language language)
{
    if (to && *to)
        set(p, "TARGET", to);
    else
        set_raw(p, "TARGET",
                language == STK_SHELL ? "\"${TMPDIR:?}\""
                : language == STK_C   ? "getenv(\"TMPDIR\")"
                                      : "os.environ[\"TMPDIR\"]");
}

static void set_common(struct places *p, const struct stk_action *a, enum stk_language language)
{
    if (a->path)
        set(p, "SOURCE", a->path);
    else
        set_raw(p, "SOURCE", "PATH");
    set_number(p, "COUNT", a->count, "");
    set_number(p, "DEPTH", a->depth, "");
    set_bytes(p, a->bytes, language);
}

static void put_filled(const struct rendering *s, enum stk_language language, const char *code,
                       struct places *p, bool commented)
{
    struct stk_buf text = STK_BUF_INIT;
    stk_code_fill(&text, language, code, p->at, commented);
    stk_snippets_add(s->out, language, &text);
    s->out->fail = s->out->fail || p->fail;
    stk_buf_release(&text);
    stk_arena_release(&p->arena);
}

static void put(const struct rendering *s, enum stk_language language, const char *code)
{
    struct places p = {0};
    if (!code)
        return;
    set_common(&p, s->a, language);
    set_target(&p, s->a->to, language);
    set_open(&p, s->a);
    put_filled(s, language, code, &p, false);
}

/* ---- which code ----------------------------------------------------------------------------- */

static const char *const frameworks[] = {"", "torch", "tf", "numpy", "c", NULL};

const char *stk_framework_name(enum stk_framework framework)
{
    return framework ? frameworks[framework] : NULL;
}

enum stk_framework stk_framework_of(const char *name)
{
    int i = stk_text_index(name, frameworks);
    return i < 0 ? STK_FRAMEWORK_UNKNOWN : (enum stk_framework)i;
}

/* Whether the format's code suits the program. */
static bool has_package(const struct stk_format_use *use, const struct stk_action_scene *scene)
{
    return !use->package || !scene->loaded || scene->loaded(scene->job, use->package);
}

/* The code of the file's format; for files that a library opens, also one that serves the same end
 * as code with a file of one's own. */
static const char *code_of_format(const struct stk_action *a, const struct row *r,
                                  const struct stk_action_scene *scene)
{
    const struct stk_format_use *use = a->use;
    if (!use || !has_package(use, scene))
        return NULL;
    const char *code = r->of_format ? *(const char *const *)((const char *)use + r->of_format) : "";
    if (code && *code)
        return code;
    if (!r->own_file || !(use->how & STK_USE_LIBRARY) || a->kind >= STK_ACT_LARGER_WRITES)
        return NULL;
    return r->of_format ? use->keep : use->larger;
}

static bool in_c(const struct row *r, const struct stk_action_scene *scene)
{
    return !scene->python && r->c;
}

static const char *code_of(const struct row *r, const struct stk_action_scene *scene)
{
    if (in_c(r, scene))
        return r->c;
    if (scene->framework == STK_FRAMEWORK_TF && r->tf)
        return r->tf;
    return scene->framework == STK_FRAMEWORK_NUMPY && r->numpy ? r->numpy : r->python;
}

static void put_row(const struct rendering *s, const struct row *r)
{
    const char *known = code_of_format(s->a, r, s->scene);
    put(s, STK_SHELL, r->shell);
    put(s, STK_PYTHON, known);
    if (!known || (r->besides && !s->scene->framework))
        put(s, in_c(r, s->scene) ? STK_C : STK_PYTHON, code_of(r, s->scene));
}

/* ---- packing and loaders -------------------------------------------------------------------- */

static void put_pack(const struct rendering *s)
{
    struct stk_action a = *s->a;
    struct places p = {0};
    a.bytes = a.count ? 0 : a.bytes; /* the two exclude each other */
    set_common(&p, &a, STK_SHELL);
    set(&p, "TARGET", a.to);
    set(&p, "FORMAT", a.format);
    set(&p, "CODEC", a.codec);
    set_raw(&p, "INTRO", a.instead ? "or, packed once:" : NULL);
    put_filled(s, STK_SHELL, stk_code_pack_sh, &p, false);
}

/* Heads the code of a loader, which replaces something in the program. */
static void set_intro(const struct rendering *s, struct places *p)
{
    const char *then = s->before && s->before->kind == STK_ACT_PACK ? "then, " : "";
    const char *old = s->a->loader.framework == STK_FRAMEWORK_C    ? "the program's own reads"
                      : s->scene->framework == STK_FRAMEWORK_NUMPY ? "your loop over the data"
                      : s->scene->framework == STK_FRAMEWORK_TF    ? "your tf.data.Dataset"
                                                                   : "the dataset and its "
                                                                     "DataLoader";
    struct stk_buf b = STK_BUF_INIT;
    if (s->a->note)
        stk_buf_printf(&b, "%s:", s->a->note);
    else
        stk_buf_printf(&b, "%sin place of %s:", s->a->instead ? "or, " : then, old);
    set_raw(p, "INTRO", keep(p, &b));
}

static bool after_loader(const struct rendering *s)
{
    return s->before && s->before->kind == STK_ACT_LOADER;
}

/* Batches are (x, y) as a training loop expects them. */
static bool is_tuple(const struct rendering *s)
{
    return s->a->loader.decode && s->a->loader.labelled &&
           s->a->loader.framework != STK_FRAMEWORK_TF;
}

/* Tensors as ToTensor makes them; arrays as a decoder makes them. What a profile cannot know is
 * marked. */
static void set_decode(const struct rendering *s, struct places *p)
{
    const struct stk_action *a = s->a;
    struct stk_buf b = STK_BUF_INIT;
    bool torch = a->loader.framework == STK_FRAMEWORK_TORCH;
    stk_buf_printf(&b, "%s%s", a->loader.decode, torch ? ",layout=chw,dtype=float32" : "");
    set(p, "DECODE", keep(p, &b));
    set_raw(p, "FIELDS", is_tuple(s) ? "(\"data\", \"label\")" : NULL);
    const char *size = a->loader.size_known ? "" : "your image size";
    const char *random = a->loader.last ? "" : *size ? ", augmentation" : "your augmentation";
    stk_buf_printf(&b, "ADAPT: %s%s%smean=, std= of Normalize", size, random,
                   *size || *random ? ", " : "");
    bool stored = !strchr(a->loader.decode, ':'); /* as it is */
    set_raw(p, "DECODE_MARK", stored ? NULL : keep(p, &b));
    stk_buf_release(&b);
}

static void set_loader(const struct rendering *s, struct places *p, enum stk_language language)
{
    const struct stk_action *a = s->a;
    bool c = language == STK_C;
    set_common(p, a, language);
    set_intro(s, p);
    set_number(p, "BATCH", a->loader.batch, "");
    set_number(p, "THREADS", a->loader.threads, "");
    set_raw(p, "BATCH_MARK", a->loader.batch_known ? NULL : "ADAPT: your batch size");
    if (c) {
        set_raw(p, "SHUFFLE", a->loader.last ? "STK_SHUFFLE_NONE" : NULL);
        return;
    }
    set(p, "SHUFFLE", a->loader.shuffle);
    set_raw(p, "LOADER", after_loader(s) && a->loader.last ? "val_loader" : "loader");
    if (a->loader.decode)
        set_decode(s, p);
}

/* Files as samples: in TensorFlow, decoding is part of the graph, not of the loop. */
static bool gives_files(const struct rendering *s)
{
    const struct stk_action *a = s->a;
    return !a->loader.decode && a->loader.field[0].name &&
           a->loader.framework != STK_FRAMEWORK_TF;
}

static const char *load_of(const struct rendering *s, struct places *p, size_t n, const char *from)
{
    struct stk_buf b = STK_BUF_INIT;
    stk_field_load(s->a->loader.field, n, from, &b);
    return keep(p, &b);
}

static const char *item_of(const struct rendering *s, struct places *p, size_t n, const char *of)
{
    struct stk_buf b = STK_BUF_INIT;
    stk_buf_printf(&b, "%s[", of);
    stk_quote_python(&b, s->a->loader.field[n].name);
    stk_buf_putc(&b, ']');
    return keep(p, &b);
}

static void set_modules(const struct rendering *s, struct places *p)
{
    struct stk_buf b = STK_BUF_INIT;
    stk_fields_modules(s->a->loader.field, &b);
    set_raw(p, "MODULES", keep(p, &b));
}

/* What belongs to x: the other file of the sample, or its class. */
static const char *labels_of(const struct rendering *s, struct places *p)
{
    const struct stk_file_field *other = &s->a->loader.field[1];
    struct stk_buf b = STK_BUF_INIT;
    if (!other->name)
        return "batch[\"label\"]";
    const char *all = item_of(s, p, 1, "batch");
    if (other->parsed)
        return all;
    stk_buf_printf(&b, "[%s for b in %s]", load_of(s, p, 1, "b"), all);
    return keep(p, &b);
}

static void put_loop_of_files(const struct rendering *s)
{
    const struct stk_action *a = s->a;
    bool pairs = a->loader.field[1].name || a->loader.labelled;
    struct places p = {0};
    struct stk_buf b = STK_BUF_INIT;
    stk_fields_show(a->loader.field, a->loader.labelled, &b);
    set_modules(s, &p);
    set_raw(&p, "KINDS", keep(&p, &b));
    set_raw(&p, "LOAD", load_of(s, &p, 0, "b"));
    set(&p, "FIELD", a->loader.field[0].name);
    set_raw(&p, "LABELS", pairs ? labels_of(s, &p) : NULL);
    put_filled(s, STK_PYTHON, pairs ? stk_code_loop_pairs_py : stk_code_loop_files_py, &p, false);
}

static void put_loop(const struct rendering *s)
{
    bool torch = s->a->loader.framework == STK_FRAMEWORK_TORCH, tuple = is_tuple(s);
    struct places p = {0};
    if (gives_files(s)) {
        put_loop_of_files(s);
        return;
    }
    set_raw(&p, "KINDS",
            tuple ? torch ? "(n, 3, h, w), 0 to 1, as ToTensor; y: index of the class folder"
                          : "(n, h, w, 3), 0 to 255; y: index of the class folder"
            : s->a->loader.framework == STK_FRAMEWORK_TF ? "a dict of tensors, one per field"
            : torch ? "a dict: tensors of numbers, lists of bytes and of texts"
                    : "a dict: arrays of numbers, an array per sample of bytes, lists of texts");
    put_filled(s, STK_PYTHON,
               tuple                 ? stk_code_loop_labelled_py
               : s->a->loader.decode ? stk_code_loop_images_py
                                     : stk_code_loop_fields_py,
               &p, false);
}

static void put_python_loader(const struct rendering *s)
{
    static const struct {
        const char *code, *images;
    } known[] = {
        [STK_FRAMEWORK_TORCH] = {stk_code_use_loader_torch_py, stk_code_use_loader_torch_images_py},
        [STK_FRAMEWORK_TF] = {stk_code_use_loader_tf_py, stk_code_use_loader_tf_images_py},
        [STK_FRAMEWORK_NUMPY] = {stk_code_use_loader_numpy_py,
                                 stk_code_use_loader_numpy_images_py}};
    enum stk_framework k = s->a->loader.framework;
    struct places p = {0};
    set_loader(s, &p, STK_PYTHON);
    /* A second example whose path is unknown: a comment, since it cannot run as it stands. */
    put_filled(s, STK_PYTHON, s->a->loader.decode ? known[k].images : known[k].code, &p,
               after_loader(s) && !s->a->path);
    if (!after_loader(s))
        put_loop(s);
    if (!after_loader(s) && !s->a->loader.last)
        put(s, STK_PYTHON, stk_code_loop_order_py);
    /* A program reads its validation data whole and in order. */
    if (!s->followed && !s->a->loader.last && s->a->loader.framework != STK_FRAMEWORK_NUMPY)
        put(s, STK_PYTHON, stk_code_loop_validation_py);
}

static void put_loader(const struct rendering *s)
{
    struct places p = {0};
    if (s->a->loader.framework != STK_FRAMEWORK_C) {
        put_python_loader(s);
        return;
    }
    set_loader(s, &p, STK_C);
    put_filled(s, STK_C, stk_code_use_loader_c, &p, false);
}

static const char *sample_of(const struct rendering *s, struct places *p)
{
    const struct stk_action *a = s->a;
    struct stk_buf b = STK_BUF_INIT;
    for (size_t i = 0; i < STK_FIELDS && a->loader.field[i].name; i++)
        stk_buf_printf(&b, "%s%s", i ? ", " : "", load_of(s, p, i, item_of(s, p, i, "s")));
    stk_buf_puts(&b, a->loader.labelled ? ", s[\"label\"]" : "");
    return keep(p, &b);
}

/* The program keeps its own code per sample; stoker does the reads. */
static void put_map_dataset(const struct rendering *s)
{
    struct places p = {0};
    set_common(&p, s->a, STK_PYTHON);
    set_intro(s, &p);
    if (gives_files(s)) {
        set_modules(s, &p);
        set_raw(&p, "RESULT", sample_of(s, &p));
    }
    put_filled(s, STK_PYTHON,
               s->a->loader.decode ? stk_code_map_dataset_images_py
               : gives_files(s)    ? stk_code_map_dataset_files_py
                                   : stk_code_map_dataset_py,
               &p, false);
}

/* ---- staging -------------------------------------------------------------------------------- */

static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

/* Runs a command once on each node. */
static const char *each_node(const struct rendering *s)
{
    if (s->scene->scheduler == STK_SCHEDULER_SLURM)
        return "srun --ntasks-per-node=1 --ntasks=\"$SLURM_NNODES\"";
    return s->scene->nodes > 1 ? "mpirun --map-by ppr:1:node" : NULL;
}

static const char *words(struct places *p, const char *const *word, size_t n, const char *between,
                         const char *before)
{
    struct stk_buf b = STK_BUF_INIT;
    for (size_t i = 0; i < n; i++) {
        stk_buf_printf(&b, "%s%s", i ? between : "", before);
        stk_quote_shell(&b, word[i]);
    }
    return keep(p, &b);
}

/* The command is an argument of a shell itself, so its own paths are quoted twice. */
static void set_copy(struct places *p, const char *code)
{
    struct stk_buf inner = STK_BUF_INIT;
    stk_code_fill(&inner, STK_SHELL, code, p->at, false);
    inner.len -= inner.len > 0; /* its line break */
    set(p, "COPY", keep(p, &inner));
}

static const char *stage_code(const struct rendering *s)
{
    const struct stk_action *a = s->a;
    if (a->is_file && a->npaths > 1)
        return stk_code_stage_files_sh;
    if (a->is_file)
        return s->scene->scheduler == STK_SCHEDULER_SLURM ? stk_code_stage_file_slurm_sh
                                                         : stk_code_stage_file_sh;
    if (a->npatterns)
        return stk_code_stage_matching_sh;
    /* A whole folder, if no profile says which of its files were read. */
    return s->scene->profile ? stk_code_stage_listed_sh : stk_code_stage_sh;
}

static const char *copy_code(const char *code)
{
    return code == stk_code_stage_file_sh       ? stk_code_stage_copy_one_sh
           : code == stk_code_stage_files_sh    ? stk_code_stage_copy_many_sh
           : code == stk_code_stage_matching_sh ? stk_code_stage_copy_found_sh
                                                : stk_code_stage_copy_sh;
}

static void put_stage(const struct rendering *s)
{
    const struct stk_action *a = s->a;
    const char *code = stage_code(s);
    struct places p = {0};
    set_common(&p, a, STK_SHELL);
    if (code == stk_code_stage_sh)
        set(&p, "TARGET", a->to_named ? a->to : NULL);
    else
        set_target(&p, a->to, STK_SHELL);
    set(&p, "NAME", base_of(a->path));
    set(&p, "PROFILE", s->scene->profile);
    set_raw(&p, "EACH_NODE", each_node(s));
    set_raw(&p, "SOURCES", words(&p, a->paths, a->npaths, " ", ""));
    set_raw(&p, "PATTERNS", words(&p, a->pattern, a->npatterns, " -o ", "-name "));
    set_copy(&p, copy_code(code));
    put_filled(s, STK_SHELL, code, &p, false);
}

/* ---- stripes, read-ahead, nodes, databases -------------------------------------------------- */

static void put_stripes(const struct rendering *s, const char *code)
{
    struct places p = {0};
    set_common(&p, s->a, STK_SHELL);
    set_number(&p, "STRIPE", s->a->bytes >> 10, "K");
    put_filled(s, STK_SHELL, code, &p, false);
}

static void put_stripe_new(const struct rendering *s)
{
    put_stripes(s, stk_code_stripe_new_files_sh);
}

static void put_stripe_file(const struct rendering *s)
{
    put_stripes(s, stk_code_stripe_file_sh);
}

static void put_prefetch(const struct rendering *s)
{
    const struct stk_action *a = s->a;
    if (a->use && a->use->ahead && has_package(a->use, s->scene))
        put(s, STK_PYTHON, a->use->ahead);
    else if (!s->scene->python)
        put(s, STK_C, stk_code_prefetch_c);
    else
        put(s, STK_PYTHON,
            s->scene->framework == STK_FRAMEWORK_NUMPY ? stk_code_prefetch_numpy_py
            : s->scene->framework == STK_FRAMEWORK_TF  ? stk_code_prefetch_tf_py
            : a->pinned                     ? stk_code_prefetch_pinned_py
                                            : stk_code_prefetch_py);
}

/* How to inspect a node under a known scheduler. */
static void put_check_node(const struct rendering *s)
{
    static const char *const code[] = {[STK_SCHEDULER_SLURM] = stk_code_check_node_slurm_sh,
                                       [STK_SCHEDULER_PBS] = stk_code_check_node_pbs_sh,
                                       [STK_SCHEDULER_LSF] = stk_code_check_node_lsf_sh,
                                       [STK_SCHEDULER_SGE] = stk_code_check_node_sge_sh,
                                       [STK_SCHEDULER_OTHER] = NULL};
    struct stk_action node = {.path = s->a->path ? s->a->path : "NODE"};
    struct rendering there = {.a = &node, .scene = s->scene, .out = s->out};
    put(&there, STK_SHELL, code[s->scene->scheduler]);
}

/* A database that nobody writes, as a URI for SQLite, in which some characters of a path are
 * special. */
static void put_sqlite_read(const struct rendering *s)
{
    struct places p = {0};
    struct stk_buf uri = STK_BUF_INIT;
    stk_buf_puts(&uri, "file:");
    for (const char *c = s->a->path; *c; c++) {
        if (strchr("?#%", *c))
            stk_buf_printf(&uri, "%%%02X", (unsigned)(unsigned char)*c);
        else
            stk_buf_putc(&uri, *c);
    }
    stk_buf_puts(&uri, "?immutable=1");
    set(&p, "URI", keep(&p, &uri));
    put_filled(s, STK_PYTHON, stk_code_sqlite_read_only_py, &p, false);
}

static void put_rewrite(const struct rendering *s)
{
    const struct stk_format_use *use = s->a->use;
    if (use && use->rewriter)
        put(s, STK_SHELL, use->rewriter);
    else
        put(s, STK_PYTHON, use ? use->rewrite : NULL);
}

/* ---- the table ------------------------------------------------------------------------------ */

#define OF_FORMAT(code) .of_format = offsetof(struct stk_format_use, code)
#define SH(name)        .shell = stk_code_##name##_sh
#define PY(name)        .python = stk_code_##name##_py
#define C(name)         .c = stk_code_##name##_c
#define NUMPY(name)     .numpy = stk_code_##name##_numpy_py
#define TF(name)        .tf = stk_code_##name##_tf_py

static const struct row rows[STK_ACT_COUNT] = {
    [STK_ACT_PACK] = {{"pack", "source", "destination", "shards", "shard_bytes", "shuffle"},
                      .put = put_pack},
    [STK_ACT_STAGE] = {{"stage", "source", "where", "nodes", "bytes", NULL}, .put = put_stage},
    [STK_ACT_STRIPE_NEW] = {{"stripe-new-files", "directory", NULL, "stripe_count", "stripe_bytes",
                             NULL},
                            .put = put_stripe_new},
    [STK_ACT_STRIPE_FILE] = {{"stripe-file", "file", NULL, "stripe_count", "stripe_bytes", NULL},
                             .put = put_stripe_file},
    [STK_ACT_SHOW_STRIPES] = {{"show-stripes", .path = "file"}, SH(show_stripes)},
    [STK_ACT_LIST_ONCE] = {{"list-once", .path = "directory"}, SH(list_once)},
    [STK_ACT_WARM_UP] = {{"warm-up", .path = "file", .bytes = "bytes"}, SH(warm_up)},
    [STK_ACT_REWRITE] = {{"rewrite", "source", "destination", NULL, NULL, NULL},
                         .put = put_rewrite},
    [STK_ACT_SCRATCH] = {{"local-scratch", .path = "directory", .to = "where"},
                         PY(local_scratch),
                         C(local_scratch)},
    [STK_ACT_WRITE_ARCHIVE] = {{"write-archive", .path = "directory", .count = "files"},
                               PY(write_archive)},
    [STK_ACT_PACK_ENVIRONMENT] = {{"pack-environment", .path = "directory"}, SH(pack_environment)},
    [STK_ACT_LOCAL_SAVE] = {{"local-checkpoint", .path = "directory", .to = "where",
                             .bytes = "bytes"},
                            PY(local_checkpoint),
                            C(local_checkpoint)},

    [STK_ACT_LOADER] = {{"use-loader", .path = "dataset", .count = "ranks"}, .put = put_loader},
    [STK_ACT_MAP_DATASET] = {{"map-dataset", .path = "dataset"}, .put = put_map_dataset},
    [STK_ACT_READERS] = {{"more-readers", .path = "dataset", .count = "readers"},
                         PY(more_readers),
                         NUMPY(more_readers),
                         TF(more_readers),
                         C(more_readers),
                         OF_FORMAT(readers),
                         .besides = true},
    [STK_ACT_PREFETCH] = {{"prefetch", "dataset", NULL, "workers", "ahead_bytes",
                           "batches_per_worker"},
                          .put = put_prefetch},
    [STK_ACT_DECODERS] = {{"more-decoders", .count = "workers"},
                          PY(more_decoders),
                          NUMPY(more_decoders),
                          TF(more_decoders)},
    [STK_ACT_DIVIDE] = {{"divide-by-rank", .path = "dataset", .count = "ranks"},
                        PY(divide_by_rank),
                        NUMPY(divide_by_rank),
                        TF(divide_by_rank),
                        OF_FORMAT(divide),
                        .besides = true},
    [STK_ACT_PARTS] = {{"parts-by-rank", .path = "file", .count = "ranks"},
                       PY(parts_by_rank),
                       C(parts_by_rank)},
    [STK_ACT_EXCHANGE] = {{"exchange-parts", .count = "ranks"},
                          PY(exchange_parts),
                          C(exchange_parts)},
    [STK_ACT_READ_ALL] = {{"collective-reads", .path = "file", .count = "ranks"},
                          PY(collective_reads),
                          C(collective_reads)},
    [STK_ACT_WRITE_ALL] = {{"collective-writes", .path = "file", .count = "ranks"},
                           PY(collective_writes),
                           C(collective_writes)},
    [STK_ACT_AGGREGATORS] = {{"more-aggregators", .path = "file", .count = "aggregators"},
                             PY(more_aggregators),
                             C(more_aggregators)},
    [STK_ACT_CHECK_NODE] = {{"check-node", .path = "node"}, .put = put_check_node},

    [STK_ACT_LARGER_READS] = {{"larger-reads", .path = "file", .bytes = "request_bytes"},
                              PY(larger_reads),
                              C(larger_reads),
                              .own_file = true},
    [STK_ACT_STREAM_BUFFER] = {{"stream-buffer", .path = "file", .bytes = "buffer_bytes"},
                               PY(stream_buffer),
                               C(stream_buffer),
                               .own_file = true},
    [STK_ACT_BATCH_READS] = {{"batch-reads", .path = "file"}, OF_FORMAT(batch_read)},
    [STK_ACT_SORT_READS] = {{"sort-reads", .path = "file"}, PY(sort_reads), .own_file = true},
    [STK_ACT_PREAD] = {{"positioned-reads", .path = "file"},
                       PY(positioned_reads),
                       C(positioned_reads),
                       .own_file = true},
    [STK_ACT_READ_WHOLE] = {{"read-whole", .path = "file", .bytes = "bytes"},
                            PY(read_whole),
                            OF_FORMAT(load),
                            .own_file = true},
    [STK_ACT_READ_ONCE] = {{"read-once", .path = "file", .bytes = "bytes"},
                           PY(read_once),
                           OF_FORMAT(parse),
                           .own_file = true},
    [STK_ACT_KEEP_DATA] = {{"keep-in-memory", .path = "file", .bytes = "bytes"},
                           PY(keep_in_memory),
                           OF_FORMAT(keep),
                           .own_file = true},
    [STK_ACT_KEEP_OPEN] = {{"keep-open", .path = "file"}, PY(keep_open), NUMPY(keep_open)},
    [STK_ACT_KEEP_MAPPED] = {{"keep-mapped", .path = "file"}, PY(keep_mapped), C(keep_mapped)},
    [STK_ACT_KEEP_STAT] = {{"keep-stat", .path = "file"}, PY(keep_stat), C(keep_stat)},
    [STK_ACT_SQLITE_READ] = {{"sqlite-read-only", .path = "database"}, .put = put_sqlite_read},

    [STK_ACT_LARGER_WRITES] = {{"larger-writes", .path = "file", .bytes = "request_bytes"},
                               PY(larger_writes),
                               C(larger_writes),
                               .own_file = true},
    [STK_ACT_WHOLE_LINES] = {{"whole-lines", .path = "file"},
                             PY(whole_lines),
                             C(whole_lines),
                             .own_file = true},
    [STK_ACT_BATCH_WRITES] = {{"batch-writes", .path = "file"}, OF_FORMAT(batch_write)},
    [STK_ACT_SORT_WRITES] = {{"sort-writes", .path = "file"},
                             PY(sort_writes),
                             C(sort_writes),
                             .own_file = true},
    [STK_ACT_KEEP_WRITER] = {{"keep-writer", .path = "file"}, PY(keep_writer), C(keep_writer)},
    [STK_ACT_SYNC_ONCE] = {{"sync-once", .path = "file"}, PY(sync_once), C(sync_once)},
    [STK_ACT_SAVE_ASIDE] = {{"save-in-background", .path = "file"},
                            PY(save_in_background),
                            C(save_in_background)},
    [STK_ACT_SQLITE_COMMIT] = {{"sqlite-transactions", .path = "database"},
                               PY(sqlite_transactions)},
};

const struct stk_action_info *stk_action_info(enum stk_action_kind kind)
{
    return &rows[kind].info;
}

bool stk_action_applies(const struct stk_action *a, const struct stk_action_scene *scene)
{
    const struct row *r = &rows[a->kind];
    const struct stk_format_use *use = a->use;
    if (a->kind == STK_ACT_REWRITE)
        return use && (use->rewriter || (use->rewrite && has_package(use, scene)));
    if (r->put || !use || code_of_format(a, r, scene))
        return true;
    bool library = use->how & STK_USE_LIBRARY;
    if (a->kind == STK_ACT_KEEP_OPEN)
        return !library || (use->open && has_package(use, scene));
    /* Without the library, whoever reads the file can also read it as bytes, whole. */
    bool bytes = r->of_format && !has_package(use, scene);
    return code_of(r, scene) && (!library || !r->own_file || bytes);
}

void stk_actions_render(const struct stk_action *a, size_t n, const struct stk_action_scene *scene,
                        struct stk_snippets *out)
{
    for (size_t i = 0; i < n; i++) {
        struct rendering s = {.a = &a[i],
                              .before = i ? &a[i - 1] : NULL,
                              .followed = i + 1 < n && a[i + 1].kind == STK_ACT_LOADER,
                              .scene = scene,
                              .out = out};
        const struct row *r = &rows[a[i].kind];
        if (r->put)
            r->put(&s);
        else
            put_row(&s, r);
    }
}
