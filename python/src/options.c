/*
 * options.c - the options of datasets and loaders from Python's arguments: names, types, ranges and
 * errors follow from the tables of dataset/open_options.h and load/options.h, which the package
 * takes its signatures and documentation from.
 */
#include "pystk.h"
#include "base/units.h"
#include "image/image.h"
#include "io/io.h"
#include "load/options.h"
#include "dataset/open_options.h"

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

/* One of them on its way into its field. */
struct taking {
    const struct stk_opt *opt;
    char name[32];
    PyObject *value;
    char *fields;
    struct stk_arena *arena;
};

static void set_pointer(const struct taking *t, const void *p)
{
    memcpy(t->fields + t->opt->offset, &p, sizeof p);
}

/* Bytes, kept as long as the options. Takes the reference; NULL with an exception. */
static const char *keep_bytes(const struct taking *t, PyObject *bytes)
{
    char *s = NULL;
    if (bytes && PyBytes_AsStringAndSize(bytes, &s, NULL) == 0 &&
        !(s = stk_arena_dup(t->arena, s, strlen(s))))
        PyErr_NoMemory();
    Py_XDECREF(bytes);
    return PyErr_Occurred() ? NULL : s;
}

static const char *keep(const struct taking *t, PyObject *text, const char *errors)
{
    if (PyUnicode_Check(text))
        return keep_bytes(t, PyUnicode_AsEncodedString(text, "utf-8", errors));
    PyErr_Format(PyExc_TypeError, "%s: a str is needed, not %R", t->name, text);
    return NULL;
}

/* ---- by type ---- */

static int take_number(const struct taking *t)
{
    char range[64];
    const struct stk_opt *opt = t->opt;
    PyObject *index = PyNumber_Index(t->value);
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
    int rc = fits ? 0 : refuse(t->name, index, range);
    if (fits)
        stk_opt_set_number(opt, t->fields, v);
    Py_DECREF(index);
    return rc;
}

/* A number of bytes, or text as "512M". */
static int take_size(const struct taking *t)
{
    struct stk_err err = {0};
    uint64_t bytes = 0;
    if (PyUnicode_Check(t->value)) {
        const char *text = keep(t, t->value, NULL);
        if (text && stk_parse_size(text, &bytes, &err) < 0)
            stk_py_raise(&err);
    } else {
        bytes = PyLong_AsUnsignedLongLong(t->value);
    }
    if (PyErr_Occurred())
        return -1;
    stk_opt_set_number(t->opt, t->fields, bytes);
    return 0;
}

static int refuse_choice(const struct taking *t)
{
    struct stk_buf list = STK_BUF_INIT;
    const char *const *choices = stk_opt_choices(t->opt);
    stk_buf_puts(&list, "one of ");
    for (size_t i = 0; choices[i]; i++)
        stk_buf_printf(&list, "%s%s", i ? ", " : "", choices[i]);
    int rc = refuse(t->name, t->value, stk_buf_cstr(&list));
    stk_buf_release(&list);
    return rc;
}

static int take_choice(const struct taking *t)
{
    bool is_text = PyUnicode_Check(t->value);
    const char *text = is_text ? keep(t, t->value, NULL) : NULL;
    if (is_text && !text)
        return -1;
    int i = text ? stk_opt_choice(t->opt, text) : -1;
    if (i < 0)
        return refuse_choice(t);
    stk_opt_set_number(t->opt, t->fields, (uint64_t)i);
    return 0;
}

/* Of a choice that is kept as text the library knows better than the table what it may be. */
static int take_text(const struct taking *t)
{
    PyObject *path = NULL;
    if (t->opt->path && !PyUnicode_FSConverter(t->value, &path))
        return -1;
    const char *text = path ? keep_bytes(t, path) : keep(t, t->value, NULL);
    set_pointer(t, text);
    return text ? 0 : -1;
}

/* A name, or several. */
static int take_names(const struct taking *t)
{
    PyObject *all =
        PyUnicode_Check(t->value) ? PyTuple_Pack(1, t->value) : PySequence_Tuple(t->value);
    Py_ssize_t n = all ? PyTuple_Size(all) : 0;
    const char **names = all ? stk_arena_alloc(t->arena, ((size_t)n + 1) * sizeof *names) : NULL;
    if (all && !names)
        PyErr_NoMemory();
    for (Py_ssize_t i = 0; names && i < n; i++)
        if (!(names[i] = keep(t, PyTuple_GetItem(all, i), "surrogateescape")))
            break;
    if (names)
        names[n] = NULL;
    Py_XDECREF(all);
    set_pointer(t, names);
    return PyErr_Occurred() ? -1 : 0;
}

static int take_flag(const struct taking *t)
{
    int on = PyObject_IsTrue(t->value);
    bool field = (on != 0) != t->opt->opposite;
    if (on >= 0)
        memcpy(t->fields + t->opt->offset, &field, sizeof field);
    return on < 0 ? -1 : 0;
}

/* None: the default. */
static int take(const struct taking *t)
{
    if (t->value == Py_None)
        return 0;
    switch (t->opt->type) {
    case STK_OPT_FLAG:
        return take_flag(t);
    case STK_OPT_UNSIGNED:
        return take_number(t);
    case STK_OPT_SIZE:
        return take_size(t);
    case STK_OPT_NAMES:
        return take_names(t);
    default:
        return t->opt->field == STK_FIELD_NUMBER ? take_choice(t) : take_text(t);
    }
}

/* ---- all of them ---- */

int stk_py_options_take(const struct stk_opt *table, PyObject *kwargs, void *fields,
                        struct stk_arena *arena)
{
    size_t left = kwargs ? (size_t)PyDict_Size(kwargs) : 0;
    struct taking t = {.fields = fields, .arena = arena};
    int rc = 0;
    for (t.opt = table; t.opt->name && left && rc == 0; t.opt++) {
        t.value = PyDict_GetItemString(kwargs, stk_opt_keyword(t.opt, t.name, sizeof t.name));
        left -= t.value != NULL;
        rc = t.value ? take(&t) : 0;
    }
    if (rc == 0 && left) {
        PyErr_Format(PyExc_TypeError, "unknown options among %R", kwargs);
        rc = -1;
    }
    if (rc < 0)
        stk_arena_release(arena);
    return rc;
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
    struct stk_loader_options o = {0};
    struct stk_arena arena = {0};
    struct stk_err err = {0};
    (void)self;
    (void)args;
    if (stk_py_options_take(stk_loader_opts, kwargs, &o, &arena) < 0)
        return NULL;
    int rc = check_texts(&o, &err);
    stk_arena_release(&arena);
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

/* [(name, default, [choice, ...], help), ...] */
static int add_table(PyObject *module, const char *as, const struct stk_opt *table)
{
    PyObject *all = PyList_New(0);
    char name[32];
    for (const struct stk_opt *opt = table; all && opt->name; opt++) {
        PyObject *row = Py_BuildValue("sNNs", stk_opt_keyword(opt, name, sizeof name),
                                      default_of(opt), choices_of(opt), opt->help);
        if (!row || PyList_Append(all, row) < 0)
            Py_CLEAR(all);
        Py_XDECREF(row);
    }
    if (all && PyModule_AddObject(module, as, all) == 0)
        return 0;
    Py_XDECREF(all);
    return -1;
}

int stk_py_options_init(PyObject *module)
{
    int rc = add_table(module, "dataset_options", stk_open_opts);
    return rc < 0 ? rc : add_table(module, "loader_options", stk_loader_opts);
}
