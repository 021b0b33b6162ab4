/* fs.h - kinds of file systems, by the number statfs() gives: the only table of them. And choosing
 * a node-local folder. */
#ifndef STK_HOST_FS_H
#define STK_HOST_FS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stk_fs {
    uint32_t magic;
    const char *name; /* "lustre"; "disk": not in the table */
    bool network, memory;
    bool any_offset; /* direct reads need no alignment: the server does not require it */
    bool stripes;    /* the owner decides how many storage targets a file is on (lfs setstripe) */
    bool fuse;       /* may be anything, and most of it counts inodes anew at each mount */
    bool overlay;    /* what is written goes to its upper folder */
    bool own_cache;  /* beside the page cache: no read is known to come from the device */
};

/* Borrowed: valid forever. Never NULL by number. */
const struct stk_fs *stk_fs_by_magic(uint64_t f_type);
/* By name, as mount and Darshan write it; NULL: not in the table. */
const struct stk_fs *stk_fs_by_name(const char *name);
const struct stk_fs *stk_fs_of_fd(int fd);
const struct stk_fs *stk_fs_of_path(const char *path);
/* True if its disk or memory is local to this node. Unknown for one that is not in the table. */
static inline bool stk_fs_is_local(const struct stk_fs *fs)
{
    return fs->magic && !fs->network;
}

/* "read_bytes" of /proc/self/io: what the kernel fetched from storage for this process; -1: not known. */
int64_t stk_fs_fetched_bytes(void);
/* From two such counts, the bytes that came from the storage of this file system while the process
 * read `read` of it; -1: not known. The count covers block devices; most network file systems, FUSE
 * and ZFS fetch data without it, and may count a part. */
int64_t stk_fs_fetched_between(const struct stk_fs *fs, int64_t before, int64_t after,
                               uint64_t read);

/* The logical block size of the block device with these numbers; 0: unknown. */
uint64_t stk_fs_block_size(unsigned major_no, unsigned minor_no);

/* The first of these folders (NULLs are skipped) that is on this node, is writable and has `least`
 * bytes free; folders on disk before folders in memory. NULL: none. Borrowed from path. */
const char *stk_fs_choose_local(const char *const *path, size_t n, uint64_t least,
                                uint64_t *free_bytes);

/* ---- mounts ---------------------------------------------------------------------------------- */

/* The mounts of this machine, from /proc/self/mountinfo. Never touches a file system. */

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
