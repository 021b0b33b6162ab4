/*
 * alive.h - which process of which machine a file speaks of, and whether that process still runs.
 *
 * A process id is reused, also after a restart of the machine, and means nothing on another node or
 * in a container: start time, boot id, host and namespace tell them apart.
 */
#ifndef STK_HOST_ALIVE_H
#define STK_HOST_ALIVE_H

#include "base/json_fields.h"

struct stk_alive {
    char host[65], boot[40]; /* "": unknown */
    int64_t pid;             /* 0: unknown */
    uint64_t start;          /* in kernel clock ticks since the boot; 0: unknown */
    uint64_t space;          /* its namespace of process ids; 0: unknown */
};

enum stk_life {
    STK_LIFE_RUNS,
    STK_LIFE_GONE,
    STK_LIFE_UNKNOWN, /* it is of another machine or namespace, or was described too vaguely */
};

/* This process. */
void stk_alive_self(struct stk_alive *a);
extern const struct stk_jfield stk_alive_fields[];
/* Takes them from an object that anyone may have written: all 0 if anything is wrong. */
void stk_alive_get(const struct stk_jval *o, struct stk_alive *a);
enum stk_life stk_alive_check(const struct stk_alive *a);

#endif
