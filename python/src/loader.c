/*
 * loader.c - a running loader, and the iteration that hands its batches to a loop. take() waits
 * without the GIL and in short slices, so that it answers Ctrl-C; it admits one thread at a time.
 * Mending a batch reads files in the call that gives the batch: where these may hang, the call can
 * be left behind. The loader is then lost, but not its place.
 *
 * A batch that the library gave is "taken" until the loop has it: Python code that runs in between
 * (signal handlers, transforms) may raise, and then the loop is given the batch again. The batch
 * counts as received in the last step before the iteration returns it. Where an exception discards
 * it after that, unseen (a handler may run before the value is stored), its receipt dies while the
 * exception is under way, and the batch is taken back. state() counts what was received.
 *
 * After a fork the child can only ask where the loader was: the threads belong to its parent.
 */
#include "pystk.h"
#include "dataset/dataset.h"
#include "load/options.h"

#include <stdlib.h>
#include <unistd.h>

struct taken {
    PyObject *batch;
    char *before; /* the state without it */
};

enum { SLICE_MS = 100, BUSY_LOOK_US = 10000, PROBLEMS = 1000, TAKEN_MAX = 12 };

struct receipt;

struct loader {
    PyObject_HEAD struct stk_loader *ld; /* NULL: closed */
    PyObject *dataset, *pool;
    PyThread_type_lock lock;
    bool closing, failed;
    pid_t busy; /* the thread whose call of the library may take long; 0: none */
    bool lost;  /* such a call was left behind, and the library's loader with it */
    pid_t pid;
    /* Changed with the GIL held, and never in two steps that Python code could come between. */
    struct taken taken[TAKEN_MAX];
    size_t ntaken;
    struct taken last; /* the one received last, while its receipt is out */
    struct receipt *receipt;
    const void *asker; /* the frame that was given it (only compared), and at which instruction */
    long asked_at;
    char *before;                 /* while a thread waits for a batch: the state without it */
    uint64_t epoch, given, whole; /* given: of this epoch; whole: batches of a whole epoch */
    bool begun;                   /* the loop was given one of them, seen or not */
    bool over;                    /* the library has told the end of the epoch */
};

static PyTypeObject *loader_type, *receipt_type;

/* ---- opening ---- */

static int use_pool(PyObject *pool, struct stk_loader_options *o)
{
    if (!PyObject_TypeCheck(pool, stk_py_pool_type)) {
        PyErr_SetString(PyExc_TypeError, "pool: not a Pool");
        return -1;
    }
    o->alloc = stk_py_pool_alloc;
    o->free = stk_py_pool_free;
    o->user = pool;
    return 0;
}

struct starting {
    struct stk_py_call call;
    struct stk_loader_options o;
    struct stk_arena arena; /* what o points to */
    PyObject *pool;         /* that o has its memory from, or NULL */
    struct stk_dataset *ds; /* kept */
    struct stk_loader *ld;
    uint64_t epoch, whole;
    struct stk_err err;
    int rc;
};

/* The epoch it begins with, and the number of batches of an epoch that is not resumed. */
static int count_whole(struct starting *x, struct stk_err *err)
{
    const struct stk_loader_options *o = &x->o;
    struct stk_state st = {.epoch = o->epoch};
    struct stk_order order;
    struct stk_plan plan;
    int rc = o->state ? stk_state_read(o->state, strlen(o->state), &st, err) : 0;
    x->epoch = st.epoch;
    if (o->state && rc == 0)
        stk_state_release(&st);
    stk_order_init(&order, stk_dataset_len(x->ds), STK_SHUFFLE_NONE, 0, 0, 0, 0);
    if (rc == 0)
        rc = stk_plan_init(&plan, &order, NULL, 0, o->rank, o->world ? o->world : 1,
                           o->batch ? o->batch : 32, o->last, err);
    if (rc < 0)
        return rc;
    x->whole = plan.steps;
    stk_plan_release(&plan);
    return 0;
}

static void start_it(struct stk_py_call *c)
{
    struct starting *x = (struct starting *)c;
    x->rc = stk_loader_open(x->ds, &x->o, &x->ld, &x->err);
    if (x->rc == 0)
        x->rc = count_whole(x, &x->err);
    if (x->rc == 0)
        (void)stk_dataset_identity(x->ds); /* states have it: none waits for the files later */
}

static void drop_starting(struct stk_py_call *c)
{
    struct starting *x = (struct starting *)c;
    stk_loader_close(x->ld);
    stk_dataset_close(x->ds);
    stk_arena_release(&x->arena);
    free(x);
}

/* Starting a loader; NULL with an exception. */
static struct starting *new_starting(struct stk_py_dataset *d, PyObject *pool, PyObject *kwargs)
{
    struct starting *x = calloc(1, sizeof *x);
    if (!x) {
        PyErr_NoMemory();
        return NULL;
    }
    if (stk_py_options_take(stk_loader_opts, kwargs, &x->o, &x->arena) < 0 ||
        (pool && use_pool(pool, &x->o) < 0)) {
        stk_arena_release(&x->arena);
        free(x);
        return NULL;
    }
    x->call = (struct stk_py_call){.run = start_it, .drop = drop_starting};
    Py_XINCREF(pool);
    x->pool = pool;
    stk_dataset_keep(d->ds);
    x->ds = d->ds;
    return x;
}

/* The loader that was started, or NULL with an exception. */
static struct loader *started(PyTypeObject *type, PyObject *dataset, struct starting *x)
{
    struct loader *l = x->rc == 0 ? stk_py_new(type) : NULL;
    if (x->rc < 0)
        stk_py_raise(&x->err);
    if (!l)
        return NULL;
    l->pid = getpid();
    Py_INCREF(dataset);
    l->dataset = dataset;
    if (!(l->lock = PyThread_allocate_lock())) {
        PyErr_NoMemory();
        Py_CLEAR(l);
        return NULL;
    }
    l->ld = x->ld;
    l->pool = x->pool;
    l->epoch = x->epoch;
    l->whole = x->whole;
    x->ld = NULL;
    x->pool = NULL;
    return l;
}

/* Loader(dataset, pool, **options); pool: None, or what memory for arrays comes from */
static PyObject *loader_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *dataset, *pool;
    if (!PyArg_ParseTuple(args, "O!O", stk_py_dataset_type, &dataset, &pool))
        return NULL;
    struct stk_py_dataset *d = (struct stk_py_dataset *)dataset;
    struct starting *x = new_starting(d, pool == Py_None ? NULL : pool, kwargs);
    if (!x || stk_py_call(&x->call, d->may_stall) < 0)
        return NULL;
    struct loader *l = started(type, dataset, x);
    Py_CLEAR(x->pool);
    Py_BEGIN_ALLOW_THREADS drop_starting(&x->call);
    Py_END_ALLOW_THREADS return (PyObject *)l;
}

/* ---- one at a time ---- */

static int usable(const struct loader *l)
{
    struct stk_err err = {0};
    if (l->pid == getpid() && l->ld && !l->closing)
        return 0;
    if (l->pid != getpid())
        stk_err_set(&err, STK_E_USAGE, NULL, -1,
                    "this iteration belongs to process %d: begin one in this process", (int)l->pid);
    else if (l->lost)
        stk_err_set(
            &err, STK_E_USAGE, NULL, -1,
            "this iteration was interrupted while its storage did not answer: a loader with "
            "state=loader.state() goes on");
    else
        stk_err_set(&err, STK_E_USAGE, NULL, -1, "the loader is closed");
    stk_py_raise(&err);
    return -1;
}

static void acquire(struct loader *l)
{
    if (!PyThread_acquire_lock(l->lock, NOWAIT_LOCK)) {
        Py_BEGIN_ALLOW_THREADS PyThread_acquire_lock(l->lock, WAIT_LOCK);
        Py_END_ALLOW_THREADS
    }
}

static void leave(struct loader *l)
{
    PyThread_release_lock(l->lock);
}

/* Waits a little for the thread that is busy; a signal handler that interrupts it cannot. */
static int let_work(const struct loader *l)
{
    struct stk_err err = {0};
    if (l->busy != gettid()) {
        Py_BEGIN_ALLOW_THREADS usleep(BUSY_LOOK_US);
        Py_END_ALLOW_THREADS return PyErr_CheckSignals();
    }
    stk_err_set(&err, STK_E_USAGE, NULL, -1,
                "the loader is busy: a signal handler can ask for its state, or close it");
    stk_py_raise(&err);
    return -1;
}

static int enter(struct loader *l)
{
    while (usable(l) == 0) {
        acquire(l);
        if (!l->busy && usable(l) == 0)
            return 0;
        leave(l);
        if (PyErr_Occurred() || (l->busy && let_work(l) < 0))
            return -1;
    }
    return -1;
}

/* ---- batches on their way to the loop ---- */

static void drop(struct taken *t)
{
    PyObject *batch = t->batch;
    free(t->before);
    *t = (struct taken){0};
    Py_XDECREF(batch);
}

struct receipt {
    PyObject_HEAD struct loader *l; /* borrowed; NULL: it is about nothing any more */
};

/* Who asks for the next batch has the last one. */
static void acknowledge(struct loader *l)
{
    struct receipt *r = l->receipt;
    l->receipt = NULL;
    if (r)
        r->l = NULL;
    drop(&l->last);
}

/* The loop never had it. */
static void take_back(struct loader *l)
{
    memmove(l->taken + 1, l->taken, l->ntaken++ * sizeof *l->taken);
    l->taken[0] = l->last;
    l->last = (struct taken){0};
    l->given--;
}

static bool is_unseen(const struct loader *l)
{
    return l->receipt && l->last.batch && l->ntaken < TAKEN_MAX;
}

static void receipt_free(PyObject *self)
{
    struct loader *l = ((struct receipt *)self)->l;
    if (l) {
        if (PyErr_Occurred() && is_unseen(l))
            take_back(l);
        acknowledge(l);
    }
    stk_py_del(self);
}

/* receipt() -> goes with what is made of the batch that take(0) gives, until the program looks at
 * that */
static PyObject *loader_receipt(PyObject *self, PyObject *unused)
{
    struct loader *l = (struct loader *)self;
    struct receipt *r = stk_py_new(receipt_type);
    (void)unused;
    if (!r)
        return NULL;
    acknowledge(l);
    r->l = l;
    l->receipt = r;
    return (PyObject *)r;
}

static void note_asker(struct loader *l)
{
    PyObject *frame = (PyObject *)PyEval_GetFrame();
    PyObject *at = frame ? PyObject_GetAttrString(frame, "f_lasti") : NULL;
    l->asker = at ? frame : NULL;
    l->asked_at = at ? PyLong_AsLong(at) : -1;
    Py_XDECREF(at);
    PyErr_Clear();
}

/* unseen() -> (id of the frame that was given the last batch, its instruction, the state without
 * that batch), as long as the program has not looked at it; else None */
static PyObject *loader_unseen(PyObject *self, PyObject *unused)
{
    struct loader *l = (struct loader *)self;
    (void)unused;
    if (!l->receipt || !l->last.batch || !l->asker)
        Py_RETURN_NONE;
    return Py_BuildValue("NlN", PyLong_FromVoidPtr((void *)(uintptr_t)l->asker), l->asked_at,
                         stk_py_text(l->last.before, strlen(l->last.before)));
}

/* The loop is given the first batch. Nothing that runs Python code may follow. */
static void receive(struct loader *l)
{
    if (l->receipt)
        note_asker(l);
    struct taken t = l->taken[0];
    memmove(l->taken, l->taken + 1, --l->ntaken * sizeof *l->taken);
    l->given++;
    l->begun = true;
    if (l->receipt)
        l->last = t;
    else
        drop(&t);
}

/* The loop was told that the epoch is over; the library begins the next one with the next call. */
static void finish_epoch(struct loader *l)
{
    acknowledge(l);
    l->epoch++;
    l->given = 0;
    l->begun = l->over = false;
}

static int ask_state(struct loader *l, char **text, struct stk_err *err)
{
    int rc;
    Py_BEGIN_ALLOW_THREADS rc = stk_loader_state(l->ld, text, err);
    Py_END_ALLOW_THREADS return rc;
}

/* Takes the end of an epoch that has no batch left: that never waits. */
static void take_end(struct loader *l)
{
    struct stk_batch *b = NULL;
    Py_BEGIN_ALLOW_THREADS stk_loader_next(l->ld, &b, NULL);
    Py_END_ALLOW_THREADS l->over = true;
    free(l->before);
    l->before = NULL;
}

/* Remembers where it is before it waits. -1 with an exception. */
static int note_state(struct loader *l)
{
    struct stk_err err = {0};
    if (enter(l) < 0)
        return -1;
    int rc = l->before ? 0 : ask_state(l, &l->before, &err);
    leave(l);
    if (rc < 0)
        stk_py_raise(&err);
    return rc;
}

static int add_taken(struct loader *l, struct stk_batch *b)
{
    PyObject *batch = stk_py_batch_new(b, l->dataset, l->pool);
    if (!batch)
        return -1;
    l->taken[l->ntaken++] = (struct taken){.batch = batch, .before = l->before};
    l->before = NULL;
    return 0;
}

/* ---- the library's next one ---- */

struct taking {
    struct stk_py_call call;
    struct stk_loader *ld;
    struct stk_batch *b;
    struct stk_err err;
    int rc;
};

static void take_it(struct stk_py_call *c)
{
    struct taking *x = (struct taking *)c;
    x->rc = stk_loader_next(x->ld, &x->b, &x->err);
}

static void drop_taking(struct stk_py_call *c)
{
    struct taking *x = (struct taking *)c;
    stk_batch_release(x->b);
    stk_loader_close(x->ld);
    free(x);
}

/* Makes the call so that it can be left behind. Signal handlers run meanwhile, so the lock is let
 * go; it is held again at the end. -1 with an exception: x is gone. */
static int take_apart(struct loader *l, struct taking *x)
{
    l->busy = gettid();
    leave(l);
    int rc = stk_py_call(&x->call, true);
    if (rc < 0) {
        Py_XINCREF(l->pool); /* the call may still use it */
        l->ld = NULL;
        l->lost = true;
    }
    acquire(l);
    l->busy = 0;
    if (rc == 0 && l->closing) { /* whoever closed it left the rest to us */
        l->ld = NULL;
        Py_BEGIN_ALLOW_THREADS drop_taking(&x->call);
        Py_END_ALLOW_THREADS rc = usable(l);
    }
    return rc;
}

/* With the lock held. As stk_loader_next(), but with an exception. */
static int next_batch(struct loader *l, struct stk_batch **b)
{
    bool may_stall = ((struct stk_py_dataset *)l->dataset)->may_stall;
    struct taking *x = calloc(1, sizeof *x);
    if (!x) {
        PyErr_NoMemory();
        return -1;
    }
    x->call = (struct stk_py_call){.run = take_it, .drop = drop_taking, .often = true};
    x->ld = l->ld;
    if ((may_stall ? take_apart(l, x) : stk_py_call(&x->call, false)) < 0)
        return -1;
    int rc = x->rc;
    if (rc < 0)
        stk_py_raise(&x->err);
    *b = x->b;
    free(x);
    return rc;
}

/* One more batch of this epoch, or its end. */
static int take_one(struct loader *l)
{
    struct stk_batch *b = NULL;
    int rc = note_state(l), ready = 0;
    while (rc == 0 && !ready) {
        /* Let go between slices: the handler of a signal may ask for the state. */
        if (enter(l) < 0)
            return -1;
        Py_BEGIN_ALLOW_THREADS ready = stk_loader_wait(l->ld, SLICE_MS);
        Py_END_ALLOW_THREADS leave(l);
        if (PyErr_CheckSignals() < 0)
            return -1;
    }
    if (rc < 0 || enter(l) < 0)
        return -1;
    rc = next_batch(l, &b);
    leave(l);
    if (l->lost)
        return -1; /* `before` is where it goes on */
    l->over = rc == 0;
    l->failed = rc < 0;
    if (rc > 0)
        return add_taken(l, b);
    free(l->before);
    l->before = NULL;
    return rc;
}

/* take(i) -> the batch i places ahead of what the loop has; None: the epoch has none */
static PyObject *loader_take(PyObject *self, PyObject *number)
{
    struct loader *l = (struct loader *)self;
    size_t i = PyLong_AsSize_t(number);
    if (PyErr_Occurred())
        return NULL;
    if (i >= TAKEN_MAX - 1) {
        PyErr_SetString(PyExc_IndexError, "only a few batches are taken ahead");
        return NULL;
    }
    while (l->ntaken <= i && !l->over)
        if (take_one(l) < 0)
            return NULL;
    PyObject *batch = l->ntaken > i && usable(l) == 0 ? l->taken[i].batch : Py_None;
    if (PyErr_Occurred())
        return NULL;
    Py_INCREF(batch);
    return batch;
}

/* ahead(i) -> what take(i) gives, or None where that would have to wait */
static PyObject *loader_ahead(PyObject *self, PyObject *number)
{
    struct loader *l = (struct loader *)self;
    size_t i = PyLong_AsSize_t(number);
    int ready = 1;
    if (PyErr_Occurred())
        return NULL;
    while (l->ntaken <= i && !l->over && i < TAKEN_MAX - 1) {
        if (enter(l) < 0)
            return NULL;
        Py_BEGIN_ALLOW_THREADS ready = stk_loader_wait(l->ld, 0);
        Py_END_ALLOW_THREADS leave(l);
        if (!ready)
            Py_RETURN_NONE;
        if (take_one(l) < 0)
            return NULL;
    }
    return loader_take(self, number);
}

/* Whether the loop has all batches of the epoch. It need not have asked for one more. */
static bool has_all(const struct loader *l)
{
    return l->ntaken == 0 && l->given > 0 && l->given == stk_loader_steps(l->ld);
}

/* settle() -> whether the epoch was complete: then it is over, and the next one begins */
static PyObject *loader_settle(PyObject *self, PyObject *unused)
{
    struct loader *l = (struct loader *)self;
    (void)unused;
    if (enter(l) < 0)
        return NULL;
    bool complete = l->over ? l->ntaken == 0 : has_all(l);
    if (complete && !l->over)
        take_end(l);
    leave(l);
    if (complete)
        finish_epoch(l);
    return PyBool_FromLong(complete);
}

/* ---- where it is ---- */

/* The state of what was received, malloc'ed. */
static int received_state(struct loader *l, char **text, struct stk_err *err)
{
    if (l->ntaken > 0)
        return (*text = strdup(l->taken[0].before)) ? 0 : stk_err_nomem(err, 1);
    if (!l->over && has_all(l))
        take_end(l);
    return ask_state(l, text, err);
}

/* What it was before the library was asked for a batch, where that is still so. */
static int noted_state(const struct loader *l, char **text, struct stk_err *err)
{
    const char *before = l->ntaken ? l->taken[0].before : l->before;
    if (!before)
        return stk_err_set(err, STK_E_USAGE, NULL, -1, "the loader is closed");
    return (*text = strdup(before)) ? 0 : stk_err_nomem(err, 1);
}

/* In a forked child: the library is asked only where no thread was in it. */
static int inherited_state(struct loader *l, char **text, struct stk_err *err)
{
    bool apart = PyThread_acquire_lock(l->lock, NOWAIT_LOCK);
    int rc = noted_state(l, text, err);
    if (rc < 0 && apart && l->ld)
        rc = stk_loader_state(l->ld, text, err);
    if (apart)
        PyThread_release_lock(l->lock);
    return rc;
}

static PyObject *loader_state(PyObject *self, PyObject *unused)
{
    struct loader *l = (struct loader *)self;
    struct stk_err err = {0};
    char *text = NULL;
    int rc;
    (void)unused;
    if (l->pid != getpid()) {
        rc = inherited_state(l, &text, &err);
    } else if (l->lost || l->busy == gettid()) {
        rc = noted_state(l, &text, &err);
    } else {
        if (enter(l) < 0)
            return NULL;
        rc = received_state(l, &text, &err);
        leave(l);
    }
    if (rc < 0)
        return stk_py_raise(&err);
    PyObject *out = stk_py_text(text, strlen(text));
    free(text);
    return out;
}

static PyObject *loader_steps(PyObject *self, PyObject *unused)
{
    struct loader *l = (struct loader *)self;
    uint64_t n;
    (void)unused;
    if (enter(l) < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS n = stk_loader_steps(l->ld);
    Py_END_ALLOW_THREADS leave(l);
    return PyLong_FromUnsignedLongLong(n);
}

static PyObject *loader_stats(PyObject *self, PyObject *unused)
{
    struct loader *l = (struct loader *)self;
    struct stk_loader_stats s = {0};
    (void)unused;
    if (enter(l) < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS stk_loader_stats(l->ld, &s);
    Py_END_ALLOW_THREADS leave(l);
    typedef unsigned long long count;
    return Py_BuildValue(
        "{s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:d,s:K,s:K,s:I,s:s,s:s,s:s,s:K,s:K,"
        "s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:s,s:s}",
        "samples", (count)s.samples, "batches", (count)s.batches, "repeats", (count)s.repeats,
        "replaced", (count)s.replaced, "skipped", (count)s.skipped, "corrupt", (count)s.corrupt,
        "bytes_asked", (count)s.bytes_asked, "bytes_read", (count)s.bytes_read, "reads",
        (count)s.reads, "opens", (count)s.opens, "stall_ns", (count)s.stall_ns, "decode_ns",
        (count)s.decode_ns, "depth", s.depth, "memory_bytes", (count)s.memory_bytes,
        "memory_peak_bytes", (count)s.memory_peak_bytes, "threads", s.threads, "io",
        s.io ? s.io : "", "io_detail", s.io_detail ? s.io_detail : "", "io_reason",
        s.io_reason ? s.io_reason : "", "checked", (count)s.checked, "checked_bytes",
        (count)s.checked_bytes, "unsupported", (count)s.unsupported, "left_out", (count)s.left_out,
        "decoded_bytes", (count)s.decoded_bytes, "source_bytes", (count)s.source_bytes,
        "tier_memory_bytes", (count)s.tier_memory_bytes, "tier_disk_bytes",
        (count)s.tier_disk_bytes, "tier_filled_bytes", (count)s.tier_filled_bytes, "tier_refused",
        (count)s.tier_refused, "tier", s.tier ? s.tier : "", "tier_ended",
        s.tier_ended ? s.tier_ended : "");
}

/* The first warning there is, or None. */
static PyObject *loader_warning(PyObject *self, PyObject *unused)
{
    struct loader *l = (struct loader *)self;
    (void)unused;
    if (usable(l) < 0)
        return NULL;
    const char *text = stk_loader_warning(l->ld, 0);
    if (!text)
        Py_RETURN_NONE;
    return stk_py_text(text, strlen(text));
}

static PyObject *loader_problems(PyObject *self, PyObject *unused)
{
    struct loader *l = (struct loader *)self;
    const char *text[PROBLEMS];
    size_t n = 0;
    (void)unused;
    if (enter(l) < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS while (n < PROBLEMS && (text[n] = stk_loader_problem(l->ld, n))) n++;
    Py_END_ALLOW_THREADS PyObject *list = PyList_New((Py_ssize_t)n);
    for (size_t i = 0; list && i < n; i++) {
        PyObject *item = stk_py_text(text[i], strlen(text[i]));
        if (!item || PyList_SetItem(list, (Py_ssize_t)i, item) < 0)
            Py_CLEAR(list);
    }
    leave(l);
    return list;
}

/* ---- the end ---- */

static void drop_all(struct loader *l)
{
    while (l->ntaken > 0)
        drop(&l->taken[--l->ntaken]);
}

/* Waits for a thread that is in take(), which looks at `closing` ten times a second. */
static PyObject *loader_close(PyObject *self, PyObject *unused)
{
    struct loader *l = (struct loader *)self;
    (void)unused;
    if (l->ld && l->pid == getpid()) {
        l->closing = true;
        if (l->busy) /* whoever is closes it */
            Py_RETURN_NONE;
        Py_BEGIN_ALLOW_THREADS PyThread_acquire_lock(l->lock, WAIT_LOCK);
        if (l->ld && !l->busy) {
            stk_loader_close(l->ld);
            l->ld = NULL;
        }
        PyThread_release_lock(l->lock);
        Py_END_ALLOW_THREADS drop_all(l);
    }
    Py_RETURN_NONE;
}

static void loader_free(PyObject *self)
{
    struct loader *l = (struct loader *)self;
    struct stk_loader *ld = l->pid == getpid() ? l->ld : NULL;
    if (ld) {
        Py_BEGIN_ALLOW_THREADS stk_loader_close(ld);
        Py_END_ALLOW_THREADS
    }
    if (l->lock)
        PyThread_free_lock(l->lock);
    acknowledge(l);
    drop_all(l);
    free(l->before);
    Py_XDECREF(l->pool);
    Py_XDECREF(l->dataset);
    stk_py_del(self);
}

/* place() -> (epoch, batches of it received, batches of a whole one, whether a loop has begun it,
 * whether an error ended it) */
static PyObject *loader_place(PyObject *self, PyObject *unused)
{
    const struct loader *l = (struct loader *)self;
    (void)unused;
    return Py_BuildValue("KKKNN", (unsigned long long)l->epoch, (unsigned long long)l->given,
                         (unsigned long long)l->whole, PyBool_FromLong(l->begun),
                         PyBool_FromLong(l->failed));
}

static PyObject *loader_pid(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromLong(((struct loader *)self)->pid);
}

static PyMethodDef methods[] = {
    {"take", loader_take, METH_O, NULL},
    {"ahead", loader_ahead, METH_O, NULL},
    {"receipt", loader_receipt, METH_NOARGS, NULL},
    {"unseen", loader_unseen, METH_NOARGS, NULL},
    {"settle", loader_settle, METH_NOARGS, NULL},
    {"place", loader_place, METH_NOARGS, NULL},
    {"state", loader_state, METH_NOARGS, NULL},
    {"steps", loader_steps, METH_NOARGS, NULL},
    {"stats", loader_stats, METH_NOARGS, NULL},
    {"problems", loader_problems, METH_NOARGS, NULL},
    {"warning", loader_warning, METH_NOARGS, NULL},
    {"close", loader_close, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyObject *loader_lost(PyObject *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(((struct loader *)self)->lost);
}

static PyGetSetDef getters[] = {
    {"lost", loader_lost, NULL, NULL, NULL},
    {"pid", loader_pid, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, SLOT(loader_new)},
    {Py_tp_dealloc, SLOT(loader_free)},
    {Py_tp_methods, methods},
    {Py_tp_getset, getters},
    {0, NULL},
};
static PyType_Spec spec = {"stoker._stoker.Loader", sizeof(struct loader), 0, Py_TPFLAGS_DEFAULT,
                           slots};

static PyType_Slot receipt_slots[] = {
    {Py_tp_new, SLOT(stk_py_refuse)}, {Py_tp_dealloc, SLOT(receipt_free)}, {0, NULL}};
static PyType_Spec receipt_spec = {"stoker._stoker.Receipt", sizeof(struct receipt), 0,
                                   Py_TPFLAGS_DEFAULT, receipt_slots};

/* ---- what a `for` asks ---- */

struct iteration {
    PyObject_HEAD PyObject *owner, *turn, *lock; /* lock: a threading.RLock; threads may share it */
    struct loader *l;
    bool done;
};

/* Iteration(owner, loader, turn, lock); owner._next(turn) -> (what the loop gets, the batch that
 * it was made of), or None at the end */
static PyObject *iteration_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *owner, *l, *turn, *lock;
    if (kwargs || !PyArg_ParseTuple(args, "OO!OO", &owner, loader_type, &l, &turn, &lock))
        return NULL;
    struct iteration *it = stk_py_new(type);
    if (!it)
        return NULL;
    Py_INCREF(owner);
    it->owner = owner;
    Py_INCREF(l);
    it->l = (struct loader *)l;
    Py_INCREF(turn);
    it->turn = turn;
    Py_INCREF(lock);
    it->lock = lock;
    return (PyObject *)it;
}

/* Whether the frame that an exception is leaving is a generator's: a bar of progress, say, that has
 * not passed the batch on. When it is closed it has. */
static bool fails_in_generator(void)
{
    enum { CO_GENERATOR = 0x20 };
    PyObject *type, *value, *trace;
    if (!PyErr_Occurred() || PyErr_ExceptionMatches(PyExc_GeneratorExit))
        return false;
    PyErr_Fetch(&type, &value, &trace);
    PyObject *frame = (PyObject *)PyEval_GetFrame();
    PyObject *code = frame ? PyObject_GetAttrString(frame, "f_code") : NULL;
    PyObject *flags = code ? PyObject_GetAttrString(code, "co_flags") : NULL;
    bool yes = flags && PyLong_AsLong(flags) & CO_GENERATOR;
    Py_XDECREF(flags);
    Py_XDECREF(code);
    PyErr_Restore(type, value, trace);
    return yes;
}

static void iteration_free(PyObject *self)
{
    struct iteration *it = (struct iteration *)self;
    if (it->l && !it->done && is_unseen(it->l) && fails_in_generator()) {
        take_back(it->l);
        acknowledge(it->l);
    }
    Py_XDECREF((PyObject *)it->l);
    Py_XDECREF(it->turn);
    Py_XDECREF(it->lock);
    Py_XDECREF(it->owner);
    stk_py_del(self);
}

/* What the loop gets, or NULL: an exception, or the end. With the lock held. */
static PyObject *give(struct iteration *it)
{
    struct loader *l = it->l;
    for (;;) {
        PyObject *given = it->done ? NULL : PyObject_CallMethod(it->owner, "_next", "O", it->turn);
        if (!given)
            return NULL;
        PyObject *made = NULL, *batch = NULL;
        bool end = given == Py_None;
        if (!end && !PyArg_ParseTuple(given, "OO", &made, &batch)) {
            Py_DECREF(given);
            return NULL;
        }
        Py_XINCREF(made);
        /* What is pending is answered now, not between the next line and the loop. */
        bool signalled = PyErr_CheckSignals() < 0;
        bool ours = end ? l->over && l->ntaken == 0 : l->ntaken && l->taken[0].batch == batch;
        Py_DECREF(given);
        if (!signalled && ours && end) {
            it->done = true;
            finish_epoch(l);
        } else if (!signalled && ours) {
            receive(l);
        } else {
            Py_XDECREF(made); /* a handler took it from this iteration, or raised */
            made = NULL;
        }
        if (signalled || ours)
            return made;
    }
}

static PyObject *iteration_next(PyObject *self)
{
    struct iteration *it = (struct iteration *)self;
    /* Both are C functions of Python itself: releasing the lock runs no Python code. */
    PyObject *locked = PyObject_CallMethod(it->lock, "acquire", NULL);
    if (!locked)
        return NULL;
    Py_DECREF(locked);
    acknowledge(it->l);
    PyObject *made = give(it);
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyObject *unlocked = PyObject_CallMethod(it->lock, "release", NULL);
    Py_XDECREF(unlocked);
    PyErr_Restore(type, value, trace);
    return made;
}

static PyObject *iteration_self(PyObject *self)
{
    Py_INCREF(self);
    return self;
}

static PyType_Slot iteration_slots[] = {
    {Py_tp_new, SLOT(iteration_new)},
    {Py_tp_dealloc, SLOT(iteration_free)},
    {Py_tp_iter, SLOT(iteration_self)},
    {Py_tp_iternext, SLOT(iteration_next)},
    {0, NULL},
};
static PyType_Spec iteration_spec = {"stoker._stoker.Iteration", sizeof(struct iteration), 0,
                                     Py_TPFLAGS_DEFAULT, iteration_slots};

int stk_py_loader_init(PyObject *module)
{
    loader_type = stk_py_type(module, &spec, "Loader");
    receipt_type = stk_py_type(module, &receipt_spec, "Receipt");
    return loader_type && receipt_type && stk_py_type(module, &iteration_spec, "Iteration") ? 0
                                                                                            : -1;
}
