#include "json_out.h"

#include "fail.h"
#include "utf8.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char REPLACEMENT[] = "\xef\xbf\xbd"; /* U+FFFD */

json_t *json_out_text(const char *bytes, size_t size)
{
    const size_t replacement_size = sizeof REPLACEMENT - 1;
    json_t *text = json_stringn(bytes, size);
    if (text || size > SIZE_MAX / replacement_size - 1)
        return text;

    /* Not UTF-8, most likely. */
    char *clean = malloc(size * replacement_size + 1);
    size_t clean_size = 0;
    for (size_t at = 0; clean && at < size;) {
        uint32_t code;
        size_t n = utf8_next(&code, bytes + at, size - at);
        const char *piece = n ? bytes + at : REPLACEMENT;
        size_t piece_size = n ? n : replacement_size;
        memcpy(clean + clean_size, piece, piece_size);
        clean_size += piece_size;
        at += n ? n : 1;
    }
    if (clean)
        text = json_stringn(clean, clean_size);
    free(clean);
    return text;
}

json_t *json_out_count(uint64_t value)
{
    return value <= INT64_MAX ? json_integer((json_int_t)value) : json_real((double)value);
}

json_t *json_out_real(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

int json_out_set(json_t *object, const char *key, json_t *value, ckpt_error *err)
{
    return value && json_object_set_new(object, key, value) == 0 ? 0 : error_memory(err);
}

int json_out_append(json_t *array, json_t *value, ckpt_error *err)
{
    return value && json_array_append_new(array, value) == 0 ? 0 : error_memory(err);
}

/* Into a buffer of the right size: json_dumps() loses pieces where its own buffer cannot grow, and does not tell. */
static int write_value(FILE *out, const json_t *value, size_t flags, ckpt_error *err)
{
    int rc = 0;
    char *text = NULL;

    flags |= JSON_ENCODE_ANY;
    const size_t size = json_dumpb(value, NULL, 0, flags);
    if (size == 0)
        TRY(error_memory(err));
    text = malloc(size);
    FAIL_IF_NULL(text, err);
    if (json_dumpb(value, text, size, flags) != size)
        TRY(error_memory(err));
    if (fwrite(text, 1, size, out) != size || fputc('\n', out) == EOF)
        rc = error_errno(err, errno, "write JSON");
out:
    free(text);
    return rc;
}

int json_out_value(FILE *out, const json_t *value, ckpt_error *err)
{
    return write_value(out, value, JSON_INDENT(2), err);
}

int json_out_line(FILE *out, const json_t *value, ckpt_error *err)
{
    return write_value(out, value, JSON_COMPACT, err);
}
