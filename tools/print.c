#include "print.h"

#include "fail.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

const char *print_id(char out[PRINT_ID_DIGITS + 1], const char *id)
{
    snprintf(out, PRINT_ID_DIGITS + 1, "%.*s", PRINT_ID_DIGITS, id);
    return out;
}

const char *print_shape(char out[PRINT_SHAPE_SIZE], unsigned rank, const uint64_t *shape)
{
    size_t used = 1;
    out[0] = '[';
    for (unsigned i = 0; i < rank && i < CKPT_RANK_MAX; i++)
        used += (size_t)snprintf(out + used, PRINT_SHAPE_SIZE - used, "%s%" PRIu64, i ? "," : "", shape[i]);
    out[used] = ']';
    out[used + 1] = 0;
    return out;
}

const char *print_size(char out[UNITS_TEXT_SIZE], uint64_t bytes)
{
    format_size(out, bytes);
    return out;
}

const char *print_time(char out[UNITS_TEXT_SIZE], int64_t utc_seconds)
{
    format_time(out, utc_seconds);
    return out;
}

const char *print_seconds(char out[UNITS_TEXT_SIZE], double seconds)
{
    if (seconds < 10)
        snprintf(out, UNITS_TEXT_SIZE, "%.2f s", seconds);
    else
        format_duration(out, seconds);
    return out;
}

const char *print_count(char out[UNITS_TEXT_SIZE], uint64_t count, const char *noun)
{
    snprintf(out, UNITS_TEXT_SIZE, "%" PRIu64 " %s%s", count, noun, count == 1 ? "" : "s");
    return out;
}

const char *print_percent(char out[UNITS_TEXT_SIZE], uint64_t part, uint64_t whole)
{
    if (whole)
        snprintf(out, UNITS_TEXT_SIZE, "%.1f %%", 100.0 * (double)part / (double)whole);
    else
        snprintf(out, UNITS_TEXT_SIZE, "-");
    return out;
}

const char *print_sizes(char out[PRINT_SIZES_SIZE], uint64_t raw_bytes, uint64_t stored_bytes)
{
    char raw[UNITS_TEXT_SIZE], stored[UNITS_TEXT_SIZE], share[UNITS_TEXT_SIZE];
    const bool small = stored_bytes > raw_bytes;

    snprintf(out, PRINT_SIZES_SIZE, "%s as %s%s%s%s", print_size(raw, raw_bytes), print_size(stored, stored_bytes),
             small ? "" : " (", small ? "" : print_percent(share, stored_bytes, raw_bytes), small ? "" : ")");
    return out;
}

const char *print_step(char out[UNITS_TEXT_SIZE], int64_t step)
{
    out[0] = 0;
    if (step != CKPT_STEP_NONE)
        snprintf(out, UNITS_TEXT_SIZE, "%" PRId64, step);
    return out;
}

#define SHORT_MAX 20 /* bytes of a value of meta, with which most lines still show it on 80 columns */

/* A long decimal number as one of 6 significant digits; whatever else as it is. Whole numbers lose nothing: they are
 * counts. */
static const char *number_text(char out[PRINT_METRIC_SIZE], const char *text)
{
    char *end;
    const double value = strtod(text, &end);

    if (*end || end == text || !strchr(text, '.') || !isfinite(value))
        return text;
    snprintf(out, PRINT_METRIC_SIZE, "%.6g", value);
    return strlen(out) < strlen(text) ? out : text;
}

/* Appends "key=value" to the text, of which *used bytes are used. */
static void meta_append(char *text, size_t size, size_t *used, const ckpt_value *m, bool brief)
{
    char number[PRINT_METRIC_SIZE];
    *used += (size_t)snprintf(text + *used, size - *used, "%s%s=%s", *used ? " " : "", m->key,
                              brief ? number_text(number, m->value) : m->value);
}

/* Would a value, such as a path, leave the others no room? */
static bool meta_is_long(const ckpt_value *m)
{
    return strlen(m->value) > SHORT_MAX;
}

static bool meta_is_skipped(const ckpt_value *m, const char *skip)
{
    return (skip && strcmp(m->key, skip) == 0) || strcmp(m->key, CKPT_META_LOSSY) == 0;
}

char *print_meta(const ckpt_info *info, bool brief, const char *skip)
{
    size_t size = 1, used = 0;
    for (size_t i = 0; i < info->meta_count; i++)
        size += strlen(info->meta[i].key) + strlen(info->meta[i].value) + 2;
    char *text = malloc(size);
    if (!text)
        return NULL;
    text[0] = 0;
    for (unsigned pass = brief ? 0 : 1; pass < 2; pass++)
        for (size_t i = 0; i < info->meta_count; i++)
            if (!meta_is_skipped(&info->meta[i], skip) && (!brief || meta_is_long(&info->meta[i]) == pass))
                meta_append(text, size, &used, &info->meta[i], brief);
    return text;
}

const char *print_metric(char out[PRINT_METRIC_SIZE], const ckpt_info *info, const char *key)
{
    for (size_t i = 0; i < info->meta_count; i++)
        if (strcmp(info->meta[i].key, key) == 0)
            return number_text(out, info->meta[i].value);
    return "";
}

const char *print_lossy(const ckpt_info *info)
{
    for (size_t i = 0; i < info->meta_count; i++)
        if (strcmp(info->meta[i].key, CKPT_META_LOSSY) == 0)
            return info->meta[i].value;
    return "";
}

char *print_tags(const ckpt_info *info)
{
    size_t size = 1, used = 0;
    for (size_t i = 0; i < info->tag_count; i++)
        size += strlen(info->tags[i]) + 2;
    char *text = malloc(size);
    if (!text)
        return NULL;
    text[0] = 0;
    for (size_t i = 0; i < info->tag_count; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", i ? ", " : "", info->tags[i]);
    return text;
}

json_t *print_json_text(const char *text)
{
    return json_out_text(text, strlen(text));
}

json_t *print_json_shape(unsigned rank, const uint64_t *shape)
{
    json_t *array = json_array();
    for (unsigned i = 0; array && i < rank; i++)
        if (json_out_append(array, json_out_count(shape[i]), NULL)) {
            json_decref(array);
            array = NULL;
        }
    return array;
}

const ckpt_info *print_info_of(size_t *from, const ckpt_list *list, const char *id)
{
    for (size_t i = *from; i < ckpt_list_count(list); i++)
        if (strcmp(ckpt_list_get(list, i)->id, id) == 0) {
            *from = i + 1;
            return ckpt_list_get(list, i);
        }
    return NULL;
}

json_t *print_json_quota(const ckpt_usage *usage)
{
    return usage->quota_bytes ? json_out_count(usage->quota_bytes) : json_null();
}

json_t *print_json_step(int64_t step)
{
    return step == CKPT_STEP_NONE ? json_null() : json_integer(step);
}

int print_json_info(json_t *object, const ckpt_info *info, ckpt_error *err)
{
    int rc = 0;
    json_t *meta = NULL, *tags = NULL;

    TRY(json_out_set(object, "id", print_json_text(info->id), err));
    TRY(json_out_set(object, "sequence", json_out_count(info->sequence), err));
    TRY(json_out_set(object, "step", print_json_step(info->step), err));
    TRY(json_out_set(object, "time", json_integer(info->time), err));
    TRY(json_out_set(object, "files", json_out_count(info->files), err));
    TRY(json_out_set(object, "raw_bytes", json_out_count(info->raw_bytes), err));
    TRY(json_out_set(object, "stored_bytes", json_out_count(info->stored_bytes), err));
    TRY(json_out_set(object, "message", print_json_text(info->message), err));
    meta = json_object();
    TRY(json_out_set(object, "meta", meta, err));
    for (size_t i = 0; i < info->meta_count; i++)
        TRY(json_out_set(meta, info->meta[i].key, print_json_text(info->meta[i].value), err));
    tags = json_array();
    TRY(json_out_set(object, "tags", tags, err));
    for (size_t i = 0; i < info->tag_count; i++)
        TRY(json_out_append(tags, print_json_text(info->tags[i]), err));
out:
    return rc;
}
