/*
 * dataset.c - a handle on an open dataset, and reading single samples into Python objects. The
 * handle has no close(): it goes when the last array, batch or loader that needs it has gone. A
 * process that was forked only forgets it, since its locks may be held by threads that are not
 * there.
 */
#include "pystk.h"
#include "dataset/dataset.h"
#include "dataset/open_options.h"
#include "host/fs.h"

#include <stdlib.h>
#include <unistd.h>

PyTypeObject *stk_py_dataset_type;
static PyTypeObject *held_type;

/* ---- opening ---- */

struct opening {
    struct stk_py_call call;
    struct stk_arena arena; /* what path and options point to */
    const char *path;
    struct stk_open_options opts;
    struct stk_dataset *ds;
    bool may_stall;
    struct stk_err err;
    int rc;
};

static int on_progress(void *user, uint64_t done, uint64_t total, uint64_t samples)
{
    struct opening *o = user;
    (void)done;
    (void)total;
    (void)samples;
    return atomic_load(&o->call.stop);
}

static void open_it(struct stk_py_call *c)
{
    struct opening *o = (struct opening *)c;
    o->rc = stk_dataset_open(o->path, &o->opts, &o->ds, &o->err);
    if (o->rc == 0)
        o->may_stall =
            !stk_files_are_local(&o->ds->files) || !stk_fs_is_local(stk_fs_of_fd(o->ds->index.fd));
}

static void drop_opening(struct stk_py_call *c)
{
    struct opening *o = (struct opening *)c;
    stk_dataset_close(o->ds);
    stk_arena_release(&o->arena);
    free(o);
}

/* 0, or -1 with an exception and nothing to release. */
static int take_arguments(struct opening *o, PyObject *args, PyObject *kwargs)
{
    PyObject *path = NULL;
    if (!PyArg_ParseTuple(args, "O&", PyUnicode_FSConverter, &path))
        return -1;
    o->path = stk_arena_dup(&o->arena, PyBytes_AsString(path), (size_t)PyBytes_Size(path));
    Py_DECREF(path);
    o->opts.progress = on_progress;
    o->opts.user = o;
    if (o->path)
        return stk_py_options_take(stk_open_opts, kwargs, &o->opts, &o->arena);
    PyErr_NoMemory();
    return -1;
}

/* The dataset of an opening that was made. */
static struct stk_py_dataset *opened(PyTypeObject *type, struct opening *o)
{
    struct stk_py_dataset *d = o->rc == 0 ? stk_py_new(type) : NULL;
    if (d) {
        d->ds = o->ds;
        d->may_stall = o->may_stall;
        d->pid = getpid();
        o->ds = NULL;
    } else if (o->rc < 0) {
        stk_py_raise(&o->err);
    }
    return d;
}

/* Dataset(path, **options) */
static PyObject *dataset_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    struct opening *o = calloc(1, sizeof *o);
    if (!o)
        return PyErr_NoMemory();
    o->call = (struct stk_py_call){.run = open_it, .drop = drop_opening};
    if (take_arguments(o, args, kwargs) < 0) {
        free(o);
        return NULL;
    }
    if (stk_py_call(&o->call, true) < 0)
        return NULL;
    struct stk_py_dataset *d = opened(type, o);
    drop_opening(&o->call);
    return (PyObject *)d;
}

/* ---- closing ---- */

struct closing {
    struct stk_py_call call;
    struct stk_dataset *ds;
    struct stk_sample *spare;
};

static void close_it(struct stk_py_call *c)
{
    struct closing *x = (struct closing *)c;
    stk_sample_free(x->spare);
    stk_dataset_close(x->ds);
}

static void drop_closing(struct stk_py_call *c)
{
    free(c);
}

static void dataset_free(PyObject *self)
{
    struct stk_py_dataset *d = (struct stk_py_dataset *)self;
    struct closing *x = d->ds && d->pid == getpid() ? malloc(sizeof *x) : NULL;
    if (x) {
        *x = (struct closing){
            .call = {.run = close_it, .drop = drop_closing}, .ds = d->ds, .spare = d->spare};
        stk_py_call_last(&x->call, d->may_stall);
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

/* Takes s, also on error. */
static struct held *hold_sample(PyObject *dataset, struct stk_sample *s)
{
    struct held *h = stk_py_new(held_type);
    if (!h) {
        stk_sample_free(s);
        return NULL;
    }
    h->s = s;
    Py_INCREF(dataset);
    h->dataset = dataset;
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

struct reading {
    struct stk_py_call call;
    struct stk_dataset *ds; /* kept */
    uint64_t number;
    struct stk_sample *s;
    struct stk_err err;
    int rc;
};

static void read_it(struct stk_py_call *c)
{
    struct reading *r = (struct reading *)c;
    r->rc = stk_dataset_read(r->ds, r->number, r->s, &r->err);
}

static void drop_reading(struct stk_py_call *c)
{
    struct reading *r = (struct reading *)c;
    stk_sample_free(r->s);
    stk_dataset_close(r->ds);
    free(r);
}

static struct reading *new_reading(struct stk_py_dataset *d, uint64_t number)
{
    struct reading *r = malloc(sizeof *r);
    struct stk_sample *s = d->spare ? d->spare : stk_sample_new();
    d->spare = NULL;
    if (!r || !s) {
        free(r);
        stk_sample_free(s);
        PyErr_NoMemory();
        return NULL;
    }
    r->call = (struct stk_py_call){.run = read_it, .drop = drop_reading, .often = true};
    stk_dataset_keep(d->ds);
    r->ds = d->ds;
    r->number = number;
    r->s = s;
    r->err.code = 0;
    return r;
}

/* read(i) -> {"key": ..., field: value, ...} */
static PyObject *dataset_read(PyObject *self, PyObject *number)
{
    struct stk_py_dataset *d = (struct stk_py_dataset *)self;
    unsigned long long i = PyLong_AsUnsignedLongLong(number);
    if (PyErr_Occurred())
        return NULL;
    struct reading *r = new_reading(d, i);
    if (!r || stk_py_call(&r->call, d->may_stall) < 0)
        return NULL;
    struct held *h = hold_sample(self, r->s);
    PyObject *dict = NULL;
    r->s = NULL;
    if (h)
        dict = r->rc < 0 ? stk_py_raise(&r->err) : dict_of(h);
    Py_XDECREF((PyObject *)h);
    drop_reading(&r->call);
    return dict;
}

/* ---- several at once ---- */

struct many {
    struct stk_py_call call;
    struct stk_dataset *ds; /* kept */
    uint64_t *number;
    struct stk_sample **s;
    size_t n;
    struct stk_err err;
    int rc;
};

static void read_them(struct stk_py_call *c)
{
    struct many *m = (struct many *)c;
    m->rc = stk_dataset_read_many(m->ds, m->number, m->n, m->s, &m->err);
}

static void drop_many(struct stk_py_call *c)
{
    struct many *m = (struct many *)c;
    for (size_t i = 0; m->s && i < m->n; i++)
        stk_sample_free(m->s[i]);
    free(m->s);
    free(m->number);
    stk_dataset_close(m->ds);
    free(m);
}

/* NULL with an exception. */
static struct many *new_many(struct stk_py_dataset *d, const char *numbers, size_t n)
{
    struct many *m = calloc(1, sizeof *m);
    if (!m) {
        PyErr_NoMemory();
        return NULL;
    }
    m->call = (struct stk_py_call){.run = read_them, .drop = drop_many, .often = true};
    stk_dataset_keep(d->ds);
    m->ds = d->ds;
    m->n = n;
    m->number = malloc(n * sizeof *m->number + 1);
    m->s = calloc(n + 1, sizeof(struct stk_sample *));
    bool ok = m->number && m->s;
    for (size_t i = 0; ok && i < n; i++)
        ok = (m->s[i] = stk_sample_new()) != NULL;
    if (!ok) {
        drop_many(&m->call);
        PyErr_NoMemory();
        return NULL;
    }
    memcpy(m->number, numbers, n * sizeof *m->number);
    return m;
}

static PyObject *list_of_samples(PyObject *self, struct many *m)
{
    PyObject *list = PyList_New((Py_ssize_t)m->n);
    for (size_t i = 0; list && i < m->n; i++) {
        struct held *h = hold_sample(self, m->s[i]);
        m->s[i] = NULL;
        PyObject *dict = h ? dict_of(h) : NULL;
        Py_XDECREF((PyObject *)h);
        if (!dict || PyList_SetItem(list, (Py_ssize_t)i, dict) < 0)
            Py_CLEAR(list);
    }
    return list;
}

/* read_many(numbers) -> [{"key": ..., field: value, ...}, ...]; numbers: bytes of uint64 */
static PyObject *dataset_read_many(PyObject *self, PyObject *numbers)
{
    struct stk_py_dataset *d = (struct stk_py_dataset *)self;
    char *p;
    Py_ssize_t size;
    if (PyBytes_AsStringAndSize(numbers, &p, &size) < 0)
        return NULL;
    struct many *m = new_many(d, p, (size_t)size / sizeof(uint64_t));
    if (!m || stk_py_call(&m->call, d->may_stall) < 0)
        return NULL;
    PyObject *list = m->rc < 0 ? stk_py_raise(&m->err) : list_of_samples(self, m);
    drop_many(&m->call);
    return list;
}

/* ---- some of its samples ---- */

/* A dataset of the same files. Takes ds, also on error; rc < 0: there is none. */
static PyObject *part_of(PyObject *self, struct stk_dataset *ds, int rc, const struct stk_err *err)
{
    struct stk_py_dataset *d = rc < 0 ? NULL : stk_py_new(stk_py_dataset_type);
    if (d) {
        d->ds = ds;
        d->may_stall = ((struct stk_py_dataset *)self)->may_stall;
        d->pid = getpid();
    } else if (rc < 0) {
        stk_py_raise(err);
    } else {
        stk_dataset_close(ds);
    }
    return (PyObject *)d;
}

/* subset(numbers) -> Dataset; numbers: bytes of uint64 */
static PyObject *dataset_subset(PyObject *self, PyObject *numbers)
{
    struct stk_dataset *ds = NULL;
    struct stk_err err = {0};
    char *p;
    Py_ssize_t size;
    int rc;
    if (PyBytes_AsStringAndSize(numbers, &p, &size) < 0)
        return NULL;
    struct stk_dataset *of = ((struct stk_py_dataset *)self)->ds;
    Py_BEGIN_ALLOW_THREADS rc =
        stk_dataset_subset(of, (void *)p, (uint64_t)size / sizeof(uint64_t), &ds, &err);
    Py_END_ALLOW_THREADS return part_of(self, ds, rc, &err);
}

/* slice(first, step, n) -> Dataset */
static PyObject *dataset_slice(PyObject *self, PyObject *args)
{
    struct stk_dataset *ds = NULL;
    struct stk_err err = {0};
    unsigned long long first, n;
    long long step;
    if (!PyArg_ParseTuple(args, "KLK", &first, &step, &n))
        return NULL;
    int rc = stk_dataset_slice(((struct stk_py_dataset *)self)->ds, first, step, n, &ds, &err);
    return part_of(self, ds, rc, &err);
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

struct classes {
    struct stk_py_call call;
    struct stk_dataset *ds; /* kept */
    const char *const *name;
    size_t n;
};

static void find_classes(struct stk_py_call *c)
{
    struct classes *x = (struct classes *)c;
    x->n = stk_dataset_classes(x->ds, &x->name);
}

static void drop_classes(struct stk_py_call *c)
{
    struct classes *x = (struct classes *)c;
    stk_dataset_close(x->ds);
    free(x);
}

static PyObject *text_tuple(const char *const *text, size_t n)
{
    PyObject *t = PyTuple_New((Py_ssize_t)n);
    for (size_t i = 0; t && i < n; i++) {
        PyObject *one = stk_py_text(text[i], strlen(text[i]));
        if (!one || PyTuple_SetItem(t, (Py_ssize_t)i, one) < 0)
            Py_CLEAR(t);
    }
    return t;
}

/* The first time, the index is gone through. */
static PyObject *dataset_classes(PyObject *self, void *unused)
{
    struct stk_py_dataset *d = (struct stk_py_dataset *)self;
    struct classes *x = calloc(1, sizeof *x);
    (void)unused;
    if (!x)
        return PyErr_NoMemory();
    x->call = (struct stk_py_call){.run = find_classes, .drop = drop_classes};
    stk_dataset_keep(d->ds);
    x->ds = d->ds;
    if (stk_py_call(&x->call, d->may_stall) < 0)
        return NULL;
    PyObject *t = text_tuple(x->name, x->n);
    drop_classes(&x->call);
    return t;
}

/* (taken, kind, as, why, count, (name, ...)) */
static PyObject *note_tuple(const struct stk_note *x)
{
    PyObject *names = text_tuple(x->name, x->nnames);
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
    {"read_many", dataset_read_many, METH_O, NULL},
    {"subset", dataset_subset, METH_O, NULL},
    {"slice", dataset_slice, METH_VARARGS, NULL},
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
