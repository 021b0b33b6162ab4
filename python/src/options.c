/*
 * options.c - a loader's options from Python's arguments: names, types, ranges and errors follow
 * from the table of data/loader_options.h, which the package takes its signature and documentation
 * from.
 */
#include "pystk.h"
#include "base/units.h"
#include "data/image.h"
#include "data/io.h"
#include "data/loader_options.h"

#include <stdlib.h>

/* UsageError "name=value: it is ..." Always returns -1. */
static int refuse(const char *name, PyObject *value, const char *what)
{
    struct stk_err err = {0};
    PyObject *repr = PyObject_Repr(value);
    PyObject *text = repr ? PyUnicode_AsEncodedString(repr, "utf-8", "replace") : NULL;
    if (text) {
        stk_err_set(&err, STK_E_USAGE, NULL, -1, "%s=%.200s: it is %s", name,
                    PyBytes_AsString(text), what);
        stk_py_raise(&err);
    }
    Py_XDECREF(text);
    Py_XDECREF(repr);
    return -1;
}

/* The bytes of a str, kept as long as the options. NULL with an exception. */
static const char *keep(struct stk_py_options *t, const char *name, PyObject *text,
                        const char *errors)
{
    char *s = NULL;
    if (!PyUnicode_Check(text)) {
        PyErr_Format(PyExc_TypeError, "%s: a str is needed, not %R", name, text);
        return NULL;
    }
    PyObject *bytes = PyUnicode_AsEncodedString(text, "utf-8", errors);
    if (!bytes || PyBytes_AsStringAndSize(bytes, &s, NULL) < 0 || PyList_Append(t->kept, bytes) < 0)
        s = NULL;
    Py_XDECREF(bytes);
    return s;
}

/* ---- by type ---- */

static int take_number(struct stk_py_options *t, const struct stk_opt *opt, const char *name,
                       PyObject *value)
{
    char range[64];
    PyObject *index = PyNumber_Index(value);
    if (!index)
        return -1;
    uint64_t v = PyLong_AsUnsignedLongLong(index);
    bool fits = !PyErr_Occurred() && v >= opt->min && (!opt->max || v <= opt->max);
    PyErr_Clear();
    int n = snprintf(range, sizeof range, "%llu to ", (unsigned long long)opt->min);
    if (opt->max)
        snprintf(range + n, sizeof range - (size_t)n, "%llu", (unsigned long long)opt->max);
    else
        snprintf(range + n, sizeof range - (size_t)n, "2^64 - 1");
    int rc = fits ? 0 : refuse(name, index, range);
    if (fits)
        stk_opt_set_number(opt, &t->o, v);
    Py_DECREF(index);
    return rc;
}

/* A number of bytes, or text as "512M". */
static int take_size(struct stk_py_options *t, const struct stk_opt *opt, const char *name,
                     PyObject *value)
{
    struct stk_err err = {0};
    uint64_t bytes = 0;
    if (PyUnicode_Check(value)) {
        const char *text = keep(t, name, value, NULL);
        if (text && stk_parse_size(text, &bytes, &err) < 0)
            stk_py_raise(&err);
    } else {
        bytes = PyLong_AsUnsignedLongLong(value);
    }
    if (PyErr_Occurred())
        return -1;
    stk_opt_set_number(opt, &t->o, bytes);
    return 0;
}

static int refuse_choice(const struct stk_opt *opt, const char *name, PyObject *value)
{
    struct stk_buf list = STK_BUF_INIT;
    const char *const *choices = stk_opt_choices(opt);
    stk_buf_puts(&list, "one of ");
    for (size_t i = 0; choices[i]; i++)
        stk_buf_printf(&list, "%s%s", i ? ", " : "", choices[i]);
    int rc = refuse(name, value, stk_buf_cstr(&list));
    stk_buf_release(&list);
    return rc;
}

/* Of a choice that is kept as text the library knows better than the table what it may be. */
static int take_text(struct stk_py_options *t, const struct stk_opt *opt, const char *name,
                     PyObject *value)
{
    bool number = opt->field == STK_FIELD_NUMBER;
    if (number && !PyUnicode_Check(value))
        return refuse_choice(opt, name, value);
    const char *text = keep(t, name, value, NULL);
    if (!text)
        return -1;
    if (number) {
        int i = stk_opt_choice(opt, text);
        if (i < 0)
            return refuse_choice(opt, name, value);
        stk_opt_set_number(opt, &t->o, (uint64_t)i);
        return 0;
    }
    memcpy((char *)&t->o + opt->offset, &text, sizeof text);
    return 0;
}

/* A name, or several. */
static int take_names(struct stk_py_options *t, const struct stk_opt *opt, const char *name,
                      PyObject *value)
{
    PyObject *all = PyUnicode_Check(value) ? PyTuple_Pack(1, value) : PySequence_Tuple(value);
    Py_ssize_t n = all ? PyTuple_Size(all) : 0;
    t->names = all ? calloc((size_t)n + 1, sizeof *t->names) : NULL;
    if (all && !t->names)
        PyErr_NoMemory();
    for (Py_ssize_t i = 0; t->names && i < n; i++)
        if (!(t->names[i] = keep(t, name, PyTuple_GetItem(all, i), "surrogateescape")))
            break;
    Py_XDECREF(all);
    memcpy((char *)&t->o + opt->offset, &t->names, sizeof t->names);
    return PyErr_Occurred() ? -1 : 0;
}

static int take_flag(struct stk_py_options *t, const struct stk_opt *opt, PyObject *value)
{
    int on = PyObject_IsTrue(value);
    bool field = (on != 0) != opt->opposite;
    if (on >= 0)
        memcpy((char *)&t->o + opt->offset, &field, sizeof field);
    return on < 0 ? -1 : 0;
}

/* None: the default. */
static int take(struct stk_py_options *t, const struct stk_opt *opt, const char *name,
                PyObject *value)
{
    if (value == Py_None)
        return 0;
    switch (opt->type) {
    case STK_OPT_FLAG:
        return take_flag(t, opt, value);
    case STK_OPT_UNSIGNED:
        return take_number(t, opt, name, value);
    case STK_OPT_SIZE:
        return take_size(t, opt, name, value);
    case STK_OPT_NAMES:
        return take_names(t, opt, name, value);
    default:
        return take_text(t, opt, name, value);
    }
}

/* ---- all of them ---- */

int stk_py_options_take(struct stk_py_options *t, PyObject *kwargs)
{
    size_t left = kwargs ? (size_t)PyDict_Size(kwargs) : 0;
    char name[32];
    *t = (struct stk_py_options){.kept = PyList_New(0)};
    int rc = t->kept ? 0 : -1;
    for (const struct stk_opt *opt = stk_loader_opts; opt->name && left && rc == 0; opt++) {
        PyObject *value = PyDict_GetItemString(kwargs, stk_loader_keyword(opt, name, sizeof name));
        left -= value != NULL;
        rc = value ? take(t, opt, name, value) : 0;
    }
    if (rc == 0 && left) {
        PyErr_Format(PyExc_TypeError, "an option that a loader does not have: %R", kwargs);
        rc = -1;
    }
    if (rc < 0)
        stk_py_options_release(t);
    return rc;
}

void stk_py_options_release(struct stk_py_options *t)
{
    Py_CLEAR(t->kept);
    free(t->names);
    t->names = NULL;
}

/* Texts that the library would refuse when the loader is opened. */
static int check_texts(const struct stk_loader_options *o, struct stk_err *err)
{
    struct stk_image_op op;
    enum stk_io_kind kind;
    char *field = NULL;
    int rc = o->io ? stk_io_find(o->io, &kind, err) : 0;
    bool image = o->decode && strcmp(o->decode, "auto") != 0 && strcmp(o->decode, "raw") != 0;
    if (rc == 0 && image)
        rc = stk_image_op_parse(o->decode, &op, &field, err);
    free(field);
    return rc;
}

PyObject *stk_py_check_options(PyObject *self, PyObject *args, PyObject *kwargs)
{
    struct stk_py_options t;
    struct stk_err err = {0};
    (void)self;
    (void)args;
    if (stk_py_options_take(&t, kwargs) < 0)
        return NULL;
    int rc = check_texts(&t.o, &err);
    stk_py_options_release(&t);
    if (rc < 0)
        return stk_py_raise(&err);
    Py_RETURN_NONE;
}

static PyObject *default_of(const struct stk_opt *opt)
{
    if (opt->type == STK_OPT_FLAG)
        return PyBool_FromLong(opt->def != NULL);
    if (opt->def && opt->type == STK_OPT_UNSIGNED)
        return PyLong_FromString(opt->def, NULL, 10);
    return Py_BuildValue("z", opt->def);
}

static PyObject *choices_of(const struct stk_opt *opt)
{
    const char *const *choices = stk_opt_choices(opt);
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && choices && choices[i]; i++) {
        PyObject *one = PyUnicode_FromString(choices[i]);
        if (!one || PyList_Append(list, one) < 0)
            Py_CLEAR(list);
        Py_XDECREF(one);
    }
    return list;
}

/* loader_options: [(name, default, [choice, ...], help), ...] */
int stk_py_options_init(PyObject *module)
{
    PyObject *all = PyList_New(0);
    char name[32];
    for (const struct stk_opt *opt = stk_loader_opts; all && opt->name; opt++) {
        PyObject *row = Py_BuildValue("sNNs", stk_loader_keyword(opt, name, sizeof name),
                                      default_of(opt), choices_of(opt), opt->help);
        if (!row || PyList_Append(all, row) < 0)
            Py_CLEAR(all);
        Py_XDECREF(row);
    }
    if (all && PyModule_AddObject(module, "loader_options", all) == 0)
        return 0;
    Py_XDECREF(all);
    return -1;
}
