/*
 * harm_library.c - a library whose constructor starts a thread and waits for it: what the thread
 * calls, nobody has called before.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

static void *work(void *none)
{
    char name[] = "/tmp/stoker-harm-XXXXXX", c = 'c';
    struct iovec one = {&c, 1};
    int fd = mkstemp(name);
    if (fd < 0 || pwritev(fd, &one, 1, 0) != 1 || preadv(fd, &one, 1, 0) != 1 || fdatasync(fd))
        abort();
    close(fd);
    unlink(name);
    return none;
}

__attribute__((constructor)) static void begin(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, work, NULL) || pthread_join(thread, NULL))
        abort();
}
