/*
 * profileset.h - profiles made in memory, for tests of the analysis and the rules: a job with
 * ranks, files and what each process did with them, in a few lines. Sums are kept consistent: time
 * of the records, of the processes and of the time line agree.
 */
#ifndef PROFILESET_H
#define PROFILESET_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "advice/advice.h"

#define SET_PROCS    64
#define SET_FILES    8192
#define SET_RECS     16384
#define SET_MARKS    4096
#define SET_READINGS 600

struct set {
    struct stk_profile p;
    struct stk_prof_host host[8];
    struct stk_prof_proc proc[SET_PROCS];
    struct stk_prof_mark mark[SET_MARKS];
    struct stk_prof_reading reading[SET_READINGS];
    struct stk_prof_file *file;
    struct stk_prof_rec *rec;
    char (*names)[256];
};

/* How a process used a file; zeros are what most need. */
struct use {
    double reads, bytes;  /* bytes a read */
    double read_s;        /* of one read */
    double opens, meta_s; /* opens (1 unless told); seconds of everything that moves no data */
    double writes, write_bytes, write_s;
    double seq, consec; /* shares of the reads behind the first */
    double distinct;    /* bytes of this process; 0: all it read */
    int api;
    double seeks, stats, fsyncs, write_opens;
    double span_s; /* from the first read to the last */
    double max_read_s;
    bool scattered; /* the writes: here and there, not one behind the other */
};

static inline void set_init(struct set *s, double run_s, uint32_t ranks)
{
    memset(s, 0, sizeof *s);
    s->file = calloc(SET_FILES, sizeof *s->file);
    s->rec = calloc(SET_RECS, sizeof *s->rec);
    s->names = calloc(SET_FILES, sizeof *s->names);
    for (size_t i = 0; i < 8; i++)
        s->host[i] = (struct stk_prof_host){.name = "n",
                                            .cores = 8 * ranks,
                                            .memory_bytes = 64ull << 30,
                                            .gpu_kind = "",
                                            .local_dir = ""};
    s->p = (struct stk_profile){.source = &stk_source_stoker,
                                .path = "p",
                                .command = "train",
                                .job = "",
                                .run_s = run_s,
                                .nranks = ranks,
                                .host = s->host,
                                .nhosts = 1,
                                .proc = s->proc,
                                .nprocs = ranks,
                                .nunits = ranks,
                                .file = s->file,
                                .rec = s->rec,
                                .reading = s->reading,
                                .mark = s->mark};
    s->p.bin_s = run_s / STK_PROF_BINS;
    for (uint32_t r = 0; r < ranks; r++)
        s->proc[r] = (struct stk_prof_proc){.pid = 100 + r,
                                            .unit = r,
                                            .parent = -1,
                                            .rank = r,
                                            .world = ranks > 1 ? ranks : 0,
                                            .exe = "python3",
                                            .command = "train",
                                            .cwd = "/",
                                            .log = "n.100.0.stklog",
                                            .end_s = run_s,
                                            .ended = STK_END_EXIT,
                                            .threads = 1,
                                            .kernel_read_bytes = 100000, /* its libraries' */
                                            .seen_read_bytes = 100000,
                                            .cpu_s = run_s / 10};
}

/* As many nodes as ranks, one each, with a local disk. */
static inline void set_nodes(struct set *s, uint32_t cores)
{
    s->p.nhosts = s->p.nranks;
    for (uint32_t i = 0; i < s->p.nhosts && i < 8; i++) {
        s->host[i].cores = cores;
        s->host[i].local_dir = "/local/scratch";
        s->host[i].local_free_bytes = 200ull << 30;
        s->proc[i].host = i;
    }
}

/* A forked worker of process `parent`. */
static inline uint32_t set_worker(struct set *s, uint32_t parent, double cpu_s)
{
    uint32_t i = (uint32_t)s->p.nprocs++;
    s->proc[i] = s->proc[parent];
    s->proc[i].pid = 200 + i;
    s->proc[i].parent = (int32_t)parent;
    s->proc[i].born = STK_BORN_FORK;
    s->proc[i].worker = i;
    s->proc[i].cpu_s = cpu_s;
    s->proc[i].io_sum_s = s->proc[i].io_union_s = 0;
    s->proc[i].main_io_s = s->proc[i].main_write_s = 0;
    return i;
}

static inline uint32_t set_file(struct set *s, const char *path, const char *fs, double size)
{
    uint32_t i = (uint32_t)s->p.nfiles++;
    snprintf(s->names[i], sizeof s->names[i], "%s", path);
    s->file[i] = (struct stk_prof_file){.path = s->names[i],
                                        .fs = fs,
                                        .files = 1,
                                        .size_bytes = (uint64_t)size,
                                        .distinct_exact = true};
    return i;
}

static inline int set_bin(double bytes)
{
    int b = 0;
    while (b < STK_SIZE_BINS - 1 && bytes > (double)stk_size_edge[b])
        b++;
    return b;
}

static inline int set_latency(double s)
{
    int b = 0;
    while (b < STK_LATENCY_BINS - 1 && s * 1e9 >= (double)(2ull << b))
        b++;
    return b;
}

/* Adds to the time line, evenly over the run. */
static inline void set_line(struct set *s, const struct use *u)
{
    for (int b = 0; b < STK_PROF_BINS; b++) {
        struct stk_prof_bin *at = &s->p.bin[b];
        at->read_bytes += (uint64_t)(u->reads * u->bytes / STK_PROF_BINS);
        at->read_ns += (uint64_t)(u->reads * u->read_s * 1e9 / STK_PROF_BINS);
        at->meta_ns += (uint64_t)(u->meta_s * 1e9 / STK_PROF_BINS);
        at->write_ns += (uint64_t)(u->write_s * 1e9 / STK_PROF_BINS);
    }
}

/* Files must be used in the order they were made; processes of a file in ascending order. */
static inline struct stk_prof_rec *set_use(struct set *s, uint32_t proc, uint32_t file,
                                           struct use u)
{
    struct stk_prof_rec *r = &s->rec[s->p.nrecs++];
    struct stk_prof_file *f = &s->file[file];
    uint64_t *c = r->n.c;
    stk_counts_init(&r->n);
    r->proc = proc;
    r->file = file;
    r->api = (uint8_t)u.api;
    double opens = u.opens > 0 ? u.opens : 1;
    double later = u.reads > opens ? u.reads - opens : 0;
    c[STK_C_OPENS] = c[STK_C_CLOSES] = (uint64_t)opens;
    c[STK_C_READS] = (uint64_t)u.reads;
    c[STK_C_READ_BYTES] = (uint64_t)(u.reads * u.bytes);
    c[STK_C_FIRST_READS] = (uint64_t)(u.reads - later);
    c[STK_C_SEQ_READS] = (uint64_t)(later * u.seq);
    c[STK_C_CONSEC_READS] = (uint64_t)(later * u.consec);
    c[STK_C_READ_NS] = (uint64_t)(u.reads * u.read_s * 1e9);
    c[STK_C_META_NS] = (uint64_t)(u.meta_s * 1e9);
    c[STK_C_MAX_READ_NS] = (uint64_t)((u.max_read_s > 0 ? u.max_read_s : u.read_s) * 1e9);
    c[STK_C_WRITES] = (uint64_t)u.writes;
    c[STK_C_WRITE_BYTES] = (uint64_t)(u.writes * u.write_bytes);
    c[STK_C_SEQ_WRITES] = c[STK_C_WRITES] / (u.scattered ? 2 : 1);
    c[STK_C_CONSEC_WRITES] = u.scattered ? 0 : c[STK_C_WRITES];
    c[STK_C_WRITE_NS] = (uint64_t)(u.write_s * 1e9);
    c[STK_C_SEEKS] = (uint64_t)u.seeks;
    c[STK_C_STATS] = (uint64_t)u.stats;
    c[STK_C_FSYNCS] = (uint64_t)u.fsyncs;
    c[STK_C_WRITE_OPENS] = (uint64_t)u.write_opens;
    c[STK_C_FIRST_READ_NS] = 0;
    c[STK_C_LAST_READ_NS] = (uint64_t)(u.span_s * 1e9);
    c[STK_C_MAX_OFFSET] = f->size_bytes;
    r->n.read_size[set_bin(u.bytes)] = (uint64_t)u.reads;
    r->n.read_latency[set_latency(u.read_s)] = (uint32_t)u.reads;
    r->distinct_bytes = (uint64_t)(u.distinct > 0 ? u.distinct : u.reads * u.bytes);
    f->rank_distinct_bytes += r->distinct_bytes;
    if (r->distinct_bytes > f->distinct_bytes)
        f->distinct_bytes = r->distinct_bytes; /* as if all read the same; else set it */
    f->ranks += u.reads > 0;
    s->proc[proc].kernel_read_bytes += c[STK_C_READ_BYTES];
    s->proc[proc].seen_read_bytes += c[STK_C_READ_BYTES];
    s->proc[proc].read_bytes += c[STK_C_READ_BYTES];
    double io = u.reads * u.read_s + u.meta_s + u.write_s;
    s->proc[proc].io_sum_s += io;
    s->proc[proc].io_union_s += io;
    s->proc[proc].main_io_s += io; /* as if its main thread did it all */
    s->proc[proc].main_write_s += u.write_s;
    set_line(s, &u);
    return r;
}

static inline void set_release(struct set *s)
{
    free(s->file);
    free(s->rec);
    free(s->names);
}

/* Advice of the set; the text of a finding's lines, all in one, is easier to look for things in. */
struct set_advice {
    struct stk_analysis a;
    struct stk_advice o;
};

static inline int set_advise(struct set *s, struct set_advice *out)
{
    int rc = stk_analyze(&s->p, &out->a, NULL);
    return rc ? rc : stk_advise(&out->a, &out->o, NULL);
}

static inline const struct stk_finding *set_finding(const struct set_advice *o, const char *id)
{
    for (size_t i = 0; i < o->o.nfindings; i++)
        if (strcmp(o->o.finding[i].id, id) == 0)
            return &o->o.finding[i];
    return NULL;
}

/* "id id id", sorted as given out. */
static inline const char *set_ids(const struct set_advice *o)
{
    static char text[1024];
    text[0] = '\0';
    for (size_t i = 0; i < o->o.nfindings; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", i ? " " : "",
                 o->o.finding[i].id);
    return text;
}

static inline void set_advice_release(struct set_advice *o)
{
    stk_advice_release(&o->o);
    stk_analysis_release(&o->a);
}

#endif
