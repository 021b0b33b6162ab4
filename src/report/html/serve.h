/*
 * serve.h - a page over HTTP, for a browser that reaches this node through ssh: on the loopback
 * interface only, behind a random token, and nothing but that page.
 */
#ifndef STK_REPORT_HTML_SERVE_H
#define STK_REPORT_HTML_SERVE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

struct stk_serve {
    uint16_t port; /* 0: any that is free */
    double idle_s; /* ends after so long without a valid request */
    /* Appends the page as it is now. *live: it will change, so the browser asks again. */
    int (*make)(void *user, struct stk_buf *page, bool *live, struct stk_err *err);
    /* Called once, when requests are accepted. */
    void (*ready)(void *user, const char *url, uint16_t port);
    bool (*stop)(void *user);  /* asked several times per second */
    double (*now)(void *user); /* the clock of idle_s, in seconds; NULL: stk_now() */
    void *user;
};

/* Returns 0 when it was stopped or idle. An error of `make` is shown in the browser, and ends
 * nothing. */
int stk_serve(const struct stk_serve *s, struct stk_err *err);

#endif
