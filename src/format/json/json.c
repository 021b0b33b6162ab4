/*
 * json.c - JSON (the elements of one array, or one value) and JSON Lines.
 *
 * Listing only finds where elements begin and end, in windows, and keeps nothing in memory, so that
 * files of any size work; elements are checked when they are read (format/codec/json.c).
 */
#include "format_code.h"
#include "format/format.h"
#include "format/json/text.h"
#include "format/sample.h"
#include "base/text.h"

#include <stdio.h>

#define WINDOW    (1u << 20)
#define VALUE_MAX (256ull << 20) /* reading holds a whole value in memory */

extern const struct stk_format stk_format_json, stk_format_jsonl;
extern const struct stk_codec stk_codec_json;

static const char *const json_suffixes[] = {".json", NULL};
static const char *const jsonl_suffixes[] = {".jsonl", ".ndjson", NULL};

static bool is_space(uint8_t c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static size_t bom_length(const uint8_t *p, size_t n)
{
    return n >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
}

/* ---- recognising -------------------------------------------------------------------------- */

/* The first byte that is not a space; 0: none. */
static uint8_t first_byte(const struct stk_probe *p, size_t *at)
{
    *at = bom_length(p->head, p->head_len);
    while (*at < p->head_len && is_space(p->head[*at]))
        ++*at;
    return *at < p->head_len ? p->head[*at] : 0;
}

/* The number of objects at the start of the file, each on its own line: 0 none, 1 one (or the
 * second is not visible), 2 several. */
static int lines_of_objects(const struct stk_probe *p)
{
    size_t at;
    if (first_byte(p, &at) != '{')
        return 0;
    const uint8_t *line = p->head + at, *end = p->head + p->head_len;
    const uint8_t *stop = memchr(line, '\n', (size_t)(end - line));
    if (!stop && !p->whole)
        return 1;
    if (stk_codec_json.bid(line, (size_t)((stop ? stop : end) - line)) == 0)
        return 0;
    while (stop && stop < end && is_space(*stop))
        stop++;
    return !stop || stop == end ? 1 : *stop == '{' ? 2 : 0;
}

static int json_bid(const struct stk_probe *p)
{
    size_t at;
    if (!stk_format_suffix_matches(&stk_format_json, p->name))
        return 0;
    uint8_t c = first_byte(p, &at);
    return c == '[' || c == '{' ? 60 : 30;
}

static int jsonl_bid(const struct stk_probe *p)
{
    if (stk_format_suffix_matches(&stk_format_jsonl, p->name))
        return 60;
    int lines = lines_of_objects(p);
    bool json = stk_format_suffix_matches(&stk_format_json, p->name);
    /* One object is a JSON value as well as a line: other files decide. */
    return lines > 1 ? (json ? 70 : 25) : lines && json ? 20 : 0;
}

/* ---- listing one array or value ------------------------------------------------------------ */

struct scan {
    struct stk_lister *lister;
    int field;
    enum { TOP, FIRST, NEXT, VALUE, AFTER, DONE, BROKEN } state;
    bool array;          /* elements of an array; else the value itself */
    bool string, escape; /* inside a string; after a backslash in it */
    unsigned depth;      /* of brackets open inside the element */
    uint64_t objects;    /* bit d: bracket d is a { */
    uint64_t start, end; /* of the element */
    bool line;           /* a new line has begun after it */
    bool many;           /* consecutive objects without an enclosing array */
};

static int broken(struct scan *s, uint64_t at, const char *what, struct stk_err *err)
{
    s->state = BROKEN;
    return stk_list_problem(s->lister, (int64_t)at, err, "bad JSON: %s", what);
}

static int too_deep(struct scan *s, uint64_t at, struct stk_err *err)
{
    s->state = BROKEN;
    return stk_err_set(err, STK_E_UNSUPPORTED, NULL, (int64_t)at,
                       "a value is nested more than 64 deep, which is not read");
}

/* Leaves out a sound value; the listing continues after it. */
static int leave_out(struct stk_lister *l, uint64_t at, const char *why, struct stk_err *err)
{
    char name[48];
    snprintf(name, sizeof name, "at byte %llu", (unsigned long long)at);
    return stk_list_left_out(l, "value", name, why, err);
}

static int emit(struct scan *s, struct stk_err *err)
{
    if (s->end - s->start > VALUE_MAX)
        return leave_out(s->lister, s->start, "longer than 256 MiB", err);
    return stk_list_record(s->lister, s->field, s->start, s->end - s->start, NULL, 0, err);
}

/* An opening or closing bracket inside a value. */
static int bracket(struct scan *s, uint8_t c, uint64_t at, struct stk_err *err)
{
    bool object = c == '{' || c == '}';
    if (c == '{' || c == '[') {
        if (s->depth == STK_JSON_DEPTH_MAX - 1)
            return too_deep(s, at, err);
        s->objects = (s->objects & ~(1ull << s->depth)) | (uint64_t)object << s->depth;
        s->depth++;
        return 0;
    }
    if (!s->depth || (s->objects >> (s->depth - 1) & 1) != object)
        return broken(s, at, "a bracket closes nothing or another kind", err);
    if (--s->depth == 0) {
        s->end = at + 1;
        s->state = AFTER;
        s->line = false;
    }
    return 0;
}

static int structure(struct scan *s, uint8_t c, uint64_t at, struct stk_err *err);

/* Handles what follows an element. */
static int after_element(struct scan *s, uint8_t c, uint64_t at, struct stk_err *err)
{
    if (s->array && (c == ',' || c == ']')) {
        s->state = c == ',' ? NEXT : DONE;
        return emit(s, err);
    }
    int rc = emit(s, err);
    if (rc < 0)
        return rc;
    /* JSON Lines with this suffix and a long first line, or with objects broken over lines. */
    if (!s->array && s->line && c == '{' && (s->objects & 1)) {
        s->many = true;
        s->state = NEXT;
        return structure(s, c, at, err);
    }
    return broken(s, at,
                  s->array ? "\",\" or \"]\" was expected"
                           : "more text after the value (if it is JSON Lines: --format jsonl)",
                  err);
}

/* Handles a byte outside strings that is not a space (or a space right after a number). */
static int structure(struct scan *s, uint8_t c, uint64_t at, struct stk_err *err)
{
    switch (s->state) {
    case TOP:
        s->array = c == '[';
        if (s->array) {
            s->state = FIRST;
            return 0;
        }
        /* fall through */
    case FIRST:
    case NEXT:
        if (c == ']' && s->state == FIRST) {
            s->state = DONE;
            return 0;
        }
        if (c == ',' || c == ']' || c == '}')
            return broken(s, at, "a value was expected", err);
        s->state = VALUE;
        s->start = at;
        s->end = at + 1;
        break;
    case VALUE:
        break;
    case AFTER:
        return after_element(s, c, at, err);
    default:
        return broken(s, at, "more text after the array", err);
    }
    if (c == '"') {
        s->string = true;
    } else if (c == '{' || c == '[' || (s->depth && (c == '}' || c == ']'))) {
        return bracket(s, c, at, err);
    } else if (!s->depth) {
        if (c == ',' || c == ']' || is_space(c)) { /* a number or word ends */
            s->state = AFTER;
            return is_space(c) ? 0 : after_element(s, c, at, err);
        }
        s->end = at + 1;
    }
    return 0;
}

/* Skips string bytes from i; returns where it stopped. */
static size_t pass_string(struct scan *s, uint64_t base, const uint8_t *p, size_t n, size_t i)
{
    for (; i < n; i++) {
        if (s->escape)
            s->escape = false;
        else if (p[i] == '\\')
            s->escape = true;
        else if (p[i] == '"')
            break;
    }
    if (i == n)
        return n;
    s->string = false;
    if (!s->depth) {
        s->end = base + i + 1;
        s->state = AFTER;
    }
    return i + 1;
}

static int scan_bytes(struct scan *s, uint64_t base, const uint8_t *p, size_t n,
                      struct stk_err *err)
{
    /* Inside an element only these mean something. */
    static const bool matters[256] = {['"'] = 1, ['{'] = 1, ['}'] = 1, ['['] = 1, [']'] = 1};
    int rc = 0;
    for (size_t i = 0; i < n && rc == 0 && s->state != BROKEN;) {
        if (s->string) {
            i = pass_string(s, base, p, n, i);
            continue;
        }
        if (s->depth)
            while (i < n && !matters[p[i]])
                i++;
        else if (s->state != VALUE)
            for (; i < n && is_space(p[i]); i++)
                s->line |= p[i] == '\n';
        if (i < n) {
            rc = structure(s, p[i], base + i, err);
            i++;
        }
    }
    return rc;
}

static int scan_end(struct scan *s, uint64_t size, struct stk_err *err)
{
    if (s->state == VALUE && !s->depth && !s->string)
        s->state = AFTER;
    if (s->state == DONE || s->state == BROKEN)
        return 0;
    if (s->state == TOP)
        return broken(s, size, "the file has no value", err);
    int rc = s->state == AFTER ? emit(s, err) : 0;
    if (rc < 0 || (s->state == AFTER && !s->array))
        return rc;
    return broken(s, size, "the file ends inside it", err);
}

static int list_field(struct stk_lister *l, struct stk_err *err)
{
    struct stk_field_spec spec = {.name = "data", .kind = STK_BYTES, .codec = "json"};
    return stk_list_field(l, &spec, err);
}

/* The text of a file, window by window; all zero before the first. */
struct window {
    const uint8_t *p;
    size_t n;
    uint64_t at; /* offset of p in the file; after the last window: the end */
};

/* Moves to the next window: 1, 0 at the end of the file, or negative. The first one begins after a
 * byte order mark. */
static int next_window(struct stk_src *src, struct window *w, struct stk_err *err)
{
    size_t got = 0, mark = 0;
    w->at += w->n;
    w->n = 0;
    int rc = stk_src_peek(src, w->at, WINDOW, &w->p, &got, err);
    if (rc < 0 || !got)
        return rc < 0 ? rc : 0;
    if (!w->at) {
        if (stk_text_is_utf16(w->p, got))
            return stk_err_set(err, STK_E_UNSUPPORTED, stk_src_path(src), 0, STK_SAY_UTF16);
        mark = bom_length(w->p, got);
    }
    *w = (struct window){w->p + mark, got - mark, w->at + mark};
    return 1;
}

static int json_list(struct stk_lister *l, struct stk_src *src, struct stk_err *err)
{
    struct scan s = {.lister = l, .field = list_field(l, err)};
    struct window w = {0};
    int rc = s.field;
    while (rc >= 0 && (rc = next_window(src, &w, err)) > 0) {
        rc = scan_bytes(&s, w.at, w.p, w.n, err);
        if (rc < 0 || s.state == BROKEN)
            return rc;
    }
    rc = rc < 0 ? rc : scan_end(&s, w.at, err);
    return rc < 0 || !s.many ? rc
                             : stk_list_taken(l, "sample", "each object",
                                              "they follow one another without an array", err);
}

/* ---- listing lines ------------------------------------------------------------------------- */

struct lines {
    struct stk_lister *lister;
    int field;
    uint64_t start;
    bool blank; /* only space on the line so far */
};

static int end_line(struct lines *s, uint64_t end, struct stk_err *err)
{
    uint64_t start = s->start, len = end - start;
    bool blank = s->blank;
    s->start = end + 1;
    s->blank = true;
    if (blank)
        return 0;
    if (len > VALUE_MAX)
        return leave_out(s->lister, start, "longer than 256 MiB", err);
    return stk_list_record(s->lister, s->field, start, len, NULL, 0, err);
}

static int lines_bytes(struct lines *s, uint64_t base, const uint8_t *p, size_t n,
                       struct stk_err *err)
{
    for (size_t i = 0; i < n;) {
        while (s->blank && i < n && p[i] != '\n' && is_space(p[i]))
            i++;
        if (i < n && p[i] != '\n')
            s->blank = false;
        const uint8_t *stop = i < n ? memchr(p + i, '\n', n - i) : NULL;
        if (!stop)
            break;
        i = (size_t)(stop - p) + 1;
        int rc = end_line(s, base + i - 1, err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

static int jsonl_list(struct stk_lister *l, struct stk_src *src, struct stk_err *err)
{
    struct lines s = {.lister = l, .field = list_field(l, err), .blank = true};
    struct window w = {0};
    int rc = s.field < 0 ? s.field : next_window(src, &w, err);
    s.start = w.at;
    for (; rc > 0; rc = next_window(src, &w, err)) {
        int bad = lines_bytes(&s, w.at, w.p, w.n, err);
        if (bad < 0)
            return bad;
    }
    return rc < 0 ? rc : end_line(&s, w.at, err);
}

/* ---- writing ------------------------------------------------------------------------------ */

static int jsonl_encode(const struct stk_write_config *cfg, const struct stk_sample *s,
                        struct stk_buf *out, struct stk_err *err)
{
    (void)cfg;
    int rc = stk_json_implode(s, out, err);
    stk_buf_putc(out, '\n');
    return rc < 0 ? rc : stk_buf_check(out, err);
}

/* Each element is preceded by the separator; append() drops the first. */
#define SEPARATOR ",\n"
#define OPENING   "[\n"

static int json_encode(const struct stk_write_config *cfg, const struct stk_sample *s,
                       struct stk_buf *out, struct stk_err *err)
{
    (void)cfg;
    stk_buf_puts(out, SEPARATOR);
    int rc = stk_json_implode(s, out, err);
    return rc < 0 ? rc : stk_buf_check(out, err);
}

static int json_begin(const struct stk_write_config *cfg, struct stk_out *o, struct stk_err *err)
{
    (void)cfg;
    return stk_out_write(o, OPENING, strlen(OPENING), err);
}

static int json_append(const struct stk_write_config *cfg, struct stk_out *o, const uint8_t *bytes,
                       size_t len, uint64_t nsamples, struct stk_err *err)
{
    (void)cfg;
    (void)nsamples;
    size_t skip = len && stk_out_tell(o) == strlen(OPENING) ? strlen(SEPARATOR) : 0;
    return stk_out_write(o, bytes + skip, len - skip, err);
}

static int json_finish(const struct stk_write_config *cfg, struct stk_out *o, struct stk_err *err)
{
    (void)cfg;
    return stk_out_write(o, "\n]\n", 3, err);
}

/* One value, or a sample. */
static const struct stk_format_use json_use = {
    .how = STK_USE_TABLE | STK_USE_SAMPLE,
    .parse = stk_code_json_parse_py,
};

const struct stk_format stk_format_json = {
    .name = "json",
    .title = "JSON",
    .holds = STK_HOLDS_ANY | STK_HOLDS_NULL | STK_HOLDS_SHAPES | STK_HOLDS_GAPS | STK_HOLDS_KEY,
    .suffix = ".json",
    .suffixes = json_suffixes,
    .caps = STK_CAN_READ | STK_CAN_WRITE | STK_CAN_SHARD | STK_CAN_GZIP | STK_CAN_BE_SAMPLE,
    .bid = json_bid,
    .list = json_list,
    .encode = json_encode,
    .begin = json_begin,
    .append = json_append,
    .finish = json_finish,
    .use = &json_use,
};

static const struct stk_format_use jsonl_use = {.how = STK_USE_TABLE};

const struct stk_format stk_format_jsonl = {
    .name = "jsonl",
    .title = "JSON Lines",
    .holds = STK_HOLDS_ANY | STK_HOLDS_NULL | STK_HOLDS_SHAPES | STK_HOLDS_GAPS | STK_HOLDS_KEY,
    .suffix = ".jsonl",
    .suffixes = jsonl_suffixes,
    .caps = STK_CAN_READ | STK_CAN_WRITE | STK_CAN_SHARD | STK_CAN_GZIP | STK_CAN_EMPTY,
    .bid = jsonl_bid,
    .list = jsonl_list,
    .encode = jsonl_encode,
    .use = &jsonl_use,
};
