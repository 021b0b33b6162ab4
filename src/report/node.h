/* node.h - the results of formats, version and doctor: what this build and this node can do. */
#ifndef STK_REPORT_NODE_H
#define STK_REPORT_NODE_H

#include "result/field.h"
#include "stage/survey.h"

/* ---- formats and version --------------------------------------------------------------------- */

extern const struct stk_result_kind stk_formats_kind; /* of nothing */

/* An optional part; missing: the package to install, NULL if the part is built in. */
struct stk_build_part {
    const char *name, *missing;
    bool surveyed; /* the survey of a node says what its absence means there */
};

struct stk_build {
    const struct stk_build_part *part;
    size_t nparts;
    /* How libraries that read untrusted HDF5, LMDB and squashfs files are confined (base/helper.h):
     * depends on the kernel, and on the container if there is one. */
    unsigned locks;
};

extern const struct stk_result_kind stk_version_kind; /* of a struct stk_build */
/* Its parts and how readers are confined, which doctor has as well. */
extern const struct stk_result_field stk_part_fields[], stk_lock_fields[];
void stk_put_parts(const void *build, struct stk_jw *w);

/* ---- doctor; docs/doctor.md defines the members ---------------------------------------------- */

struct stk_doctor {
    const struct stk_survey *survey;
    const struct stk_build *build;
};
extern const struct stk_result_kind stk_doctor_kind; /* of a struct stk_doctor */

#endif
