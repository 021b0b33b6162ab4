/*
 * system_files.h - files of the system, of interpreters and of libraries, by their paths: not the
 * user's data. The preload library leaves them out; the analysis recognises them in logs of other
 * profilers.
 */
#ifndef STK_PROFLOG_SYSTEM_FILES_H
#define STK_PROFLOG_SYSTEM_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static inline bool stk_path_below(const char *path, size_t length, const char *folder, size_t n)
{
    return length >= n && memcmp(path, folder, n) == 0 &&
           (length == n || path[n] == '/' || (n == 1 && folder[0] == '/'));
}

static inline const char *stk_path_last(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static inline bool stk_path_ends(const char *path, size_t length, const char *end)
{
    size_t n = strlen(end);
    return length >= n && memcmp(path + length - n, end, n) == 0;
}

/* "libc.so.6", "x.so": digits and dots may follow. */
static inline bool stk_shared_object(const char *name)
{
    const char *so = strstr(name, ".so");
    return so && so > name && strspn(so + 3, ".0123456789") == strlen(so + 3);
}

/* Parts of paths that belong to an interpreter, wherever it is installed. */
static inline bool stk_interpreters(const char *path)
{
    static const char *const part[] = {
        "/__pycache__", "/site-packages", "/dist-packages", "/lib/python", "/lib64/python",
        "/.pyenv/",     "/conda-meta/",   "/.local/lib/",   "/lib/jvm/",   "/jre/lib/"};
    for (size_t i = 0; i < sizeof part / sizeof *part; i++)
        if (strstr(path, part[i]))
            return true;
    return false;
}

static inline bool stk_systems(const char *path, size_t length)
{
    static const char *const folder[] = {"/usr",  "/lib", "/lib32", "/lib64", "/libx32", "/bin",
                                         "/sbin", "/etc", "/proc",  "/sys",   "/dev"};
    for (size_t i = 0; i < sizeof folder / sizeof *folder; i++)
        if (stk_path_below(path, length, folder[i], strlen(folder[i])))
            return !stk_path_below(path, length, "/dev/shm", 8);
    return false;
}

/* Shared memory that its user does not see as a file: PyTorch's tensors, semaphores, MPI's and
 * Python's. */
static inline bool stk_shared_memory(const char *path, size_t length)
{
    static const char *const start[] = {"/memfd:",          "/dev/shm/torch_", "/dev/shm/sem.",
                                        "/dev/shm/psm_",    "/dev/shm/pym-",   "/dev/shm/vader_",
                                        "/dev/shm/nccl-",   "/SYSV",           "/dev/shm/sm_",
                                        "/dev/shm/cuda.shm"};
    for (size_t i = 0; i < sizeof start / sizeof *start; i++)
        if (length >= strlen(start[i]) && memcmp(path, start[i], strlen(start[i])) == 0)
            return true;
    return false;
}

static inline bool stk_system_file(const char *path, size_t length)
{
    static const char *const end[] = {".py",  ".pyc",   ".pyo",       ".pyi",
                                      ".jar", ".class", "/pyvenv.cfg"};
    if (stk_systems(path, length) || stk_shared_memory(path, length) || stk_interpreters(path) ||
        stk_shared_object(stk_path_last(path)))
        return true;
    for (size_t i = 0; i < sizeof end / sizeof *end; i++)
        if (stk_path_ends(path, length, end[i]))
            return true;
    return false;
}

#endif
