/* lustre.c - calls `lfs getstripe`, `lfs setstripe` and `lfs quota`, and reads their output. */
#include "host/fs_facts.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/spawn.h"
#include "host/root.h"

#define LFS_S    5.0
#define TEXT_MAX 65536

/* ---- calling lfs -------------------------------------------------------------------------- */

/* Collects its output in `out`, and its messages in `err_text`. Returns its exit status, or -1 if
 * it is missing or was ended. */
static int call(const char *const *argv, struct stk_buf *out, struct stk_buf *err_text)
{
    struct stk_child c = {.argv = argv,
                          .fd = {STK_FD_NULL, STK_FD_PIPE, STK_FD_PIPE},
                          .death_signal = SIGKILL,
                          .timeout_s = LFS_S,
                          .text = {NULL, out, err_text},
                          .text_max = {0, TEXT_MAX, TEXT_MAX}};
    if (stk_find_tool("lfs", &c.path, NULL) != 0 || stk_child_start(&c) != 0)
        return -1;
    int why = stk_child_attend(&c);
    stk_child_hang_up(&c);
    return why || c.timed_out ? -1 : c.ending.status;
}

static bool ask(const char *const *argv, struct stk_buf *out)
{
    struct stk_buf messages = STK_BUF_INIT;
    bool told = call(argv, out, &messages) == 0 && !out->fail;
    stk_buf_release(&messages);
    return told;
}

/* ---- stripes ------------------------------------------------------------------------------ */

/* The number after the first `name` in text, and how often the name is there. */
static unsigned find_number(const char *text, const char *name, int64_t *value)
{
    unsigned times = 0;
    for (const char *p = text; (p = strstr(p, name)); p += strlen(name))
        if (!times++)
            *value = strtoll(p + strlen(name), NULL, 10);
    return times;
}

bool stk_lustre_stripe(const char *path, struct stk_lustre_stripe *s)
{
    const char *argv[] = {"lfs", "getstripe", "-d", path, NULL};
    struct stk_buf text = STK_BUF_INIT;
    int64_t count = 0, size = 0;
    *s = (struct stk_lustre_stripe){0};
    bool told = ask(argv, &text);
    if (told && !strstr(stk_buf_cstr(&text), "stripe_count:")) {
        argv[2] = "-y"; /* a file: -d says nothing about it */
        stk_buf_reset(&text);
        told = ask(argv, &text);
    }
    unsigned times = told ? find_number(stk_buf_cstr(&text), "stripe_count:", &count) : 0;
    if (times && find_number(stk_buf_cstr(&text), "stripe_size:", &size) && count >= -1 && size > 0)
        *s = (struct stk_lustre_stripe){count, (uint64_t)size, times > 1};
    stk_buf_release(&text);
    return s->size_bytes > 0;
}

#define STRIPE_MIN  (UINT64_C(1) << 20)
#define STRIPE_MAX  (UINT64_C(64) << 20)
#define PER_TARGET  (UINT64_C(1) << 30) /* bytes of a file for each storage target it uses */
#define TARGETS_MAX 8

struct stk_lustre_stripe stk_lustre_stripe_fit(uint64_t file_bytes, uint64_t request_bytes)
{
    struct stk_lustre_stripe s = {.size_bytes = STRIPE_MIN};
    while (s.size_bytes < request_bytes && s.size_bytes < STRIPE_MAX)
        s.size_bytes *= 2;
    s.count = (int64_t)(file_bytes / PER_TARGET);
    s.count = s.count < 1 ? 1 : s.count > TARGETS_MAX ? TARGETS_MAX : s.count;
    return s;
}

int stk_lustre_stripe_set(const char *folder, const struct stk_lustre_stripe *s,
                          struct stk_err *err)
{
    char count[24], size[24];
    const char *argv[] = {"lfs", "setstripe", "-c", count, "-S", size, folder, NULL};
    struct stk_buf out = STK_BUF_INIT, messages = STK_BUF_INIT;
    snprintf(count, sizeof count, "%lld", (long long)s->count);
    snprintf(size, sizeof size, "%llu", (unsigned long long)s->size_bytes);
    const char *path;
    if (stk_find_tool("lfs", &path, NULL) != 0)
        return stk_err_set(err, STK_E_UNSUPPORTED, folder, -1,
                           "there is no lfs: the stripe stays as the folder has it");
    int status = call(argv, &out, &messages), rc = 0;
    const char *text = stk_buf_cstr(&messages);
    if (status)
        rc = stk_err_set(err, STK_E_UNSUPPORTED, folder, -1, "lfs setstripe failed%s%.*s",
                         *text ? ": " : "", (int)strcspn(text, "\n"), text);
    stk_buf_release(&out);
    stk_buf_release(&messages);
    return rc;
}

/* ---- quota -------------------------------------------------------------------------------- */

/* The next word, and moves behind it. "": there is none. */
static const char *next_word(const char **at)
{
    const char *word = *at + strspn(*at, " \t\n");
    *at = word + strcspn(word, " \t\n");
    return word;
}

/* "12345", "12345*" (over the limit), "[12345]" (a server did not answer). False: no number. */
static bool take_number(const char **at, uint64_t *value)
{
    const char *word = next_word(at);
    *value = stk_host_number(word + (*word == '['));
    return *value != UINT64_MAX;
}

/* "USED SOFT HARD GRACE": what the limit leaves. UINT64_MAX: no limit. */
static bool take_left(const char **at, uint64_t *left)
{
    uint64_t used, soft, hard;
    if (!take_number(at, &used) || !take_number(at, &soft) || !take_number(at, &hard))
        return false;
    (void)next_word(at);
    uint64_t limit = hard ? hard : soft;
    *left = !limit ? UINT64_MAX : limit > used ? limit - used : 0;
    return true;
}

/* "PATH KBYTES …": a long path is a line of its own. */
bool stk_lustre_quota(const char *path, uint64_t *bytes, uint64_t *files)
{
    char uid[24];
    const char *argv[] = {"lfs", "quota", "-q", "-u", uid, path, NULL};
    struct stk_buf text = STK_BUF_INIT;
    uint64_t kib = UINT64_MAX, count = UINT64_MAX;
    size_t n = strlen(path);
    snprintf(uid, sizeof uid, "%u", (unsigned)geteuid());
    const char *at = ask(argv, &text) ? stk_buf_cstr(&text) : "";
    at += strspn(at, " \t\n");
    bool told = strncmp(at, path, n) == 0;
    at += told ? n : 0;
    told = told && take_left(&at, &kib) && take_left(&at, &count);
    *bytes = told && kib < UINT64_MAX / 1024 ? kib * 1024 : UINT64_MAX;
    *files = told ? count : UINT64_MAX;
    stk_buf_release(&text);
    return told;
}
