/*
 * test_advice_harm.c - advice that would do harm, or that leads in a circle: each of these was
 * given once. A user who follows it copies a home directory, takes a dataset apart or changes what
 * is already as advised.
 */
#include "advice/advice.h"

#include "adviceset.h"

#include "advice/priv.h"

static void add_files(const char *pattern, int n, double bytes)
{
    char name[128];
    for (int i = 0; i < n; i++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(name, sizeof name, pattern, i % 3, i);
#pragma GCC diagnostic pop
        set_use(&s, 0, set_file(&s, name, "lustre", bytes),
                (struct use){.reads = 1, .bytes = bytes, .read_s = 0.002, .meta_s = 0.004});
    }
}

static bool acts(const struct stk_finding *f, enum stk_action_kind kind)
{
    for (size_t i = 0; f && i < f->nactions; i++)
        if (f->action[i].kind == kind)
            return true;
    return false;
}

static bool anybody_acts(enum stk_action_kind kind)
{
    for (size_t i = 0; i < o.o.nfindings; i++)
        if (acts(&o.o.finding[i], kind))
            return true;
    return false;
}

static void random_reader(const char *path)
{
    set_use(&s, 0, set_file(&s, path, "lustre", 400 * MB),
            (struct use){.reads = 12000, .bytes = 10 * KIB, .read_s = 0.0005, .seq = 0.5});
}

/* A program that uses stoker's loader is not told to use it, nor to repack its records. */
static void what_is_ours(void)
{
    static const char *const index[] = {"/lus/x.tfrecord.stkidx", "/lus/x.tfrecord.12ab34cd.stkidx",
                                        "/home/u/.cache/stoker/0123456789abcdef.stkidx", NULL};
    for (size_t i = 0; i < sizeof index / sizeof *index; i++) {
        set_init(&s, 20, 1);
        random_reader("/lus/x.tfrecord");
        if (index[i])
            set_use(&s, 0, set_file(&s, index[i], "lustre", 4096),
                    (struct use){.reads = 1, .bytes = 4096, .read_s = 1e-5});
        advise("");
        bool ours = index[i];
        CHECK_INT(anybody_acts(STK_ACT_LOADER), !ours);
        CHECK_INT(anybody_acts(STK_ACT_PACK), !ours);
        CHECK_INT(anybody_acts(STK_ACT_SORT_READS), !ours);
        done();
    }
    /* A folder that it reads may still be packed: that is something else. */
    set_init(&s, 20, 1);
    add_files("/lus/train/c%d/%d.jpg", 900, 100e3);
    set_use(&s, 0, set_file(&s, "/lus/train.stkidx", "lustre", 4096),
            (struct use){.reads = 1, .bytes = 4096, .read_s = 1e-5});
    const struct stk_finding *f = advise("many-small-files");
    CHECK(acts(f, STK_ACT_PACK) && !acts(f, STK_ACT_MAP_DATASET));
    done();
}

/* Chunks of an array are no samples: packed, nothing could read them. */
static void stores_are_datasets(void)
{
    static const char *const chunk[] = {"/lus/a.zarr/x/c/%d/%d", "/lus/array/%d.%d",
                                        "/lus/v.n5/%d/%d"};
    static const char *const meta[] = {"/lus/a.zarr/zarr.json", "/lus/array/.zarray",
                                       "/lus/v.n5/attributes.json"};
    static const char *const root[] = {"/lus/a.zarr", "/lus/array", "/lus/v.n5"};
    for (size_t i = 0; i < 3; i++) {
        set_init(&s, 20, 1);
        set_use(&s, 0, set_file(&s, meta[i], "lustre", 400),
                (struct use){.reads = 1, .bytes = 400, .read_s = 1e-3});
        add_files(chunk[i], 900, 30e3);
        CHECK(!advise("many-small-files") && !anybody_acts(STK_ACT_PACK));
        CHECK_STR(o.a.dir[0].name, root[i]);
        CHECK_INT(o.a.dir[0].files_read, 901);
        done();
    }
    /* Files of a library that stoker does not read are rewritten by that library. */
    set_init(&s, 20, 1);
    add_files("/lus/set/part%d/%d.parquet", 900, 30e3);
    const struct stk_finding *f = advise("many-small-files");
    CHECK(acts(f, STK_ACT_REWRITE) && !acts(f, STK_ACT_PACK) && !acts(f, STK_ACT_LOADER));
    CHECK(says(f, "write_dataset"));
    done();
}

/* The files are in src/src; the one in src/include is not why. */
static void where_the_files_lie(void)
{
    set_init(&s, 20, 1);
    add_files("/lus/src/src/room%d/%d.c", 421, 9e3);
    add_files("/lus/src/include/%d.%d.c", 1, 9e3);
    const struct stk_finding *f = advise("many-small-files");
    CHECK(f && strcmp(f->path[0], "/lus/src/src") == 0 &&
          says(f, "421 small files in /lus/src/src"));
    CHECK(!set_finding(&o, "metadata-load"));
    done();
}

/* Images and labels side by side are read together. */
static void images_and_labels(void)
{
    set_init(&s, 20, 1);
    add_files("/lus/det/images/%d_%d.jpg", 900, 100e3);
    add_files("/lus/det/labels/%d_%d.txt", 300, 100);
    const struct stk_finding *f = advise("many-small-files");
    CHECK(f && strcmp(f->path[0], "/lus/det") == 0 && says(f, "1,200 small files in /lus/det"));
    CHECK(f && f->action[0].kind == STK_ACT_LOADER && strcmp(f->action[0].path, "/lus/det") == 0);
    done();
    /* Masks are pictures, too: no loader may decode or cut the image alone, or ask for a label. */
    set_init(&s, 20, 1);
    add_files("/lus/seg/images/%d_%d.png", 300, 100e3);
    add_files("/lus/seg/masks/%d_%d.png", 300, 9e3);
    f = advise("many-small-files");
    CHECK(f && strcmp(f->action[0].path, "/lus/seg") == 0 && o.o.nfindings == 1);
    CHECK(!says(f, "decode=") && !says(f, "label\"") && says(f, "masks (8.8 KiB)"));
    CHECK(says(f, "\"png\": the bytes of each file; \"masks.png\": the bytes of each file"));
    CHECK(says(f, "Image.open(io.BytesIO(b)) for b in batch[\"masks.png\"]]"));
    done();
    /* Folders of which stoker does not know that: their files have the same names. */
    set_init(&s, 20, 1);
    add_files("/lus/seg/img/%d_%d.png", 300, 100e3);
    add_files("/lus/seg/ann/%d_%d.png", 300, 9e3);
    f = advise("many-small-files");
    CHECK(f && strcmp(f->path[0], "/lus/seg") == 0 && o.o.nfindings == 1);
    CHECK(!says(f, "Loader(\"") && says(f, "num_workers=16"));
    done();
}

/* Only what was read is copied: the directory may hold a virtual environment. */
static void what_is_copied(void)
{
    set_init(&s, 60, 1);
    set_nodes(&s, 8);
    random_reader("/lus/project/a.bin");
    random_reader("/lus/project/b.bin");
    const struct stk_finding *f = advise("stage-to-node");
    CHECK(f && f->nactions == 1 && f->action[0].is_file && f->action[0].npaths == 2);
    CHECK(says(f, "cp /lus/project/a.bin /lus/project/b.bin /local/scratch/"));
    CHECK(says(set_finding(&o, "random-reads"), "Finding stage-to-node has the lines"));
    done();
    set_init(&s, 60, 1);
    set_nodes(&s, 8);
    random_reader("/lus/project/x/a.bin");
    random_reader("/lus/project/y/b.bin");
    f = advise("stage-to-node");
    CHECK(says(f, "stoker report p --list-read /lus/project > files.txt") && !says(f, "cp "));
    done();
    set_init(&s, 60, 1);
    random_reader("/nvme/a.bin"); /* nothing to stage: local */
    s.file[0].fs = "ext4";
    CHECK(!advise("stage-to-node"));
    CHECK(!says(set_finding(&o, "random-reads"), "stage-to-node"));
    done();
}

/* Folders that come and go have no list to keep; a file that is appended to need not be asked for.
 */
static void calls_that_move_no_data(void)
{
    set_init(&s, 10, 1);
    for (int i = 0; i < 300; i++) {
        char name[64];
        snprintf(name, sizeof name, "/lus/work/%d", i);
        struct stk_prof_rec *r =
            set_use(&s, 0, set_file(&s, name, "lustre", 0), (struct use){.meta_s = 0.02});
        r->n.c[STK_C_OPENS] = r->n.c[STK_C_CLOSES] = 0;
        r->n.c[STK_C_REMOVES] = 1;
    }
    const struct stk_finding *f = advise("metadata-load");
    CHECK(acts(f, STK_ACT_SCRATCH) && says(f, "300 removes") && !says(f, "find "));
    done();
    set_init(&s, 10, 1);
    struct stk_prof_rec *r = set_use(&s, 0, set_file(&s, "/lus/log.txt", "lustre", 0),
                                     (struct use){.opens = 2000, .stats = 2000, .meta_s = 5});
    r->n.c[STK_C_WRITE_OPENS] = 2000; /* Python asks for the size at each open */
    f = advise("metadata-load");
    CHECK(acts(f, STK_ACT_KEEP_WRITER) && says(f, "open(\"/lus/log.txt\", \"a\"") &&
          !says(f, "os.stat"));
    done();
}

static void add_worker(const char *path, int reads)
{
    uint32_t w = set_worker(&s, 0, 30);
    set_use(&s, w, set_file(&s, path, "lustre", 9e9),
            (struct use){.reads = reads, .bytes = 1 * MB, .read_s = 0.02, .seq = 1, .consec = 1});
}

/* Workers of a validation loader have less to do than those of training. */
static void validation_workers(void)
{
    static const char *const val[] = {"/lus/val/a.bin", "/lus/other/a.bin", "/lus/train/x_val.bin"};
    for (size_t i = 0; i < 3; i++) {
        set_init(&s, 100, 1);
        for (int w = 0; w < 2; w++)
            add_worker("/lus/train/a.bin", 3000);
        for (int w = 0; w < 2; w++)
            add_worker(val[i], 200);
        CHECK(!advise("imbalance"));
        done();
    }
}

/* The same when both read the same folders (random_split): the workers of validation are started
 * once those of training read. Two epochs; in the second, the workers of training are new. */
static void loaders_of_a_split(void)
{
    for (int uneven = 0; uneven < 2; uneven++) {
        set_init(&s, 100, 1);
        s.p.run_s = 100;
        for (uint32_t start = 0; start < 4; start++)
            for (int w = 0; w < 2; w++) {
                bool trains = start % 2 == 0, much = uneven && w;
                add_worker(w ? "/lus/seg/images/a.bin" : "/lus/seg/images/b.bin",
                           trains ? much ? 2200 : 1000 : 100);
                struct stk_prof_proc *q = &s.proc[s.p.nprocs - 1];
                q->start_s = 20.0 * start + w;
                s.rec[s.p.nrecs - 1].n.c[STK_C_FIRST_READ_NS] = 3000000000u;
            }
        const struct stk_finding *f = advise("imbalance");
        CHECK(uneven ? f && says(f, "worker 2 reads 2.1 times as long") : !f);
        done();
    }
}

static void add_epochs(uint32_t count, uint32_t length_s)
{
    for (uint32_t e = 0; e < count; e++)
        s.mark[s.p.nmarks++] = (struct stk_prof_mark){.kind = STK_MARK_EPOCH,
                                                      .number = e,
                                                      .at_s = length_s * e,
                                                      .length_s = length_s,
                                                      .name = ""};
}

/* Ranks that change parts from epoch to epoch have all read everything in the end. */
static void two_epochs(void)
{
    for (uint32_t epochs = 0; epochs <= 2; epochs += 2) {
        set_init(&s, 100, 2);
        uint32_t f = set_file(&s, "/lus/x.bin", "lustre", 400 * MB);
        for (uint32_t r = 0; r < 2; r++)
            set_use(&s, r, f,
                    (struct use){.reads = 4000, .bytes = 100 * KIB, .read_s = 0.005, .seq = 0.5});
        add_epochs(epochs, 50);
        CHECK_INT(advise("same-data-every-rank") != NULL, epochs == 0);
        done();
    }
}

/* HDF5 reads and unpacks a chunk for each sample in it. */
static void chunks_of_many_samples(void)
{
    for (int waste = 0; waste < 2; waste++) {
        set_init(&s, 20, 1);
        uint32_t f = set_file(&s, "/lus/gz.h5", "lustre", 8 * MB);
        set_use(&s, 0, f,
                (struct use){.reads = 2000,
                             .bytes = 160 * KIB,
                             .read_s = 0.004,
                             .seq = 0.5,
                             .distinct = 8 * MB});
        struct stk_prof_rec *r =
            set_use(&s, 0, f, (struct use){.reads = 2000, .bytes = waste ? 12 * KIB : 160 * KIB});
        r->api = STK_API_HDF5;
        const struct stk_finding *found = advise("chunk-shape");
        CHECK_INT(found != NULL, waste);
        CHECK(!waste || (says(found, "h5repack -l CONTI -f NONE /lus/gz.h5 /lus/gz-by-sample.h5") &&
                         says(found, "stoker pack /lus/gz.h5 ") && says(found, "read 13.3 times")));
        done();
    }
}

static const struct stk_finding *advise_rows(double call_s, uint8_t layouts, const char *id)
{
    set_init(&s, 20, 1);
    s.proc[0].libraries = STK_LIBRARIES_SEEN;
    uint32_t f = set_file(&s, "/lus/gz.h5", "lustre", 8 * MB);
    s.file[f].layouts = layouts;
    set_use(&s, 0, f,
            (struct use){.reads = 2000,
                         .bytes = 160 * KIB,
                         .read_s = 0.001,
                         .seq = 0.5,
                         .distinct = 8 * MB});
    struct stk_prof_rec *r =
        set_use(&s, 0, f, (struct use){.reads = 2000, .bytes = 4 * KIB, .read_s = call_s});
    r->api = STK_API_HDF5;
    return advise(id);
}

/* What the library does in its calls beside reading is unpacking: 2,000 times 3 ms, which samples of
 * their own do not need, and which the loader does once per chunk. */
static void unpacking_counts(void)
{
    static const char *const id[] = {"chunk-shape", "random-reads"};
    for (int i = 0; i < 2; i++) {
        const struct stk_finding *f = advise_rows(0.001, STK_LAYOUT_CHUNKS, id[i]);
        double plain = f ? f->gain_s : -1;
        done();
        f = advise_rows(0.004, STK_LAYOUT_CHUNKS, id[i]);
        CHECK(plain >= 0 && f && f->gain_s > plain + 5 && f->gain_s < plain + 6.1);
        CHECK(!says(f, "shuffle=\"none\"")); /* the rows are read in random order */
        done();
    }
}

/* For an array in one piece HDF5 reads 64 KiB around each row. There is no chunk to make smaller. */
static void arrays_in_one_piece_have_no_chunks(void)
{
    CHECK(advise_rows(0.004, 0, "chunk-shape")); /* an older log does not say */
    done();
    CHECK(advise_rows(0.004, STK_LAYOUT_CHUNKS | STK_LAYOUT_WHOLE, "chunk-shape"));
    done();
    CHECK(!advise_rows(0.004, STK_LAYOUT_WHOLE, "chunk-shape"));
    done();
}

/* A loader that shuffles reads a window of 64 MiB for the first batch, whatever is taken of it. */
static void a_part_of_the_data_takes_a_window(void)
{
    double gain[2];
    for (int i = 0; i < 2; i++) {
        set_init(&s, 20, 1);
        uint32_t f = set_file(&s, "/lus/x.jsonl", "lustre", (i ? 640 : 6.4) * MB);
        set_use(&s, 0, f,
                (struct use){.reads = 1500, .bytes = 4 * KIB, .read_s = 0.002, .seq = 0.5});
        set_use(&s, 0, set_file(&s, "/lus/weights.pt", "lustre", 64 * MB),
                (struct use){.reads = 16, .bytes = 4 * MB, .read_s = 0.08, .seq = 1, .consec = 1});
        const struct stk_finding *found = advise("random-reads");
        gain[i] = found ? found->gain_s : -1;
        done();
    }
    CHECK(gain[1] > 0 && gain[0] - gain[1] > 0.9 * (64 - 6.4) / 50 &&
          gain[0] - gain[1] < 1.1 * (64 - 6.4) / 50);
}

/* Few bytes may take long, one by one: a program of which they are missing is not called healthy
 * unless it computed all the time. */
static void few_bytes_that_nobody_saw(void)
{
    for (int busy = 0; busy < 2; busy++) {
        set_init(&s, 20, 1);
        set_use(&s, 0, set_file(&s, "/lus/x.bin", "lustre", 8 * MB), (struct use){.opens = 1});
        s.proc[0].kernel_read_bytes = s.p.kernel_read_bytes = 500000;
        s.proc[0].seen_read_bytes = 10000;
        s.proc[0].cpu_s = busy ? 19.9 : 1;
        advise("");
        CHECK_INT(o.o.blind, !busy);
        CHECK_INT(strstr(o.o.verdict, "no fault in what was seen") != NULL, !busy);
        done();
    }
}

/* The calls that take the time are the ones that are named. */
static void which_calls_take_the_time(void)
{
    set_init(&s, 20, 1);
    struct stk_prof_rec *r = set_use(&s, 0, set_file(&s, "/lus/d", "lustre", 0),
                                     (struct use){.opens = 1, .meta_s = 9});
    r->n.c[STK_C_MAKES] = 500;
    r->n.c[STK_C_CHANGES] = 300;
    const struct stk_finding *f = advise("metadata-load");
    CHECK(says(f, "1 open, 500 new folders and links, 300 changes of mode, owner, time or size:"));
    done();
}

/* Lines that are read in random order are not meant in the order of the file. */
static void lines_in_random_order_stay_mixed(void)
{
    set_init(&s, 20, 1);
    s.proc[0].libraries = STK_LIBRARIES_SEEN;
    uint32_t f = set_file(&s, "/lus/x.jsonl", "lustre", 64 * MB);
    set_use(&s, 0, f, (struct use){.reads = 3000, .bytes = 4 * KIB, .read_s = 0.002, .seq = 0.5});
    const struct stk_finding *found = advise("csv-to-records");
    CHECK(found && says(found, "shuffle=\"block\"") && !says(found, "shuffle=\"none\""));
    done();
}

/* A program without a framework that reads its data epoch after epoch trains: its data is mixed. */
static void epochs_without_a_framework(void)
{
    set_init(&s, 20, 1);
    s.proc[0].libraries = STK_LIBRARIES_SEEN;
    add_files("/lus/train/c%d/%d.jpg", 900, 100e3);
    add_epochs(2, 10);
    const struct stk_finding *f = advise("many-small-files");
    CHECK(says(f, "--shuffle 1") && says(f, "crop=random") && says(f, "import stoker"));
    CHECK(!says(f, "torch") && !says(f, "MapDataset"));
    done();
}

/* The lines are for this program: its framework, its packages, the numbers of its command. */
static void the_program_at_hand(void)
{
    set_init(&s, 20, 1);
    s.proc[0].libraries = STK_LIBRARIES_SEEN;
    add_files("/lus/train/c%d/%d.jpg", 900, 100e3);
    const struct stk_finding *f = advise("many-small-files");
    CHECK(says(f, "import stoker") && says(f, "shuffle=\"none\"") && !says(f, "torch"));
    CHECK(!says(f, "--shuffle"));
    done();
    set_init(&s, 20, 1);
    s.proc[0].libraries = STK_LIBRARIES_SEEN | stk_library_bit("torch", 5);
    s.proc[0].command = "python train.py --batch-size 48 --img-size=112 -b";
    add_files("/lus/train/c%d/%d.jpg", 900, 100e3);
    f = advise("many-small-files");
    CHECK(says(f, "stoker.torch.Loader(\"/lus/train\", batch=48,") &&
          says(f, "image:112,crop=random"));
    CHECK(says(f, "image:112,resize=128") && !says(f, "your batch size"));
    done();
    set_init(&s, 20, 1);
    s.proc[0].libraries = STK_LIBRARIES_SEEN | stk_library_bit("tensorflow", 10);
    add_files("/lus/train/c%d/%d.jpg", 900, 100e3);
    f = advise("many-small-files");
    CHECK(says(f, "stoker.tf.dataset(") && !says(f, "torch"));
    done();
    CHECK_INT(stk_library_of("/x/site-packages/torch/__init__.py"), stk_library_bit("torch", 5));
    CHECK_INT(stk_library_of("/x/h5py/__pycache__/__init__.cpython-311.pyc"),
              stk_library_bit("h5py", 4));
    CHECK_INT(stk_library_of("/x/torch/nn/__init__.py"), 0);
    CHECK_INT(stk_library_of("/x/mytorch/__init__.py"), 0);
    CHECK_INT(stk_library_of("/x/torch/__init__x.py"), 0);
    CHECK_INT(stk_library_of("__init__.py"), 0);
    CHECK_INT(stk_library_of("/__pycache__/__init__.pyc"), 0);
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    CHECK_RUN(what_is_ours);
    CHECK_RUN(stores_are_datasets);
    CHECK_RUN(where_the_files_lie);
    CHECK_RUN(images_and_labels);
    CHECK_RUN(what_is_copied);
    CHECK_RUN(calls_that_move_no_data);
    CHECK_RUN(validation_workers);
    CHECK_RUN(loaders_of_a_split);
    CHECK_RUN(two_epochs);
    CHECK_RUN(chunks_of_many_samples);
    CHECK_RUN(unpacking_counts);
    CHECK_RUN(arrays_in_one_piece_have_no_chunks);
    CHECK_RUN(a_part_of_the_data_takes_a_window);
    CHECK_RUN(lines_in_random_order_stay_mixed);
    CHECK_RUN(few_bytes_that_nobody_saw);
    CHECK_RUN(which_calls_take_the_time);
    CHECK_RUN(epochs_without_a_framework);
    CHECK_RUN(the_program_at_hand);
    return CHECK_DONE();
}
