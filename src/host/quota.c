/* quota.c - asks the kernel for the quota of this user and group on a block device. */
#include "host/quota.h"

#include <sys/quota.h>
#include <unistd.h>

/* QCMD() shifts into the sign bit. */
#define COMMAND(type) (int)((unsigned)Q_GETQUOTA << SUBCMDSHIFT | ((unsigned)(type)&SUBCMDMASK))
#define BLOCK         1024u /* limits are in KiB, what is used in bytes */

static uint64_t left(uint64_t soft, uint64_t hard, uint64_t used)
{
    uint64_t limit = hard ? hard : soft;
    return !limit ? UINT64_MAX : limit > used ? limit - used : 0;
}

static bool take(const char *device, int type, int id, uint64_t *bytes, uint64_t *files)
{
    struct dqblk q;
    if (quotactl(COMMAND(type), device, id, (void *)&q) != 0)
        return false;
    uint64_t b = left(q.dqb_bsoftlimit * BLOCK, q.dqb_bhardlimit * BLOCK, q.dqb_curspace);
    uint64_t f = left(q.dqb_isoftlimit, q.dqb_ihardlimit, q.dqb_curinodes);
    *bytes = b < *bytes ? b : *bytes;
    *files = f < *files ? f : *files;
    return true;
}

bool stk_quota_left(const char *device, uint64_t *bytes, uint64_t *files)
{
    *bytes = *files = UINT64_MAX;
    if (device[0] != '/')
        return false;
    bool user = take(device, USRQUOTA, (int)geteuid(), bytes, files);
    bool group = take(device, GRPQUOTA, (int)getegid(), bytes, files);
    return user || group;
}
