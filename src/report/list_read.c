/* list_read.c - the files of a folder that a job read, as a list for GNU tar. */
#include "base/text.h"
#include "report/report.h"

static bool was_read(const struct stk_profile *p, size_t *rec, size_t file)
{
    bool read = false;
    for (; *rec < p->nrecs && p->rec[*rec].file <= file; ++*rec)
        read = read || (p->rec[*rec].file == file && p->rec[*rec].n.c[STK_C_READ_BYTES]);
    return read;
}

size_t stk_report_list_read(const struct stk_analysis *a, const char *dir, struct stk_buf *out)
{
    const struct stk_profile *p = a->p;
    size_t n = strlen(dir), rec = 0, left = 0;
    while (n > 1 && dir[n - 1] == '/')
        n--;
    for (size_t i = 0; n && i < p->nfiles; i++) {
        const char *path = p->file[i].path;
        bool below = strncmp(path, dir, n) == 0 && (path[n] == '/' || dir[n - 1] == '/');
        if (!was_read(p, &rec, i) || !below)
            continue;
        if (p->file[i].group) {
            left++;
            continue;
        }
        stk_quote_tar(out, path + n + (path[n] == '/'));
        stk_buf_putc(out, '\n');
    }
    return left;
}
