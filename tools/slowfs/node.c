/* node.c - a chained hash table of paths, and how renames and unlinks change it. */
#include "slowfs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

#define FIRST_BUCKETS 1024

int nodes_init(struct nodes *t)
{
    *t = (struct nodes){.nbuckets = FIRST_BUCKETS};
    t->bucket = calloc(t->nbuckets, sizeof(struct node *));
    t->root.path = (char *)"";
    t->control.path = (char *)CONTROL_NAME;
    t->stats.path = (char *)STATS_NAME;
    pthread_mutex_init(&t->lock, NULL);
    return t->bucket ? 0 : ENOMEM;
}

static void node_free(struct node *node)
{
    free(node->path);
    free(node);
}

void nodes_release(struct nodes *t)
{
    for (size_t i = 0; t->bucket && i < t->nbuckets; i++) {
        while (t->bucket[i]) {
            struct node *node = t->bucket[i];
            t->bucket[i] = node->next;
            node_free(node);
        }
    }
    free(t->bucket);
    pthread_mutex_destroy(&t->lock);
}

uint64_t node_number(struct nodes *t, const struct node *node)
{
    return node == &t->root ? FUSE_ROOT_ID : (uint64_t)(uintptr_t)node;
}

struct node *node_of(struct nodes *t, uint64_t number)
{
    return number == FUSE_ROOT_ID ? &t->root : (struct node *)(uintptr_t)number;
}

/* The three permanent nodes are in no bucket and not counted. */
static bool is_fixed(const struct nodes *t, const struct node *node)
{
    return node == &t->root || node == &t->control || node == &t->stats;
}

static struct node **place_of(struct nodes *t, const char *path, uint64_t hash)
{
    struct node **at = &t->bucket[hash & (t->nbuckets - 1)];
    while (*at && ((*at)->hash != hash || (*at)->gone || strcmp((*at)->path, path) != 0))
        at = &(*at)->next;
    return at;
}

static void grow(struct nodes *t)
{
    size_t nbuckets = t->nbuckets * 4;
    struct node **bucket = calloc(nbuckets, sizeof(struct node *));
    if (!bucket)
        return; /* longer chains, nothing worse */
    for (size_t i = 0; i < t->nbuckets; i++) {
        while (t->bucket[i]) {
            struct node *node = t->bucket[i];
            t->bucket[i] = node->next;
            node->next = bucket[node->hash & (nbuckets - 1)];
            bucket[node->hash & (nbuckets - 1)] = node;
        }
    }
    free(t->bucket);
    t->bucket = bucket;
    t->nbuckets = nbuckets;
}

static struct node *insert(struct nodes *t, const char *path, uint64_t hash)
{
    struct node *node = calloc(1, sizeof *node);
    if (!node || !(node->path = strdup(path))) {
        free(node);
        return NULL;
    }
    if (++t->count > t->nbuckets)
        grow(t);
    node->hash = hash;
    node->next = t->bucket[hash & (t->nbuckets - 1)];
    t->bucket[hash & (t->nbuckets - 1)] = node;
    return node;
}

struct node *nodes_find_locked(struct nodes *t, const char *path)
{
    return *path ? *place_of(t, path, stk_hash64(path, strlen(path))) : &t->root;
}

struct node *nodes_take(struct nodes *t, const char *path)
{
    pthread_mutex_lock(&t->lock);
    struct node *node = nodes_find_locked(t, path);
    if (!node)
        node = insert(t, path, stk_hash64(path, strlen(path)));
    if (node)
        node->lookups++;
    pthread_mutex_unlock(&t->lock);
    return node;
}

static void unhook(struct nodes *t, struct node *node)
{
    struct node **at = &t->bucket[node->hash & (t->nbuckets - 1)];
    while (*at && *at != node)
        at = &(*at)->next;
    if (*at)
        *at = node->next;
}

static void free_if_unused(struct nodes *t, struct node *node)
{
    if (node->lookups || node->handles || is_fixed(t, node))
        return;
    unhook(t, node);
    t->count--;
    node_free(node);
}

void nodes_forget(struct nodes *t, struct node *node, uint64_t lookups)
{
    pthread_mutex_lock(&t->lock);
    node->lookups -= lookups < node->lookups ? lookups : node->lookups;
    free_if_unused(t, node);
    pthread_mutex_unlock(&t->lock);
}

int nodes_path(struct nodes *t, struct node *node, const char *name, char out[PATH_MAX])
{
    pthread_mutex_lock(&t->lock);
    size_t dir = strlen(node->path), slash = dir && name, len = name ? strlen(name) : 0;
    int trouble = node->gone ? ESTALE : dir + slash + len >= PATH_MAX ? ENAMETOOLONG : 0;
    if (!trouble) {
        memcpy(out, node->path, dir);
        if (slash)
            out[dir] = '/';
        if (len)
            memcpy(out + dir + slash, name, len);
        out[dir + slash + len] = '\0';
    }
    pthread_mutex_unlock(&t->lock);
    return trouble;
}

void nodes_remove(struct nodes *t, const char *path)
{
    pthread_mutex_lock(&t->lock);
    struct node *node = nodes_find_locked(t, path);
    if (node)
        node->gone = true;
    pthread_mutex_unlock(&t->lock);
}

/* Removes the nodes of `from` and below from their chains, into one list. */
static struct node *pull_tree(struct nodes *t, const char *from)
{
    size_t len = strlen(from);
    struct node *pulled = NULL;
    for (size_t i = 0; i < t->nbuckets; i++) {
        for (struct node **at = &t->bucket[i]; *at;) {
            struct node *node = *at;
            if (!node->gone && strncmp(node->path, from, len) == 0 &&
                (node->path[len] == '\0' || node->path[len] == '/')) {
                *at = node->next;
                node->next = pulled;
                pulled = node;
            } else {
                at = &node->next;
            }
        }
    }
    return pulled;
}

static int move_node(struct node *node, size_t from_len, const char *to)
{
    size_t to_len = strlen(to), rest = strlen(node->path + from_len);
    char *path = malloc(to_len + rest + 1);
    if (!path)
        return ENOMEM;
    memcpy(path, to, to_len);
    memcpy(path + to_len, node->path + from_len, rest + 1);
    free(node->path);
    node->path = path;
    node->hash = stk_hash64(path, to_len + rest);
    return 0;
}

int nodes_rename(struct nodes *t, const char *from, const char *to)
{
    int trouble = 0;
    nodes_remove(t, to);
    pthread_mutex_lock(&t->lock);
    struct node *pulled = pull_tree(t, from);
    while (pulled) {
        struct node *node = pulled;
        pulled = node->next;
        if (move_node(node, strlen(from), to) != 0) {
            node->gone = true;
            trouble = ENOMEM;
        }
        node->next = t->bucket[node->hash & (t->nbuckets - 1)];
        t->bucket[node->hash & (t->nbuckets - 1)] = node;
    }
    pthread_mutex_unlock(&t->lock);
    return trouble;
}

void nodes_add_handle(struct nodes *t, struct node *node, struct handle *h)
{
    pthread_mutex_lock(&t->lock);
    h->next = node->handles;
    node->handles = h;
    pthread_mutex_unlock(&t->lock);
}

void nodes_drop_handle(struct nodes *t, struct node *node, struct handle *h)
{
    pthread_mutex_lock(&t->lock);
    struct handle **at = &node->handles;
    while (*at && *at != h)
        at = &(*at)->next;
    if (*at)
        *at = h->next;
    free_if_unused(t, node);
    pthread_mutex_unlock(&t->lock);
}

struct handle *nodes_any_handle(struct nodes *t, struct node **node)
{
    struct node *fixed[] = {&t->root, &t->control, &t->stats};
    *node = NULL;
    pthread_mutex_lock(&t->lock);
    for (size_t i = 0; i < 3; i++)
        if (fixed[i]->handles)
            *node = fixed[i];
    for (size_t i = 0; i < t->nbuckets; i++)
        for (struct node *n = t->bucket[i]; n; n = n->next)
            if (n->handles)
                *node = n;
    pthread_mutex_unlock(&t->lock);
    return *node ? (*node)->handles : NULL;
}
