/*
 * left_out.c - where files lie that are not recorded individually: a few folders (site-packages,
 * /usr, …) with a sum each, since opening libraries may take longer than reading the data.
 */
#include "preload/priv.h"

#define LAST (STK_LOG_PLACES - 1) /* all others */

/* The names; a forked child's log gets them again. */
static struct {
    char folder[sizeof(((struct stk_log_place *)0)->folder)];
    uint32_t length; /* 0: free (atomic) */
} places[LAST];

static bool is_place(unsigned i, const char *path, size_t n)
{
    return __atomic_load_n(&places[i].length, __ATOMIC_ACQUIRE) == n &&
           memcmp(places[i].folder, path, n) == 0;
}

/* The lock is held. */
static void name_place(unsigned i, const char *path, size_t n)
{
    memcpy(places[i].folder, path, n);
    memcpy(stk_pl.log->left_out[i].folder, path, n);
    __atomic_store_n(&places[i].length, (uint32_t)n, __ATOMIC_RELEASE);
}

uint8_t stk_pl_place(const char *path, size_t n)
{
    unsigned i = 0;
    n = n < sizeof places->folder ? n : sizeof places->folder - 1;
    while (i < LAST && !is_place(i, path, n))
        i++;
    if (i < LAST)
        return (uint8_t)i;
    stk_pl_lock(&stk_pl_names_lock);
    for (i = 0; i < LAST && places[i].length && !is_place(i, path, n);)
        i++;
    if (i < LAST && !places[i].length)
        name_place(i, path, n);
    stk_pl_unlock(&stk_pl_names_lock);
    return (uint8_t)i;
}

void stk_pl_places_name(struct stk_log_header *h)
{
    for (unsigned i = 0; i < LAST; i++)
        memcpy(h->left_out[i].folder, places[i].folder, sizeof h->left_out[i].folder);
}
