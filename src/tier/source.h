/*
 * source.h - everything that a copy of a dataset or of a plain folder must have: the files with
 * their sizes, times and known checksums, the folders, and the index beside the data.
 *
 * Unlike walk.h it leaves nothing out that is a file: side files, manifest and hidden files are
 * copied, too. Links follow the rule of datasets: a link that stays beneath the folder is copied as
 * the file or folder it leads to; a link that leads outside or to nothing is left out, with a note.
 */
#ifndef STK_TIER_SOURCE_H
#define STK_TIER_SOURCE_H

#include <sys/types.h>

#include "base/buf.h"
#include "dataset/notes.h"
#include "io/files.h"
#include "tier/tier.h"

struct stk_source_dir {
    const char *name; /* relative to the root; "" is the root itself */
    int64_t mtime_ns;
    mode_t mode;
};

struct stk_source {
    char *path;                 /* absolute, without links, as it is now */
    char *name;                 /* its last component: the name of the copy */
    bool is_dir;                /* else it is one file */
    uint64_t identity;          /* of the dataset; of a plain folder: of the names and sizes */
    struct stk_dataset *ds;     /* NULL: a plain folder */
    int rootfd;                 /* the folder that the names are relative to */
    char *root;                 /* its path */
    bool outside;               /* links may lead out of the root */
    struct stk_tier_file *file; /* sorted by name; that of a single file is "" */
    uint64_t count, bytes;
    int64_t changed_ns; /* the latest ctime of a file */
    struct stk_source_dir *dir; /* sorted by name, so parents come first; the root is the first */
    uint64_t ndirs;
    const char *index; /* path of its index if that is outside of the folder; or NULL. Borrowed */
    struct stk_notes notes; /* what was left out, and why */
    struct stk_files files; /* the same files for the engines, with recorded sizes and times */
    struct stk_arena arena; /* the names */
};
#define STK_SOURCE_INIT ((struct stk_source){.rootfd = -1})

struct stk_source_options {
    bool follow_links; /* also links that lead out of the folder */
    const char *trust; /* users whose manifests and indexes are trusted, as in stk_open_options */
    unsigned threads;  /* 0: by the file system */
    bool no_index;     /* write no index beside the source */
    /* Called at intervals; non-zero: stop. May be NULL. */
    int (*progress)(void *user, uint64_t files);
    void *user;
};

/* Lists the source. A file that cannot be read, or that differs from the manifest, is an error: the
 * copy would not be the dataset. Caller releases with stk_source_release(), also after an error. */
int stk_source_open(struct stk_source *s, const char *path, const struct stk_source_options *o,
                    struct stk_err *err);
/* The same of a dataset that is open, with its identity: a loader and `stage` mean one set. */
int stk_source_of(struct stk_source *s, struct stk_dataset *ds, struct stk_err *err);
void stk_source_release(struct stk_source *s);
/* Fills in what follows from the list. */
void stk_source_settle(struct stk_source *s);
/* The same for the tier. Borrows all of it. */
struct stk_tier_source stk_source_for_tier(const struct stk_source *s);
/* The number of the file with that name; count: there is none. */
uint64_t stk_source_find(const struct stk_source *s, const char *name);

/* Makes the folders of a copy; times: also gives them their times and modes. */
int stk_source_folders(const struct stk_source *s, struct stk_tier_set *set, bool times,
                       struct stk_err *err);
/* When all files are there: index and folders, and publishes the copy. *path: caller frees. */
int stk_source_publish(const struct stk_source *s, struct stk_tier_set *set, char **path,
                       struct stk_err *err);

#endif
