/* sized.c - structs between a program and a library that were built with different headers. */
#include "base/sized.h"

#include <string.h>

int stk_sized_in(void *own, size_t own_size, const void *theirs, size_t their_size,
                 const char *what, struct stk_err *err)
{
    const uint8_t *p = theirs;
    memset(own, 0, own_size);
    if (!p)
        return 0;
    memcpy(own, p, their_size < own_size ? their_size : own_size);
    for (size_t i = own_size; i < their_size; i++)
        if (p[i])
            return stk_err_set(
                err, STK_E_USAGE, NULL, -1,
                "the %s set a member that libstoker %s does not have: the program was "
                "built for a later version",
                what, STK_VERSION);
    return 0;
}

void stk_sized_out(void *theirs, size_t their_size, const void *own, size_t own_size)
{
    if (!theirs)
        return;
    memset(theirs, 0, their_size);
    memcpy(theirs, own, their_size < own_size ? their_size : own_size);
}
