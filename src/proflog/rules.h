/* rules.h - what the launcher passes to the preload library: limits for the lists of rules.c (more
 * is refused before the program runs), and an option that both set for other libraries. */
#ifndef STK_PROFLOG_RULES_H
#define STK_PROFLOG_RULES_H

#define STK_RULES_MAX   64u   /* patterns per list */
#define STK_RULES_BYTES 4096u /* per list, with a ':' between patterns and the NUL */

/* For ASAN_OPTIONS: the runtime of gcc's ASan accepts a library that is loaded before it. */
#define STK_ASAN_ORDER "verify_asan_link_order=0"

#endif
