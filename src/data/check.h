/*
 * check.h - checks framed records on threads of its own, while they are listed.
 */
#ifndef STK_DATA_CHECK_H
#define STK_DATA_CHECK_H

#include "data/build.h"

struct stk_checker;

/* problem() is called for each record that is wrong, from any thread. jobs: threads besides those that
 * list. Caller frees with stk_checker_free(). */
int stk_checker_new(unsigned jobs, void (*problem)(void *user, const struct stk_err *what),
                    void *user, struct stk_checker **out, struct stk_err *err);
/* Waits until all that was shown is checked; returns what went wrong with the checking itself. */
int stk_checker_wait(struct stk_checker *c, struct stk_err *err);
void stk_checker_free(struct stk_checker *c);
struct stk_watcher *stk_checker_watcher(struct stk_checker *c);
/* True when every record of the file was shown. */
bool stk_checker_saw_all(const struct stk_checker *c, uint64_t file);

#endif
