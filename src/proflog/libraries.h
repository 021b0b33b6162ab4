/*
 * libraries.h - Python packages that a program has loaded, as far as advice depends on them. A
 * package is recognised when its own __init__ is opened: such files are never recorded as data.
 */
#ifndef STK_PROFLOG_LIBRARIES_H
#define STK_PROFLOG_LIBRARIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Bits of stk_log_header.libraries. Bit 0 says that packages were looked for. */
#define STK_LIBRARIES_SEEN 1u
#define STK_LIBRARY_NAMES                                                                          \
    "torch", "tensorflow", "jax", "numpy", "pandas", "h5py", "netCDF4", "zarr", "pyarrow", "lmdb", \
        "PIL", "stoker"

/* The bit of a package; 0: not one of these. */
static inline uint64_t stk_library_bit(const char *name, size_t length)
{
    static const char *const names[] = {STK_LIBRARY_NAMES};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i]) == length && memcmp(names[i], name, length) == 0)
            return 2ull << i;
    return 0;
}

/* The package that ".../torch/__init__.py" or ".../torch/__pycache__/__init__.cpython-311.pyc"
 * belongs to. */
static inline uint64_t stk_library_of(const char *path)
{
    static const char cache[] = "/__pycache__";
    const char *end = strrchr(path, '/'), *from;
    if (!end || strncmp(end, "/__init__.", 10) != 0)
        return 0;
    if ((size_t)(end - path) >= sizeof cache - 1 &&
        memcmp(end - (sizeof cache - 1), cache, sizeof cache - 1) == 0)
        end -= sizeof cache - 1;
    for (from = end; from > path && from[-1] != '/'; from--)
        ;
    return stk_library_bit(from, (size_t)(end - from));
}

#endif
