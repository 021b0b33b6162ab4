/*
 * array.h - arrays that grow by doubling.
 *
 * Two ways. If elements come one by one, the count alone gives the room (the next power of two):
 *
 *     if (STK_ARRAY_MORE(list->item, list->n, err))
 *         return STK_E_NOMEM;
 *     list->item[list->n++] = item;
 *
 * If they come in bulk, or room is made in advance, the room is kept beside the array:
 * STK_ARRAY_ROOM(p, room, need, err). Do not mix the two for one array. On failure the array is
 * unchanged. The caller frees it with free().
 */
#ifndef STK_BASE_ARRAY_H
#define STK_BASE_ARRAY_H

#include <stddef.h>

#include "base/err.h"

/* Makes room for one element after n. array: address of the pointer. Returns 0 or STK_E_NOMEM. */
int stk_array_more(void *array, size_t n, size_t size, struct stk_err *err);
/* Room for `need` elements in all. */
int stk_array_room(void *array, size_t *room, size_t need, size_t size, struct stk_err *err);

#define STK_ARRAY_MORE(p, n, err)          stk_array_more(&(p), (n), sizeof *(p), (err))
#define STK_ARRAY_ROOM(p, room, need, err) stk_array_room(&(p), &(room), (need), sizeof *(p), (err))

#endif
