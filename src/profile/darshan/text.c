/*
 * text.c - the output of darshan-parser, line by line: the header of the log, then one line
 * per counter and record ("POSIX <rank> <id> POSIX_READS 12 /path /mount fs", separated by tabs).
 * Unknown lines are skipped.
 */
#include "profile/darshan/priv.h"

#include "base/file.h"
#include "base/num.h"

#include <stdio.h>
#include <stdlib.h>

static const char *const field_name[STK_D_COUNT] = {
#define X(name) #name,
    STK_DARSHAN_FIELDS(X)
#undef X
};

static const struct {
    const char *name, *prefix; /* of its counters */
    enum stk_darshan_module module;
} modules[] = {
    {"POSIX", "POSIX_", STK_DM_POSIX},    {"STDIO", "STDIO_", STK_DM_STDIO},
    {"MPI-IO", "MPIIO_", STK_DM_MPIIO},   {"MPIIO", "MPIIO_", STK_DM_MPIIO},
    {"H5F", "H5F_", STK_DM_H5F},          {"H5D", "H5D_", STK_DM_H5D},
    {"DFS", "DFS_", STK_DM_DFS},          {"DAOS", "DAOS_", STK_DM_DAOS},
    {"LUSTRE", "LUSTRE_", STK_DM_LUSTRE}, {"HEATMAP", "HEATMAP_", STK_DM_HEATMAP},
};

/* "…_id4711-815_…": the numbers of the job and of the process; equal if there was no job. */
static uint64_t pid_of(const char *path)
{
    const char *at = strstr(stk_base_name(path), "_id");
    unsigned long long job, pid;
    return at && sscanf(at, "_id%19llu-%19llu_", &job, &pid) == 2 ? pid : 0;
}

void stk_darshan_begin(struct stk_darshan *d, struct stk_pb *pb, const char *path)
{
    *d = (struct stk_darshan){.pb = pb, .exe = "", .job = "", .rank = -2, .trusted_common = true};
    d->pid = pid_of(path);
}

void stk_darshan_release(struct stk_darshan *d)
{
    stk_buf_release(&d->name);
    free(d->rec);
    free(d->heat);
    d->rec = NULL;
    d->heat = NULL;
}

/* ---- the head ---- */

static bool begins(const char **line, size_t *n, const char *with)
{
    size_t m = strlen(with);
    if (*n < m || memcmp(*line, with, m) != 0)
        return false;
    *line += m;
    *n -= m;
    return true;
}

static double number(const char *p, size_t n)
{
    int64_t i;
    double f = -1;
    while (n && (p[n - 1] == ' ' || p[n - 1] == '\r'))
        n--;
    return stk_num_parse(p, n, &i, &f) == STK_NUM_NONE || !(f >= 0) || f > 9e18 ? -1 : f;
}

static uint64_t whole(const char *p, size_t n)
{
    double f = number(p, n);
    return f > 0 ? (uint64_t)f : 0;
}

/* The logs of a folder mostly repeat the same notes: once is enough. */
static int note_once(struct stk_darshan *d, const char *text, struct stk_err *err)
{
    const struct stk_profile *p = d->pb->p;
    for (size_t i = 0; i < p->nnotes && i < 64; i++)
        if (strcmp(p->note[i], text) == 0)
            return 0;
    return stk_pb_note(d->pb, err, "%s", text);
}

/* "# *WARNING*: The POSIX module contains incomplete data!" */
static int incomplete(struct stk_darshan *d, const char *p, size_t n, struct stk_err *err)
{
    char text[200];
    size_t length = 0;
    while (length < n && p[length] != ' ' && length < 32)
        length++;
    snprintf(text, sizeof text,
             "Darshan ran out of memory for its %.*s records (usually after the first 1,024 "
             "files): later ones are missing.",
             (int)length, p);
    return note_once(d, text, err);
}

static int head_line(struct stk_darshan *d, const char *p, size_t n, struct stk_err *err)
{
    if (begins(&p, &n, "darshan log version: ")) {
        d->any = true;
        d->old = number(p, n) >= 0 && number(p, n) < 3;
    } else if (begins(&p, &n, "exe: ")) {
        while (n && p[n - 1] == ' ')
            n--;
        struct stk_buf b = STK_BUF_INIT;
        stk_secret_text(p, n, &b);
        d->exe = b.fail ? NULL : stk_pb_text(d->pb, stk_buf_cstr(&b), b.len);
        stk_buf_release(&b);
        return d->exe ? 0 : stk_err_nomem(err, n);
    } else if (begins(&p, &n, "jobid: ")) {
        d->jobid = whole(p, n);
    } else if (begins(&p, &n, "start_time: ")) {
        d->start_s = whole(p, n);
    } else if (begins(&p, &n, "nprocs: ")) {
        d->nprocs = whole(p, n);
    } else if (begins(&p, &n, "run time: ")) {
        d->run_s = number(p, n);
    } else if (begins(&p, &n, "metadata: fork_parent = ")) {
        d->fork_parent = whole(p, n);
    } else if (begins(&p, &n, "metadata: lib_ver = 3.2.0")) {
        d->trusted_common = n > 0; /* 3.2.0-pre and the like are not affected */
    } else if (begins(&p, &n, "DXT_POSIX module: ") || begins(&p, &n, "DXT_MPIIO module: ")) {
        d->dxt = true;
    } else if (begins(&p, &n, "*WARNING*: The ")) {
        return incomplete(d, p, n, err);
    }
    return 0;
}

/* ---- records ---- */

struct columns {
    const char *at[8];
    size_t n[8];
};

/* Module, rank, id, counter, value; name, mount point, file system. The name may contain tabs. */
static bool split(const char *p, size_t n, struct columns *c)
{
    const char *end = p + n;
    for (size_t i = 0; i < 5; i++) {
        const char *tab = memchr(p, '\t', (size_t)(end - p));
        if (!tab)
            return false;
        c->at[i] = p;
        c->n[i] = (size_t)(tab - p);
        p = tab + 1;
    }
    for (size_t i = 7; i > 5; i--) {
        const char *tab = memrchr(p, '\t', (size_t)(end - p));
        if (!tab)
            return false;
        c->at[i] = tab + 1;
        c->n[i] = (size_t)(end - tab) - 1;
        end = tab;
    }
    c->at[5] = p;
    c->n[5] = (size_t)(end - p);
    return true;
}

static bool is(const struct columns *c, size_t i, const char *text)
{
    return c->n[i] == strlen(text) && memcmp(c->at[i], text, c->n[i]) == 0;
}

static enum stk_darshan_module module_of(const struct columns *c, const char **prefix)
{
    for (size_t i = 0; i < sizeof modules / sizeof *modules; i++)
        if (is(c, 0, modules[i].name)) {
            *prefix = modules[i].prefix;
            return modules[i].module;
        }
    return STK_DM_NONE;
}

static int start_record(struct stk_darshan *d, enum stk_darshan_module module, int64_t rank,
                        uint64_t id, const struct columns *c, struct stk_err *err)
{
    d->module = module;
    d->rank = rank;
    d->id = id;
    d->next = 0;
    for (size_t i = 0; i < STK_D_COUNT; i++)
        d->value[i] = -1;
    stk_buf_reset(&d->name);
    stk_buf_put(&d->name, c->at[5], c->n[5]);
    if (module == STK_DM_DFS && !c->n[5]) /* pool, container, number: few files have names in it */
        stk_buf_printf(&d->name, "daos://%.*s/%.*s", (int)c->n[6], c->at[6], (int)c->n[2],
                       c->at[2]);
    /* rootfs: no mount point was known. */
    bool known = !is(c, 7, "UNKNOWN") && !is(c, 7, "rootfs") && !is(c, 7, "N/A");
    const char *fs = module == STK_DM_DFS ? "daos" : c->at[7];
    size_t n = module == STK_DM_DFS ? 4 : known && c->n[7] < sizeof d->fs ? c->n[7] : 0;
    memcpy(d->fs, fs, n);
    d->fs[n] = '\0';
    return stk_buf_check(&d->name, err);
}

/* "COMP3_STRIPE_COUNT": the first parts of a file's layout are mostly narrow; the widest stands for
 * all. */
static double widest(struct stk_darshan *d, char *name, double value)
{
    unsigned part;
    char rest[20];
    if (sscanf(name, "COMP%3u_STRIPE_%19s", &part, rest) != 2)
        return value;
    enum stk_darshan_field f = STK_D_COMP1_STRIPE_SIZE;
    if (strcmp(rest, "COUNT") == 0)
        f = STK_D_COMP1_STRIPE_COUNT;
    else if (strcmp(rest, "SIZE") != 0)
        return value;
    memcpy(name, field_name[f], strlen(field_name[f]) + 1); /* never longer than before */
    return d->value[f] > value ? d->value[f] : value;
}

static void set_field(struct stk_darshan *d, const char *name, size_t n, double value)
{
    /* "SIZE_READ_AGG_0_100" of MPI-IO and HDF5 is SIZE_READ_0_100 of POSIX. */
    char plain[64];
    if (n >= sizeof plain)
        return;
    memcpy(plain, name, n);
    plain[n] = '\0';
    char *agg = strstr(plain, "_AGG_");
    if (agg)
        memmove(agg, agg + 4, strlen(agg + 4) + 1);
    if (d->module == STK_DM_LUSTRE)
        value = widest(d, plain, value);
    for (uint32_t i = 0; i < STK_D_COUNT; i++) {
        uint32_t k = d->next + i < STK_D_COUNT ? d->next + i : d->next + i - STK_D_COUNT;
        if (strcmp(field_name[k], plain) == 0) {
            d->value[k] = value;
            d->next = k + 1 < STK_D_COUNT ? k + 1 : 0;
            return;
        }
    }
}

/* HEATMAP_READ_BIN_12 and the bin width, from the modules whose bytes count. */
static int heat_line(struct stk_darshan *d, const struct columns *c, int64_t rank,
                     struct stk_err *err)
{
    const char *p = c->at[3];
    size_t n = c->n[3];
    double value = number(c->at[4], c->n[4]);
    if (!is(c, 5, "heatmap:POSIX") && !is(c, 5, "heatmap:STDIO") && !is(c, 5, "heatmap:DFS"))
        return 0;
    if (begins(&p, &n, "HEATMAP_F_BIN_WIDTH_SECONDS")) {
        d->heat_width_s = value;
        return 0;
    }
    bool write = begins(&p, &n, "HEATMAP_WRITE_BIN_");
    if (!write && !begins(&p, &n, "HEATMAP_READ_BIN_"))
        return 0;
    double bin = number(p, n);
    if (value <= 0 || bin < 0 || bin >= STK_DARSHAN_BINS || !(d->heat_width_s > 0))
        return 0;
    int rc = STK_ARRAY_MORE(d->heat, d->nheat, err);
    if (!rc)
        d->heat[d->nheat++] = (struct stk_darshan_heat){.rank = rank,
                                                        .width_s = d->heat_width_s,
                                                        .bin = (uint32_t)bin,
                                                        .write = write,
                                                        .bytes = (uint64_t)value};
    return rc;
}

static uint64_t hash_number(const char *p, size_t n) /* any 64 bits, in decimal */
{
    uint64_t v = 0;
    for (size_t i = 0; i < n; i++)
        v = v * 10 + (uint64_t)(p[i] - '0');
    return v;
}

static int record_line(struct stk_darshan *d, const char *line, size_t n, struct stk_err *err)
{
    struct columns c;
    const char *prefix = "";
    if (!split(line, n, &c))
        return 0;
    enum stk_darshan_module module = module_of(&c, &prefix);
    int64_t rank = is(&c, 1, "-1") ? -1 : (int64_t)number(c.at[1], c.n[1]);
    if (module == STK_DM_NONE || (rank < 0 && !is(&c, 1, "-1")) || rank >= STK_PB_MAX_WORLD)
        return 0;
    if (module == STK_DM_HEATMAP)
        return heat_line(d, &c, rank, err);
    uint64_t id = hash_number(c.at[2], c.n[2]);
    int rc = 0;
    if (d->module != module || d->rank != rank || d->id != id) {
        rc = stk_darshan_map(d, err);
        rc = rc ? rc : start_record(d, module, rank, id, &c, err);
    }
    const char *name = c.at[3];
    size_t length = c.n[3];
    if (!rc && begins(&name, &length, prefix))
        set_field(d, name, length, number(c.at[4], c.n[4]));
    if (!rc && module == STK_DM_POSIX && is(&c, 3, "POSIX_MMAPS") && is(&c, 4, "-1"))
        d->mmaps = true;
    return rc;
}

int stk_darshan_line(struct stk_darshan *d, const char *line, size_t n, struct stk_err *err)
{
    if (begins(&line, &n, "# "))
        return head_line(d, line, n, err);
    return n && line[0] != '#' ? record_line(d, line, n, err) : 0;
}

/* ---- the end ---- */

static int notes(struct stk_darshan *d, struct stk_err *err)
{
    const struct {
        bool is;
        const char *text;
    } note[] = {
        {d->mmaps, "Darshan does not see mmap(): reads through it are not included in any number "
                   "here."},
        {true, "A Darshan log has no distinct bytes, latencies, steps, CPU, memory or GPU use: "
               "distinct bytes are estimated from the last byte read, the rest is unknown; it "
               "lacks stat calls of programs built for glibc 2.33 or later, fortified reads and "
               "io_uring."},
        {d->daos && !d->dfs, "The log has DAOS objects, which are not files: reads and writes of "
                             "objects are not included in any number here."},
        {d->dxt, "The log also has every single operation (DXT): use darshan-dxt-parser to see "
                 "them, this report does not show them."},
        {d->stdio_sizes,
         "Darshan does not record the sizes of STDIO requests: each request of a file counts with "
         "their mean."},
    };
    int rc = 0;
    for (size_t i = 0; i < sizeof note / sizeof *note && !rc; i++)
        rc = note[i].is ? note_once(d, note[i].text, err) : 0;
    return rc;
}

int stk_darshan_old(const char *path, struct stk_err *err)
{
    return stk_err_set(err, STK_E_UNSUPPORTED, path, -1,
                       "a log of Darshan 1 or 2: only logs of 3.0 and later can be read");
}

int stk_darshan_end(struct stk_darshan *d, const char *path, struct stk_err *err)
{
    struct stk_profile *p = d->pb->p;
    int rc = stk_darshan_map(d, err);
    if (!rc && !d->any)
        rc = stk_err_set(err, STK_E_CORRUPT, path, -1, "this is not output of darshan-parser");
    if (!rc && d->old)
        rc = stk_darshan_old(path, err);
    if (rc)
        return rc;
    p->has_size_zero |= d->zeros;
    if (d->jobid && d->jobid != d->pid && !*p->job) {
        char text[24];
        snprintf(text, sizeof text, "%llu", (unsigned long long)d->jobid);
        p->job = stk_pb_text(d->pb, text, strlen(text));
        p->job = p->job ? p->job : "";
    }
    rc = stk_darshan_ranks(d, err);
    return rc ? rc : notes(d, err);
}
