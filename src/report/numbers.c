/* numbers.c - requests, bytes and files of a profile, in four lines. */
#include <stdio.h>

#include "base/units.h"
#include "result/grid.h"
#include "report/report_priv.h"

#define KINDS 12

/* Calls that move no data, as cells: those with a count, one below the other. */
struct kinds {
    char text[KINDS][48];
    size_t n;
};

static struct kinds count_kinds(const uint64_t *c)
{
    const struct {
        uint64_t n;
        const char *one;
    } all[KINDS] = {{c[STK_C_OPENS], "open"},
                    {c[STK_C_STATS], "stat"},
                    {c[STK_C_SEEKS], "seek"},
                    {c[STK_C_DIR_READS], "directory read"},
                    {c[STK_C_FSYNCS] + c[STK_C_MSYNCS], "sync"},
                    {c[STK_C_RENAMES], "rename"},
                    {c[STK_C_REMOVES], "remove"},
                    {c[STK_C_MAKES], "new name"},
                    {c[STK_C_CHANGES], "change"},
                    {c[STK_C_WALKS], "walk"},
                    {c[STK_C_LOCKS], "lock"},
                    {c[STK_C_ERRORS], "failed call"}};
    struct kinds k = {.n = 0};
    for (size_t i = 0; i < KINDS; i++)
        if (all[i].n)
            stk_word_many(all[i].n, all[i].one, k.text[k.n++], sizeof k.text[0]);
    return k;
}

static double per_request(uint64_t bytes, double s)
{
    return s > 0 ? (double)bytes / s : 0;
}

static void put_totals(const struct stk_usage *j, struct stk_buf *out)
{
    char a[40], b[40], c[40];
    const struct stk_counts *n = &j->n;
    struct kinds k = count_kinds(n->c); /* absent kinds are "" */
    struct stk_grid t;
    stk_grid_init(&t, "lrrr");
    stk_grid_row(&t, "", "read", "write", "metadata");
    stk_grid_row(&t, "time, threads added", stk_word_time(j->read_s, a, sizeof a),
                 stk_word_time(j->write_s, b, sizeof b), stk_word_time(j->meta_s, c, sizeof c));
    stk_grid_row(&t, "bytes", stk_word_size(n->c[STK_C_READ_BYTES], a, sizeof a),
                 stk_word_size(n->c[STK_C_WRITE_BYTES], b, sizeof b), k.text[0]);
    stk_grid_row(&t, "requests", stk_word_count(n->c[STK_C_READS], a, sizeof a),
                 stk_word_count(n->c[STK_C_WRITES], b, sizeof b), k.text[1]);
    stk_grid_row(&t, "mean request", stk_word_size(stk_nearest(j->mean_read_bytes), a, sizeof a),
                 stk_word_size(stk_nearest(j->mean_write_bytes), b, sizeof b), k.text[2]);
    stk_grid_row(&t, "speed of a request", stk_word_rate(j->bandwidth_Bps, a, sizeof a),
                 stk_word_rate(per_request(n->c[STK_C_WRITE_BYTES], j->write_s), b, sizeof b),
                 k.text[3]);
    for (size_t i = 4; i < k.n; i++)
        stk_grid_row(&t, "", "", "", k.text[i]);
    stk_grid_render(&t, 0, out);
    stk_grid_release(&t);
}

static void put_order(const struct stk_usage *j, struct stk_buf *out)
{
    char a[40], b[40], c[40], d[40];
    stk_buf_printf(out, "a read    p50 %s, p99 %s, longest %s; %s are under 1 MiB\n",
                   stk_word_time(j->latency_p50_s, a, sizeof a),
                   stk_word_time(j->latency_p99_s, b, sizeof b),
                   stk_word_time(1e-9 * (double)j->n.c[STK_C_MAX_READ_NS], c, sizeof c),
                   stk_word_share(j->small, d, sizeof d));
    if (j->n.c[STK_C_FIRST_READS] >= j->n.c[STK_C_READS])
        stk_buf_puts(out, j->n.c[STK_C_READS] > j->n.c[STK_C_OPENS]
                              ? "order     unknown\n" /* Darshan has none for C streams */
                              : "order     none: every read is the first after an open\n");
    else
        stk_buf_printf(out, "order     %s sequential, %s consecutive, %s random\n",
                       stk_word_share(j->seq, a, sizeof a), stk_word_share(j->consec, b, sizeof b),
                       stk_word_share(j->random, c, sizeof c));
}

static void put_files(const struct stk_usage *j, struct stk_buf *out)
{
    char a[40], b[40], c[40];
    if (j->distinct_bytes)
        stk_buf_printf(out, "re-read   each byte %s on average: %s of %s%s\n",
                       stk_word_times(j->reread, a, sizeof a),
                       stk_word_size(j->n.c[STK_C_READ_BYTES], b, sizeof b),
                       stk_word_size(j->distinct_bytes, c, sizeof c),
                       j->exact ? "" : " (estimate)");
    stk_buf_printf(out, "files     %s read, %s of them once",
                   stk_word_about(j->files_read, j->files_exact, a, sizeof a),
                   stk_word_about(j->files_read_once, j->files_exact, b, sizeof b));
    stk_buf_printf(out, "; %s written",
                   stk_word_about(j->files_written, j->files_exact, a, sizeof a));
    if (j->size_bytes)
        stk_buf_printf(out, "; %s of data", stk_word_size(j->size_bytes, a, sizeof a));
    stk_buf_putc(out, '\n');
}

void stk_report_numbers(const struct stk_report *r, struct stk_buf *out)
{
    const struct stk_usage *j = &r->a->job;
    stk_report_time(r, out);
    stk_buf_putc(out, '\n');
    put_totals(j, out);
    if (j->n.c[STK_C_READS])
        put_order(j, out);
    put_files(j, out);
}

/* The same in a sentence. */
void stk_report_sums(const struct stk_report *r, struct stk_buf *out)
{
    const struct stk_usage *j = &r->a->job;
    const struct kinds k = count_kinds(j->n.c);
    struct stk_buf line = STK_BUF_INIT;
    char a[40], b[40], c[40];
    if (j->n.c[STK_C_READS])
        stk_buf_printf(&line, "read %s in %s requests of %s, ",
                       stk_word_size(j->n.c[STK_C_READ_BYTES], a, sizeof a),
                       stk_word_count(j->n.c[STK_C_READS], b, sizeof b),
                       stk_word_size(stk_nearest(j->mean_read_bytes), c, sizeof c));
    if (j->n.c[STK_C_WRITES])
        stk_buf_printf(&line, "wrote %s in %s, ",
                       stk_word_size(j->n.c[STK_C_WRITE_BYTES], a, sizeof a),
                       stk_word_count(j->n.c[STK_C_WRITES], b, sizeof b));
    for (size_t i = 0; i < k.n && i < 2; i++)
        stk_buf_printf(&line, "%s, ", k.text[i]);
    stk_buf_puts(&line, "more: --numbers");
    stk_report_wrapped(stk_buf_cstr(&line), 0, r->columns, out);
    stk_buf_release(&line);
}
