/*
 * tarlinks.h - where a tar's members stand, by their names: what a hard link to an earlier member
 * reads.
 */
#ifndef STK_FORMAT_TARLINKS_H
#define STK_FORMAT_TARLINKS_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STK_TAR_NO_DATA  UINT64_MAX /* length of a member whose data cannot be linked to */
#define STK_TAR_LINKABLE (4u << 20) /* members of an archive that are kept: 96 MiB */

struct stk_tar_links {
    struct stk_tar_place {
        uint64_t hash; /* of the name */
        uint64_t at;   /* its header */
        uint64_t len;
    } * item;
    size_t n, cap, sorted; /* the first `sorted` are in order */
};

/* The next member of the archive; its data follows the header. Names are clean (stk_member_clean).
 * Those past STK_TAR_LINKABLE are not kept. */
int stk_tar_links_add(struct stk_tar_links *k, const char *name, size_t name_len, uint64_t at,
                      uint64_t len, struct stk_err *err);
/* The last member of that name; NULL: there is none with data. Borrowed: until the next add. */
const struct stk_tar_place *stk_tar_links_find(struct stk_tar_links *k, const char *name,
                                               size_t name_len);
void stk_tar_links_release(struct stk_tar_links *k);

#endif
