/*
 * action.c - the table of actions: their names in JSON, and the lines to paste that each becomes.
 * File names are quoted for the language of the line.
 */
#include "advice/action.h"

#include "base/quote.h"

#include <stdio.h>

struct rendering {                       /* an action on its way to lines */
    const struct stk_action *a, *before; /* NULL: this is the first action */
    bool followed;                       /* by another loader */
    const struct stk_action_scene *scene;
    struct stk_buf *out;
};

typedef void (*put_fn)(const struct rendering *);
typedef void (*quote_fn)(struct stk_buf *out, const char *path);

/*
 * The lines of one kind. Fixed lines are templates: {path}, {to}, {count}, {bytes}, {depth} and
 * {open} (the format's way to open a file) are filled in. `shell` comes first, then the format's
 * own line (`of_format`), then `code`, or `c` where there is one and the program is not Python.
 */
struct row {
    struct stk_action_info info;
    const char *shell, *code, *c;
    const char *plain, *tf; /* instead of `code` if the program uses no framework, or TensorFlow */
    size_t of_format;       /* offset of the line in struct stk_format_use; 0: none */
    bool besides;           /* with an unknown framework, the other lines follow the format's */
    bool own_file;          /* the code needs a file that the program opens itself */
    put_fn put;             /* replaces all of the above */
};

/* ---- templates ------------------------------------------------------------------------------ */

/* As people write sizes: "4 << 20". */
static void put_bytes(struct stk_buf *out, uint64_t bytes)
{
    if (bytes && bytes % (1u << 20) == 0)
        stk_buf_printf(out, "%llu << 20", (unsigned long long)(bytes >> 20));
    else
        stk_buf_printf(out, "%llu", (unsigned long long)bytes);
}

static void put_path(struct stk_buf *out, const char *path, quote_fn quote)
{
    if (path)
        quote(out, path);
    else
        stk_buf_puts(out, "PATH");
}

/* An empty `to` means that only the node knows: $TMPDIR, which must be set. */
static void put_place(struct stk_buf *out, const char *to, quote_fn quote)
{
    if (to && *to)
        quote(out, to);
    else
        stk_buf_puts(out, quote == stk_quote_shell ? "\"${TMPDIR:?}\"" : "os.environ[\"TMPDIR\"]");
}

static void fill(const struct rendering *s, const char *line, quote_fn quote);

static void put_value(const struct rendering *s, const char *name, size_t n, quote_fn quote)
{
    const struct stk_action *a = s->a;
    if (n == 4 && memcmp(name, "path", n) == 0)
        put_path(s->out, a->path, quote);
    else if (n == 2 && memcmp(name, "to", n) == 0)
        put_place(s->out, a->to, quote);
    else if (n == 5 && memcmp(name, "bytes", n) == 0)
        put_bytes(s->out, a->bytes);
    else if (n == 5 && memcmp(name, "count", n) == 0)
        stk_buf_printf(s->out, "%llu", (unsigned long long)a->count);
    else if (n == 5 && memcmp(name, "depth", n) == 0)
        stk_buf_printf(s->out, "%llu", (unsigned long long)a->depth);
    else if (n == 4 && memcmp(name, "open", n) == 0)
        fill(s, a->use && a->use->open ? a->use->open : "open({path}, \"rb\")", quote);
}

static void fill(const struct rendering *s, const char *line, quote_fn quote)
{
    for (const char *open, *close; *line; line = close + 1) {
        open = strchr(line, '{');
        close = open ? strchr(open, '}') : NULL;
        if (!close) {
            stk_buf_puts(s->out, line);
            return;
        }
        stk_buf_put(s->out, line, (size_t)(open - line));
        put_value(s, open + 1, (size_t)(close - open - 1), quote);
    }
}

static void put_line(const struct rendering *s, const char *line, quote_fn quote)
{
    if (!line)
        return;
    fill(s, line, quote);
    stk_buf_putc(s->out, '\n');
}

static bool is_framework(const struct stk_action_scene *scene, const char *name)
{
    return scene->framework && strcmp(scene->framework, name) == 0;
}

/* Whether the format's lines suit the program. */
static bool has_package(const struct stk_format_use *use, const struct stk_action_scene *scene)
{
    return !use->package || !scene->loaded || scene->loaded(scene->job, use->package);
}

/* The line of the file's format; for files that a library opens, also one that serves the same end
 * as code with a file of one's own. */
static const char *line_of_format(const struct stk_action *a, const struct row *r,
                                  const struct stk_action_scene *scene)
{
    const struct stk_format_use *use = a->use;
    if (!use || !has_package(use, scene))
        return NULL;
    const char *line = r->of_format ? *(const char *const *)((const char *)use + r->of_format) : "";
    if (line && *line)
        return line;
    if (!r->own_file || !(use->how & STK_USE_LIBRARY) || a->kind >= STK_ACT_LARGER_WRITES)
        return NULL;
    return r->of_format ? use->keep : use->larger;
}

static const char *code_of(const struct row *r, const struct stk_action_scene *scene)
{
    if (!scene->python && r->c)
        return r->c;
    if (is_framework(scene, "tf") && r->tf)
        return r->tf;
    return is_framework(scene, "numpy") && r->plain ? r->plain : r->code;
}

static void put_templates(const struct rendering *s, const struct row *r)
{
    const char *known = line_of_format(s->a, r, s->scene);
    put_line(s, r->shell, stk_quote_shell);
    put_line(s, known, stk_quote_python);
    if (!known || (r->besides && !s->scene->framework))
        put_line(s, code_of(r, s->scene), stk_quote_python);
}

/* ---- actions whose lines depend on more than a template ------------------------------------- */

static void put_pack(const struct rendering *s)
{
    if (s->a->instead)
        stk_buf_puts(s->out, "# or, packed once:\n");
    fill(s, "stoker pack {path} {to} --format ", stk_quote_shell);
    stk_buf_puts(s->out, s->a->format);
    if (s->a->count)
        fill(s, " --shards {count}", stk_quote_shell);
    else if (s->a->bytes)
        stk_buf_printf(s->out, " --shard-size %llu", (unsigned long long)s->a->bytes);
    if (s->a->depth)
        fill(s, " --shuffle {depth}", stk_quote_shell);
    if (s->a->codec)
        stk_buf_printf(s->out, " --compress %s", s->a->codec);
    stk_buf_putc(s->out, '\n');
}

/* Heads the lines of a loader, which replace something in the program. */
static void put_intro(const struct rendering *s)
{
    const char *then = s->before && s->before->kind == STK_ACT_PACK ? "then, " : "";
    const char * or = s->a->instead ? "or, " : then;
    const char *old = is_framework(s->scene, "numpy") ? "your loop over the data"
                      : is_framework(s->scene, "tf")  ? "your tf.data.Dataset"
                                                      : "the dataset and its DataLoader";
    if (s->a->note)
        stk_buf_printf(s->out, "# %s:\n", s->a->note);
    else
        stk_buf_printf(s->out, "# %sin place of %s:\n", or, old);
}

static bool after_loader(const struct rendering *s)
{
    return s->before && s->before->kind == STK_ACT_LOADER;
}

/* Batches are (x, y) as a training loop expects them. */
static bool is_tuple(const struct rendering *s)
{
    return s->a->loader.decode && s->a->loader.labelled &&
           strcmp(s->a->loader.framework, "tf") != 0;
}

/* Marks what a profile cannot know. */
static void put_batch_mark(const struct rendering *s, const char *end)
{
    stk_buf_printf(s->out, "%s%s\n", end,
                   s->a->loader.batch_known ? "" : "   # ADAPT: your batch size");
}

static void put_decode_mark(const struct rendering *s)
{
    const struct stk_action *a = s->a;
    if (!strchr(a->loader.decode, ':')) { /* as stored */
        stk_buf_putc(s->out, '\n');
        return;
    }
    const char *size = a->loader.size_known ? "" : "your image size";
    const char *random = a->loader.last ? "" : *size ? ", augmentation" : "your augmentation";
    stk_buf_printf(s->out, "   # ADAPT: %s%s%smean=, std= of Normalize\n", size, random,
                   *size || *random ? ", " : "");
}

/* Tensors as ToTensor makes them; arrays as a decoder makes them. */
static void put_decode(const struct rendering *s, const char *indent)
{
    const struct stk_action *a = s->a;
    bool torch = strcmp(a->loader.framework, "torch") == 0;
    stk_buf_printf(s->out, "%sdecode=\"%s%s\"", indent, a->loader.decode,
                   torch ? ",layout=chw,dtype=float32" : "");
    if (is_tuple(s))
        stk_buf_puts(s->out, ", as_tuple=(\"data\", \"label\")");
    stk_buf_putc(s->out, ')');
    put_decode_mark(s);
}

static void put_loader_call(const struct rendering *s, const char *out, const char *name,
                            const char *call)
{
    const struct stk_action *a = s->a;
    char indent[96];
    snprintf(indent, sizeof indent, "%s%*s", out, (int)(strlen(name) + strlen(call) + 4), "");
    stk_buf_printf(s->out, "%s%s = %s(", out, name, call);
    put_path(s->out, a->path, stk_quote_python);
    stk_buf_printf(s->out, ", batch=%llu", (unsigned long long)a->loader.batch);
    if (a->loader.threads)
        stk_buf_printf(s->out, ", threads=%llu", (unsigned long long)a->loader.threads);
    if (a->loader.shuffle)
        stk_buf_printf(s->out, ", shuffle=\"%s\"", a->loader.shuffle);
    if (a->loader.last)
        stk_buf_printf(s->out, ", last=\"%s\"", a->loader.last);
    put_batch_mark(s, a->loader.decode ? "," : ")");
    if (a->loader.decode)
        put_decode(s, indent);
}

static void put_loop(const struct rendering *s, const char *name)
{
    bool torch = strcmp(s->a->loader.framework, "torch") == 0;
    const char *what = torch                                       ? "tensors"
                       : strcmp(s->a->loader.framework, "tf") == 0 ? "tensors"
                                                                   : "arrays";
    if (is_tuple(s)) {
        stk_buf_printf(s->out, "for x, y in %s:   # %s; y: index of the class folder\n", name,
                       torch ? "(n, 3, h, w), 0 to 1, as ToTensor" : "(n, h, w, 3), 0 to 255");
        stk_buf_puts(s->out, "    pass   # ADAPT: your training step\n");
        return;
    }
    stk_buf_printf(s->out, "for batch in %s:   # a dict of %s, one per field\n", name, what);
    stk_buf_puts(s->out,
                 s->a->loader.decode
                     ? "    x = batch[\"data\"]   # ADAPT: your work on a batch\n"
                     : "    print(list(batch))   # ADAPT: x, y = batch[...]: your fields\n");
}

/* A program reads its validation data whole and in order. */
static void put_validation(const struct rendering *s)
{
    if (!s->a->loader.last && s->a->loader.framework[0] != 'n')
        stk_buf_puts(s->out, "# the validation data: the same with shuffle=\"none\", "
                             "last=\"short\": every sample once, in order\n");
}

static void put_python_loader(const struct rendering *s)
{
    static const struct {
        const char *framework, *module, *call;
    } known[] = {{"torch", "stoker.torch", "stoker.torch.Loader"},
                 {"tf", "stoker.tf", "stoker.tf.dataset"},
                 {"numpy", "stoker", "stoker.Loader"}};
    size_t k = 0;
    while (k < 2 && strcmp(s->a->loader.framework, known[k].framework) != 0)
        k++;
    const char *name = after_loader(s) && s->a->loader.last ? "val_loader" : "loader";
    /* A second example whose path is unknown: a comment, since it cannot run as it stands. */
    const char *out = after_loader(s) && !s->a->path ? "# " : "";
    put_intro(s);
    if (!after_loader(s))
        stk_buf_printf(s->out, "import %s\n", known[k].module);
    put_loader_call(s, out, name, known[k].call);
    if (!after_loader(s))
        put_loop(s, name);
    if (!s->followed)
        put_validation(s);
}

/* For a program that is not Python: stoker.h. */
static void put_c_loader(const struct rendering *s)
{
    const struct stk_action *a = s->a;
    stk_buf_printf(s->out, "// %sin place of the program's own reads:\n", a->instead ? "or, " : "");
    stk_buf_printf(
        s->out, "struct stk_loader_options o = {.batch = %llu%s%s};   // ADAPT: your batch\n",
        (unsigned long long)a->loader.batch, a->loader.last ? ", .shuffle = STK_SHUFFLE_NONE" : "",
        a->loader.last ? ", .last = STK_LAST_SHORT" : "");
    put_line(s,
             "rc = stk_dataset_open({path}, NULL, &dataset, &err);\n"
             "rc = rc ? rc : stk_loader_open(dataset, &o, &loader, &err);\n"
             "while (rc == 0 && stk_loader_next(loader, &batch, &err) == 1)\n"
             "    stk_batch_release(batch);   // ADAPT: after its columns: batch->column[...]",
             stk_quote_python);
}

static void put_loader(const struct rendering *s)
{
    if (strcmp(s->a->loader.framework, "c") == 0)
        put_c_loader(s);
    else
        put_python_loader(s);
}

/* The program keeps its own code per sample; stoker does the reads. */
static void put_map_dataset(const struct rendering *s)
{
    put_intro(s);
    put_line(s,
             s->a->loader.decode
                 ? "import io, PIL.Image, stoker.torch\n"
                   "def sample(s):   # ADAPT: the rest of your __getitem__\n"
                   "    image = PIL.Image.open(io.BytesIO(s[\"data\"])).convert(\"RGB\")\n"
                   "    return transform(image), s.get(\"label\")   # ADAPT: your transform"
                 : "import stoker.torch\n"
                   "def sample(s):   # ADAPT: the rest of your __getitem__\n"
                   "    return s     # a dict of its fields",
             stk_quote_python);
    put_line(s, "dataset = stoker.torch.MapDataset({path}, transform=sample)", stk_quote_python);
}

/* ---- staging -------------------------------------------------------------------------------- */

static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

/* Runs a command once on each node. */
static void put_each_node(const struct rendering *s)
{
    if (strcmp(s->scene->scheduler, "slurm") == 0)
        stk_buf_puts(s->out, "srun --ntasks-per-node=1 --ntasks=\"$SLURM_NNODES\" ");
    else if (s->scene->nodes > 1)
        stk_buf_puts(s->out, "mpirun --map-by ppr:1:node ");
}

/* The list of the files that were read: nothing else that lies there is copied. */
static void put_list(const struct rendering *s)
{
    const struct stk_action *a = s->a;
    if (!a->npatterns) {
        stk_buf_puts(s->out, "stoker report ");
        put_path(s->out, s->scene->profile, stk_quote_shell);
        put_line(s, " --list-read {path} > files.txt", stk_quote_shell);
        return;
    }
    fill(s, "(cd {path} && find . -type f \\(", stk_quote_shell);
    for (size_t i = 0; i < a->npatterns; i++) {
        stk_buf_puts(s->out, i ? " -o -name " : " -name ");
        stk_quote_shell(s->out, a->pattern[i]);
    }
    stk_buf_puts(s->out, " \\)) > files.txt\n");
}

/* The command is an argument of sh itself, so its own paths are quoted twice. */
static void put_copy_listed(const struct rendering *s, const char *base)
{
    struct stk_buf inner = STK_BUF_INIT;
    struct rendering in = {.a = s->a, .scene = s->scene, .out = &inner};
    fill(&in, "mkdir -p {to}/", stk_quote_shell);
    stk_quote_shell(&inner, base);
    fill(&in, " && tar -C {path} --verbatim-files-from -cf - -T files.txt | tar -C {to}/",
         stk_quote_shell);
    stk_quote_shell(&inner, base);
    stk_buf_puts(&inner, " -xf -");
    put_each_node(s);
    stk_buf_puts(s->out, "sh -c ");
    stk_quote_shell(s->out, stk_buf_cstr(&inner));
    stk_buf_putc(s->out, '\n');
    s->out->fail = s->out->fail || inner.fail;
    stk_buf_release(&inner);
}

static void put_copy_files(const struct rendering *s)
{
    const struct stk_action *a = s->a;
    put_each_node(s);
    stk_buf_puts(s->out, "cp");
    for (size_t i = 0; i < a->npaths || i < 1; i++) {
        stk_buf_putc(s->out, ' ');
        stk_quote_shell(s->out, a->npaths ? a->paths[i] : a->path);
    }
    put_line(s, " {to}/", stk_quote_shell);
}

/* A whole folder, if no profile says which of its files were read. */
static void put_stage_whole(const struct rendering *s)
{
    stk_buf_puts(s->out, "DATA=$(");
    put_each_node(s);
    put_line(s, s->a->to_named ? "stoker stage {path} {to})" : "stoker stage {path})",
             stk_quote_shell);
    put_line(s, "# then read \"$DATA\" instead of {path}", stk_quote_shell);
}

static void put_stage(const struct rendering *s)
{
    const struct stk_action *a = s->a;
    struct stk_action base = {.path = base_of(a->path), .to = a->to};
    struct rendering near = {.a = &base, .scene = s->scene, .out = s->out};
    bool slurm = strcmp(s->scene->scheduler, "slurm") == 0, single = a->is_file && a->npaths <= 1;
    stk_buf_puts(s->out, "# in the job script, before training; once per node:\n");
    if (!a->is_file && !s->scene->profile && !a->npatterns) {
        put_stage_whole(s);
        return;
    }
    if (slurm && single) {
        fill(s, "sbcast {path} {to}/", stk_quote_shell);
        put_line(&near, "{path}", stk_quote_shell);
    } else if (a->is_file) {
        put_copy_files(s);
    } else {
        put_list(s);
        put_copy_listed(s, base.path);
    }
    if (a->is_file && !single) {
        put_line(s, "# then read them in {to}", stk_quote_shell);
        return;
    }
    fill(&near, "# then read {to}/{path}", stk_quote_shell);
    put_line(s, " instead of {path}", stk_quote_shell);
}

/* ---- stripes, read-ahead, nodes, databases -------------------------------------------------- */

static void put_stripes(const struct rendering *s, const char *command, const char *behind)
{
    stk_buf_puts(s->out, command);
    if (s->a->bytes)
        stk_buf_printf(s->out, " -S %lluK", (unsigned long long)(s->a->bytes >> 10));
    fill(s, " -c {count} {path}", stk_quote_shell);
    stk_buf_puts(s->out, behind);
}

static void put_stripe_new(const struct rendering *s)
{
    put_stripes(s, "lfs setstripe", "    # for new files in it\n");
}

static void put_stripe_file(const struct rendering *s)
{
    put_stripes(s, "lfs migrate", "\n");
}

static void put_prefetch(const struct rendering *s)
{
    const struct stk_action *a = s->a;
    if (a->use && a->use->ahead && has_package(a->use, s->scene))
        put_line(s, a->use->ahead, stk_quote_python);
    else if (!s->scene->python)
        put_line(s, "readahead(fd, offset, {bytes});   // for what comes next", stk_quote_python);
    else if (is_framework(s->scene, "numpy"))
        put_line(s,
                 "import os\nos.posix_fadvise(f.fileno(), f.tell(), {bytes}, "
                 "os.POSIX_FADV_WILLNEED)   # ADAPT: f is your file; before each part",
                 stk_quote_python);
    else if (is_framework(s->scene, "tf"))
        put_line(s, "dataset = dataset.prefetch(tf.data.AUTOTUNE)   # ADAPT: its last step",
                 stk_quote_python);
    else
        put_line(s,
                 a->pinned ? "DataLoader(dataset, num_workers={count}, prefetch_factor={depth}, "
                             "persistent_workers=True, pin_memory=True)   # ADAPT: your dataset"
                           : "DataLoader(dataset, num_workers={count}, "
                             "prefetch_factor={depth})   # ADAPT: your dataset",
                 stk_quote_python);
}

/* How to inspect a node under a known scheduler. */
static void put_check_node(const struct rendering *s)
{
    static const struct {
        const char *scheduler, *line;
    } known[] = {{"slurm", "scontrol show node {path}; sacct -N {path} -S now-1hour"},
                 {"pbs", "pbsnodes {path}"},
                 {"lsf", "bhosts -l {path}"},
                 {"sge", "qhost -h {path} -j"}};
    struct stk_action node = {.path = s->a->path ? s->a->path : "NODE"};
    struct rendering there = {.a = &node, .scene = s->scene, .out = s->out};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(s->scene->scheduler, known[i].scheduler) == 0)
            put_line(&there, known[i].line, stk_quote_shell);
}

/* A database that nobody writes, as a URI for SQLite, in which some characters of a path are
 * special. */
static void put_sqlite_read(const struct rendering *s)
{
    struct stk_buf uri = STK_BUF_INIT;
    stk_buf_puts(&uri, "file:");
    for (const char *c = s->a->path; *c; c++) {
        if (strchr("?#%", *c))
            stk_buf_printf(&uri, "%%%02X", (unsigned)(unsigned char)*c);
        else
            stk_buf_putc(&uri, *c);
    }
    stk_buf_puts(&uri, "?immutable=1");
    stk_buf_puts(s->out, "import sqlite3\nconnection = sqlite3.connect(");
    stk_quote_python(s->out, stk_buf_cstr(&uri));
    stk_buf_puts(s->out, ", uri=True)   # nobody writes to it\nconnection.execute(\"BEGIN\")   # "
                         "before a batch of queries\n");
    s->out->fail = s->out->fail || uri.fail;
    stk_buf_release(&uri);
}

static void put_rewrite(const struct rendering *s)
{
    const struct stk_format_use *use = s->a->use;
    if (use && use->rewriter)
        put_line(s, use->rewriter, stk_quote_shell);
    else
        put_line(s, use ? use->rewrite : NULL, stk_quote_python);
}

/* ---- the table ------------------------------------------------------------------------------ */

#define OF_FORMAT(line) .of_format = offsetof(struct stk_format_use, line)

static const struct row rows[STK_ACT_COUNT] = {
    [STK_ACT_PACK] = {{"pack", "source", "destination", "shards", "shard_bytes", "shuffle"},
                      .put = put_pack},
    [STK_ACT_STAGE] = {{"stage", "source", "where", "nodes", "bytes", NULL}, .put = put_stage},
    [STK_ACT_STRIPE_NEW] = {{"stripe-new-files", "directory", NULL, "stripe_count", "stripe_bytes",
                             NULL},
                            .put = put_stripe_new},
    [STK_ACT_STRIPE_FILE] = {{"stripe-file", "file", NULL, "stripe_count", "stripe_bytes", NULL},
                             .put = put_stripe_file},
    [STK_ACT_SHOW_STRIPES] = {{"show-stripes", .path = "file"},
                              .shell =
                                  "lfs getstripe -v {path}    # on Lustre: which targets hold it"},
    [STK_ACT_LIST_ONCE] = {{"list-once", .path = "directory"},
                           .shell =
                               "find {path} -type f > files.txt    # once; then read files.txt"},
    [STK_ACT_WARM_UP] = {{"warm-up", .path = "file", .bytes = "bytes"},
                         .shell = "cat {path} > /dev/null     # once per node, before training"},
    [STK_ACT_REWRITE] = {{"rewrite", "source", "destination", NULL, NULL, NULL},
                         .put = put_rewrite},
    [STK_ACT_SCRATCH] = {{"local-scratch", .path = "directory", .to = "where"},
                         .code = "import os, tempfile\n"
                                 "work = tempfile.mkdtemp(dir={to})   # ADAPT: work there, then "
                                 "move the result to {path}",
                         .c = "snprintf(work, sizeof work, \"%s/XXXXXX\", {to});\n"
                              "mkdtemp(work);   // ADAPT: work there, then move the result"},
    [STK_ACT_WRITE_ARCHIVE] = {{"write-archive", .path = "directory", .count = "files"},
                               .code = "import tarfile\n"
                                       "with tarfile.open(\"results.tar\", \"w\") as t:\n"
                                       "    t.add(part)   # ADAPT: each result"},
    [STK_ACT_PACK_ENVIRONMENT] =
        {{"pack-environment", .path = "directory"},
         .shell = "tar -cf environment.tar -C {path} .    # once\n"
                  "# in the job script, once per node; then run it from there:\n"
                  "mkdir -p \"$TMPDIR/environment\"\n"
                  "tar -xf environment.tar -C \"$TMPDIR/environment\""},
    [STK_ACT_LOCAL_SAVE] =
        {{"local-checkpoint", .path = "directory", .to = "where", .bytes = "bytes"},
         .code = "import os, shutil, threading\ndef save(name, write):          # write(path) "
                 "writes the checkpoint\n    near, far = os.path.join({to}, name), "
                 "os.path.join({path}, name)\n    write(near)\n    def copy():\n        "
                 "shutil.copyfile(near, far + \".partial\")\n        os.replace(far + "
                 "\".partial\", far)\n    threading.Thread(target=copy).start()   # Python joins "
                 "it at exit"},

    [STK_ACT_LOADER] = {{"use-loader", .path = "dataset", .count = "ranks"}, .put = put_loader},
    [STK_ACT_MAP_DATASET] = {{"map-dataset", .path = "dataset"}, .put = put_map_dataset},
    [STK_ACT_READERS] = {{"more-readers", .path = "dataset", .count = "readers"},
                         .code = "DataLoader(dataset, num_workers={count}, "
                                 "persistent_workers=True)   # ADAPT: your dataset",
                         .plain = "from concurrent.futures import ThreadPoolExecutor\n"
                                  "with ThreadPoolExecutor({count}) as readers:\n"
                                  "    for result in readers.map(read, samples):   # ADAPT: what "
                                  "your loop runs over; read(x): its body\n"
                                  "        pass   # in the order of `samples`",
                         .tf = "dataset = dataset.map(read, num_parallel_calls={count})   # "
                               "ADAPT: read: what opens and reads one sample",
                         .c = "pread(fd, part, length, offset);   // in each of {count} threads",
                         OF_FORMAT(readers),
                         .besides = true},
    [STK_ACT_PREFETCH] = {{"prefetch", "dataset", NULL, "workers", "ahead_bytes",
                           "batches_per_worker"},
                          .put = put_prefetch},
    [STK_ACT_DECODERS] = {{"more-decoders", .count = "workers"},
                          .code = "DataLoader(dataset, num_workers={count})   # ADAPT: your "
                                  "dataset",
                          .plain = "from concurrent.futures import ProcessPoolExecutor\n"
                                   "with ProcessPoolExecutor({count}) as workers:\n"
                                   "    for result in workers.map(decode, samples):   # ADAPT: "
                                   "decode(sample): your work on one\n"
                                   "        pass   # in the order of `samples`",
                          .tf = "dataset = dataset.map(decode, num_parallel_calls={count})   # "
                                "ADAPT: your decoding"},
    [STK_ACT_DIVIDE] = {{"divide-by-rank", .path = "dataset", .count = "ranks"},
                        .code = "import torch\nsampler = torch.utils.data.DistributedSampler("
                                "dataset)   # ADAPT: your dataset; sampler= of its DataLoader",
                        .plain = "mine = samples[rank::ranks]   # ADAPT: each rank its own part",
                        .tf = "dataset = dataset.shard(world_size, rank)   # ADAPT: its first step",
                        OF_FORMAT(divide),
                        .besides = true},
    [STK_ACT_PARTS] = {{"parts-by-rank", .path = "file", .count = "ranks"},
                       .code = "offset = rank * (size // ranks)   # one part per rank",
                       .c = "offset = rank * (size / ranks);   // one part per rank"},
    [STK_ACT_EXCHANGE] = {{"exchange-parts", .count = "ranks"},
                          .code = "comm.Allgather(part, whole)   # mpi4py",
                          .c = "MPI_Allgather(part, n, MPI_BYTE, whole, n, MPI_BYTE, comm);"},
    [STK_ACT_READ_ALL] = {{"collective-reads", .path = "file", .count = "ranks"},
                          .code = "file.Read_all(buffer)   # mpi4py's MPI.File",
                          .c = "MPI_File_read_all(file, buffer, n, MPI_BYTE, &status);"},
    [STK_ACT_WRITE_ALL] = {{"collective-writes", .path = "file", .count = "ranks"},
                           .code = "file.Write_at_all(offset, part)   # mpi4py's MPI.File",
                           .c = "MPI_File_write_at_all(file, offset, part, n, MPI_BYTE, "
                                "&status);"},
    [STK_ACT_AGGREGATORS] = {{"more-aggregators", .path = "file", .count = "aggregators"},
                             .code = "info.Set(\"cb_nodes\", \"{count}\")   # mpi4py's MPI.Info",
                             .c = "MPI_Info_set(info, \"cb_nodes\", \"{count}\");   "
                                  "// aggregators"},
    [STK_ACT_CHECK_NODE] = {{"check-node", .path = "node"}, .put = put_check_node},

    [STK_ACT_LARGER_READS] = {{"larger-reads", .path = "file", .bytes = "request_bytes"},
                              .code = "f = open({path}, \"rb\", buffering={bytes})",
                              .c = "n = read(fd, buffer, {bytes});",
                              .own_file = true},
    [STK_ACT_STREAM_BUFFER] = {{"stream-buffer", .path = "file", .bytes = "buffer_bytes"},
                               .code = "f = open({path}, \"rb\", buffering={bytes})   "
                                       "# a C stream: setvbuf()",
                               .c = "setvbuf(stream, NULL, _IOFBF, {bytes});",
                               .own_file = true},
    [STK_ACT_BATCH_READS] = {{"batch-reads", .path = "file"}, OF_FORMAT(batch_read)},
    [STK_ACT_SORT_READS] = {{"sort-reads", .path = "file"},
                            .code = "batch = sorted(batch)   # ADAPT: by offset; then read "
                                    "neighbours together",
                            .own_file = true},
    [STK_ACT_PREAD] = {{"positioned-reads", .path = "file"},
                       .code = "import os\n"
                               "data = os.pread(f.fileno(), length, offset)   # ADAPT: instead "
                               "of seek + read",
                       .c = "n = pread(fd, buffer, length, offset);   // instead of lseek + "
                            "read",
                       .own_file = true},
    [STK_ACT_READ_WHOLE] = {{"read-whole", .path = "file", .bytes = "bytes"},
                            .code = "data = open({path}, \"rb\").read()",
                            OF_FORMAT(load),
                            .own_file = true},
    [STK_ACT_READ_ONCE] = {{"read-once", .path = "file", .bytes = "bytes"},
                           .code = "data = open({path}, \"rb\").read()   # once, before the loop",
                           OF_FORMAT(parse),
                           .own_file = true},
    [STK_ACT_KEEP_DATA] = {{"keep-in-memory", .path = "file", .bytes = "bytes"},
                           .code = "data = open({path}, \"rb\").read()    # once, when the "
                                   "program starts",
                           OF_FORMAT(keep),
                           .own_file = true},
    [STK_ACT_KEEP_OPEN] = {{"keep-open", .path = "file"},
                           .code =
                               "def __getitem__(self, i):       # ADAPT: your Dataset\n"
                               "    if self.f is None:          # in the worker, not in __init__\n"
                               "        self.f = {open}",
                           .plain = "f = {open}   # ADAPT: once, before the loop"},
    [STK_ACT_KEEP_STAT] = {{"keep-stat", .path = "file"},
                           .code = "import os\nfound = os.stat({path})   # once, before the loop",
                           .c = "fstat(fd, &found);   // once, before the loop"},
    [STK_ACT_SQLITE_READ] = {{"sqlite-read-only", .path = "database"}, .put = put_sqlite_read},

    [STK_ACT_LARGER_WRITES] =
        {{"larger-writes", .path = "file", .bytes = "request_bytes"},
         .code = "f = open({path}, \"wb\", buffering={bytes})   # bytes\n"
                 "f = open({path}, \"w\", buffering={bytes})   # text; no flush=True",
         .c = "setvbuf(stream, NULL, _IOFBF, {bytes});   // C; no fflush()\n"
              "out << value << '\\n';                     // C++: not std::endl",
         .own_file = true},
    [STK_ACT_BATCH_WRITES] = {{"batch-writes", .path = "file"}, OF_FORMAT(batch_write)},
    [STK_ACT_SORT_WRITES] = {{"sort-writes", .path = "file"},
                             .code = "f.seek(0); f.write(data)    # everything at once, when it "
                                     "is complete",
                             .c = "pwrite(fd, data, size, 0);   // everything at once, when it is "
                                  "complete",
                             .own_file = true},
    [STK_ACT_KEEP_WRITER] = {{"keep-writer", .path = "file"},
                             .code = "f = open({path}, \"a\", buffering={bytes})   # once, before "
                                     "the loop; f.flush() where others must see it",
                             .c = "FILE *f = fopen({path}, \"a\");   // once, before the loop"},
    [STK_ACT_SYNC_ONCE] = {{"sync-once", .path = "file"},
                           .code = "import os\n"
                                   "f.flush(); os.fsync(f.fileno())   # once, at the end\n"
                                   "os.replace(partial, final)",
                           .c = "fflush(f); fsync(fileno(f));   // once, at the end\n"
                                "rename(partial, final);"},
    [STK_ACT_SAVE_ASIDE] = {{"save-in-background", .path = "file"},
                            .code = "import copy, threading\n"
                                    "threading.Thread(target=save, "
                                    "args=(copy.deepcopy(state),)).start()",
                            .c = "pthread_create(&thread, NULL, save, copy_of_state);"},
    [STK_ACT_SQLITE_COMMIT] =
        {{"sqlite-transactions", .path = "database"},
         .code = "with connection: connection.executemany(sql, rows)   # one commit\n"
                 "connection.execute(\"PRAGMA journal_mode=WAL\")\n"
                 "connection.execute(\"PRAGMA synchronous=NORMAL\")"},
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
    if (r->put || !use || line_of_format(a, r, scene))
        return true;
    bool library = use->how & STK_USE_LIBRARY;
    if (a->kind == STK_ACT_KEEP_OPEN)
        return !library || (use->open && has_package(use, scene));
    /* Without the library, whoever reads the file can also read it as bytes, whole. */
    bool bytes = r->of_format && !has_package(use, scene);
    return code_of(r, scene) && (!library || !r->own_file || bytes);
}

void stk_actions_render(const struct stk_action *a, size_t n, const struct stk_action_scene *scene,
                        struct stk_buf *out)
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
            put_templates(&s, r);
    }
}
