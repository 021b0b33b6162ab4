/*
 * fuzz_lmdb.c - an arbitrary file opened as an LMDB file, in a child process as for users (liblmdb
 * trusts what it maps and dies of damage); and, where the input does not look like one, the input
 * as entries of a sound file: any keys and values, named databases, numbers as keys.
 */
#include "harness.h"

#ifdef STK_HAVE_LMDB
#include <lmdb.h>
#include <stdio.h>
#include <unistd.h>

#define HEAD      2
#define ENTRY     3 /* length of the key, of the value (2 bytes) */
#define MAX_ENTRY 200
#define MAP_BYTES (8u << 20)

static bool looks_like_a_file(const uint8_t *data, size_t size)
{
    return size >= 24 && stk_le32(data + 16) == 0xbeefc0deu;
}

static void put_entries(MDB_txn *txn, MDB_dbi dbi, const uint8_t *p, size_t left)
{
    for (int i = 0; i < MAX_ENTRY && left >= ENTRY; i++) {
        size_t key = p[0], value = stk_le16(p + 1) % 5000;
        p += ENTRY;
        left -= ENTRY;
        key = key < left ? key : left;
        value = value < left - key ? value : left - key;
        MDB_val k = {key, (void *)(uintptr_t)p}, v = {value, (void *)(uintptr_t)(p + key)};
        if (key)
            (void)mdb_put(txn, dbi, &k, &v, 0);
        p += key + value;
        left -= key + value;
    }
}

static int put_database(MDB_env *env, const char *name, unsigned flags, const uint8_t *data,
                        size_t size)
{
    MDB_txn *txn;
    MDB_dbi dbi;
    if (mdb_txn_begin(env, NULL, 0, &txn) != 0)
        return -1;
    if (mdb_dbi_open(txn, name, flags | MDB_CREATE, &dbi) == 0)
        put_entries(txn, dbi, data, size);
    return mdb_txn_commit(txn);
}

/* head[0]: what kinds of databases; head[1]: how much of the input goes into the named one. */
static int write_file(const char *path, const uint8_t *head, const uint8_t *data, size_t size)
{
    unsigned flags = (head[0] & 1 ? MDB_INTEGERKEY : 0) | (head[0] & 2 ? MDB_DUPSORT : 0) |
                     (head[0] & 4 ? MDB_REVERSEKEY : 0);
    size_t named = size * head[1] / 256;
    MDB_env *env;
    unlink(path);
    if (mdb_env_create(&env) != 0)
        return -1;
    int rc = mdb_env_set_maxdbs(env, 4);
    if (rc == 0)
        rc = mdb_env_set_mapsize(env, MAP_BYTES);
    if (rc == 0)
        rc = mdb_env_open(env, path, MDB_NOSUBDIR | MDB_NOLOCK | MDB_NOSYNC, 0600);
    if (rc == 0 && head[0] & 8)
        rc = put_database(env, "one", flags, data, named);
    if (rc == 0)
        rc = put_database(env, head[0] & 16 ? "two" : NULL, head[0] & 16 ? flags : 0, data + named,
                          size - named);
    mdb_env_close(env);
    return rc;
}

/* Its own library made it: listing it here, in this process, must be safe. */
static int list_entries(const uint8_t *data, size_t size)
{
    const struct stk_format *f = stk_format_find("lmdb");
    char path[300];
    snprintf(path, sizeof path, "%s/entries.mdb", stk_fuzz_folder());
    if (size < HEAD || write_file(path, data, data + HEAD, size - HEAD) != 0)
        return 0;
    stk_fuzz_list(f, path);
    return 0;
}

int fuzz_lmdb(const uint8_t *data, size_t size)
{
    return looks_like_a_file(data, size) ? stk_fuzz_jailed("lmdb", data, size)
                                         : list_entries(data, size);
}
#else
int fuzz_lmdb(const uint8_t *data, size_t size)
{
    (void)data, (void)size;
    return 0;
}
#endif
