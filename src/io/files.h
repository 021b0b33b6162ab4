/*
 * files.h - the files of a dataset, or of any list, and the only way to open them.
 *
 * All code names a file by its number. struct stk_files has its name and recorded size and time,
 * opens it, and checks that it still matches the record. An overlay (such as copies on a faster
 * disk) can stand in for ranges of the source: its copies are additional file numbers.
 *
 * struct stk_handles keeps some of them open: a bounded number, closed by age, pinned while in use.
 * Several can share one struct stk_files; only its overlay changes after opening, and must be set
 * before the first read.
 */
#ifndef STK_IO_FILES_H
#define STK_IO_FILES_H

#include "base/err.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct statx;

/* Suits direct reads on every file system. */
#define STK_FILE_ALIGN 4096u

#define STK_SIZE_ANY UINT64_MAX /* not recorded, so not compared */

/* The record of a file. */
struct stk_files_entry {
    const char *name; /* relative to the root. Borrowed, not terminated */
    size_t name_len;
    uint64_t size;    /* or STK_SIZE_ANY */
    int64_t mtime_ns; /* 0: not recorded */
    uint32_t inode;   /* stk_inode_fold(); 0: not recorded */
    bool packed;      /* as in struct stk_files */
};

/* Copies in front of the source, in one or more levels: copy `level` (from 1) of file n has the
 * number n + level * count. A range is read from one place, and from the source if no copy has all
 * of it, or the copy fails. All from any thread. */
struct stk_files_overlay {
    unsigned levels; /* at most STK_FILES_LEVELS */
    bool whole;      /* a level has all files, so that the source is not needed */
    /* The level that has the range, or 0. Cheap. */
    unsigned (*route)(const struct stk_files_overlay *o, uint64_t number, uint64_t off,
                      uint64_t len);
    /* Opens a copy with these additional flags. Negative: it is gone. */
    int (*open)(const struct stk_files_overlay *o, uint64_t number, unsigned level, int flags);
    /* True if an opened copy is as it was left. *growing: it is not complete, so its times
     * change. */
    bool (*fits)(const struct stk_files_overlay *o, uint64_t number, unsigned level,
                 const struct statx *sx, bool *growing);
    /* Its path, malloc'ed. */
    char *(*path)(const struct stk_files_overlay *o, uint64_t number, unsigned level);
    /* The copy could not be opened or read: it is not used any more. */
    void (*refuse)(const struct stk_files_overlay *o, uint64_t number, unsigned level);
    /* NULL, or: reads a range that no copy has, and keeps it for the next time. Negative: it did
     * not, so the source is read as usual. */
    int (*fetch)(const struct stk_files_overlay *o, uint64_t number, uint64_t off, size_t len,
                 void *p);
    _Atomic bool full; /* fetch() keeps nothing more: not called from now on */
};
#define STK_FILES_LEVELS 3u

struct stk_files {
    int rootfd;       /* folder the names are relative to; or AT_FDCWD */
    const char *root; /* its path. Borrowed */
    uint64_t count;
    uint64_t bytes; /* in all of them, or the part that is ever read */
    /* The record of file number `number` < count. */
    int (*entry)(const void *list, uint64_t number, struct stk_files_entry *e, struct stk_err *err);
    const void *list;
    const struct stk_files_overlay *overlay; /* NULL: only the source */
    bool outside;  /* links may lead out of the root; else such a link is refused */
    bool packed;   /* a manifest has the sizes: a file of another size is damaged, not changed */
    bool in_place; /* these are the files that were recorded, not copies: they have their inodes */
    bool any_size; /* read a file of another size as far as it goes: its records are checked */
};

/* An arbitrary list, without dataset or index. */
struct stk_files_item {
    const char *path;
    uint64_t size;    /* or STK_SIZE_ANY */
    int64_t mtime_ns; /* or 0 */
};
/* Borrows the items. */
struct stk_files stk_files_list(const struct stk_files_item *item, uint64_t n);

/* Where to read a range from: the number itself, or that of a copy. */
uint64_t stk_files_route(const struct stk_files *files, uint64_t number, uint64_t off,
                         uint64_t len);
/* The same for all of the file. */
uint64_t stk_files_route_whole(const struct stk_files *files, uint64_t number);
/* The level of a number; 0: the source. */
static inline unsigned stk_files_level(const struct stk_files *files, uint64_t number)
{
    return files->count ? (unsigned)(number / files->count) : 0;
}

/* The path of a file or copy, malloc'ed, for messages; NULL: none. */
char *stk_files_path(const struct stk_files *files, uint64_t number);
/* Puts that path into an error that has none. */
void stk_files_blame(const struct stk_files *files, uint64_t number, struct stk_err *err);
/* True if they are on disks of this node, so that no read waits for another machine. Checks some of
 * them; opens none. */
bool stk_files_are_local(const struct stk_files *files);
/* True if only the caller and root can change them. Checks each; opens none. */
bool stk_files_are_ours(const struct stk_files *files);
/* Compares the source with the record; does not open it. An error names the file. *owner: its
 * owner; may be NULL. */
int stk_files_compare(const struct stk_files *files, uint64_t number, uid_t *owner,
                      struct stk_err *err);

/* 32 bits of an inode number, never 0. */
static inline uint32_t stk_inode_fold(uint64_t inode)
{
    uint32_t fold = (uint32_t)(inode ^ inode >> 32);
    return fold ? fold : 1;
}
/* True if the status of a file (ctime) changed after ns (0: never), or if it is in_place and has
 * another inode. Checks the first STK_FILES_LOOK of them; opens none. */
bool stk_files_changed_since(const struct stk_files *files, int64_t ns);
#define STK_FILES_LOOK 1024u
/* The latest change (ctime) of any of the files of the source; looks at all of them, opens none. */
int stk_files_latest(const struct stk_files *files, uint64_t *ns, struct stk_err *err);

/* ---- one open file (files.c) ---- */

enum stk_file_mode {
    STK_FILE_PLAIN,     /* the kernel's default */
    STK_FILE_SCATTERED, /* through the page cache, without read-ahead */
    STK_FILE_DIRECT,    /* O_DIRECT if supported, else like SCATTERED */
};

/* Detects a change of an open file. */
struct stk_file_stamp {
    uint64_t size, device, inode;
    int64_t mtime_ns;
    int64_t ctime_ns; /* of a copy; 0: not compared */
};

struct stk_file {
    uint32_t number;
    int fd;               /* direct when align != 0 */
    int plain_fd;         /* the same file through the page cache; -1 until needed */
    uint32_t align;       /* offsets of direct reads; 0: read through the page cache */
    _Atomic bool refuses; /* it has refused a direct read */
    bool growing;         /* a copy that is not complete: a change of its time means nothing */
    uid_t owner;
    uint16_t mode;
    uint64_t size;
    struct stk_file_stamp stamp; /* at opening */
    /* For struct stk_handles: */
    unsigned refs;
    struct stk_file *chain;         /* in its bucket */
    struct stk_file *older, *newer; /* in order of use */
};

/* Opens and checks: a regular file of the recorded size and time. An error names the file. Caller
 * closes with stk_file_close(). */
int stk_file_open(const struct stk_files *files, uint64_t number, enum stk_file_mode mode,
                  struct stk_file *f, struct stk_err *err);
void stk_file_close(struct stk_file *f);
/* True if mincore() is reliable for it: only for the owner. */
bool stk_file_seeable(const struct stk_file *f);
/* True if only the caller and root could change it when it was opened. */
bool stk_file_is_ours(const struct stk_file *f);
/* True if the file of an open descriptor has changed. Without one (fd < 0) checks its name; a name
 * that leads to another file by now does not count as a change. */
bool stk_file_changed(const struct stk_files *files, uint64_t number, int fd,
                      const struct stk_file_stamp *was);
/* Another descriptor of the same open file, through the page cache. Caller closes. */
int stk_file_open_plain(const struct stk_file *f, struct stk_err *err);
/* The same for a file that is not in a list yet: a descriptor of a regular file, or negative.
 * outside: as in struct stk_files. path: for messages. */
int stk_file_open_at(int rootfd, bool outside, const char *name, const char *path, uint64_t *size,
                     struct stk_err *err);

/* Reads a whole file of the recorded `size` into p and closes it: four system calls. A file that
 * does not match its record, before or after it was read, is STK_E_STALE. */
int stk_file_read_whole(const struct stk_files *files, uint64_t number, void *p, size_t size,
                        struct stk_err *err);

/* ---- several (handles.c) ---- */

struct stk_handles {
    const struct stk_files *files;
    enum stk_file_mode mode;
    unsigned limit; /* kept open; more only while they are pinned */
    pthread_mutex_t lock;
    struct stk_file **bucket;
    uint32_t mask;
    unsigned count;
    struct stk_file *oldest, *newest;
    _Atomic uint64_t opens;
};

/* Number of descriptors that one part of the program may keep. */
unsigned stk_handles_limit(void);
int stk_handles_init(struct stk_handles *h, const struct stk_files *files, enum stk_file_mode mode,
                     unsigned limit, struct stk_err *err);
void stk_handles_release(struct stk_handles *h); /* closes all, pinned or not */
/* All from any thread. The file, pinned, if it is open; else NULL. */
struct stk_file *stk_handles_find(struct stk_handles *h, uint32_t number);
/* The same; opens it if needed. */
int stk_handles_get(struct stk_handles *h, uint32_t number, struct stk_file **out,
                    struct stk_err *err);
void stk_handles_put(struct stk_handles *h, struct stk_file *f);
/* A descriptor of a pinned file that reads through the page cache; opens one when needed. */
int stk_handles_plain(struct stk_handles *h, struct stk_file *f, struct stk_err *err);

#endif
