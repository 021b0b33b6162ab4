/*
 * rules.c - which files are recorded one by one: those the user includes, not those he excludes,
 * and of the rest not what belongs to the system, the interpreter or a library. What is left out
 * is still counted, in sum.
 */
#include "preload/priv.h"

#define PATTERNS 64

struct pattern {
    const char *text;
    uint32_t length;
    bool glob, path; /* has wildcards; has a slash */
};
struct rules {
    struct pattern of[PATTERNS];
    uint32_t n;
    char text[4096];
};
static struct rules included, excluded;
static struct pattern log_folder;

static void take(struct rules *r, const char *list)
{
    size_t n = list ? strlen(list) : 0;
    r->n = 0;
    if (n >= sizeof r->text)
        n = 0; /* cut somewhere, it would say something else */
    if (n)
        memcpy(r->text, list, n);
    r->text[n] = 0;
    for (char *at = r->text; *at && r->n < PATTERNS;) {
        size_t length = strcspn(at, ":");
        bool last = !at[length];
        at[length] = 0;
        struct pattern p = {at, (uint32_t)length, strpbrk(at, "*?[") != NULL,
                            strchr(at, '/') != NULL};
        while (!p.glob && p.length > 1 && at[p.length - 1] == '/')
            at[--p.length] = 0;
        if (p.length)
            r->of[r->n++] = p;
        at += last ? length : length + 1;
    }
}

void stk_pl_rules_start(const char *include, const char *exclude, const char *log_dir)
{
    take(&included, include);
    take(&excluded, exclude);
    log_folder = (struct pattern){log_dir, (uint32_t)strlen(log_dir), false, true};
}

/* One of the characters in [..] is c; *end is behind it. An unfinished one is a plain '['. */
static bool in_class(const char *p, char c, const char **end)
{
    bool negated = p[1] == '!' || p[1] == '^', found = false;
    const char *q = p + 1 + negated;
    for (bool first = true; *q && (first || *q != ']'); q++, first = false) {
        if (q[1] == '-' && q[2] && q[2] != ']') {
            found = found || ((unsigned char)q[0] <= (unsigned char)c &&
                              (unsigned char)c <= (unsigned char)q[2]);
            q += 2;
        } else {
            found = found || *q == c;
        }
    }
    if (*q != ']') {
        *end = p + 1;
        return c == '[';
    }
    *end = q + 1;
    return found != negated;
}

/* '*' takes anything, slashes too. Goes back to the last '*' only: no blow-up. */
static bool glob(const char *p, const char *s)
{
    const char *star = NULL, *from = NULL;
    while (*s) {
        const char *next = p + 1;
        if (*p == '*') {
            star = p++;
            from = s;
        } else if (*p && (*p == '[' ? in_class(p, *s, &next) : *p == '?' || *p == *s)) {
            p = next;
            s++;
        } else if (star) {
            p = star + 1;
            s = ++from;
        } else {
            return false;
        }
    }
    while (*p == '*')
        p++;
    return !*p;
}

static bool below(const char *path, size_t length, const char *folder, size_t n)
{
    return length >= n && memcmp(path, folder, n) == 0 &&
           (length == n || path[n] == '/' || (n == 1 && folder[0] == '/'));
}

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool matches(const struct rules *r, const char *path, size_t length)
{
    for (uint32_t i = 0; i < r->n; i++) {
        const struct pattern *p = &r->of[i];
        if (p->glob ? glob(p->text, p->path ? path : last_part(path))
                    : below(path, length, p->text, p->length))
            return true;
    }
    return false;
}

static bool ends_with(const char *path, size_t length, const char *end)
{
    size_t n = strlen(end);
    return length >= n && memcmp(path + length - n, end, n) == 0;
}

/* "libc.so.6", "x.so": digits and dots may follow. */
static bool shared_object(const char *name)
{
    const char *so = strstr(name, ".so");
    return so && so > name && strspn(so + 3, ".0123456789") == strlen(so + 3);
}

/* Parts of paths that are an interpreter's own, wherever it is installed. */
static bool interpreters(const char *path)
{
    static const char *const part[] = {"/__pycache__", "/site-packages", "/dist-packages",
                                       "/lib/python",  "/lib64/python",  "/.pyenv/",
                                       "/conda-meta/", "/.local/lib/",   "/lib/jvm/"};
    for (size_t i = 0; i < sizeof part / sizeof *part; i++)
        if (strstr(path, part[i]))
            return true;
    return false;
}

static bool systems(const char *path, size_t length)
{
    static const char *const folder[] = {"/usr",  "/lib", "/lib32", "/lib64", "/libx32", "/bin",
                                         "/sbin", "/etc", "/proc",  "/sys",   "/dev"};
    for (size_t i = 0; i < sizeof folder / sizeof *folder; i++)
        if (below(path, length, folder[i], strlen(folder[i])))
            return !below(path, length, "/dev/shm", 8);
    return false;
}

/* Shared memory that is no file to its user: PyTorch's tensors, semaphores, MPI's and Python's. */
static bool shared_memory(const char *path, size_t length)
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

bool stk_pl_left_out(const char *path, size_t length)
{
    static const char *const end[] = {".py",  ".pyc",   ".pyo",       ".pyi",
                                      ".jar", ".class", "/pyvenv.cfg"};
    if (below(path, length, log_folder.text, log_folder.length))
        return true;
    if (matches(&included, path, length))
        return false;
    if (matches(&excluded, path, length) || systems(path, length) || shared_memory(path, length) ||
        interpreters(path) || shared_object(last_part(path)))
        return true;
    for (size_t i = 0; i < sizeof end / sizeof *end; i++)
        if (ends_with(path, length, end[i]))
            return true;
    return false;
}
