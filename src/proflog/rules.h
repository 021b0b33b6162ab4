/* rules.h - limits for what the launcher passes to rules.c: more is refused before the program
 * runs. */
#ifndef STK_PROFLOG_RULES_H
#define STK_PROFLOG_RULES_H

#define STK_RULES_MAX   64u   /* patterns per list */
#define STK_RULES_BYTES 4096u /* per list, with a ':' between patterns and the NUL */

#endif
