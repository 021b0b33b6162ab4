/*
 * secret.h - words of commands that look like secrets (--token=..., WANDB_API_KEY=..., a password
 * in a URL), so that what is written down of a command does not give them away. What is run keeps
 * them, of course.
 *
 * Names decide, and few forms that cannot be anything else; the table with its reasons is in
 * secret.c. It is better to show one too many "***" than a password, but what people look for in a
 * report (--tokenizer gpt2, --num-tokens 5) must stay.
 */
#ifndef STK_BASE_SECRET_H
#define STK_BASE_SECRET_H

#include <stdbool.h>
#include <stddef.h>

struct stk_buf;
struct stk_jw;

#define STK_SECRET_MASK "***"

/* What is known of a command from the words before; all zero at its first. */
struct stk_secret {
    int next; /* what the last word says of the one that follows */
};

/* The first secret in word[from..n): where it begins, and *len bytes of it; n: there is none.
 * For each word of a command in turn, first with from 0, then from the end of what was found, until
 * n is returned. Takes no memory: the preload library uses it, too. */
size_t stk_secret_find(struct stk_secret *s, const char *word, size_t n, size_t from, size_t *len)
    __attribute__((visibility("hidden")));

/* Appends a word of a command, with secrets masked. */
void stk_secret_put(struct stk_secret *s, const char *word, size_t n, struct stk_buf *out);
/* The same of a text that stands alone: a line for a shell, a command whose words were joined. */
void stk_secret_text(const char *text, size_t n, struct stk_buf *out);
/* A command as a list of JSON, a text as a string of it (NULL: null). */
void stk_secret_json_words(struct stk_jw *w, const char *const *word, size_t n);
void stk_secret_json_text(struct stk_jw *w, const char *text);

#endif
