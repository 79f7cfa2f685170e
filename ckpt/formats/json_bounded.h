/* JSON from outside, with a limit on the memory that its values take. */
#ifndef CKPT_JSON_BOUNDED_H
#define CKPT_JSON_BOUNDED_H

#include <ckpt/error.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* Braces, brackets, colons and commas of a text; what bounds the memory of the JSON library.
 * Enough for over 70,000 tensors. */
#define JSON_MARKS_MAX (1u << 20)

/* Structural marks outside of texts. */
size_t json_marks(const char *text, size_t size);

/* Parses a text in which no key stands twice. CKPT_EFORMAT says what is wrong, and *cut_off (may be NULL) whether the
 * text only ends too early; CKPT_ENOMEM. */
int json_bounded_load(json_t **out, bool *cut_off, const char *text, size_t size, ckpt_error *err);

#endif
