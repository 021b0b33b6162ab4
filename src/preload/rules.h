/* rules.h - what the launcher may hand to rules.c: more is refused before the program runs. */
#ifndef STK_PRELOAD_RULES_H
#define STK_PRELOAD_RULES_H

#define STK_RULES_MAX   64u   /* patterns of a list */
#define STK_RULES_BYTES 4096u /* of a list, with a ':' between patterns and the NUL */

#endif
