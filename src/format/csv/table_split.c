/*
 * table_split.c - files that hold several splits of a dataset (train/x and test/x, x_train and
 * x_test), of which one is read, and the report on arrays that are not columns.
 */
#include "format/ragged.h"

#include <stdio.h>
#include <stdlib.h>

static const char *const words[] = {"train", "training", "val",  "valid",   "validation",
                                    "dev",   "test",     "eval", "testing", NULL};
#define NWORDS (sizeof words / sizeof *words - 1)

/* The position of a split's name in an array's name. */
struct place {
    int word;        /* -1: nowhere */
    size_t from, to; /* the bytes that do not belong to the field's name */
};

static int word_at(const char *p, size_t n)
{
    for (size_t i = 0; i < NWORDS; i++)
        if (n == strlen(words[i]) && strncasecmp(p, words[i], n) == 0)
            return (int)i;
    return -1;
}

static struct place find_word(const struct stk_table_array *a)
{
    const char *p = a->name, *slash = memchr(p, '/', a->name_len);
    size_t n = a->name_len, first = slash ? (size_t)(slash - p) : 0;
    if (first && word_at(p, first) >= 0)
        return (struct place){word_at(p, first), 0, first + 1};
    const char *last = memrchr(p, '/', n);
    size_t from = last ? (size_t)(last - p) + 1 : 0;
    const char *score = memchr(p + from, '_', n - from);
    if (score && word_at(p + from, (size_t)(score - p) - from) >= 0)
        return (struct place){word_at(p + from, (size_t)(score - p) - from), from,
                              (size_t)(score - p) + 1};
    score = memrchr(p + from, '_', n - from);
    if (score && word_at(score + 1, n - (size_t)(score - p) - 1) >= 0)
        return (struct place){word_at(score + 1, n - (size_t)(score - p) - 1), (size_t)(score - p),
                              n};
    return (struct place){-1, 0, 0};
}

static bool same_field(const struct stk_table_array *a, const struct place *p,
                       const struct stk_table_array *b, const struct place *q)
{
    size_t n = a->name_len - (p->to - p->from), m = b->name_len - (q->to - q->from);
    return n == m && p->from == q->from && memcmp(a->name, b->name, p->from) == 0 &&
           memcmp(a->name + p->to, b->name + q->to, n - p->from) == 0;
}

#define LOOK_AT 4096 /* arrays; in a file with more, each array is a sample */

/* Marks the splits that share a field with another split. */
static void count_splits(const struct stk_table_array *a, const struct place *p, size_t n,
                         uint64_t *bytes)
{
    for (size_t i = 0; i < n; i++)
        for (size_t k = i + 1; k < n && p[i].word >= 0; k++)
            if (p[k].word >= 0 && p[k].word != p[i].word &&
                same_field(&a[i], &p[i], &a[k], &p[k])) {
                bytes[p[i].word] += 1 + a[i].bytes / n;
                bytes[p[k].word] += 1 + a[k].bytes / n;
            }
}

/* train if there is one, else the largest. */
static int choose_word(const uint64_t *bytes)
{
    int best = -1;
    for (int i = 0; i < (int)NWORDS; i++)
        if (bytes[i] && (best < 0 || (best > 1 && bytes[i] > bytes[best])))
            best = i;
    return best;
}

static int say(struct stk_lister *l, const uint64_t *bytes, int best, struct stk_err *err)
{
    int rc = stk_list_taken(l, "split", words[best],
                            "the file holds several splits; --datasets names others", err);
    for (int i = 0; rc == 0 && i < (int)NWORDS; i++)
        if (bytes[i] && i != best)
            rc = stk_list_left_out(l, "split", words[i],
                                   "one split of a file is read; --datasets names others", err);
    return rc;
}

int stk_table_split(struct stk_lister *l, struct stk_table_array *a, size_t n, struct stk_err *err)
{
    uint64_t bytes[NWORDS] = {0};
    if (n < 2 || n > LOOK_AT)
        return 0;
    struct place *p = calloc(n, sizeof *p);
    if (!p)
        return stk_err_nomem(err, n * sizeof *p);
    for (size_t i = 0; i < n; i++)
        p[i] = a[i].skip ? (struct place){-1, 0, 0} : find_word(&a[i]);
    count_splits(a, p, n, bytes);
    int best = choose_word(bytes), rc = best < 0 ? 0 : say(l, bytes, best, err);
    for (size_t i = 0; rc == 0 && best >= 0 && i < n; i++)
        a[i].skip |= p[i].word >= 0 && p[i].word != best && bytes[p[i].word];
    free(p);
    return rc;
}

/* ---- reports ---- */

/* "x, y, label, ..." of the columns. */
static void name_columns(const struct stk_table_array *a, size_t n, char *text, size_t size)
{
    size_t at = 0, names = 0;
    for (size_t i = 0; i < n && names < 4 && at < size; i++) {
        if (!a[i].column)
            continue;
        bool more = names == 3;
        int len = more ? 3 : a[i].name_len < 60 ? (int)a[i].name_len : 60;
        at += (size_t)snprintf(text + at, size - at, "%s%.*s", names ? ", " : "", len,
                               more ? "..." : a[i].name);
        names++;
    }
}

int stk_table_report(struct stk_lister *l, const struct stk_table_array *a, size_t n,
                     const char *kind, bool voted, struct stk_err *err)
{
    bool guessed = false;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < n; i++) {
        char name[400];
        if (a[i].column || a[i].skip)
            continue;
        snprintf(name, sizeof name, "%.*s", (int)(a[i].name_len < 399 ? a[i].name_len : 399),
                 a[i].name);
        guessed |= a[i].ndim > 0;
        rc = stk_list_left_out(l, kind, name,
                               a[i].ndim ? "its length is not the number of samples"
                                         : "one value, not one per sample",
                               err);
    }
    char as[320] = "a row of ";
    name_columns(a, n, as + strlen(as), sizeof as - strlen(as));
    return rc < 0 || !guessed || !voted
               ? rc
               : stk_list_taken(l, "sample", as,
                                "most of the large arrays have this number of rows; --datasets "
                                "overrules it",
                                err);
}
