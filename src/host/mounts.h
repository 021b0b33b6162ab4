/* mounts.h - the mounts of this machine, from /proc/self/mountinfo. Never touches a file system. */
#ifndef STK_HOST_MOUNTS_H
#define STK_HOST_MOUNTS_H

#include <stdbool.h>
#include <stddef.h>

/* A line of mountinfo: "31 24 0:27 ROOT POINT OPTIONS [TAGS…] - TYPE SOURCE OPTIONS". The texts are
 * parts of the line. */
struct stk_mount_line {
    char *root, *point, *flags, *type, *source, *options;
};
/* Cuts the line into its parts. False: it is not such a line. */
bool stk_mount_parse(char *line, struct stk_mount_line *m);

struct stk_mount {
    char point[4096], source[4096];
    char type[32];    /* "ext4", "fuse.sshfs", "lustre" */
    char upper[4096]; /* overlay: the folder that takes what is written; "": not told */
    bool read_only;
};
/* The mount that holds an absolute path without links in it: the last of those with the longest
 * mount point. False: mountinfo cannot be read. */
bool stk_mount_of(const char *path, struct stk_mount *m);

#endif
