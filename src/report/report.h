/*
 * report.h - a profile's numbers for people and for programs: text, JSON, CSV, Chrome/Perfetto
 * trace. Everything shown was computed before (analysis/analysis.h, advice/advice.h); nothing here
 * decides.
 *
 * Text goes into a buffer; files are written completely or not at all. Everything from a profile
 * (paths, commands, names) is escaped for the terminal.
 */
#ifndef STK_REPORT_REPORT_H
#define STK_REPORT_REPORT_H

#include "base/own.h"
#include "base/json.h"
#include "advice/advice.h"
#include "result/screen.h"

/* Parts of the text, in this order. */
enum stk_report_part {
    STK_PART_SCREEN = 1u << 0, /* one screen: the first look */
    STK_PART_NUMBERS = 1u << 1,
    STK_PART_FILES = 1u << 2,
    STK_PART_DIRS = 1u << 3,
    STK_PART_FORMATS = 1u << 4,
    STK_PART_RANKS = 1u << 5,
    STK_PART_PROCESSES = 1u << 6,
    STK_PART_PHASES = 1u << 7,
    STK_PART_SIZES = 1u << 8,
    STK_PART_LATENCY = 1u << 9,
    STK_PART_TIMELINE = 1u << 10,
    STK_PART_FINDINGS = 1u << 11,
    STK_PART_NOTES = 1u << 12,
    STK_PART_ALL = (1u << 13) - 1,
    STK_PART_CHART = 1u << 13, /* of the screen, if it has room */
};

struct stk_report {
    const struct stk_analysis *a;    /* borrowed */
    const struct stk_advice *advice; /* borrowed */
    unsigned columns;                /* at least 60 */
    bool utf8;
    size_t top; /* maximum rows of a table; 0: all */
    /* Findings: of at least this severity; only those with these ids, NULL-terminated. NULL: all.
     */
    enum stk_severity least;
    const char *const *only;
    unsigned table_columns; /* of tables; 0: as columns */
    /* Fills a result only with what is drawn of it: these parts; 0: all. */
    bool drawn;
    unsigned parts;
};

void stk_report_text(const struct stk_report *r, unsigned parts, struct stk_buf *out);
/* The findings in full, as far as r shows them, and the verdict. */
void stk_report_findings(const struct stk_report *r, struct stk_buf *out);
bool stk_report_shows(const struct stk_report *r, const struct stk_finding *f);
/* stk_report_wrapped() for a text that is put together here. */
void stk_report_sentence(struct stk_buf *out, unsigned indent, unsigned columns, const char *fmt,
                         ...) STK_PRINTF(4, 5);

/* Members of the open object: the whole profile, names as in docs/profile.md. */
void stk_report_json(const struct stk_report *r, struct stk_jw *w);
/* Members of the open object: only the verdict and the findings. */
void stk_report_findings_json(const struct stk_report *r, struct stk_jw *w);
/* Code to paste, as the array "code": a language and a text each. */
void stk_report_code_json(struct stk_jw *w, const struct stk_snippet *s, size_t n);
/* One action, as an object. */
void stk_report_action_json(const struct stk_action *a, struct stk_jw *w);

/* Appends the names, relative to dir, of the files below it that were read, one per line. Returns
 * how many cannot be listed: groups. Names are quoted as GNU tar takes them (base/text.h). */
size_t stk_report_list_read(const struct stk_analysis *a, const char *dir, struct stk_buf *out);

/* The names of the tables, NULL-terminated. */
const char *const *stk_report_csv_names(void);
/* Writes one table, by its name, to path. readers: those of the profile (stk_write_derived()). */
int stk_report_csv(const struct stk_analysis *a, const char *table, const char *path,
                   const struct stk_readers *readers, struct stk_err *err);

/* Every traced operation, marks and readings as Chrome trace JSON (for ui.perfetto.dev), in bounded
 * memory. *events, *marks: the numbers written. */
int stk_report_trace(const struct stk_profile *p, const char *path,
                     const struct stk_readers *readers, uint64_t *events, uint64_t *marks,
                     struct stk_err *err);

#endif
