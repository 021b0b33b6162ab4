/*
 * volume.c - volumes of an archive (tar -M). A volume that is not the last ends wherever it is
 * full, like a truncated archive; only a label, or the next volume in the same folder,
 * distinguishes them.
 */
#include "format/members.h"
#include "base/dir.h"
#include "format/tar/head.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOOK_AT  4096 /* files in its folder */
#define NAME_CUT 100  /* bytes kept of a longer name in a continued member */
#define BLOCKS   4u   /* of each: a label, a global header and its text, the continued member */

bool stk_tar_is_volume_label(const char *name, size_t len)
{
    static const char word[] = " Volume ";
    size_t digits = 0, n = strlen(word);
    while (digits < len && isdigit((unsigned char)name[len - 1 - digits]))
        digits++;
    return digits && len - digits >= n && memcmp(name + len - digits - n, word, n) == 0;
}

/* True if a header's name is that of the (cleaned) member, or if the member's is empty. */
static bool is_rest_of(const char *name, size_t len, const char *member, size_t member_len)
{
    char clean[4096];
    bool cut = len == NAME_CUT;
    if (!member_len || len >= sizeof clean)
        return !member_len;
    memcpy(clean, name, len);
    len = stk_member_clean(clean, len);
    return (len == member_len || (cut && len < member_len)) && memcmp(clean, member, len) == 0;
}

/* True if the headers at p begin with the rest of a member. */
static bool begins_with_rest(const uint8_t *p, size_t n, const char *member, size_t len)
{
    struct stk_tar_head h;
    for (size_t at = 0; at + STK_TAR_BLOCK <= n;) {
        if (stk_tar_parse(p + at, &h) != STK_TAR_HEADER || !h.size_ok)
            return false;
        at += STK_TAR_BLOCK;
        if (h.type == 'M')
            return is_rest_of(h.name, h.name_len, member, len);
        if (h.type == 'g' && h.size <= n - at) {
            struct stk_tar_pax pax = {0};
            (void)stk_tar_pax_parse((const char *)p + at, (size_t)h.size, &pax);
            if (pax.rest)
                return is_rest_of(pax.rest_of, pax.rest_of_len, member, len);
            at += (size_t)h.size + stk_tar_padding(h.size);
        } else if (h.type != 'V') {
            return false;
        }
    }
    return false;
}

static bool file_goes_on(int dir, const char *name, const char *member, size_t len)
{
    uint8_t head[BLOCKS * STK_TAR_BLOCK];
    struct stat sb;
    ssize_t got = 0;
    int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return false;
    if (fstat(fd, &sb) == 0 && S_ISREG(sb.st_mode))
        while ((got = pread(fd, head, sizeof head, 0)) < 0 && errno == EINTR)
            ;
    close(fd);
    return got > 0 && begins_with_rest(head, (size_t)got, member, len);
}

bool stk_tar_goes_on(const char *path, const char *member, size_t len)
{
    const char *slash = strrchr(path, '/');
    char *folder = !slash          ? strdup(".")
                   : slash == path ? strdup("/")
                                   : strndup(path, (size_t)(slash - path));
    const struct dirent *e;
    struct stk_dir d;
    bool found = false;
    int rc = folder ? stk_dir_open(&d, folder, NULL) : STK_E_NOMEM;
    for (int i = 0; !rc && !found && i < LOOK_AT && (e = stk_dir_next(&d)); i++)
        found = (e->d_type == DT_REG || e->d_type == DT_UNKNOWN) &&
                file_goes_on(d.fd, e->d_name, member, len);
    if (folder)
        (void)stk_dir_end(&d, rc, NULL); /* then the archive is reported as truncated */
    free(folder);
    return found;
}
