/*
 * mpiio.c - MPI's files, recorded under their path in addition to the library's own calls below.
 *
 * Building needs nothing of MPI. Its handles are pointers in Open MPI and ints in MPICH and its
 * derivatives; each is passed on in its register (x86-64 and AArch64 pass both alike, with at most
 * six arguments here), so both work. Bytes are the elements in the status times the size of their
 * type; for calls that end later, the requested ones.
 */
#include <ctype.h>
#include <limits.h>
#include <string.h>

#include "preload/wrap.h"

typedef void *handle;         /* of any kind */
typedef long long mpi_offset; /* in Open MPI, MPICH and MPI's own ABI */

/* MPI_MODE_WRONLY, RDWR and SEQUENTIAL: the same in all. */
#define MODE_SEQUENTIAL 256

#define FILES 256
static struct file {
    handle fh; /* NULL: free (atomic) */
    uint32_t name;
    bool contiguous; /* the bytes of the view are contiguous, so an offset is one range */
} files[FILES];

static struct file *find(handle fh)
{
    for (int i = 0; fh && i < FILES; i++)
        if (__atomic_load_n(&files[i].fh, __ATOMIC_ACQUIRE) == fh)
            return &files[i];
    return NULL;
}

static void remember(handle fh, uint32_t name, bool contiguous)
{
    for (int i = 0; i < FILES; i++) {
        handle expected = NULL;
        if (__atomic_compare_exchange_n(&files[i].fh, &expected, fh, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_RELAXED)) {
            files[i].name = name;
            files[i].contiguous = contiguous;
            return;
        }
    }
}

/* ROMIO accepts a file system's name before the path ("lustre:/scratch/x"). */
static const char *path_of(const char *name)
{
    const char *p = name;
    while (islower((unsigned char)*p) || isdigit((unsigned char)*p))
        p++;
    return *p == ':' && p - name > 1 ? p + 1 : name;
}

WRAP(int, MPI_File_open, (handle comm, const char *name, int mode, handle info, handle *fh))
{
    FOREIGN(int, MPI_File_open, (handle, const char *, int, handle, handle *));
    struct stk_pl_call call;
    if (!real)
        return -1;
    if (!stk_pl_begin(&call))
        return real(comm, name, mode, info, fh);
    int rc = real(comm, name, mode, info, fh);
    uint32_t id = stk_pl_name(path_of(name));
    if (rc == 0 && id)
        remember(*fh, id, !(mode & MODE_SEQUENTIAL));
    if (id)
        stk_pl_named_meta(&call, id, STK_C_OPENS, rc == 0, STK_API_MPIIO);
    return rc;
}

WRAP(int, MPI_File_close, (handle * fh))
{
    FOREIGN(int, MPI_File_close, (handle *));
    struct stk_pl_call call;
    if (!real)
        return -1;
    struct file *f = fh ? find(*fh) : NULL;
    uint32_t name = f ? f->name : 0;
    if (f)
        __atomic_store_n(&f->fh, NULL, __ATOMIC_RELEASE);
    if (!name || !stk_pl_begin(&call))
        return real(fh);
    int rc = real(fh);
    stk_pl_named_meta(&call, name, STK_C_CLOSES, rc == 0, STK_API_MPIIO);
    return rc;
}

/* Calls function NAME of the library of `caller`; `otherwise` if there is none. */
#define ASK(name, args, values)                                                                    \
    ({                                                                                             \
        int(*ask) args = (int(*) args)stk_foreign(#name, caller);                                  \
        ask ? ask values : -1;                                                                     \
    })

static int64_t size_of(handle type, const void *caller)
{
    int bytes = 0;
    return ASK(MPI_Type_size, (handle, int *), (type, &bytes)) == 0 && bytes > 0 ? bytes : 0;
}

/* The byte of the file at an offset of the view, -1: unknown. Both functions are local. */
static int64_t byte_at(const struct file *f, handle fh, mpi_offset offset, const void *caller)
{
    mpi_offset byte = -1;
    if (!f->contiguous ||
        ASK(MPI_File_get_byte_offset, (handle, mpi_offset, mpi_offset *), (fh, offset, &byte)) != 0)
        return -1;
    return byte;
}

static int64_t byte_of_pointer(const struct file *f, handle fh, const void *caller)
{
    mpi_offset at = 0;
    if (!f->contiguous || ASK(MPI_File_get_position, (handle, mpi_offset *), (fh, &at)) != 0)
        return -1;
    return byte_at(f, fh, at, caller);
}

/* Our own status if the program passes none: without it, a read at the end of the file would count
 * the requested bytes. No library's status is larger. */
struct status {
    _Alignas(16) char bytes[256];
};

static void *status_for(void *status, struct status *own)
{
    /* MPI_STATUS_IGNORE is 0 or 1. */
    if ((uintptr_t)status > 1)
        return status;
    memset(own, 0, sizeof(*own));
    return own;
}

static int64_t bytes_moved(const void *status, long long asked, handle type, const void *caller)
{
    int64_t size = size_of(type, caller), bytes;
    int count = -1;
    /* Negative: not a whole number of elements, or too many. */
    if (status && (ASK(MPI_Get_count, (const void *, handle, int *), (status, type, &count)) != 0 ||
                   count < 0))
        status = NULL;
    return __builtin_mul_overflow(status ? count : asked, size, &bytes) ? 0 : bytes;
}

/* Where a call reads or writes. */
enum where { AT_OFFSET, AT_POINTER, NOT_KNOWN };

struct transfer {
    const struct file *file;
    handle fh;
    uint32_t name;
    int64_t offset;
    const void *caller;
    struct stk_pl_call call;
};

/* Queries what must be known before the call moves the pointer; false: not recorded. */
static bool begin(struct transfer *t, handle fh, enum where where, mpi_offset offset,
                  const void *caller)
{
    t->file = find(fh);
    if (!t->file)
        return false;
    t->fh = fh;
    t->name = t->file->name;
    t->caller = caller;
    t->offset = where == AT_OFFSET    ? byte_at(t->file, fh, offset, caller)
                : where == AT_POINTER ? byte_of_pointer(t->file, fh, caller)
                                      : -1;
    return stk_pl_begin(&t->call);
}

/* status NULL: it ends later, or elsewhere. */
static int end(struct transfer *t, int rc, bool write, const void *status, long long count,
               handle type)
{
    struct stk_pl_call since, now;
    int64_t bytes = -1;
    if (rc == 0 && stk_pl_begin(&since)) {
        bytes = bytes_moved(status, count, type, t->caller);
        if (stk_pl_begin(&now)) { /* our queries are not the program's time */
            t->call.start_ns += now.start_ns - since.start_ns;
        }
    }
    stk_pl_named_data(&t->call, t->name, write, t->offset, bytes, STK_API_MPIIO);
    return rc;
}

/* The functions come in families: read or write (`pointer` differs), int or MPI_Count elements. */
#define AT(function, pointer, number, writes)                                                      \
    WRAP(int, function,                                                                            \
         (handle fh, mpi_offset offset, pointer p, number count, handle type, void *status))       \
    {                                                                                              \
        FOREIGN(int, function, (handle, mpi_offset, pointer, number, handle, void *));             \
        struct transfer t;                                                                         \
        struct status own;                                                                         \
        if (!real)                                                                                 \
            return -1;                                                                             \
        if (!begin(&t, fh, AT_OFFSET, offset, CALLER))                                             \
            return real(fh, offset, p, count, type, status);                                       \
        void *st = status_for(status, &own);                                                       \
        return end(&t, real(fh, offset, p, count, type, st), writes, st, count, type);             \
    }

#define HERE(function, pointer, number, writes, where)                                             \
    WRAP(int, function, (handle fh, pointer p, number count, handle type, void *status))           \
    {                                                                                              \
        FOREIGN(int, function, (handle, pointer, number, handle, void *));                         \
        struct transfer t;                                                                         \
        struct status own;                                                                         \
        if (!real)                                                                                 \
            return -1;                                                                             \
        if (!begin(&t, fh, where, 0, CALLER))                                                      \
            return real(fh, p, count, type, status);                                               \
        void *st = status_for(status, &own);                                                       \
        return end(&t, real(fh, p, count, type, st), writes, st, count, type);                     \
    }

/* These end later: with MPI_Wait(), or with their second half. */
#define LATER_AT(function, pointer, number, writes)                                                \
    WRAP(int, function,                                                                            \
         (handle fh, mpi_offset offset, pointer p, number count, handle type, void *request))      \
    {                                                                                              \
        FOREIGN(int, function, (handle, mpi_offset, pointer, number, handle, void *));             \
        struct transfer t;                                                                         \
        if (!real)                                                                                 \
            return -1;                                                                             \
        if (!begin(&t, fh, AT_OFFSET, offset, CALLER))                                             \
            return real(fh, offset, p, count, type, request);                                      \
        return end(&t, real(fh, offset, p, count, type, request), writes, NULL, count, type);      \
    }

#define LATER_HERE(function, pointer, number, writes, where)                                       \
    WRAP(int, function, (handle fh, pointer p, number count, handle type, void *request))          \
    {                                                                                              \
        FOREIGN(int, function, (handle, pointer, number, handle, void *));                         \
        struct transfer t;                                                                         \
        if (!real)                                                                                 \
            return -1;                                                                             \
        if (!begin(&t, fh, where, 0, CALLER))                                                      \
            return real(fh, p, count, type, request);                                              \
        return end(&t, real(fh, p, count, type, request), writes, NULL, count, type);              \
    }

#define SPLIT(function, pointer, number, writes, where)                                            \
    WRAP(int, function, (handle fh, pointer p, number count, handle type))                         \
    {                                                                                              \
        FOREIGN(int, function, (handle, pointer, number, handle));                                 \
        struct transfer t;                                                                         \
        if (!real)                                                                                 \
            return -1;                                                                             \
        if (!begin(&t, fh, where, 0, CALLER))                                                      \
            return real(fh, p, count, type);                                                       \
        return end(&t, real(fh, p, count, type), writes, NULL, count, type);                       \
    }

#define SPLIT_AT(function, pointer, number, writes)                                                \
    WRAP(int, function, (handle fh, mpi_offset offset, pointer p, number count, handle type))      \
    {                                                                                              \
        FOREIGN(int, function, (handle, mpi_offset, pointer, number, handle));                     \
        struct transfer t;                                                                         \
        if (!real)                                                                                 \
            return -1;                                                                             \
        if (!begin(&t, fh, AT_OFFSET, offset, CALLER))                                             \
            return real(fh, offset, p, count, type);                                               \
        return end(&t, real(fh, offset, p, count, type), writes, NULL, count, type);               \
    }

#define FAMILY(verb, suffix, pointer, number, writes)                                              \
    AT(MPI_File_##verb##_at##suffix, pointer, number, writes)                                      \
    AT(MPI_File_##verb##_at_all##suffix, pointer, number, writes)                                  \
    HERE(MPI_File_##verb##suffix, pointer, number, writes, AT_POINTER)                             \
    HERE(MPI_File_##verb##_all##suffix, pointer, number, writes, AT_POINTER)                       \
    HERE(MPI_File_##verb##_shared##suffix, pointer, number, writes, NOT_KNOWN)                     \
    HERE(MPI_File_##verb##_ordered##suffix, pointer, number, writes, NOT_KNOWN)                    \
    LATER_AT(MPI_File_i##verb##_at##suffix, pointer, number, writes)                               \
    LATER_AT(MPI_File_i##verb##_at_all##suffix, pointer, number, writes)                           \
    LATER_HERE(MPI_File_i##verb##suffix, pointer, number, writes, AT_POINTER)                      \
    LATER_HERE(MPI_File_i##verb##_all##suffix, pointer, number, writes, AT_POINTER)                \
    LATER_HERE(MPI_File_i##verb##_shared##suffix, pointer, number, writes, NOT_KNOWN)              \
    SPLIT_AT(MPI_File_##verb##_at_all_begin##suffix, pointer, number, writes)                      \
    SPLIT(MPI_File_##verb##_all_begin##suffix, pointer, number, writes, AT_POINTER)                \
    SPLIT(MPI_File_##verb##_ordered_begin##suffix, pointer, number, writes, NOT_KNOWN)

FAMILY(read, , void *, int, false)
FAMILY(write, , const void *, int, true)
FAMILY(read, _c, void *, long long, false)
FAMILY(write, _c, const void *, long long, true)

/* ---- calls that move no data ---- */

static int ended(struct stk_pl_call *call, uint32_t name, enum stk_counter what, int rc)
{
    stk_pl_named_meta(call, name, what, rc == 0, STK_API_MPIIO);
    return rc;
}

#define META(function, args, values, what)                                                         \
    WRAP(int, function, args)                                                                      \
    {                                                                                              \
        FOREIGN(int, function, args);                                                              \
        struct stk_pl_call call;                                                                   \
        if (!real)                                                                                 \
            return -1;                                                                             \
        struct file *f = find(fh);                                                                 \
        if (!f || !stk_pl_begin(&call))                                                            \
            return real values;                                                                    \
        return ended(&call, f->name, what, real values);                                           \
    }
META(MPI_File_seek, (handle fh, mpi_offset offset, int whence), (fh, offset, whence), STK_C_SEEKS)
META(MPI_File_seek_shared, (handle fh, mpi_offset offset, int whence), (fh, offset, whence),
     STK_C_SEEKS)
META(MPI_File_sync, (handle fh), (fh), STK_C_FSYNCS)
META(MPI_File_get_size, (handle fh, mpi_offset *size), (fh, size), STK_C_STATS)
META(MPI_File_set_size, (handle fh, mpi_offset size), (fh, size), STK_TIME_ONLY)

/* Tiles without holes: the bytes of the view are contiguous. */
static bool without_holes(handle tile, const void *caller)
{
    long from = -1, extent = -1;
    return ASK(MPI_Type_get_extent, (handle, long *, long *), (tile, &from, &extent)) == 0 &&
           from == 0 && extent == size_of(tile, caller);
}

WRAP(int, MPI_File_set_view,
     (handle fh, mpi_offset from, handle element, handle tile, const char *representation,
      handle info))
{
    const void *caller = CALLER;
    FOREIGN(int, MPI_File_set_view, (handle, mpi_offset, handle, handle, const char *, handle));
    struct stk_pl_call call;
    if (!real)
        return -1;
    struct file *f = find(fh);
    if (!f || !stk_pl_begin(&call))
        return real(fh, from, element, tile, representation, info);
    int rc =
        ended(&call, f->name, STK_TIME_ONLY, real(fh, from, element, tile, representation, info));
    f->contiguous = rc == 0 && without_holes(tile, caller);
    return rc;
}
