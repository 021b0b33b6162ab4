/* array.c - arrays that grow by doubling, without overflow. */
#include "base/array.h"

#include <stdlib.h>
#include <string.h>

/* Copies pointers as bytes: the caller's pointer has another type than void *. */
static int resize(void *array, size_t room, size_t size, struct stk_err *err)
{
    void *p;
    size_t bytes;
    memcpy(&p, array, sizeof p);
    if (__builtin_mul_overflow(room, size, &bytes))
        return stk_err_nomem(err, UINT64_MAX);
    p = realloc(p, bytes);
    if (!p)
        return stk_err_nomem(err, bytes);
    memcpy(array, &p, sizeof p);
    return 0;
}

int stk_array_more(void *array, size_t n, size_t size, struct stk_err *err)
{
    if (n & (n - 1)) /* between powers of two there is room */
        return 0;
    if (n > SIZE_MAX / 2)
        return stk_err_nomem(err, UINT64_MAX);
    return resize(array, n ? 2 * n : 1, size, err);
}

int stk_array_room(void *array, size_t *room, size_t need, size_t size, struct stk_err *err)
{
    size_t more = *room > SIZE_MAX / 2 ? SIZE_MAX : 2 * *room;
    if (need <= *room)
        return 0;
    more = more > need ? more : need;
    more = more < 8 ? 8 : more;
    int rc = resize(array, more, size, err);
    if (rc == 0)
        *room = more;
    return rc;
}
