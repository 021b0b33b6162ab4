/* job.c - the waits of a request and its answer. */
#include "job.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* How often a stalled request checks whether its caller was interrupted or the fault cleared. */
#define STALL_LOOK_NS 20000000u

struct job *job_new(fuse_req_t req, enum op op)
{
    struct slowfs *fs = fuse_req_userdata(req);
    struct job *job = calloc(1, sizeof *job);
    if (!job) {
        fuse_reply_err(req, ENOMEM);
        return NULL;
    }
    job->req = req;
    job->op = op;
    job->effect = NO_EFFECT;
    stats_enter(&fs->count, op);
    return job;
}

/* ---- answers ------------------------------------------------------------------------------- */

/* What the rules leave of a request for n bytes at offset. */
static size_t cut(const struct job *job, size_t n)
{
    uint64_t offset = (uint64_t)job->offset, limit = job->effect.size_limit;
    if (offset >= limit)
        return 0;
    if (n > limit - offset)
        n = (size_t)(limit - offset);
    if (!job->effect.is_short)
        return n;
    /* Half, and for large reads a whole number of sectors, like a real short direct read. */
    size_t most = job->effect.short_bytes;
    if (!most)
        most = n >= 1024 ? n / 2 & ~(size_t)511 : n - n / 2;
    return n < most ? n : most;
}

static void answer_data(struct slowfs *fs, struct job *job, uint8_t *buffer)
{
    size_t want = cut(job, job->size), got = 0;
    while (got < want) {
        ssize_t n = pread(job->handle->fd, buffer + got, want - got, job->offset + (off_t)got);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            fuse_reply_err(job->req, errno);
            return;
        }
        if (n == 0)
            break;
        got += (size_t)n;
    }
    faults_flip(&fs->faults, job->handle->path, (uint64_t)job->offset, buffer, got);
    stats_request(&fs->count, OP_READ, got);
    fuse_reply_buf(job->req, (const char *)buffer, got);
}

/* The kernel returns ENOENT for an answer whose caller is gone: undoes the work. */
static void undo(struct slowfs *fs, struct job *job)
{
    if (job->answer == ANSWER_ENTRY || job->answer == ANSWER_CREATE)
        nodes_forget(&fs->nodes, job->node, 1);
    if (job->answer == ANSWER_OPEN || job->answer == ANSWER_CREATE)
        handle_close(fs, job->node, job->handle);
}

static void answer(struct slowfs *fs, struct job *job, uint8_t *buffer)
{
    int rc = 0;
    switch (job->answer) {
    case ANSWER_ERROR:
        fuse_reply_err(job->req, 0);
        break;
    case ANSWER_ENTRY:
        rc = fuse_reply_entry(job->req, &job->entry);
        break;
    case ANSWER_ATTR:
        fuse_reply_attr(job->req, &job->attr, fs->set.meta_cache_s);
        break;
    case ANSWER_OPEN:
        rc = fuse_reply_open(job->req, &job->file);
        break;
    case ANSWER_CREATE:
        rc = fuse_reply_create(job->req, &job->entry, &job->file);
        break;
    case ANSWER_TEXT:
        fuse_reply_readlink(job->req, job->text);
        break;
    case ANSWER_LISTING:
        fuse_reply_buf(job->req, job->text, job->size);
        break;
    case ANSWER_WRITTEN:
        fuse_reply_write(job->req, job->size);
        break;
    case ANSWER_DATA:
        answer_data(fs, job, buffer);
        break;
    }
    if (rc == -ENOENT)
        undo(fs, job);
}

static void job_free(struct job *job)
{
    free(job->text);
    free(job);
}

void job_abandon(struct slowfs *fs, struct job *job, int error)
{
    undo(fs, job);
    stats_leave(&fs->count, job->op); /* before the answer: the caller's next request may be quick */
    fuse_reply_err(job->req, error);
    job_free(job);
}

static uint64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Notes how late the answer is: before it, since the caller may be quick with its next request, and
 * once more with what the answer itself took, which is mostly the copy of its data. That in CPU
 * time: the caller may run on this core as soon as it is answered. */
static void answer_late(struct slowfs *fs, struct job *job, uint8_t *buffer)
{
    uint32_t thread = (uint32_t)fuse_req_ctx(job->req)->pid;
    uint64_t late_ns = now_ns() - job->due_ns, before_ns = cpu_ns();
    pace_set_lag(&fs->lags, thread, late_ns);
    answer(fs, job, buffer);
    pace_set_lag(&fs->lags, thread, late_ns + cpu_ns() - before_ns);
}

static void finish(struct slowfs *fs, struct job *job, uint8_t *buffer)
{
    if (job->answer != ANSWER_DATA || job->error)
        stats_request(&fs->count, job->op, job->answer == ANSWER_WRITTEN ? job->size : 0);
    if (job->error) {
        job_abandon(fs, job, job->error);
        return;
    }
    stats_leave(&fs->count, job->op);
    if (fs->set.catch_up)
        answer_late(fs, job, buffer);
    else
        answer(fs, job, buffer);
    job_free(job);
}

/* ---- waits --------------------------------------------------------------------------------- */

/* True while the stall lasts. It ends early when the rules change, and with EINTR when the caller
 * has a signal, so that a process stuck here can be killed. */
static bool stalled(struct slowfs *fs, struct job *job, uint64_t now)
{
    if (now >= job->stalled_until_ns || fs->faults.version != job->effect.version)
        return false;
    if (fuse_req_interrupted(job->req)) {
        job->error = EINTR;
        return false;
    }
    uint64_t look = now + STALL_LOOK_NS;
    job->due_ns = look < job->stalled_until_ns ? look : job->stalled_until_ns;
    return true;
}

/* Queues among the requests of its own process; only then for the shared link, so that the queue of
 * one process does not hold up the others. */
static void enter_client(struct slowfs *fs, struct job *job)
{
    uint64_t rate = fs->pace.client_Bps;
    job->client_done_ns = job->due_ns;
    if (rate && job->bytes && job->handle && job->handle->client)
        job->client_done_ns =
            pace_reserve(&job->handle->client->clock, rate, job->due_ns, job->bytes, &job->due_ns);
}

static void enter_link(struct slowfs *fs, struct job *job)
{
    uint64_t rate = fs->pace.link_Bps;
    if (rate && job->bytes)
        job->due_ns = pace_reserve(&fs->pace.link, rate, job->due_ns, job->bytes, NULL);
    if (job->due_ns < job->client_done_ns)
        job->due_ns = job->client_done_ns;
}

/* When the request would have come if the last answer to its thread had not been late. */
static uint64_t arrival(struct slowfs *fs, const struct job *job, uint64_t now)
{
    uint32_t thread = (uint32_t)fuse_req_ctx(job->req)->pid;
    return fs->set.catch_up ? now - pace_lag(&fs->lags, thread) : now;
}

/* Each wait begins when the previous one was due, not when a thread noticed: time lost in waking up
 * is not lost on the link. */
bool job_step(struct slowfs *fs, struct job *job, uint64_t now, uint8_t *buffer)
{
    switch (job->wait) {
    case WAIT_STALL:
        if (stalled(fs, job, now))
            return true;
        job->due_ns = arrival(fs, job, now) + pace_latency(&fs->pace, job->op);
        job->wait = WAIT_LATENCY;
        if (job->due_ns > now)
            return true;
        /* fall through */
    case WAIT_LATENCY:
        enter_client(fs, job);
        job->wait = WAIT_CLIENT;
        if (job->due_ns > now)
            return true;
        /* fall through */
    case WAIT_CLIENT:
        enter_link(fs, job);
        job->wait = WAIT_LINK;
        if (job->due_ns > now)
            return true;
        /* fall through */
    case WAIT_LINK:
        finish(fs, job, buffer);
    }
    return false;
}
