/*
 * state.c - the states of all ranks of one moment put together, to go on with another number of
 * them (they differ only where ranks had to skip samples), and the state at the beginning of
 * another epoch in the same order.
 */
#include "pystk.h"
#include "load/plan.h"

#include <stdlib.h>

/* Reads n states. Those that were read are the caller's to release, also on error. */
static int read_states(PyObject *texts, struct stk_state *state, Py_ssize_t n, Py_ssize_t *done,
                       struct stk_err *err)
{
    int rc = 0;
    for (*done = 0; rc == 0 && *done < n;) {
        PyObject *bytes = PyUnicode_AsUTF8String(PyTuple_GetItem(texts, *done));
        char *text;
        Py_ssize_t len;
        if (!bytes || PyBytes_AsStringAndSize(bytes, &text, &len) < 0) {
            Py_XDECREF(bytes);
            return -1; /* a Python exception is set */
        }
        rc = stk_state_read(text, (size_t)len, &state[*done], err);
        *done += rc == 0;
        Py_DECREF(bytes);
    }
    return rc;
}

PyObject *stk_py_merge_states(PyObject *self, PyObject *texts)
{
    Py_ssize_t n = PyTuple_Check(texts) ? PyTuple_Size(texts) : 0, done = 0;
    struct stk_state *state = n > 0 ? calloc((size_t)n, sizeof *state) : NULL;
    struct stk_buf out = STK_BUF_INIT;
    struct stk_err err = {0};
    PyObject *text = NULL;
    (void)self;
    if (!state) {
        PyErr_SetString(PyExc_TypeError, "states: a tuple of str is needed");
        return NULL;
    }
    int rc = read_states(texts, state, n, &done, &err);
    if (rc == 0)
        rc = stk_state_write_merged(state, (size_t)n, &out, &err);
    if (rc == 0)
        text = stk_py_text(stk_buf_cstr(&out), out.len);
    else if (!PyErr_Occurred())
        stk_py_raise(&err);
    while (done > 0)
        stk_state_release(&state[--done]);
    stk_buf_release(&out);
    free(state);
    return text;
}

/* Rewrites a state that is at the beginning of `epoch`. */
static int write_at(const char *text, uint64_t epoch, struct stk_buf *out, struct stk_err *err)
{
    struct stk_state st;
    int rc = stk_state_read(text, strlen(text), &st, err);
    if (rc < 0)
        return rc;
    while (st.nlegs > 0)
        free(st.leg[--st.nlegs].refill);
    st.epoch = epoch;
    rc = stk_state_write(&st, out, err);
    stk_state_release(&st);
    return rc;
}

PyObject *stk_py_state_at(PyObject *self, PyObject *args)
{
    const char *text;
    unsigned long long epoch;
    struct stk_buf out = STK_BUF_INIT;
    struct stk_err err = {0};
    (void)self;
    if (!PyArg_ParseTuple(args, "sK", &text, &epoch))
        return NULL;
    PyObject *state = NULL;
    if (write_at(text, epoch, &out, &err) < 0)
        stk_py_raise(&err);
    else
        state = stk_py_text(stk_buf_cstr(&out), out.len);
    stk_buf_release(&out);
    return state;
}
