/* spawn.h - other programs: where they are, and starting them without a shell. */
#ifndef STK_BASE_SPAWN_H
#define STK_BASE_SPAWN_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

/* Where execvp() would find it: malloc'ed. 0, or errno (ENOENT, EACCES, ENOMEM). */
int stk_find_program(const char *name, char **out);
/* Starts argv[0], looked for in PATH, with these as standard input, output and errors, and with
 * signals as a program expects them: ours may be blocked or ignored. env NULL: ours. alone: in a
 * process group of its own, which a terminal's Ctrl-C does not reach. 0 or errno. */
int stk_spawn(const char *const *argv, char *const *env, const int fd[3], bool alone, pid_t *pid);

/* How a child ended, from what waitpid() says. */
struct stk_ending {
    int status; /* as a shell has it: 128 + signal where one ended it */
    int signal; /* that ended it, or 0 */
};
struct stk_ending stk_ending_of(int wait_status);
/* Where this program is. The preload library has a way of its own. */
int stk_self_path(char *out, size_t size, struct stk_err *err);

#endif
