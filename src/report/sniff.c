/* sniff.c - recognising common payloads by their first bytes, with the size of images. */
#include "report/sniff.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"

static unsigned be16(const uint8_t *p)
{
    return (unsigned)(p[0] << 8 | p[1]);
}

static unsigned be32(const uint8_t *p)
{
    return be16(p) << 16 | be16(p + 2);
}

/* Hops from marker to marker up to the frame header (SOFn), which holds the size. */
static bool jpeg_size(const uint8_t *p, size_t n, unsigned *w, unsigned *h)
{
    size_t i = 2;
    while (i + 9 <= n && p[i] == 0xff) {
        uint8_t marker = p[i + 1];
        if (marker == 0xff) {
            i++;
            continue;
        }
        bool frame =
            marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
        if (frame) {
            *h = be16(p + i + 5);
            *w = be16(p + i + 7);
            return true;
        }
        i += 2 + (size_t)be16(p + i + 2);
    }
    return false;
}

static bool webp_size(const uint8_t *p, size_t n, unsigned *w, unsigned *h)
{
    if (n >= 30 && memcmp(p + 12, "VP8X", 4) == 0) {
        *w = (stk_le32(p + 24) & 0xffffff) + 1;
        *h = (stk_le32(p + 26) >> 8) + 1;
        return true;
    }
    if (n >= 30 && memcmp(p + 12, "VP8 ", 4) == 0) {
        *w = stk_le16(p + 26) & 0x3fff;
        *h = stk_le16(p + 28) & 0x3fff;
        return true;
    }
    if (n >= 25 && memcmp(p + 12, "VP8L", 4) == 0) {
        uint32_t bits = stk_le32(p + 21);
        *w = (bits & 0x3fff) + 1;
        *h = (bits >> 14 & 0x3fff) + 1;
        return true;
    }
    return false;
}

static const struct magic {
    const char *name, *ext;
    size_t at, len;
    const char *bytes;
} magics[] = {
    {"JPEG", ".jpg", 0, 3, "\xff\xd8\xff"},
    {"PNG", ".png", 0, 8, "\x89PNG\r\n\x1a\n"},
    {"GIF", ".gif", 0, 4, "GIF8"},
    {"BMP", ".bmp", 0, 2, "BM"},
    {"WebP", ".webp", 8, 4, "WEBP"},
    {"WAV", ".wav", 8, 4, "WAVE"},
    {"AVI", ".avi", 8, 4, "AVI "},
    {"AVIF", ".avif", 4, 8, "ftypavif"},
    {"HEIC", ".heic", 4, 8, "ftypheic"},
    {"MP4", ".mp4", 4, 4, "ftyp"},
    {"Matroska", ".mkv", 0, 4, "\x1a\x45\xdf\xa3"},
    {"TIFF", ".tif", 0, 4, "II*\0"},
    {"TIFF", ".tif", 0, 4, "MM\0*"},
    {"JPEG 2000", ".jp2", 4, 4, "jP  "},
    {"NPY", ".npy", 0, 6, "\x93NUMPY"},
    {"HDF5", ".h5", 0, 8, "\x89HDF\r\n\x1a\n"},
    {"FLAC", ".flac", 0, 4, "fLaC"},
    {"Ogg", ".ogg", 0, 4, "OggS"},
    {"MP3", ".mp3", 0, 3, "ID3"},
    {"gzip", ".gz", 0, 2, "\x1f\x8b"},
    {"zstd", ".zst", 0, 4, "\x28\xb5\x2f\xfd"},
    {"LZ4", ".lz4", 0, 4, "\x04\x22\x4d\x18"},
    {"xz", ".xz", 0, 6,
     "\xfd"
     "7zXZ"},
    {"zip", ".zip", 0, 4, "PK\3\4"},
    {"PDF", ".pdf", 0, 5, "%PDF-"},
    {"DICOM", ".dcm", 128, 4, "DICM"},
    {"Parquet", ".parquet", 0, 4, "PAR1"},
    {"ELF", NULL, 0, 4,
     "\x7f"
     "ELF"},
};

static bool image_size(const struct magic *m, const uint8_t *p, size_t n, unsigned *w, unsigned *h)
{
    if (strcmp(m->name, "JPEG") == 0)
        return jpeg_size(p, n, w, h);
    if (strcmp(m->name, "WebP") == 0)
        return webp_size(p, n, w, h);
    if (strcmp(m->name, "PNG") == 0 && n >= 24) {
        *w = be32(p + 16);
        *h = be32(p + 20);
        return true;
    }
    if (strcmp(m->name, "GIF") == 0 && n >= 10) {
        *w = stk_le16(p + 6);
        *h = stk_le16(p + 8);
        return true;
    }
    if (strcmp(m->name, "BMP") == 0 && n >= 26) {
        *w = stk_le32(p + 18);
        *h = stk_le32(p + 22);
        return true;
    }
    return false;
}

const char *stk_sniff(const uint8_t *p, size_t n, char *buf, size_t size)
{
    buf[0] = '\0';
    for (size_t i = 0; i < sizeof magics / sizeof *magics; i++) {
        const struct magic *m = &magics[i];
        if (n < m->at + m->len || memcmp(p + m->at, m->bytes, m->len) != 0)
            continue;
        unsigned w = 0, h = 0;
        bool sized = image_size(m, p, n, &w, &h);
        /* Two letters do not tell a BMP from text: the header must match, too. */
        if (strcmp(m->name, "BMP") == 0 && (!sized || stk_le32(p + 6) != 0))
            continue;
        if (sized)
            snprintf(buf, size, "%s %ux%u", m->name, w, h);
        else
            snprintf(buf, size, "%s", m->name);
        return m->ext;
    }
    return NULL;
}
