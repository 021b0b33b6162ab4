/*
 * secret.h - words of commands that look like secrets (--token=..., WANDB_API_KEY=..., a password
 * in a URL), so that a recorded command does not reveal them. The command that runs keeps them.
 *
 * Names decide, and a few unmistakable forms; secret.c has the table with the reasons. One "***"
 * too many is better than a password shown, but useful words (--tokenizer gpt2, --num-tokens 5)
 * must stay.
 */
#ifndef STK_BASE_SECRET_H
#define STK_BASE_SECRET_H

#include <stdbool.h>
#include <stddef.h>

struct stk_buf;
struct stk_jw;

#define STK_SECRET_MASK "***"

/* State carried from word to word of a command; all zero at the first. */
struct stk_secret {
    int next; /* what the last word says about the next */
};

/* Returns the start of the first secret in word[from..n), and its length in *len; n: there is none.
 * Call it for each word of a command in turn, first with from 0, then from the end of each secret,
 * until it returns n. Allocates nothing: the preload library uses it, too. */
size_t stk_secret_find(struct stk_secret *s, const char *word, size_t n, size_t from, size_t *len)
    __attribute__((visibility("hidden")));

/* Appends a word of a command, with secrets masked. */
void stk_secret_put(struct stk_secret *s, const char *word, size_t n, struct stk_buf *out);
/* The same for a single text: a line for a shell, a command with joined words. */
void stk_secret_text(const char *text, size_t n, struct stk_buf *out);
/* Write a command as a JSON list, a text as a JSON string (NULL: null). */
void stk_secret_json_words(struct stk_jw *w, const char *const *word, size_t n);
void stk_secret_json_text(struct stk_jw *w, const char *text);

#endif
