/* fs.h - kinds of file systems, by the number statfs() gives: the one table of them. */
#ifndef STK_HOST_FS_H
#define STK_HOST_FS_H

#include <stdbool.h>
#include <stdint.h>

struct stk_fs {
    uint32_t magic;
    const char *name; /* "lustre"; "disk": not in the table */
    bool network, memory;
    bool any_offset; /* direct reads need not be aligned: the server does not mind */
};

/* Borrowed: valid for ever. By number never NULL. */
const struct stk_fs *stk_fs_by_magic(uint64_t f_type);
/* The same name, as mount and Darshan write it; NULL: not in the table. */
const struct stk_fs *stk_fs_by_name(const char *name);
const struct stk_fs *stk_fs_of_fd(int fd);
const struct stk_fs *stk_fs_of_path(const char *path);

#endif
