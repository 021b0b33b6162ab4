/* style.c - marks become colours, or nothing. */
#include "base/style.h"

bool stk_style_is_mark(uint32_t cp)
{
    return cp >= (unsigned char)STK_PLAIN[0] && cp <= (unsigned char)STK_BAD[0];
}

void stk_style_apply(const char *text, size_t n, bool colour, struct stk_buf *out)
{
    static const char *const sequence[] = {"\033[0m",  "\033[1m",  "\033[2m",
                                           "\033[32m", "\033[33m", "\033[1;31m"};
    for (size_t i = 0; i < n; i++) {
        if (!stk_style_is_mark((unsigned char)text[i]))
            stk_buf_putc(out, text[i]);
        else if (colour)
            stk_buf_puts(out, sequence[text[i] - STK_PLAIN[0]]);
    }
}
