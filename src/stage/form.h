/*
 * form.h - the forms of the same data that `stoker stage --compare` stages: as it is, as one tar
 * that is then extracted, as record shards, as a squashfs image.
 *
 * A form is one const struct in one table: how it is prepared once, and what it takes, after the
 * copy is on the node, until its samples can be read.
 */
#ifndef STK_STAGE_FORM_H
#define STK_STAGE_FORM_H

#include "tier/source.h"

enum { STK_FORM_FILES, STK_FORM_TAR, STK_FORM_RECORDS, STK_FORM_SQUASHFS, STK_FORMS };

#define STK_FORM_WORDS 24

/* The program that prepares a form; its texts belong to the caller or live forever. */
struct stk_form_command {
    const char *argv[STK_FORM_WORDS];
    char parent[4096], jobs[16];
};

/* Filled in as the copy becomes usable: seconds on the clock of stk_now(). */
struct stk_form_use {
    const char *copy; /* the staged form */
    const char *dir;  /* a folder of the job's own, for what is made of the copy */
    double first_at;  /* in: the first piece was there; out: the first sample can be read */
    double last_at;   /* in: the copy was complete; out: every sample can be read */
};

struct stk_form {
    const char *id;             /* in options and results */
    const char *does;           /* "one tar, then extracted" */
    const char *name;           /* of the prepared form; NULL: the source itself */
    const char *tool, *package; /* the system program that it needs; NULL: none */
    uint64_t copies;            /* of the data that are on the target at once */
    uint64_t per_file;          /* bytes that the form adds to each file, at most */
    void (*prepare)(const struct stk_source *src, const char *self, const char *out,
                    struct stk_form_command *c);                /* NULL: nothing to prepare */
    int (*open)(struct stk_form_use *use, struct stk_err *err); /* NULL: a copy is usable at once */
};

extern const struct stk_form stk_forms[STK_FORMS];
extern const char *const stk_form_ids[STK_FORMS + 1]; /* NULL-terminated */
const struct stk_form *stk_form_find(const char *id); /* or NULL */
/* Why it cannot be measured here; NULL: it can. */
const char *stk_form_missing(const struct stk_form *f, char *why, size_t size);
/* Bytes that the prepared form may take; 0 if nothing is prepared. */
uint64_t stk_form_bytes(const struct stk_form *f, uint64_t bytes, uint64_t files);
/* Bytes that one job may take on its target. */
uint64_t stk_form_target_bytes(const struct stk_form *f, uint64_t bytes, uint64_t files);

#endif
