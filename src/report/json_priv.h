/* json_priv.h - shared by the files that write JSON. */
#ifndef STK_REPORT_JSON_PRIV_H
#define STK_REPORT_JSON_PRIV_H

#include "report/report_priv.h"

static inline void put_array(struct stk_jw *w, const char *key)
{
    stk_jw_key(w, key);
    stk_jw_open(w, '[');
}

/* Opens an object on one line; pass the result to close_row(). */
static inline bool open_row(struct stk_jw *w)
{
    bool pretty = w->pretty;
    stk_jw_open(w, '{');
    w->pretty = false;
    return pretty;
}

static inline void close_row(struct stk_jw *w, bool pretty)
{
    stk_jw_close(w, '}');
    w->pretty = pretty;
}

#endif
