/*
 * adviceset.h - a profile made up, judged, and asked what was said of it.
 */
#ifndef STK_TEST_ADVICESET_H
#define STK_TEST_ADVICESET_H

#include "check.h"
#include "profileset.h"

#define KIB 1024.0
#define MB  1048576.0

static struct set s;
static struct set_advice o;

static const struct stk_finding *advise(const char *id)
{
    CHECK_INT(set_advise(&s, &o), 0);
    return set_finding(&o, id);
}

static void done(void)
{
    set_advice_release(&o);
    set_release(&s);
}

/* Whether a finding has this in its title, what to do, its lines, or its reasons. */
static bool says(const struct stk_finding *f, const char *words)
{
    bool found = f && (strstr(f->title, words) || strstr(f->what_to_do, words) ||
                       (f->gain_why && strstr(f->gain_why, words)));
    for (size_t i = 0; f && i < f->nsnippets; i++)
        found = found || strstr(f->snippet[i].text, words);
    for (size_t i = 0; f && i < f->nsentences; i++)
        found = found || strstr(f->sentence[i], words);
    return found;
}

#endif
