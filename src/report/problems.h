/* problems.h - damage and notes of a dataset as fields of a result: of inspect, load, pack, stage and
 * verify. */
#ifndef STK_REPORT_PROBLEMS_H
#define STK_REPORT_PROBLEMS_H

#include "dataset/dataset.h"
#include "result/screen.h"

/* A table of problems, of a struct stk_problems; and how many there are in all, kept or not. */
extern const struct stk_result_field stk_problem_fields[];
void stk_put_problems(const void *problems, struct stk_jw *w);
/* Lines "file:offset: what". */
void stk_draw_problems(const struct stk_result_field *f, const struct stk_jval *obj, struct stk_screen *s);
#define STK_PROBLEM_FIELDS(key, title_, type, member)                                              \
    {key "_total", title_, STK_U_COUNT, STK_FROM(type, member.count), .flags = STK_F_IF_SET},      \
    {                                                                                              \
        key, title_, STK_U_TABLE, STK_FROM_AS(STRUCT, type, member), .put = stk_put_problems,      \
            .of = stk_problem_fields, .draw = stk_draw_problems, .most = 20                        \
    }

/* The same as members "problems_total" and "problems" of a group, of a struct stk_problems. */
extern const struct stk_result_field stk_problems_of[];

/* What was taken as something else, and what was left out, of a struct stk_notes. */
extern const struct stk_result_field stk_taken_fields[], stk_left_out_fields[];
void stk_put_taken(const void *notes, struct stk_jw *w);
void stk_put_left_out(const void *notes, struct stk_jw *w);
void stk_draw_taken(const struct stk_result_field *f, const struct stk_jval *obj, struct stk_screen *s);
void stk_draw_left_out(const struct stk_result_field *f, const struct stk_jval *obj, struct stk_screen *s);
/* Where the struct stk_notes is: STK_FROM_AS(STRUCT, …) or (POINTER, …). */
#define STK_NOTE_FIELDS(...)                                                                       \
    {"taken", "taken as", STK_U_TABLE, __VA_ARGS__, "What data was taken to be that does not say it.",   \
     .put = stk_put_taken, .of = stk_taken_fields, .draw = stk_draw_taken},                           \
    {                                                                                              \
        "left_out", "left out", STK_U_TABLE, __VA_ARGS__, "Sound, but not samples of this dataset.",     \
            .put = stk_put_left_out, .of = stk_left_out_fields, .draw = stk_draw_left_out             \
    }

/* "2 links, 1 dataset": what was left out, by kind. */
void stk_notes_summary(const struct stk_notes *s, struct stk_buf *out);

#endif
