/* scale_options.c - the options of `stoker scale`: what runs, how often, where, and its cost. */
#include "cmd/scale.h"

#define TIME_MAX_S (3650ull * 86400) /* ten years: more is a typing error */

const char *const stk_better_choices[] = {"lower", "higher", NULL};
static const char *const match_choices[] = {"last", "first", "median",
                                            NULL}; /* stk_metric_pick */
static const char *const plot_choices[] = {"none", "speedup", "time", "loglog",
                                           NULL}; /* stk_plot */
static const char *const fit_choices[] = {"relative", "throughput", NULL}; /* stk_scale_fit */

#define OPTION(...) STK_OPT_OF(struct stk_scale_settings, 0, __VA_ARGS__)

const struct stk_opt stk_scale_options[] = {
    OPTION("n", n, STRING, .group = "What runs", .arg = "LIST",
           .help = "The values of N: 1,2,4,8 or 1-8 or 1-64*2 (doubled each time)"),
    OPTION("threads", threads, FLAG,
           .help = "N is threads: sets OMP_NUM_THREADS and similar variables to N, and lets the "
                   "command use N cores, one hardware thread of each core first"),
    OPTION("ranks", ranks, FLAG,
           .help = "N is MPI ranks: mpirun -n N before the command; in a job, srun"),
    OPTION("gpus", gpus, FLAG,
           .help = "N is GPUs: the first N of those that can be seen (CUDA_VISIBLE_DEVICES); in "
                   "a job, requests N. With --ranks as well, one rank per GPU"),
    OPTION("nodes", nodes, FLAG, .help = "N is nodes (with --via slurm)"),
    OPTION("threads-per-rank", plan.threads_per_rank, UNSIGNED, .arg = "K", .max = 100000,
           .help = "Threads, and so cores, per rank"),
    OPTION("ranks-per-node", ranks_per_node, STRING, .arg = "K[,K...]",
           .help = "Ranks per node (with --via slurm). With several numbers, such as 4,2,1, each "
                   "N is placed in each of these ways, and each gives a curve"),
    OPTION("spread", spread, STRING, .arg = "LIST",
           .help = "Numbers of nodes, such as 1,2,4, to spread the ranks of each N over; each "
                   "gives a curve (with --ranks and --via slurm)"),
    OPTION("weak", plan.weak, FLAG, .help = "Weak scaling: the problem grows with N"),
    OPTION("size", plan.size, UNSIGNED, .arg = "N", .max = INT64_MAX,
           .help = "The value of {size} in the command; with --weak, multiplied by N"),
    OPTION("shell", plan.shell, FLAG,
           .help = "The command is one line for sh, such as 'gen {n} | sort'"),
    OPTION("prepare", plan.prepare, STRING, .arg = "LINE",
           .help = "A line for sh to execute before each run, untimed; {n} and {size} are "
                   "replaced"),
    OPTION("launcher", plan.launcher, STRING, .arg = "WORDS",
           .help = "Launcher for ranks, instead of mpirun or srun: mpiexec -n {n}, srun "
                   "--mpi=pmix"),
    OPTION("container", plan.container, STRING, .arg = "WORDS",
           .help = "Words between the launcher and the command: apptainer exec --nv image.sif"),
    OPTION("pin", plan.pin, FLAG, .def = "true",
           .help = "With --threads: pin the command to N cores"),
    OPTION("oversubscribe", plan.oversubscribe, FLAG,
           .help = "Allow more threads or ranks than there are CPUs"),
    OPTION("metric", plan.metric, STRING, .group = "What is compared", .arg = "REGEX",
           .help = "Compare a number that the command prints, not its time: the first group of "
                   "this POSIX extended regular expression"),
    OPTION("match", match, ENUM, .arg = "WHICH", .def = "last", .choices = match_choices,
           .help = "Which match to use when there are several"),
    OPTION("better", better, ENUM, .arg = "WHICH", .choices = stk_better_choices,
           .help = "Whether a lower or a higher value of the metric is better; required unless "
                   "its unit says so, as images/s and seconds do. For a column `value` of "
                   "--from, lower is the default"),
    OPTION("unit", plan.unit, STRING, .arg = "WORDS",
           .help = "What N counts, in the plural, for the output: threads, GPUs"),
    OPTION("runs", runs, STRING, .group = "How often", .arg = "MIN[..MAX]",
           .help = "Runs per N: as many as needed, from MIN to MAX (default 3..20; 3 as Slurm "
                   "jobs)"),
    OPTION("precision", plan.precision, PERCENT, .arg = "P", .def = "2%",
           .help = "Repeat an N until half the width of its 95 % interval is below this"),
    OPTION("budget", plan.budget_s, DURATION, .arg = "TIME", .max = TIME_MAX_S,
           .help = "Start no run that would not end within TIME; jobs that are still pending "
                   "then are cancelled"),
    OPTION("timeout", plan.timeout_s, DURATION, .arg = "TIME", .max = TIME_MAX_S,
           .help = "Stop a run that takes longer, and do not repeat that N"),
    OPTION("warmup", plan.warmup, UNSIGNED, .arg = "K", .max = 1000,
           .help = "Warm-up runs at the largest N (default 1; in jobs 0, and then at the N of "
                   "the job)"),
    OPTION("seed", plan.seed, UNSIGNED, .arg = "N", .def = "1",
           .help = "Seed of the random order and intervals: the same seed gives the same ones"),
    OPTION("via", via, ENUM, .group = "Where", .arg = "WHERE", .def = "local",
           .choices = stk_executor_names,
           .help = "Where to run: on this machine, or as Slurm jobs"),
    OPTION("sbatch", plan.sbatch, LIST, .arg = "OPTION",
           .help = "An option for sbatch, such as --partition=gpu; {n} is replaced; may be "
                   "repeated"),
    OPTION("sbatch-file", sbatch_file, STRING, .arg = "FILE",
           .help = "File with the first part of the batch script: #SBATCH lines, module load and "
                   "so on; stoker adds the line that runs the command"),
    OPTION("gpu-type", plan.gpu_type, STRING, .arg = "NAME",
           .help = "The kind of GPU to request from Slurm, with --gpus"),
    OPTION("jobs-at-once", plan.at_once, UNSIGNED, .arg = "K", .def = "0", .max = 100000,
           .help = "Maximum number of jobs in the queue at a time; 0: all. 1 if the command "
                   "waits for storage that its jobs share"),
    OPTION("detach", plan.detach, FLAG, .incidental = true,
           .help = "Submit the jobs and do not wait; --resume collects the results"),
    OPTION("inside", inside, STRING, .arg = "RUN", .incidental = true, .hidden = true,
           .help = "What a job of a study runs: RUN of the study in --resume DIR"),
    OPTION("output", output, STRING, .group = "The study and its comparisons", .letter = 'o',
           .arg = "DIR", .incidental = true,
           .help = "Folder for the study (default stoker-scale-NAME-TIME in the current "
                   "directory)"),
    OPTION("name", plan.series, STRING, .arg = "NAME",
           .help = "Name of the curve when it is compared with others"),
    OPTION("resume", resume, STRING, .arg = "DIR", .incidental = true,
           .help = "Continue the study in DIR; --n adds to it, and --runs, --precision, "
                   "--budget, --timeout and --jobs-at-once replace its settings"),
    OPTION("retry", retry, FLAG, .incidental = true,
           .help = "With --resume: also repeat runs that failed, ran out of memory or took too "
                   "long; runs that were cancelled or never started are repeated in any case"),
    OPTION("share", plan.share, FLAG, .incidental = true,
           .help = "Let others read the new study, as far as the umask allows; by default only "
                   "you can"),
    OPTION("trust", trust, STRING, .arg = "USER,...", .incidental = true,
           .help = "Run studies of these users (names, numbers, or all) with --resume, as "
                   "yourself, and believe those of --from; without it, --resume shows what it "
                   "would run, and stops"),
    OPTION("from", from, LIST, .arg = "[NAME=]FILE",
           .help = "Read times that were measured elsewhere: a table (n, time, ...), a study or "
                   "result of stoker, or the results of hyperfine, JUBE, ReFrame or sacct -P; - "
                   "is the standard input. Repeat it to compare several"),
    OPTION("columns", columns, STRING, .arg = "NAME=HEADING,...",
           .help = "Which columns of --from are which, if their headings do not say it: "
                   "n=tasks,time=runtime_avg"),
    OPTION("su-weights", su_weights, STRING, .group = "Costs and recommendations", .arg = "WEIGHTS",
           .def = "core=1,gpu=2", .help = "Service units per hour of a core, a gpu and a node"),
    OPTION("site", site, STRING, .arg = "NAME", .help = "Name of the site whose weights these are"),
    OPTION("cores-per-n", plan.cores_per_n, UNSIGNED, .arg = "N", .def = "0", .max = 100000,
           .help = "Cores allocated per N, if the times do not include them"),
    OPTION("gpus-per-n", gpus_per_n, UNSIGNED, .arg = "N", .def = "0", .max = 100000,
           .help = "GPUs allocated per N, if the times do not include them"),
    OPTION("nodes-per-n", nodes_per_n, STRING, .arg = "X",
           .help = "Nodes allocated per N, if the times do not include them; may be a part of "
                   "one, such as 0.25, and is then rounded up"),
    OPTION("deadline", deadline_s, DURATION, .arg = "TIME", .max = TIME_MAX_S,
           .help = "Also recommend the cheapest N that finishes within TIME"),
    OPTION("max-relative-su", max_relative_su, STRING, .arg = "X",
           .help = "Also recommend the fastest N that costs at most X times the SUs of the "
                   "smallest"),
    OPTION("predict", predict, STRING, .arg = "N,...",
           .help = "Predict the time at these N, if the data supports it"),
    OPTION("fit", fit, ENUM, .arg = "HOW", .def = "relative", .choices = fit_choices,
           .help = "Fit laws by relative errors of the time, or by errors of throughput as R's "
                   "usl package does"),
    OPTION("plot", plot, ENUM, .group = "The result", .arg = "WHAT", .def = "speedup",
           .choices = plot_choices, .incidental = true,
           .help = "What to draw over N: the speedup of all curves against the slowest base, the "
                   "time (or metric), or the same with logarithmic axes; --no-plot draws nothing"),
    OPTION("csv", csv, STRING, .arg = "FILE", .incidental = true,
           .help = "Write the table as CSV to FILE"),
    OPTION("save", save, STRING, .arg = "FILE", .incidental = true,
           .help = "Write the times as a study that --from can read"),
    STK_COMMON_OPTIONS,
};
