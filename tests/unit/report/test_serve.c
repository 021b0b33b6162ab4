/* test_serve.c - a page over HTTP ends by itself when nobody looks: by a clock that the test sets. */
#include "report/html/serve.h"

#include <netinet/in.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"

#define IDLE_S 3600

struct site {
    sem_t ready;
    char url[96];
    uint16_t port;
    _Atomic double now_s;
    atomic_int made;
    atomic_bool ended;
};

static int make(void *user, struct stk_buf *page, bool *live, struct stk_err *err)
{
    struct site *s = user;
    (void)err;
    *live = atomic_fetch_add(&s->made, 1) == 0;
    stk_buf_puts(page, "the page");
    return 0;
}

static void ready(void *user, const char *url, uint16_t port)
{
    struct site *s = user;
    snprintf(s->url, sizeof s->url, "%s", url);
    s->port = port;
    sem_post(&s->ready);
}

static bool stop(void *user)
{
    (void)user;
    return false;
}

static double now(void *user)
{
    return ((struct site *)user)->now_s;
}

static void *serve(void *user)
{
    struct site *s = user;
    const struct stk_serve how = {
        .idle_s = IDLE_S, .make = make, .ready = ready, .stop = stop, .now = now, .user = s};
    struct stk_err err = {0};
    CHECK_INT(stk_serve(&how, &err), 0);
    s->ended = true;
    return NULL;
}

/* The whole answer: the server closes the connection after it. */
static const char *ask(const struct site *s, const char *path, char *answer, size_t size)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons(s->port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    char request[300];
    size_t n = 0;
    ssize_t got;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_INT(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    int len = snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path);
    CHECK_INT(send(fd, request, (size_t)len, MSG_NOSIGNAL), len);
    while (n + 1 < size && (got = recv(fd, answer + n, size - 1 - n, 0)) > 0)
        n += (size_t)got;
    answer[n] = '\0';
    close(fd);
    return answer;
}

/* Without this, a forgotten server stays on the login node, or one that is looked at ends. */
static void ends_when_nobody_looks(void)
{
    static struct site s;
    pthread_t thread;
    char answer[2000];
    CHECK_INT(sem_init(&s.ready, 0, 0), 0);
    CHECK_INT(pthread_create(&thread, NULL, serve, &s), 0);
    while (sem_wait(&s.ready) != 0)
        ;
    const char *path = strrchr(s.url, ':');
    path = path ? strchr(path, '/') : NULL;
    CHECK(path != NULL);
    /* Each look keeps it for another hour. */
    for (int i = 1; path && i <= 3; i++) {
        s.now_s = i * (IDLE_S - 1);
        CHECK(strstr(ask(&s, path, answer, sizeof answer), "the page") != NULL);
        CHECK((strstr(answer, "Refresh: ") != NULL) == (i == 1));
    }
    CHECK(!s.ended);
    /* Requests without the token do not. */
    s.now_s = 4 * (IDLE_S - 1);
    CHECK(strstr(ask(&s, "/", answer, sizeof answer), "404") != NULL);
    s.now_s = 3 * (IDLE_S - 1) + IDLE_S;
    CHECK_INT(pthread_join(thread, NULL), 0);
    CHECK(s.ended);
    CHECK_INT(s.made, 3);
    sem_destroy(&s.ready);
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    CHECK_RUN(ends_when_nobody_looks);
    return CHECK_DONE();
}
