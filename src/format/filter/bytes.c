/*
 * bytes.c - filters that rearrange bytes: those of HDF5, byte order, the parts of a RecordIO
 * record, holes.
 */
#include "format/filter/priv.h"

#define MAGIC 0xced7230au /* RecordIO */

/* ---- HDF5's filters ---------------------------------------------------------------------- */

/* Byte k of all elements is in lane[k]. The loops are written so that the compiler vectorises
 * them. */
static void unshuffle4(const uint8_t *in, size_t n, uint8_t *out)
{
    const uint8_t *a = in, *b = in + n, *c = in + 2 * n, *d = in + 3 * n;
    for (size_t i = 0; i < n; i++)
        stk_put_le32(out + 4 * i, (uint32_t)a[i] | (uint32_t)b[i] << 8 | (uint32_t)c[i] << 16 |
                                      (uint32_t)d[i] << 24);
}

static void unshuffle8(const uint8_t *in, size_t n, uint8_t *out)
{
    for (size_t i = 0; i < n; i++) {
        const uint8_t *p = in + i;
        uint64_t lo = (uint64_t)p[0] | (uint64_t)p[n] << 8 | (uint64_t)p[2 * n] << 16 |
                      (uint64_t)p[3 * n] << 24;
        uint64_t hi = (uint64_t)p[4 * n] | (uint64_t)p[5 * n] << 8 | (uint64_t)p[6 * n] << 16 |
                      (uint64_t)p[7 * n] << 24;
        stk_put_le64(out + 8 * i, lo | hi << 32);
    }
}

static void unshuffle2(const uint8_t *in, size_t n, uint8_t *out)
{
    for (size_t i = 0; i < n; i++)
        stk_put_le16(out + 2 * i, (uint16_t)(in[i] | in[n + i] << 8));
}

static void unshuffle_any(const uint8_t *in, size_t n, size_t size, uint8_t *out)
{
    for (size_t k = 0; k < size; k++)
        for (size_t i = 0; i < n; i++)
            out[i * size + k] = in[k * n + i];
}

int stk_filter_shuffle(struct job *j)
{
    if (j->len > j->limit)
        return too_big(j);
    size_t size = j->arg ? j->arg : 1, n = j->len / size, whole = n * size;
    uint8_t *out = stk_buf_room(j->out, j->len + 1);
    if (!out)
        return nomem(j);
    if (size == 4)
        unshuffle4(j->in, n, out);
    else if (size == 8)
        unshuffle8(j->in, n, out);
    else if (size == 2)
        unshuffle2(j->in, n, out);
    else
        unshuffle_any(j->in, n, size, out);
    if (whole < j->len) /* a partial element at the end is stored unchanged */
        memcpy(out + whole, j->in + whole, j->len - whole);
    j->out->len += j->len;
    return 0;
}

/* Like libhdf5: big-endian 16-bit words, an odd last byte as the high half of a word. */
static uint32_t fletcher32(const uint8_t *p, size_t len)
{
    uint32_t sum1 = 0, sum2 = 0;
    for (size_t words = len / 2; words;) {
        size_t run = words > 360 ? 360 : words; /* the sums cannot overflow in 360 steps */
        words -= run;
        for (; run; run--, p += 2) {
            sum1 += (uint32_t)p[0] << 8 | p[1];
            sum2 += sum1;
        }
        sum1 = (sum1 & 0xffff) + (sum1 >> 16);
        sum2 = (sum2 & 0xffff) + (sum2 >> 16);
    }
    if (len % 2) {
        sum1 += (uint32_t)*p << 8;
        sum2 += sum1;
        sum1 = (sum1 & 0xffff) + (sum1 >> 16);
        sum2 = (sum2 & 0xffff) + (sum2 >> 16);
    }
    sum1 = (sum1 & 0xffff) + (sum1 >> 16);
    sum2 = (sum2 & 0xffff) + (sum2 >> 16);
    return sum2 << 16 | sum1;
}

int stk_filter_fletcher(struct job *j)
{
    if (j->len < 4)
        return corrupt(j, "too short for its Fletcher-32 checksum");
    uint32_t stored = stk_le32(j->in + j->len - 4);
    uint32_t sum = fletcher32(j->in, j->len - 4);
    /* libhdf5 before 1.6.3 stored the halves with swapped bytes; such files are still read. */
    uint32_t old = (sum & 0x00ff00ffu) << 8 | (sum >> 8 & 0x00ff00ffu);
    if (stored != sum && stored != old)
        return corrupt(j, "the Fletcher-32 checksum does not match the data");
    return 0;
}

int stk_filter_bswap(struct job *j)
{
    size_t size = j->arg, len = j->len;
    if (len > j->limit)
        return too_big(j);
    if (size != 2 && size != 4 && size != 8)
        return stk_err_set(j->err, STK_E_UNSUPPORTED, j->path, (int64_t)j->offset,
                           "big-endian elements of %zu bytes", size);
    if (len % size)
        return corrupt(j, "the data is not a whole number of elements");
    uint8_t *out = stk_buf_extend(j->out, len + 1);
    if (!out)
        return nomem(j);
    j->out->len--;
    memcpy(out, j->in, len);
    for (size_t i = 0; size == 2 && i < len; i += 2)
        stk_put_le16(out + i, __builtin_bswap16(stk_le16(out + i)));
    for (size_t i = 0; size == 4 && i < len; i += 4)
        stk_put_le32(out + i, __builtin_bswap32(stk_le32(out + i)));
    for (size_t i = 0; size == 8 && i < len; i += 8)
        stk_put_le64(out + i, __builtin_bswap64(stk_le64(out + i)));
    return 0;
}

/* ---- others ------------------------------------------------------------------------------ */

/*
 * The bytes of a multi-part RecordIO record from the end of its first header to the end of its last
 * part. A writer cuts a payload wherever the magic occurs at a multiple of 4 and drops it there, so
 * the first aligned magic is the header of the second part; from there on the lengths in the
 * headers lead.
 */
int stk_filter_join(struct job *j)
{
    size_t at = 0;
    while (j->len - at >= 8 && stk_le32(j->in + at) != MAGIC)
        at += 4;
    stk_buf_put(j->out, j->in, at);
    for (uint32_t flag = 2; flag == 2;) {
        if (j->len - at < 8 || stk_le32(j->in + at) != MAGIC)
            return corrupt(j, "a part of a multi-part record has no header");
        uint32_t word = stk_le32(j->in + at + 4);
        size_t size = word & ((1u << 29) - 1), padded = (size + 3) & ~(size_t)3;
        flag = word >> 29;
        if ((flag != 2 && flag != 3) || size > j->len - at - 8)
            return corrupt(j, "a part of a multi-part record has a damaged header");
        stk_buf_put(j->out, j->in + at, 4);
        stk_buf_put(j->out, j->in + at + 8, size);
        at += 8 + (flag == 3 ? size : padded);
        if (j->out->len > j->limit)
            return too_big(j);
        if (at > j->len)
            break;
    }
    if (at != j->len)
        return corrupt(j, "the parts of a multi-part record do not add up");
    return stk_buf_check(j->out, j->err);
}

/* LZF: runs of up to 32 literals, and copies of 3 to 264 bytes from at most 8 KiB back. */
int stk_filter_lzf(struct job *j)
{
    const uint8_t *p = j->in, *end = p + j->len;
    while (p < end) {
        size_t ctrl = *p++, n = ctrl < 32 ? ctrl + 1 : (ctrl >> 5) + 2, back = 0;
        if (ctrl >> 5 == 7) /* a long copy: one more byte of length */
            n += p < end ? *p++ : 0;
        if (ctrl >= 32 && p < end)
            back = ((ctrl & 31) << 8 | *p++) + 1;
        if (ctrl < 32 ? (size_t)(end - p) < n : !back || back > j->out->len)
            return corrupt(j, "damaged lzf data");
        if (n > j->limit - j->out->len)
            return too_big(j);
        uint8_t *to = stk_buf_extend(j->out, n);
        if (!to)
            return nomem(j);
        if (ctrl < 32) {
            memcpy(to, p, n);
            p += n;
            continue;
        }
        const uint8_t *from = to - back;
        for (size_t i = 0; i < n; i++) /* may overlap itself: repeated bytes are stored so */
            to[i] = from[i];
    }
    return 0;
}

/* A hole: nothing is stored; it stands for 2^arg zeros. */
int stk_filter_zeros(struct job *j)
{
    if (j->arg > 30 || ((size_t)1 << j->arg) > j->limit)
        return too_big(j);
    stk_buf_zeros(j->out, (size_t)1 << j->arg);
    return stk_buf_check(j->out, j->err);
}
