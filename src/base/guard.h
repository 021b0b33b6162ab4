/*
 * guard.h - a mapped file that shrinks, or whose disk fails, must not kill the program: a fault in
 * a mapping that stands here puts a page of zeros there and is remembered. Whoever looked at the
 * bytes asks afterwards. Until then zeros are what he sees, so they must do no harm.
 */
#ifndef STK_BASE_GUARD_H
#define STK_BASE_GUARD_H

#include <stddef.h>
#include <stdint.h>

/* Room for n mappings. Returns the first's number, -1: the table is full. */
int stk_guard_reserve(unsigned n);
void stk_guard_release(int first, unsigned n); /* after munmap */
void stk_guard_add(int slot, const void *p, size_t size);
/* The mapping's lowest byte that was not there when it was looked at; UINT64_MAX: all were. */
uint64_t stk_guard_damage(int slot);

#endif
