/* tune.h - the input of `stoker tune`: a workload, a dataset, a profile, or a command. */
#ifndef STK_CMD_TUNE_H
#define STK_CMD_TUNE_H

#include "advice/judge.h"
#include "cmd/cmd.h"
#include "record/folder.h"
#include "tune/tune.h"

struct stk_tune_input {
    const char **command; /* after "--"; NULL: none */
    struct stk_buf text;  /* the workload, unless it is a file */
    struct stk_action *action;
    struct stk_judged *judged; /* the actions point into it */
    struct stk_folder profile; /* of the command, removed at the end */
    struct stk_script script;  /* of the command, or of the profile */
};
#define STK_TUNE_INPUT_INIT ((struct stk_tune_input){.profile = {.fd = -1, .mode = STK_PRIVATE}})

/* Fills in what the plan says about its subject. for_s: the command is ended after that; 0: never.
 * Caller releases with stk_tune_input_release(), also after an error. */
int stk_tune_input(struct stk_run *run, struct stk_tune_input *in, struct stk_tune_plan *plan,
                   const char *trust, double for_s);
void stk_tune_input_release(struct stk_tune_input *in);

/* Does the dataset part of the best candidate: packs into `to`, copies to the node; then writes a
 * patch for the script. Prints what it made. */
int stk_tune_apply(struct stk_run *run, const struct stk_tune *t, const char *to);
/* Writes a diff beside the script of the job. made: where the data of each change is now; NULL:
 * where it was. */
int stk_tune_patch_script(struct stk_run *run, const struct stk_tune *t, const char *const *made);

#endif
