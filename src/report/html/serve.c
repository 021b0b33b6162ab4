/*
 * serve.c - answers GET /TOKEN/ with the page. Requests are read from several connections at a
 * time, each with a deadline, so that other users of the node, who can connect and say nothing, do
 * not make the user's browser wait. Only those who know the token get a long answer.
 */
#include "report/html/serve.h"

#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/pool.h"

#define TOKEN_BYTES 16
#define REQUEST_MAX 8192
#define CLIENT_S    5 /* to send its request, and per part of the answer */
#define GUESTS      32 /* connections that have not sent their request; the oldest makes room */
#define TICK_MS     250
/* Until the browser asks again for a page that changes: soon, but a large page takes no more than a
 * tenth of a core. */
#define AGAIN_S      2
#define AGAIN_FACTOR 10

struct guest {
    int fd; /* -1: the seat is free */
    double until_s;
    size_t n;
    char text[REQUEST_MAX];
};

struct server {
    const struct stk_serve *how;
    int fd;
    struct guest *guest;
    char token[2 * TOKEN_BYTES + 1];
};

/* ---- sockets ------------------------------------------------------------------------------- */

static int make_token(char token[2 * TOKEN_BYTES + 1], struct stk_err *err)
{
    unsigned char random[TOKEN_BYTES];
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return stk_err_sys(err, NULL, "getrandom");
    for (size_t i = 0; i < sizeof random; i++)
        snprintf(token + 2 * i, 3, "%02x", random[i]);
    return 0;
}

static int open_socket(struct server *s, uint16_t *port, struct stk_err *err)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons(s->how->port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    int yes = 1;
    s->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (s->fd < 0)
        return stk_err_sys(err, NULL, "socket");
    setsockopt(s->fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(s->fd, (struct sockaddr *)&at, sizeof at) != 0 || listen(s->fd, 128) != 0)
        return stk_err_sys(err, NULL, "port %u of 127.0.0.1", s->how->port);
    if (getsockname(s->fd, (struct sockaddr *)&at, &size) != 0)
        return stk_err_sys(err, NULL, "getsockname");
    *port = ntohs(at.sin_port);
    return 0;
}

static double now(const struct server *s)
{
    return s->how->now ? s->how->now(s->how->user) : stk_now();
}

/* Waits until fd is ready, the deadline has passed (false), or the server is to stop (false). */
static bool wait_for(const struct server *s, int fd, short events, double deadline_s)
{
    while (now(s) < deadline_s && !s->how->stop(s->how->user)) {
        struct pollfd p = {.fd = fd, .events = events};
        if (poll(&p, 1, TICK_MS) > 0)
            return true;
    }
    return false;
}

/* ---- a request ----------------------------------------------------------------------------- */

/* Up to the empty line after the header: 1: it is there, 0: more may come, -1: it is no request. */
static int read_more(struct guest *g)
{
    ssize_t got = recv(g->fd, g->text + g->n, sizeof g->text - 1 - g->n, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (got <= 0)
        return -1;
    g->n += (size_t)got;
    g->text[g->n] = '\0';
    if (memchr(g->text, '\0', g->n))
        return -1;
    return strstr(g->text, "\r\n\r\n") ? 1 : g->n + 1 < sizeof g->text ? 0 : -1;
}

static void send_all(const struct server *s, int fd, const void *data, size_t n)
{
    const char *at = data;
    while (n > 0 && wait_for(s, fd, POLLOUT, now(s) + CLIENT_S)) {
        ssize_t sent = send(fd, at, n, MSG_NOSIGNAL);
        if (sent <= 0)
            return;
        at += sent;
        n -= (size_t)sent;
    }
}

/* The policy of the page stands in the page; a frame can only be forbidden here. */
static void answer(const struct server *s, int fd, const char *status, const char *type,
                   const char *more, const struct stk_buf *body, bool head)
{
    struct stk_buf b = STK_BUF_INIT;
    stk_buf_printf(
        &b,
        "HTTP/1.1 %s\r\nContent-Type: %s; charset=utf-8\r\nContent-Length: %zu\r\n"
        "Connection: close\r\nCache-Control: no-store\r\nReferrer-Policy: no-referrer\r\n"
        "X-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\n"
        "Cross-Origin-Resource-Policy: same-origin\r\n%s\r\n",
        status, type, body->len, more);
    if (!b.fail)
        send_all(s, fd, b.data, b.len);
    if (!b.fail && !head)
        send_all(s, fd, body->data, body->len);
    stk_buf_release(&b);
}

static void refuse(const struct server *s, int fd, const char *status, const char *why)
{
    struct stk_buf body = STK_BUF_INIT;
    stk_buf_printf(&body, "%s\n", why);
    answer(s, fd, status, "text/plain", "", &body, false);
    stk_buf_release(&body);
}

/* A page of another site whose name leads to 127.0.0.1 must not read this one. */
static bool host_is_local(const char *request)
{
    static const char *const names[] = {"localhost", "127.0.0.1", "[::1]"};
    const char *host = strcasestr(request, "\r\nHost:");
    if (!host)
        return false;
    host += strlen("\r\nHost:");
    host += strspn(host, " \t");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t n = strlen(names[i]);
        if (strncasecmp(host, names[i], n) == 0 && strchr(":\r \t", host[n]))
            return true;
    }
    return false;
}

/* Takes the same time however much of the token is right. */
static bool token_matches(const struct server *s, const char *path)
{
    unsigned differs = 0;
    size_t n = sizeof s->token - 1;
    if (strcspn(path, " ?\r") != n + 2 || path[0] != '/' || path[n + 1] != '/')
        return false;
    for (size_t i = 0; i < n; i++)
        differs |= (unsigned char)path[i + 1] ^ (unsigned char)s->token[i];
    return !differs;
}

static void send_page(const struct server *s, int fd, bool head)
{
    struct stk_buf page = STK_BUF_INIT;
    struct stk_err err = {0};
    char again[40] = "", text[2200];
    bool live = false;
    double began = stk_now();
    if (s->how->make(s->how->user, &page, &live, &err) != 0) {
        refuse(s, fd, "500 Internal Server Error", stk_err_text(&err, text, sizeof text));
    } else {
        if (live)
            snprintf(again, sizeof again, "Refresh: %.0f\r\n",
                     fmax(AGAIN_S, ceil(AGAIN_FACTOR * (stk_now() - began))));
        answer(s, fd, "200 OK", "text/html", again, &page, head);
    }
    stk_buf_release(&page);
}

/* True if the request was valid: somebody is looking. */
static bool serve_one(const struct server *s, int fd, const char *request)
{
    bool head = strncmp(request, "HEAD ", 5) == 0, get = strncmp(request, "GET ", 4) == 0;
    if (!head && !get)
        refuse(s, fd, "405 Method Not Allowed\r\nAllow: GET, HEAD", "the page can only be read");
    else if (!host_is_local(request) || !token_matches(s, request + (head ? 5 : 4)))
        refuse(s, fd, "404 Not Found", "not found: use the address that stoker printed");
    else
        send_page(s, fd, head);
    return (head || get) && host_is_local(request) && token_matches(s, request + (head ? 5 : 4));
}

/* ---- connections --------------------------------------------------------------------------- */

static void leave(struct guest *g)
{
    close(g->fd);
    g->fd = -1;
}

static struct guest *free_seat(struct server *s)
{
    struct guest *oldest = s->guest;
    for (size_t i = 0; i < GUESTS; i++) {
        if (s->guest[i].fd < 0)
            return &s->guest[i];
        if (s->guest[i].until_s < oldest->until_s)
            oldest = &s->guest[i];
    }
    leave(oldest);
    return oldest;
}

static void admit(struct server *s)
{
    for (int i = 0; i < GUESTS; i++) {
        int fd = accept4(s->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0)
            return;
        struct guest *g = free_seat(s);
        g->fd = fd;
        g->until_s = now(s) + CLIENT_S;
        g->n = 0;
    }
}

/* *last: when one of them asked for the page. */
static void attend(struct server *s, double *last)
{
    struct pollfd p[GUESTS + 1] = {{.fd = s->fd, .events = POLLIN}};
    for (size_t i = 0; i < GUESTS; i++)
        p[i + 1] = (struct pollfd){.fd = s->guest[i].fd, .events = POLLIN};
    if (poll(p, GUESTS + 1, TICK_MS) > 0 && p[0].revents)
        admit(s);
    for (size_t i = 0; i < GUESTS; i++) {
        struct guest *g = &s->guest[i];
        int state = g->fd >= 0 ? read_more(g) : 0;
        double then = now(s);
        if (state == 1 && serve_one(s, g->fd, g->text))
            *last = then;
        if (g->fd >= 0 && (state || then >= g->until_s))
            leave(g);
    }
}

static int serve_all(struct server *s, struct stk_err *err)
{
    double last = now(s);
    s->guest = calloc(GUESTS, sizeof *s->guest);
    if (!s->guest)
        return stk_err_nomem(err, GUESTS * sizeof *s->guest);
    for (size_t i = 0; i < GUESTS; i++)
        s->guest[i].fd = -1;
    while (now(s) < last + s->how->idle_s && !s->how->stop(s->how->user))
        attend(s, &last);
    for (size_t i = 0; i < GUESTS; i++)
        if (s->guest[i].fd >= 0)
            leave(&s->guest[i]);
    free(s->guest);
    return 0;
}

int stk_serve(const struct stk_serve *how, struct stk_err *err)
{
    struct server s = {.how = how, .fd = -1};
    char url[96];
    uint16_t port = 0;
    int rc = make_token(s.token, err);
    rc = rc ? rc : open_socket(&s, &port, err);
    if (!rc) {
        snprintf(url, sizeof url, "http://127.0.0.1:%u/%s/", port, s.token);
        how->ready(how->user, url, port);
        rc = serve_all(&s, err);
    }
    if (s.fd >= 0)
        close(s.fd);
    return rc;
}
