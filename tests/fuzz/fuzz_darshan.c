/* fuzz_darshan.c - arbitrary text in place of what darshan-parser prints. */
#include "harness.h"

#include <stdlib.h>

#include "base/buf.h"
#include "profile/profile.h"

static void touch(const struct stk_profile *p)
{
    for (size_t i = 0; i < p->nprocs; i++) {
        const struct stk_prof_proc *c = &p->proc[i];
        stk_fuzz_touch(c->command, strlen(c->command));
        if (c->host >= p->nhosts || c->unit >= p->nunits || !(c->end_s >= c->start_s))
            stk_fuzz_broken("a process has a host, a unit and a life");
    }
    for (size_t i = 0; i < p->nfiles; i++) {
        stk_fuzz_touch(p->file[i].path, strlen(p->file[i].path));
        stk_fuzz_touch(p->file[i].fs, strlen(p->file[i].fs));
        if (p->file[i].distinct_exact && p->file[i].distinct_bytes)
            stk_fuzz_broken("what Darshan does not have is an estimate");
    }
    for (size_t i = 0; i < p->nrecs; i++)
        if (p->rec[i].proc >= p->nprocs || p->rec[i].file >= p->nfiles ||
            p->rec[i].api >= STK_API_COUNT ||
            p->rec[i].distinct_bytes > p->rec[i].n.c[STK_C_READ_BYTES])
            stk_fuzz_broken("a record is of a process, a file and an API, and nobody reads more "
                            "bytes than he reads");
    for (size_t i = 0; i < p->nnotes; i++)
        stk_fuzz_touch(p->note[i], strlen(p->note[i]));
}

int fuzz_darshan(const uint8_t *data, size_t size)
{
    struct stk_buf text = STK_BUF_INIT;
    struct stk_profile p;
    struct stk_err err = {0};
    stk_buf_puts(&text, "# darshan log version: 3.41\n");
    stk_buf_put(&text, data, size);
    const char *path = stk_fuzz_file("a_b_id7-8_c.txt", text.data, text.len);
    stk_buf_release(&text);
    if (stk_profile_read(path, &p, &err) == 0) {
        touch(&p);
        stk_profile_release(&p);
    }
    return 0;
}
