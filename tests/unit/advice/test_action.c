/*
 * test_action.c - actions and the lines made of them. A user pastes these lines, and a program acts
 * on the parameters: a path that is quoted wrongly, or a kind that nobody can name, breaks both.
 */
#include "advice/action.h"

#include "check.h"
#include "analysis/parts.h"

static const struct stk_action_scene plain = {.nodes = 1, .python = true};

static const char *lines(const struct stk_action *a, size_t n, struct stk_action_scene scene)
{
    struct stk_snippets out = {0};
    static char text[4096];
    size_t len = 0;
    stk_actions_render(a, n, &scene, &out);
    for (size_t i = 0; i < out.n; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, "%s", out.snippet[i].text);
    text[len] = '\0';
    stk_snippets_release(&out);
    return text;
}

static const char *line(struct stk_action a, struct stk_action_scene scene)
{
    return lines(&a, 1, scene);
}

/* With all that an action can have. */
static struct stk_action full(enum stk_action_kind kind, const char *path)
{
    return (struct stk_action){.kind = kind,
                               .path = path,
                               .to = "/node",
                               .count = 3,
                               .bytes = 4u << 20,
                               .depth = 2,
                               .use = stk_use_of("hdf5"),
                               .format = "tfrecord",
                               .loader = {.framework = STK_FRAMEWORK_TORCH, .batch = 32}};
}

static void table(void)
{
    struct stk_action_scene slurm = {.scheduler = STK_SCHEDULER_SLURM, .nodes = 2};
    for (int k = 0; k < STK_ACT_COUNT; k++) {
        const struct stk_action_info *i = stk_action_info((enum stk_action_kind)k);
        CHECK(i->name && *i->name);
        for (int other = 0; other < k; other++)
            CHECK(strcmp(i->name, stk_action_info((enum stk_action_kind)other)->name) != 0);
        for (int python = 0; python < 2; python++) {
            slurm.python = python;
            const char *text = line(full((enum stk_action_kind)k, "/data/x"), slurm);
            CHECK(*text && text[strlen(text) - 1] == '\n' && !strstr(text, "\n\n"));
            CHECK(!strstr(text, "{path}") && !strstr(text, "{count}") && !strstr(text, "{bytes}"));
        }
    }
}

/* As many lines for any path: nothing in it ends one. */
static void any_path(void)
{
    struct stk_action_scene slurm = {.scheduler = STK_SCHEDULER_SLURM, .nodes = 2, .python = true};
    static const char *const names[] = {"a\nb", "-rf", "$(rm)", "'", "\"\\", "{count}", "\xff\x1b"};
    for (int k = 0; k < STK_ACT_COUNT; k++) {
        size_t want = 0;
        for (const char *c = line(full((enum stk_action_kind)k, "/data/x"), slurm); *c; c++)
            want += *c == '\n';
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            size_t n = 0;
            for (const char *c = line(full((enum stk_action_kind)k, names[i]), slurm); *c; c++) {
                n += *c == '\n';
                CHECK(*c != '\x1b');
            }
            CHECK_INT(n, want);
        }
    }
}

static void packing(void)
{
    struct stk_action a[2] = {
        {.kind = STK_ACT_PACK, .path = "/d/my set", .to = "/d/my set-packed", .format = "tar"},
        {.kind = STK_ACT_LOADER,
         .path = "/d/my set-packed",
         .loader = {.framework = STK_FRAMEWORK_TORCH, .batch = 8, .shuffle = "block"}}};
    CHECK_STR(lines(a, 2, plain),
              "stoker pack '/d/my set' '/d/my set-packed' --format tar\n"
              "# then, in place of the dataset and its DataLoader:\n"
              "import stoker.torch\n"
              "loader = stoker.torch.Loader(\"/d/my set-packed\", batch=8, shuffle=\"block\", "
              "last=\"short\")   # ADAPT: your batch size\n"
              "for batch in loader:   # a dict: tensors of numbers, lists of bytes and of "
              "texts\n"
              "    print(list(batch))   # ADAPT: x = batch[\"...\"]: your fields, which this "
              "prints\n"
              "# the order is stoker's: another one in each epoch, mixed in windows; "
              "shuffle=\"global\": among all samples; \"none\": as stored\n"
              "# the validation data: the same with shuffle=\"none\", and nothing random: "
              "every sample once, in order\n");
    a[0].bytes = 1u << 20;
    CHECK(strstr(lines(a, 1, plain), " --format tar --shard-size 1048576\n"));
    a[0].count = 7; /* the two exclude each other */
    CHECK(strstr(lines(a, 1, plain), " --format tar --shards 7\n"));
    a[0].depth = 1;
    CHECK(strstr(lines(a, 1, plain), " --format tar --shards 7 --shuffle 1\n"));
}

static bool has_some(const void *job, const char *package)
{
    return strcmp(job, package) == 0;
}

/* Each program gets the lines of its own framework, and none of a package that it does not use. */
static void frameworks(void)
{
    struct stk_action_scene scene = plain;
    struct stk_action a = {.kind = STK_ACT_LOADER,
                           .path = "/d/x",
                           .loader = {.framework = STK_FRAMEWORK_TF,
                                      .batch = 64,
                                      .batch_known = true}};
    scene.framework = STK_FRAMEWORK_TF;
    CHECK(strstr(line(a, scene), "# in place of your tf.data.Dataset:\nimport stoker.tf\n"
                                 "loader = stoker.tf.dataset(\"/d/x\", batch=64, "
                                 "last=\"short\")\n"));
    a.loader.framework = scene.framework = STK_FRAMEWORK_NUMPY;
    a.loader.shuffle = "none";
    a.loader.last = "short";
    CHECK_STR(line(a, scene), "# in place of your loop over the data:\nimport stoker\n"
                              "loader = stoker.Loader(\"/d/x\", batch=64, shuffle=\"none\", "
                              "last=\"short\")\n"
                              "for batch in loader:   # a dict: arrays of numbers, an array per "
                              "sample of bytes, lists of texts\n"
                              "    print(list(batch))   # ADAPT: x = batch[\"...\"]: your fields, "
                              "which this prints\n");
    a = (struct stk_action){.kind = STK_ACT_READERS, .count = 4, .use = stk_use_of("tfrecord")};
    scene.loaded = has_some;
    scene.job = "torch";
    CHECK(!strstr(line(a, scene), "tf.data") && strstr(line(a, scene), "ThreadPoolExecutor(4)"));
    scene.job = "tensorflow";
    CHECK(strstr(line(a, scene), "tf.data"));
}

/* A library that opens its files itself takes no buffer and no offset. */
static void libraries(void)
{
    static const enum stk_action_kind own[] = {STK_ACT_LARGER_READS, STK_ACT_STREAM_BUFFER,
                                               STK_ACT_SORT_READS, STK_ACT_PREAD};
    static const char *const formats[] = {"npz",     "npy",  "hdf5", "sqlite",
                                          "parquet", "zarr", "lmdb"};
    struct stk_action_scene scene = plain;
    for (size_t f = 0; f < sizeof formats / sizeof *formats; f++)
        for (size_t k = 0; k < sizeof own / sizeof *own; k++) {
            struct stk_action a = full(own[k], "/d/x");
            a.use = stk_use_of(formats[f]);
            const char *text = stk_action_applies(&a, &plain) ? line(a, plain) : "";
            CHECK(!strstr(text, "buffering=") && !strstr(text, "sorted") && !strstr(text, "pread"));
        }
    struct stk_action a = {.kind = STK_ACT_KEEP_OPEN, .path = "/d/x", .use = stk_use_of("hdf5")};
    CHECK(stk_action_applies(&a, &scene));
    scene.loaded = has_some;
    scene.job = "numpy";
    CHECK(!stk_action_applies(&a, &scene));
    a.kind = STK_ACT_READ_WHOLE; /* as bytes */
    CHECK(stk_action_applies(&a, &scene) && strstr(line(a, scene), "data = open("));
    a.kind = STK_ACT_KEEP_OPEN;
    a.use = stk_use_of("npz");
    CHECK(stk_action_applies(&a, &scene));
    a.kind = STK_ACT_REWRITE;
    CHECK(!stk_action_applies(&a, &scene));
    a.use = stk_use_of(""); /* the program opens it itself */
    a.kind = STK_ACT_LARGER_READS;
    CHECK(stk_action_applies(&a, &scene));
}

/* Not for a program in C. */
static void in_c(void)
{
    struct stk_action a = {.kind = STK_ACT_LOADER,
                           .path = "/d/x",
                           .loader = {.framework = STK_FRAMEWORK_C, .batch = 8, .last = "short"}};
    const char *text = line(a, plain);
    CHECK(strstr(text, "\nstruct stk_loader_options o = {.batch = 8, .shuffle = STK_SHUFFLE_NONE, "
                       ".last = STK_LAST_SHORT};"));
    CHECK(strstr(text, "\nrc = stk_dataset_open(\"/d/x\", NULL, &dataset, &err);\n"));
    CHECK(!strstr(text, "import"));
}

/* A second loader beside the first, of a path that is known or not: it can be pasted either way. */
static void evaluation(void)
{
    struct stk_action a[2] = {
        {.kind = STK_ACT_LOADER,
         .path = "/d/train",
         .loader = {.framework = STK_FRAMEWORK_TORCH, .batch = 8, .decode = "image:9,flip"}},
        {.kind = STK_ACT_LOADER,
         .path = "/d/val",
         .note = "evaluated on",
         .loader = {.framework = STK_FRAMEWORK_TORCH,
                    .batch = 8,
                    .shuffle = "none",
                    .last = "short",
                    .decode = "image:9"}}};
    const char *text = lines(a, 2, plain);
    CHECK(strstr(text, "    x = batch[\"data\"]   # ADAPT: your work on a batch\n"));
    CHECK(strstr(text, "\n# evaluated on:\nimport stoker.torch\n"
                       "val_loader = stoker.torch.Loader(\"/d/val\", batch=8, shuffle=\"none\", "
                       "last=\"short\",   # ADAPT: your batch size\n"
                       "    decode=\"image:9,layout=chw,"
                       "dtype=float32\")   # ADAPT: your image size, mean=, std= of Normalize\n"));
    a[1].path = NULL;
    CHECK(strstr(lines(a, 2, plain), "\n# val_loader = stoker.torch.Loader(PATH, batch=8, "));
    CHECK(strstr(lines(a, 2, plain), "\n#     decode=\"image:9,"));
    a[0].loader.labelled = true;
    a[0].loader.batch_known = a[0].loader.size_known = true;
    CHECK(strstr(lines(a, 1, plain), "batch=8, last=\"short\",\n"));
    CHECK(strstr(lines(a, 1, plain), ", as_tuple=(\"data\", \"label\"))   # ADAPT: your "
                                     "augmentation, mean="));
    CHECK(strstr(lines(a, 1, plain), "\nfor x, y in loader:   # "));
}

/* What follows "NAME=" among the arguments; NULL: it is not there. */
static const char *given(char **more, const char *name)
{
    size_t n = strlen(name);
    for (; *more; more++)
        if (strncmp(*more, name, n) == 0 && (*more)[n] == '=')
            return *more + n + 1;
    return NULL;
}

static const char *given_or(char **more, const char *name, const char *otherwise)
{
    const char *value = given(more, name);
    return value ? value : otherwise;
}

/* The kind as a program would meet it: NAME=VALUE says what is special about it. */
static struct stk_action met(int kind, bool python, char **argv)
{
    static const char *paths[2], *pattern[1];
    char **more = argv + 3;
    struct stk_action a = full((enum stk_action_kind)kind, argv[0]);
    paths[0] = argv[0];
    paths[1] = given(more, "second");
    pattern[0] = given(more, "pattern");
    a.use = stk_use_of(argv[2]);
    a.to = argv[1];
    a.is_file = paths[1] || given(more, "file");
    a.paths = paths;
    a.npaths = paths[1] ? 2 : 1;
    a.pattern = pattern;
    a.npatterns = pattern[0] ? 1 : 0;
    a.pinned = given(more, "pinned");
    a.loader.decode = a.use->decode;
    a.loader.batch = strtoull(given_or(more, "batch", "32"), NULL, 10);
    a.loader.framework = stk_framework_of(python ? given_or(more, "framework", "torch") : "c");
    a.loader.last = given(more, "last");
    a.loader.shuffle = a.loader.last ? "none" : NULL;
    a.loader.labelled = given(more, "labelled");
    a.loader.field[0] = (struct stk_file_field){given(more, "field"), argv[2], false};
    a.loader.field[1] = (struct stk_file_field){given(more, "other"), given_or(more, "of", ""),
                                                given(more, "parsed")};
    if (a.loader.field[0].name) /* nothing is decoded */
        a.loader.decode = NULL;
    return a;
}

/* Every kind, for tests that run the code: `test_action --render PATH TO FORMAT NAME=VALUE...`. */
static int render(char **argv)
{
    char **more = argv + 3;
    for (int k = 0; k < STK_ACT_COUNT; k++)
        for (int python = 0; python < 2; python++) {
            struct stk_action a = met(k, python, argv);
            struct stk_action_scene scene = {
                .scheduler = stk_scheduler_of(given(more, "scheduler")),
                .nodes = 1,
                .python = python,
                .framework = stk_framework_of(given(more, "framework")),
                .profile = given(more, "profile")};
            struct stk_snippets out = {0};
            stk_actions_render(&a, 1, &scene, &out);
            printf("== %s %s\n", stk_action_info(a.kind)->name, python ? "python" : "c");
            for (size_t i = 0; i < out.n; i++)
                printf("-- %s\n%s", stk_language_name(out.snippet[i].language),
                       out.snippet[i].text);
            stk_snippets_release(&out);
        }
    return 0;
}

static void staging(void)
{
    struct stk_action a = {.kind = STK_ACT_STAGE, .path = "/lus/a b", .to = "", .is_file = true};
    struct stk_action_scene slurm = {.scheduler = STK_SCHEDULER_SLURM, .nodes = 2, .python = true};
    CHECK_STR(line(a, slurm), "# in the job script, before training; once per node:\n"
                              "sbcast '/lus/a b' \"${TMPDIR:?}\"/'a b' || exit 1\n"
                              "# then read \"${TMPDIR:?}\"/'a b' instead of '/lus/a b'\n");
    a.to = "/dev/shm";
    CHECK(strstr(line(a, plain), "\nbash -c 'cp '\\''/lus/a b'\\'' "
                                 "/dev/shm/'\\''a b'\\''.new && mv -f "));
    static const char *const two[] = {"/lus/a b", "/lus/c"};
    a.paths = two;
    a.npaths = 2;
    CHECK(strstr(line(a, plain), " && cp '\\''/lus/a b'\\'' /lus/c /dev/shm/copy.$$/ && mv "));
    CHECK(strstr(line(a, plain), "' || exit 1\n# then read them in /dev/shm\n"));
    /* A directory: the files that were read, not what lies there. */
    a = (struct stk_action){.kind = STK_ACT_STAGE, .path = "/lus/a b", .to = "/dev/shm"};
    slurm.profile = "my profile";
    CHECK_STR(line(a, slurm),
              "# in the job script, before training; once per node:\n"
              "stoker report 'my profile' --list-read '/lus/a b' > files.txt || exit 1\n"
              "srun --ntasks-per-node=1 --ntasks=\"$SLURM_NNODES\" bash -o pipefail -c 'mkdir -p "
              "/dev/shm/'\\''a b'\\'' && tar -C '\\''/lus/a b'\\'' -cf - -T "
              "files.txt | tar -C /dev/shm/'\\''a b'\\'' -xf -' || exit 1\n"
              "# then read /dev/shm/'a b' instead of '/lus/a b'\n");
    CHECK_STR(line(a, plain), "# in the job script, before training; once per node:\n"
                              "DATA=$(stoker stage '/lus/a b')\n"
                              "# then read \"$DATA\" instead of '/lus/a b'\n");
    static const char *const endings[] = {"*.jpg", "*.p ng"};
    a.pattern = endings;
    a.npatterns = 2;
    CHECK(strstr(line(a, slurm), "\n(cd '/lus/a b' && find . -type f \\( -name '*.jpg' -o -name "
                                 "'*.p ng' \\) -print0) > files.txt || exit 1\n"));
    CHECK(strstr(line(a, slurm), " --null -cf - -T files.txt | "));
    CHECK(!strstr(line(a, slurm), "cp "));
}

/* What a format has to say takes the place of what holds for any file, or stands beside it. */
static void of_formats(void)
{
    struct stk_action a = {.kind = STK_ACT_READ_WHOLE, .path = "/d/x", .count = 4};
    CHECK_STR(line(a, plain), "data = open(\"/d/x\", \"rb\").read()\n");
    a.use = stk_use_of("hdf5");
    CHECK_STR(line(a, plain), "import h5py\nf = h5py.File(\"/d/x\", \"r\", driver=\"core\")\n");
    a.kind = STK_ACT_KEEP_OPEN;
    CHECK(strstr(line(a, plain), "\n        self.f = h5py.File(\"/d/x\", \"r\")\n"));
    a.use = stk_use_of("");
    CHECK(strstr(line(a, plain), "\n        self.f = open(\"/d/x\", \"rb\")\n"));
    a.kind = STK_ACT_READERS;
    a.use = stk_use_of("tfrecord");
    CHECK(strstr(line(a, plain), "tf.data.TFRecordDataset(files, num_parallel_reads=4)\n"
                                 "DataLoader(dataset, num_workers=4, persistent_workers=True)   "
                                 "# ADAPT: your dataset, and the arguments that you have\n"));
    for (size_t i = 0; stk_format_at(i); i++) {
        const struct stk_format_use *u = stk_use_of(stk_format_at(i)->name);
        CHECK(u && (!u->load || u->library));
    }
    CHECK(stk_use_of("checkpoint")->how & STK_USE_CHECKPOINT);
    CHECK(stk_use_of("no such format")->how == 0);
}

static void databases(void)
{
    struct stk_action a = {.kind = STK_ACT_SQLITE_READ, .path = "/d/50%?.db"};
    CHECK(strstr(line(a, plain), "sqlite3.connect(\"file:/d/50%25%3F.db?immutable=1\", uri=True)"));
}

int main(int argc, char **argv)
{
    if (argc >= 5 && strcmp(argv[1], "--render") == 0)
        return render(argv + 2);
    CHECK_BEGIN(argc, argv);
    CHECK_RUN(table);
    CHECK_RUN(any_path);
    CHECK_RUN(packing);
    CHECK_RUN(frameworks);
    CHECK_RUN(libraries);
    CHECK_RUN(in_c);
    CHECK_RUN(evaluation);
    CHECK_RUN(staging);
    CHECK_RUN(of_formats);
    CHECK_RUN(databases);
    return CHECK_DONE();
}
