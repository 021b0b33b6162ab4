/* sniff.h - what some bytes look like, for showing them: "JPEG 640x480". A guess, nothing more. */
#ifndef STK_REPORT_SNIFF_H
#define STK_REPORT_SNIFF_H

#include <stddef.h>
#include <stdint.h>

/* Writes the description to buf ("" if unknown) and returns the usual extension with its dot
 * (".jpg"), or NULL. Looks at the first bytes only, never past n. */
const char *stk_sniff(const uint8_t *p, size_t n, char *buf, size_t size);

#endif
