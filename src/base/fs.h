/* fs.h - kinds of file systems, by the number statfs() gives: the one table of them. */
#ifndef STK_BASE_FS_H
#define STK_BASE_FS_H

#include <stdbool.h>
#include <stdint.h>

struct stk_fs {
    uint32_t magic;
    const char *name; /* "lustre"; "disk": not in the table */
    bool network, memory;
    bool any_offset; /* direct reads need not be aligned: the server does not mind */
};

/* Never NULL. Borrowed: valid for ever. */
const struct stk_fs *stk_fs_by_magic(uint64_t f_type);
const struct stk_fs *stk_fs_of_fd(int fd);
const struct stk_fs *stk_fs_of_path(const char *path);

#endif
