/*
 * loader.c - a running loader. next() waits without the GIL and in short slices, so that Ctrl-C is
 * answered; one thread at a time is let in. After a fork the child can only forget the loader: the
 * threads are its parent's.
 */
#include "pystk.h"

#include <stdlib.h>
#include <unistd.h>

struct loader {
    PyObject_HEAD struct stk_loader *ld; /* NULL: closed */
    PyObject *dataset, *pool;
    PyThread_type_lock lock;
    bool closing;
    pid_t pid;
};

enum { SLICE_MS = 100, PROBLEMS = 1000 };

/* ---- opening ---- */

static int use_pool(PyObject *pool, struct stk_loader_options *o)
{
    if (!PyObject_TypeCheck(pool, stk_py_pool_type)) {
        PyErr_SetString(PyExc_TypeError, "pool: not a Pool");
        return -1;
    }
    o->alloc = stk_py_pool_alloc;
    o->free = stk_py_pool_free;
    o->user = pool;
    return 0;
}

static int open_loader(struct loader *l, const struct stk_loader_options *o)
{
    struct stk_dataset *ds = ((struct stk_py_dataset *)l->dataset)->ds;
    struct stk_err err = {0};
    int rc;
    if (!(l->lock = PyThread_allocate_lock())) {
        PyErr_NoMemory();
        return -1;
    }
    l->pid = getpid();
    Py_BEGIN_ALLOW_THREADS rc = stk_loader_open(ds, o, &l->ld, &err);
    Py_END_ALLOW_THREADS if (rc < 0) stk_py_raise(&err);
    return rc;
}

/* Loader(dataset, pool, **options); pool: None, or what memory for arrays comes from */
static PyObject *loader_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    struct stk_py_options t;
    PyObject *dataset, *pool;
    if (!PyArg_ParseTuple(args, "O!O", stk_py_dataset_type, &dataset, &pool) ||
        stk_py_options_take(&t, kwargs) < 0)
        return NULL;
    pool = pool == Py_None ? NULL : pool;
    struct loader *l = pool && use_pool(pool, &t.o) < 0 ? NULL : stk_py_new(type);
    if (l) {
        Py_INCREF(dataset);
        l->dataset = dataset;
        Py_XINCREF(pool);
        l->pool = pool;
        if (open_loader(l, &t.o) < 0)
            Py_CLEAR(l);
    }
    stk_py_options_release(&t);
    return (PyObject *)l;
}

/* ---- one at a time ---- */

static int usable(const struct loader *l)
{
    if (l->pid != getpid())
        PyErr_Format(PyExc_RuntimeError,
                     "this iteration belongs to process %d: begin one in this process",
                     (int)l->pid);
    else if (!l->ld || l->closing)
        PyErr_SetString(PyExc_RuntimeError, "the loader is closed");
    else
        return 0;
    return -1;
}

static int enter(struct loader *l)
{
    if (usable(l) < 0)
        return -1;
    if (!PyThread_acquire_lock(l->lock, NOWAIT_LOCK)) {
        Py_BEGIN_ALLOW_THREADS PyThread_acquire_lock(l->lock, WAIT_LOCK);
        Py_END_ALLOW_THREADS
    }
    if (usable(l) == 0)
        return 0;
    PyThread_release_lock(l->lock);
    return -1;
}

static void leave(struct loader *l)
{
    PyThread_release_lock(l->lock);
}

/* next() -> a Batch, or None at the end of an epoch */
static PyObject *loader_next(PyObject *self, PyObject *unused)
{
    struct loader *l = (struct loader *)self;
    struct stk_batch *b = NULL;
    struct stk_err err = {0};
    int rc = 0, ready = 0;
    (void)unused;
    while (!ready) {
        /* Let go between slices: the handler of a signal may ask for the state. */
        if (enter(l) < 0)
            return NULL;
        Py_BEGIN_ALLOW_THREADS ready = stk_loader_wait(l->ld, SLICE_MS);
        if (ready)
            rc = stk_loader_next(l->ld, &b, &err);
        Py_END_ALLOW_THREADS leave(l);
        if (!ready && PyErr_CheckSignals() < 0)
            return NULL;
    }
    if (rc < 0)
        return stk_py_raise(&err);
    if (rc > 0)
        return stk_py_batch_new(b, l->dataset, l->pool);
    Py_RETURN_NONE;
}

static PyObject *loader_state(PyObject *self, PyObject *unused)
{
    struct loader *l = (struct loader *)self;
    struct stk_err err = {0};
    char *text = NULL;
    int rc;
    (void)unused;
    if (enter(l) < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS rc = stk_loader_state(l->ld, &text, &err);
    Py_END_ALLOW_THREADS leave(l);
    if (rc < 0)
        return stk_py_raise(&err);
    PyObject *out = stk_py_text(text, strlen(text));
    free(text);
    return out;
}

static PyObject *loader_steps(PyObject *self, PyObject *unused)
{
    struct loader *l = (struct loader *)self;
    uint64_t n;
    (void)unused;
    if (enter(l) < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS n = stk_loader_steps(l->ld);
    Py_END_ALLOW_THREADS leave(l);
    return PyLong_FromUnsignedLongLong(n);
}

static PyObject *loader_stats(PyObject *self, PyObject *unused)
{
    struct loader *l = (struct loader *)self;
    struct stk_loader_stats s = {0};
    (void)unused;
    if (enter(l) < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS stk_loader_stats(l->ld, &s);
    Py_END_ALLOW_THREADS leave(l);
    typedef unsigned long long count;
    return Py_BuildValue(
        "{s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:d,s:K,s:K,s:I,s:s,s:s,s:s,s:K,s:K}",
        "samples", (count)s.samples, "batches", (count)s.batches, "repeats", (count)s.repeats,
        "replaced", (count)s.replaced, "skipped", (count)s.skipped, "corrupt", (count)s.corrupt,
        "bytes_asked", (count)s.bytes_asked, "bytes_read", (count)s.bytes_read, "reads",
        (count)s.reads, "opens", (count)s.opens, "stall_ns", (count)s.stall_ns, "decode_ns",
        (count)s.decode_ns, "depth", s.depth, "memory_bytes", (count)s.memory_bytes,
        "memory_peak_bytes", (count)s.memory_peak_bytes, "threads", s.threads, "io",
        s.io ? s.io : "", "io_detail", s.io_detail ? s.io_detail : "", "io_reason",
        s.io_reason ? s.io_reason : "", "checked", (count)s.checked, "checked_bytes",
        (count)s.checked_bytes);
}

static PyObject *loader_problems(PyObject *self, PyObject *unused)
{
    struct loader *l = (struct loader *)self;
    const char *text[PROBLEMS];
    size_t n = 0;
    (void)unused;
    if (enter(l) < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS while (n < PROBLEMS && (text[n] = stk_loader_problem(l->ld, n))) n++;
    Py_END_ALLOW_THREADS PyObject *list = PyList_New((Py_ssize_t)n);
    for (size_t i = 0; list && i < n; i++) {
        PyObject *item = stk_py_text(text[i], strlen(text[i]));
        if (!item || PyList_SetItem(list, (Py_ssize_t)i, item) < 0)
            Py_CLEAR(list);
    }
    leave(l);
    return list;
}

/* ---- the end ---- */

/* Waits for a thread that is in next(), which looks at `closing` ten times a second. */
static PyObject *loader_close(PyObject *self, PyObject *unused)
{
    struct loader *l = (struct loader *)self;
    (void)unused;
    if (l->ld && l->pid == getpid()) {
        l->closing = true;
        Py_BEGIN_ALLOW_THREADS PyThread_acquire_lock(l->lock, WAIT_LOCK);
        if (l->ld)
            stk_loader_close(l->ld);
        l->ld = NULL;
        PyThread_release_lock(l->lock);
        Py_END_ALLOW_THREADS
    }
    Py_RETURN_NONE;
}

static void loader_free(PyObject *self)
{
    struct loader *l = (struct loader *)self;
    struct stk_loader *ld = l->pid == getpid() ? l->ld : NULL;
    if (ld) {
        Py_BEGIN_ALLOW_THREADS stk_loader_close(ld);
        Py_END_ALLOW_THREADS
    }
    if (l->lock)
        PyThread_free_lock(l->lock);
    Py_XDECREF(l->pool);
    Py_XDECREF(l->dataset);
    stk_py_del(self);
}

static PyMethodDef methods[] = {
    {"next", loader_next, METH_NOARGS, NULL},
    {"state", loader_state, METH_NOARGS, NULL},
    {"steps", loader_steps, METH_NOARGS, NULL},
    {"stats", loader_stats, METH_NOARGS, NULL},
    {"problems", loader_problems, METH_NOARGS, NULL},
    {"close", loader_close, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, SLOT(loader_new)},
    {Py_tp_dealloc, SLOT(loader_free)},
    {Py_tp_methods, methods},
    {0, NULL},
};
static PyType_Spec spec = {"stoker._stoker.Loader", sizeof(struct loader), 0, Py_TPFLAGS_DEFAULT,
                           slots};

int stk_py_loader_init(PyObject *module)
{
    return stk_py_type(module, &spec, "Loader") ? 0 : -1;
}
