#include "snapshot.h"

#include "array.h"
#include "fail.h"
#include "text.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SNAPSHOT_VERSION      1
#define SNAPSHOT_SEQUENCE_MAX 99999999u /* 8 digits in the file's name */
#define SNAPSHOT_NAME_FORMAT  "%08" PRIu64 "-%s.json"
#define SNAPSHOT_NAME_SIZE    (8 + 1 + 64 + 5 + 1)
#define SNAPSHOT_STEM         9 /* digits and the dash */
/* Message and meta as they stand in the JSON, where a quote or newline takes two bytes; what is left of
 * SNAPSHOT_BYTES_MAX holds the 64 pairs' punctuation and all other members at their longest. */
#define SNAPSHOT_TEXT_MAX 3072

/* ---- Message and meta ------------------------------------------------------------------------------------------- */

static bool key_is_valid(const char *key)
{
    static const char LETTERS[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
    const size_t length = strlen(key);

    return length > 0 && strspn(key, LETTERS) == length;
}

/* Bytes of a clean string inside JSON quotes. */
static size_t json_length(const char *text)
{
    size_t length = 0;

    for (; *text; text++)
        length += strchr("\"\\\n\t", *text) ? 2 : 1;
    return length;
}

static int value_compare(const void *a, const void *b)
{
    return strcmp(((const ckpt_value *)a)->key, ((const ckpt_value *)b)->key);
}

/* Checks what snapshot_set_meta promises and returns the bytes of keys and values with their final zeros. */
static int meta_check(size_t *bytes, const char *message, const ckpt_value *meta, size_t count, ckpt_error *err)
{
    int rc = 0;
    size_t plain = strlen(message), json = json_length(message);

    FAIL_IF(count > CKPT_META_PAIRS_MAX, err, CKPT_EUSAGE, "%zu meta pairs; at most %d fit", count,
            CKPT_META_PAIRS_MAX);
    FAIL_IF(!text_is_clean(message, true), err, CKPT_EUSAGE, "the message is not UTF-8 or holds control characters");
    *bytes = 0;
    for (size_t i = 0; i < count; i++) {
        const size_t key_length = strlen(meta[i].key), value_length = strlen(meta[i].value);
        FAIL_IF(!key_is_valid(meta[i].key), err, CKPT_EUSAGE,
                "a meta key is made of letters, digits, `_`, `.` and `-` only");
        FAIL_IF(!text_is_clean(meta[i].value, true), err, CKPT_EUSAGE,
                "the value of meta %.64s is not UTF-8 or holds control characters", meta[i].key);
        plain += key_length + value_length;
        json += key_length + json_length(meta[i].value);
        *bytes += key_length + value_length + 2;
    }
    FAIL_IF(plain > CKPT_META_BYTES_MAX, err, CKPT_EUSAGE, "message and meta take %zu bytes; at most %d fit", plain,
            CKPT_META_BYTES_MAX);
    FAIL_IF(json > SNAPSHOT_TEXT_MAX, err, CKPT_EUSAGE,
            "message and meta take %zu bytes with their quotes and line ends escaped; at most %d fit", json,
            SNAPSHOT_TEXT_MAX);
out:
    return rc;
}

/* Copies the pairs into one block, the strings behind the array. */
static int meta_copy(ckpt_value **out, const ckpt_value *meta, size_t count, size_t bytes, ckpt_error *err)
{
    int rc = 0;
    char *end;

    *out = NULL;
    if (count == 0)
        return 0;
    *out = malloc(count * sizeof **out + bytes);
    FAIL_IF_NULL(*out, err);
    end = (char *)(*out + count);
    for (size_t i = 0; i < count; i++) {
        (*out)[i].key = end;
        end = stpcpy(end, meta[i].key) + 1;
        (*out)[i].value = end;
        end = stpcpy(end, meta[i].value) + 1;
    }
    qsort(*out, count, sizeof **out, value_compare);
out:
    return rc;
}

int snapshot_set_meta(snapshot *s, const char *message, const ckpt_value *meta, size_t meta_count, ckpt_error *err)
{
    int rc = 0;
    size_t bytes = 0;
    char *message_copy = NULL;
    ckpt_value *meta_sorted = NULL;

    message = message ? message : "";
    TRY(meta_check(&bytes, message, meta, meta_count, err));
    message_copy = strdup(message);
    FAIL_IF_NULL(message_copy, err);
    TRY(meta_copy(&meta_sorted, meta, meta_count, bytes, err));
    for (size_t i = 1; i < meta_count; i++)
        FAIL_IF(strcmp(meta_sorted[i - 1].key, meta_sorted[i].key) == 0, err, CKPT_EUSAGE, "meta %.64s is given twice",
                meta_sorted[i].key);

    free(s->message);
    free(s->meta);
    s->message = message_copy;
    s->meta = meta_sorted;
    s->meta_count = meta_count;
    message_copy = NULL;
    meta_sorted = NULL;
out:
    free(message_copy);
    free(meta_sorted);
    return rc;
}

void snapshot_clear(snapshot *s)
{
    free(s->message);
    free(s->meta);
    *s = (snapshot){0};
}

/* ---- Writing ---------------------------------------------------------------------------------------------------- */

/* Adds a number that JSON readers hold exactly as a signed one. */
static int put_count(json_t *object, const char *key, uint64_t value, uint64_t max, ckpt_error *err)
{
    if (value > max)
        return error_set(err, CKPT_EUSAGE, "%s %" PRIu64 " is too large for a snapshot", key, value);
    return json_object_set_new(object, key, json_integer((json_int_t)value)) ? error_memory(err) : 0;
}

static int put_new(json_t *object, const char *key, json_t *value, ckpt_error *err)
{
    return json_object_set_new(object, key, value) ? error_memory(err) : 0;
}

static int put_hash(json_t *object, const char *key, const sha256 *hash, ckpt_error *err)
{
    char hex[SHA256_HEX_SIZE];

    sha256_hex(hex, hash);
    return put_new(object, key, json_string(hex), err);
}

static int content_make(json_t **out, const snapshot *s, ckpt_error *err)
{
    int rc = 0;
    json_t *content = json_object(), *meta = json_object();

    FAIL_IF_NULL(content, err);
    FAIL_IF_NULL(meta, err);
    for (size_t i = 0; i < s->meta_count; i++)
        TRY(put_new(meta, s->meta[i].key, json_string(s->meta[i].value), err));
    TRY(put_count(content, "files", s->files, INT64_MAX, err));
    TRY(put_new(content, "message", json_string(s->message ? s->message : ""), err));
    TRY(put_new(content, "meta", json_incref(meta), err));
    TRY(put_count(content, "raw_bytes", s->raw_bytes, INT64_MAX, err));
    TRY(put_count(content, "sequence", s->sequence, SNAPSHOT_SEQUENCE_MAX, err));
    TRY(put_new(content, "step", s->step == CKPT_STEP_NONE ? json_null() : json_integer(s->step), err));
    TRY(put_new(content, "time", json_integer(s->time), err));
    TRY(put_hash(content, "tree", &s->tree, err));
    *out = json_incref(content);
out:
    json_decref(meta);
    json_decref(content);
    return rc;
}

/* Writes canonical JSON into a buffer of its largest size: json_dumps() loses pieces where its own buffer cannot grow,
 * and does not tell. */
static int json_write(size_t *size, char text[SNAPSHOT_BYTES_MAX], const json_t *value, ckpt_error *err)
{
    int rc = 0;

    *size = json_dumpb(value, text, SNAPSHOT_BYTES_MAX, JSON_COMPACT | JSON_SORT_KEYS);
    if (*size == 0)
        rc = error_memory(err);
    else if (*size > SNAPSHOT_BYTES_MAX)
        rc = error_set(err, CKPT_EUSAGE, "the snapshot would take more than %d bytes", SNAPSHOT_BYTES_MAX);
    return rc;
}

/* id := SHA-256 of the content as canonical JSON. Members that this version does not know take part. */
static int content_id(sha256 *id, const json_t *content, ckpt_error *err)
{
    int rc = 0;
    char canonical[SNAPSHOT_BYTES_MAX];
    size_t size;

    TRY(json_write(&size, canonical, content, err));
    sha256_of(id, canonical, size);
out:
    return rc;
}

int snapshot_encode(char **text, size_t *size, snapshot *s, ckpt_error *err)
{
    int rc = 0;
    json_t *root = json_object(), *content = NULL, *data = json_object();
    char *dump = malloc(SNAPSHOT_BYTES_MAX + 1);

    *text = NULL;
    FAIL_IF_NULL(root, err);
    FAIL_IF_NULL(data, err);
    FAIL_IF_NULL(dump, err);
    FAIL_IF(s->step < CKPT_STEP_NONE, err, CKPT_EUSAGE, "a step is not negative");
    TRY(content_make(&content, s, err));
    TRY(content_id(&s->id, content, err));
    TRY(put_hash(data, "pack", &s->pack, err));
    TRY(put_count(data, "stored_bytes", s->stored_bytes, INT64_MAX, err));
    TRY(put_count(root, "ckpt", SNAPSHOT_VERSION, SNAPSHOT_VERSION, err));
    TRY(put_new(root, "content", json_incref(content), err));
    TRY(put_new(root, "data", json_incref(data), err));
    TRY(json_write(size, dump, root, err));
    dump[*size] = 0;
    *text = dump;
    dump = NULL;
out:
    free(dump);
    json_decref(data);
    json_decref(content);
    json_decref(root);
    return rc;
}

/* ---- Reading ---------------------------------------------------------------------------------------------------- */

static int get_integer(int64_t *out, const json_t *object, const char *key, int64_t min, int64_t max, ckpt_error *err)
{
    const json_t *value = json_object_get(object, key);

    if (!json_is_integer(value) || json_integer_value(value) < min || json_integer_value(value) > max)
        return error_set(err, CKPT_EDATA, "\"%s\" is missing or out of range", key);
    *out = json_integer_value(value);
    return 0;
}

static int get_count(uint64_t *out, const json_t *object, const char *key, int64_t max, ckpt_error *err)
{
    int64_t value = 0;
    const int rc = get_integer(&value, object, key, 0, max, err);

    *out = (uint64_t)value;
    return rc;
}

static int get_hash(sha256 *out, const json_t *object, const char *key, ckpt_error *err)
{
    const char *hex = json_string_value(json_object_get(object, key));

    if (!hex || sha256_parse(out, hex, NULL))
        return error_set(err, CKPT_EDATA, "\"%s\" is not a SHA-256", key);
    return 0;
}

static int get_object(json_t **out, const json_t *object, const char *key, ckpt_error *err)
{
    *out = json_object_get(object, key);
    return json_is_object(*out) ? 0 : error_set(err, CKPT_EDATA, "\"%s\" is missing", key);
}

static int get_meta(snapshot *s, const json_t *content, ckpt_error *err)
{
    int rc = 0;
    json_t *object, *value;
    const char *key, *message = json_string_value(json_object_get(content, "message"));
    ckpt_value pairs[CKPT_META_PAIRS_MAX];
    size_t count = 0;

    FAIL_IF(!message, err, CKPT_EDATA, "\"message\" is missing");
    TRY(get_object(&object, content, "meta", err));
    FAIL_IF(json_object_size(object) > CKPT_META_PAIRS_MAX, err, CKPT_EDATA, "too many meta pairs");
    json_object_foreach(object, key, value)
    {
        FAIL_IF(!json_is_string(value), err, CKPT_EDATA, "a meta value is not a string");
        pairs[count++] = (ckpt_value){key, json_string_value(value)};
    }
    TRY(snapshot_set_meta(s, message, pairs, count, err));
out:
    return rc;
}

/* Fractions have no one spelling, so that content with one has no id. The text bounds how deep this goes. */
static bool has_fraction(json_t *value)
{
    size_t i;
    const char *key;
    json_t *member;

    if (json_is_object(value)) {
        json_object_foreach(value, key, member)
        {
            if (has_fraction(member))
                return true;
        }
    } else if (json_is_array(value)) {
        json_array_foreach(value, i, member)
        {
            if (has_fraction(member))
                return true;
        }
    }
    return json_is_real(value);
}

static int content_read(snapshot *s, const json_t *content, ckpt_error *err)
{
    int rc = 0;

    TRY(get_count(&s->files, content, "files", INT64_MAX, err));
    TRY(get_count(&s->raw_bytes, content, "raw_bytes", INT64_MAX, err));
    TRY(get_count(&s->sequence, content, "sequence", SNAPSHOT_SEQUENCE_MAX, err));
    TRY(get_integer(&s->time, content, "time", INT64_MIN, INT64_MAX, err));
    s->step = CKPT_STEP_NONE;
    if (!json_is_null(json_object_get(content, "step")))
        TRY(get_integer(&s->step, content, "step", 0, INT64_MAX, err));
    TRY(get_hash(&s->tree, content, "tree", err));
    TRY(get_meta(s, content, err));
    TRY(content_id(&s->id, content, err));
out:
    return error_as_damage(rc, err); /* what a caller may not ask for, a file may not hold */
}

int snapshot_decode(snapshot *s, const char *text, size_t size, ckpt_error *err)
{
    int rc = 0;
    json_t *root = NULL, *content, *data;
    json_error_t why = {0};
    int64_t version = 0;

    *s = (snapshot){0};
    FAIL_IF(size > SNAPSHOT_BYTES_MAX, err, CKPT_EDATA, "snapshot of %zu bytes; at most %d are legal", size,
            SNAPSHOT_BYTES_MAX);
    errno = 0;
    root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &why);
    /* jansson has no code for most failed allocations, and takes some for a fault in the text; malloc tells. */
    if (!root && (errno == ENOMEM || json_error_code(&why) == json_error_out_of_memory ||
                  json_error_code(&why) == json_error_unknown)) {
        rc = error_memory(err);
        goto out;
    }
    FAIL_IF(!root, err, CKPT_EDATA, "not JSON from byte %d on", why.position);
    TRY(get_integer(&version, root, "ckpt", 1, INT64_MAX, err));
    FAIL_IF(version > SNAPSHOT_VERSION, err, CKPT_EVERSION, "snapshot of format %" PRId64 ", this program reads %d",
            version, SNAPSHOT_VERSION);
    TRY(get_object(&content, root, "content", err));
    TRY(get_object(&data, root, "data", err));
    FAIL_IF(has_fraction(content), err, CKPT_EDATA, "\"content\" holds a number with a fraction or an exponent");
    TRY(content_read(s, content, err));
    TRY(get_hash(&s->pack, data, "pack", err));
    TRY(get_count(&s->stored_bytes, data, "stored_bytes", INT64_MAX, err));
out:
    json_decref(root);
    if (rc)
        snapshot_clear(s);
    return rc;
}

int snapshot_repoint(char **out, size_t *out_size, const char *text, size_t size, const sha256 *pack_name,
                     uint64_t pack_bytes, ckpt_error *err)
{
    int rc = 0;
    json_t *const root = json_loadb(text, size, 0, NULL), *data = json_object_get(root, "data");
    char *const dump = malloc(SNAPSHOT_BYTES_MAX + 1);

    *out = NULL;
    FAIL_IF_NULL(root && dump, err); /* it was decoded before */
    TRY(put_hash(data, "pack", pack_name, err));
    TRY(put_count(data, "stored_bytes", pack_bytes + size, INT64_MAX, err));
    TRY(json_write(out_size, dump, root, err));
    dump[*out_size] = 0;
    *out = dump;
out:
    if (rc)
        free(dump);
    json_decref(root);
    return rc;
}

/* ---- Files ------------------------------------------------------------------------------------------------------ */

typedef struct name_listing {
    snapshot_name *names;
    size_t count, capacity;
} name_listing;

/* Is this the name of a snapshot file? */
static bool name_parse(snapshot_name *out, const char *file)
{
    char hex[SHA256_HEX_SIZE];

    if (strlen(file) != SNAPSHOT_NAME_SIZE - 1 || strspn(file, "0123456789") != SNAPSHOT_STEM - 1 ||
        file[SNAPSHOT_STEM - 1] != '-' || strcmp(file + SNAPSHOT_STEM + SHA256_HEX_SIZE - 1, ".json") != 0)
        return false;
    memcpy(hex, file + SNAPSHOT_STEM, sizeof hex - 1);
    hex[sizeof hex - 1] = 0;
    out->sequence = strtoull(file, NULL, 10);
    return sha256_parse(&out->id, hex, NULL) == 0;
}

static int name_add(void *payload, const char *file, ckpt_error *err)
{
    int rc = 0;
    name_listing *const list = payload;
    snapshot_name name;

    if (!name_parse(&name, file))
        return 0;
    FAIL_IF(list->count == SNAPSHOT_COUNT_MAX, err, CKPT_EDATA, "more than %d snapshots", SNAPSHOT_COUNT_MAX);
    snapshot_name *const grown = array_room(list->names, &list->capacity, list->count + 1, sizeof *grown);
    FAIL_IF_NULL(grown, err);
    list->names = grown;
    list->names[list->count++] = name;
out:
    return rc;
}

static int name_compare_newest_first(const void *a, const void *b)
{
    const snapshot_name *const x = a, *const y = b;

    if (x->sequence != y->sequence)
        return x->sequence < y->sequence ? 1 : -1;
    return sha256_compare(&y->id, &x->id);
}

int snapshot_names(snapshot_name **out, size_t *count, const char *snapshots_dir, ckpt_error *err)
{
    int rc = 0;
    name_listing list = {0};

    *out = NULL;
    *count = 0;
    TRY(dir_each(snapshots_dir, name_add, &list, err));
    if (list.count > 1)
        qsort(list.names, list.count, sizeof *list.names, name_compare_newest_first);
    *out = list.names;
    *count = list.count;
    list.names = NULL;
out:
    free(list.names);
    return rc;
}

typedef struct newest_listing {
    bool any;
    char file[SNAPSHOT_NAME_SIZE]; /* names in the order of their bytes are in the order of sequence and id */
    snapshot_name name;
} newest_listing;

static int newest_visit(void *payload, const char *file, ckpt_error *err)
{
    newest_listing *const list = payload;
    snapshot_name name;

    (void)err;
    if ((!list->any || strcmp(file, list->file) > 0) && name_parse(&name, file)) {
        memcpy(list->file, file, sizeof list->file);
        list->name = name;
        list->any = true;
    }
    return 0;
}

int snapshot_newest(bool *any, snapshot_name *out, const char *snapshots_dir, ckpt_error *err)
{
    int rc = 0;
    newest_listing list = {0};

    TRY(dir_each(snapshots_dir, newest_visit, &list, err));
    *any = list.any;
    *out = list.name;
out:
    return rc;
}

int snapshot_path(char out[FILE_PATH_MAX], const char *snapshots_dir, const snapshot_name *name, ckpt_error *err)
{
    char hex[SHA256_HEX_SIZE], file[SNAPSHOT_NAME_SIZE];

    if (name->sequence > SNAPSHOT_SEQUENCE_MAX)
        return error_set(err, CKPT_EUSAGE, "a store holds sequence numbers up to %u", SNAPSHOT_SEQUENCE_MAX);
    sha256_hex(hex, &name->id);
    snprintf(file, sizeof file, SNAPSHOT_NAME_FORMAT, name->sequence, hex);
    return path_join(out, snapshots_dir, file, err);
}

int snapshot_read(snapshot *s, const char *snapshots_dir, const snapshot_name *name, ckpt_error *err)
{
    int rc = 0;
    char path[FILE_PATH_MAX];
    char *text = NULL;
    size_t size;

    *s = (snapshot){0};
    TRY(snapshot_path(path, snapshots_dir, name, err));
    TRY(error_as_damage(file_read_all(&text, &size, path, SNAPSHOT_BYTES_MAX, err), err));
    rc = snapshot_decode(s, text, size, err);
    if (rc)
        error_prefix(err, "snapshot %08" PRIu64, name->sequence);
    TRY(rc);
    FAIL_IF(s->sequence != name->sequence || sha256_compare(&s->id, &name->id) != 0, err, CKPT_EDATA,
            "snapshot %08" PRIu64 " does not hold what its name says", name->sequence);
out:
    free(text);
    if (rc)
        snapshot_clear(s);
    return rc;
}

int snapshot_move(bool *moved, const char *snapshots_dir, const char *tmp_dir, const snapshot_name *id,
                  const sha256 *from, const sha256 *to, uint64_t pack_bytes, ckpt_error *err)
{
    int rc = 0;
    char path[FILE_PATH_MAX], *text = NULL, *pointed = NULL;
    size_t size = 0;
    snapshot now = {0};

    *moved = false;
    rc = snapshot_read(&now, snapshots_dir, id, err);
    if (rc == CKPT_ENOTFOUND) {
        rc = error_clear(err);
        goto out;
    }
    TRY(rc);
    FAIL_IF(sha256_compare(&now.pack, from) != 0, err, CKPT_EBUSY, "another program has moved a checkpoint");
    TRY(snapshot_path(path, snapshots_dir, id, err));
    TRY(file_read_all(&text, &size, path, SNAPSHOT_BYTES_MAX, err));
    TRY(snapshot_repoint(&pointed, &size, text, size, to, pack_bytes, err));
    TRY(file_replace(path, tmp_dir, pointed, size, err));
    *moved = true;
out:
    snapshot_clear(&now);
    free(pointed);
    free(text);
    return rc;
}

/* Is there a snapshot of this sequence number? Names stand newest first. */
static bool sequence_is_taken(uint64_t sequence, const snapshot_name *names, size_t count)
{
    for (size_t i = 0; i < count && names[i].sequence >= sequence; i++)
        if (names[i].sequence == sequence)
            return true;
    return false;
}

int snapshot_next_sequence(uint64_t *out, const snapshot_name *names, size_t count, const char *snapshots_dir,
                           ckpt_error *err)
{
    int rc = 0;
    ckpt_error why;

    *out = 1;
    for (size_t i = 0; i < count; i++) {
        snapshot s = {0};
        const bool readable = snapshot_read(&s, snapshots_dir, &names[i], &why) == 0;
        snapshot_clear(&s);
        if (readable) {
            *out = names[i].sequence + 1;
            break;
        }
        TRY(error_pass_own(err, &why));
    }
    while (sequence_is_taken(*out, names, count))
        ++*out;
out:
    return rc;
}
