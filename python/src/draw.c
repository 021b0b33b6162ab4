/*
 * draw.c - divide(), draw() and permuted(): samples chosen by chance, by the library. Numbers travel as bytes
 * of uint64, float64 or uint32 in the machine's order: the stable ABI of Python 3.9 has no buffers.
 */
#include "pystk.h"
#include "base/random.h"
#include "load/plan.h"

#include <stdlib.h>

/* The numbers of each part, in their order: a list of bytes. */
static PyObject *collect(const uint8_t *part, uint64_t n, size_t nparts)
{
    PyObject *list = PyList_New(0);
    for (size_t k = 0; list && k < nparts; k++) {
        uint64_t count = 0, at = 0;
        for (uint64_t i = 0; i < n; i++)
            count += part[i] == k;
        PyObject *one = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(count * sizeof count));
        char *to = one ? PyBytes_AsString(one) : NULL;
        for (uint64_t i = 0; to && i < n; i++)
            if (part[i] == k)
                memcpy(to + at++ * sizeof i, &i, sizeof i);
        if (!one || PyList_Append(list, one) < 0)
            Py_CLEAR(list);
        Py_XDECREF(one);
    }
    return list;
}

/* divide(n, strata or None, nstrata, shares, seed) -> [numbers of a part, ...] */
PyObject *stk_py_divide(PyObject *self, PyObject *args)
{
    unsigned long long n, seed;
    const char *strata, *share;
    Py_ssize_t strata_size, share_size;
    unsigned nstrata;
    struct stk_err err = {0};
    int rc;
    (void)self;
    if (!PyArg_ParseTuple(args, "Kz#Iy#K", &n, &strata, &strata_size, &nstrata, &share, &share_size,
                          &seed))
        return NULL;
    if (strata && (uint64_t)strata_size / sizeof(uint32_t) != n) {
        PyErr_SetString(PyExc_ValueError, "strata: one number per sample is needed");
        return NULL;
    }
    uint8_t *part = malloc(n + 1);
    if (!part)
        return PyErr_NoMemory();
    size_t nparts = (size_t)share_size / sizeof(double);
    Py_BEGIN_ALLOW_THREADS rc =
        stk_divide(n, (const void *)strata, nstrata, (const void *)share, nparts, seed, part, &err);
    Py_END_ALLOW_THREADS PyObject *list = rc < 0 ? stk_py_raise(&err) : collect(part, n, nparts);
    free(part);
    return list;
}

/* draw(weights, seed, epoch, count) -> numbers */
PyObject *stk_py_draw(PyObject *self, PyObject *args)
{
    const char *weight;
    Py_ssize_t size;
    unsigned long long seed, epoch, count;
    struct stk_err err = {0};
    int rc;
    (void)self;
    if (!PyArg_ParseTuple(args, "y#KKK", &weight, &size, &seed, &epoch, &count))
        return NULL;
    if (count > PY_SSIZE_T_MAX / sizeof(uint64_t))
        return PyErr_NoMemory();
    PyObject *out = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(count * sizeof(uint64_t)));
    uint64_t *number = out ? (void *)PyBytes_AsString(out) : NULL;
    if (!number)
        return NULL;
    Py_BEGIN_ALLOW_THREADS rc = stk_draw((const void *)weight, (uint64_t)size / sizeof(double),
                                         seed, epoch, number, count, &err);
    Py_END_ALLOW_THREADS if (rc < 0)
    {
        Py_DECREF(out);
        return stk_py_raise(&err);
    }
    return out;
}

/* permuted(n, seed) -> numbers: which sample each one of a dataset is that was packed with --shuffle */
PyObject *stk_py_permuted(PyObject *self, PyObject *args)
{
    unsigned long long n, seed;
    struct stk_perm perm;
    (void)self;
    if (!PyArg_ParseTuple(args, "KK", &n, &seed))
        return NULL;
    if (n > PY_SSIZE_T_MAX / sizeof(uint64_t))
        return PyErr_NoMemory();
    PyObject *out = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(n * sizeof(uint64_t)));
    uint64_t *number = out ? (void *)PyBytes_AsString(out) : NULL;
    stk_perm_init(&perm, n, seed);
    for (uint64_t i = 0; number && i < n; i++)
        number[i] = stk_perm_at(&perm, i);
    return out;
}
