/*
 * stage.c - `stoker stage`: brings a dataset to this node and prints the path to use. Standard
 * output has that path and nothing else, so that DATA=$(stoker stage SRC) works.
 */
#include "cmd/stage.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/own.h"
#include "base/pool.h"
#include "base/text.h"
#include "base/units.h"
#include "dataset/open_options.h"
#include "load/options.h"
#include "sched/slurm/slurm.h"
#include "stage/spread.h"

#define AGE_S (168 * 3600) /* copies in a DST that were not used for longer go */

#define AT(field) offsetof(struct stk_stage_settings, field)

#define OPTION(...) STK_OPT_OF(struct stk_stage_settings, 0, __VA_ARGS__)

static const struct stk_opt options[] = {
    OPTION("background", background, FLAG,
           .help = "Return at once and copy while the training runs, in the order in which its "
                   "first epoch asks; prints the path of SRC: loaders find the copy by themselves"),
    OPTION("in-background", in_background, FLAG, .hidden = true),
    OPTION("wait", wait, FLAG,
           .help = "As long as another process copies SRC, wait instead of taking part"),
    OPTION("max-rate", max_rate, SIZE, .arg = "SIZE", .min = 1,
           .help = "Read at most SIZE per second from SRC, so that the copy does not slow down "
                   "others"),
    OPTION("via", via, STRING, .arg = "DIR", .path = true,
           .help = "Copy in two hops: to DIR, which all nodes see, then from there. A node that "
                   "does not see SRC uses the copy in DIR"),
    OPTION("pack", pack, ENUM, .arg = "FORMAT", .choices_fn = stk_format_names,
           .help = "Pack SRC while it is copied: the copy is a dataset of few files of FORMAT"),
    OPTION("limit", limit_bytes, SIZE, .arg = "SIZE",
           .help = "All copies in DST together take at most SIZE (default: as DST was made, else "
                   "no limit)"),
    OPTION("keep", keep_s, DURATION, .arg = "TIME", .min = 1,
           .help = "In a DST that you name: keep the copy for TIME after its last use, whatever "
                   "needs room; copies that were not used for TIME are removed (default: 168h, "
                   "and not kept once no job uses them)"),
    OPTION("dry-run", dry_run, FLAG,
           .help = "Copy nothing: measure for a few seconds, and print where the copy would go, "
                   "how long it takes, and after how many epochs it pays"),
    OPTION("profile", profile, STRING, .arg = "PROFILE", .path = true,
           .help = "For --dry-run: a profile of the training (`stoker profile`): how fast it "
                   "reads SRC, and how much it consumes when it need not wait"),
    OPTION("rates", rates, STRING, .arg = "LIST",
           .help = "For --dry-run: bytes per second that need not be measured: of one node "
                   "source=2G, write=1G, read=3G, fabric=10G; of all nodes together "
                   "source-all=20G"),
    STK_OPT_OF(struct stk_stage_settings, 0, "mode", mode, ENUM, .arg = "MODE", .def = "auto",
               .choices = stk_spread_names, .group = "Several nodes, under srun or mpirun",
               .help = "replicate: all of SRC on every node; shard: on each node what the epochs "
                       "of its ranks ask for; auto: by size and room"),
    OPTION("copies", copies, UNSIGNED, .arg = "N", .def = "1", .min = 1,
           .help = "With shard: keep each part on at least N nodes"),
    OPTION("min-nodes", min_nodes, UNSIGNED, .arg = "N", .def = "0",
           .help = "Exit with status 0 if N nodes have their data; 0: all of them must"),
    OPTION("disk-limit", disk_s, DURATION, .arg = "TIME", .def = "60s", .min = 1, .max = 86400,
           .incidental = true,
           .help = "Give up the disk of a node that completes no write for TIME; the others go on"),
    OPTION("status", status, STRING, .arg = "DIR", .path = true,
           .help = "Keep a file per node with what it has done in DIR, which all nodes see "
                   "(default: stoker-stage-JOB.status in the current folder); removed if all "
                   "goes well"),
    OPTION("list", list, FLAG, .group = "The copies of this node",
           .help = "List the copies, their state and who fills them"),
    OPTION("evict", evict, FLAG,
           .help = "Remove the copy of SRC (without SRC: all copies) unless it is in use"),
    OPTION("verify", verify, FLAG,
           .help = "Read the copy of SRC (without SRC: all copies) again and compare every byte "
                   "by its hash"),
    OPTION("ranks", ranks, UNSIGNED, .arg = "N", .def = "1", .min = 1, .max = STK_PLAN_WORLD_MAX,
           .group = "The order of --background and the plan of shard, as in `stoker load`",
           .help = "Ranks of the training that read at the same time"),
    STK_LOADER_ORDER_OPTIONS(AT(loader)),
    STK_LOADER_OPTION(AT(loader), "epochs", epochs, UNSIGNED, .arg = "N", .def = "1", .min = 1,
                      .help = "Epochs that shard looks at, and of the training for --dry-run"),
    STK_LOADER_MIX_OPTIONS(AT(loader)),
    OPTION("compare", compare.compare, FLAG, .group = "Comparing forms",
           .help = "Measure how long staging takes as files, as a tar, as record shards and as "
                   "squashfs, and with how many jobs at once it slows down; leaves nothing behind"),
    OPTION("forms", compare.forms, NAMES, .arg = "FORM,...", .suggest = stk_stage_compare_forms,
           .help = "Compare these forms only: files, tar, records, squashfs"),
    OPTION("jobs-at-once", compare.jobs, STRING, .arg = "N,...", .def = "1,2,4",
           .help = "Compare with these numbers of jobs at once, such as 1,2,4 or 1-64*2"),
    OPTION("runs", compare.runs, UNSIGNED, .arg = "N", .def = "3", .min = 1, .max = 100,
           .help = "Repeat each form with each number of jobs N times"),
    OPTION("order-seed", compare.seed, UNSIGNED, .arg = "N", .def = "1",
           .help = "Seed of the random order of the runs"),
    OPTION("beside", compare.beside, STRING, .arg = "DIR", .path = true,
           .help = "Prepare the forms in a new folder in DIR, on the storage of SRC (default: in "
                   "the folder that contains SRC)"),
    OPTION("executor", compare.executor, ENUM, .arg = "WHERE", .def = "local",
           .choices = stk_executor_names, .help = "Run the jobs here, or as jobs of Slurm"),
    OPTION("jobs-per-node", compare.per_node, UNSIGNED, .arg = "N", .def = "1", .min = 1,
           .max = 1024, .help = "With Slurm: this many of the jobs at once share a node"),
    OPTION("sbatch", compare.sbatch, LIST, .arg = "OPTION",
           .help = "With Slurm: an option for sbatch, as --sbatch --partition=gpu; may be "
                   "repeated"),
    OPTION("compare-step", compare.step, STRING, .arg = "FORM", .hidden = true,
           .help = "Run one point of the comparison in SRC"),
    OPTION("compare-of", compare.of, UNSIGNED, .arg = "N", .def = "1", .hidden = true,
           .help = "Jobs at once of the point"),
    OPTION("compare-here", compare.here, UNSIGNED, .arg = "N", .def = "1", .hidden = true,
           .help = "Jobs at once of this process"),
    STK_OPT_OF(struct stk_open_options, AT(open), "follow-links", follow_links, FLAG,
               .group = "How SRC is read",
               .help = "Copy what links of a folder lead to, wherever that is"),
    STK_OPT_OF(struct stk_open_options, AT(open), "trust", trust, STRING, .arg = "USER,...",
               .help = "Trust indexes and manifests of these users (names, numbers, or all), not "
                       "only your own, root's and those of the data's owner"),
    STK_OPEN_KEEP_OPTION(AT(open), "Keep the index of SRC for next time"),
    OPTION("jobs", jobs, UNSIGNED, .letter = 'j', .arg = "N", .def = "0", .max = 4096,
           .incidental = true, .help = "Threads that copy; 0: by cores and file system"),
    OPTION("memory", memory_bytes, SIZE, .arg = "SIZE", .min = 16 << 20, .incidental = true,
           .help = "Memory for reads in flight (default: 256M, less on a small node)"),
    OPTION("hash", no_hash, FLAG, .def = "yes", .opposite = true, .hidden = true,
           .help = "Compute checksums; --no-hash is for measuring what they cost"),
    STK_COMMON_OPTIONS,
};

/* ---- progress ---- */

int stk_stage_on_progress(void *user, enum stk_stage_phase phase, uint64_t bytes, uint64_t total)
{
    static const char *const words[] = {[STK_STAGE_COPY] = "copy",
                                        [STK_STAGE_WAIT] = "wait for another process",
                                        [STK_STAGE_SYNC] = "sync",
                                        [STK_STAGE_CHECK] = "verify"};
    struct stk_stage_job *job = user;
    bool stop = stk_progress_update(&job->run->progress, words[phase], bytes, total, 0, 0);
    if (job->apart && phase == STK_STAGE_COPY)
        stk_apart_tick(job->apart, bytes, total);
    return stop || stk_stage_is_ending(job);
}

int stk_stage_on_list(void *user, uint64_t files)
{
    struct stk_stage_job *job = user;
    bool stop = stk_progress_update(&job->run->progress, "list", 0, 0, files, 0);
    return stop || stk_stage_is_ending(job);
}

static void on_begun(void *user)
{
    struct stk_stage_job *job = user;
    if (job->s->in_background && !job->hopping)
        stk_stage_report_begun(job);
}

/* ---- the path to use ---- */

/* As it is for a program, quoted for a shell on a terminal, which a name must not steer. */
static void put_path(const char *path)
{
    struct stk_buf text = STK_BUF_INIT;
    if (isatty(STDOUT_FILENO))
        stk_quote_shell(&text, path);
    else
        stk_buf_puts(&text, path);
    printf("%s\n", stk_buf_cstr(&text));
    stk_buf_release(&text);
}

void stk_stage_print_path(struct stk_stage_job *job, const char *path)
{
    const char *json = job->run->common->json;
    if (job->apart) { /* rank 0 prints when all nodes are done */
        free(job->printed);
        job->printed = strdup(path);
    } else if (!job->silent && !(json && strcmp(json, "-") == 0)) {
        put_path(path);
    }
}

/* Staging did not work, but the data can be read where it is: says why, and prints that path. */
static int use_source(struct stk_stage_job *job, int rc)
{
    struct stk_run *run = job->run;
    char text[2200];
    const char *path = job->real;
    bool damaged = rc == STK_E_CORRUPT || rc == STK_E_STALE;
    stk_progress_clear(&run->progress);
    if (atomic_load(&job->ending))
        stk_err_set(&run->err, STK_E_STOPPED, NULL, -1,
                    STK_STAGE_ENDS "; what was copied stays, and the same command resumes");
    if (!path || rc == STK_E_USAGE || (rc == STK_E_STOPPED && !atomic_load(&job->ending)))
        return rc;
    stk_complain("stage", stk_err_text(&run->err, text, sizeof text));
    if (job->s->pack && rc == STK_E_UNSUPPORTED && !run->common->quiet)
        stk_hint("`stoker pack` has more options: pack SRC with it, and stage the result");
    if (!run->common->quiet)
        stk_complain("stage", damaged ? "nothing was published; the path of the source follows"
                                      : "the data is read from the source; its path follows");
    stk_jw_put_bool(&run->json, "staged", false);
    stk_jw_put_str(&run->json, "path", path);
    stk_stage_print_path(job, path);
    return damaged ? STK_EXIT_PROBLEM : STK_EXIT_PARTLY;
}

/* ---- staging ---- */

int stk_stage_list_source(struct stk_stage_job *job, const char *path)
{
    struct stk_run *run = job->run;
    struct stk_source_options o = {.follow_links = job->s->open.follow_links,
                                   .trust = job->s->open.trust,
                                   .no_index = job->s->dry_run || job->s->open.no_index_write,
                                   .progress = stk_stage_on_list,
                                   .user = job};
    double start = stk_now();
    job->listed = true;
    int rc = stk_source_open(&job->src, path, &o, &run->err);
    job->list_s += stk_now() - start;
    return rc;
}

/* Standard output has one line: the path. */
static int check_line(const char *path, struct stk_err *err)
{
    if (!path || !strchr(path, '\n'))
        return 0;
    return stk_err_set(err, STK_E_USAGE, path, -1,
                       "has a newline in its name: the path that is printed would be two lines; "
                       "rename it");
}

static bool exists(const char *path)
{
    struct stat sb;
    return stat(path, &sb) == 0;
}

int stk_stage_open_tier(struct stk_stage_job *job, const char *path, bool named,
                        struct stk_tier **tier)
{
    const struct stk_stage_settings *s = job->s;
    struct stk_err *err = &job->run->err;
    struct stk_tier_options o = stk_stage_tier_options(job->run);
    o.make = o.hold = true;
    o.limit_bytes = s->limit_bytes;
    if (named) {
        o.keep_s = (uint64_t)s->keep_s;
        o.age_s = o.keep_s ? o.keep_s : AGE_S;
    }
    const char *base = stk_base_name(path);
    char limit[32], *above = strndup(path, (size_t)(base - path));
    int rc = above ? check_line(path, err) : stk_err_nomem(err, strlen(path));
    if (rc == 0 && job->real && stk_path_is_inside(path, job->real))
        rc = stk_err_set(err, STK_E_UNSUPPORTED, path, -1,
                         "is inside %s: the copy would be a part of what is copied; choose a folder "
                         "elsewhere",
                         job->real);
    /* Before anything is made: it would be left behind. */
    if (rc == 0 && s->limit_bytes && s->limit_bytes < job->least_bytes && !exists(path))
        rc = stk_err_set(err, STK_E_UNSUPPORTED, path, -1, "full: its limit is %s, less than %s",
                         stk_format_size(s->limit_bytes, limit, sizeof limit), job->given);
    if (rc == 0 && above[0])
        rc = stk_mkdirs(above, err);
    free(above);
    bool made = rc == 0 && !exists(path);
    rc = rc ? rc : stk_tier_open(path, &o, tier, err);
    uint64_t mean = job->src.count ? job->src.bytes / job->src.count : 0;
    if (rc == 0 && named && made)
        stk_chosen_stripe(&job->at, path, mean);
    return rc;
}

struct stk_stage_options stk_stage_options_of(struct stk_stage_job *job,
                                              const struct stk_stage_order *order)
{
    const struct stk_stage_settings *s = job->s;
    return (struct stk_stage_options){.copy = {.threads = (unsigned)s->jobs,
                                               .memory_bytes = s->memory_bytes,
                                               .max_rate = s->max_rate,
                                               .gentle = s->in_background,
                                               .no_hash = s->no_hash},
                                      .order = s->in_background ? order : NULL,
                                      .wait = s->wait,
                                      .begun = on_begun,
                                      .progress = stk_stage_on_progress,
                                      .user = job};
}

/* Fills the tier at that path from the source that is listed. */
int stk_stage_fill_tier(struct stk_stage_job *job, const char *path, bool named, struct stk_stage_result *r)
{
    const struct stk_stage_settings *s = job->s;
    struct stk_stage_order order = {.loader = s->loader, .ranks = (uint32_t)s->ranks};
    struct stk_stage_options o = stk_stage_options_of(job, &order);
    struct stk_tier *tier = NULL;
    job->least_bytes = job->src.bytes;
    int rc = stk_stage_open_tier(job, path, named, &tier);
    rc = rc ? rc : stk_stage_fill(&job->src, tier, &o, r, &job->run->err);
    stk_progress_clear(&job->run->progress);
    stk_tier_close(tier);
    return rc;
}

static int show(struct stk_stage_job *job, const struct stk_stage_result *r)
{
    struct stk_run *run = job->run;
    struct stk_stage_shown shown = {.src = &job->src,
                                    .notes = &job->src.notes,
                                    .result = r,
                                    .tier = job->at.tier,
                                    .why = stk_buf_cstr(&job->at.why),
                                    .list_s = job->list_s,
                                    .first_s = r->first_at - run->start_s,
                                    .total_s = stk_now() - run->start_s};
    int rc = stk_say_result(run, &stk_stage_kind, &shown, NULL);
    if (rc == 0)
        stk_stage_print_path(job, r->path);
    return rc;
}

/* ---- the command ---- */

static int stage(struct stk_stage_job *job, const char *dst)
{
    struct stk_stage_result r = {0};
    int rc = job->s->via ? stk_stage_hop(job) : stk_stage_list_source(job, job->given);
    if (rc == 0 && job->s->dry_run)
        return stk_stage_plan(job, dst);
    rc = rc ? rc : stk_stage_place(job, dst, &job->src, job->src.bytes);
    if (rc == 0 && job->s->pack)
        return stk_stage_packed(job);
    rc = rc ? rc : stk_stage_fill_tier(job, job->at.tier, job->at.named, &r);
    rc = rc ? rc : show(job, &r);
    stk_stage_result_release(&r);
    return rc;
}

static int check_settings(struct stk_run *run)
{
    const struct stk_stage_settings *s = run->settings;
    int modes =
        s->list + s->evict + s->verify + s->compare.compare + (s->background && !s->in_background);
    if (modes > 1)
        return stk_err_set(&run->err, STK_E_USAGE, NULL, -1,
                           "--background, --list, --evict, --verify and --compare exclude each "
                           "other");
    if (run->opts.nargs == 0 && !s->list && !s->evict && !s->verify)
        return stk_err_set(&run->err, STK_E_USAGE, NULL, -1,
                           "SRC is missing: stoker stage SRC [DST]");
    return 0;
}

static int run_stage(struct stk_run *run)
{
    const struct stk_stage_settings *s = run->settings;
    int rc = check_settings(run);
    if (rc)
        return rc;
    if (s->list || s->evict || s->verify)
        return stk_stage_on_sets(run);
    if (stk_stage_compare_asked(&s->compare))
        return stk_stage_compare_run(run, &s->compare);
    run->out_is_data = !s->dry_run;
    struct stk_stage_job job = {.run = run,
                                .s = s,
                                .given = run->opts.arg[0],
                                .src = STK_SOURCE_INIT};
    const char *dst = run->opts.nargs > 1 ? run->opts.arg[1] : NULL;
    stk_stage_find_voice(&job);
    job.real = realpath(job.given, NULL);
    rc = check_line(job.real ? job.real : job.given, &run->err);
    rc = rc ? rc : check_line(dst, &run->err);
    if (rc || (s->background && !s->in_background && !s->dry_run)) {
        rc = rc ? rc : job.idle ? STK_EXIT_DONE : stk_stage_background(&job, dst);
        free(job.real);
        return rc;
    }
    bool done = false;
    job.end_s = stk_job_end(&job.rank);
    if (!s->in_background && !s->pack && !s->via && !s->dry_run)
        rc = stk_stage_spread(&job, dst, &done);
    if (rc == 0 && !done && !s->in_background && !s->dry_run)
        stk_stage_part(&job);
    rc = rc || done ? rc : stk_stage_in_time(&job, dst, stage);
    if (rc < 0 && !done && !s->dry_run)
        rc = use_source(&job, rc);
    rc = stk_stage_rejoin(&job, rc);
    if (job.stuck)
        return rc;
    if (job.listed)
        stk_source_release(&job.src);
    stk_chosen_release(&job.at);
    free(job.real);
    return rc;
}

static const char *hint(const struct stk_run *run)
{
    return run->err.code == STK_E_STALE ? "" : NULL;
}

static const struct stk_example examples[] = {
    {"DATA=$(stoker stage /lustre/imagenet)", "in a job: the copy on the node's own disk"},
    {"stoker stage /lustre/imagenet --background --seed 7",
     "copy while the training reads, in the order of `seed 7`"},
    {"stoker stage /lustre/imagenet /local/me/tier --keep 48h", "shared by your jobs on this node"},
    {"stoker stage small-files/ --pack tfrecord", "as few large files"},
    {"stoker stage /lustre/imagenet --dry-run --epochs 90", "does it pay?"},
    {"srun --mpi=pmix stoker stage /lustre/imagenet",
     "to all nodes of the job; each byte is read from Lustre once"},
    {"stoker stage --compare small-files/ --jobs-at-once 1-16*2",
     "files, tar, records or squashfs? how many jobs at once?"},
    {"stoker stage --list", "which copies there are, and how far they are"},
    {NULL, NULL},
};

const struct stk_cmd stk_cmd_stage = {
    .name = "stage",
    .summary = "copy a dataset to the node's own disk, verified and resumable",
    .args = "[SRC] [DST]",
    .description =
        "Copies SRC, a dataset or any folder, to a folder of this node and prints the path to use "
        "as the only line on standard output. DST is a folder for copies; the default is one that "
        "belongs to the job, in the best local place that the job has. Every byte is hashed on "
        "the way and compared with the manifest of a packed dataset. The copy gets its name when "
        "all of it is there and on the disk. A run that was stopped, or killed, is resumed by the "
        "same command. Several processes may stage the same data at once: they share the work.\n"
        "\n"
        "If staging cannot work (no room, no local folder), the command says why, prints the path "
        "of SRC and exits with status 3. It exits with 1 if SRC is damaged or changed meanwhile, "
        "and publishes nothing then.",
    .examples = examples,
    .options = options,
    .settings_size = sizeof(struct stk_stage_settings),
    .run = run_stage,
    .hint = hint,
    .stopped_hint = "what was copied stays; the same command resumes",
};
