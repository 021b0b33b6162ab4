/* spare.c - see spare.h. */
#include "bench/spare.h"

#include <pthread.h>
#include <stdlib.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct stk_spare *free_ones;

struct stk_spare *stk_spare_get(void)
{
    pthread_mutex_lock(&lock);
    struct stk_spare *s = free_ones;
    if (s)
        free_ones = s->next;
    pthread_mutex_unlock(&lock);
    if (!s)
        return calloc(1, sizeof *s);
    stk_buf_reset(&s->data);
    stk_buf_reset(&s->bytes);
    return s;
}

void stk_spare_put(struct stk_spare *s)
{
    if (!s)
        return;
    pthread_mutex_lock(&lock);
    s->next = free_ones;
    free_ones = s;
    pthread_mutex_unlock(&lock);
}

void stk_spare_free(void)
{
    pthread_mutex_lock(&lock);
    struct stk_spare *s = free_ones, *next;
    free_ones = NULL;
    pthread_mutex_unlock(&lock);
    for (; s; s = next) {
        next = s->next;
        stk_buf_release(&s->data);
        stk_buf_release(&s->bytes);
        free(s);
    }
}
