/*
 * jail.h - listing in a child process, for formats whose library crashes on damaged files.
 *
 * A helper (base/helper.h) runs the format's list() and sends its events; the parent checks each
 * one and hands it to the real sink. A crash or a hang of the child is an error message.
 */
#ifndef STK_FORMAT_JAIL_H
#define STK_FORMAT_JAIL_H

#include "format/lister.h"

/* Like f->list(l, src, err), but the library cannot harm this process. src must be open and not
 * compressed. Several threads may call it at once. */
int stk_jail_list(const struct stk_format *f, struct stk_lister *l, struct stk_src *src,
                  struct stk_err *err);

#define STK_JAIL_SILENCE_S 60.0

/* The same with a time limit for a silent child (for tests). */
int stk_jail_list_within(const struct stk_format *f, struct stk_lister *l, struct stk_src *src,
                         double silence_s, struct stk_err *err);

/* As if a child had sent these bytes (for tests): passes their events to the sink of l, or refuses
 * them. Ignores incomplete messages. */
int stk_jail_take(const struct stk_format *f, struct stk_lister *l, const char *path,
                  const uint8_t *sent, size_t len, struct stk_err *err);

/* The kernel mechanisms that confine a child on this machine: STK_CONFINED_* of base/helper.h.
 * Determined by trying, in a child. */
unsigned stk_jail_locks(void);

/* For list(): reports that it is still working while it lists nothing for long. No effect outside a
 * jail; cheap to call often. */
void stk_list_alive(struct stk_lister *l);

#endif
