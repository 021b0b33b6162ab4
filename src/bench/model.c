/* model.c - see model.h. The sizes and the division are those of DLIO and MLPerf Storage. */
#include "bench/model.h"

/* Parameters of the attention and the feed-forward part of a layer: tensor parallelism divides
 * them. */
static double block_parameters(const struct stk_workload *w)
{
    double h = (double)w->model.hidden, f = (double)w->model.ffn;
    double kv = (double)(w->model.hidden / w->model.heads * w->model.kv_heads);
    return h * (h + 2 * kv) + h * h + 3 * h * f;
}

double stk_model_parameters(const struct stk_workload *w)
{
    double h = (double)w->model.hidden, v = (double)w->model.vocabulary;
    return 2 * v * h + (double)w->model.layers * (2 * h + block_parameters(w)) + h;
}

static int wrong(const struct stk_workload *w, struct stk_err *err, const char *what)
{
    return stk_err_set(err, STK_E_USAGE, w->path, -1, "%s", what);
}

/* Ranks of one copy of the model. */
static uint64_t part_of(const struct stk_workload *w)
{
    return w->model.tensor * w->model.pipeline;
}

/* Copies of the model. */
static uint64_t copies_of(const struct stk_workload *w, uint64_t ranks)
{
    return w->model.data ? w->model.data : ranks / part_of(w);
}

/* The layers of a pipeline's stage, from *first to before *end. 0 is the embedding; behind the
 * transformer's follow the head and the last norm. */
static void stage_layers(const struct stk_workload *w, uint64_t stage, uint64_t *first,
                         uint64_t *end)
{
    uint64_t n = w->model.layers, stages = w->model.pipeline;
    uint64_t each = n / stages, more = n % stages;
    bool given = w->model.layer_bytes != 0; /* the layers are all there is */
    *first = 1 + stage * each + (stage < more ? stage : more);
    *end = *first + each + (stage < more);
    if (!given && stage == 0)
        *first = 0;
    if (!given && stage == stages - 1)
        *end = n + 3;
}

/* Bytes of a layer's file, or of its part of the one file, that one rank writes. */
static double layer_bytes(const struct stk_workload *w, uint64_t layer, uint64_t copies)
{
    double h = (double)w->model.hidden, v = (double)w->model.vocabulary;
    double tensor = (double)w->model.tensor, n;
    double shares = w->model.zero == 3 ? (double)copies : 1;
    if (w->model.layer_bytes)
        return (double)w->model.layer_bytes / tensor / shares;
    if (layer == 0 || layer == w->model.layers + 1)
        n = h * v / tensor;
    else if (layer == w->model.layers + 2)
        n = h;
    else
        n = 2 * h + block_parameters(w) / tensor;
    return n / shares * (double)w->model.weight_bytes;
}

/* One file per layer of the stage, as DeepSpeed writes them with pipelines; else one. */
static bool has_layer_files(const struct stk_workload *w)
{
    return w->model.pipeline > 1 && (w->model.zero == 1 || w->model.zero == 2);
}

static int check_ranks(const struct stk_workload *w, uint64_t ranks, struct stk_err *err)
{
    uint64_t part = part_of(w);
    if (w->model.data && ranks > w->model.data * part)
        return stk_err_set(err, STK_E_USAGE, w->path, -1,
                           "model.data: %llu copies of %llu ranks are fewer than %llu ranks",
                           (unsigned long long)w->model.data, (unsigned long long)part,
                           (unsigned long long)ranks);
    if (!w->model.data && ranks % part)
        return stk_err_set(err, STK_E_USAGE, w->path, -1,
                           "model.tensor: %llu x model.pipeline %llu does not divide %llu rank%s; "
                           "use more of them, or model.data to run a part of the job",
                           (unsigned long long)w->model.tensor,
                           (unsigned long long)w->model.pipeline, (unsigned long long)ranks,
                           ranks == 1 ? "" : "s");
    return 0;
}

int stk_model_check(const struct stk_workload *w, uint64_t ranks, struct stk_err *err)
{
    uint64_t first, end;
    if (!w->model.layers)
        return 0;
    int rc = check_ranks(w, ranks, err);
    if (rc < 0)
        return rc;
    if (w->model.layers < w->model.pipeline)
        return wrong(w, err, "model.pipeline: more stages than model.layers");
    if (w->model.hidden < w->model.heads)
        return wrong(w, err, "model.heads: more than model.hidden");
    if (w->model.zero == 3 && w->model.pipeline > 1)
        return wrong(w, err,
                     "model.zero: stage 3 divides the model by data parallelism, and "
                     "contradicts model.pipeline");
    stage_layers(w, 0, &first, &end);
    /* The last stage has one layer less or as many, and two files more than the first. */
    if (has_layer_files(w) && end - first + 3 > STK_CHECKPOINT_FILES)
        return wrong(w, err, "model.layers: more than 60 per stage of the pipeline");
    return 0;
}

static size_t weight_files(const struct stk_workload *w, uint64_t rank, uint64_t copies,
                           uint64_t bytes[STK_CHECKPOINT_FILES])
{
    uint64_t first, end;
    double all = 0;
    size_t n = 0;
    stage_layers(w, rank / w->model.tensor % w->model.pipeline, &first, &end);
    for (uint64_t i = first; i < end; i++) {
        double one = layer_bytes(w, i, copies);
        all += one;
        if (has_layer_files(w))
            bytes[n++] = (uint64_t)one;
    }
    if (!has_layer_files(w))
        bytes[n++] = (uint64_t)all;
    return n;
}

static uint64_t optimizer_bytes(const struct stk_workload *w, uint64_t copies)
{
    double shares = (double)part_of(w) * (w->model.zero >= 1 ? (double)copies : 1);
    if (w->model.state_bytes)
        return w->model.state_bytes;
    return (uint64_t)(stk_model_parameters(w) * (double)w->model.optimizer_bytes / shares);
}

size_t stk_checkpoint_files(const struct stk_workload *w, uint64_t rank, uint64_t ranks,
                            uint64_t bytes[STK_CHECKPOINT_FILES])
{
    size_t n = 0;
    if (!w->model.layers) {
        if (w->checkpoint.who == STK_WHO_ALL || rank == 0)
            for (; n < w->checkpoint.nfiles; n++)
                bytes[n] = w->checkpoint.bytes[n];
        return n;
    }
    uint64_t copies = copies_of(w, ranks);
    bool first = rank < part_of(w); /* the first of the copies */
    if (first || w->model.zero == 3)
        n = weight_files(w, rank, copies, bytes);
    if (first || w->model.zero >= 1)
        bytes[n++] = optimizer_bytes(w, copies);
    return n;
}
