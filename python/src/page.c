/*
 * page.c - results of commands for notebooks: page(paths, trust, html) -> bytes, the data of a page
 * as JSON, or the whole page.
 */
#include "pystk.h"
#include "report/html/page.h"

#include <stdlib.h>

struct making {
    struct stk_py_call call;
    struct stk_arena arena; /* what path and trust point to */
    const char **path;
    size_t n;
    const char *trust;
    bool html;
    struct stk_buf data, page;
    struct stk_err err;
    int rc;
};

static void make_it(struct stk_py_call *c)
{
    struct making *m = (struct making *)c;
    m->rc = m->html ? stk_page_check(&m->err) : 0;
    if (m->rc == 0)
        m->rc = stk_page_data(m->path, m->n, m->trust, &m->data, NULL, &m->err);
    if (m->rc == 0 && m->html)
        m->rc = stk_page_html(&m->data, &m->page, &m->err);
}

static void drop_making(struct stk_py_call *c)
{
    struct making *m = (struct making *)c;
    stk_buf_release(&m->data);
    stk_buf_release(&m->page);
    stk_arena_release(&m->arena);
    free(m);
}

static const char *copy_bytes(struct making *m, PyObject *bytes)
{
    char *text;
    Py_ssize_t len;
    if (PyBytes_AsStringAndSize(bytes, &text, NULL) < 0) /* refuses a NUL, too */
        return NULL;
    len = PyBytes_Size(bytes);
    const char *copy = stk_arena_dup(&m->arena, text, (size_t)len);
    if (!copy)
        PyErr_NoMemory();
    return copy;
}

static int take_arguments(struct making *m, PyObject *args)
{
    PyObject *paths, *trust;
    int html;
    if (!PyArg_ParseTuple(args, "OOp", &paths, &trust, &html))
        return -1;
    Py_ssize_t n = PyTuple_Check(paths) ? PyTuple_Size(paths) : -1;
    m->path = n > 0 ? stk_arena_alloc(&m->arena, (size_t)n * sizeof *m->path) : NULL;
    if (!m->path) {
        PyErr_SetString(PyExc_TypeError, "paths: a tuple of bytes is needed");
        return -1;
    }
    for (; m->n < (size_t)n; m->n++)
        if (!(m->path[m->n] = copy_bytes(m, PyTuple_GetItem(paths, (Py_ssize_t)m->n))))
            return -1;
    m->html = html;
    return trust == Py_None || (m->trust = copy_bytes(m, trust)) ? 0 : -1;
}

PyObject *stk_py_page(PyObject *self, PyObject *args)
{
    struct making *m = calloc(1, sizeof *m);
    (void)self;
    if (!m)
        return PyErr_NoMemory();
    m->call = (struct stk_py_call){.run = make_it, .drop = drop_making};
    if (take_arguments(m, args) < 0) {
        drop_making(&m->call);
        return NULL;
    }
    if (stk_py_call(&m->call, true) < 0)
        return NULL;
    const struct stk_buf *out = m->html ? &m->page : &m->data;
    PyObject *bytes = m->rc == 0
                          ? PyBytes_FromStringAndSize((const char *)out->data, (Py_ssize_t)out->len)
                          : stk_py_raise(&m->err);
    drop_making(&m->call);
    return bytes;
}
