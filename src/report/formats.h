/* formats.h - what this build can do, for people and for programs: its formats, its parts. */
#ifndef STK_REPORT_FORMATS_H
#define STK_REPORT_FORMATS_H

#include "base/json.h"

/* All formats, read and written or not. */
void stk_formats_text(unsigned columns, struct stk_buf *out);
/* A member of the open object. */
void stk_formats_json(struct stk_jw *w);

/* An optional part; missing: the package to install, NULL if the part is built in. */
struct stk_build_part {
    const char *name, *missing;
};

struct stk_build {
    const struct stk_build_part *part;
    size_t nparts;
    /* How libraries that read untrusted HDF5, LMDB and squashfs files are confined (base/confine.h):
     * depends on the kernel, and on the container if there is one. */
    unsigned locks;
};

void stk_version_text(const struct stk_build *b, struct stk_buf *out);
/* Members of the open object. */
void stk_version_json(const struct stk_build *b, struct stk_jw *w);

#endif
