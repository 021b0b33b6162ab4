/*
 * links.h - finds a tar's members by name, for hard links to earlier members.
 */
#ifndef STK_FORMAT_TAR_LINKS_H
#define STK_FORMAT_TAR_LINKS_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
