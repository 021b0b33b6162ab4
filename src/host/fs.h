/* fs.h - kinds of file systems, by the number statfs() gives: the one table of them. And folders on
 * this node's own. */
#ifndef STK_HOST_FS_H
#define STK_HOST_FS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stk_fs {
    uint32_t magic;
    const char *name; /* "lustre"; "disk": not in the table */
    bool network, memory;
    bool any_offset; /* direct reads need not be aligned: the server does not mind */
    bool stripes;    /* a file lies on as many storage targets as its owner says (lfs setstripe) */
};

/* Borrowed: valid for ever. By number never NULL. */
const struct stk_fs *stk_fs_by_magic(uint64_t f_type);
/* The same name, as mount and Darshan write it; NULL: not in the table. */
const struct stk_fs *stk_fs_by_name(const char *name);
const struct stk_fs *stk_fs_of_fd(int fd);
const struct stk_fs *stk_fs_of_path(const char *path);
/* Its disk or memory is this node's. Of one that is not in the table nobody can tell. */
static inline bool stk_fs_is_local(const struct stk_fs *fs)
{
    return fs->magic && !fs->network;
}

/* Of the block device with these numbers: its logical block size; 0: not known. */
uint64_t stk_fs_block_size(unsigned major_no, unsigned minor_no);

/* The first of these folders (NULLs are passed over) that is on this node, can be written to and
 * has `least` bytes free; those on disks before those in memory. NULL: none. Borrowed from path. */
const char *stk_fs_choose_local(const char *const *path, size_t n, uint64_t least,
                                uint64_t *free_bytes);

#endif
