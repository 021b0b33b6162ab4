/*
 * sys.h - direct system calls: they bypass our own wrappers (which have the C library's names) and
 * other preloaded libraries, and do not touch errno. Results are the kernel's: negative error
 * numbers.
 */
#ifndef STK_PRELOAD_SYS_H
#define STK_PRELOAD_SYS_H

#include <stdint.h>
#include <sys/syscall.h>

#if defined(__x86_64__)
static inline long stk_sys6(long n, long a, long b, long c, long d, long e, long f)
{
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}
#elif defined(__aarch64__)
static inline long stk_sys6(long n, long a, long b, long c, long d, long e, long f)
{
    register long x8 __asm__("x8") = n;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc 0"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                     : "memory");
    return x0;
}
#else
/* The C library's syscall(), looked up behind our own wrapper of it (core.c). */
long stk_sys6(long n, long a, long b, long c, long d, long e, long f);
#endif

#define STK_SYS_ARG(x)       ((long)(intptr_t)(x))
#define stk_sys0(n)          stk_sys6(n, 0, 0, 0, 0, 0, 0)
#define stk_sys1(n, a)       stk_sys6(n, STK_SYS_ARG(a), 0, 0, 0, 0, 0)
#define stk_sys2(n, a, b)    stk_sys6(n, STK_SYS_ARG(a), STK_SYS_ARG(b), 0, 0, 0, 0)
#define stk_sys3(n, a, b, c) stk_sys6(n, STK_SYS_ARG(a), STK_SYS_ARG(b), STK_SYS_ARG(c), 0, 0, 0)
#define stk_sys4(n, a, b, c, d)                                                                    \
    stk_sys6(n, STK_SYS_ARG(a), STK_SYS_ARG(b), STK_SYS_ARG(c), STK_SYS_ARG(d), 0, 0)
#define stk_sys5(n, a, b, c, d, e)                                                                 \
    stk_sys6(n, STK_SYS_ARG(a), STK_SYS_ARG(b), STK_SYS_ARG(c), STK_SYS_ARG(d), STK_SYS_ARG(e), 0)

#endif
