/* fs.c - kinds of file systems, by the number statfs() gives, and by name. */
#include "host/fs.h"

#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>
#include <stdlib.h>

#include "host/root.h"

/* linux/magic.h and the file systems' own sources. FUSE and 9p may be anything; their round trip is
 * slow, as on a network. If a number has several names, the first is used. */
static const struct stk_fs known[] = {
    {0xEF53, "ext4", false, false},          {0xEF53, "ext3", false, false},
    {0xEF53, "ext2", false, false},          {0x58465342, "xfs", false, false},
    {0x9123683E, "btrfs", false, false},     {0x2FC12FC1, "zfs", .own_cache = true},
    {0xF2F52010, "f2fs", false, false},      {0x794C7630, "overlay", .overlay = true},
    {0x794C7630, "overlayfs", .overlay = true}, {0xCA451A4E, "bcachefs", false, false},
    {0x73717368, "squashfs", false, false},  {0xE0F5E1E2, "erofs", false, false},
    {0x9660, "iso9660", false, false},       {0x4D44, "vfat", false, false},
    {0x2011BAB0, "exfat", false, false},     {0x5346544E, "ntfs", false, false},
    {0x3153464A, "jfs", false, false},       {0x52654973, "reiserfs", false, false},
    {0x01021994, "tmpfs", false, true},      {0x01021994, "devtmpfs", false, true},
    {0x858458F6, "ramfs", false, true},      {0x958458F6, "hugetlbfs", false, true},
    {0x6969, "nfs", true, false, true},      {0x0BD00BD0, "lustre", true, .stripes = true},
    {0x47504653, "gpfs", true, false},       {0x19830326, "beegfs", true, false},
    {0x00C36400, "ceph", true, false},       {0xFF534D42, "cifs", true, false},
    {0xFE534D42, "smb", true, false},        {0x01021997, "9p", true, false},
    {0x65735546, "fuse", true, false, true, .fuse = true},
    {0x5346414F, "afs", true, false},
    {0x20030528, "orangefs", true, false},   {0x013111A8, "panfs", true, false},
    {0xAAD7AAEA, "panfs", true, false},      {0x7461636F, "ocfs2", true, false},
    {0x01161970, "gfs2", true, false},
};

static const struct stk_fs other = {0, "disk", false, false};

const struct stk_fs *stk_fs_by_magic(uint64_t f_type)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].magic == (uint32_t)f_type)
            return &known[i];
    return &other;
}

const struct stk_fs *stk_fs_by_name(const char *name)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].name, name) == 0)
            return &known[i];
    return strcmp(name, other.name) == 0 ? &other : NULL;
}

const struct stk_fs *stk_fs_of_fd(int fd)
{
    struct statfs sf;
    return fstatfs(fd, &sf) < 0 ? &other : stk_fs_by_magic((uint64_t)sf.f_type);
}

const struct stk_fs *stk_fs_of_path(const char *path)
{
    struct statfs sf;
    return statfs(path, &sf) < 0 ? &other : stk_fs_by_magic((uint64_t)sf.f_type);
}

int64_t stk_fs_fetched_bytes(void)
{
    char text[512];
    stk_host_read("/proc/self/io", text, sizeof text);
    uint64_t bytes = stk_host_number_of(text, "read_bytes:");
    return bytes <= INT64_MAX ? (int64_t)bytes : -1;
}

int64_t stk_fs_fetched_between(const struct stk_fs *fs, int64_t before, int64_t after,
                               uint64_t read)
{
    bool counts = stk_fs_is_local(fs) && !fs->own_cache;
    if (before < 0 || after < before || (!counts && (uint64_t)(after - before) < read))
        return -1;
    return after - before;
}

static bool room_in(const char *path, uint64_t *bytes)
{
    struct statvfs v;
    if (!path || path[0] != '/' || access(path, W_OK | X_OK) != 0 || statvfs(path, &v) != 0)
        return false;
    *bytes = (uint64_t)v.f_bavail * v.f_frsize;
    return true;
}

const char *stk_fs_choose_local(const char *const *path, size_t n, uint64_t least,
                                uint64_t *free_bytes)
{
    for (int memory = 0; memory < 2; memory++)
        for (size_t i = 0; i < n; i++) {
            uint64_t bytes;
            if (!room_in(path[i], &bytes) || bytes < least)
                continue;
            const struct stk_fs *fs = stk_fs_of_path(path[i]);
            if (fs->network || fs->memory != (memory == 1))
                continue;
            *free_bytes = bytes;
            return path[i];
        }
    return NULL;
}

uint64_t stk_fs_block_size(unsigned major_no, unsigned minor_no)
{
    char path[96], text[24];
    snprintf(path, sizeof path, "/sys/dev/block/%u:%u/queue/logical_block_size", major_no,
             minor_no);
    if (!stk_host_read(path, text, sizeof text)) { /* a partition: its disk has it */
        snprintf(path, sizeof path, "/sys/dev/block/%u:%u/../queue/logical_block_size", major_no,
                 minor_no);
        stk_host_read(path, text, sizeof text);
    }
    uint64_t size = stk_host_number(text);
    return size == UINT64_MAX ? 0 : size;
}

/* ---- mounts ---------------------------------------------------------------------------------- */

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
