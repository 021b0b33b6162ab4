/*
 * root.h - reading the small text files in which the kernel describes the machine (/proc, /sys).
 *
 * Paths are absolute, as on the machine. Tests replay captured machines: the same paths below a
 * folder. A file that is missing, hidden or malformed is never an error; its value is unknown.
 */
#ifndef STK_HOST_ROOT_H
#define STK_HOST_ROOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* For tests, while there is one thread. dir: a captured machine, borrowed until the next call;
 * NULL: this machine. */
void stk_host_set_root(const char *dir);
bool stk_host_is_captured(void);

/* A descriptor, or -1 with errno. */
int stk_host_open(const char *path, int flags);
/* For reading; NULL: missing. */
FILE *stk_host_fopen(const char *path);
bool stk_host_exists(const char *path);

/* Reads as much of a file as fits, NUL-terminated. Returns its length; 0: missing. */
size_t stk_host_read(const char *path, char *buf, size_t size);
size_t stk_host_read_at(int dir_fd, const char *path, char *buf, size_t size);
/* Reads the first line without its newline; "": missing. */
void stk_host_line(const char *path, char *out, size_t size);

/* The integer at the start of text, after blanks; UINT64_MAX: none ("max"). */
uint64_t stk_host_number(const char *text);
/* The same after the line that begins with name: "MemTotal:", "file ". */
uint64_t stk_host_number_of(const char *text, const char *name);

#endif
