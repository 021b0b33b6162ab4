/* fuzz_manifest.c - an arbitrary manifest.json of a packed dataset. */
#include "harness.h"

#include "dataset/manifest.h"

#include <fcntl.h>
#include <unistd.h>

static void touch_files(const struct stk_manifest_file *f, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!stk_key_is_safe_path(f[i].name, strlen(f[i].name)))
            stk_fuzz_broken("a manifest names only files below its folder");
        stk_fuzz_touch(f[i].name, strlen(f[i].name));
    }
}

int fuzz_manifest(const uint8_t *data, size_t size)
{
    struct stk_manifest m, back;
    struct stk_err err = {0};
    stk_fuzz_file(STK_MANIFEST_NAME, data, size);
    if (stk_manifest_read(stk_fuzz_folder(), &m, &err) == 1) {
        touch_files(m.shard, m.nshards);
        touch_files(m.other, m.nother);
        for (size_t i = 0; i < m.nclasses; i++)
            stk_fuzz_touch(m.classes[i], strlen(m.classes[i]));
        int dir = open(stk_fuzz_folder(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (stk_manifest_write(dir, stk_fuzz_folder(), &m, &err) == 0) {
            if (stk_manifest_read(stk_fuzz_folder(), &back, &err) != 1 ||
                back.nshards != m.nshards || back.nclasses != m.nclasses)
                stk_fuzz_broken("a manifest that is written can be read");
            stk_manifest_release(&back);
        }
        close(dir);
        stk_manifest_release(&m);
    }
    stk_fuzz_file(STK_MANIFEST_NAME, data, size);
    stk_fuzz_dataset(stk_fuzz_folder(), &(struct stk_open_options){.no_index_write = true});
    return 0;
}
