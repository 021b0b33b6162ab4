/* quota.h - what a quota leaves to this user on a local disk. */
#ifndef STK_HOST_QUOTA_H
#define STK_HOST_QUOTA_H

#include <stdbool.h>
#include <stdint.h>

/* device: the source of the mount. *bytes, *files: what user and group leave; UINT64_MAX: no limit.
 * False: not told (no quota there, or the kernel does not tell us). May hang with its disk. */
bool stk_quota_left(const char *device, uint64_t *bytes, uint64_t *files);

#endif
