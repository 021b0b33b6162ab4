/*
 * hdf5.c - HDF5 files, written and read by libhdf5 as applications do. The library reads through a
 * driver of ours, which makes the same requests as its own (sec2) and counts them.
 */
#include "bench/reader.h"

#ifdef STK_HAVE_HDF5
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"
#include "format/hdf5/lib.h"

#define DATASET       "data"
#define DEFLATE_LEVEL 4 /* h5py's default */

/* libhdf5 is used by one thread at a time; so do h5py's threads. */
static pthread_mutex_t library = PTHREAD_MUTEX_INITIALIZER;
static hid_t driver = -1;
/* The reader that holds the lock: the driver's file belongs to it. */
static struct stk_bench_reader *user;
static struct stk_err trouble; /* of the driver's last failure */

/* ---- the driver ----------------------------------------------------------------------------- */

struct vfile {
    H5FD_t public; /* first */
    struct stk_bench_reader *reader;
    haddr_t eoa;
};

static H5FD_t *v_open(const char *name, unsigned flags, hid_t fapl, haddr_t maxaddr)
{
    (void)name, (void)flags, (void)fapl, (void)maxaddr;
    struct vfile *f = calloc(1, sizeof *f);
    if (f)
        f->reader = user;
    return f ? &f->public : NULL;
}

static herr_t v_close(H5FD_t *file)
{
    free(file);
    return 0;
}

static haddr_t v_get_eoa(const H5FD_t *file, H5FD_mem_t type)
{
    (void)type;
    return ((const struct vfile *)file)->eoa;
}

static herr_t v_set_eoa(H5FD_t *file, H5FD_mem_t type, haddr_t addr)
{
    (void)type;
    ((struct vfile *)file)->eoa = addr;
    return 0;
}

static haddr_t v_get_eof(const H5FD_t *file, H5FD_mem_t type)
{
    (void)type;
    return ((const struct vfile *)file)->reader->file.size;
}

/* As sec2: one request, and zeros past the end. */
static herr_t v_read(H5FD_t *file, H5FD_mem_t type, hid_t dxpl, haddr_t addr, size_t size, void *p)
{
    struct stk_bench_reader *r = ((struct vfile *)file)->reader;
    size_t done = 0, got = 0;
    (void)type, (void)dxpl;
    do {
        if (stk_bio_read(&r->io, &r->file, (char *)p + done, size - done, addr + done, &got,
                         &trouble) < 0)
            return -1;
        done += got;
    } while (got && done < size);
    memset((char *)p + done, 0, size - done);
    return 0;
}

static herr_t v_write(H5FD_t *file, H5FD_mem_t type, hid_t dxpl, haddr_t addr, size_t size,
                      const void *p)
{
    (void)file, (void)type, (void)dxpl, (void)addr, (void)size, (void)p;
    return -1;
}

static const H5FD_class_t class = {
#ifdef H5FD_CLASS_VERSION
    .version = H5FD_CLASS_VERSION,
    .value = 512, /* those below are the HDF Group's */
#endif
    .name = "stoker-bench",
    .maxaddr = (haddr_t)INT64_MAX,
    .fc_degree = H5F_CLOSE_WEAK,
    .open = v_open,
    .close = v_close,
    .get_eoa = v_get_eoa,
    .set_eoa = v_set_eoa,
    .get_eof = v_get_eof,
    .read = v_read,
    .write = v_write,
    .fl_map = H5FD_FLMAP_DICHOTOMY,
};

/* ---- reading -------------------------------------------------------------------------------- */

struct state {
    hid_t file, set, space, memory;
    uint8_t *row;
};

static int failed(const struct stk_bench_reader *r, const char *what, struct stk_err *err)
{
    char path[4400];
    if (trouble.code) {
        if (err)
            *err = trouble;
        return trouble.code;
    }
    snprintf(path, sizeof path, "%s/%s", r->io.dir, r->file.name);
    return stk_err_set(err, STK_E_CORRUPT, path, -1, "libhdf5 cannot %s", what);
}

static int enter(struct stk_bench_reader *r, struct stk_err *err)
{
    pthread_mutex_lock(&library);
    user = r;
    trouble = (struct stk_err){0};
    int rc = driver < 0 ? stk_h5_start(err) : 0;
    if (rc == 0)
        (void)stk_h5.Eset_auto2(H5E_DEFAULT, NULL, NULL);
    if (rc == 0 && driver < 0 && (driver = stk_h5.FDregister(&class)) < 0)
        rc = stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1, "libhdf5 takes no driver");
    return rc;
}

static void leave(void)
{
    if (stk_h5.Eclear2)
        (void)stk_h5.Eclear2(H5E_DEFAULT);
    pthread_mutex_unlock(&library);
}

static void close_ids(struct state *s)
{
    if (s->memory >= 0)
        stk_h5.Sclose(s->memory);
    if (s->space >= 0)
        stk_h5.Sclose(s->space);
    if (s->set >= 0)
        stk_h5.Dclose(s->set);
    if (s->file >= 0)
        stk_h5.Fclose(s->file);
    s->memory = s->space = s->set = s->file = -1;
}

static int open_ids(struct stk_bench_reader *r, struct state *s, uint64_t bytes,
                    struct stk_err *err)
{
    hid_t fapl = stk_h5.Pcreate(*stk_h5.P_FILE_ACCESS);
    hsize_t dims[2] = {1, bytes};
    if (fapl >= 0 && stk_h5.Pset_driver(fapl, driver, NULL) >= 0)
        s->file = stk_h5.Fopen(r->file.name, H5F_ACC_RDONLY, fapl);
    if (fapl >= 0)
        stk_h5.Pclose(fapl);
    if (s->file >= 0)
        s->set = stk_h5.Dopen2(s->file, DATASET, H5P_DEFAULT);
    if (s->set >= 0)
        s->space = stk_h5.Dget_space(s->set);
    if (s->space >= 0)
        s->memory = stk_h5.Screate_simple(2, dims, NULL);
    return s->memory < 0 ? failed(r, "open it", err) : 0;
}

static int read_row(struct stk_bench_reader *r, struct state *s, uint64_t index, uint64_t bytes,
                    struct stk_err *err)
{
    hsize_t start[2] = {index, 0}, count[2] = {1, bytes};
    if (stk_h5.Sselect_hyperslab(s->space, H5S_SELECT_SET, start, NULL, count, NULL) < 0 ||
        stk_h5.Dread(s->set, *stk_h5.T_STD_U8LE, s->memory, s->space, H5P_DEFAULT, s->row) < 0)
        return failed(r, "read a sample", err);
    return 0;
}

static int need_state(struct stk_bench_reader *r, uint64_t bytes, struct stk_err *err)
{
    if (r->state)
        return 0;
    struct state *s = calloc(1, sizeof *s);
    uint8_t *row = malloc((size_t)bytes);
    if (!s || !row) {
        free(s);
        free(row);
        return stk_err_nomem(err, bytes);
    }
    *s = (struct state){-1, -1, -1, -1, row};
    r->state = s;
    return 0;
}

/* With the lock held. */
static int open_file(struct stk_bench_reader *r, uint64_t file, uint64_t bytes, struct stk_err *err)
{
    if (r->current == file)
        return 0;
    close_ids(r->state);
    int rc = stk_bench_reader_open(r, file, err);
    return rc ? rc : open_ids(r, r->state, bytes, err);
}

static int sample_hdf5(struct stk_bench_reader *r, struct stk_bench_place at, struct stk_err *err)
{
    uint64_t bytes = stk_bench_record(r->w, at);
    int rc = need_state(r, bytes, err);
    if (rc < 0)
        return rc;
    struct state *s = r->state;
    rc = enter(r, err);
    rc = rc ? rc : open_file(r, at.file, bytes, err);
    rc = rc ? rc : read_row(r, s, at.index, bytes, err);
    if (rc < 0)
        r->current = UINT64_MAX;
    leave();
    return rc;
}

/* A dataset that is not chunked is one piece: its rows follow each other. */
static int base_hdf5(struct stk_bench_reader *r, uint64_t file, uint64_t *off, struct stk_err *err)
{
    uint64_t bytes = stk_bench_record(r->w, (struct stk_bench_place){file, 0});
    int rc = need_state(r, bytes, err);
    if (rc < 0)
        return rc;
    struct state *s = r->state;
    rc = enter(r, err);
    rc = rc ? rc : open_file(r, file, bytes, err);
    haddr_t at = rc == 0 ? stk_h5.Dget_offset(s->set) : HADDR_UNDEF;
    if (rc == 0 && at == HADDR_UNDEF)
        rc = failed(r, "say where its samples are", err);
    *off = at;
    if (rc < 0)
        r->current = UINT64_MAX;
    leave();
    return rc;
}

static void close_hdf5(struct stk_bench_reader *r)
{
    struct state *s = r->state;
    if (!s)
        return;
    if (enter(r, NULL) == 0)
        close_ids(s);
    leave();
    free(s->row);
    free(s);
    r->state = NULL;
}

/* ---- writing -------------------------------------------------------------------------------- */

/* A chunk holds several samples, or a part of one. */
static void chunk_dims(const struct stk_workload *w, uint64_t bytes, hsize_t chunk[2])
{
    uint64_t rows = w->dataset.chunk_bytes / bytes;
    chunk[0] = rows > w->dataset.samples_per_file ? w->dataset.samples_per_file : rows ? rows : 1;
    chunk[1] = w->dataset.chunk_bytes < bytes ? w->dataset.chunk_bytes : bytes;
}

static hid_t make_set(const struct stk_workload *w, hid_t file, uint64_t bytes)
{
    hsize_t dims[2] = {w->dataset.samples_per_file, bytes}, chunk[2];
    hid_t space = stk_h5.Screate_simple(2, dims, NULL);
    hid_t dcpl = stk_h5.Pcreate(*stk_h5.P_DATASET_CREATE), set = -1;
    chunk_dims(w, bytes, chunk);
    bool good = space >= 0 && dcpl >= 0 && stk_h5.Pset_obj_track_times(dcpl, 0) >= 0 &&
                stk_h5.Pset_fill_time(dcpl, H5D_FILL_TIME_NEVER) >= 0 &&
                (!w->dataset.chunk_bytes || stk_h5.Pset_chunk(dcpl, 2, chunk) >= 0) &&
                (w->dataset.compression == STK_COMPRESSION_NONE ||
                 stk_h5.Pset_deflate(dcpl, DEFLATE_LEVEL) >= 0);
    if (good)
        set = stk_h5.Dcreate2(file, DATASET, *stk_h5.T_STD_U8LE, space, H5P_DEFAULT, dcpl,
                              H5P_DEFAULT);
    if (dcpl >= 0)
        stk_h5.Pclose(dcpl);
    if (space >= 0)
        stk_h5.Sclose(space);
    return set;
}

/* Rows in pieces of some MiB, so that whole chunks are written at once. */
#define PIECE_BYTES (8u << 20)

static bool write_rows(const struct stk_workload *w, uint64_t file, hid_t set, uint64_t bytes)
{
    hsize_t chunk[2];
    chunk_dims(w, bytes, chunk);
    uint64_t per = PIECE_BYTES / bytes / chunk[0] * chunk[0], all = w->dataset.samples_per_file;
    per = per < chunk[0] ? chunk[0] : per > all ? all : per;
    uint8_t *p = malloc((size_t)(per * bytes));
    hid_t space = stk_h5.Dget_space(set);
    bool good = p && space >= 0;
    for (uint64_t at = 0, n; at < all && good; at += n) {
        n = all - at < per ? all - at : per;
        hsize_t start[2] = {at, 0}, count[2] = {n, bytes};
        hid_t memory = stk_h5.Screate_simple(2, count, NULL);
        for (uint64_t i = 0; i < n; i++)
            stk_bench_fill_sample(p + i * bytes, (size_t)bytes, w,
                                  (struct stk_bench_place){file, at + i});
        good = memory >= 0 &&
               stk_h5.Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL) >= 0 &&
               stk_h5.Dwrite(set, *stk_h5.T_STD_U8LE, memory, space, H5P_DEFAULT, p) >= 0;
        if (memory >= 0)
            stk_h5.Sclose(memory);
    }
    if (space >= 0)
        stk_h5.Sclose(space);
    free(p);
    return good;
}

/* libhdf5 takes a path, and truncates a file that is there: it is ours already. */
static int write_hdf5(const struct stk_workload *w, uint64_t file, int dirfd, const char *name,
                      const char *path, struct stk_err *err)
{
    char real[STK_FD_PATH];
    uint64_t bytes = stk_bench_record(w, (struct stk_bench_place){file, 0});
    int fd = stk_create_at(dirfd, name, STK_SHARED);
    if (fd < 0)
        return stk_err_sys(err, path, "create");
    int rc = enter(NULL, err);
    hid_t h5 = -1, set = -1;
    if (rc == 0)
        h5 =
            stk_h5.Fcreate(stk_fd_path(dirfd, name, real), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    if (h5 >= 0)
        set = make_set(w, h5, bytes);
    bool good = set >= 0 && write_rows(w, file, set, bytes);
    if (set >= 0 && stk_h5.Dclose(set) < 0)
        good = false;
    if (h5 >= 0 && stk_h5.Fclose(h5) < 0)
        good = false;
    leave();
    if (rc == 0 && !good)
        rc = stk_err_set(err, STK_E_SYS, path, -1,
                         "libhdf5 cannot write the file: is the disk full?");
    close(fd);
    return rc;
}

const struct stk_bench_kind stk_bench_hdf5 = {
    .suffix = ".h5",
    .write = write_hdf5,
    .sample = sample_hdf5,
    .close = close_hdf5,
    .stored = stk_bench_record,
    .base = base_hdf5};
#else
const struct stk_bench_kind stk_bench_hdf5 = {.suffix = ".h5", .package = "libhdf5-dev"};
#endif
