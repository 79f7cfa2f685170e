#include "json_bounded.h"

#include "fail.h"

#include <string.h>

size_t json_marks(const char *text, size_t size)
{
    size_t marks = 0;
    bool quoted = false;
    for (size_t i = 0; i < size; i++) {
        if (quoted && text[i] == '\\')
            i++;
        else if (text[i] == '"')
            quoted = !quoted;
        else if (!quoted && strchr("{}[]:,", text[i]) && text[i])
            marks++;
    }
    return marks;
}

int json_bounded_load(json_t **out, bool *cut_off, const char *text, size_t size, ckpt_error *err)
{
    int rc = 0;
    json_error_t why;

    *out = NULL;
    if (cut_off)
        *cut_off = false;
    FAIL_IF(json_marks(text, size) > JSON_MARKS_MAX, err, CKPT_EFORMAT, "has too many values");
    /* The library has nothing to say on most failed allocations. One it never tells of: where its buffer for a word of
     * over 15 letters cannot grow, letters are lost. A name in the tables is then wrong, or the file opaque; the bytes
     * of the file come from the file, so that a restore is right all the same. */
    *out = json_loadb(text, size, JSON_REJECT_DUPLICATES, &why);
    if (!*out && (json_error_code(&why) == json_error_out_of_memory || !why.text[0]))
        TRY(error_memory(err));
    if (!*out && cut_off)
        *cut_off = json_error_code(&why) == json_error_premature_end_of_input;
    FAIL_IF(!*out, err, CKPT_EFORMAT, "%s", why.text);
out:
    return rc;
}
