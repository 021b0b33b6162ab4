/*
 * array.h - arrays that grow by doubling.
 *
 * Two ways. Where elements come one by one, the count alone tells the room (it is a power of two):
 *
 *     if (STK_ARRAY_MORE(list->item, list->n, err))
 *         return STK_E_NOMEM;
 *     list->item[list->n++] = item;
 *
 * Where they come in bulk, or room is made before there is anything to count, the room is kept
 * beside the array: STK_ARRAY_ROOM(p, room, need, err). An array grown one way must stay with it.
 * On failure the array is as it was. The caller frees it with free().
 */
#ifndef STK_BASE_ARRAY_H
#define STK_BASE_ARRAY_H

#include <stddef.h>

#include "base/err.h"

/* array: the address of the pointer. Room for element n, n elements being there. 0 or STK_E_NOMEM. */
int stk_array_more(void *array, size_t n, size_t size, struct stk_err *err);
/* Room for `need` elements in all. */
int stk_array_room(void *array, size_t *room, size_t need, size_t size, struct stk_err *err);

#define STK_ARRAY_MORE(p, n, err)          stk_array_more(&(p), (n), sizeof *(p), (err))
#define STK_ARRAY_ROOM(p, room, need, err) stk_array_room(&(p), &(room), (need), sizeof *(p), (err))

#endif
