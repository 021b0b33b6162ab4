/*
 * advice.h - findings: what is wrong with a job's I/O, the evidence, what to do, and the gain.
 *
 * A rule is one line of the table in advice.c: id, title, function. It looks at an analysis and
 * fires with evidence or not at all. All thresholds are in one table (advice/limits.c), each with
 * the reason for its value.
 */
#ifndef STK_ADVICE_ADVICE_H
#define STK_ADVICE_ADVICE_H

#include "advice/action.h"
#include "advice/rules.h"
#include "analysis/analysis.h"

enum stk_severity { STK_SEV_NOTE, STK_SEV_LOW, STK_SEV_MEDIUM, STK_SEV_HIGH };

struct stk_evidence { /* for machines; the sentences are for people */
    const char *name; /* "mean_read_bytes" */
    double value;
    const char *unit; /* "bytes", "s", "share" (0..1), "ratio", "count" */
};

struct stk_finding {
    enum stk_rule rule;
    const char *id; /* its name, "small-reads": stable, listed in docs/profile.md */
    enum stk_severity severity;
    const char *title;     /* one line: "reads of 6 KiB where megabytes are due" */
    const char **sentence; /* the evidence, in plain sentences with numbers */
    size_t nsentences;
    struct stk_evidence *evidence;
    size_t nevidence;
    const char **path; /* files or directories concerned, most time first, at most 10 */
    size_t npaths;
    const char *what_to_do;    /* a sentence or two */
    struct stk_action *action; /* the same for programs, in order */
    size_t nactions;
    struct stk_snippet *snippet; /* commands and code to paste, generated from the actions */
    size_t nsnippets;
    double gain_s;        /* predicted: seconds of the run saved; 0: unknown */
    const char *gain_why; /* the reasoning, with numbers from the profile */
};

struct stk_advice {
    struct stk_finding *finding; /* most gain and severity first */
    size_t nfindings;
    const char *verdict; /* one sentence: "nothing to fix: …" when there is no finding */
    enum stk_framework framework; /* of the program */
    bool blind;          /* little or nothing was recorded, and no fault found in it: no verdict */
    struct stk_arena arena;
};

/* Enumerates all rules, for docs and --list: id and summary of rule i; NULL past the end. */
const char *stk_rule_id(size_t i, const char **summary);
int stk_advise(const struct stk_analysis *a, struct stk_advice *advice, struct stk_err *err);
void stk_advice_release(struct stk_advice *advice);
const char *stk_severity_name(enum stk_severity s);

/* ---- from a profile's path to findings in one call ------------------------------------------- */

struct stk_judged { /* must not move: the analysis points to the profile, the advice to its names */
    struct stk_profile profile;
    struct stk_analysis analysis;
    struct stk_advice advice;
};

/* Reads anything stk_profile_read() reads, analyses it and applies every rule. Caller releases with
 * stk_judged_release(); on error there is nothing to release. */
int stk_judge(const char *path, struct stk_judged *j, struct stk_err *err);
void stk_judged_release(struct stk_judged *j);

#endif
