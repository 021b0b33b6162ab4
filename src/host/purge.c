/* purge.c - finds the age after which files of a folder are removed. */
#include "host/purge.h"
#include "base/dir.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/root.h"

/* Length of folder if path is in it; 0: it is not. */
static size_t holds(const char *folder, size_t n, const char *path)
{
    while (n > 1 && folder[n - 1] == '/')
        n--;
    if (n == 1 && folder[0] == '/')
        return 1;
    return n && strncmp(folder, path, n) == 0 && (path[n] == '/' || !path[n]) ? n : 0;
}

/* ---- $STOKER_PURGE_DAYS ------------------------------------------------------------------- */

/* False: it says nothing about this path. */
static bool told_by_user(const char *path, struct stk_purge *p)
{
    const char *list = getenv("STOKER_PURGE_DAYS");
    size_t best = 0;
    bool found = false;
    for (const char *at = list && *list ? list : NULL; at; at = strchr(at, ':')) {
        at += *at == ':';
        const char *end = at + strcspn(at, ":"), *sign = memchr(at, '=', (size_t)(end - at));
        size_t n = sign ? holds(at, (size_t)(sign - at), path) : 0;
        char *after;
        double days = strtod(sign ? sign + 1 : at, &after);
        if (after != end || !(days >= 0) || (sign && !n) || n < best)
            continue;
        best = n;
        found = true;
        p->days = days;
        snprintf(p->from, sizeof p->from, "STOKER_PURGE_DAYS");
    }
    return found;
}

/* ---- systemd-tmpfiles --------------------------------------------------------------------- */

/* "10d", "1w12h", "bmA:2w", "~3d": in days. 0: none ("-"). */
static double age_days(const char *text)
{
    static const struct {
        const char *unit;
        double s;
    } units[] = {{"ms", 1e-3}, {"us", 1e-6}, {"min", 60},  {"month", 2629800}, {"m", 60},
                 {"s", 1},     {"h", 3600},  {"d", 86400}, {"w", 604800},      {"y", 31557600}};
    const char *colon = strchr(text, ':');
    double seconds = 0;
    text = colon ? colon + 1 : text;
    text += *text == '~';
    while (*text >= '0' && *text <= '9') {
        double n = strtod(text, (char **)&text), unit = 1;
        for (size_t i = 0; i < sizeof units / sizeof *units; i++)
            if (strncmp(text, units[i].unit, strlen(units[i].unit)) == 0) {
                unit = units[i].s;
                break;
            }
        text += strspn(text, "abcdefghijklmnopqrstuvwxyz");
        seconds += n * unit;
    }
    return seconds / 86400;
}

struct search {
    const char *path;
    size_t best; /* length of the folder of the rule found so far */
    struct stk_purge *purge;
};

/* "q /tmp 1777 root root 10d": types that clean a folder; the sixth word is the age. */
static void read_rule(char *line, const char *file, struct search *s)
{
    char *at = NULL, *word[6];
    size_t n = 0;
    for (char *w = strtok_r(line, " \t\n", &at); w && n < 6; w = strtok_r(NULL, " \t\n", &at))
        word[n++] = w;
    if (n < 6 || !strchr("dDevqQxX", word[0][0]))
        return;
    size_t len = holds(word[1], strlen(word[1]), s->path);
    if (!len || len < s->best)
        return;
    s->best = len;
    s->purge->days = strchr("xX", word[0][0]) ? 0 : age_days(word[5]);
    snprintf(s->purge->from, sizeof s->purge->from, "%s", file);
}

static void read_file(const char *folder, const char *name, struct search *s)
{
    char path[512], *line = NULL;
    size_t room = 0;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = stk_host_fopen(path);
    while (f && getline(&line, &room, f) > 0)
        read_rule(line, path, s);
    free(line);
    if (f)
        fclose(f);
}

static const char *const folders[] = {"/etc/tmpfiles.d", "/run/tmpfiles.d", "/usr/lib/tmpfiles.d"};

/* A file of the same name in an earlier folder replaces it. */
static bool is_replaced(size_t folder, const char *name)
{
    char path[512];
    for (size_t i = 0; i < folder; i++) {
        snprintf(path, sizeof path, "%s/%s", folders[i], name);
        if (stk_host_exists(path))
            return true;
    }
    return false;
}

static void read_folder(size_t i, struct search *s)
{
    struct stk_dir d;
    int rc = stk_dir_take(&d, stk_host_open(folders[i], O_RDONLY | O_DIRECTORY), folders[i], NULL);
    for (const struct dirent *e; (e = stk_dir_next(&d));) {
        size_t n = strlen(e->d_name);
        if (n > 5 && n < 200 && strcmp(e->d_name + n - 5, ".conf") == 0 &&
            !is_replaced(i, e->d_name))
            read_file(folders[i], e->d_name, s);
    }
    (void)stk_dir_end(&d, rc, NULL); /* advice: what was read counts */
}

bool stk_purge_rule(const char *path, struct stk_purge *p)
{
    struct search s = {path, 0, p};
    *p = (struct stk_purge){0};
    if (told_by_user(path, p))
        return p->days > 0;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        read_folder(i, &s);
    return p->days > 0;
}
