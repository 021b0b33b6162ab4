/*
 * module.c - the module stoker._stoker: its types, its errors, and which rank we are. What users
 * see is written in Python around it (python/stoker); nothing here is for them to call.
 */
#include "pystk.h"
#include "host/cpus.h"

struct stk_py_hooks stk_py_hooks;

PyObject *stk_py_text(const char *s, size_t n)
{
    return PyUnicode_DecodeUTF8(s, (Py_ssize_t)n, "surrogateescape");
}

PyObject *stk_py_raise(const struct stk_err *err)
{
    char text[2 * sizeof err->what + 64];
    stk_err_text(err, text, sizeof text);
    PyObject *path = err->path[0] ? PyUnicode_DecodeFSDefault(err->path) : Py_BuildValue("");
    PyObject *e = NULL, *what = stk_py_text(text, strlen(text));
    if (path && what && stk_py_hooks.error)
        e = PyObject_CallFunction(stk_py_hooks.error, "iiOLO", err->code, err->sys_errno, path,
                                  (long long)err->offset, what);
    if (e)
        PyErr_SetObject((PyObject *)Py_TYPE(e), e);
    else if (!PyErr_Occurred())
        PyErr_SetString(PyExc_RuntimeError, text);
    Py_XDECREF(e);
    Py_XDECREF(what);
    Py_XDECREF(path);
    return NULL;
}

PyTypeObject *stk_py_type(PyObject *module, PyType_Spec *spec, const char *name)
{
    PyObject *type = PyType_FromSpec(spec);
    if (!type || PyModule_AddObject(module, name, type) < 0) {
        Py_XDECREF(type);
        return NULL;
    }
    return (PyTypeObject *)type; /* the module's reference keeps it */
}

PyObject *stk_py_refuse(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    (void)type;
    (void)args;
    (void)kwargs;
    PyErr_SetString(PyExc_TypeError, "only stoker makes these");
    return NULL;
}

void *stk_py_new(PyTypeObject *type)
{
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    return alloc(type, 0);
}

void stk_py_del(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

static int keep(PyObject **slot, PyObject *value)
{
    Py_XDECREF(*slot);
    Py_INCREF(value);
    *slot = value;
    return 0;
}

/* set_hooks(error=, array=, json=) */
static PyObject *set_hooks(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"error", "array", "json", NULL};
    PyObject *error = NULL, *array = NULL, *json = NULL;
    (void)self;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$OOO", names, &error, &array, &json))
        return NULL;
    if (error)
        keep(&stk_py_hooks.error, error);
    if (array)
        keep(&stk_py_hooks.array, array);
    if (json)
        keep(&stk_py_hooks.json, json);
    Py_RETURN_NONE;
}

/* (rank, world, local_rank, local_world, launcher) */
static PyObject *rank(PyObject *self, PyObject *unused)
{
    struct stk_rank r;
    struct stk_err err = {0};
    (void)self;
    (void)unused;
    if (stk_rank_detect(&r, &err) < 0)
        return stk_py_raise(&err);
    return Py_BuildValue("IIIIs", r.rank, r.world, r.local_rank, r.local_world, r.from);
}

/* cpus() -> cores this process may use */
static PyObject *cpus(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    return PyLong_FromUnsignedLong(stk_cpus());
}

/* A number, or UINT64_MAX for None: the next one. False with an exception. */
static bool which(PyObject *arg, uint64_t *number)
{
    *number = UINT64_MAX;
    if (arg == Py_None)
        return true;
    *number = PyLong_AsUnsignedLongLong(arg);
    return !(*number == UINT64_MAX && PyErr_Occurred());
}

static PyObject *mark_step(PyObject *self, PyObject *arg)
{
    uint64_t number;
    (void)self;
    if (!which(arg, &number))
        return NULL;
    stk_step_at(number);
    Py_RETURN_NONE;
}

static PyObject *mark_epoch(PyObject *self, PyObject *arg)
{
    uint64_t number;
    (void)self;
    if (!which(arg, &number))
        return NULL;
    stk_epoch_at(number);
    Py_RETURN_NONE;
}

static PyObject *phase_begin(PyObject *self, PyObject *name)
{
    (void)self;
    const char *text = PyBytes_AsString(name);
    if (!text)
        return NULL;
    stk_phase_begin(text);
    Py_RETURN_NONE;
}

static PyObject *phase_end(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    stk_phase_end();
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"set_hooks", METHOD(set_hooks), METH_VARARGS | METH_KEYWORDS, NULL},
    {"rank", rank, METH_NOARGS, NULL},
    {"cpus", cpus, METH_NOARGS, NULL},
    {"step", mark_step, METH_O, NULL},
    {"epoch", mark_epoch, METH_O, NULL},
    {"phase_begin", phase_begin, METH_O, NULL},
    {"phase_end", phase_end, METH_NOARGS, NULL},
    {"check_options", METHOD(stk_py_check_options), METH_VARARGS | METH_KEYWORDS, NULL},
    {"merge_states", stk_py_merge_states, METH_O, NULL},
    {"state_at", stk_py_state_at, METH_VARARGS, NULL},
    {"divide", stk_py_divide, METH_VARARGS, NULL},
    {"draw", stk_py_draw, METH_VARARGS, NULL},
    {"permuted", stk_py_permuted, METH_VARARGS, NULL},
    {"page", stk_py_page, METH_VARARGS, NULL},
    {"save_begin", stk_py_save_begin, METH_VARARGS, NULL},
    {"end_helper", stk_py_end_helper, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "_stoker", .m_size = -1,
                                        .m_methods = functions};

/* Numbers of stoker.h that the package needs. */
static int add_constants(PyObject *m)
{
    static const struct {
        const char *name;
        long value;
    } all[] = {
        {"E_SYS", STK_E_SYS},         {"E_NOMEM", STK_E_NOMEM},
        {"E_CORRUPT", STK_E_CORRUPT}, {"E_UNSUPPORTED", STK_E_UNSUPPORTED},
        {"E_USAGE", STK_E_USAGE},     {"E_EXISTS", STK_E_EXISTS},
        {"E_STALE", STK_E_STALE},     {"E_STOPPED", STK_E_STOPPED},
        {"REPEAT", STK_REPEAT},       {"REPLACED", STK_REPLACED},
    };
    int rc = PyModule_AddStringConstant(m, "version", stk_version());
    for (size_t i = 0; rc == 0 && i < sizeof all / sizeof *all; i++)
        rc = PyModule_AddIntConstant(m, all[i].name, all[i].value);
    return rc;
}

PyMODINIT_FUNC PyInit__stoker(void);
PyMODINIT_FUNC PyInit__stoker(void)
{
    PyObject *m = PyModule_Create(&definition);
    if (m && add_constants(m) == 0 && stk_py_array_init(m) == 0 && stk_py_dataset_init(m) == 0 &&
        stk_py_pool_init(m) == 0 && stk_py_batch_init(m) == 0 && stk_py_loader_init(m) == 0 &&
        stk_py_save_init(m) == 0 && stk_py_options_init(m) == 0)
        return m;
    Py_XDECREF(m);
    return NULL;
}
