/*
 * dlpack.c - an Array for PyTorch, JAX and others through DLPack, with or without NumPy. The
 * capsule holds a reference on the array until its consumer is done. Both published layouts are
 * made: the plain one, and the versioned one that can say that memory must not be written to.
 */
#include "pystk.h"

#include <stdlib.h>

enum {
    CPU = 1,
    CODE_INT = 0,
    CODE_UINT = 1,
    CODE_FLOAT = 2,
    CODE_BOOL = 6,
    READ_ONLY = 1,
    COPIED = 2
};

/* dlpack.h's DLTensor, DLManagedTensor and DLManagedTensorVersioned. */
struct tensor {
    void *data;
    struct {
        int32_t type, id;
    } device;
    int32_t ndim;
    struct {
        uint8_t code, bits;
        uint16_t lanes;
    } dtype;
    int64_t *shape, *strides;
    uint64_t byte_offset;
};

struct managed {
    struct tensor t;
    void *context;
    void (*deleter)(struct managed *m);
};

struct versioned {
    uint32_t major, minor;
    void *context;
    void (*deleter)(struct versioned *m);
    uint64_t flags;
    struct tensor t;
};

/* What stands behind either of them. */
struct export
{
    union {
        struct managed plain;
        struct versioned versioned;
    };
    PyObject *array;
    int64_t shape[STK_MAX_NDIM + 1], strides[STK_MAX_NDIM + 1];
};

/* Consumers call it from any thread, maybe when Python has gone. */
static void drop(void *context)
{
    struct export *e = context;
    if (!Py_IsInitialized())
        return;
    PyGILState_STATE gil = PyGILState_Ensure();
    Py_DECREF(e->array);
    free(e);
    PyGILState_Release(gil);
}

static void delete_plain(struct managed *m)
{
    drop(m->context);
}

static void delete_versioned(struct versioned *m)
{
    drop(m->context);
}

/* A consumer renames the capsule; one with its first name was never consumed. */
static void free_capsule(PyObject *capsule)
{
    const char *name = PyCapsule_GetName(capsule);
    if (name && (strcmp(name, "dltensor") == 0 || strcmp(name, "dltensor_versioned") == 0))
        drop(PyCapsule_GetPointer(capsule, name));
}

static uint8_t code_of(uint8_t dtype)
{
    switch (dtype) {
    case STK_BOOL:
        return CODE_BOOL;
    case STK_F16:
    case STK_F32:
    case STK_F64:
        return CODE_FLOAT;
    case STK_I8:
    case STK_I16:
    case STK_I32:
    case STK_I64:
        return CODE_INT;
    default:
        return CODE_UINT;
    }
}

static struct tensor tensor_of(struct export *e, const struct stk_py_array *a)
{
    size_t size = stk_dtype_size((enum stk_dtype)a->dtype);
    for (int i = 0; i < a->ndim; i++) {
        e->shape[i] = a->dim[i];
        e->strides[i] = a->stride[i] / (Py_ssize_t)size;
    }
    return (struct tensor){.data = a->data,
                           .device = {CPU, 0},
                           .ndim = a->ndim,
                           .dtype = {code_of(a->dtype), (uint8_t)(8 * size), 1},
                           .shape = e->shape,
                           .strides = e->strides};
}

/* Takes the reference on array. */
static PyObject *export_array(PyObject *array, bool versioned, bool copied)
{
    const struct stk_py_array *a = (struct stk_py_array *)array;
    struct export *e = calloc(1, sizeof *e);
    PyObject *capsule = NULL;
    if (!e) {
        Py_DECREF(array);
        return PyErr_NoMemory();
    }
    e->array = array;
    if (versioned)
        e->versioned =
            (struct versioned){.major = 1,
                               .context = e,
                               .deleter = delete_versioned,
                               .flags = (a->readonly ? READ_ONLY : 0) | (copied ? COPIED : 0),
                               .t = tensor_of(e, a)};
    else
        e->plain = (struct managed){.context = e, .deleter = delete_plain, .t = tensor_of(e, a)};
    capsule = PyCapsule_New(e, versioned ? "dltensor_versioned" : "dltensor", free_capsule);
    if (!capsule)
        drop(e);
    return capsule;
}

/* True when the consumer knows DLPack 1.0 or later. */
static int knows_versions(PyObject *max_version)
{
    if (!max_version || max_version == Py_None)
        return 0;
    PyObject *major = PySequence_GetItem(max_version, 0);
    long n = major ? PyLong_AsLong(major) : -1;
    Py_XDECREF(major);
    return PyErr_Occurred() ? -1 : n >= 1;
}

static bool is_cpu(PyObject *device)
{
    PyObject *type = PySequence_GetItem(device, 0);
    long n = type ? PyLong_AsLong(type) : -1;
    Py_XDECREF(type);
    PyErr_Clear();
    return n == CPU;
}

PyObject *stk_py_dlpack(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"stream", "max_version", "dl_device", "copy", NULL};
    PyObject *stream = NULL, *max_version = NULL, *device = NULL, *copy = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$OOOO", names, &stream, &max_version, &device,
                                     &copy))
        return NULL;
    int versioned = knows_versions(max_version);
    if (versioned < 0)
        return NULL;
    if (device && device != Py_None && !is_cpu(device)) {
        PyErr_SetString(PyExc_BufferError, "the array is in the memory of the CPU");
        return NULL;
    }
    bool want_copy = copy && copy == Py_True;
    if (((struct stk_py_array *)self)->readonly && !versioned && !want_copy) {
        PyErr_SetString(PyExc_BufferError,
                        "the array is read-only and this version of DLPack cannot "
                        "say so: use a.copy()");
        return NULL;
    }
    if (want_copy)
        self = PyObject_CallMethod(self, "copy", NULL);
    else
        Py_INCREF(self);
    return self ? export_array(self, versioned, want_copy) : NULL;
}

PyObject *stk_py_dlpack_device(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    return Py_BuildValue("ii", CPU, 0);
}
