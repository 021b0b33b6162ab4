/*
 * pool.c - memory for a loader's arrays that comes from a Python function (PyTorch's pinned
 * memory). Getting such memory is slow, so blocks that come back are kept and given out again.
 * Where the function has none to give, ordinary memory takes its place.
 */
#include "pystk.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

PyTypeObject *stk_py_pool_type;

struct block {
    struct block *next;
    void *data;
    size_t size;
    PyObject *keep; /* what owns data; NULL: malloc'ed */
};

struct pool {
    PyObject_HEAD PyObject *give; /* (size) -> (address, owner) or None */
    pthread_mutex_t lock;
    struct block *used, *idle;
    pid_t pid;
};

enum { ALIGN = 64 };

/* The first block of a list that has room for size and does not waste more than as much again. */
static struct block *take_fitting(struct block **list, size_t size)
{
    for (; *list; list = &(*list)->next)
        if ((*list)->size >= size && (*list)->size / 2 <= size) {
            struct block *b = *list;
            *list = b->next;
            return b;
        }
    return NULL;
}

static struct block *take_at(struct block **list, const void *data)
{
    for (; *list; list = &(*list)->next)
        if ((*list)->data == data) {
            struct block *b = *list;
            *list = b->next;
            return b;
        }
    return NULL;
}

/* Asks Python. Failing is no error: there is ordinary memory. */
static void ask(struct pool *p, struct block *b)
{
    if (!Py_IsInitialized())
        return;
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *given = PyObject_CallFunction(p->give, "n", (Py_ssize_t)b->size);
    if (given && given != Py_None) {
        unsigned long long address = 0;
        if (PyArg_ParseTuple(given, "KO", &address, &b->keep) && address) {
            Py_INCREF(b->keep);
            b->data = (void *)(uintptr_t)address;
        } else {
            b->keep = NULL;
        }
    }
    Py_XDECREF(given);
    PyErr_Clear();
    PyGILState_Release(gil);
}

static struct block *new_block(struct pool *p, size_t size)
{
    struct block *b = calloc(1, sizeof *b);
    if (!b || size > SIZE_MAX / 2) {
        free(b);
        return NULL;
    }
    b->size = (size + ALIGN - 1) / ALIGN * ALIGN;
    ask(p, b);
    if (!b->data && !(b->data = aligned_alloc(ALIGN, b->size ? b->size : ALIGN))) {
        free(b);
        return NULL;
    }
    return b;
}

void *stk_py_pool_alloc(void *pool, size_t size)
{
    struct pool *p = pool;
    pthread_mutex_lock(&p->lock);
    struct block *b = take_fitting(&p->idle, size);
    pthread_mutex_unlock(&p->lock);
    if (!b && !(b = new_block(p, size)))
        return NULL;
    pthread_mutex_lock(&p->lock);
    b->next = p->used;
    p->used = b;
    pthread_mutex_unlock(&p->lock);
    return b->data;
}

void stk_py_pool_free(void *pool, void *data, size_t size)
{
    struct pool *p = pool;
    (void)size;
    pthread_mutex_lock(&p->lock);
    struct block *b = take_at(&p->used, data);
    if (b) {
        b->next = p->idle;
        p->idle = b;
    }
    pthread_mutex_unlock(&p->lock);
}

static PyObject *pool_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *give;
    (void)kwargs;
    if (!PyArg_ParseTuple(args, "O", &give))
        return NULL;
    struct pool *p = stk_py_new(type);
    if (!p)
        return NULL;
    Py_INCREF(give);
    p->give = give;
    p->pid = getpid();
    pthread_mutex_init(&p->lock, NULL);
    return (PyObject *)p;
}

static void free_blocks(struct block *b)
{
    while (b) {
        struct block *next = b->next;
        if (b->keep)
            Py_DECREF(b->keep);
        else
            free(b->data);
        free(b);
        b = next;
    }
}

static void pool_free(PyObject *self)
{
    struct pool *p = (struct pool *)self;
    if (p->pid == getpid()) {
        free_blocks(p->idle);
        free_blocks(p->used);
        pthread_mutex_destroy(&p->lock);
    }
    Py_XDECREF(p->give);
    stk_py_del(self);
}

static PyObject *count(PyObject *self, void *unused)
{
    struct pool *p = (struct pool *)self;
    size_t blocks = 0, given = 0;
    (void)unused;
    pthread_mutex_lock(&p->lock);
    for (int k = 0; k < 2; k++)
        for (const struct block *b = k ? p->idle : p->used; b; b = b->next) {
            blocks++;
            given += b->keep != NULL;
        }
    pthread_mutex_unlock(&p->lock);
    return Py_BuildValue("nn", (Py_ssize_t)blocks, (Py_ssize_t)given);
}

static PyGetSetDef getters[] = {
    {"blocks", count, NULL, "(number of blocks, number of those the function gave)", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, SLOT(pool_new)},
    {Py_tp_dealloc, SLOT(pool_free)},
    {Py_tp_getset, getters},
    {0, NULL},
};
static PyType_Spec spec = {"stoker._stoker.Pool", sizeof(struct pool), 0, Py_TPFLAGS_DEFAULT,
                           slots};

int stk_py_pool_init(PyObject *module)
{
    stk_py_pool_type = stk_py_type(module, &spec, "Pool");
    return stk_py_pool_type ? 0 : -1;
}
