/*
 * script.h - the Python script behind a command: `python train.py`, `python -m pkg`, `torchrun …
 * train.py`, `srun python …`, `sh -c "…"`. A patch is made for it.
 */
#ifndef STK_TUNE_SCRIPT_H
#define STK_TUNE_SCRIPT_H

#include <stdbool.h>

#define STK_SCRIPT_PATH 4096

struct stk_script {
    char python[STK_SCRIPT_PATH]; /* the interpreter; "": the command does not say */
    char file[STK_SCRIPT_PATH];   /* absolute; "": a module */
    char module[256];             /* of python -m; "": a file */
    char cwd[STK_SCRIPT_PATH];    /* where the command runs */
};

/* Finds it in the words of a command that runs in cwd. False: the command names none. */
bool stk_script_find(const char *const *words, const char *cwd, struct stk_script *out);
/* The same for a command as a shell would take it: what stk_quote_word() wrote, not all of sh. */
bool stk_script_find_text(const char *command, const char *cwd, struct stk_script *out);

#endif
