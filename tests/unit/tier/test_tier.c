/* The copies on a node: what counts as there, who may write it, and what is never believed. */
#include "check.h"
#include "tierset.h"

#include "host/root.h"
#include "tier/priv.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *copy_of(struct stk_tier_set *s, const char *name)
{
    static char path[700];
    char *root = stk_tier_set_path(s);
    snprintf(path, sizeof path, "%s/%s", root, name);
    free(root);
    return path;
}

static bool copy_is_right(struct stk_tier_set *s, uint64_t file)
{
    struct stk_buf b = STK_BUF_INIT;
    bool same = stk_read_file(copy_of(s, tier_name[file]), BIG, &b, NULL) == 0 &&
                b.len == tier_size[file] &&
                (!b.len || memcmp(b.data, tier_bytes(file, 0), b.len) == 0);
    stk_buf_release(&b);
    return same;
}

/* Changes one byte; keep: with the time it had. */
static void flip(const char *path, off_t at, bool keep)
{
    struct stat st;
    uint8_t c = 0;
    int fd = open(path, O_RDWR);
    CHECK(fd >= 0 && fstat(fd, &st) == 0 && pread(fd, &c, 1, at) == 1);
    c ^= 1;
    CHECK(pwrite(fd, &c, 1, at) == 1);
    if (keep)
        CHECK(futimens(fd, (struct timespec[2]){st.st_atim, st.st_mtim}) == 0);
    close(fd);
}

static uint64_t there(struct stk_tier_set *s)
{
    struct stk_tier_state st = {0};
    CHECK(stk_tier_state(s, &st, NULL) == 0);
    return st.parcels_there;
}

/* A copy that is reported done has every byte, name and time of its source. */
static void fill_and_publish(void)
{
    struct stk_tier *t = tier_open(scratch_path("t1"), 0);
    struct stk_tier_set *s = tier_set(t, 1);
    struct stk_tier_state st;
    struct stk_err err = {0};
    struct stat sb;
    char *path = NULL;
    CHECK(!stk_tier_has(s, 0, 0));
    CHECK_INT(stk_tier_publish(s, &path, &err), STK_E_STALE);
    CHECK_INT(tier_fill(s), 6);
    CHECK_INT(tier_fill(s), 0);
    CHECK(stk_tier_has(s, 2, 2) && stk_tier_file_finished(s, 2));
    CHECK_INT(stk_tier_publish(s, &path, &err), 0);
    CHECK(stk_tier_state(s, &st, NULL) == 0);
    CHECK(st.published && st.files_finished == NFILE && st.bytes_there == st.bytes);
    CHECK(path && strstr(path, "/data/set"));
    for (uint64_t f = 0; f < NFILE; f++)
        CHECK(copy_is_right(s, f));
    CHECK(stat(copy_of(s, "a/two"), &sb) == 0 && sb.st_mtim.tv_nsec == 123456790);
    CHECK_INT(sb.st_mode & 0777, 0640);
    free(path);
    stk_tier_set_close(s);
    s = tier_set(t, 1); /* joined */
    CHECK_INT(there(s), 6);
    CHECK(stk_tier_has(s, 2, 0));
    CHECK_INT(stk_tier_publish(s, &path, &err), 0);
    free(path);
    stk_tier_set_close(s);
    stk_tier_close(t);
}

/* Bytes that differ from the manifest never become a copy. */
static void wrong_source(void)
{
    struct stk_tier *t = tier_open(scratch_path("t2"), 0);
    struct stk_tier_set *s = tier_set(t, 1);
    struct stk_err err = {0};
    CHECK_INT(stk_tier_claim(s, 0, 0), STK_TIER_OURS);
    CHECK_INT(stk_tier_put(s, 0, 0, "0123456789", 10, stk_tier_hash("0123456789", 10), &err),
              STK_E_CORRUPT);
    CHECK(strstr(err.what, "a/one"));
    stk_tier_drop(s, 0, 0);
    CHECK_INT(tier_put(s, 2, 0), 0);
    CHECK_INT(tier_put(s, 2, 2), 0);
    uint8_t *p = calloc(1, STK_TIER_PARCEL);
    CHECK_INT(stk_tier_claim(s, 2, 1), STK_TIER_OURS);
    CHECK_INT(stk_tier_put(s, 2, 1, p, STK_TIER_PARCEL, stk_tier_hash(p, STK_TIER_PARCEL), NULL),
              1);
    stk_tier_drop(s, 2, 1);
    free(p);
    CHECK_INT(stk_tier_finish_file(s, 2, NULL, &err), STK_E_CORRUPT);
    CHECK(!stk_tier_has(s, 2, 0) && !stk_tier_has(s, 2, 1));
    CHECK_INT(there(s), 0);
    CHECK_INT(tier_fill(s), 6);
    CHECK(copy_is_right(s, 2));
    stk_tier_set_close(s);
    stk_tier_close(t);
}

/* A copy that someone else has changed is not served, and the next filling mends it. */
static void changed_copy(const char *how)
{
    struct stk_tier *t = tier_open(scratch_path(how), 0);
    struct stk_tier_set *s = tier_set(t, 1);
    char *path = NULL;
    bool partly = strcmp(how, "partly") == 0;
    if (partly)
        CHECK(tier_put(s, 2, 0) == 0 && tier_put(s, 2, 1) == 0);
    else
        CHECK(tier_fill(s) == 6 && stk_tier_publish(s, &path, NULL) == 0);
    free(path);
    stk_tier_set_close(s);
    s = tier_set(t, 1);
    usleep(20000); /* a tick of the file system's clock */
    if (strcmp(how, "cut") == 0)
        CHECK(truncate(copy_of(s, "big"), 100) == 0);
    else if (strcmp(how, "gone") == 0)
        CHECK(unlink(copy_of(s, "big")) == 0);
    else
        flip(copy_of(s, "big"), STK_TIER_PARCEL + 5, strcmp(how, "kept") == 0);
    stk_tier_set_close(s);

    struct stk_tier *reader = NULL;
    CHECK(stk_tier_open(scratch_path(how), &(struct stk_tier_options){0}, &reader, NULL) == 0);
    CHECK_INT(stk_tier_set_find(reader, 1, &s, NULL), 1);
    for (uint64_t i = 0; i < 3; i++)
        CHECK(!stk_tier_has(s, 2, i));
    CHECK(stk_tier_has(s, 1, 0) == !partly);
    stk_tier_set_close(s);
    stk_tier_close(reader);

    s = tier_set(t, 1);
    bool whole_is_gone = strcmp(how, "cut") == 0 || strcmp(how, "gone") == 0;
    CHECK_INT(tier_fill(s), partly ? 5 : whole_is_gone ? 3 : 1);
    CHECK_INT(stk_tier_publish(s, &path, NULL), 0);
    CHECK(copy_is_right(s, 2));
    free(path);
    stk_tier_set_close(s);
    stk_tier_close(t);
}

/* A process that was killed leaves what it had written, and no lock. */
static void killed_filler(void)
{
    struct stk_tier *t = tier_open(scratch_path("t4"), 0);
    struct stk_tier_set *s = tier_set(t, 1);
    int ready[2];
    CHECK(pipe(ready) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct stk_tier_set *mine = tier_set(tier_open(scratch_path("t4"), 0), 1);
        bool ok = tier_put(mine, 2, 0) == 0 && stk_tier_claim(mine, 2, 1) == STK_TIER_OURS &&
                  stk_tier_claim(mine, 1, 0) == STK_TIER_OURS;
        (void)!write(ready[1], &ok, 1);
        pause();
        _exit(0);
    }
    bool ok = false;
    CHECK(read(ready[0], &ok, 1) == 1 && ok);
    CHECK(stk_tier_has(s, 2, 0));
    CHECK_INT(stk_tier_claim(s, 2, 0), STK_TIER_THERE);
    CHECK_INT(stk_tier_claim(s, 2, 1), STK_TIER_BUSY);
    uint8_t got[NFILE];
    stk_tier_claim_files(s, 0, NFILE, got);
    CHECK(got[0] == STK_TIER_OURS && got[1] == STK_TIER_BUSY && got[2] == STK_TIER_BUSY);
    stk_tier_drop_files(s, 0, NFILE, got);
    CHECK_INT(stk_tier_evict(t, stk_tier_set_id(s), false, NULL, NULL), STK_E_EXISTS);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    CHECK_INT(tier_fill(s), 5);
    CHECK(copy_is_right(s, 2));
    close(ready[0]);
    close(ready[1]);
    stk_tier_set_close(s);
    stk_tier_close(t);
}

/* After a crash of the machine the ledger may have reached the disk before the bytes. */
static void restarted(void)
{
    const char *path = scratch_path("restarted");
    struct stk_tier *t = tier_open(path, 0), *reader = NULL;
    struct stk_tier_set *s = tier_set(t, 1);
    char *out = NULL;
    CHECK(tier_put(s, 2, 0) == 0 && tier_put(s, 2, 1) == 0 && tier_put(s, 1, 0) == 0);
    int fd = open(copy_of(s, "big"), O_RDWR);
    struct stk_ledger_record r;
    struct stat st;
    CHECK(pwrite(fd, "lost", 4, 100) == 4 && fstat(fd, &st) == 0); /* and no stamp shows it */
    CHECK(stk_ledger_record(s, 2, &r));
    stk_tier_stamp_take(&r, &st);
    CHECK(stk_ledger_put_record(s, 2, &r, NULL) == 0);
    close(fd);
    stk_tier_set_close(s);
    stk_tier_close(t);

    scratch_file("machine/proc/sys/kernel/random/boot_id", "another\n", 8);
    stk_host_set_root(scratch_path("machine"));
    CHECK(stk_tier_open(path, &(struct stk_tier_options){0}, &reader, NULL) == 0);
    CHECK_INT(stk_tier_set_find(reader, 1, &s, NULL), 1);
    CHECK(!stk_tier_has(s, 2, 0) && !stk_tier_has(s, 2, 1) && !stk_tier_has(s, 1, 0));
    stk_tier_set_close(s);
    stk_tier_close(reader);
    t = tier_open(path, 0);
    s = tier_set(t, 1);
    CHECK_INT(tier_fill(s), 4); /* all but what its hash says is there */
    CHECK_INT(stk_tier_publish(s, &out, NULL), 0);
    CHECK(copy_is_right(s, 2) && copy_is_right(s, 1));
    free(out);
    stk_tier_set_close(s);
    stk_tier_close(t);

    scratch_file("machine/proc/sys/kernel/random/boot_id", "a third\n", 8);
    CHECK(stk_tier_open(path, &(struct stk_tier_options){0}, &reader, NULL) == 0);
    CHECK_INT(stk_tier_set_find(reader, 1, &s, NULL), 1);
    CHECK(stk_tier_has(s, 2, 0)); /* what is published was synced */
    stk_tier_set_close(s);
    stk_tier_close(reader);
    stk_host_set_root(NULL);
}

/* Many files, one lock. */
static void claims_of_files(void)
{
    struct stk_tier *t = tier_open(scratch_path("t5"), 0);
    struct stk_tier_set *s = tier_set(t, 1), *other = tier_set(t, 1);
    uint8_t got[NFILE], theirs[NFILE];
    stk_tier_claim_files(s, 0, 2, got);
    CHECK(got[0] == STK_TIER_OURS && got[1] == STK_TIER_OURS);
    stk_tier_claim_files(other, 0, NFILE, theirs);
    CHECK(theirs[0] == STK_TIER_BUSY && theirs[1] == STK_TIER_BUSY);
    CHECK(theirs[2] == STK_TIER_OURS && theirs[3] == STK_TIER_OURS);
    for (uint64_t f = 0; f < 2; f++)
        CHECK(stk_tier_put(s, f, 0, tier_bytes(f, 0), tier_size[f], tier_hash(f), NULL) == 0);
    stk_tier_drop_files(s, 0, 2, got);
    stk_tier_drop_files(other, 0, NFILE, theirs);
    stk_tier_claim_files(other, 0, NFILE, theirs);
    CHECK(theirs[0] == STK_TIER_THERE && theirs[1] == STK_TIER_THERE);
    CHECK(theirs[2] == STK_TIER_OURS);
    stk_tier_drop_files(other, 0, NFILE, theirs);
    stk_tier_set_close(other);
    CHECK_INT(tier_fill(s), 4);
    stk_tier_set_close(s);
    stk_tier_close(t);
}

/* A ledger or a list of other bytes is refused, and made again by whoever fills. */
static void garbage(const char *name)
{
    struct stk_tier *t = tier_open(scratch_path(name), 0);
    struct stk_tier_set *s = tier_set(t, 1);
    char path[600];
    CHECK(tier_fill(s) == 6);
    snprintf(path, sizeof path, "%s/%s/%s", stk_tier_path(t), stk_tier_set_id(s), name);
    stk_tier_set_close(s);
    for (off_t at = 0; at < 64; at += 9)
        flip(path, at, false);
    struct stk_tier *reader = NULL;
    CHECK(stk_tier_open(stk_tier_path(t), &(struct stk_tier_options){0}, &reader, NULL) == 0);
    CHECK_INT(stk_tier_set_find(reader, 1, &s, NULL), 0);
    stk_tier_close(reader);
    s = tier_set(t, 1);
    CHECK(s != NULL);
    CHECK_INT(tier_fill(s), 6);
    stk_tier_set_close(s);
    stk_tier_close(t);
}

/* A bit of an entry or a record: that parcel, or that file, is not there. */
static void damaged_entries(void)
{
    struct stk_tier *t = tier_open(scratch_path("t7"), 0);
    struct stk_tier_set *s = tier_set(t, 1);
    char path[600];
    CHECK(tier_fill(s) == 6);
    snprintf(path, sizeof path, "%s/%s/ledger", stk_tier_path(t), stk_tier_set_id(s));
    stk_tier_set_close(s);
    struct stat st;
    CHECK(stat(path, &st) == 0);
    for (off_t at = 64; at < st.st_size; at += 4) {
        flip(path, at, false);
        struct stk_tier *reader = NULL;
        CHECK(stk_tier_open(stk_tier_path(t), &(struct stk_tier_options){0}, &reader, NULL) == 0);
        CHECK_INT(stk_tier_set_find(reader, 1, &s, NULL), 1);
        uint64_t n = there(s);
        CHECK(n == 5 || n == 3); /* an entry; the record of the large file */
        stk_tier_set_close(s);
        stk_tier_close(reader);
        flip(path, at, false);
    }
    CHECK(truncate(path, 100) == 0);
    s = tier_set(t, 1);
    CHECK_INT(there(s), 0);
    stk_tier_set_close(s);
    stk_tier_close(t);
}

/* A disk that loses bytes changes no time: only reading finds it, and then the parcel must be
 * copied again, though the file was finished. */
static void rotten(void)
{
    struct stk_tier *t = tier_open(scratch_path("rotten"), 0);
    struct stk_tier_set *s = tier_set(t, 1);
    uint64_t hash = tier_hash(2), bad = 0;
    char *path = NULL;
    for (uint64_t i = 0; i < 3; i++) {
        size_t n = stk_tier_parcel_len(tier_size[2], i);
        uint64_t good = stk_tier_hash(tier_bytes(2, i), n);
        CHECK_INT(stk_tier_claim(s, 2, i), STK_TIER_OURS);
        CHECK_INT(stk_tier_put(s, 2, i, tier_bytes(i == 1 ? 0 : 2, i), n, good, NULL), i == 2);
        stk_tier_drop(s, 2, i);
    }
    CHECK_INT(stk_tier_finish_file(s, 2, &hash, NULL), 0);
    CHECK_INT(tier_fill(s), 3);
    CHECK_INT(stk_tier_publish(s, &path, NULL), 0);
    free(path);
    CHECK_INT(stk_tier_verify_file(s, 2, &bad, NULL), 0);
    CHECK_INT(bad, 1);
    CHECK(!stk_tier_file_finished(s, 2));
    CHECK_INT(tier_fill(s), 1);
    CHECK_INT(stk_tier_publish(s, &path, NULL), 0);
    CHECK(copy_is_right(s, 2));
    free(path);
    stk_tier_set_close(s);
    stk_tier_close(t);
}

/* A tier keeps its limit, and only gives up sets that nobody uses. */
static void limits(void)
{
    struct stk_tier *t = tier_open(scratch_path("t8"), BIG + 100000);
    struct stk_tier_set *one = tier_set(t, 1), *two = tier_set(t, 2);
    CHECK_INT(tier_fill(one), 6);
    CHECK_INT(stk_tier_claim(two, 2, 0), STK_TIER_OURS);
    struct stk_err err = {0};
    uint64_t hash = stk_tier_hash(tier_bytes(2, 0), STK_TIER_PARCEL);
    CHECK_INT(stk_tier_put(two, 2, 0, tier_bytes(2, 0), STK_TIER_PARCEL, hash, &err), 2);
    CHECK(strstr(err.what, "limit"));
    stk_tier_set_close(one); /* unused now: it makes room */
    CHECK_INT(stk_tier_put(two, 2, 0, tier_bytes(2, 0), STK_TIER_PARCEL, hash, &err), 0);
    stk_tier_drop(two, 2, 0);
    CHECK_INT(tier_fill(two), 5);
    stk_tier_set_close(two);
    CHECK_INT(stk_tier_set_find(t, 1, &one, NULL), 0);
    CHECK_INT(stk_tier_set_find(t, 2, &two, NULL), 1);
    stk_tier_set_close(two);
    stk_tier_close(t);
}

static int count_set(void *user, const struct stk_tier_info *info)
{
    ++*(unsigned *)user;
    CHECK(!info->used && !info->filling && info->lease && strstr(info->lease, "boot_id"));
    CHECK_STR(info->source, "/src/set");
    return 0;
}

/* Sets that were not used for long go; files of others stay. */
static void age(void)
{
    const char *path = scratch_path("t9");
    struct stk_tier *t = tier_open(path, 0);
    struct stk_tier_set *s = tier_set(t, 1);
    char ledger[600];
    unsigned n = 0;
    snprintf(ledger, sizeof ledger, "%s/%s/ledger", path, stk_tier_set_id(s));
    stk_tier_set_close(s);
    stk_tier_close(t);
    scratch_file("t9/note", "mine", 4);
    CHECK(utimensat(AT_FDCWD, ledger, (struct timespec[2]){{.tv_sec = 1000}, {.tv_sec = 1000}},
                    0) == 0);
    t = tier_open(path, 0);
    CHECK(stk_tier_list(t, count_set, &n, NULL) == 0 && n == 1);
    stk_tier_close(t);
    CHECK(stk_tier_open(path, &(struct stk_tier_options){.make = true, .age_s = 3600}, &t, NULL) ==
          0);
    n = 0;
    CHECK(stk_tier_list(t, count_set, &n, NULL) == 0 && n == 0);
    CHECK(access(scratch_path("t9/note"), F_OK) == 0);
    stk_tier_close(t);
}

/* A folder that others could have prepared is not used. */
static void hostile_folder(void)
{
    struct stk_tier *t = NULL;
    struct stk_err err = {0};
    const struct stk_tier_options o = {.make = true};
    const char *path = scratch_path("open");
    CHECK(mkdir(path, 0755) == 0);
    CHECK_INT(stk_tier_open(path, &o, &t, &err), STK_E_EXISTS);
    CHECK(strstr(err.what, "chmod 700"));
    CHECK(chmod(path, 0700) == 0 && symlink(path, scratch_path("link")) == 0);
    CHECK_INT(stk_tier_open(scratch_path("link"), &o, &t, &err), STK_E_EXISTS);
    if (geteuid() == 0) {
        CHECK(chown(path, 65534, 65534) == 0);
        CHECK_INT(stk_tier_open(path, &o, &t, &err), STK_E_EXISTS);
        CHECK(strstr(err.what, "belongs to"));
    }
}

/* Two jobs that name the same new folder: the second would take a tier that the first is making for
 * a folder with other uses. */
static void being_made(void)
{
    char path[500];
    snprintf(path, sizeof path, "%s", scratch_path("made"));
    CHECK(mkdir(path, 0700) == 0);
    scratch_file("made/tier.json.partial.0123", "", 0);
    char *at = stk_tier_at(path);
    CHECK_STR(at, path);
    free(at);
    scratch_file("made/notes", "", 0);
    at = stk_tier_at(path);
    CHECK(strstr(at, "/stoker-"));
    free(at);
}

static struct stk_tier *reader_of(const char *path)
{
    struct stk_tier *t = NULL;
    CHECK_INT(stk_tier_open(path, &(struct stk_tier_options){0}, &t, NULL), 0);
    return t;
}

/* A training that starts would wait behind the copy that is filled for it; a copy would wait for one
 * that has ended. */
static void who_goes_first(void)
{
    struct stk_tier *t = tier_open(scratch_path("first"), 0);
    struct stk_tier_set *s = tier_set(t, 1);
    struct stk_tier *a = reader_of(scratch_path("first")), *b = reader_of(scratch_path("first"));
    CHECK(!stk_tier_others_first(s));
    stk_tier_go_first(a);
    stk_tier_go_first(b);
    CHECK(stk_tier_others_first(s));
    stk_tier_went_first(a);
    stk_tier_went_first(a);
    CHECK(stk_tier_others_first(s));
    stk_tier_close(b);
    CHECK(!stk_tier_others_first(s));
    stk_tier_close(a);
    stk_tier_set_close(s);
    stk_tier_close(t);
}

int main(int argc, char **argv)
{
    scratch_begin();
    CHECK_BEGIN(argc, argv);
    CHECK_RUN(fill_and_publish);
    CHECK_RUN(wrong_source);
    CHECK_FOR("flipped", changed_copy, "flipped");
    CHECK_FOR("kept", changed_copy, "kept");
    CHECK_FOR("partly", changed_copy, "partly");
    CHECK_FOR("cut", changed_copy, "cut");
    CHECK_FOR("gone", changed_copy, "gone");
    CHECK_RUN(killed_filler);
    CHECK_RUN(restarted);
    CHECK_RUN(claims_of_files);
    CHECK_FOR("list", garbage, "list");
    CHECK_FOR("ledger", garbage, "ledger");
    CHECK_RUN(damaged_entries);
    CHECK_RUN(rotten);
    CHECK_RUN(limits);
    CHECK_RUN(age);
    CHECK_RUN(hostile_folder);
    CHECK_RUN(being_made);
    CHECK_RUN(who_goes_first);
    free(tier_big);
    scratch_done();
    return CHECK_DONE();
}
