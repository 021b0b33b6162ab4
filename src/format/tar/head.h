/*
 * head.h - the 512-byte headers of tar, parsed and written. No I/O here, no memory of its own.
 *
 * Understands v7, ustar (with prefix), star, GNU and pax headers; sizes in octal and base 256.
 */
#ifndef STK_FORMAT_TAR_HEAD_H
#define STK_FORMAT_TAR_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

struct stk_lister;
struct stk_src;

#define STK_TAR_BLOCK  512u
#define STK_TAR_RECORD 10240u /* GNU tar and Python pad archives to this: 20 blocks */

enum stk_tar_what {
    STK_TAR_GARBAGE, /* the checksum does not match */
    STK_TAR_ZEROS,   /* end of archive */
    STK_TAR_HEADER,
};

struct stk_tar_head {
    char type;      /* '0' regular also for the NUL and '7' of others, '5' also for "name/" */
    bool has_magic; /* "ustar": not v7 */
    bool size_ok;   /* the size field is a number below 2^63 */
    bool more;      /* GNU sparse ('S'): blocks of the map follow the header */
    uint64_t size;
    size_t name_len, link_len;
    char name[257]; /* prefix/name, not terminated */
    char link[100]; /* what a link leads to, not terminated */
};

enum stk_tar_what stk_tar_parse(const uint8_t block[STK_TAR_BLOCK], struct stk_tar_head *h);

/* The pax records that matter here. Absent records keep earlier values, so that a global header
 * stays in force. */
struct stk_tar_pax {
    bool has_size, sparse;
    bool rest;           /* the next member continues a file from another volume */
    const char *rest_of; /* name of that file, like path */
    size_t rest_of_len;
    bool label; /* names a volume of several */
    uint64_t size;
    /* Borrowed from the text; NULL: none. Not terminated, may contain NUL. */
    const char *path, *link;
    size_t path_len, link_len;
    bool path_is_real; /* path is GNU's real name of a sparse file, not its placeholder */
};
/* False if the text does not consist of pax records. */
bool stk_tar_pax_parse(const char *text, size_t n, struct stk_tar_pax *pax);

/* Appends the header of a regular member: ustar, preceded by a pax header if the name or size does
 * not fit. Owner 0, mode 0644, time 0: the same input gives the same bytes. */
void stk_tar_put_head(struct stk_buf *out, const char *name, size_t name_len, uint64_t size);

/* "NAME Volume 1", as GNU tar labels the volumes of an archive (-V). */
bool stk_tar_is_volume_label(const char *name, size_t len);
/* True if a file next to `path` is the volume that continues this member, or any member if the name
 * is empty. */
bool stk_tar_goes_on(const char *path, const char *member, size_t len);

/* The list() of the format (format/tar/list.c). */
int stk_tar_list(struct stk_lister *l, struct stk_src *src, struct stk_err *err);

/* Bytes of padding after `size` bytes of data. */
static inline size_t stk_tar_padding(uint64_t size)
{
    return (size_t)(-size & (STK_TAR_BLOCK - 1));
}

/* ---- hard links ------------------------------------------------------------------------------ */

#define STK_TAR_NO_DATA  UINT64_MAX /* length of a member whose data cannot be linked to */
#define STK_TAR_LINKABLE (4u << 20) /* members kept per archive: 96 MiB */

struct stk_tar_links {
    struct stk_tar_place {
        uint64_t hash; /* of the name */
        uint64_t at;   /* its header */
        uint64_t len;
    } * item;
    size_t n, cap, sorted; /* the first `sorted` are in order */
};

/* Adds the next member of the archive; its data follows the header. Names are clean
 * (stk_member_clean). Drops members past STK_TAR_LINKABLE. */
int stk_tar_links_add(struct stk_tar_links *k, const char *name, size_t name_len, uint64_t at,
                      uint64_t len, struct stk_err *err);
/* The last member of that name with data, or NULL. Borrowed: valid until the next add. */
const struct stk_tar_place *stk_tar_links_find(struct stk_tar_links *k, const char *name,
                                               size_t name_len);
void stk_tar_links_release(struct stk_tar_links *k);

#endif
