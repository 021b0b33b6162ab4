/*
 * err.h - filling and passing on struct stk_err.
 *
 * The lowest layer that knows the cause sets it with stk_err_set() or stk_err_sys(); a layer above
 * may add context once with stk_err_wrap(). All accept err == NULL and return the code, so that
 * `return stk_err_set(err, STK_E_CORRUPT, path, off, "...")` reads well.
 */
#ifndef STK_BASE_ERR_H
#define STK_BASE_ERR_H

#include "stoker.h"

#define STK_PRINTF(f, a) __attribute__((format(printf, f, a)))

/* path may be NULL and offset -1 if they do not apply. */
int stk_err_set(struct stk_err *err, int code, const char *path, int64_t offset, const char *fmt,
                ...) STK_PRINTF(5, 6);
/* STK_E_SYS from errno: "<what>: <strerror>". Reads errno before anything else. */
int stk_err_sys(struct stk_err *err, const char *path, const char *fmt, ...) STK_PRINTF(3, 4);
/* Names the file of an error that names none. Returns code. */
int stk_err_at(struct stk_err *err, int code, const char *path);
int stk_err_nomem(struct stk_err *err, uint64_t bytes);
/* Puts "<context>: " before what. Returns err->code (or code when err is NULL). */
int stk_err_wrap(struct stk_err *err, int code, const char *fmt, ...) STK_PRINTF(3, 4);

/* "ENOSPC": what data calls it; messages have strerror(). NULL: 0, or not an error of files or
 * processes. */
const char *stk_errno_name(int error);

#endif
