/* status.c - what a tuning in progress shows to `stoker watch`: what it does now. How far its runs
 * are stands in the folders of its studies (study/status.c). */
#include "tune/priv.h"

#define EVERY_S 1.0

static void put_now(void *user, struct stk_jw *w)
{
    const struct stk_tuner *t = user;
    stk_jw_put_str(w, "name", t->out->name);
    stk_jw_put_str(w, "doing", t->doing);
    stk_jw_put_f64(w, "budget_s", t->plan->budget_s);
    stk_jw_put_f64(w, "left_s", stk_tuner_left_s(t));
}

/* The folder is made a while after the beginning. */
void stk_tuner_show(struct stk_tuner *t)
{
    if (t->work.fd >= 0 && t->beacon.dirfd < 0) {
        t->beacon = (struct stk_beacon){.name = STK_TUNE_STATUS,
                                        .command = "tune",
                                        .every_s = EVERY_S,
                                        .mode = t->work.mode,
                                        .put = put_now,
                                        .user = t};
        stk_beacon_begin(&t->beacon, t->work.fd);
    }
    stk_beacon_tick(&t->beacon, false);
}
