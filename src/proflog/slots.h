/*
 * slots.h - logs that share a file. A script starts thousands of programs, and most of them read a
 * few files: to create a file for each would take longer than all else that is recorded. So the
 * launcher creates one file, HOST.L.slots.stklog (L: its process id, plus STK_SLOTS_RANK for each
 * rank before its own: containers have equal ids), and a process takes the next slot of it for
 * block 0 of its log. A process that needs more than the small blocks of block
 * 0 moves its log to a file of its own (preload/slots.c). Nothing is packed or copied when a
 * process ends: however it ends, the slot has what it did.
 *
 * The log in slot i has the name HOST.P.N.stklog, as a file would: P is its process, N is L
 * followed by six digits of i + 1. If there is a file of that name, it counts: the
 * process was killed while it moved.
 */
#ifndef STK_PROFLOG_SLOTS_H
#define STK_PROFLOG_SLOTS_H

#include "proflog/log.h"

#define STK_SLOTS_MAGIC   0x3130544c534b5453ull /* "STKSLT01" */
#define STK_SLOTS_SUFFIX  ".slots" STK_LOG_SUFFIX
#define STK_SLOTS_HEAD    32768u /* bytes; slots follow */
#define STK_SLOTS_MOST    200000u
#define STK_SLOTS_NUMBERS 1000000u /* numbers of one launcher */
#define STK_SLOTS_RANK    4194304u /* no process id is larger */
#define STK_SLOTS_PIDS    8184u
#define STK_SLOTS_FIRST   16u  /* allocated by the launcher; then doubled … */
#define STK_SLOTS_STEP    512u /* … up to this many at once */

struct stk_slots {
    uint64_t magic;
    uint32_t version, closed;      /* STK_LOG_VERSION; closed (atomic): no further slot is taken */
    uint32_t next, allocated;      /* slots taken; those allocated on disk (both atomic) */
    uint32_t last[STK_SLOTS_PIDS]; /* by process id, modulo: the newest slot + 1; 0: none. Leads
                                      an executed program to the log of its predecessor */
};
_Static_assert(sizeof(struct stk_slots) <= STK_SLOTS_HEAD, "the head fits");

static inline uint64_t stk_slot_at(uint32_t i)
{
    return STK_SLOTS_HEAD + (uint64_t)i * STK_LOG_FIRST;
}

#endif
