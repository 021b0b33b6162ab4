/*
 * hdf5.c - HDF5's files and datasets, recorded under the file's path in addition to the library's
 * own calls below. Bytes are the selected elements times the size of the dataset's type in the
 * file.
 *
 * Building needs nothing of HDF5: identifiers have 64 bits since 1.10; 32-bit ones of older
 * versions are passed through, but not recorded. The library is only queried after a successful
 * call: queries clear HDF5's error stack, which the program may want to read.
 */
#include <limits.h>

#include "preload/wrap.h"

typedef int64_t hid;

/* Known files and datasets, by id and library (a program may hold two). */
#define OBJECTS 512
struct object {
    hid id;
    const void *library; /* one of its functions; NULL: free */
    uint32_t name;
    bool file;
    uint64_t type_bytes; /* of a dataset; 0: not queried */
};
static STK_TABLE struct object objects[OBJECTS];
static int objects_busy;

/* If the lock is taken, nothing is looked up or cached: the answer is the same, and nobody ever
 * waits, not even in a forked child. */
static bool enter(void)
{
    return !__atomic_exchange_n(&objects_busy, 1, __ATOMIC_ACQUIRE);
}

static void leave(void)
{
    __atomic_store_n(&objects_busy, 0, __ATOMIC_RELEASE);
}

static struct object *slot_of(hid id)
{
    return &objects[stk_mix64((uint64_t)id) % OBJECTS];
}

static bool recall(hid id, const void *library, struct object *to)
{
    if (!enter())
        return false;
    const struct object *o = slot_of(id);
    bool known = library && o->library == library && o->id == id;
    if (known)
        *to = *o;
    leave();
    return known;
}

static void remember(const struct object *o)
{
    if (!enter())
        return;
    *slot_of(o->id) = *o;
    leave();
}

static void forget(hid id)
{
    if (!enter())
        return;
    if (slot_of(id)->id == id)
        slot_of(id)->library = NULL;
    leave();
}

/* Calls function NAME of the library of `caller`, or returns `otherwise`. */
#define ASK(type, name, args, values, otherwise)                                                   \
    ({                                                                                             \
        type(*ask) args = (type(*) args)stk_foreign(#name, caller);                                \
        ask ? ask values : (type)(otherwise);                                                      \
    })

/* Identifies the library of `caller`. */
static const void *library_of(const void *caller)
{
    return stk_foreign("H5get_libversion", caller);
}

/* Whether its ids have 64 bits. */
static bool understood(const void *caller)
{
    unsigned major = 0, minor = 0, release = 0;
    int rc = ASK(int, H5get_libversion, (unsigned *, unsigned *, unsigned *),
                 (&major, &minor, &release), -1);
    return rc >= 0 && (major > 1 || (major == 1 && minor >= 10));
}

/* The object with this id, queried from the library if necessary. */
static bool find(hid id, const void *caller, struct object *o)
{
    char path[PATH_MAX];
    const void *library = library_of(caller);
    if (recall(id, library, o))
        return true;
    if (!understood(caller) ||
        ASK(ssize_t, H5Fget_name, (hid, char *, size_t), (id, path, sizeof(path)), -1) <= 0)
        return false;
    path[sizeof(path) - 1] = '\0';
    *o = (struct object){.id = id, .library = library, .name = stk_pl_name(path)};
    remember(o);
    return true;
}

/* Of a dataset; as in H5Dpublic.h. */
#define HDF5_CONTIGUOUS 1
#define HDF5_CHUNKED    2

static uint8_t ask_layout(hid dataset, const void *caller)
{
    hid creation = ASK(hid, H5Dget_create_plist, (hid), (dataset), -1);
    if (creation < 0)
        return 0;
    int layout = ASK(int, H5Pget_layout, (hid), (creation), -1);
    ASK(int, H5Pclose, (hid), (creation), -1);
    return layout == HDF5_CHUNKED      ? STK_LAYOUT_CHUNKS
           : layout == HDF5_CONTIGUOUS ? STK_LAYOUT_WHOLE
                                       : 0;
}

static void ask_type(struct object *o, const void *caller)
{
    hid type = ASK(hid, H5Dget_type, (hid), (o->id), -1);
    if (type < 0)
        return;
    o->type_bytes = ASK(size_t, H5Tget_size, (hid), (type), 0);
    ASK(int, H5Tclose, (hid), (type), -1);
    remember(o);
}

/* Identifiers that stand for a dataspace: all of the dataset, and (since 1.13) a block in memory,
 * or the one in the transfer's properties. */
#define SPACE_ALL  0
#define SPACE_LAST 2

static int64_t selected(hid dataset, hid memory_space, hid file_space, const void *caller)
{
    int64_t points = 0;
    hid space = file_space > SPACE_LAST ? file_space : memory_space;
    if (file_space != SPACE_ALL)
        return space > SPACE_LAST ? ASK(int64_t, H5Sget_select_npoints, (hid), (space), 0) : 0;
    space = ASK(hid, H5Dget_space, (hid), (dataset), -1);
    if (space < 0)
        return 0;
    points = ASK(int64_t, H5Sget_select_npoints, (hid), (space), 0);
    ASK(int, H5Sclose, (hid), (space), -1);
    return points;
}

/* Our queries are not the program's time: moves the call's start by their duration. */
static void asked(struct stk_pl_call *call, const struct stk_pl_call *since)
{
    struct stk_pl_call now;
    if (!stk_pl_begin(&now))
        return;
    call->start_ns += now.start_ns - since->start_ns;
}

static void moved(struct stk_pl_call *call, bool write, hid dataset, hid memory_space,
                  hid file_space, const void *caller)
{
    struct stk_pl_call since;
    struct object o;
    int64_t bytes;
    if (!stk_pl_begin(&since))
        return;
    if (!find(dataset, caller, &o) || !o.name)
        return;
    bool new = !o.type_bytes;
    if (new)
        ask_type(&o, caller);
    uint8_t layouts = new ? ask_layout(dataset, caller) : 0;
    if (__builtin_mul_overflow(selected(dataset, memory_space, file_space, caller), o.type_bytes,
                               &bytes))
        bytes = 0;
    asked(call, &since);
    stk_pl_named_data(call, o.name, write, -1, bytes, STK_API_HDF5);
    stk_pl_named_layout(o.name, layouts, STK_API_HDF5);
}

/* Nothing may be queried after a failure: only a known object gets it counted. */
static void failed(struct stk_pl_call *call, bool write, hid id, const void *caller)
{
    struct object o;
    if (recall(id, library_of(caller), &o) && o.name)
        stk_pl_named_data(call, o.name, write, -1, -1, STK_API_HDF5);
}

#define TRANSFER(function, pointer, writes)                                                        \
    WRAP(int, function,                                                                            \
         (hid dataset, hid memory_type, hid memory_space, hid file_space, hid properties,          \
          pointer p))                                                                              \
    {                                                                                              \
        const void *caller = CALLER;                                                               \
        FOREIGN(int, function, (hid, hid, hid, hid, hid, pointer));                                \
        struct stk_pl_call call;                                                                   \
        if (!real)                                                                                 \
            return -1;                                                                             \
        if (!stk_pl_begin(&call))                                                                  \
            return real(dataset, memory_type, memory_space, file_space, properties, p);            \
        int rc = real(dataset, memory_type, memory_space, file_space, properties, p);              \
        if (rc >= 0)                                                                               \
            moved(&call, writes, dataset, memory_space, file_space, caller);                       \
        else                                                                                       \
            failed(&call, writes, dataset, caller);                                                \
        return rc;                                                                                 \
    }
TRANSFER(H5Dread, void *, false)
TRANSFER(H5Dwrite, const void *, true)

/* Several datasets in one call (since 1.14): one record each, with the time in the first. */
#define TRANSFER_MANY(function, pointer, writes)                                                   \
    WRAP(int, function,                                                                            \
         (size_t count, hid dataset[], hid memory_type[], hid memory_space[], hid file_space[],    \
          hid properties, pointer p[]))                                                            \
    {                                                                                              \
        const void *caller = CALLER;                                                               \
        FOREIGN(int, function, (size_t, hid *, hid *, hid *, hid *, hid, pointer *));              \
        struct stk_pl_call call;                                                                   \
        if (!real)                                                                                 \
            return -1;                                                                             \
        bool record = stk_pl_begin(&call);                                                         \
        int rc = real(count, dataset, memory_type, memory_space, file_space, properties, p);       \
        for (size_t i = 0; record && rc >= 0 && i < count; i++) {                                  \
            moved(&call, writes, dataset[i], memory_space[i], file_space[i], caller);              \
            record = stk_pl_begin(&call);                                                          \
        }                                                                                          \
        return rc;                                                                                 \
    }
TRANSFER_MANY(H5Dread_multi, void *, false)
TRANSFER_MANY(H5Dwrite_multi, const void *, true)

/* ---- files ---- */

static hid opened_file(struct stk_pl_call *call, const char *path, hid file, const void *caller)
{
    uint32_t name = stk_pl_name(path);
    const void *library = library_of(caller);
    if (file >= 0 && library)
        remember(&(struct object){.id = file, .library = library, .name = name, .file = true});
    if (name)
        stk_pl_named_meta(call, name, STK_C_OPENS, file >= 0, STK_API_HDF5);
    return file;
}

/* The sign of a 32-bit id says whether the call failed; it is passed on unchanged. */
WRAP(hid, H5Fopen, (const char *path, unsigned flags, hid access))
{
    FOREIGN(hid, H5Fopen, (const char *, unsigned, hid));
    struct stk_pl_call call;
    if (!real)
        return -1;
    if (!stk_pl_begin(&call))
        return real(path, flags, access);
    return opened_file(&call, path, real(path, flags, access), CALLER);
}

WRAP(hid, H5Fcreate, (const char *path, unsigned flags, hid creation, hid access))
{
    FOREIGN(hid, H5Fcreate, (const char *, unsigned, hid, hid));
    struct stk_pl_call call;
    if (!real)
        return -1;
    if (!stk_pl_begin(&call))
        return real(path, flags, creation, access);
    return opened_file(&call, path, real(path, flags, creation, access), CALLER);
}

/* For known objects: nothing is queried about an object that goes away. */
static int ended(int (*real)(hid), hid id, enum stk_counter what, const void *caller)
{
    struct stk_pl_call call;
    struct object o;
    if (!real)
        return -1;
    bool known = recall(id, library_of(caller), &o) && o.name;
    if (!known || !stk_pl_begin(&call))
        return real(id);
    forget(id);
    int rc = real(id);
    stk_pl_named_meta(&call, o.name, what, rc >= 0, STK_API_HDF5);
    return rc;
}

WRAP(int, H5Fclose, (hid file))
{
    FOREIGN(int, H5Fclose, (hid));
    return ended(real, file, STK_C_CLOSES, CALLER);
}

/* How h5py closes files: it releases its ids one by one, also of other objects. */
WRAP(int, H5Idec_ref, (hid id))
{
    FOREIGN(int, H5Idec_ref, (hid));
    struct stk_pl_call call;
    struct object o;
    if (!real)
        return -1;
    bool file = recall(id, library_of(CALLER), &o) && o.file && o.name;
    if (!file || !stk_pl_begin(&call))
        return real(id);
    int left = real(id);
    if (left == 0) {
        forget(id);
        stk_pl_named_meta(&call, o.name, STK_C_CLOSES, true, STK_API_HDF5);
    }
    return left;
}

/* Writes chunks that are still in memory. */
WRAP(int, H5Dclose, (hid dataset))
{
    FOREIGN(int, H5Dclose, (hid));
    return ended(real, dataset, STK_TIME_ONLY, CALLER);
}

/* ---- datasets: the time to open one counts for its file ---- */

static hid opened_dataset(struct stk_pl_call *call, hid dataset, const void *caller)
{
    struct stk_pl_call since;
    struct object o;
    bool known = false;
    if (dataset >= 0 && stk_pl_begin(&since)) {
        known = find(dataset, caller, &o);
        asked(call, &since);
    }
    if (known && o.name)
        stk_pl_named_meta(call, o.name, STK_TIME_ONLY, true, STK_API_HDF5);
    return dataset;
}

#define OPEN_DATASET(function, args, values)                                                       \
    WRAP(hid, function, args)                                                                      \
    {                                                                                              \
        FOREIGN(hid, function, args);                                                              \
        struct stk_pl_call call;                                                                   \
        if (!real)                                                                                 \
            return -1;                                                                             \
        if (!stk_pl_begin(&call))                                                                  \
            return real values;                                                                    \
        return opened_dataset(&call, real values, CALLER);                                         \
    }
OPEN_DATASET(H5Dopen1, (hid place, const char *name), (place, name))
OPEN_DATASET(H5Dopen2, (hid place, const char *name, hid access), (place, name, access))
OPEN_DATASET(H5Dcreate1, (hid place, const char *name, hid type, hid space, hid creation),
             (place, name, type, space, creation))
OPEN_DATASET(H5Dcreate2,
             (hid place, const char *name, hid type, hid space, hid links, hid creation,
              hid access),
             (place, name, type, space, links, creation, access))
