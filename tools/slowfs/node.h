/*
 * node.h - the files the kernel knows: node numbers and their paths.
 *
 * A node is a path below the source, not an inode of it: no descriptor is held for the tens of
 * thousands of small files a dataset may have. Hard links are therefore different nodes.
 */
#ifndef SLOWFS_NODE_H
#define SLOWFS_NODE_H

#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct handle;

struct node {
    struct node *next; /* in its bucket */
    char *path;        /* "" is the source itself, "a/b" below it */
    uint64_t hash;
    uint64_t lookups; /* references that the kernel was given and has not dropped */
    bool gone;        /* unlinked or replaced: only reached through its handles */
    struct handle *handles;
};

struct nodes {
    pthread_mutex_t lock;
    struct node **bucket;
    size_t nbuckets, count;
    struct node root, control, stats;
};

int nodes_init(struct nodes *t);
/* No handle may be left: first close those of nodes_any_handle(). */
void nodes_release(struct nodes *t);
uint64_t node_number(struct nodes *t, const struct node *node);
struct node *node_of(struct nodes *t, uint64_t number);
/* The node of a path, created if missing; counts one more lookup. NULL: out of memory. */
struct node *nodes_take(struct nodes *t, const char *path);
/* The node of a path, or NULL; the caller holds the lock. */
struct node *nodes_find_locked(struct nodes *t, const char *path);
void nodes_forget(struct nodes *t, struct node *node, uint64_t lookups);
/* Copies the current path; name (may be NULL) is appended. 0, ESTALE or ENAMETOOLONG. */
int nodes_path(struct nodes *t, struct node *node, const char *name, char out[PATH_MAX]);
void nodes_remove(struct nodes *t, const char *path);
/* Replaces `to`; moves `from` and everything below it. 0 or ENOMEM. */
int nodes_rename(struct nodes *t, const char *from, const char *to);
/* A node lives as long as the kernel knows it or it is open: the two may end in either order, on
 * different threads. */
void nodes_add_handle(struct nodes *t, struct node *node, struct handle *h);
void nodes_drop_handle(struct nodes *t, struct node *node, struct handle *h);
/* Some node with a handle, and the handle; NULL when none is left. */
struct handle *nodes_any_handle(struct nodes *t, struct node **node);

/* For the system calls that end in "at": the source itself is ".". */
static inline const char *path_at(const char *path)
{
    return *path ? path : ".";
}

#endif
