/*
 * batch.c - a batch of the loader as Python objects, made when they are asked for: dense columns
 * are arrays in the batch's memory, byte strings a Column of views. Each of them holds the batch;
 * its memory goes back to the loader when the last one has gone.
 */
#include "pystk.h"

#include <unistd.h>

static PyTypeObject *batch_type, *column_type;

/* ---- a column of byte strings ---- */

struct column {
    PyObject_HEAD PyObject *batch;
    const struct stk_span *span;
    Py_ssize_t n;
};

static void column_free(PyObject *self)
{
    Py_XDECREF(((struct column *)self)->batch);
    stk_py_del(self);
}

static Py_ssize_t column_len(PyObject *self)
{
    return ((struct column *)self)->n;
}

static const struct stk_span *span_at(struct column *c, Py_ssize_t i)
{
    if (i >= 0 && i < c->n)
        return &c->span[i];
    PyErr_SetString(PyExc_IndexError, "out of the batch");
    return NULL;
}

/* column[i]: a view of the bytes, uint8. */
static PyObject *column_item(PyObject *self, Py_ssize_t i)
{
    struct column *c = (struct column *)self;
    const struct stk_span *s = span_at(c, i);
    if (!s)
        return NULL;
    struct stk_py_layout l = {.dtype = STK_U8, .ndim = 1, .dim = {s->size}};
    return stk_py_array_wrap(stk_py_array_view(c->batch, s->data, &l, true));
}

static PyObject *bytes_of(const struct stk_span *s)
{
    return PyBytes_FromStringAndSize(s->data, (Py_ssize_t)s->size);
}

static PyObject *column_bytes(PyObject *self, PyObject *number)
{
    struct column *c = (struct column *)self;
    Py_ssize_t i = PyLong_AsSsize_t(number);
    if (i == -1 && PyErr_Occurred())
        return NULL;
    const struct stk_span *s = span_at(c, i < 0 ? i + c->n : i);
    return s ? bytes_of(s) : NULL;
}

/* A list of make(span) for all of them. */
static PyObject *list_of(const struct stk_span *span, Py_ssize_t n,
                         PyObject *(*make)(const struct stk_span *s))
{
    PyObject *list = PyList_New(n);
    for (Py_ssize_t i = 0; list && i < n; i++) {
        PyObject *item = make(&span[i]);
        if (!item || PyList_SetItem(list, i, item) < 0)
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *column_tolist(PyObject *self, PyObject *unused)
{
    (void)unused;
    return list_of(((struct column *)self)->span, ((struct column *)self)->n, bytes_of);
}

static PyObject *column_sizes(PyObject *self, PyObject *unused)
{
    struct column *c = (struct column *)self;
    struct stk_py_layout l = {.dtype = STK_I64, .ndim = 1, .dim = {(uint64_t)c->n}};
    PyObject *a = stk_py_array_copy(NULL, &l);
    (void)unused;
    for (Py_ssize_t i = 0; a && i < c->n; i++)
        ((int64_t *)((struct stk_py_array *)a)->data)[i] = (int64_t)c->span[i].size;
    return stk_py_array_wrap(a);
}

/* One array of all the bytes, in memory of its own. */
static PyObject *column_concat(PyObject *self, PyObject *unused)
{
    struct column *c = (struct column *)self;
    size_t total = 0, at = 0;
    (void)unused;
    for (Py_ssize_t i = 0; i < c->n; i++)
        if (__builtin_add_overflow(total, c->span[i].size, &total))
            return PyErr_NoMemory();
    struct stk_py_layout l = {.dtype = STK_U8, .ndim = 1, .dim = {total}};
    PyObject *a = stk_py_array_copy(NULL, &l);
    if (!a)
        return NULL;
    char *out = ((struct stk_py_array *)a)->data;
    Py_BEGIN_ALLOW_THREADS for (Py_ssize_t i = 0; i < c->n; i++)
    {
        if (c->span[i].size)
            memcpy(out + at, c->span[i].data, c->span[i].size);
        at += c->span[i].size;
    }
    Py_END_ALLOW_THREADS return stk_py_array_wrap(a);
}

static PyMethodDef column_methods[] = {
    {"bytes", column_bytes, METH_O, "bytes(i): a copy of byte string i."},
    {"tolist", column_tolist, METH_NOARGS, "All of them as a list of bytes."},
    {"sizes", column_sizes, METH_NOARGS, "How long each is: an int64 array."},
    {"concat", column_concat, METH_NOARGS, "All of them one after another: a uint8 array."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot column_slots[] = {
    {Py_tp_doc, "Byte strings of a batch. c[i] is a view (uint8, read-only) that keeps the batch\n"
                "alive; c.bytes(i) and c.tolist() are copies."},
    {Py_tp_new, SLOT(stk_py_refuse)},
    {Py_tp_dealloc, SLOT(column_free)},
    {Py_tp_methods, column_methods},
    {Py_sq_length, SLOT(column_len)},
    {Py_sq_item, SLOT(column_item)},
    {0, NULL},
};
static PyType_Spec column_spec = {"stoker.Column", sizeof(struct column), 0, Py_TPFLAGS_DEFAULT,
                                  column_slots};

/* ---- the batch ---- */

PyObject *stk_py_batch_new(struct stk_batch *b, PyObject *dataset, PyObject *pool)
{
    struct stk_py_batch *o = stk_py_new(batch_type);
    if (!o) {
        stk_batch_release(b);
        return NULL;
    }
    o->b = b;
    o->pid = getpid();
    Py_INCREF(dataset);
    o->dataset = dataset;
    Py_XINCREF(pool);
    o->pool = pool;
    return (PyObject *)o;
}

static void batch_free(PyObject *self)
{
    struct stk_py_batch *o = (struct stk_py_batch *)self;
    /* In a forked child the loader's locks may be held by threads that are not there. */
    if (o->b && o->pid == getpid()) {
        Py_BEGIN_ALLOW_THREADS stk_batch_release(o->b);
        Py_END_ALLOW_THREADS
    }
    Py_XDECREF(o->pool);
    Py_XDECREF(o->dataset);
    stk_py_del(self);
}

/* A sample without the field has no bytes at all. */
static PyObject *text_of(const struct stk_span *s)
{
    if (!s->data)
        return Py_BuildValue("");
    return stk_py_text(s->data, s->size);
}

static PyObject *json_of(const struct stk_span *s)
{
    if (!s->data)
        return Py_BuildValue("");
    struct stk_value v = {.kind = STK_JSON, .data = s->data, .size = s->size};
    return stk_py_value(&v, NULL, true);
}

static PyObject *spans(struct stk_py_batch *o, const struct stk_column *c)
{
    Py_ssize_t n = (Py_ssize_t)o->b->n;
    if (c->kind == STK_TEXT || c->kind == STK_JSON)
        return list_of(c->span, n, c->kind == STK_TEXT ? text_of : json_of);
    struct column *out = stk_py_new(column_type);
    if (!out)
        return NULL;
    Py_INCREF((PyObject *)o);
    out->batch = (PyObject *)o;
    out->span = c->span;
    out->n = n;
    return (PyObject *)out;
}

static PyObject *values(struct stk_py_batch *o, const struct stk_column *c)
{
    PyObject *list = PyList_New((Py_ssize_t)o->b->n);
    for (size_t i = 0; list && i < o->b->n; i++) {
        PyObject *item = stk_py_value(&c->value[i], (PyObject *)o, true);
        if (!item || PyList_SetItem(list, (Py_ssize_t)i, item) < 0)
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *dense(struct stk_py_batch *o, const struct stk_column *c)
{
    struct stk_py_layout l = {.dtype = c->dtype, .ndim = c->ndim + 1, .dim = {o->b->n}};
    for (int i = 0; i < c->ndim && i < STK_MAX_NDIM; i++)
        l.dim[i + 1] = c->dim[i];
    return stk_py_array_wrap(stk_py_array_view((PyObject *)o, c->data, &l, false));
}

static const struct stk_column *find(const struct stk_batch *b, const char *name)
{
    for (size_t i = 0; i < b->ncolumns; i++)
        if (strcmp(b->column[i].name, name) == 0)
            return &b->column[i];
    return NULL;
}

/* column(name) -> ndarray, Column or list */
static PyObject *batch_column(PyObject *self, PyObject *name)
{
    struct stk_py_batch *o = (struct stk_py_batch *)self;
    PyObject *bytes = PyUnicode_AsEncodedString(name, "utf-8", "surrogateescape");
    if (!bytes)
        return NULL;
    const struct stk_column *c = find(o->b, PyBytes_AsString(bytes));
    bool keys = o->b->key && strcmp(PyBytes_AsString(bytes), "key") == 0;
    Py_DECREF(bytes);
    if (keys)
        return list_of(o->b->key, (Py_ssize_t)o->b->n, text_of);
    if (!c)
        PyErr_SetObject(PyExc_KeyError, name);
    return !c                       ? NULL
           : c->layout == STK_DENSE ? dense(o, c)
           : c->layout == STK_SPANS ? spans(o, c)
                                    : values(o, c);
}

/* Sample i of a column; kind 0: it has no such field. */
static struct stk_value cell(const struct stk_column *c, size_t i)
{
    if (c->layout == STK_VALUES)
        return c->value[i];
    if (c->layout == STK_SPANS)
        return (struct stk_value){.kind = c->span[i].data ? c->kind : 0,
                                  .data = c->span[i].data,
                                  .size = c->span[i].size};
    struct stk_value v = {.kind = STK_ARRAY, .dtype = c->dtype, .ndim = c->ndim};
    v.size = stk_dtype_size((enum stk_dtype)c->dtype);
    for (int k = 0; k < c->ndim; k++) {
        v.dim[k] = c->dim[k];
        v.size *= c->dim[k];
    }
    v.data = (const char *)c->data + i * v.size;
    return v;
}

static int put_cell(PyObject *dict, const struct stk_column *c, size_t i, PyObject *owner)
{
    struct stk_value v = cell(c, i);
    PyObject *name = v.kind ? stk_py_text(c->name, strlen(c->name)) : NULL;
    PyObject *value = name ? stk_py_value(&v, owner, c->layout != STK_DENSE) : NULL;
    int rc = !v.kind ? 0 : name && value ? PyDict_SetItem(dict, name, value) : -1;
    Py_XDECREF(name);
    Py_XDECREF(value);
    return rc;
}

/* sample(i) -> {"key": ..., field: value, ...}, as a Dataset gives it; arrays are views */
static PyObject *batch_sample(PyObject *self, PyObject *number)
{
    struct stk_py_batch *o = (struct stk_py_batch *)self;
    size_t i = PyLong_AsSize_t(number);
    if (PyErr_Occurred())
        return NULL;
    if (i >= o->b->n) {
        PyErr_SetString(PyExc_IndexError, "out of the batch");
        return NULL;
    }
    PyObject *dict = PyDict_New(), *key = NULL;
    int rc = dict ? 0 : -1;
    if (rc == 0 && o->b->key) {
        key = text_of(&o->b->key[i]);
        rc = key ? PyDict_SetItemString(dict, "key", key) : -1;
        Py_XDECREF(key);
    }
    for (size_t c = 0; rc == 0 && c < o->b->ncolumns; c++)
        rc = put_cell(dict, &o->b->column[c], i, self);
    if (rc < 0)
        Py_CLEAR(dict);
    return dict;
}

static PyObject *batch_names(PyObject *self, PyObject *unused)
{
    struct stk_py_batch *o = (struct stk_py_batch *)self;
    size_t keys = o->b->key ? 1 : 0;
    PyObject *t = PyTuple_New((Py_ssize_t)(o->b->ncolumns + keys));
    (void)unused;
    for (size_t i = 0; t && i < o->b->ncolumns + keys; i++) {
        const char *name = i < keys ? "key" : o->b->column[i - keys].name;
        PyObject *text = stk_py_text(name, strlen(name));
        if (!text || PyTuple_SetItem(t, (Py_ssize_t)i, text) < 0)
            Py_CLEAR(t);
    }
    return t;
}

/* ids(numbers=None) -> which samples; numbers: bytes of uint64, what the samples that were gone
 * through are called elsewhere */
static PyObject *batch_ids(PyObject *self, PyObject *args)
{
    struct stk_py_batch *o = (struct stk_py_batch *)self;
    struct stk_py_layout l = {.dtype = STK_U64, .ndim = 1, .dim = {o->b->n}};
    const char *number = NULL;
    Py_ssize_t size = 0;
    if (!PyArg_ParseTuple(args, "|z#", &number, &size))
        return NULL;
    if (!number)
        return stk_py_array_wrap(stk_py_array_view(self, o->b->id, &l, true));
    PyObject *a = stk_py_array_copy(o->b->id, &l);
    uint64_t *id = a ? ((struct stk_py_array *)a)->data : NULL;
    for (size_t i = 0; id && i < o->b->n; i++)
        if (id[i] < (uint64_t)size / sizeof *id)
            memcpy(&id[i], number + id[i] * sizeof *id, sizeof *id);
    return stk_py_array_wrap(a);
}

static PyObject *batch_flags(PyObject *self, PyObject *unused)
{
    struct stk_py_batch *o = (struct stk_py_batch *)self;
    struct stk_py_layout l = {.dtype = STK_U8, .ndim = 1, .dim = {o->b->n}};
    (void)unused;
    return stk_py_array_wrap(stk_py_array_view(self, o->b->flags, &l, true));
}

static Py_ssize_t batch_len(PyObject *self)
{
    return (Py_ssize_t)((struct stk_py_batch *)self)->b->n;
}

static PyObject *batch_epoch(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLongLong(((struct stk_py_batch *)self)->b->epoch);
}

static PyObject *batch_step(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLongLong(((struct stk_py_batch *)self)->b->step);
}

static PyGetSetDef batch_getters[] = {
    {"epoch", batch_epoch, NULL, NULL, NULL},
    {"step", batch_step, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef batch_methods[] = {
    {"column", batch_column, METH_O, NULL},    {"sample", batch_sample, METH_O, NULL},
    {"names", batch_names, METH_NOARGS, NULL}, {"ids", batch_ids, METH_VARARGS, NULL},
    {"flags", batch_flags, METH_NOARGS, NULL}, {NULL, NULL, 0, NULL},
};

static PyType_Slot batch_slots[] = {
    {Py_tp_new, SLOT(stk_py_refuse)}, {Py_tp_dealloc, SLOT(batch_free)},
    {Py_tp_getset, batch_getters},    {Py_tp_methods, batch_methods},
    {Py_sq_length, SLOT(batch_len)},  {0, NULL},
};
static PyType_Spec batch_spec = {"stoker._stoker.Batch", sizeof(struct stk_py_batch), 0,
                                 Py_TPFLAGS_DEFAULT, batch_slots};

int stk_py_batch_init(PyObject *module)
{
    batch_type = stk_py_type(module, &batch_spec, "Batch");
    column_type = stk_py_type(module, &column_spec, "Column");
    return batch_type && column_type ? 0 : -1;
}
