/*
 * fuzz_jail.c - what a child that a file has taken over may send (jail.h): every message that gets
 * through must be one that the rest of the code can live with.
 */
#include "harness.h"

#include "format/jail.h"

int fuzz_jail(const uint8_t *data, size_t size)
{
    static const struct stk_list_options opts = {.payload = "auto"};
    const struct stk_format f = {.name = "hdf5"};
    struct stk_sink *sink = stk_fuzz_sink();
    struct stk_lister l;
    struct stk_err err = {0};
    stk_lister_init(&l, sink, NULL, &opts);
    int rc = stk_jail_take(&f, &l, "input", data, size, &err);
    if (rc < 0 && (err.code != rc || !err.what[0]))
        stk_fuzz_broken("an error code comes with its message");
    stk_lister_release(&l);
    return 0;
}
