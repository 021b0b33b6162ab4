/*
 * dataset.c - a handle on an open dataset, and reading single samples into Python objects. The
 * handle has no close(): it goes when the last array, batch or loader that needs it has gone. A
 * process that was forked only forgets it, since its locks may be held by threads that are not
 * there.
 */
#include "pystk.h"
#include "data/open_options.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

PyTypeObject *stk_py_dataset_type;
static PyTypeObject *held_type;

/* ---- opening: on a thread of its own, so that Ctrl-C works while an index is built ---- */

struct opening {
    struct stk_arena arena; /* what path and options point to */
    const char *path;
    struct stk_open_options opts;
    struct stk_dataset *ds;
    struct stk_err err;
    int rc;
    atomic_bool stop;
    bool done; /* under lock */
    pthread_mutex_t lock;
    pthread_cond_t changed;
};

static int on_progress(void *user, uint64_t done, uint64_t total, uint64_t samples)
{
    struct opening *o = user;
    (void)done;
    (void)total;
    (void)samples;
    return atomic_load(&o->stop);
}

static void *open_it(void *user)
{
    struct opening *o = user;
    o->rc = stk_dataset_open(o->path, &o->opts, &o->ds, &o->err);
    pthread_mutex_lock(&o->lock);
    o->done = true;
    pthread_cond_signal(&o->changed);
    pthread_mutex_unlock(&o->lock);
    return NULL;
}

static bool wait_100ms(struct opening *o)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 100000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&o->lock);
    int late = 0;
    while (!o->done && !late)
        late = pthread_cond_timedwait(&o->changed, &o->lock, &until);
    bool done = o->done;
    pthread_mutex_unlock(&o->lock);
    return done;
}

/* Signals are for Python's threads, but faults must reach their handlers. */
static int start_opening(struct opening *o, pthread_t *thread)
{
    sigset_t all, old;
    sigfillset(&all);
    sigdelset(&all, SIGBUS);
    sigdelset(&all, SIGSEGV);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int e = pthread_create(thread, NULL, open_it, o);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return e;
}

/* 0; -1 with a Python exception. */
static int open_dataset(struct opening *o)
{
    pthread_t thread;
    bool done = false, stopped = false;
    o->opts.progress = on_progress;
    o->opts.user = o;
    pthread_mutex_init(&o->lock, NULL);
    pthread_cond_init(&o->changed, NULL);
    if (start_opening(o, &thread) == 0) {
        while (!done && !stopped) {
            Py_BEGIN_ALLOW_THREADS done = wait_100ms(o);
            Py_END_ALLOW_THREADS stopped = PyErr_CheckSignals() < 0;
        }
        atomic_store(&o->stop, stopped);
        Py_BEGIN_ALLOW_THREADS pthread_join(thread, NULL);
        Py_END_ALLOW_THREADS
    } else {
        open_it(o);
    }
    pthread_cond_destroy(&o->changed);
    pthread_mutex_destroy(&o->lock);
    if (stopped && o->rc == 0)
        stk_dataset_close(o->ds);
    else if (!stopped && o->rc < 0)
        stk_py_raise(&o->err);
    return stopped || o->rc < 0 ? -1 : 0;
}

/* 0, or -1 with an exception and nothing to release. */
static int take_arguments(struct opening *o, PyObject *args, PyObject *kwargs)
{
    PyObject *path = NULL;
    if (!PyArg_ParseTuple(args, "O&", PyUnicode_FSConverter, &path))
        return -1;
    o->path = stk_arena_dup(&o->arena, PyBytes_AsString(path), (size_t)PyBytes_Size(path));
    Py_DECREF(path);
    if (o->path)
        return stk_py_options_take(stk_open_opts, kwargs, &o->opts, &o->arena);
    PyErr_NoMemory();
    return -1;
}

/* Dataset(path, **options) */
static PyObject *dataset_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    struct opening o = {0};
    if (take_arguments(&o, args, kwargs) < 0)
        return NULL;
    struct stk_py_dataset *d = open_dataset(&o) == 0 ? stk_py_new(type) : NULL;
    if (d) {
        d->ds = o.ds;
        d->pid = getpid();
    }
    stk_arena_release(&o.arena);
    return (PyObject *)d;
}

static void dataset_free(PyObject *self)
{
    struct stk_py_dataset *d = (struct stk_py_dataset *)self;
    if (d->ds && d->pid == getpid()) {
        stk_sample_free(d->spare);
        stk_dataset_close(d->ds);
    }
    stk_py_del(self);
}

/* ---- a sample that arrays point into ---- */

struct held {
    PyObject_HEAD struct stk_sample *s;
    PyObject *dataset; /* keys and names may point into its index */
};

static void held_free(PyObject *self)
{
    struct held *h = (struct held *)self;
    struct stk_py_dataset *d = (struct stk_py_dataset *)h->dataset;
    if (d && d->pid == getpid() && h->s) {
        /* One is kept to be filled again, with its buffers. */
        struct stk_sample *old = d->spare;
        d->spare = h->s;
        h->s = old;
    }
    stk_sample_free(h->s);
    Py_XDECREF(h->dataset);
    stk_py_del(self);
}

static struct held *hold_sample(PyObject *dataset)
{
    struct stk_py_dataset *d = (struct stk_py_dataset *)dataset;
    struct held *h = stk_py_new(held_type);
    if (!h)
        return NULL;
    h->s = d->spare ? d->spare : stk_sample_new();
    d->spare = NULL;
    Py_INCREF(dataset);
    h->dataset = dataset;
    if (!h->s) {
        Py_DECREF((PyObject *)h);
        PyErr_NoMemory();
        return NULL;
    }
    return h;
}

static int put(PyObject *dict, PyObject *name, PyObject *value)
{
    int rc = name && value ? PyDict_SetItem(dict, name, value) : -1;
    Py_XDECREF(name);
    Py_XDECREF(value);
    return rc;
}

static PyObject *dict_of(struct held *h)
{
    PyObject *dict = PyDict_New();
    size_t len, n = stk_sample_nfields(h->s);
    const char *key = stk_sample_key(h->s, &len);
    if (!dict)
        return NULL;
    int rc = put(dict, PyUnicode_FromString("key"), stk_py_text(key ? key : "", key ? len : 0));
    for (size_t i = 0; rc == 0 && i < n; i++) {
        const struct stk_field *f = stk_sample_field(h->s, i);
        PyObject *name = stk_py_text(f->name, f->name_len);
        rc = put(dict, name, name ? stk_py_value(&f->value, (PyObject *)h, false) : NULL);
    }
    if (rc < 0)
        Py_CLEAR(dict);
    return dict;
}

/* read(i) -> {"key": ..., field: value, ...} */
static PyObject *dataset_read(PyObject *self, PyObject *number)
{
    struct stk_py_dataset *d = (struct stk_py_dataset *)self;
    unsigned long long i = PyLong_AsUnsignedLongLong(number);
    if (PyErr_Occurred())
        return NULL;
    struct held *h = hold_sample(self);
    if (!h)
        return NULL;
    struct stk_err err = {0};
    int rc;
    Py_BEGIN_ALLOW_THREADS rc = stk_dataset_read(d->ds, i, h->s, &err);
    Py_END_ALLOW_THREADS PyObject *dict = rc < 0 ? stk_py_raise(&err) : dict_of(h);
    Py_DECREF((PyObject *)h);
    return dict;
}

static Py_ssize_t dataset_len(PyObject *self)
{
    return (Py_ssize_t)stk_dataset_len(((struct stk_py_dataset *)self)->ds);
}

static PyObject *dataset_format(PyObject *self, void *unused)
{
    (void)unused;
    return PyUnicode_FromString(stk_dataset_format(((struct stk_py_dataset *)self)->ds));
}

static PyObject *dataset_pid(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromLong(((struct stk_py_dataset *)self)->pid);
}

static PyObject *dataset_classes(PyObject *self, void *unused)
{
    const char *const *name;
    size_t n = stk_dataset_classes(((struct stk_py_dataset *)self)->ds, &name);
    PyObject *t = PyTuple_New((Py_ssize_t)n);
    (void)unused;
    for (size_t i = 0; t && i < n; i++) {
        PyObject *text = stk_py_text(name[i], strlen(name[i]));
        if (!text || PyTuple_SetItem(t, (Py_ssize_t)i, text) < 0)
            Py_CLEAR(t);
    }
    return t;
}

/* (taken, kind, as, why, count, (name, ...)) */
static PyObject *note_tuple(const struct stk_note *x)
{
    PyObject *names = PyTuple_New((Py_ssize_t)x->nnames);
    for (size_t i = 0; names && i < x->nnames; i++) {
        PyObject *text = stk_py_text(x->name[i], strlen(x->name[i]));
        if (!text || PyTuple_SetItem(names, (Py_ssize_t)i, text) < 0)
            Py_CLEAR(names);
    }
    PyObject *why = stk_py_text(x->why, strlen(x->why)), *as = stk_py_text(x->as, strlen(x->as));
    PyObject *t = names && why && as
                      ? Py_BuildValue("(OsOOKO)", x->taken ? Py_True : Py_False, x->kind, as, why,
                                      (unsigned long long)x->count, names)
                      : NULL;
    Py_XDECREF(names);
    Py_XDECREF(why);
    Py_XDECREF(as);
    return t;
}

static PyObject *dataset_notes(PyObject *self, void *unused)
{
    PyObject *list = PyList_New(0);
    const struct stk_note *x;
    (void)unused;
    for (size_t i = 0; list && (x = stk_dataset_note(((struct stk_py_dataset *)self)->ds, i));
         i++) {
        PyObject *t = note_tuple(x);
        if (!t || PyList_Append(list, t) < 0)
            Py_CLEAR(list);
        Py_XDECREF(t);
    }
    return list;
}

static PyGetSetDef getters[] = {
    {"format", dataset_format, NULL, NULL, NULL},
    {"classes", dataset_classes, NULL, NULL, NULL},
    {"notes", dataset_notes, NULL, NULL, NULL},
    {"pid", dataset_pid, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef methods[] = {
    {"read", dataset_read, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, SLOT(dataset_new)}, {Py_tp_dealloc, SLOT(dataset_free)}, {Py_tp_getset, getters},
    {Py_tp_methods, methods},       {Py_sq_length, SLOT(dataset_len)},   {0, NULL},
};
static PyType_Spec spec = {"stoker._stoker.Dataset", sizeof(struct stk_py_dataset), 0,
                           Py_TPFLAGS_DEFAULT, slots};

static PyType_Slot held_slots[] = {
    {Py_tp_new, SLOT(stk_py_refuse)}, {Py_tp_dealloc, SLOT(held_free)}, {0, NULL}};
static PyType_Spec held_spec = {"stoker._stoker.Sample", sizeof(struct held), 0, Py_TPFLAGS_DEFAULT,
                                held_slots};

int stk_py_dataset_init(PyObject *module)
{
    stk_py_dataset_type = stk_py_type(module, &spec, "Dataset");
    held_type = stk_py_type(module, &held_spec, "Sample");
    return stk_py_dataset_type && held_type ? 0 : -1;
}
