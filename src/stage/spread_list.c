/*
 * spread_list.c - rank 0 lists the source and reads its index; the leaders of all nodes get both.
 */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/file.h"
#include "stage/spread_run.h"

#define INDEX_MAX (1ull << 40)

struct hello {
    int32_t code;
    uint64_t list, index; /* bytes that follow */
    struct stk_err err;
};

static void read_index(struct spread *s, struct stk_buf *index)
{
    if (s->src.index && stk_read_file(s->src.index, INDEX_MAX, index, NULL) < 0)
        stk_buf_reset(index);
}

/* An index beside the source is read once, too: the others keep it in memory until it is written to
 * their copies. */
static int keep_index(struct spread *s, const void *p, size_t n, struct stk_err *err)
{
    s->index_fd = memfd_create("stoker-index", MFD_CLOEXEC);
    if (s->index_fd < 0)
        return stk_err_sys(err, NULL, "memory for the index");
    int rc = stk_write_full(s->index_fd, p, n, "index", err);
    snprintf(s->index_path, sizeof s->index_path, "/proc/self/fd/%d", s->index_fd);
    s->src.index = s->index_path;
    return rc;
}

static int list_source(struct spread *s, const char *path, struct stk_buf *list,
                       struct stk_buf *index, struct hello *h)
{
    h->code = stk_source_open(&s->src, path, &s->o.source, &h->err);
    if (h->code == 0) {
        stk_source_encode(&s->src, list);
        read_index(s, index);
        h->code = stk_buf_check(list, &h->err);
    }
    h->list = list->len;
    h->index = index->fail ? 0 : index->len;
    return h->code;
}

int stk_spread_share_list(struct spread *s, const char *path, struct stk_err *err)
{
    struct stk_buf list = STK_BUF_INIT, index = STK_BUF_INIT;
    struct hello h = {0};
    bool first = stk_comm_rank(s->all) == 0, leads = s->leaders != NULL;
    if (first)
        (void)list_source(s, path, &list, &index, &h);
    int rc = stk_comm_bcast(s->all, 0, &h, sizeof h, STK_SPREAD_ANSWER_S, err);
    if (!rc && h.code) {
        s->agreed = true;
        if (err)
            *err = h.err;
        rc = h.code;
    }
    if (!rc && leads && !first &&
        (!stk_buf_extend(&list, h.list) || !stk_buf_extend(&index, h.index + 1)))
        rc = stk_err_nomem(err, h.list + h.index);
    rc = rc || !leads ? rc : stk_comm_bcast(s->leaders, 0, list.data, h.list, STK_SPREAD_ANSWER_S, err);
    rc = rc || !leads || !h.index
             ? rc
             : stk_comm_bcast(s->leaders, 0, index.data, h.index, STK_SPREAD_ANSWER_S, err);
    if (!rc && leads && !first) {
        struct stk_err why = {0};
        int code = stk_source_decode(&s->src, list.data, list.len, &why);
        s->readers[s->node] = code == 0; /* this node does not see the source */
        rc = code && code != STK_E_SYS ? code : 0;
        if (rc && err)
            *err = why;
        rc = rc || !h.index ? rc : keep_index(s, index.data, h.index, err);
    }
    stk_buf_release(&list);
    stk_buf_release(&index);
    s->r->files = s->src.count;
    s->r->bytes = s->src.bytes;
    return rc;
}
