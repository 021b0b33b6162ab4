/*
 * objects.c - finds functions in the objects that were loaded with the program, by their own hash
 * tables. dlsym() takes the loader's lock, which may be held by a thread that waits for the caller,
 * and clears dlerror(); this does neither, so that a function can be looked up at its first call,
 * also in a signal handler. A process that calls ten functions does not look up three hundred.
 */
#include "preload/priv.h"

#include <elf.h>
#include <link.h>
#include <sys/auxv.h>

#define OBJECTS    512u
#define HIDDEN_BIT 0x8000 /* of a version: not the default one */

struct object {
    uintptr_t base;
    const uint32_t *hash; /* DT_GNU_HASH */
    const ElfW(Sym) * symbol;
    const char *string;
    const uint16_t *version; /* NULL: none */
};

/* Of the loader; glibc alone has it. */
extern struct r_debug _r_debug __attribute__((weak));

static STK_TABLE struct object object[OBJECTS]; /* in the order of search */
static uint32_t nobjects, after_us;   /* after_us: the first one behind our own */
static uint32_t listed;               /* atomic: 1 complete, 2 cannot be used */

/* Most loaders relocate these addresses; the kernel's object has them as they are in the file. */
static const void *address(uintptr_t base, uintptr_t value)
{
    return (const void *)(value < base ? base + value : value);
}

static bool describe(const struct link_map *map, struct object *o)
{
    *o = (struct object){.base = map->l_addr};
    for (const ElfW(Dyn) *d = map->l_ld; d && d->d_tag != DT_NULL; d++) {
        const void *at = address(map->l_addr, d->d_un.d_ptr);
        if (d->d_tag == DT_GNU_HASH)
            o->hash = at;
        else if (d->d_tag == DT_SYMTAB)
            o->symbol = at;
        else if (d->d_tag == DT_STRTAB)
            o->string = at;
        else if (d->d_tag == DT_VERSYM)
            o->version = at;
    }
    return o->hash && o->symbol && o->string;
}

/* The kernel's own object is in the list, but not in the order of search. */
static bool is_kernels(const struct link_map *map)
{
    return map->l_addr && map->l_addr == getauxval(AT_SYSINFO_EHDR);
}

/* Two threads that do this at once write the same. */
static uint32_t list_objects(void)
{
    uint32_t n = 0, ours = OBJECTS;
    const struct link_map *map = &_r_debug ? _r_debug.r_map : NULL;
    for (; map && n < OBJECTS; map = map->l_next) {
        if (is_kernels(map))
            continue;
        if (map->l_ld == _DYNAMIC)
            ours = n;
        if (!describe(map, &object[n++]))
            break;
    }
    nobjects = n;
    after_us = ours + 1;
    uint32_t state = !map && ours < n ? 1 : 2;
    __atomic_store_n(&listed, state, __ATOMIC_RELEASE);
    return state;
}

static uint32_t hash_of(const char *name)
{
    uint32_t h = 5381;
    for (const unsigned char *c = (const unsigned char *)name; *c; c++)
        h = h * 33 + *c;
    return h;
}

static bool is_it(const struct object *o, uint32_t i, const char *name)
{
    const ElfW(Sym) *s = &o->symbol[i];
    bool hidden = o->version && o->version[i] & HIDDEN_BIT;
    return s->st_shndx != SHN_UNDEF && s->st_value && !hidden &&
           strcmp(o->string + s->st_name, name) == 0;
}

/* The symbol's number; 0: none. */
static uint32_t find_symbol(const struct object *o, const char *name, uint32_t h)
{
    const uint32_t buckets = o->hash[0], first = o->hash[1], words = o->hash[2], shift = o->hash[3],
                   bits = sizeof(ElfW(Addr)) * 8;
    const ElfW(Addr) *bloom = (const void *)(o->hash + 4);
    const uint32_t *bucket = (const void *)(bloom + words), *chain = bucket + buckets;
    ElfW(Addr) word = bloom[h / bits % words];
    if (!buckets || !(word >> h % bits & word >> (h >> shift) % bits & 1))
        return 0;
    for (uint32_t i = bucket[h % buckets]; i >= first; i++) {
        if ((chain[i - first] | 1) == (h | 1) && is_it(o, i, name))
            return i;
        if (chain[i - first] & 1)
            break;
    }
    return 0;
}

void *stk_pl_object_find(const char *name, enum stk_pl_where where)
{
    uint32_t state = __atomic_load_n(&listed, __ATOMIC_ACQUIRE), h = hash_of(name);
    if ((state ? state : list_objects()) != 1)
        return NULL;
    for (uint32_t k = where == STK_PL_NEXT ? after_us : 0; k < nobjects; k++) {
        uint32_t i = find_symbol(&object[k], name, h);
        const ElfW(Sym) *s = i ? &object[k].symbol[i] : NULL;
        if (s) /* the address of an indirect function is known to the loader only */
            return ELF64_ST_TYPE(s->st_info) == STT_FUNC ? (void *)(object[k].base + s->st_value)
                                                         : NULL;
    }
    return NULL;
}
