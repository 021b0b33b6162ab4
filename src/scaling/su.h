/* su.h - service units: their weights from text, and the price of an allocation. */
#ifndef STK_SCALING_SU_H
#define STK_SCALING_SU_H

#include "scaling/scaling.h"

/* "core=1,gpu=2,node=0"; what is not named is 0. False: not such a text, or all are 0. */
bool stk_su_parse(const char *text, struct stk_su_rates *r);
#define STK_SU_HOW "write core=1,gpu=2,node=0, numbers from 0 to 1000000"
/* SUs per hour of an allocation; a negative count is unknown. NaN: a weight counts what is
 * unknown. */
double stk_su_per_hour(const struct stk_su_rates *r, double cores, double gpus, double nodes);

#endif
