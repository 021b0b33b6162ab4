/* open_options.c - the table of the options for opening a dataset, and their choices. */
#include "dataset/open_options.h"

#include "format/format.h"

const char *const *stk_format_names(void)
{
    static const char *names[64];
    for (size_t i = 0; i < 63 && stk_format_at(i) && !stk_format_at(i)->instead; i++)
        names[i] = stk_format_at(i)->name;
    return names;
}

const char *const *stk_payload_names(void)
{
    static const char *names[64] = {"auto"};
    for (size_t i = 0, n = 1; n < 63 && stk_codec_at(i); i++)
        if (stk_codec_at(i)->payload)
            names[n++] = stk_codec_at(i)->name;
    return names;
}

const char *const stk_header_names[] = {"auto", "yes", "no", NULL};
const char *const stk_delimiter_names[] = {"auto", "comma", "semicolon", "tab", "bar", NULL};

const struct stk_opt stk_open_opts[] = {
    STK_OPEN_READ_OPTIONS(0),
    STK_OPEN_INDEX_OPTIONS(0),
    STK_OPEN_BUILD_OPTIONS(0),
    STK_OPEN_PROGRAM_OPTIONS(0),
    {.name = NULL},
};
