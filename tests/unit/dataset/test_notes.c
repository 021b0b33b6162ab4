/* test_notes.c - what was left out stays a short list, whatever the dataset, and comes back from an
 * index as it went in. Wrong here, and fields vanish without a word. */
#include "check.h"
#include "dataset/notes.h"
#include "stoker.h"

#include <stdio.h>

static void same_reason_is_one_note(void)
{
    struct stk_notes s = {0};
    CHECK_INT(stk_notes_left_out(&s, "link", "a", "to another file", 1, NULL), 0);
    CHECK_INT(stk_notes_left_out(&s, "link", "b", "to another file", 1, NULL), 0);
    CHECK_INT(stk_notes_left_out(&s, "link", "b", "to another file", 1, NULL), 0);
    CHECK_INT(stk_notes_left_out(&s, "dataset", "c", "no samples", 1, NULL), 0);
    CHECK_INT(stk_notes_taken(&s, "sample", "the first axis", "all agree in it", 1, NULL), 0);
    CHECK_INT(s.n, 3);
    CHECK_INT(s.item[0].count, 3);
    CHECK_INT(s.item[0].nnames, 2);
    CHECK(s.item[2].taken);
    CHECK_INT(stk_notes_missing(&s), 4);
    stk_notes_release(&s);
}

static void a_million_stay_few(void)
{
    struct stk_notes s = {0};
    char text[32];
    for (int i = 0; i < 100000; i++) {
        snprintf(text, sizeof text, "%d", i);
        CHECK_INT(stk_notes_left_out(&s, "member", text, i % 2 ? text : "odd", 1, NULL), 0);
    }
    CHECK_INT(s.n, STK_NOTES_KEPT + 1);
    CHECK_INT(stk_notes_missing(&s), 100000);
    for (size_t i = 0; i < s.n; i++)
        CHECK(s.item[i].nnames <= STK_NOTES_KEPT);
    stk_notes_release(&s);
}

static void bytes_come_back(void)
{
    struct stk_notes s = {0}, t = {0};
    struct stk_buf b = STK_BUF_INIT, c = STK_BUF_INIT;
    CHECK_INT(stk_notes_left_out(&s, "link", "a\nb", "why", 7, NULL), 0);
    CHECK_INT(stk_notes_left_out(&s, "link", "", "why", 1, NULL), 0);
    CHECK_INT(stk_notes_taken(&s, "label", "int64", "because", 1, NULL), 0);
    stk_notes_write(&s, &b);
    CHECK_INT(stk_notes_read(&t, (const char *)b.data, b.len, NULL), 0);
    stk_notes_write(&t, &c);
    CHECK(b.len == c.len && memcmp(b.data, c.data, b.len) == 0);
    for (size_t n = 1; n < b.len; n++) { /* cut anywhere: an error, or fewer notes */
        struct stk_notes cut = {0};
        int rc = stk_notes_read(&cut, (const char *)b.data, n, NULL);
        CHECK(rc == STK_E_CORRUPT || (rc == 0 && cut.n < t.n));
        stk_notes_release(&cut);
    }
    stk_buf_release(&b);
    stk_buf_release(&c);
    stk_notes_release(&s);
    stk_notes_release(&t);
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    CHECK_RUN(same_reason_is_one_note);
    CHECK_RUN(a_million_stay_few);
    CHECK_RUN(bytes_come_back);
    return CHECK_DONE();
}
