/*
 * files.h - the files of a dataset, or of any list: the one door they are opened through.
 *
 * Everybody names a file by its number. struct stk_files knows its name and what was recorded of
 * it, opens it, and checks on the way that it is still the file that was recorded. It also decides
 * where a file is read from: a place (copies on a faster disk, say) can stand in front of the
 * source, and whoever reads by number does not notice.
 *
 * struct stk_handles keeps some of them open: a bounded number, closed by age, pinned while
 * somebody reads from them. Several can share one struct stk_files; nothing in that changes after
 * opening but the place, which must be set before anybody reads.
 */
#ifndef STK_DATA_FILES_H
#define STK_DATA_FILES_H

#include "base/err.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Suits direct reads on every file system. */
#define STK_FILE_ALIGN 4096u

#define STK_SIZE_ANY UINT64_MAX /* not recorded, so not compared */

/* What is on record of a file. */
struct stk_files_entry {
    const char *name; /* relative to the root. Borrowed, not terminated */
    size_t name_len;
    uint64_t size;    /* or STK_SIZE_ANY */
    int64_t mtime_ns; /* 0: not recorded */
};

/* Where files are read from instead of the source. A copy counts as the file when it has the size
 * on record (its time is its own); one that is missing or not whole is passed over for the source.
 */
struct stk_files_place {
    /* Writes the path of the file's copy. False: there is none. From any thread. */
    bool (*find)(const struct stk_files_place *p, uint64_t number, char *path, size_t room);
};

struct stk_files {
    int rootfd;       /* folder the names are relative to; or AT_FDCWD */
    const char *root; /* its path. Borrowed */
    uint64_t count;
    uint64_t bytes; /* in all of them, or the part that is ever read */
    /* What is on record of file number `number` < count. */
    int (*entry)(const void *list, uint64_t number, struct stk_files_entry *e, struct stk_err *err);
    const void *list;
    const struct stk_files_place *place; /* NULL: only the source */
    bool outside;  /* links may lead out of the root; else a file that only such a link leads to is
                    * refused */
    bool any_size; /* a file of another size is read as far as it goes: its records are checked */
};

/* A list of one's own, without dataset or index. */
struct stk_files_item {
    const char *path;
    uint64_t size;    /* or STK_SIZE_ANY */
    int64_t mtime_ns; /* or 0 */
};
/* Borrows the items. */
struct stk_files stk_files_list(const struct stk_files_item *item, uint64_t n);

/* malloc'ed path the file is read from, for messages; NULL: none. */
char *stk_files_path(const struct stk_files *files, uint64_t number);
/* Puts that path into an error that has none. */
void stk_files_blame(const struct stk_files *files, uint64_t number, struct stk_err *err);
/* Whether they are on disks of this node, so that no read waits for another machine. Looks at some
 * of them; opens none. */
bool stk_files_are_local(const struct stk_files *files);
/* Whether the caller and root alone can change them. Looks at each; opens none. */
bool stk_files_are_ours(const struct stk_files *files);
/* Whether the source is still as recorded; does not open it. *owner (may be NULL): whose it is. */
bool stk_files_unchanged(const struct stk_files *files, uint64_t number, uid_t *owner);

/* ---- one open file (files.c) ---- */

enum stk_file_mode {
    STK_FILE_PLAIN,     /* as the kernel does it by default */
    STK_FILE_SCATTERED, /* through the page cache, nothing ahead: requests know what they want */
    STK_FILE_DIRECT,    /* O_DIRECT where it can be had, else as SCATTERED */
};

/* By which a change of a file that is open is noticed. */
struct stk_file_stamp {
    uint64_t size, device, inode;
    int64_t mtime_ns;
};

struct stk_file {
    uint32_t number;
    int fd;               /* direct when align != 0 */
    int plain_fd;         /* the same file through the page cache; -1 until it is needed */
    uint32_t align;       /* offsets of direct reads; 0: read through the page cache */
    _Atomic bool refuses; /* it has refused a direct read */
    uid_t owner;
    uint16_t mode;
    uint64_t size;
    struct stk_file_stamp stamp; /* when it was opened */
    /* Those of struct stk_handles: */
    unsigned refs;
    struct stk_file *chain;         /* in its bucket */
    struct stk_file *older, *newer; /* in order of use */
};

/* Opens and checks: a regular file, of the size and time on record. An error names the file. Caller
 * closes with stk_file_close(). */
int stk_file_open(const struct stk_files *files, uint64_t number, enum stk_file_mode mode,
                  struct stk_file *f, struct stk_err *err);
void stk_file_close(struct stk_file *f);
/* Whether mincore() tells us the truth about it: the owner only. */
bool stk_file_seeable(const struct stk_file *f);
/* Whether the caller and root alone could change it when it was opened. */
bool stk_file_is_ours(const struct stk_file *f);
/* Whether the file of an open descriptor is no longer what it was. Without one (fd < 0) its name is
 * asked, and a name that leads elsewhere by now says nothing: the file itself is as it was. */
bool stk_file_changed(const struct stk_files *files, uint64_t number, int fd,
                      const struct stk_file_stamp *was);
/* Another descriptor of the same open file, through the page cache. Caller closes. */
int stk_file_open_plain(const struct stk_file *f, struct stk_err *err);
/* The same for a file that belongs to no list yet: a descriptor of a regular file, or negative.
 * outside: as in struct stk_files. path: for messages. */
int stk_file_open_at(int rootfd, bool outside, const char *name, const char *path, uint64_t *size,
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

/* Descriptors that one part of the program may keep. */
unsigned stk_handles_limit(void);
int stk_handles_init(struct stk_handles *h, const struct stk_files *files, enum stk_file_mode mode,
                     unsigned limit, struct stk_err *err);
void stk_handles_release(struct stk_handles *h); /* closes all, pinned or not */
/* All from any thread. The file, pinned, if it is open; else NULL. */
struct stk_file *stk_handles_find(struct stk_handles *h, uint32_t number);
/* The same; opens it if need be. */
int stk_handles_get(struct stk_handles *h, uint32_t number, struct stk_file **out,
                    struct stk_err *err);
void stk_handles_put(struct stk_handles *h, struct stk_file *f);
/* A descriptor of a pinned file that reads through the page cache; opens one when needed. */
int stk_handles_plain(struct stk_handles *h, struct stk_file *f, struct stk_err *err);

#endif
