/*
 * launch.h - runs a program under the preload library, watches it, and leaves a profile behind.
 *
 * Two files of a launcher stand beside the logs (docs/profile.md; read by profile_run.c). HOST is
 * the node's name with everything but [A-Za-z0-9._-] as '_', PID the launcher's; a task of many has
 * PID.rRANK for PID. A third, run.id, says which run the folder belongs to.
 *
 * run.HOST.PID.json: one object; written when the program starts, replaced (rename) when it ended.
 * A field that is not known is null or missing; readers take what they know and pass over the rest.
 *   "kind": "stoker-run", "version": 1 (of this list), "stoker": "0.1.0"
 *   "run": text, the same for all tasks of a run ("slurm-123.0", "openmpi-…", "HOST-PID-NS")
 *   "state": "running" | "ended" ("running" in a file whose launcher is gone: it was killed)
 *   "host": text, "pid": launcher's, "child": the program's pid (only once ended), "pid_space":
 *       which namespace these numbers are of, as in the logs' headers (0: not known)
 *   "command": [text…], "program": path found for command[0], "cwd": text
 *   "linkage": "dynamic" | "static" | "setuid" | "unknown" (static, setuid: no log of it)
 *   "start_real_ns": integer (CLOCK_REALTIME), "start_mono_ns": the same moment (CLOCK_MONOTONIC)
 *   "end_real_ns": integer or null; "seconds": number or null (start to end, monotonic)
 *   "exit_status": 0…255 or null; "signal": number or null (then exit_status is 128 + signal)
 *   "stopped_early": bool (--for ended the recording before the program ended)
 *   "rank", "world": integers or null (what the task launcher says); "job": text or null ("123"),
 *   "scheduler": whose number that is ("slurm", "pbs", "lsf", "sge") or null
 *   "step": text or null, "launcher": "Slurm", "Open MPI", … or null
 *   "cores": CPUs the job may use here; "memory_bytes": its limit, else the node's memory
 *   "gpus": number it may use (known once ended; 0: none seen), "gpu_kind": text or null
 *   "local_dir": text or null, "local_free_bytes": integer (a node-local directory with room)
 *   "settings": {"trace": bool, "for_s": number or null, "sample_s": number, "files": integer,
 *       "include": [text…], "exclude": [text…]}
 *   "samples": name of the CSV file or null; "logs": number of log files at the end
 *   "cpu_s": number, "peak_resident_bytes", "peak_threads", "peak_processes" (from the samples)
 *   "uring_pids": [pid…] that held an io_uring; "notes": [text…] whole sentences
 *   "child_io": [rchar, wchar, read_bytes, write_bytes] of the child and those it waited for
 *   "unseen": [{"pid", "command": text, "rchar", "wchar", "read_bytes", "write_bytes"}…]: processes
 *       that left no log, by what the kernel counted (as last seen; with the children they waited
 *       for); "unseen_more": how many more there were than listed
 *   "spool": path where logs lie that could not be copied here, or null
 *
 * samples.HOST.PID.csv: a header line, then a line a sample; columns are found by name, more may
 * come; an empty field is not known. Lines are whole, but the last one of a killed launcher.
 *   at_s             seconds since start_mono_ns
 *   processes, threads           of the launcher's tree (without itself)
 *   cpu_cores        CPU time of the tree since the sample before / time: 2.5 is 2.5 CPUs busy
 *   iowait_cores     CPUs the job may use that were idle with I/O outstanding, of the whole node
 *   resident_bytes   of the tree: RSS added up, at most what its cgroup says (forked workers share)
 *   cache_bytes      file cache of the job's cgroup, else of the node
 *   gpu_util         0…1, mean of the GPUs it may use; gpu_memory_bytes: in use on them, added up
 *   read_chars, write_chars, storage_read_bytes, storage_write_bytes
 *                    of the tree since its start, as the kernel counts (rchar, wchar, read_bytes,
 *                    write_bytes); may fall short by what ended between samples
 */
#ifndef STK_LAB_LAUNCH_H
#define STK_LAB_LAUNCH_H

#include "base/json.h"

struct stk_launch_options {
    char *const *argv; /* the program and its arguments, NULL-terminated */
    const char *dir;   /* NULL: stoker-profile-NAME-… in the current folder */
    bool force;        /* a profile of another run in dir is replaced */
    bool trace;        /* record every operation */
    double for_s;      /* record that long; 0: to the end */
    double sample_s;   /* 0: no samples; else at least STK_SAMPLER_LEAST_S */
    double copy_s;     /* how often logs are copied from the spool */
    uint64_t files;    /* a process records one by one */
    const char *const *include, *const *exclude; /* NULL-terminated; NULL: none */
    const char *spool;   /* NULL: a node-local folder, where dir is on a network */
    const char *preload; /* NULL: looked for */
    bool share;          /* others may read the profile, as the umask says */
};

struct stk_launch_result {
    const char *dir;        /* absolute; NULL: nothing is recorded. Borrowed, as all texts here,
                               until stk_launch_free() */
    const char *warning;    /* to be said before the program runs; NULL: nothing, or it is for
                               another task of this node to say */
    const char *run;        /* its id */
    const char *spool_left; /* logs that could not be copied lie there; NULL: none */
    int status;             /* as a shell has it: exit status, 128 + signal, 126, 127 */
    int signal;             /* that ended the program; 0: none */
    double seconds, cpu_s;
    uint64_t peak_resident_bytes, readings, logs, unseen;
    const char **note; /* what the user should know: whole sentences */
    size_t nnotes;
};

/* run.*.json, samples.*.csv, *.stklog, run.id: files of a profile. */
bool stk_launch_is_ours(const char *name);

struct stk_launch;

/* Everything that can fail before the program runs: finds it, makes the folder, takes part in the
 * run. A folder that holds another run's profile: the next of DIR-2, DIR-3 ... is taken. One that
 * cannot be made or written: the program will run unrecorded; r->warning says so. On error
 * r->status is what a shell would give (127: not found, 126: not executable), 0 for other errors.
 * SIGXFSZ is ignored in this process from here on, not in the program. The options and what they
 * point to must outlive it. Caller frees with stk_launch_free(). */
int stk_launch_begin(const struct stk_launch_options *o, struct stk_launch **out,
                     struct stk_launch_result *r, struct stk_err *err);
/* Runs the program to its end. The process's signals belong to this call: those that were sent to
 * this process alone are passed on; those that reached the program too (from the terminal, from
 * slurmstepd) are not. An error: the program could not be started, or what it left not be kept;
 * r->status says what became of it. */
int stk_launch_run(struct stk_launch *l, struct stk_launch_result *r, struct stk_err *err);
void stk_launch_free(struct stk_launch *l);

/* The preload library: $STOKER_PRELOAD, beside the program that runs, in ../lib/stoker from there,
 * or where it was installed. malloc'ed. Caller frees with free(). */
int stk_launch_find_preload(char **out, struct stk_err *err);

#endif
