#include "net_internal.h"

#include "fail.h"
#include "units.h"
#include "word.h"

#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define BLANKS          " \t\r\n"
#define LAYER_TEXT_SIZE 128

/* What may stand behind the word of a layer. */
typedef struct layer_words {
    const char *word;
    const char *count; /* what the first number counts, or NULL */
    bool window, stride, padding;
    bool stride_is_window; /* unless given; else it is 1 */
} layer_words;

/* A new layer is one row here and its shapes in net.c. */
static const layer_words WORDS[LAYER_KINDS] = {
    [LAYER_CONV] = {"conv", .count = "channels", .window = true, .stride = true, .padding = true},
    [LAYER_RELU] = {"relu"},
    [LAYER_MAXPOOL] = {"maxpool", .window = true, .stride = true, .stride_is_window = true},
    [LAYER_FLATTEN] = {"flatten"},
    [LAYER_DENSE] = {"dense", .count = "features"},
};

const char *layer_kind_name(layer_kind kind)
{
    assert(kind < LAYER_KINDS);
    return WORDS[kind].word;
}

/* The text of one layer, as words. */
typedef struct layer_text {
    char text[LAYER_TEXT_SIZE];
    const char *at;
} layer_text;

/* False when there are no more words. */
static bool word_take(char word[LAYER_TEXT_SIZE], layer_text *t)
{
    t->at += strspn(t->at, BLANKS);
    const size_t length = strcspn(t->at, BLANKS);
    memcpy(word, t->at, length);
    word[length] = 0;
    t->at += length;
    return length > 0;
}

static int number_read(size_t *out, const char *word, unsigned min, const char *what, ckpt_error *err)
{
    uint64_t number;

    if (parse_u64(&number, word, NULL) || number < min || number > NET_DIM_MAX)
        return error_set(err, CKPT_EUSAGE, "%s: `%s` is not a number from %u to %u", what, word, min, NET_DIM_MAX);
    *out = (size_t)number;
    return 0;
}

static int number_take(size_t *out, layer_text *t, unsigned min, const char *what, ckpt_error *err)
{
    char word[LAYER_TEXT_SIZE];

    if (!word_take(word, t))
        return error_set(err, CKPT_EUSAGE, "%s: the number is missing", what);
    return number_read(out, word, min, what, err);
}

/* "3x3" or "3". */
static int window_take(layer *l, layer_text *t, ckpt_error *err)
{
    int rc = 0;
    char word[LAYER_TEXT_SIZE];

    FAIL_IF(!word_take(word, t), err, CKPT_EUSAGE, "window: the size is missing, `3x3` or `3`");
    char *const cross = strchr(word, 'x');
    if (cross)
        *cross = 0;
    TRY(number_read(&l->kernel_height, word, 1, cross ? "height of the window" : "window", err));
    l->kernel_width = l->kernel_height;
    if (cross)
        TRY(number_read(&l->kernel_width, cross + 1, 1, "width of the window", err));
out:
    return rc;
}

static int fail_unknown(const char *word, const char *const *known, const char *what, ckpt_error *err)
{
    const char *const nearest = word_nearest(word, known);

    error_set(err, CKPT_EUSAGE, "unknown %s `%s`", what, word);
    if (nearest)
        error_hint(err, "did you mean `%s`?", nearest);
    return CKPT_EUSAGE;
}

static int kind_take(layer_kind *out, layer_text *t, ckpt_error *err)
{
    char word[LAYER_TEXT_SIZE];
    const char *known[LAYER_KINDS + 1] = {0};

    if (!word_take(word, t))
        return error_set(err, CKPT_EUSAGE, "the name of a layer is missing");
    for (layer_kind kind = 0; kind < LAYER_KINDS; kind++) {
        if (strcmp(word, WORDS[kind].word) == 0) {
            *out = kind;
            return 0;
        }
        known[kind] = WORDS[kind].word;
    }
    return fail_unknown(word, known, "layer", err);
}

/* `stride` and `pad`, in any order, each at most once. */
static int options_take(layer *l, layer_text *t, ckpt_error *err)
{
    int rc = 0;
    const layer_words *const words = &WORDS[l->kind];
    const char *known[] = {words->stride ? "stride" : NULL, words->padding ? "pad" : NULL, NULL};
    bool has_stride = false, has_padding = false;

    for (char word[LAYER_TEXT_SIZE]; word_take(word, t);) {
        const bool is_stride = words->stride && strcmp(word, "stride") == 0;
        const bool is_padding = words->padding && strcmp(word, "pad") == 0;
        if (!is_stride && !is_padding) {
            rc = fail_unknown(word, known, "word", err);
            goto out;
        }
        FAIL_IF(is_stride ? has_stride : has_padding, err, CKPT_EUSAGE, "`%s` is given twice", word);
        TRY(number_take(is_stride ? &l->stride : &l->padding, t, is_stride ? 1 : 0, word, err));
        has_stride |= is_stride;
        has_padding |= is_padding;
    }
    if (words->window && !has_stride) {
        FAIL_IF(words->stride_is_window && l->kernel_height != l->kernel_width, err, CKPT_EUSAGE,
                "a window that is not square needs a stride");
        l->stride = words->stride_is_window ? l->kernel_height : 1;
    }
out:
    return rc;
}

static int layer_read(layer *out, layer_text *t, ckpt_error *err)
{
    int rc = 0;

    *out = (layer){0};
    TRY(kind_take(&out->kind, t, err));
    if (WORDS[out->kind].count)
        TRY(number_take(&out->out.channels, t, 1, WORDS[out->kind].count, err));
    if (WORDS[out->kind].window)
        TRY(window_take(out, t, err));
    TRY(options_take(out, t, err));
out:
    return rc;
}

/* Copies what stands before the next comma, without blanks around it, and moves behind it. */
static int layer_text_take(layer_text *out, const char **at, ckpt_error *err)
{
    const char *begin = *at + strspn(*at, BLANKS), *end = *at + strcspn(*at, ",");

    *at = *end ? end + 1 : end;
    while (end > begin && strchr(BLANKS, end[-1]))
        end--;
    const size_t length = end > begin ? (size_t)(end - begin) : 0, room = sizeof out->text - 1;
    snprintf(out->text, sizeof out->text, "%.*s", (int)(length < room ? length : room), begin);
    out->at = out->text;
    if (length > room)
        return error_set(err, CKPT_EUSAGE, "a layer has at most %zu bytes", room);
    return 0;
}

static size_t layers_count(const char *text)
{
    size_t count = 1;

    for (; *text; text++)
        count += *text == ',';
    return count;
}

int net_parse(net **out, const char *layers, dims input, size_t classes, ckpt_error *err)
{
    int rc = 0;
    net *n = NULL;
    layer_text text = {0};
    const size_t count = layers_count(layers);

    FAIL_IF(layers[strspn(layers, BLANKS)] == 0, err, CKPT_EUSAGE, "a network needs at least one layer");
    FAIL_IF(count > NET_LAYERS_MAX, err, CKPT_EUSAGE, "%zu layers are more than %d", count, NET_LAYERS_MAX);
    TRY(net_new(&n, input, count, err));
    for (size_t i = 0; i < count; i++) {
        layer asked;
        rc = layer_text_take(&text, &layers, err);
        if (!rc)
            rc = layer_read(&asked, &text, err);
        if (!rc)
            rc = net_add(n, &asked, err);
        if (rc) {
            error_prefix(err, "layer %zu, `%s`", i + 1, text.text);
            goto out;
        }
    }
    TRY(net_finish(n, classes, err));
    *out = n;
    n = NULL;
out:
    net_free(n);
    return rc;
}
