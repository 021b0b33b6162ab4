/*
 * array.c - stoker.Array: memory with a type and a shape that keeps its owner alive. NumPy sees it
 * through __array_struct__, everybody else through __array_interface__ and DLPack. Also turns
 * values of samples into Python objects.
 */
#include "pystk.h"

#include <stdlib.h>

static PyTypeObject *array_type;
static uint8_t nothing[64]; /* where arrays without elements point */

/* ---- types of elements ---- */

static char kind_letter(uint8_t dtype)
{
    switch (dtype) {
    case STK_BOOL:
        return 'b';
    case STK_F16:
    case STK_F32:
    case STK_F64:
        return 'f';
    case STK_I8:
    case STK_I16:
    case STK_I32:
    case STK_I64:
        return 'i';
    default:
        return 'u';
    }
}

static double half(uint16_t h)
{
    int exponent = h >> 10 & 31;
    double m = h & 1023, sign = h & 0x8000 ? -1 : 1;
    if (exponent == 31)
        return sign * (m != 0.0 ? (double)__builtin_nanf("") : (double)__builtin_inff());
    double unit = exponent ? (double)(1ull << (exponent - 1)) : 1.0; /* in 2^-24 */
    return sign * (m + (exponent ? 1024 : 0)) * unit / 16777216.0;
}

#define LOAD(type, p)                                                                              \
    ({                                                                                             \
        type v_;                                                                                   \
        memcpy(&v_, p, sizeof v_);                                                                 \
        v_;                                                                                        \
    })

PyObject *stk_py_scalar(const void *p, uint8_t dtype)
{
    switch (dtype) {
    case STK_U8:
        return PyLong_FromLong(LOAD(uint8_t, p));
    case STK_I8:
        return PyLong_FromLong(LOAD(int8_t, p));
    case STK_U16:
        return PyLong_FromLong(LOAD(uint16_t, p));
    case STK_I16:
        return PyLong_FromLong(LOAD(int16_t, p));
    case STK_U32:
        return PyLong_FromUnsignedLong(LOAD(uint32_t, p));
    case STK_I32:
        return PyLong_FromLong(LOAD(int32_t, p));
    case STK_U64:
        return PyLong_FromUnsignedLongLong(LOAD(uint64_t, p));
    case STK_I64:
        return PyLong_FromLongLong(LOAD(int64_t, p));
    case STK_F16:
        return PyFloat_FromDouble(half(LOAD(uint16_t, p)));
    case STK_F32:
        return PyFloat_FromDouble((double)LOAD(float, p));
    case STK_F64:
        return PyFloat_FromDouble(LOAD(double, p));
    case STK_BOOL:
        return PyBool_FromLong(LOAD(uint8_t, p) != 0);
    default:
        PyErr_SetString(PyExc_ValueError, "a value of an unknown type");
        return NULL;
    }
}

/* ---- making arrays ---- */

static struct stk_py_array *make(const struct stk_py_layout *l)
{
    size_t size = stk_dtype_size((enum stk_dtype)l->dtype);
    bool over = size == 0 || l->ndim > STK_MAX_NDIM + 1;
    struct stk_py_array *a = over ? NULL : stk_py_new(array_type);
    if (!a) {
        if (over)
            PyErr_SetString(PyExc_ValueError, "an array of an unknown type");
        return NULL;
    }
    a->dtype = l->dtype;
    a->ndim = l->ndim;
    /* Strides are those of the shape with no dimension of zero, as NumPy has them. */
    size_t stride = size;
    for (int i = l->ndim; i-- > 0;) {
        a->stride[i] = (Py_ssize_t)stride;
        a->dim[i] = (Py_ssize_t)l->dim[i];
        over |= l->dim[i] > PY_SSIZE_T_MAX || __builtin_mul_overflow(size, l->dim[i], &size);
        over |= l->dim[i] && __builtin_mul_overflow(stride, l->dim[i], &stride);
    }
    a->size = size;
    if (over || size > PY_SSIZE_T_MAX || stride > PY_SSIZE_T_MAX) {
        PyErr_SetString(PyExc_ValueError, "an array that is larger than memory");
        Py_DECREF((PyObject *)a);
        return NULL;
    }
    return a;
}

PyObject *stk_py_array_view(PyObject *owner, const void *data, const struct stk_py_layout *l,
                            bool readonly)
{
    struct stk_py_array *a = make(l);
    if (!a)
        return NULL;
    Py_INCREF(owner);
    a->owner = owner;
    a->data = a->size ? (void *)(uintptr_t)data : nothing;
    a->readonly = readonly;
    return (PyObject *)a;
}

PyObject *stk_py_array_copy(const void *data, const struct stk_py_layout *l)
{
    struct stk_py_array *a = make(l);
    if (!a)
        return NULL;
    a->data = a->size ? malloc(a->size) : nothing;
    if (!a->data) {
        Py_DECREF((PyObject *)a);
        return PyErr_NoMemory();
    }
    if (data && a->size)
        memcpy(a->data, data, a->size);
    return (PyObject *)a;
}

PyObject *stk_py_array_wrap(PyObject *array)
{
    if (!array || !stk_py_hooks.array)
        return array;
    PyObject *given = PyObject_CallFunctionObjArgs(stk_py_hooks.array, array, NULL);
    Py_DECREF(array);
    return given;
}

static void array_free(PyObject *self)
{
    struct stk_py_array *a = (struct stk_py_array *)self;
    if (a->owner)
        Py_DECREF(a->owner);
    else if (a->data != nothing)
        free(a->data);
    stk_py_del(self);
}

/* ---- values of samples ---- */

static PyObject *array_of_value(const struct stk_value *v, PyObject *owner, bool readonly)
{
    size_t size = stk_dtype_size((enum stk_dtype)v->dtype), align = size;
    for (unsigned i = 0; i < v->ndim; i++)
        if (__builtin_mul_overflow(size, v->dim[i], &size))
            size = SIZE_MAX;
    if (v->ndim > STK_MAX_NDIM || align == 0 || size > v->size) {
        PyErr_SetString(PyExc_ValueError, "an array whose size is not that of its bytes");
        return NULL;
    }
    if (v->ndim == 0)
        return stk_py_scalar(v->data, v->dtype);
    struct stk_py_layout l = {.dtype = v->dtype, .ndim = v->ndim};
    memcpy(l.dim, v->dim, sizeof v->dim);
    if ((uintptr_t)v->data % align)
        return stk_py_array_wrap(stk_py_array_copy(v->data, &l));
    return stk_py_array_wrap(stk_py_array_view(owner, v->data, &l, readonly));
}

static PyObject *list_of_value(const struct stk_value *v, PyObject *owner, bool readonly)
{
    PyObject *list = PyList_New((Py_ssize_t)v->nitems);
    for (size_t i = 0; list && i < v->nitems; i++) {
        PyObject *item = stk_py_value(&v->item[i], owner, readonly);
        if (!item || PyList_SetItem(list, (Py_ssize_t)i, item) < 0)
            Py_CLEAR(list);
    }
    return list;
}

PyObject *stk_py_value(const struct stk_value *v, PyObject *owner, bool readonly)
{
    PyObject *out = NULL;
    switch (v->kind) {
    case 0:
        Py_RETURN_NONE;
    case STK_TEXT:
        return stk_py_text(v->data, v->size);
    case STK_JSON:
        out = stk_py_text(v->data, v->size);
        if (out) {
            PyObject *parsed = PyObject_CallFunctionObjArgs(stk_py_hooks.json, out, NULL);
            Py_DECREF(out);
            out = parsed;
        }
        return out;
    case STK_ARRAY:
        return array_of_value(v, owner, readonly);
    case STK_LIST:
        if (Py_EnterRecursiveCall(" in a list of lists") == 0) {
            out = list_of_value(v, owner, readonly);
            Py_LeaveRecursiveCall();
        }
        return out;
    default:
        return PyBytes_FromStringAndSize(v->data, (Py_ssize_t)v->size);
    }
}

/* ---- what an array can do ---- */

static PyObject *shape(PyObject *self, void *unused)
{
    struct stk_py_array *a = (struct stk_py_array *)self;
    PyObject *t = PyTuple_New(a->ndim);
    (void)unused;
    for (int i = 0; t && i < a->ndim; i++) {
        PyObject *n = PyLong_FromSsize_t(a->dim[i]);
        if (!n || PyTuple_SetItem(t, i, n) < 0)
            Py_CLEAR(t);
    }
    return t;
}

static PyObject *dtype(PyObject *self, void *unused)
{
    (void)unused;
    uint8_t type = ((struct stk_py_array *)self)->dtype;
    return PyUnicode_FromString(stk_dtype_name((enum stk_dtype)type));
}

static PyObject *ndim(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromLong(((struct stk_py_array *)self)->ndim);
}

static PyObject *nbytes(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromSize_t(((struct stk_py_array *)self)->size);
}

static PyObject *readonly_of(PyObject *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(((struct stk_py_array *)self)->readonly);
}

static PyObject *interface(PyObject *self, void *unused)
{
    struct stk_py_array *a = (struct stk_py_array *)self;
    size_t size = stk_dtype_size((enum stk_dtype)a->dtype);
    PyObject *dims = shape(self, NULL);
    char type[16];
    (void)unused;
    if (!dims)
        return NULL;
    PyOS_snprintf(type, sizeof type, "%c%c%d", size == 1 ? '|' : '<', kind_letter(a->dtype),
                  (int)size);
    return Py_BuildValue("{s:i,s:N,s:s,s:(NO)}", "version", 3, "shape", dims, "typestr", type,
                         "data", PyLong_FromVoidPtr(a->data), a->readonly ? Py_True : Py_False);
}

/* NumPy's PyArrayInterface: a published layout that does not change. */
struct array_struct {
    int two, nd;
    char typekind;
    int itemsize, flags;
    Py_ssize_t *shape, *strides;
    void *data;
    PyObject *descr;
    Py_ssize_t dims[2 * (STK_MAX_NDIM + 1)];
};

static void free_struct(PyObject *capsule)
{
    PyObject *array = PyCapsule_GetContext(capsule);
    free(PyCapsule_GetPointer(capsule, NULL));
    Py_XDECREF(array);
}

static PyObject *array_struct(PyObject *self, void *unused)
{
    enum { CONTIGUOUS = 1, ALIGNED = 0x100, NOTSWAPPED = 0x200, WRITEABLE = 0x400 };
    struct stk_py_array *a = (struct stk_py_array *)self;
    struct array_struct *s = calloc(1, sizeof *s);
    (void)unused;
    if (!s)
        return PyErr_NoMemory();
    s->two = 2;
    s->nd = a->ndim;
    s->typekind = kind_letter(a->dtype);
    s->itemsize = (int)stk_dtype_size((enum stk_dtype)a->dtype);
    s->flags = CONTIGUOUS | ALIGNED | NOTSWAPPED | (a->readonly ? 0 : WRITEABLE);
    s->shape = s->dims;
    s->strides = s->dims + STK_MAX_NDIM + 1;
    memcpy(s->shape, a->dim, sizeof a->dim);
    memcpy(s->strides, a->stride, sizeof a->stride);
    s->data = a->data;
    PyObject *capsule = PyCapsule_New(s, NULL, free_struct);
    if (!capsule) {
        free(s);
        return NULL;
    }
    Py_INCREF(self);
    PyCapsule_SetContext(capsule, self);
    return capsule;
}

static Py_ssize_t length(PyObject *self)
{
    struct stk_py_array *a = (struct stk_py_array *)self;
    if (a->ndim)
        return a->dim[0];
    PyErr_SetString(PyExc_TypeError, "len() of an array without dimensions");
    return -1;
}

/* array[i]: a number, or a view of one row. */
static PyObject *row(PyObject *self, Py_ssize_t i)
{
    struct stk_py_array *a = (struct stk_py_array *)self;
    if (a->ndim == 0 || i < 0 || i >= a->dim[0]) {
        PyErr_SetString(PyExc_IndexError, "out of the array");
        return NULL;
    }
    const char *p = (const char *)a->data + i * a->stride[0];
    if (a->ndim == 1)
        return stk_py_scalar(p, a->dtype);
    struct stk_py_layout l = {.dtype = a->dtype, .ndim = a->ndim - 1};
    for (int k = 0; k < l.ndim; k++)
        l.dim[k] = (uint64_t)a->dim[k + 1];
    return stk_py_array_view(self, p, &l, a->readonly);
}

static PyObject *tobytes(PyObject *self, PyObject *unused)
{
    struct stk_py_array *a = (struct stk_py_array *)self;
    (void)unused;
    return PyBytes_FromStringAndSize(a->data, (Py_ssize_t)a->size);
}

static PyObject *tolist(PyObject *self, PyObject *unused)
{
    struct stk_py_array *a = (struct stk_py_array *)self;
    if (a->ndim == 0)
        return stk_py_scalar(a->data, a->dtype);
    PyObject *list = PyList_New(a->dim[0]);
    for (Py_ssize_t i = 0; list && i < a->dim[0]; i++) {
        PyObject *item = row(self, i);
        if (item && a->ndim > 1) {
            PyObject *inner = tolist(item, unused);
            Py_DECREF(item);
            item = inner;
        }
        if (!item || PyList_SetItem(list, i, item) < 0)
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *copy(PyObject *self, PyObject *unused)
{
    struct stk_py_array *a = (struct stk_py_array *)self;
    struct stk_py_layout l = {.dtype = a->dtype, .ndim = a->ndim};
    (void)unused;
    for (int i = 0; i < a->ndim; i++)
        l.dim[i] = (uint64_t)a->dim[i];
    return stk_py_array_copy(a->data, &l);
}

static PyObject *show(PyObject *self)
{
    PyObject *dims = shape(self, NULL), *text = NULL;
    uint8_t type = ((struct stk_py_array *)self)->dtype;
    if (dims)
        text = PyUnicode_FromFormat("<stoker.Array %R %s>", dims,
                                    stk_dtype_name((enum stk_dtype)type));
    Py_XDECREF(dims);
    return text;
}

static PyGetSetDef getters[] = {
    {"shape", shape, NULL, "lengths of the dimensions", NULL},
    {"dtype", dtype, NULL, "type of an element, as \"float32\"", NULL},
    {"ndim", ndim, NULL, "number of dimensions", NULL},
    {"nbytes", nbytes, NULL, "bytes in all", NULL},
    {"readonly", readonly_of, NULL, "whether it must not be written to", NULL},
    {"__array_interface__", interface, NULL, NULL, NULL},
    {"__array_struct__", array_struct, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef methods[] = {
    {"tobytes", tobytes, METH_NOARGS, "A copy of the memory."},
    {"tolist", tolist, METH_NOARGS, "Numbers in lists, nested like the shape."},
    {"copy", copy, METH_NOARGS, "An array of the same kind with memory of its own."},
    {"__dlpack__", METHOD(stk_py_dlpack), METH_VARARGS | METH_KEYWORDS, NULL},
    {"__dlpack_device__", stk_py_dlpack_device, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "Memory with a type and a shape. numpy.asarray(a), torch.from_dlpack(a) and\n"
                "jax.dlpack.from_dlpack(a) use it without a copy and keep it alive."},
    {Py_tp_new, SLOT(stk_py_refuse)},
    {Py_tp_dealloc, SLOT(array_free)},
    {Py_tp_repr, SLOT(show)},
    {Py_tp_getset, getters},
    {Py_tp_methods, methods},
    {Py_sq_length, SLOT(length)},
    {Py_sq_item, SLOT(row)},
    {0, NULL},
};

static PyType_Spec spec = {"stoker.Array", sizeof(struct stk_py_array), 0, Py_TPFLAGS_DEFAULT,
                           slots};

int stk_py_array_init(PyObject *module)
{
    array_type = stk_py_type(module, &spec, "Array");
    return array_type ? 0 : -1;
}
