/* JSON output: what jansson leaves to its caller. Objects are built with jansson itself.
 *
 *     TRY(json_out_set(object, "path", json_out_text(path, strlen(path)), err));
 *     TRY(json_out_set(object, "bytes", json_out_count(size), err));
 *     TRY(json_out_line(stdout, object, err));
 *
 * Values are made by functions that return NULL when memory is exhausted; json_out_set() and json_out_append() turn
 * that into CKPT_ENOMEM, so that calls can be nested. */
#ifndef BASE_JSON_OUT_H
#define BASE_JSON_OUT_H

#include <ckpt/error.h>
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* A string; each byte that does not belong to valid UTF-8 becomes U+FFFD, since JSON can hold nothing else. */
json_t *json_out_text(const char *bytes, size_t size);

/* A number up to 2^63-1 as an integer, a larger one as the nearest double. */
json_t *json_out_count(uint64_t value);

/* A number that reads back as the same double; null for NaN and infinities, which JSON does not have. */
json_t *json_out_real(double value);

/* Gives `value` to the object or array, which owns it from then on, on failure too. */
int json_out_set(json_t *object, const char *key, json_t *value, ckpt_error *err);
int json_out_append(json_t *array, json_t *value, ckpt_error *err);

/* Writes a value, indented, and a line end: the one value that a command prints. Keys stand in the order in which they
 * were set. Errors: CKPT_ENOMEM, CKPT_EIO and others of a failed write. */
int json_out_value(FILE *out, const json_t *value, ckpt_error *err);

/* Writes a value on one line: one of many. */
int json_out_line(FILE *out, const json_t *value, ckpt_error *err);

#endif
