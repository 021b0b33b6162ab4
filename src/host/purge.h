/*
 * purge.h - rules that remove old files from a folder: $STOKER_PURGE_DAYS, and systemd-tmpfiles. A
 * site's own scripts are not visible: no rule found is not a promise.
 */
#ifndef STK_HOST_PURGE_H
#define STK_HOST_PURGE_H

#include <stdbool.h>
#include <stddef.h>

struct stk_purge {
    double days;    /* files that are older are removed; 0: no rule found */
    char from[512]; /* "STOKER_PURGE_DAYS", "/usr/lib/tmpfiles.d/tmp.conf" */
};
/* path: absolute. STOKER_PURGE_DAYS is a number, for all folders, or a list "/scratch=30:/tmp=10";
 * 0 says that the folder is not purged. True if a rule was found. */
bool stk_purge_rule(const char *path, struct stk_purge *p);

#endif
