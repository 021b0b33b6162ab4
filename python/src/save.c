/*
 * save.c - a file being saved (stoker.h): where to write, and its end. What users call is in
 * python/stoker/_save.py.
 */
#include "pystk.h"

struct saving {
    PyObject_HEAD struct stk_save *save;
};

static PyTypeObject *saving_type;

/* save_begin(path, near or None): paths as bytes */
PyObject *stk_py_save_begin(PyObject *self, PyObject *args)
{
    const char *path, *near;
    Py_ssize_t near_size;
    struct stk_err err = {0};
    struct stk_save *save = NULL;
    int rc;
    (void)self;
    if (!PyArg_ParseTuple(args, "yz#", &path, &near, &near_size))
        return NULL;
    Py_BEGIN_ALLOW_THREADS rc = stk_save_begin(path, near, &save, &err);
    Py_END_ALLOW_THREADS if (rc < 0) return stk_py_raise(&err);
    struct saving *s = stk_py_new(saving_type);
    if (s)
        s->save = save;
    else
        stk_save_abort(save);
    return (PyObject *)s;
}

static PyObject *fileno_of(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyLong_FromLong(stk_save_fd(((struct saving *)self)->save));
}

static PyObject *path_of(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyUnicode_DecodeFSDefault(stk_save_path(((struct saving *)self)->save));
}

static PyObject *commit(PyObject *self, PyObject *unused)
{
    struct saving *s = (struct saving *)self;
    struct stk_save *save = s->save;
    struct stk_err err = {0};
    int rc;
    (void)unused;
    s->save = NULL;
    Py_BEGIN_ALLOW_THREADS rc = stk_save_commit(save, &err);
    Py_END_ALLOW_THREADS if (rc < 0) return stk_py_raise(&err);
    Py_RETURN_NONE;
}

static void destroy(PyObject *self)
{
    struct saving *s = (struct saving *)self;
    stk_save_abort(s->save);
    stk_py_del(self);
}

static PyMethodDef methods[] = {
    {"fileno", fileno_of, METH_NOARGS, NULL},
    {"path", path_of, METH_NOARGS, NULL},
    {"commit", commit, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

int stk_py_save_init(PyObject *module)
{
    static PyType_Slot slots[] = {{Py_tp_new, SLOT(stk_py_refuse)},
                                  {Py_tp_dealloc, SLOT(destroy)},
                                  {Py_tp_methods, methods},
                                  {0, NULL}};
    static PyType_Spec spec = {.name = "stoker._stoker.Saving",
                               .basicsize = sizeof(struct saving),
                               .flags = Py_TPFLAGS_DEFAULT,
                               .slots = slots};
    saving_type = stk_py_type(module, &spec, "Saving");
    return saving_type ? 0 : -1;
}
