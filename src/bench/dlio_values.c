/* dlio_values.c - see dlio_priv.h: numbers out of the texts of DLIO's keys. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/num.h"
#include "bench/dlio_priv.h"

int stk_dlio_number(const struct stk_dlio_reading *r, const char *key, double *out, struct stk_err *err)
{
    const char *text = stk_dlio_kept(r, key);
    int64_t whole;
    *out = 0;
    if (text && stk_num_parse(text, strlen(text), &whole, out) == STK_NUM_NONE)
        return stk_dlio_refuse(r, key, err, "\"%.60s\" is not a number", text);
    return 0;
}

int stk_dlio_first_number(const struct stk_dlio_reading *r, const char *const *keys, const char **key, double *out,
                        struct stk_err *err)
{
    int rc = 0;
    *key = keys[0];
    *out = 0;
    for (; *keys && !(*out > 0) && rc == 0; keys++) {
        rc = stk_dlio_number(r, *keys, out, err);
        if (*out > 0)
            *key = *keys;
    }
    return rc;
}

int stk_dlio_set_number(struct stk_dlio_reading *r, const char *key, const char *ours, double value,
                      struct stk_err *err)
{
    char text[64];
    snprintf(text, sizeof text, "%.0f", value);
    return stk_dlio_set(r, key, ours, text, err);
}

int stk_dlio_list(const struct stk_dlio_reading *r, const char *key, double divisor, double *sum, double *product,
                   struct stk_err *err)
{
    const char *p = stk_dlio_kept(r, key);
    *sum = 0;
    *product = 1;
    for (char *end; p && *p; p = *end ? end + 1 : end) {
        double v = strtod(p, &end);
        if (end == p || (*end && *end != ',') || !(v >= 0) || v > 1e15)
            return stk_dlio_refuse(r, key, err, "\"%.60s\" is not a list of numbers",
                                   stk_dlio_kept(r, key));
        *sum += floor(v / divisor);
        *product *= v;
    }
    return 0;
}

/* Bytes of an element, by the names of numpy. */
int stk_dlio_element(const struct stk_dlio_reading *r, double *out, struct stk_err *err)
{
    static const struct {
        const char *name;
        double bytes;
    } types[] = {{"uint8", 1}, {"int8", 1},    {"bool", 1},   {"uint16", 2},  {"int16", 2},
                 {"float16", 2}, {"uint32", 4}, {"int32", 4},  {"float32", 4}, {"uint64", 8},
                 {"int64", 8},   {"float64", 8}};
    const char *text = stk_dlio_kept(r, "dataset.record_element_type");
    *out = 1;
    for (size_t i = 0; text && i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].name, text) == 0) {
            *out = types[i].bytes;
            return 0;
        }
    return text ? stk_dlio_refuse(r, "dataset.record_element_type", err,
                                  "\"%.60s\" is not replayed here", text)
                : 0;
}
