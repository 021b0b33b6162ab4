/*
 * jail.h - listing in a child process, for formats whose library dies of damaged files.
 *
 * The child runs the format's list() and sends its events through a pipe; the parent checks each
 * one and hands it to the real sink. A crash or a hang of the child is an error message.
 */
#ifndef STK_FORMAT_JAIL_H
#define STK_FORMAT_JAIL_H

#include "format/lister.h"

/* As f->list(l, src, err), but nothing the library does can hurt this process. src must be open and
 * not compressed. Safe from several threads at once. */
int stk_jail_list(const struct stk_format *f, struct stk_lister *l, struct stk_src *src,
                  struct stk_err *err);

#define STK_JAIL_SILENCE_S 60.0

/* The same with the time after which a child that sends nothing is killed (for tests). */
int stk_jail_list_within(const struct stk_format *f, struct stk_lister *l, struct stk_src *src,
                         double silence_s, struct stk_err *err);

/* As if a child had sent these bytes (for tests): what they hold goes to the sink of l, or is
 * refused. Whole messages alone count. */
int stk_jail_take(const struct stk_format *f, struct stk_lister *l, const char *path,
                  const uint8_t *sent, size_t len, struct stk_err *err);

/* Which locks of the kernel's a child here is behind: STK_CONFINED_* of base/confine.h. Found out
 * by trying, in a child. */
unsigned stk_jail_locks(void);

/* For list(): "still at work", where it takes long without listing anything. No effect outside a
 * jail; costs nothing when called often. */
void stk_list_alive(struct stk_lister *l);

#endif
