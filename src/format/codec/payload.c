/* payload.c - combines the bids of all codecs on several records. */
#include "format/codec/codec.h"
#include "format/codec/example.h"

#include <stdio.h>
#include <string.h>

/* An Example without features: no bytes at all, or an empty message. */
static bool is_empty(const uint8_t *p, uint64_t total)
{
    return total == 0 || (total == 2 && p[0] == 0x0a && p[1] == 0);
}

static const struct stk_codec *guess(const uint8_t *p, size_t n, uint64_t total, bool header)
{
    const struct stk_codec *c = n == total ? stk_codec_guess(p, n) : NULL;
    const char *large = n < total ? stk_example_guess_large(p, n, total) : NULL;
    if (large)
        c = stk_codec_find(large);
    if (!c && header && stk_irheader_plausible(p, n, total))
        c = stk_codec_find("image");
    return c;
}

void stk_payload_look(struct stk_payload_guess *g, const uint8_t *p, size_t n, uint64_t total,
                      bool header)
{
    g->looked++;
    if (n == total && is_empty(p, total)) {
        g->empty++;
        return;
    }
    const struct stk_codec *c = guess(p, n, total, header);
    size_t i = 0;
    while (c && stk_codec_at(i) != c)
        i++;
    if (c && i < sizeof g->votes / sizeof *g->votes)
        g->votes[i]++;
    else
        g->raw++;
}

/* Records in an extended codec count for it: the narrower one could not hold them. */
static void widen(struct stk_payload_guess *g)
{
    for (size_t i = 0; stk_codec_at(i); i++) {
        const char *widens = stk_codec_at(i)->widens;
        for (size_t k = 0; widens && g->votes[i] && stk_codec_at(k); k++)
            if (strcmp(stk_codec_at(k)->name, widens) == 0) {
                g->votes[i] += g->votes[k];
                g->votes[k] = 0;
            }
    }
}

/* The payload of most of them; `usual` if all were empty. */
static const char *decide(struct stk_payload_guess *g, const char *usual)
{
    const char *name = g->looked && g->looked == g->empty ? usual : "raw";
    unsigned best = g->raw;
    widen(g);
    for (size_t i = 0; stk_codec_at(i) && i < sizeof g->votes / sizeof *g->votes; i++)
        if (g->votes[i] > best ||
            (g->votes[i] && g->votes[i] == best && strcmp(name, "raw") == 0)) {
            best = g->votes[i];
            name = stk_codec_at(i)->name;
        }
    unsigned full = g->looked - g->empty;
    if (!full)
        snprintf(g->because, sizeof g->because, "the first records are empty");
    else if (best == full) /* the same text for every such file, so that notes merge */
        snprintf(g->because, sizeof g->because, "the first records look so");
    else
        snprintf(g->because, sizeof g->because, "%u of the first %u records look so", best, full);
    strcat(g->because, "; --payload overrules it");
    return name;
}

int stk_payload_field(struct stk_lister *l, const char *usual,
                      int (*look)(void *user, struct stk_payload_guess *g, struct stk_err *err),
                      void *user, struct stk_err *err)
{
    const struct stk_list_options *o = stk_list_opts(l);
    struct stk_field_spec spec = {.name = "record", .kind = STK_BYTES, .codec = o->payload};
    struct stk_payload_guess g = {0};
    bool found = strcmp(o->payload, "auto") == 0;
    int rc = found && !o->compress ? look(user, &g, err) : 0;
    if (rc == 0 && found)
        spec.codec = o->compress ? usual : decide(&g, usual);
    if (rc == 0 && g.looked)
        rc = stk_list_taken(l, "payload", spec.codec, g.because, err);
    return rc < 0 ? rc : stk_list_field(l, &spec, err);
}
