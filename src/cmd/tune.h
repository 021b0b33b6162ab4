/* tune.h - the input of `stoker tune`: a workload, a dataset, a profile, or a command. */
#ifndef STK_CMD_TUNE_H
#define STK_CMD_TUNE_H

#include "advice/advice.h"
#include "cmd/cmd.h"
#include "record/folder.h"
#include "tune/tune.h"

#define STK_TUNE_INPUT_NOTES 2

struct stk_tune_input {
    const char *const *command; /* after "--"; NULL: none */
    struct stk_workload w; /* unless it is a file */
    struct stk_action *action;
    struct stk_judged *judged; /* the actions point into it */
    struct stk_folder profile; /* of the command, removed once it is read */
    struct stk_folder again;   /* of its second run; not made: there was one run */
    struct stk_script script;  /* of the command, or of the profile */
    char note[STK_TUNE_INPUT_NOTES][320];
    const char *notes[STK_TUNE_INPUT_NOTES + 1]; /* NULL-terminated */
    size_t nnotes;
    bool ended; /* the command was ended early, as asked */
};
#define STK_TUNE_INPUT_INIT                                                                        \
    ((struct stk_tune_input){.profile = {.fd = -1, .mode = STK_PRIVATE},                           \
                             .again = {.fd = -1, .mode = STK_PRIVATE}})

/* When a command is ended: after that time or that many steps; 0: by itself. */
struct stk_tune_ends {
    double for_s;
    uint64_t steps;
    double budget_s; /* of tune: a command that takes longer takes long */
};

/* Fills in what the plan says about its subject. Caller releases with stk_tune_input_release(),
 * also after an error. */
int stk_tune_input(struct stk_run *run, struct stk_tune_input *in, struct stk_tune_plan *plan,
                   const char *trust, const struct stk_tune_ends *ends);
void stk_tune_input_release(struct stk_tune_input *in);
/* The words after "--"; NULL: there are none. Borrowed from the run. */
const char *const *stk_tune_command(const struct stk_run *run);

/* Reads a profile into in->judged. */
int stk_tune_judge_profile(struct stk_run *run, struct stk_tune_input *in, const char *path,
                           const char *trust);
/* tune/command.c: profiles in->command, and a short one twice; in->judged is the last run. Notes what
 * it changed, and whether the runs differ. */
int stk_tune_profile(struct stk_run *run, struct stk_tune_input *in, const char *trust,
                     const struct stk_tune_ends *ends);

struct stk_tune_scale; /* report/tune.h */
/* What the study in dir recommends. */
int stk_tune_read_study(struct stk_run *run, const char *dir, const char *trust,
                        struct stk_tune_scale *out);

/* Does the dataset part of the best candidate: packs, copies to the node; then writes a patch for
 * the script. Prints what it made. */
int stk_tune_apply(struct stk_run *run, const struct stk_tune *t);
/* Writes a diff beside the script of the job. made: where the data of each change is now; NULL:
 * where it was. copy: where this node has a copy of that; NULL: it has none. */
int stk_tune_patch_script(struct stk_run *run, const struct stk_tune *t, const char *const *made,
                          const char *const *copy);

#endif
