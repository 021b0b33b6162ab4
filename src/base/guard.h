/*
 * guard.h - a mapped file that shrinks, or whose disk fails, must not kill the program: a fault in
 * a guarded mapping maps a page of zeros there and is recorded. A reader of the mapping asks for
 * damage afterwards. Until then it sees zeros, so these must do no harm.
 */
#ifndef STK_BASE_GUARD_H
#define STK_BASE_GUARD_H

#include <stddef.h>
#include <stdint.h>

/* Reserves n slots. Returns the first; -1: the table is full. */
int stk_guard_reserve(unsigned n);
void stk_guard_release(int first, unsigned n); /* after munmap */
void stk_guard_add(int slot, const void *p, size_t size);
/* The lowest byte of the mapping that could not be read; UINT64_MAX: no damage. */
uint64_t stk_guard_damage(int slot);

#endif
