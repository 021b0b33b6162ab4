/* fuzz_status.c - status files that anyone may have written, as `stoker watch` shows them: whatever
 * is in them, nothing but text reaches the terminal. */
#include "harness.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "bench/bench.h"
#include "report/live/priv.h"

/* A folder that is removed with its last file. */
static int open_folder(char *path)
{
    return mkdtemp(path) ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
}

static void check_text(const struct stk_buf *b)
{
    uint32_t cp;
    for (size_t i = 0, n; i < b->len; i += n) {
        n = stk_utf8_next((const char *)b->data + i, b->len - i, &cp);
        if (!n || (cp != '\n' && !stk_style_is_mark(cp) && stk_cp_is_control(cp)))
            stk_fuzz_broken("a screen has text, line ends and marks");
    }
}

static void show(const struct stk_look *l)
{
    struct stk_buf b = STK_BUF_INIT;
    struct stk_jw w;
    for (unsigned columns = 20; columns < 200; columns *= 3) {
        const struct stk_look_frame f = {.columns = columns, .rows = columns / 4, .utf8 = true};
        stk_buf_reset(&b);
        stk_look_text(l, &f, &b);
        check_text(&b);
    }
    stk_buf_reset(&b);
    stk_look_sentence(l, &b);
    check_text(&b);
    stk_buf_reset(&b);
    stk_jw_init(&w, &b, false);
    stk_jw_open(&w, '{');
    stk_look_json(l, &w);
    stk_jw_close(&w, '}');
    stk_fuzz_touch(b.data, b.len);
    stk_buf_release(&b);
}

static void look(const struct stk_look_kind *kind, int dirfd, const char *path)
{
    struct stk_look l = {.kind = kind, .title = ""};
    struct stk_err err = {0};
    l.elapsed_s = l.left_s = l.silent_s = NAN;
    if (kind->read(&l, dirfd, path, &err) == 0 && !l.absent)
        show(&l);
    stk_arena_release(&l.arena);
}

extern const struct stk_look_kind stk_look_bench, stk_look_study, stk_look_spread,
    stk_look_tune;

int fuzz_status(const uint8_t *data, size_t size)
{
    static const struct {
        const struct stk_look_kind *kind;
        const char *file[3];
    } all[] = {{&stk_look_bench, {STK_BENCH_RUN, STK_BENCH_RANK "00000.json", NULL}},
               {&stk_look_study, {"status.json", NULL}},
               {&stk_look_tune, {"status.json", NULL}},
               {&stk_look_spread, {"node-0000.json", "node-0001.json", NULL}}};
    char path[] = "/tmp/stoker-fuzz-XXXXXX";
    int fd = open_folder(path);
    for (size_t i = 0; fd >= 0 && i < sizeof all / sizeof *all; i++) {
        for (const char *const *name = all[i].file; *name; name++) {
            int file = stk_create_at(fd, *name, STK_PRIVATE);
            if (file < 0 || stk_write_full(file, data, size, *name, NULL) != 0)
                stk_fuzz_broken("the file can be written");
            close(file);
        }
        look(all[i].kind, fd, path);
        for (const char *const *name = all[i].file; *name; name++)
            (void)stk_unlink_at(fd, *name, *name, NULL);
    }
    if (fd >= 0)
        close(fd);
    rmdir(path);
    return 0;
}
