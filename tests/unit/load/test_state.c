/* test_state.c - the text a loader is resumed from: it survives the way through JSON, and no text,
 * however wrong, is believed. A resumed run would otherwise repeat or lose samples silently. */
#include "check.h"
#include "load/plan.h"

#include <stdlib.h>

static int read_text(const char *text, struct stk_state *s, struct stk_err *err)
{
    return stk_state_read(text, strlen(text), s, err);
}

static const char *write_text(const struct stk_state *s, struct stk_buf *b)
{
    stk_buf_reset(b);
    CHECK_INT(stk_state_write(s, b, NULL), 0);
    return stk_buf_cstr(b);
}

static void text_is_documented(void)
{
    uint64_t refill[] = {0, 1, 0, 0}, nothing[] = {0, 0};
    struct stk_state s = {.n = 10000,
                          .dataset_id = 0xabc,
                          .seed = 7,
                          .epoch = 2,
                          .order = 2,
                          .block = 16,
                          .window = 64,
                          .nlegs = 2};
    struct stk_buf b = STK_BUF_INIT;
    s.leg[0] = (struct stk_leg){.world = 4, .done = 1200, .refill = refill};
    s.leg[1] = (struct stk_leg){.world = 2, .done = 64, .refill = nothing};
    CHECK_STR(write_text(&s, &b),
              "{\"stoker_loader\":2,\"samples\":10000,\"dataset\":\"0000000000000abc\",\"seed\":7,"
              "\"epoch\":2,\"shuffle\":\"block\",\"order\":2,\"block\":16,\"window\":64,\"done\":[{"
              "\"world\":4,"
              "\"each\":1200,\"refill\":[0,1,0,0]},{\"world\":2,\"each\":64}],\"check\":\"0165683e\"}");
    s = (struct stk_state){.shuffle = STK_SHUFFLE_NONE, .order = 2, .seed = UINT64_MAX};
    CHECK_STR(write_text(&s, &b),
              "{\"stoker_loader\":2,\"samples\":0,\"dataset\":\"0000000000000000\",\"seed\":"
              "\"18446744073709551615\",\"epoch\":0,\"shuffle\":\"none\",\"order\":2,\"done\":[],"
              "\"check\":\"839dfdb6\"}");
    stk_buf_release(&b);
}

static void comes_back_the_same(void)
{
    static const uint64_t seeds[] = {0, 1, 1ull << 53, (1ull << 53) + 1, INT64_MAX, UINT64_MAX};
    struct stk_buf once = STK_BUF_INIT, twice = STK_BUF_INIT;
    for (size_t i = 0; i < 18; i++) {
        uint64_t refill[] = {i, 0, 3};
        struct stk_state s = {.n = 1000,
                              .dataset_id = stk_mix64(i),
                              .shuffle = (int)(i % 3),
                              .order = STK_ORDER_VERSION,
                              .seed = seeds[i / 3],
                              .epoch = seeds[5 - i / 3],
                              .nlegs = 1},
                         back;
        if (s.shuffle == STK_SHUFFLE_BLOCK)
            s.block = s.window = 10;
        s.leg[0] = (struct stk_leg){.world = 3, .done = 300, .refill = refill};
        const char *text = write_text(&s, &once);
        CHECK_INT(read_text(text, &back, NULL), 0);
        CHECK(back.seed == s.seed && back.epoch == s.epoch && back.dataset_id == s.dataset_id);
        CHECK_STR(write_text(&back, &twice), text);
        stk_state_release(&back);
    }
    stk_buf_release(&once);
    stk_buf_release(&twice);
}

#define HEAD                                                                                       \
    "{\"stoker_loader\":1,\"samples\":10,\"dataset\":\"0123456789abcdef\",\"seed\":1,\"epoch\":0,"
#define NONE HEAD "\"shuffle\":\"none\","
#define NEWER                                                                                      \
    "{\"stoker_loader\":2,\"samples\":10,\"dataset\":\"0123456789abcdef\",\"seed\":1,\"epoch\":0," \
    "\"shuffle\":\"none\","

static void refuses(const char *text, int code, const char *what)
{
    struct stk_state s;
    struct stk_err err = {0};
    CHECK_INT(read_text(text, &s, &err), code);
    CHECK_STR(err.what, what);
    CHECK_INT(s.nlegs, 0);
}

static void damaged(const char *text, const char *what)
{
    refuses(text, STK_E_CORRUPT, what);
}

/* Going on in another order would give some samples twice and others never. */
static void orders_of_other_versions(void)
{
#define GLOBAL HEAD "\"shuffle\":\"global\","
#define MIDDLE "\"done\":[{\"world\":1,\"each\":4}]}"
    struct stk_state s;
    refuses(GLOBAL MIDDLE, STK_E_UNSUPPORTED,
            "loader state in the middle of epoch 0, as an earlier version of stoker shuffled it: "
            "finish the epoch with that one, or begin it anew without the state");
    refuses(GLOBAL "\"order\":3," MIDDLE, STK_E_UNSUPPORTED,
            "loader state in the middle of epoch 0, as a later version of stoker shuffled it: "
            "finish the epoch with that one, or begin it anew without the state");
    static const char *const good[] = {NONE MIDDLE, GLOBAL "\"done\":[]}",
                                       GLOBAL "\"order\":2," MIDDLE};
    for (size_t i = 0; i < 3; i++) {
        CHECK_INT(read_text(good[i], &s, NULL), 0);
        CHECK_INT(s.order, i == 2 ? 2 : 1);
        stk_state_release(&s);
    }
}

static void hostile_texts(void)
{
    struct stk_state s;
    CHECK_INT(read_text(NONE "\"done\":[]}", &s, NULL), 0);
    stk_state_release(&s);
    damaged("7", "this is no loader state");
    damaged("{}", "this is no loader state");
    refuses("{\"stoker_loader\":3}", STK_E_UNSUPPORTED,
            "loader state of version 3: this stoker knows versions 1 and 2");
    damaged(NEWER "\"done\":[]}", "loader state: 'check' is missing");
    damaged(NEWER "\"done\":[],\"check\":\"00000000\"}",
            "loader state: damaged, its checksum does not match");
    damaged("{\"stoker_loader\":1}", "loader state: 'samples' is missing");
    damaged("{\"stoker_loader\":1,\"samples\":-1}", "loader state: 'samples' is no whole number");
    damaged("{\"stoker_loader\":1,\"samples\":1e3}", "loader state: 'samples' is no whole number");
    damaged("{\"stoker_loader\":1,\"samples\":\"18446744073709551616\"}",
            "loader state: 'samples' is no whole number");
    damaged("{\"stoker_loader\":1,\"samples\":9223372036854775807}",
            "loader state: 'samples' is too large");
    damaged("{\"stoker_loader\":1,\"samples\":1,\"dataset\":\"0123456789abcdeF\"}",
            "loader state: 'dataset' is not of 16 hexadecimal digits");
    damaged(HEAD "\"shuffle\":\"sorted\"}", "loader state: 'shuffle' is not block, global or none");
    damaged(HEAD "\"shuffle\":\"block\",\"block\":1}", "loader state: 'window' is missing");
    damaged(NONE "\"done\":{}}", "loader state: 'done' is not a list");
    damaged(NONE "\"done\":[7]}", "loader state: 'done[0]' is no object");
    damaged(NONE "\"done\":[{\"world\":1}]}", "loader state: 'done[0].each' is missing");
    damaged(NONE "\"done\":[{\"world\":0,\"each\":1}]}",
            "loader state, part 0: 0 ranks (1 to 1048576 can be)");
    damaged(NONE "\"done\":[{\"world\":4294967297,\"each\":1}]}",
            "loader state: 'done[0].world' is too large");
    damaged(NONE "\"done\":[{\"world\":1,\"each\":\"18446744073709551615\"}]}",
            "loader state, part 0: 18446744073709551615 samples done by each of 1 ranks, of 10");
    damaged(NONE "\"done\":[{\"world\":2,\"each\":5},{\"world\":1,\"each\":1}]}",
            "loader state, part 1: nothing was left to be done");
    damaged(NONE "\"done\":[{\"world\":2,\"each\":1,\"refill\":[0]}]}",
            "loader state: 'refill' is not a list of one number a rank");
    damaged(NONE "\"done\":[{\"world\":2,\"each\":1,\"refill\":[0,\"x\"]}]}",
            "loader state: 'done[0].refill[1]' is no whole number");
    damaged(NONE
            "\"done\":[{\"world\":2,\"each\":1},{\"world\":4,\"each\":0,\"refill\":[3,0,0,0]}]}",
            "loader state, part 1: rank 0 had 2 samples, not 3 to refill from");
}

/* One bit that flips on the way to a disk and back. */
static void flipped_bits(void)
{
    uint64_t refill[] = {2, 0, 5};
    struct stk_state s = {.n = 1000, .dataset_id = 0xabcdef, .epoch = 3, .nlegs = 2}, back;
    struct stk_buf b = STK_BUF_INIT;
    s.block = s.window = 10;
    s.leg[0] = (struct stk_leg){.world = 3, .done = 70, .refill = refill};
    s.leg[1] = (struct stk_leg){.world = 2, .done = 20};
    size_t taken = 0, n = strlen(write_text(&s, &b));
    for (size_t bit = 0; bit < 8 * n; bit++) {
        b.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        if (stk_state_read((const char *)b.data, n, &back, NULL) == 0) {
            taken++;
            stk_state_release(&back);
        }
        b.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    CHECK_INT(taken, 0);
    stk_buf_release(&b);
}

/* A state that a program read and wrote as JSON of its own; one of the version before. */
static void other_words(void)
{
    struct stk_state s = {.n = 10, .shuffle = STK_SHUFFLE_NONE}, back;
    struct stk_buf b = STK_BUF_INIT, again = STK_BUF_INIT;
    const char *text = write_text(&s, &b);
    stk_buf_puts(&again, "{ ");
    for (const char *p = text + 1; *p; p++)
        stk_buf_printf(&again, *p == ':' || *p == ',' ? "%c " : "%c", *p);
    CHECK_INT(read_text(stk_buf_cstr(&again), &back, NULL), 0);
    CHECK(!back.former);
    stk_state_release(&back);
    text = NONE "\"done\":[{\"world\":2,\"each\":1}]}";
    CHECK_INT(read_text(text, &back, NULL), 0);
    CHECK(back.former);
    CHECK_STR(write_text(&back, &b), text);
    stk_state_release(&back);
    stk_buf_release(&b);
    stk_buf_release(&again);
}

static void too_long(void)
{
    struct stk_buf b = STK_BUF_INIT;
    struct stk_state s;
    stk_buf_puts(&b, NONE "\"done\":[");
    for (int i = 0; i <= STK_LEGS_MAX; i++)
        stk_buf_puts(&b, i ? ",{\"world\":1,\"each\":0}" : "{\"world\":1,\"each\":0}");
    stk_buf_puts(&b, "]}");
    damaged(stk_buf_cstr(&b), "loader state: 'done' is too long");
    stk_buf_zeros(&b, 17u << 20);
    memset(b.data, ' ', b.len);
    CHECK_INT(stk_state_read((const char *)b.data, b.len, &s, NULL), STK_E_CORRUPT);
    stk_buf_release(&b);
}

/* An epoch that is resumed for ever with other numbers of ranks. */
static void legs_run_out(void)
{
    struct stk_order o;
    struct stk_state s = {0};
    struct stk_err err;
    int rc = 0;
    uint32_t times = 0;
    stk_order_init(&o, 100000, STK_SHUFFLE_BLOCK, 1, 0, 8, 8);
    while (rc == 0) {
        struct stk_plan p;
        CHECK_INT(stk_plan_init(&p, &o, s.leg, s.nlegs, 0, 1 + times % 2, 4, 0, NULL), 0);
        stk_state_release(&s);
        rc = stk_plan_state(&p, 4, 0, 0, &s, &err);
        times += rc == 0;
        stk_plan_release(&p);
    }
    CHECK_INT(times, STK_LEGS_MAX);
    CHECK_INT(rc, STK_E_UNSUPPORTED);
    CHECK_INT(s.nlegs, 0);
}

static void begins_and_goes_on(void)
{
    struct stk_order o;
    struct stk_plan p;
    struct stk_state s;
    stk_order_init(&o, 1000, STK_SHUFFLE_BLOCK, 1, 0, 8, 8);
    CHECK_INT(stk_plan_init(&p, &o, NULL, 0, 1, 2, 10, 0, NULL), 0);
    CHECK_INT(stk_plan_state(&p, 0, 0, 5, &s, NULL), 0);
    CHECK(s.nlegs == 0 && s.n == 1000 && s.dataset_id == 5 && s.block == 8);
    stk_state_release(&s);
    CHECK_INT(stk_plan_state(&p, 20, 3, 5, &s, NULL), 0);
    CHECK(s.nlegs == 1 && s.leg[0].done == 20 && s.leg[0].refill[1] == 3);
    stk_plan_release(&p);
    /* With as many ranks, that leg grows; it does not become two. */
    CHECK_INT(stk_plan_init(&p, &o, s.leg, s.nlegs, 1, 2, 30, 0, NULL), 0);
    stk_state_release(&s);
    CHECK(p.given == 20 && p.refilled == 3 && p.nlegs == 0);
    CHECK_INT(stk_plan_state(&p, 30, 1, 5, &s, NULL), 0);
    CHECK(s.nlegs == 1 && s.leg[0].done == 50 && s.leg[0].refill[1] == 4);
    stk_state_release(&s);
    stk_plan_release(&p);
}

static void merges(void)
{
    struct stk_state s[3], all;
    struct stk_order o;
    struct stk_err err;
    stk_order_init(&o, 90, STK_SHUFFLE_GLOBAL, 1, 0, 0, 0);
    for (uint32_t r = 0; r < 3; r++) {
        struct stk_plan p;
        CHECK_INT(stk_plan_init(&p, &o, NULL, 0, r, 3, 5, 0, NULL), 0);
        CHECK_INT(stk_plan_state(&p, 10, r, 0, &s[r], NULL), 0);
        stk_plan_release(&p);
    }
    CHECK_INT(stk_state_merge(s, 3, &all, NULL), 0);
    CHECK_INT(all.nlegs, 1);
    for (uint64_t r = 0; r < 3; r++)
        CHECK_INT(all.leg[0].refill[r], r);
    stk_state_release(&all);
    s[2].leg[0].done = 15;
    CHECK_INT(stk_state_merge(s, 3, &all, &err), STK_E_USAGE);
    CHECK_STR(err.what, "loader states 0 and 2 are not of the same moment of one run");
    CHECK_INT(stk_state_merge(s, 0, &all, &err), STK_E_USAGE);
    for (uint32_t r = 0; r < 3; r++)
        stk_state_release(&s[r]);
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    CHECK_RUN(text_is_documented);
    CHECK_RUN(comes_back_the_same);
    CHECK_RUN(orders_of_other_versions);
    CHECK_RUN(hostile_texts);
    CHECK_RUN(flipped_bits);
    CHECK_RUN(other_words);
    CHECK_RUN(too_long);
    CHECK_RUN(legs_run_out);
    CHECK_RUN(begins_and_goes_on);
    CHECK_RUN(merges);
    return CHECK_DONE();
}
