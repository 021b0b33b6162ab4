/*
 * pystk.h - what the files of the Python extension share. Only the stable ABI of Python 3.9 is
 * used, so one binary serves every later version. Calls that may wait give up the GIL; the
 * allocator of a loader may take it on the loader's threads, so no library call that takes a lock
 * is made with it.
 */
#ifndef STK_PYTHON_PYSTK_H
#define STK_PYTHON_PYSTK_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x03090000
#include <Python.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "base/opt.h"
#include "stoker.h"

/* Slots of a type and members of a struct want data and function pointers as void *. */
#define SLOT(f)   ((void *)(f))
#define METHOD(f) ((PyCFunction)(void (*)(void))(f))

/* ---- module.c ---- */

/* Python objects the package lends to the extension (all set before anything else is called). */
struct stk_py_hooks {
    PyObject *error; /* (code, errno, path, offset, text) -> an exception */
    PyObject *array; /* (Array) -> what the caller is given */
    PyObject *json;  /* (text) -> the value */
};
extern struct stk_py_hooks stk_py_hooks;

/* Sets the Python exception for err. Always returns NULL. */
PyObject *stk_py_raise(const struct stk_err *err);
/* Makes a type of spec and adds it to the module. Borrowed; NULL with an exception. */
PyTypeObject *stk_py_type(PyObject *module, PyType_Spec *spec, const char *name);
/* tp_new of types that Python code must not make objects of. */
PyObject *stk_py_refuse(PyTypeObject *type, PyObject *args, PyObject *kwargs);
/* An object of a type whose memory is zero. */
void *stk_py_new(PyTypeObject *type);
/* Gives the memory of an object back, and the reference it has on its type. */
void stk_py_del(PyObject *self);
/* Text that may not be UTF-8: what is not is kept as os.fsdecode() does. */
PyObject *stk_py_text(const char *s, size_t n);

/* ---- call.c: library calls that may wait for storage ---- */

/* The first member of a struct, on the heap, that has the arguments and the results of a call. It
 * is the call's own, with all that it points to, for as long as the call takes: a signal handler
 * that raises ends the waiting, not the call. What belongs to Python stays for good then. */
struct stk_py_call {
    void (*run)(struct stk_py_call *c);  /* without the GIL, on any thread */
    void (*drop)(struct stk_py_call *c); /* frees the results and the struct, likewise */
    bool often;                          /* worth a thread that stays */
    atomic_bool stop;                    /* its caller no longer waits */
};

/* Makes the call. 0: it was made, and is the caller's to take the results from and to free; -1 with
 * an exception: it is no longer the caller's. may_stall false: no other thread is needed. */
int stk_py_call(struct stk_py_call *c, bool may_stall);
/* Makes the call and drops it. No signals are looked for: this is for the end of objects. Waits a
 * moment at most. */
void stk_py_call_last(struct stk_py_call *c, bool may_stall);
/* end_helper(): before a fork, ends the thread that was kept for the next call. */
PyObject *stk_py_end_helper(PyObject *self, PyObject *unused);

/* ---- array.c: memory with a type and a shape ---- */

struct stk_py_array {
    PyObject_HEAD PyObject *owner; /* keeps data alive; NULL: data is our own */
    void *data;
    size_t size; /* bytes */
    bool readonly;
    uint8_t dtype;
    int ndim;
    Py_ssize_t dim[STK_MAX_NDIM + 1], stride[STK_MAX_NDIM + 1];
};

struct stk_py_layout {
    uint8_t dtype;
    int ndim;
    uint64_t dim[STK_MAX_NDIM + 1];
};

/* A view of data, which owner keeps alive. */
PyObject *stk_py_array_view(PyObject *owner, const void *data, const struct stk_py_layout *l,
                            bool readonly);
/* An array with memory of its own; data may be NULL: not filled. */
PyObject *stk_py_array_copy(const void *data, const struct stk_py_layout *l);
/* The array as the caller shall see it: an ndarray where there is NumPy. Takes the reference. */
PyObject *stk_py_array_wrap(PyObject *array);
/* A value of a sample as a Python object. Arrays are views kept alive by owner, unless their
 * memory is not aligned. */
PyObject *stk_py_value(const struct stk_value *v, PyObject *owner, bool readonly);
/* One number. */
PyObject *stk_py_scalar(const void *p, uint8_t dtype);
int stk_py_array_init(PyObject *module);

/* ---- dlpack.c ---- */

PyObject *stk_py_dlpack(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *stk_py_dlpack_device(PyObject *self, PyObject *unused);

/* ---- dataset.c ---- */

struct stk_py_dataset {
    PyObject_HEAD struct stk_dataset *ds;
    struct stk_sample *spare; /* its buffers are used again */
    bool may_stall;           /* its files are not all on disks of this node */
    pid_t pid; /* of the process that opened it: after a fork the handle is only forgotten */
};
extern PyTypeObject *stk_py_dataset_type;
int stk_py_dataset_init(PyObject *module);

/* ---- pool.c: memory for arrays that the program supplies (pinned) ---- */

extern PyTypeObject *stk_py_pool_type;
void *stk_py_pool_alloc(void *pool, size_t size);
void stk_py_pool_free(void *pool, void *p, size_t size);
int stk_py_pool_init(PyObject *module);

/* ---- state.c: merge_states((text, ...)) -> text; state_at(text, epoch) -> text ---- */

PyObject *stk_py_merge_states(PyObject *self, PyObject *texts);
PyObject *stk_py_state_at(PyObject *self, PyObject *args);

/* ---- page.c: results of commands, for notebooks ---- */

PyObject *stk_py_page(PyObject *self, PyObject *args);

/* ---- draw.c: samples chosen by chance ---- */

PyObject *stk_py_divide(PyObject *self, PyObject *args);
PyObject *stk_py_draw(PyObject *self, PyObject *args);
PyObject *stk_py_permuted(PyObject *self, PyObject *args);

/* ---- options.c: what the tables of options say ---- */

/* By name; None is the default. What the fields point to is in the arena, of which Python knows
 * nothing. 0, or -1 with an exception and nothing to release. */
int stk_py_options_take(const struct stk_opt *table, PyObject *kwargs, void *fields,
                        struct stk_arena *arena);
/* check_options(**options): checks them, so that errors show before anything is opened. */
PyObject *stk_py_check_options(PyObject *self, PyObject *args, PyObject *kwargs);
int stk_py_options_init(PyObject *module);

/* ---- save.c ---- */

PyObject *stk_py_save_begin(PyObject *self, PyObject *args);
int stk_py_save_init(PyObject *module);

/* ---- loader.c, batch.c ---- */

struct stk_py_batch {
    PyObject_HEAD struct stk_batch *b;
    PyObject *dataset, *pool; /* must outlive the batch; pool may be NULL */
    pid_t pid;
};
/* Takes b, also on error; the references are its own. */
PyObject *stk_py_batch_new(struct stk_batch *b, PyObject *dataset, PyObject *pool);
int stk_py_batch_init(PyObject *module);
int stk_py_loader_init(PyObject *module);

#endif
