/* lib.c - see format/hdf5/lib.h. Built without a library name, it uses the linked library. */
#ifdef STK_HAVE_HDF5
#include "format/hdf5/lib.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

struct stk_h5_library stk_h5;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct stk_err trouble;
static bool loaded;

/* ---- where the names are ---- */

#ifdef STK_HDF5_FILE
static void *library;

/* First where the linker looks, then where it was at build time. Its symbols stay local: a program
 * may have another libhdf5. */
static bool find_library(void)
{
    const char *slash = strrchr(STK_HDF5_FILE, '/');
    library = dlopen(slash ? slash + 1 : STK_HDF5_FILE, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        library = dlopen(STK_HDF5_FILE, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        (void)stk_err_set(&trouble, STK_E_UNSUPPORTED, NULL, -1,
                          "HDF5 needs a library that is not installed (%s): install libhdf5, or "
                          "load its module",
                          dlerror());
    return library;
}

static void *find(const char *name)
{
    void *found = dlsym(library, name);
    if (!found)
        (void)stk_err_set(&trouble, STK_E_UNSUPPORTED, NULL, -1,
                          "the libhdf5 here is not the one stoker was built with: it has no %s",
                          name);
    return found;
}
#define FIND(symbol)   find(STRING(symbol))
#define STRING(symbol) TEXT(symbol) /* H5Oget_info may be a macro for H5Oget_info1 */
#define TEXT(symbol)   #symbol
#else
static bool find_library(void)
{
    return true;
}
#define FIND(symbol) (void *)&symbol
#endif

/* ---- filling the table ---- */

static bool find_all(void)
{
    void *found;
#define FIND_FUNCTION(name)                                                                        \
    if (!(found = FIND(H5##name)))                                                                 \
        return false;                                                                              \
    memcpy(&stk_h5.name, &found, sizeof found);
    STK_H5_FUNCTIONS(FIND_FUNCTION)
#define FIND_TYPE(name)                                                                            \
    if (!(stk_h5.T_##name = FIND(H5T_##name##_g)))                                                 \
        return false;
    STK_H5_TYPES(FIND_TYPE)
#define FIND_CLASS(name)                                                                           \
    if (!(stk_h5.P_##name = FIND(H5P_CLS_##name##_ID_g)))                                          \
        return false;
    STK_H5_CLASSES(FIND_CLASS)
    return true;
}

/* A file still open at exit is an aborted shard, which libhdf5 must not try to finish. This must be
 * set before any other call. */
static void load_once(void)
{
    loaded = find_library() && find_all() && stk_h5.dont_atexit() >= 0;
}

int stk_h5_load(struct stk_err *err)
{
    (void)pthread_once(&once, load_once);
    if (loaded)
        return 0;
    if (err)
        *err = trouble;
    return trouble.code;
}

/* ---- starting it ---- */

/* The structs we pass are the same within a major.minor version. */
static int check_version(struct stk_err *err)
{
    unsigned major = 0, minor = 0, release = 0;
    if (stk_h5.get_libversion(&major, &minor, &release) >= 0 && major == H5_VERS_MAJOR &&
        minor == H5_VERS_MINOR)
        return 0;
    return stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1,
                       "stoker was built with libhdf5 %d.%d and finds %u.%u here", H5_VERS_MAJOR,
                       H5_VERS_MINOR, major, minor);
}

int stk_h5_start(struct stk_err *err)
{
    int rc = stk_h5_load(err);
    if (rc == 0 && stk_h5.open() < 0)
        rc = stk_err_set(err, STK_E_UNSUPPORTED, NULL, -1, "libhdf5 cannot be started");
    return rc == 0 ? check_version(err) : rc;
}
#endif
