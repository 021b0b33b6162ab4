/* mounts.c - parses mountinfo, and finds the mount of a path by its name. */
#include "host/mounts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/root.h"

static char *next_word(char **at)
{
    char *word = *at;
    size_t n = strcspn(word, " ");
    *at = word + n + (word[n] == ' ');
    word[n] = '\0';
    return word;
}

/* "\040" is a blank. */
static char *unescape(char *text)
{
    char *to = text;
    for (const char *from = text; *from; to++) {
        bool octal = from[0] == '\\' && strspn(from + 1, "01234567") >= 3;
        *to = *from;
        if (octal)
            *to = (char)((from[1] - '0') * 64 + (from[2] - '0') * 8 + (from[3] - '0'));
        from += octal ? 4 : 1;
    }
    *to = '\0';
    return text;
}

bool stk_mount_parse(char *line, struct stk_mount_line *m)
{
    line[strcspn(line, "\n")] = '\0';
    char *dash = strstr(line, " - ");
    if (!dash)
        return false;
    *dash = '\0';
    dash += 3;
    for (int i = 0; i < 3; i++)
        (void)next_word(&line);
    m->root = unescape(next_word(&line));
    m->point = unescape(next_word(&line));
    m->flags = next_word(&line);
    m->type = next_word(&dash);
    m->source = unescape(next_word(&dash));
    m->options = next_word(&dash);
    return m->root[0] == '/' && m->point[0] == '/';
}

/* Length of the mount point if path is on or below it; 0: it is not. */
static size_t covers(const char *point, const char *path)
{
    size_t n = strlen(point);
    if (strcmp(point, "/") == 0)
        return path[0] == '/';
    return strncmp(point, path, n) == 0 && (path[n] == '/' || !path[n]) ? n : 0;
}

/* "lowerdir=/a:/b,upperdir=/c,workdir=/d": the value of a name. */
static void take_option(const char *options, const char *name, char *out, size_t size)
{
    const char *at = strstr(options, name);
    bool there = at && (at == options || at[-1] == ',');
    at = there ? at + strlen(name) : "";
    snprintf(out, size, "%.*s", (int)strcspn(at, ","), at);
}

static void take(const struct stk_mount_line *l, struct stk_mount *m)
{
    take_option(l->options, "upperdir=", m->upper, sizeof m->upper);
    snprintf(m->point, sizeof m->point, "%s", l->point);
    snprintf(m->source, sizeof m->source, "%s", l->source);
    snprintf(m->type, sizeof m->type, "%s", l->type);
    m->read_only = strncmp(l->flags, "ro", 2) == 0 && (l->flags[2] == ',' || !l->flags[2]);
}

bool stk_mount_of(const char *path, struct stk_mount *m)
{
    FILE *f = stk_host_fopen("/proc/self/mountinfo");
    char *line = NULL;
    size_t room = 0, longest = 0;
    *m = (struct stk_mount){0};
    while (f && getline(&line, &room, f) > 0) {
        struct stk_mount_line l;
        size_t n = stk_mount_parse(line, &l) ? covers(l.point, path) : 0;
        if (n && n >= longest) {
            longest = n;
            take(&l, m);
        }
    }
    free(line);
    if (f)
        fclose(f);
    return longest > 0;
}
