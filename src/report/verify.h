/* verify.h - what `stoker verify` found. */
#ifndef STK_REPORT_VERIFY_H
#define STK_REPORT_VERIFY_H

#include "dataset/verify.h"
#include "result/field.h"

extern const struct stk_result_kind stk_verify_kind; /* of a struct stk_verify_result */

#endif
