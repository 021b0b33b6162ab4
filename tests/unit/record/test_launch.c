/* test_launch.c - what the launcher finds out about programs, and how logs come out of the spool. A
 * program taken for another kind would run without a record, or not at all; a block that is not
 * copied is a part of the run that nobody sees. */
#include "check.h"
#include "scratch.h"
#include "base/spawn.h"
#include "record/priv.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- programs ---- */

static struct stk_program look(const char *path)
{
    struct stk_program p;
    stk_program_look(path, &p);
    return p;
}

/* A program of one kind: headers and what they point to, nothing to run. */
struct made {
    Elf64_Ehdr eh;
    Elf64_Phdr ph[4];
    char loader[64];
};

static struct made make(const char *loader)
{
    struct made m = {0};
    memcpy(m.eh.e_ident, ELFMAG, SELFMAG);
    m.eh.e_ident[EI_CLASS] = ELFCLASS64;
    m.eh.e_machine = sizeof(void *) == 8 ? EM_X86_64 : EM_386;
#ifdef __aarch64__
    m.eh.e_machine = EM_AARCH64;
#endif
    m.eh.e_phoff = offsetof(struct made, ph);
    m.eh.e_phentsize = sizeof(Elf64_Phdr);
    m.eh.e_phnum = loader ? 2 : 1;
    m.ph[0] = (Elf64_Phdr){.p_type = PT_LOAD, .p_vaddr = 0x1000, .p_filesz = sizeof m};
    snprintf(m.loader, sizeof m.loader, "%s", loader ? loader : "");
    m.ph[1] = (Elf64_Phdr){.p_type = PT_INTERP,
                           .p_offset = offsetof(struct made, loader),
                           .p_filesz = strlen(m.loader) + 1};
    return m;
}

static struct stk_program look_at(const struct made *m, size_t size)
{
    return look(scratch_file("made", m, size));
}

static void kinds_of_programs(void)
{
    static const char glibc[] = "/lib64/ld-linux-x86-64.so.2";
    struct made m = make(glibc);
    CHECK_INT(look("/bin/sh").linkage, STK_LINK_DYNAMIC);
    CHECK_INT(look_at(&m, sizeof m).linkage, STK_LINK_DYNAMIC);
    CHECK(!look_at(&m, sizeof m).other_libc);
    m = make("/lib/ld-musl-x86_64.so.1");
    CHECK(look_at(&m, sizeof m).other_libc);
    m = make(NULL);
    CHECK_INT(look_at(&m, sizeof m).linkage, STK_LINK_STATIC);
    m.eh.e_ident[EI_CLASS] = ELFCLASS32;
    CHECK(look_at(&m, sizeof m).other_libc);
    CHECK_INT(look("/nonexistent").linkage, STK_LINK_UNKNOWN);
    CHECK_INT(look("/").linkage, STK_LINK_UNKNOWN);
}

static void scripts_lead_to_their_interpreter(void)
{
    char text[700];
    CHECK_INT(look(scratch_file("s1", "#!/bin/sh\nexit\n", 15)).linkage, STK_LINK_DYNAMIC);
    CHECK_INT(look(scratch_file("s2", "#! \t/bin/sh -e\n", 15)).linkage, STK_LINK_DYNAMIC);
    snprintf(text, sizeof text, "#!%s\n", scratch_path("loop"));
    CHECK_INT(look(scratch_file("loop", text, strlen(text))).linkage, STK_LINK_UNKNOWN);
    CHECK_INT(look(scratch_file("none", "#!", 2)).linkage, STK_LINK_UNKNOWN);
    CHECK_INT(look(scratch_file("plain", "echo\n", 5)).linkage, STK_LINK_UNKNOWN);
}

/* Nothing in the file is believed: run under the sanitizers. */
static void damaged_programs(void)
{
    const struct made good = make("/lib64/ld-linux-x86-64.so.2");
    for (size_t n = 0; n < sizeof good; n += 7)
        (void)look_at(&good, n);
    uint8_t bytes[sizeof good];
    static const uint8_t values[] = {0x00, 0x7f, 0x80, 0xff};
    for (size_t i = 0; i < sizeof good * 4; i++) {
        memcpy(bytes, &good, sizeof bytes);
        bytes[i / 4] = values[i % 4];
        if (i / 4 % 8 == 7) /* whole words too */
            memset(bytes + i / 4 - 7, values[i % 4], 8);
        (void)look(scratch_file("bad", bytes, sizeof bytes));
    }
}

static void programs_are_found(void)
{
    char *path = NULL, list[600];
    snprintf(list, sizeof list, "/nonexistent:%s:/bin", scratch);
    setenv("PATH", list, 1);
    CHECK_INT(stk_find_program("sh", &path), 0);
    CHECK_STR(path, "/bin/sh");
    free(path);
    scratch_file("data", "x", 1);
    CHECK_INT(stk_find_program("data", &path), EACCES);
    CHECK_INT(stk_find_program("no-such-thing", &path), ENOENT);
    CHECK_INT(stk_find_program("", &path), ENOENT);
    CHECK_INT(stk_find_program("/bin", &path), EACCES);
    CHECK(path == NULL);
}

static void our_files_are_known(void)
{
    CHECK(stk_launch_is_ours("run.n1.7.json") && stk_launch_is_ours("samples.n1.7.csv"));
    CHECK(stk_launch_is_ours("n1.7.0.stklog") && stk_launch_is_ours("n1.7.0.stklog.partial.9"));
    CHECK(stk_launch_is_ours("run.id") && stk_launch_is_ours("samples.n1.7.csv.partial.9"));
    CHECK(stk_launch_is_ours("run.n1.7.r3.json") && !stk_launch_is_ours("run.idea"));
    CHECK(!stk_launch_is_ours("runs.json") && !stk_launch_is_ours("samples.txt"));
    CHECK(!stk_launch_is_ours("train.csv") && !stk_launch_is_ours("") && !stk_launch_is_ours("."));
}

/* ---- the spool ---- */

static bool same(const char *a, const char *b)
{
    struct stk_buf x = STK_BUF_INIT, y = STK_BUF_INIT;
    bool ok = stk_read_file(a, 1 << 28, &x, NULL) == 0 && stk_read_file(b, 1 << 28, &y, NULL) == 0;
    ok = ok && x.len == y.len && memcmp(x.data, y.data, x.len) == 0;
    stk_buf_release(&x);
    stk_buf_release(&y);
    return ok;
}

/* Written to through a map that stays, as a program under profile does. */
static uint8_t *grow(const char *path, uint8_t *old, size_t was, size_t size)
{
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    CHECK(fd >= 0 && ftruncate(fd, (off_t)size) == 0);
    if (old)
        munmap(old, was);
    uint8_t *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    CHECK(p != MAP_FAILED);
    return p;
}

static void copies_what_changed(void)
{
    enum { SMALL = 300000, LARGE = 9 << 20, LARGER = LARGE + 5 * 65536 + 100 };
    struct stk_launch l = {.o.copy_s = 0.02};
    bool made;
    CHECK_INT(stk_folder_take(&l.folder, scratch_path("dir"), false, &made, NULL), 0);
    CHECK_INT(stk_folder_take(&l.spool_folder, scratch_path("spool"), false, &made, NULL), 0);
    l.dir = l.folder.path;
    l.spool = l.spool_folder.path;
    char small[700], large[700];
    snprintf(small, sizeof small, "%s/n.1.0.stklog", l.spool);
    snprintf(large, sizeof large, "%s/n.2.0.stklog", l.spool);
    uint8_t *s = grow(small, NULL, 0, SMALL), *b = grow(large, NULL, 0, LARGE);
    CHECK_INT(stk_copier_start(&l, NULL), 0);
    memset(b, 1, 1 << 20);
    for (int i = 0; i < 20; i++) {
        usleep(10000);
        memset(s + i * 1000, i, 500);
        memset(b + i * 300000, i + 1, 100000);
    }
    b = grow(large, b, LARGE, LARGER);
    b[LARGER - 1] = 77;
    s[SMALL - 1] = 78;
    scratch_file("spool/other.txt", "not ours", 8);
    /* Before the spool goes: what it holds in the end. */
    char want_small[700], want_large[700];
    snprintf(want_small, sizeof want_small, "%s", scratch_path("want.1"));
    snprintf(want_large, sizeof want_large, "%s", scratch_path("want.2"));
    CHECK(link(small, want_small) == 0 && link(large, want_large) == 0);
    CHECK_INT(stk_copier_finish(&l, NULL), 0);
    CHECK(access(l.spool, F_OK) != 0 && !l.spool_left);
    CHECK(same(scratch_path("dir/n.1.0.stklog"), want_small));
    CHECK(same(scratch_path("dir/n.2.0.stklog"), want_large));
    CHECK(access(scratch_path("dir/other.txt"), F_OK) != 0);
    munmap(s, SMALL);
    munmap(b, LARGER);
    stk_folder_release(&l.folder);
    stk_folder_release(&l.spool_folder);
}

int main(int argc, char **argv)
{
    CHECK_BEGIN(argc, argv);
    scratch_begin();
    CHECK_RUN(kinds_of_programs);
    CHECK_RUN(scripts_lead_to_their_interpreter);
    CHECK_RUN(damaged_programs);
    CHECK_RUN(programs_are_found);
    CHECK_RUN(our_files_are_known);
    CHECK_RUN(copies_what_changed);
    scratch_done();
    return CHECK_DONE();
}
