/*
 * action.c - the table of actions: their names in JSON, and the lines to paste that each becomes.
 * File names are quoted for the language of the line.
 */
#include "advice/action.h"

#include "base/quote.h"

#include <stdio.h>

struct rendering {                       /* an action on its way to lines */
    const struct stk_action *a, *before; /* NULL: this is the first action */
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
    size_t of_format; /* offset of the line in struct stk_format_use; 0: none */
    bool besides;     /* the other lines follow the format's line */
    put_fn put;       /* replaces all of the above */
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

static const char *line_of_format(const struct stk_action *a, size_t offset)
{
    return a->use && offset ? *(const char *const *)((const char *)a->use + offset) : NULL;
}

static void put_templates(const struct rendering *s, const struct row *r)
{
    const char *known = line_of_format(s->a, r->of_format);
    put_line(s, r->shell, stk_quote_shell);
    put_line(s, known, stk_quote_python);
    if (!known || r->besides)
        put_line(s, s->scene->python || !r->c ? r->code : r->c, stk_quote_python);
}

/* ---- actions whose lines depend on more than a template ------------------------------------- */

static void put_pack(const struct rendering *s)
{
    fill(s, "stoker pack {path} {to} --format ", stk_quote_shell);
    stk_buf_puts(s->out, s->a->format);
    if (s->a->count)
        fill(s, " --shards {count}", stk_quote_shell);
    else if (s->a->bytes)
        stk_buf_printf(s->out, " --shard-size %llu", (unsigned long long)s->a->bytes);
    if (s->a->depth)
        fill(s, " --shuffle {depth}", stk_quote_shell);
    stk_buf_putc(s->out, '\n');
}

/* Heads the lines of a loader, which replace something in the program. */
static void put_intro(const struct rendering *s)
{
    const char *then = s->before && s->before->kind == STK_ACT_PACK ? "then, " : "";
    const char * or = s->a->instead ? "or, " : then;
    if (s->a->note)
        stk_buf_printf(s->out, "# %s:\n", s->a->note);
    else
        stk_buf_printf(
            s->out, "# %sin place of the dataset and its DataLoader (adapt what <-- marks):\n", or);
}

static bool after_loader(const struct rendering *s)
{
    return s->before && s->before->kind == STK_ACT_LOADER;
}

static void put_loader_options(const struct rendering *s, const char *before_decode)
{
    const struct stk_action *a = s->a;
    put_path(s->out, a->path, stk_quote_python);
    stk_buf_printf(s->out, ", batch=%llu", (unsigned long long)a->loader.batch);
    if (a->loader.threads)
        stk_buf_printf(s->out, ", threads=%llu", (unsigned long long)a->loader.threads);
    if (a->loader.shuffle)
        stk_buf_printf(s->out, ", shuffle=\"%s\"", a->loader.shuffle);
    if (a->loader.last)
        stk_buf_printf(s->out, ", last=\"%s\"", a->loader.last);
    if (a->loader.decode)
        stk_buf_printf(s->out, ",%sdecode=\"%s\"", before_decode, a->loader.decode);
    stk_buf_putc(s->out, ')');
}

/* Marks what a profile cannot know. */
static void put_marks(const struct rendering *s)
{
    const struct stk_action *a = s->a;
    stk_buf_printf(s->out, "   # <-- %s%s%s\n", a->path ? "" : "your dataset, ",
                   !a->loader.decode ? "your batch size"
                   : a->loader.last  ? "your image size"
                                     : "your image size, augmentation",
                   a->count > 1 ? "; divides by rank itself" : "");
}

/* Batches as a training loop expects them: for images, what torchvision's ToTensor returns. */
static void put_loop(const struct rendering *s, const char *name)
{
    stk_buf_printf(s->out, "for batch in %s:   # a dict of tensors, one per field\n", name);
    stk_buf_puts(s->out, s->a->loader.decode
                             ? "    x = batch[\"data\"].permute(0, 3, 1, 2).float() / 255   # (n, "
                               "3, h, w), as ToTensor\n    y = batch.get(\"label\")   # index of "
                               "the class folder\n"
                             : "    print(list(batch))   # <-- x, y = batch[...]: your fields\n");
}

static void put_torch(const struct rendering *s)
{
    const char *name = s->a->loader.last ? "val_loader" : "loader";
    /* A second example whose path is unknown: a comment, since it cannot run as it stands. */
    const char *out = after_loader(s) && !s->a->path ? "# " : "";
    char indent[80];
    snprintf(indent, sizeof indent, "   # <-- your batch size\n%s%*s", out,
             (int)(strlen(name) + strlen(" = stoker.torch.Loader(")), "");
    if (!after_loader(s))
        stk_buf_puts(s->out, "import stoker.torch\n");
    stk_buf_printf(s->out, "%s%s = stoker.torch.Loader(", out, name);
    put_loader_options(s, indent);
    put_marks(s);
    if (!after_loader(s))
        put_loop(s, name);
}

static void put_tf(const struct rendering *s)
{
    const char *out = s->a->instead ? "# or, in TensorFlow: " : "";
    stk_buf_printf(s->out, "%simport stoker.tf%sbatches = stoker.tf.dataset(", out,
                   *out ? "; " : "\n");
    put_loader_options(s, " ");
    stk_buf_putc(s->out, '\n');
}

/* For a program that is not Python: stoker.h. */
static void put_c_loader(const struct rendering *s)
{
    const struct stk_action *a = s->a;
    stk_buf_printf(s->out, "// %sin place of the program's own reads (adapt what <-- marks):\n",
                   a->instead ? "or, " : "");
    stk_buf_printf(
        s->out, "struct stk_loader_options o = {.batch = %llu%s%s};   // <-- your batch\n",
        (unsigned long long)a->loader.batch, a->loader.last ? ", .shuffle = STK_SHUFFLE_NONE" : "",
        a->loader.last ? ", .last = STK_LAST_SHORT" : "");
    put_line(s,
             "rc = stk_dataset_open({path}, NULL, &dataset, &err);\n"
             "rc = rc ? rc : stk_loader_open(dataset, &o, &loader, &err);\n"
             "while (rc == 0 && stk_loader_next(loader, &batch, &err) == 1)\n"
             "    stk_batch_release(batch);   // <-- after its columns: batch->column[...]",
             stk_quote_python);
}

static void put_loader(const struct rendering *s)
{
    bool tf = strcmp(s->a->loader.framework, "tf") == 0;
    if (strcmp(s->a->loader.framework, "c") == 0) {
        put_c_loader(s);
        return;
    }
    if (!tf || !s->a->instead)
        put_intro(s);
    if (tf)
        put_tf(s);
    else
        put_torch(s);
}

/* The program keeps its own code per sample; stoker does the reads. */
static void put_map_dataset(const struct rendering *s)
{
    put_intro(s);
    put_line(s,
             s->a->loader.decode
                 ? "import io, PIL.Image, stoker.torch\n"
                   "def sample(s):   # <-- the rest of your __getitem__\n"
                   "    image = PIL.Image.open(io.BytesIO(s[\"data\"])).convert(\"RGB\")\n"
                   "    return transform(image), s.get(\"label\")   # <-- your transform"
                 : "import stoker.torch\n"
                   "def sample(s):   # <-- the rest of your __getitem__\n"
                   "    return s     # a dict of its fields",
             stk_quote_python);
    put_line(s, "dataset = stoker.torch.MapDataset({path}, transform=sample)", stk_quote_python);
}

static void put_stage(const struct rendering *s)
{
    const struct stk_action *a = s->a;
    const char *slash = strrchr(a->path, '/');
    struct stk_action base = {.path = slash && slash[1] ? slash + 1 : a->path, .to = a->to};
    struct rendering near = {.a = &base, .scene = s->scene, .out = s->out};
    bool slurm = strcmp(s->scene->scheduler, "slurm") == 0;
    stk_buf_puts(s->out, "# in the job script, before training; once per node:\n");
    if (slurm && a->is_file) {
        fill(s, "sbcast {path} {to}/", stk_quote_shell);
        put_line(&near, "{path}", stk_quote_shell);
    } else if (slurm) {
        put_line(s, "srun --ntasks-per-node=1 --ntasks=\"$SLURM_NNODES\" cp -r {path} {to}/",
                 stk_quote_shell);
    } else {
        put_line(s,
                 s->scene->nodes > 1 ? "mpirun --map-by ppr:1:node cp -r {path} {to}/"
                                     : "cp -r {path} {to}/",
                 stk_quote_shell);
    }
    fill(&near, "# then read {to}/{path}", stk_quote_shell);
    put_line(s, " instead of {path}", stk_quote_shell);
}

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
    if (s->a->use && s->a->use->ahead)
        put_line(s, s->a->use->ahead, stk_quote_python);
    else if (!s->scene->python)
        put_line(s, "readahead(fd, offset, {bytes});   // for what comes next", stk_quote_python);
    else
        put_line(s,
                 s->a->pinned ? "DataLoader(dataset, num_workers={count}, prefetch_factor={depth}, "
                                "persistent_workers=True, pin_memory=True)"
                              : "DataLoader(dataset, num_workers={count}, prefetch_factor={depth})",
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
    [STK_ACT_WRITE_ARCHIVE] = {{"write-archive", .path = "directory", .count = "files"},
                               .code = "import tarfile\n"
                                       "with tarfile.open(\"results.tar\", \"w\") as t:\n"
                                       "    t.add(part)   # each result"},
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
                         .code =
                             "DataLoader(dataset, num_workers={count}, persistent_workers=True)",
                         .c = "pread(fd, part, length, offset);   // in each of {count} threads",
                         OF_FORMAT(readers),
                         .besides = true},
    [STK_ACT_PREFETCH] = {{"prefetch", "dataset", NULL, "workers", "ahead_bytes",
                           "batches_per_worker"},
                          .put = put_prefetch},
    [STK_ACT_DECODERS] = {{"more-decoders", .count = "workers"},
                          .code = "DataLoader(dataset, num_workers={count})\n"
                                  "dataset.map(decode, num_parallel_calls=tf.data.AUTOTUNE)   "
                                  "# tf.data"},
    [STK_ACT_DIVIDE] = {{"divide-by-rank", .path = "dataset", .count = "ranks"},
                        .code = "sampler = torch.utils.data.DistributedSampler(dataset)   # torch",
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
                              .c = "n = read(fd, buffer, {bytes});"},
    [STK_ACT_STREAM_BUFFER] = {{"stream-buffer", .path = "file", .bytes = "buffer_bytes"},
                               .code = "f = open({path}, \"rb\", buffering={bytes})   "
                                       "# a C stream: setvbuf()",
                               .c = "setvbuf(stream, NULL, _IOFBF, {bytes});"},
    [STK_ACT_BATCH_READS] = {{"batch-reads", .path = "file"}, OF_FORMAT(batch_read)},
    [STK_ACT_SORT_READS] = {{"sort-reads", .path = "file"},
                            .code = "batch = sorted(batch)    # by offset; then read neighbours "
                                    "together"},
    [STK_ACT_PREAD] = {{"positioned-reads", .path = "file"},
                       .code = "import os\n"
                               "data = os.pread(f.fileno(), length, offset)   # instead of "
                               "seek + read",
                       .c = "n = pread(fd, buffer, length, offset);   // instead of lseek + "
                            "read"},
    [STK_ACT_READ_WHOLE] = {{"read-whole", .path = "file", .bytes = "bytes"},
                            .code = "data = open({path}, \"rb\").read()",
                            OF_FORMAT(load)},
    [STK_ACT_READ_ONCE] = {{"read-once", .path = "file", .bytes = "bytes"},
                           .code = "data = open({path}, \"rb\").read()   # once, before the loop",
                           OF_FORMAT(parse)},
    [STK_ACT_KEEP_DATA] = {{"keep-in-memory", .path = "file", .bytes = "bytes"},
                           .code = "data = open({path}, \"rb\").read()    # once, when the "
                                   "program starts",
                           OF_FORMAT(keep)},
    [STK_ACT_KEEP_OPEN] = {{"keep-open", .path = "file"},
                           .code =
                               "def __getitem__(self, i):\n"
                               "    if self.f is None:          # in the worker, not in __init__\n"
                               "        self.f = {open}"},
    [STK_ACT_KEEP_STAT] = {{"keep-stat", .path = "file"},
                           .code = "import os\nfound = os.stat({path})   # once, before the loop",
                           .c = "fstat(fd, &found);   // once, before the loop"},
    [STK_ACT_SQLITE_READ] = {{"sqlite-read-only", .path = "database"}, .put = put_sqlite_read},

    [STK_ACT_LARGER_WRITES] =
        {{"larger-writes", .path = "file", .bytes = "request_bytes"},
         .code = "f = open({path}, \"wb\", buffering={bytes})   # bytes\n"
                 "f = open({path}, \"w\", buffering={bytes})   # text; no flush=True",
         .c = "setvbuf(stream, NULL, _IOFBF, {bytes});   // C; no fflush()\n"
              "out << value << '\\n';                     // C++: not std::endl"},
    [STK_ACT_BATCH_WRITES] = {{"batch-writes", .path = "file"}, OF_FORMAT(batch_write)},
    [STK_ACT_SORT_WRITES] = {{"sort-writes", .path = "file"},
                             .code = "f.seek(0); f.write(data)    # everything at once, when it "
                                     "is complete",
                             .c = "pwrite(fd, data, size, 0);   // everything at once, when it is "
                                  "complete"},
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

void stk_actions_render(const struct stk_action *a, size_t n, const struct stk_action_scene *scene,
                        struct stk_buf *out)
{
    for (size_t i = 0; i < n; i++) {
        struct rendering s = {
            .a = &a[i], .before = i ? &a[i - 1] : NULL, .scene = scene, .out = out};
        const struct row *r = &rows[a[i].kind];
        if (r->put)
            r->put(&s);
        else
            put_templates(&s, r);
    }
}
