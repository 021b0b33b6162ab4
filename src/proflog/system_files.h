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

/* The end of a part of the path: a whole component, or (version) one that a version follows. 0: not
 * in it. */
static inline size_t stk_path_part(const char *path, const char *part, bool version)
{
    size_t n = strlen(part);
    for (const char *at = strstr(path, part); at; at = strstr(at + 1, part)) {
        size_t digits = version ? strspn(at + n, ".0123456789") : 0;
        const char *end = at + n + digits;
        if ((!*end || *end == '/') && (!version || digits))
            return (size_t)(end - path);
    }
    return 0;
}

/* Folders of an interpreter, wherever it is installed: the end of the folder's path; 0: none. */
static inline size_t stk_interpreters(const char *path)
{
    static const struct {
        const char *part;
        bool version;
    } all[] = {{"/site-packages", false}, {"/dist-packages", false}, {"/lib/python", true},
               {"/lib64/python", true},   {"/.pyenv", false},        {"/conda-meta", false},
               {"/lib/jvm", false},       {"/jre/lib", false},       {"/__pycache__", false}};
    size_t end = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all && !end; i++)
        end = stk_path_part(path, all[i].part, all[i].version);
    return end;
}

/* The length of the system's folder that it is in; 0: none. */
static inline size_t stk_systems(const char *path, size_t length)
{
    static const char *const folder[] = {"/usr",  "/lib", "/lib32", "/lib64", "/libx32", "/bin",
                                         "/sbin", "/etc", "/proc",  "/sys",   "/dev"};
    static const char *const users[] = {"/dev/shm", "/usr/local/share", "/usr/local/src",
                                        "/usr/local/data", "/usr/src"};
    for (size_t i = 0; i < sizeof users / sizeof *users; i++)
        if (stk_path_below(path, length, users[i], strlen(users[i])))
            return 0;
    for (size_t i = 0; i < sizeof folder / sizeof *folder; i++)
        if (stk_path_below(path, length, folder[i], strlen(folder[i])))
            return strlen(folder[i]);
    return 0;
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

/* Languages whose interpreter may be the process: its code is no data to it. */
enum stk_language { STK_LANG_PYTHON = 1, STK_LANG_JAVA = 2, STK_LANG_ANY = 3 };

static inline bool stk_code(const char *path, size_t length, unsigned languages)
{
    static const struct {
        const char *end;
        unsigned language;
    } all[] = {{".py", STK_LANG_PYTHON}, {".pyc", STK_LANG_PYTHON}, {".pyo", STK_LANG_PYTHON},
               {".jar", STK_LANG_JAVA},  {".class", STK_LANG_JAVA}, {"/pyvenv.cfg", STK_LANG_ANY}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].language & languages && stk_path_ends(path, length, all[i].end))
            return true;
    return false;
}

/* The length of the folder that stands for it among the files that are not data; 0: it is data. */
static inline size_t stk_system_file(const char *path, size_t length, unsigned languages)
{
    size_t place = stk_interpreters(path);
    place = place ? place : stk_systems(path, length);
    if (place || !(stk_shared_memory(path, length) || stk_shared_object(stk_path_last(path)) ||
                   stk_code(path, length, languages)))
        return place;
    size_t folder = (size_t)(stk_path_last(path) - path);
    return folder > 1 ? folder - 1 : 1;
}

#endif
