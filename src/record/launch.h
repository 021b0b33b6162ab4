/*
 * launch.h - runs a program under the preload library, watches it, and leaves a profile behind.
 *
 * Each launcher writes two files beside the logs (docs/profile.md; read by profile/run.c). HOST is
 * the node's name with everything but [A-Za-z0-9._-] as '_', PID the launcher's; a task of many has
 * PID.rRANK for PID. A third file, run.id, says which run the folder belongs to.
 *
 * run.HOST.PID.json: one object; written when the program starts, replaced (rename) when it ends.
 * An unknown field is null or missing; readers ignore fields that they do not know.
 *   "kind": "stoker-run", "version": 1 (of this list), "stoker": "0.1.0"
 *   "run": text, the same for all tasks of a run ("slurm-123.0", "openmpi-…", "HOST-PID-NS")
 *   "state": "running" | "ended" ("running" without a launcher: it was killed)
 *   "host": text, "pid": launcher's, "child": the program's pid (only once ended), "pid_space":
 *       the namespace of these numbers, as in the logs' headers (0: unknown); "boot_id": of the
 *       machine, "start_ticks": when the launcher started, by the kernel (host/beacon.h)
 *   "command": [text…], "program": path found for command[0], "cwd": text
 *   "linkage": "dynamic" | "static" | "setuid" | "unknown" (static, setuid: it leaves no log)
 *   "start_real_ns": integer (CLOCK_REALTIME), "start_mono_ns": the same moment (CLOCK_MONOTONIC)
 *   "end_real_ns": integer or null; "seconds": number or null (start to end, monotonic)
 *   "exit_status": 0…255 or null; "signal": number or null (then exit_status is 128 + signal)
 *   "stopped_early": bool (--for ended the recording before the program ended)
 *   "rank", "world": integers or null (from the task launcher); "job": text or null ("123"),
 *   "scheduler": the one that numbered the job ("slurm", "pbs", "lsf", "sge") or null
 *   "step": text or null, "launcher": "Slurm", "Open MPI", … or null
 *   "cores": CPUs the job may use here; "memory_bytes": its limit, else the node's memory
 *   "gpus": number it may use (known once ended; 0: none seen), "gpu_kind": text or null
 *   "local_dir": text or null, "local_free_bytes": integer (a node-local directory with room)
 *   "settings": {"trace": bool, "for_s": number or null, "sample_s": number, "files": integer,
 *       "include": [text…], "exclude": [text…]}
 *   "samples": name of the CSV file or null; "logs": number of logs at the end
 *   "cpu_s": number, "peak_resident_bytes", "peak_threads", "peak_processes" (from the samples)
 *   "uring_pids": [pid…] that held an io_uring; "notes": [text…] whole sentences
 *   "child_io": [rchar, wchar, read_bytes, write_bytes] of the child and those it waited for
 *   "unseen": [{"pid", "command": text, "rchar", "wchar", "read_bytes", "write_bytes"}…]: processes
 *       without a log, with the kernel's counts (as last seen; including children they waited
 *       for); "unseen_more": how many more there were than listed
 *   "spool": path of logs that could not be copied here, or null
 *
 * samples.HOST.PID.csv: a header line, then one line per reading; columns are found by name, more
 * may be added; an empty field is unknown. All lines are complete, except the last one of a killed
 * launcher.
 *   at_s             seconds since start_mono_ns
 *   processes, threads           of the launcher's tree (without itself)
 *   cpu_cores        CPU time of the tree since the previous line / time: 2.5 is 2.5 busy CPUs
 *   iowait_cores     CPUs the job may use that were idle with I/O outstanding, of the whole node
 *   resident_bytes   of the tree: RSS added up, at most its cgroup's count (forked workers share)
 *   cache_bytes      file cache of the job's cgroup, else of the node
 *   gpu_util         0…1, mean of the GPUs it may use; gpu_memory_bytes: in use on them, added up
 *   read_chars, write_chars, storage_read_bytes, storage_write_bytes
 *                    of the tree since its start, by the kernel's count (rchar, wchar, read_bytes,
 *                    write_bytes); may miss processes that ended between readings
 *   other_cores      CPUs the job may use that were busy with other programs
 */
#ifndef STK_RECORD_LAUNCH_H
#define STK_RECORD_LAUNCH_H

#include "base/json.h"

struct stk_launch_options {
    char *const *argv; /* the program and its arguments, NULL-terminated */
    const char *dir;   /* NULL: stoker-profile-NAME-… in the current folder */
    bool force;        /* replaces a profile of another run in dir */
    bool trace;        /* record every operation */
    double for_s;      /* record that long; 0: to the end */
    double sample_s;   /* 0: no readings; otherwise at least STK_SAMPLER_LEAST_S */
    double copy_s;     /* how often logs are copied from the spool */
    uint64_t files;    /* that a process records individually */
    const char *const *include, *const *exclude; /* NULL-terminated; NULL: none */
    const char *spool;   /* NULL: a node-local folder, if dir is on a network */
    const char *preload; /* NULL: searched for */
    bool share;          /* others may read the profile, as the umask says */
};

struct stk_launch_result {
    const char *dir;        /* absolute; NULL: nothing is recorded. Borrowed, as all texts here,
                               until stk_launch_free() */
    const char *warning;    /* shown before the program runs; NULL: none, or another task of this
                               node shows it */
    const char *run;        /* its id */
    const char *spool_left; /* where logs are that could not be copied; NULL: none */
    int status;             /* as in a shell: exit status, 128 + signal, 126, 127 */
    int signal;             /* the one that ended the program; 0: none */
    double seconds, cpu_s;
    uint64_t peak_resident_bytes, readings, logs, unseen;
    const char **note; /* for the user: whole sentences */
    size_t nnotes;
};

/* Whether this is a file of a profile: run.*.json, samples.*.csv, *.stklog, run.id. */
bool stk_launch_is_ours(const char *name);

struct stk_launch;

/* Does everything that can fail before the program runs: finds it, creates the folder, joins the
 * run. If the folder holds another run's profile, takes the next of DIR-2, DIR-3 ... If it cannot
 * be created or written, the program will run unrecorded, and r->warning says so. On error
 * r->status is what a shell would return (127: not found, 126: not executable), 0 for other errors.
 * From here on this process ignores SIGXFSZ, the program does not. The options and what they point
 * to must outlive l. Caller frees with stk_launch_free(). */
int stk_launch_begin(const struct stk_launch_options *o, struct stk_launch **out,
                     struct stk_launch_result *r, struct stk_err *err);
/* Runs the program to its end. This call handles the process's signals: those sent to this process
 * alone are passed on; those that reached the program too (from the terminal, from slurmstepd) are
 * not. An error: the program could not be started, or its results could not be kept; r->status says
 * which. */
int stk_launch_run(struct stk_launch *l, struct stk_launch_result *r, struct stk_err *err);
void stk_launch_free(struct stk_launch *l);

/* Finds the preload library: $STOKER_PRELOAD, beside the running program, in ../lib/stoker from
 * there, or where it was installed. Caller frees with free(). */
int stk_launch_find_preload(char **out, struct stk_err *err);

/* Copies the first max bytes of s, with everything but letters, digits and ._- as '_'. */
void stk_launch_safe_name(const char *s, size_t max, char *out, size_t size);

#endif
