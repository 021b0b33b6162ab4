/*
 * priv.h - a profile under construction: logs, run files or Darshan's text go in
 * (profile/log.c, profile/run.c, darshan*.c); then parents and ranks, the common time axis and the
 * sums over processes are computed (profile/who.c, profile/time.c, profile/sum.c).
 */
#ifndef STK_PROFILE_PRIV_H
#define STK_PROFILE_PRIV_H

#include "base/buf.h"
#include "base/json.h"
#include "base/hash.h"
#include "base/secret.h"
#include "profile/profile.h"

struct stk_byte_range {
    uint64_t from, to;
};

/* cover.c */
/* The valid spans of c, at most STK_COVER_SPANS; returns their number. */
size_t stk_cover_spans(const struct stk_cover *c, struct stk_byte_range *out);
/* Sorts spans and joins those that overlap or touch; returns how many are left. */
size_t stk_spans_join(struct stk_byte_range *s, size_t n);
uint64_t stk_spans_bytes(const struct stk_byte_range *s, size_t n); /* of joined spans */
/* The number of distinct things in a HyperLogLog sketch of m registers. */
double stk_sketch_count(const uint8_t *reg, size_t m);

#define STK_PB_NONE    UINT32_MAX
#define STK_PB_MEMBERS STK_MEMBERS

#define STK_PB_MAX_WORLD (1u << 24) /* ranks; more means a damaged file */

/* One per p->file[]. */
struct stk_pb_file {
    uint64_t hash;
    uint32_t path_len;
    uint64_t fs_type;
    uint32_t last_proc;          /* the last process that used it … */
    uint32_t rec[STK_API_COUNT]; /* … and its records; STK_PB_NONE: none */
    uint8_t *members;            /* group: STK_PB_MEMBERS registers, in the arena; otherwise NULL */
    uint32_t shared_ranks;       /* a record covers that many ranks (darshan); 0: one */
};

/* One per p->proc[]. */
struct stk_pb_slot { /* what a thread read */
    uint64_t distinct_bytes, first_ns, last_ns;
};
struct stk_pb_slots {
    struct stk_pb_slot *of;
    size_t n, room;
};

struct stk_pb_proc {
    uint64_t start_real_ns, start_mono_ns; /* 0 and 0: unknown */
    uint64_t last_ns, end_ns;              /* since its start; end 0: not observed */
    uint64_t kernel[4], kernel_start[4];   /* as in the log's header */
    uint64_t aio_bytes[2];                 /* read and written by kernel aio: not in kernel[] */
    uint32_t stopped;                      /* enum stk_log_stop */
    int64_t ahead_bytes;                   /* read for streams beyond what their callers received */
    uint32_t end;                          /* enum stk_log_end */
    bool with_children;                    /* kernel[] includes the children it waited for */
    uint32_t pid_space;                    /* as in the log's header */
    const char *parent_log;
    const char *job; /* the scheduler's number; "" */
    bool read_data;
    bool no_line; /* the times of its calls are unknown: io_union_s is the sum, at most its life */
    uint64_t line_ns;               /* its time line, threads added up: width of a bin … */
    uint32_t line_first, line_bins; /* … where it begins, how many … */
    struct stk_log_bin *line;       /* … in pb->temp */
    struct stk_pb_slot *slot;       /* threads that read; NULL: fewer than two */
    uint32_t nslots;
};

/* One per p->rec[]: spans that do not fit into the record's cover are in pb->span. */
struct stk_pb_rec {
    uint32_t wide;  /* number of spans in pb->span; 0: the cover has them all */
    uint32_t first; /* index of the newest, chained by pb->span_next */
    bool told;      /* there is no cover: distinct_bytes was given (darshan) */
};

/* What a run file contributes to the time axis. */
struct stk_pb_run {
    uint64_t start_real_ns, start_mono_ns;
    double start_s; /* on the job's axis */
    double seconds; /* < 0: it has not ended, or was killed */
    uint32_t host;
    uint32_t pid;
};

struct stk_pb_tally { /* counted for a note; the first one by name */
    uint64_t count;
    const char *first;
};

struct stk_pb {
    struct stk_profile *p;
    struct stk_arena temp;
    struct stk_pb_file *file;
    struct stk_pb_proc *proc;
    struct stk_pb_rec *rec;
    struct stk_pb_run *run;
    size_t nruns;
    struct stk_lookup by_path; /* files */
    struct stk_byte_range *span;
    uint32_t *span_next;
    size_t nspans;
    size_t max_recs; /* beyond that, files are folded into groups */
    enum stk_pb_fold { STK_FOLD_DIRECTORY, STK_FOLD_SUFFIX, STK_FOLD_ALL } level;
    bool folded;
    uint64_t logs; /* found, intact or not */
    struct stk_pb_tally damaged, other_version, bad_rank, bad_run, unseen, spooled;
    uint64_t unseen_read_bytes;
    bool told_status;    /* exit_status is set */
    double start_real_s; /* of the job */
    uint32_t *by_time;   /* processes by their start, parents before children: profile/who.c */
};

/* profile/cover.c: adds a record of a thread; keeps them for the newest process; counts. */
int stk_pb_slot(struct stk_pb_slots *s, uint32_t slot, const struct stk_log_record *r,
                struct stk_err *err);
int stk_pb_slots_keep(struct stk_pb *pb, const struct stk_pb_slots *s, struct stk_err *err);
int stk_pb_twins(struct stk_pb *pb, struct stk_err *err);

/* profile/build.c. All return 0 or a negative code, with err. */
void stk_pb_init(struct stk_pb *pb, struct stk_profile *p);
void stk_pb_release(struct stk_pb *pb); /* the profile stays */
/* The file of that name, made absolute with cwd ("" if unknown). */
int stk_pb_file(struct stk_pb *pb, const char *cwd, const char *name, size_t length, bool group,
                uint32_t *out, struct stk_err *err);
/* The file or group of that path, while records are read. False: there is none. */
bool stk_pb_find(const struct stk_pb *pb, const char *path, size_t n, bool group, uint32_t *out);
/* For a table of files by path. */
uint64_t stk_pb_hash(const char *path, size_t n, bool group);
int stk_pb_proc(struct stk_pb *pb, uint32_t *out, struct stk_err *err);
int stk_pb_host(struct stk_pb *pb, const char *name, uint32_t *out, struct stk_err *err);
/* The newest process's record. */
int stk_pb_rec(struct stk_pb *pb, uint32_t file, uint8_t api, uint32_t *out, struct stk_err *err);
int stk_pb_rec_add(struct stk_pb *pb, uint32_t rec, const struct stk_counts *n,
                   const struct stk_cover *read, struct stk_err *err);
int stk_pb_mark(struct stk_pb *pb, const struct stk_prof_mark *m, struct stk_err *err);
int stk_pb_note(struct stk_pb *pb, struct stk_err *err, const char *fmt, ...) STK_PRINTF(3, 4);
/* A copy of text that lives as long as the profile; NULL: out of memory. */
const char *stk_pb_text(struct stk_pb *pb, const char *text, size_t n);
void stk_pb_tally(struct stk_pb *pb, struct stk_pb_tally *t, const char *first);
/* Appends a word of a command line, quoted as for a shell, after a space; masks secrets, also those
 * that an older stoker wrote down. */
void stk_pb_word(struct stk_buf *out, struct stk_secret *secret, const char *word, size_t n);
/* A path without "//", "/./" and "/../", absolute if cwd is. */
int stk_pb_path(struct stk_buf *out, const char *cwd, const char *name, size_t length);

/* Where a log is: a file, or a slot of one. */
struct stk_log_at {
    const char *path;
    uint64_t at; /* of the slot; 0: the whole file */
};

/* profile/log.c: a log, block by block. */
struct stk_log_file {
    int fd;
    const char *path; /* borrowed */
    struct stk_log_header head;
    uint32_t nblocks;      /* whole ones: block 0, its small ones, and the others */
    bool cut;              /* the header announces more */
    uint8_t *zero;         /* block 0 */
    uint8_t *window;       /* some of its other blocks … */
    uint32_t first, count; /* … which */
};
/* STK_E_CORRUPT: not a log; STK_E_UNSUPPORTED: of another version. Close with stk_log_close(). */
int stk_log_open(struct stk_log_file *f, const struct stk_log_at *where, struct stk_err *err);
void stk_log_close(struct stk_log_file *f);
/* Block i, from 1: its head, followed by its content; NULL: damaged or unreadable. */
const struct stk_log_block *stk_log_block(struct stk_log_file *f, uint32_t i);
/* The offset of a block that is not small. */
uint64_t stk_log_block_at(uint32_t i);

struct stk_log_names { /* the table of names of one log */
    struct stk_buf text;
    struct {
        uint64_t at;
        uint32_t length, file; /* STK_PB_NONE: not looked up yet */
    } * name;
    uint32_t count; /* all ids are smaller */
};
int stk_log_names(struct stk_log_file *f, struct stk_log_names *names, bool *damaged,
                  struct stk_err *err);
void stk_log_names_release(struct stk_log_names *names);

/* Adds one log to the profile. A log that cannot be used is noted and not an error. */
int stk_pb_log(struct stk_pb *pb, const struct stk_log_at *where, const char *name,
               struct stk_err *err);

/* profile/run.c */
int stk_pb_run(struct stk_pb *pb, const char *dir, const char *name, struct stk_err *err);

/* profile/time.c */
/* Merges the time lines of n thread slots of the newest process; sets io_union_s. */
int stk_pb_line(struct stk_pb *pb, const struct stk_log_thread *thread, size_t n,
                struct stk_err *err);
/* start_s, end_s of all processes, run_s. */
int stk_pb_clocks(struct stk_pb *pb, struct stk_err *err);
/* The profile's own time line. */
int stk_pb_bins(struct stk_pb *pb, struct stk_err *err);

/* profile/who.c */
int stk_pb_who(struct stk_pb *pb, struct stk_err *err); /* parents, workers, units */
void stk_pb_env_rank(struct stk_pb *pb, uint32_t proc, const char *environment, size_t size);
/* kernel_*, storage_*: without the children that were waited for. */
int stk_pb_kernel(struct stk_pb *pb, struct stk_err *err);

/* profile/launch.c */
int stk_pb_launch(struct stk_pb *pb, struct stk_err *err);

/* profile/sum.c */
int stk_pb_sort(struct stk_pb *pb, struct stk_err *err);
int stk_pb_sums(struct stk_pb *pb, struct stk_err *err);

/* profile/fold.c: reduces the records by folding files of one directory and suffix into a group. */
int stk_pb_fold(struct stk_pb *pb, struct stk_err *err);
/* The same with files that are in a group of another process, too. Before the records are sorted. */
int stk_pb_unite(struct stk_pb *pb, struct stk_err *err);
/* "DIR/" "*" ".ext" of a path, or less of it. */
int stk_pb_pattern(struct stk_buf *out, const char *path, size_t n, enum stk_pb_fold level);

/* profile/notes.c: after everything else. */
int stk_pb_notes(struct stk_pb *pb, struct stk_err *err);

/* profile/read.c */
/* stk_profile_read() with a limit on records (0: as memory allows), for tests. */
int stk_profile_read_within(const char *path, size_t max_recs, struct stk_profile *p,
                            struct stk_err *err);

/* darshan.c */
bool stk_is_darshan(const char *path);
int stk_pb_darshan(struct stk_pb *pb, const char *path, struct stk_err *err);

#endif
