/* test_array.c - arrays that grow: nothing is lost, failure leaves them as they were. */
#include <stdint.h>
#include <stdlib.h>

#include "base/buf.h"
#include "check.h"

static void one_by_one(void)
{
    uint32_t *v = NULL;
    for (size_t n = 0; n < 1000; n++) {
        CHECK_INT(STK_ARRAY_MORE(v, n, NULL), 0);
        v[n] = (uint32_t)n;
    }
    for (uint32_t i = 0; i < 1000; i++)
        CHECK(v[i] == i);
    free(v);
}

static void in_bulk(void)
{
    uint64_t *v = NULL;
    size_t room = 0;
    CHECK_INT(STK_ARRAY_ROOM(v, room, 3, NULL), 0);
    CHECK(room >= 3);
    v[2] = 7;
    size_t before = room;
    CHECK_INT(STK_ARRAY_ROOM(v, room, 2, NULL), 0);
    CHECK(room == before);
    CHECK_INT(STK_ARRAY_ROOM(v, room, 1000, NULL), 0);
    CHECK(room >= 1000 && v[2] == 7);
    free(v);
}

static void too_much(void)
{
    uint64_t *v = NULL, *kept;
    size_t room = 0;
    struct stk_err err = {0};
    CHECK_INT(STK_ARRAY_ROOM(v, room, 4, NULL), 0);
    kept = v;
    CHECK_INT(STK_ARRAY_ROOM(v, room, SIZE_MAX / 4, &err), STK_E_NOMEM);
    CHECK(v == kept && room < 100 && err.what[0]);
    CHECK_INT(stk_array_more(&v, (SIZE_MAX >> 1) + 1, 1, &err), STK_E_NOMEM);
    CHECK(v == kept);
    free(v);
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    CHECK_RUN(one_by_one);
    CHECK_RUN(in_bulk);
    CHECK_RUN(too_much);
    return CHECK_DONE();
}
