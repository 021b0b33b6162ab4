/*
 * call.c - library calls that may wait for storage, made so that Ctrl-C is answered while they do.
 *
 * A thread that the kernel holds (a file server that does not answer) cannot be called back. So
 * the call is made on a helper thread (base/thread.h) while the caller's waits without the GIL, in
 * short slices, and lets signal handlers run between them. When one of them raises, the call is
 * asked to stop and has a moment to do so; after that it is left behind: it ends when it can, frees
 * what it has, and never touches Python, which may be gone by then.
 *
 * The thread of calls that are made often is kept. After a fork the child only forgets it.
 */
#include "pystk.h"
#include "base/thread.h"

#include <unistd.h>

#define SLICE_S 0.1 /* between looks at signals */
#define GRACE_S 0.5 /* for a call that was asked to stop */

/* One that has no call, and whose it is. Changed with the GIL held. */
static struct stk_thread *idle;
static pid_t owner;

/* NULL: there is none to be had, or none is of use: Python's handlers run in the first thread. */
static struct stk_thread *take_thread(void)
{
    pid_t pid = getpid();
    if (pid != gettid())
        return NULL;
    struct stk_thread *t = owner == pid ? idle : NULL;
    owner = pid;
    idle = NULL;
    if (!t)
        (void)stk_thread_open(&t, NULL);
    return t;
}

PyObject *stk_py_end_helper(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    if (owner == getpid())
        (void)stk_thread_close(idle, 0);
    idle = NULL;
    Py_RETURN_NONE;
}

static int run_call(void *user, struct stk_err *err)
{
    struct stk_py_call *c = user;
    (void)err;
    c->run(c);
    return 0;
}

static void drop_call(void *user)
{
    struct stk_py_call *c = user;
    c->drop(c);
}

/* Ends a call whose result is not wanted, without the GIL: waits a moment for its thread, and leaves
 * it behind then. Without a thread, it is made now. */
static void end_call(struct stk_thread *t, struct stk_py_call *c)
{
    if (!t)
        c->run(c);
    if (stk_thread_close(t, GRACE_S))
        c->drop(c);
}

int stk_py_call(struct stk_py_call *c, bool may_stall)
{
    struct stk_thread *t = may_stall ? take_thread() : NULL;
    bool done = !t, raised = false;
    if (t) {
        stk_thread_begin(t, run_call, drop_call, c);
    } else {
        Py_BEGIN_ALLOW_THREADS c->run(c);
        Py_END_ALLOW_THREADS
    }
    while (!done && !raised) {
        Py_BEGIN_ALLOW_THREADS done = stk_thread_wait(t, SLICE_S);
        Py_END_ALLOW_THREADS raised = !done && PyErr_CheckSignals() < 0;
    }
    if (raised) {
        atomic_store(&c->stop, true);
        Py_BEGIN_ALLOW_THREADS end_call(t, c);
        Py_END_ALLOW_THREADS
    } else if (t && c->often && !idle) {
        idle = t;
    } else {
        (void)stk_thread_close(t, 0);
    }
    return raised ? -1 : 0;
}

void stk_py_call_last(struct stk_py_call *c, bool may_stall)
{
    struct stk_thread *t = may_stall ? take_thread() : NULL;
    if (t)
        stk_thread_begin(t, run_call, drop_call, c);
    Py_BEGIN_ALLOW_THREADS end_call(t, c);
    Py_END_ALLOW_THREADS
}
