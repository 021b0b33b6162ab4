/*
 * harness.h - what the fuzz targets share: a file of arbitrary bytes opened as a dataset, and
 * samples of which every byte is looked at, so that ASan sees any that is not there.
 */
#ifndef STK_FUZZ_HARNESS_H
#define STK_FUZZ_HARNESS_H

#include "format/format.h"
#include "format/sample.h"

#include "fuzz_targets.h" /* made by Meson: FUZZ_TARGETS(X) is X(codec) X(csv) ..., one per file */

/* A target: the only function of its file that others see, and named like it. Returns 0. */
#define FUZZ_DECLARE(name) int fuzz_##name(const uint8_t *data, size_t size);
FUZZ_TARGETS(FUZZ_DECLARE)

/* Writes data to a file with the format's suffix, opens it as a dataset of that format, reads
 * samples, verifies it. Returns 0, as a fuzz target does. */
int stk_fuzz_format(const char *format, const uint8_t *data, size_t size);

/* The same for a format whose library runs in a child process (jail.h): a fork for each input, so
 * that without libFuzzer only one in some is tried, always the same ones. */
int stk_fuzz_jailed(const char *format, const uint8_t *data, size_t size);

/* A sink (lister.h) that looks at all of every event and ends the run at one that refers to what
 * was never listed. Its counts start at zero with each call. */
struct stk_sink;
struct stk_sink *stk_fuzz_sink(void);
/* Lists a file with that sink, in this process. */
void stk_fuzz_list(const struct stk_format *f, const char *path);

/* Explodes data with the codec; what comes out is imploded again and must come back the same. */
int stk_fuzz_codec(const char *codec, const uint8_t *data, size_t size);

/* Opens a dataset and reads samples from either end of it. Returns how many it has. */
uint64_t stk_fuzz_dataset(const char *path, const struct stk_open_options *options);

/* Some batches of it, every byte looked at; how: the order, the engine, what happens to errors. */
void stk_fuzz_load(struct stk_dataset *ds, uint8_t how);

/* This process's own folder, and a file in it with these bytes. Borrowed: the path is valid until
 * the call after the next. */
const char *stk_fuzz_folder(void);
const char *stk_fuzz_file(const char *name, const uint8_t *data, size_t size);

/* Looks at every byte of a sample (of a value, of a range). */
void stk_fuzz_touch_sample(const struct stk_sample *s);
void stk_fuzz_touch(const void *p, size_t n);

/* Ends the run with a message: the code under test broke a promise of its own. */
void stk_fuzz_broken(const char *promise) __attribute__((noreturn));

#endif
