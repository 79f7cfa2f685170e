/* Tensors from memory, saved as a file that exists only as its parts. */
#include "save_internal.h"

#include "checked.h"
#include "fail.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* A component of a path under which a file can be restored anywhere. */
static bool is_component(const char *name, size_t length)
{
    static const char *const WORDS[] = {".", "..", ".ckpt"};

    for (size_t i = 0; i < length; i++)
        if ((unsigned char)name[i] < 0x20 || name[i] == 0x7f)
            return false;
    for (size_t i = 0; i < sizeof WORDS / sizeof WORDS[0]; i++)
        if (strlen(WORDS[i]) == length && memcmp(name, WORDS[i], length) == 0)
            return false;
    return length > 0 && length <= NAME_MAX;
}

/* A name, which folders may stand in front of. */
static bool is_file_name(const char *name)
{
    size_t length;

    if (strlen(name) >= FILE_PATH_MAX)
        return false;
    for (; is_component(name, length = strcspn(name, "/")); name += length + 1)
        if (name[length] == 0)
            return true;
    return false;
}

int save_request_check(const char *file_name, const ckpt_save_options *options, ckpt_error *err)
{
    return is_file_name(file_name) ? save_options_check(options, err)
                                   : error_set(err, CKPT_EUSAGE, "'%.200s' is not a name for a file", file_name);
}

/* A safetensors file that exists as its parts: the header, then each tensor where the caller keeps it. */
typedef struct parts_source {
    byte_source source; /* first, so that it can be cast back */
    char *header;
    size_t header_size;
    const ckpt_tensor *tensors;
    uint64_t *starts; /* of tensor i in the file; starts[count] is the file's size */
    size_t count;
} parts_source;

/* The last tensor that starts at or before an offset; 0 in the header. */
static size_t parts_tensor(const parts_source *parts, uint64_t offset)
{
    size_t i = 0, high = parts->count;

    while (high - i > 1) {
        const size_t middle = i + (high - i) / 2;
        if (parts->starts[middle] <= offset)
            i = middle;
        else
            high = middle;
    }
    return i;
}

static int parts_read(const byte_source *source, void *dst, uint64_t offset, size_t size, ckpt_error *err)
{
    const parts_source *const parts = (const parts_source *)source;
    unsigned char *to = dst;

    (void)err;
    for (size_t i = parts_tensor(parts, offset); size > 0;) {
        const bool in_header = offset < parts->header_size;
        const uint64_t end = in_header ? parts->header_size : parts->starts[i + 1];
        const size_t n = end - offset < size ? (size_t)(end - offset) : size;
        const uint64_t start = in_header ? 0 : parts->starts[i];
        const char *const from = in_header ? parts->header : parts->tensors[i].data;
        if (n > 0) /* a tensor without bytes may be without data */
            memcpy(to, from + (offset - start), n);
        to += n;
        offset += n;
        size -= n;
        if (!in_header && size > 0)
            i++;
    }
    return 0;
}

static const void *parts_view(const byte_source *source, uint64_t offset, size_t size)
{
    const parts_source *const parts = (const parts_source *)source;
    const size_t i = parts_tensor(parts, offset);

    if (offset < parts->header_size || !checked_range(offset, size, parts->starts[i + 1]))
        return NULL;
    return (const char *)parts->tensors[i].data + (offset - parts->starts[i]);
}

static int parts_make(parts_source *parts, const char *file_name, const ckpt_value *values, size_t value_count,
                      ckpt_error *err)
{
    int rc = 0;

    TRY(safetensors_header(&parts->header, &parts->header_size, parts->tensors, parts->count, values, value_count,
                           err));
    parts->starts = calloc(parts->count + 1, sizeof *parts->starts);
    FAIL_IF_NULL(parts->starts, err);
    parts->starts[0] = parts->header_size;
    for (size_t i = 0; i < parts->count; i++)
        parts->starts[i + 1] = parts->starts[i] + tensor_bytes(&parts->tensors[i]);
    parts->source = (byte_source){
        .size = parts->starts[parts->count], .read = parts_read, .view = parts_view, .path = file_name, .fd = -1};
out:
    return rc;
}

static void parts_clear(parts_source *parts)
{
    free(parts->header);
    free(parts->starts);
}

/* ---- What the next save may use --------------------------------------------------------------------------------- */

/* The row of the frame that an extent of the checkpoint lies in; NULL when its pack cannot be had any more. */
static const pack_frame *extent_frame(const saver *s, const pack_extent *e)
{
    pack *p = NULL;

    if (e->pack == 0)
        return &s->writer.index.frames[e->frame];
    return pack_set_get(&p, s->store->packs, &s->tables.packs[e->pack - 1], NULL) ? NULL : &p->index.frames[e->frame];
}

/* The tensors that are frames of their own. Small ones share frames and are decoded for next to nothing. */
static int frames_keep(kept_frames *kept, const saver *s, const parts_source *parts, ckpt_error *err)
{
    int rc = 0;
    uint64_t offset = 0, at = 0;

    for (uint32_t i = 0; i < s->tables.extent_count; i++) {
        const pack_extent *const e = &s->tables.extents[i];
        const pack_frame *const frame = extent_frame(s, e);
        at = offset;
        const bool there = !s->above.below || transform_origin(&at, &s->above, offset);
        if (frame && frame->kind == FRAME_TENSOR && frame->size == e->size && there && at >= parts->header_size) {
            const size_t tensor = parts_tensor(parts, at);
            const unsigned char *const data = parts->tensors[tensor].data;
            TRY(kept_add(kept, &frame->hash, data + (at - parts->starts[tensor]), e->size, err));
        }
        offset += e->size;
    }
    kept_sort(kept);
out:
    return rc;
}

/* After a save that went well. Where there is no memory for the list the next save does without. */
static void carry_fill(save_carry *carry, saver *s, const parts_source *parts)
{
    kept_clear(&carry->kept);
    if (frames_keep(&carry->kept, s, parts, NULL))
        kept_clear(&carry->kept);
    carry->scratch = s->scratch;
    s->scratch = (save_scratch){0};
}

void save_carry_clear(save_carry *carry)
{
    kept_clear(&carry->kept);
    save_scratch_clear(&carry->scratch);
}

/* ---- Saving ----------------------------------------------------------------------------------------------------- */

static int parts_commit(ckpt_save_result *result, saver *s, const char *file_name, uint64_t sequence,
                        const ckpt_save_options *options, ckpt_error *err)
{
    int rc = 0;

    TRY(saver_pack_open(s, err));
    TRY(save_file(s, file_name, 0644, err));
    TRY(saver_commit(result, s, sequence, options, err));
out:
    return rc;
}

int save_tensors(ckpt_save_result *result, ckpt_store *store, const char *file_name, const ckpt_tensor *tensors,
                 size_t count, const ckpt_value *values, size_t value_count, const ckpt_save_options *options,
                 save_carry *carry, ckpt_error *err)
{
    int rc = 0;
    saver s = {.writer.tmp.fd = -1};
    parts_source parts = {.tensors = tensors, .count = count};
    uint64_t sequence = 0;
    bool again = true;
    ckpt_save_result own;
    ckpt_save_options own_options = CKPT_SAVE_OPTIONS_INIT;

    result = result ? result : &own;
    *result = (ckpt_save_result){0};
    TRY(store_options(&own_options, sizeof own_options, options, err));
    file_name = file_name ? file_name : SAVE_FILE_NAME;
    TRY(save_request_check(file_name, &own_options, err));
    TRY(parts_make(&parts, file_name, values, value_count, err));
    for (int tries = 0; again; tries++) {
        TRY(saver_start(&s, &sequence, store, &own_options, carry, err));
        s.total_bytes = parts.source.size;
        s.source = &parts.source;
        TRY(save_room(&again, &s, NULL, file_name, tries > 0, err));
        if (!again) {
            rc = parts_commit(result, &s, file_name, sequence, &own_options, err);
            TRY(save_room_again(&again, rc, &s, tries > 0, err));
        }
    }
    if (carry)
        carry_fill(carry, &s, &parts);
out:
    saver_close(&s);
    if (rc == CKPT_EQUOTA)
        save_room_leave(store);
    parts_clear(&parts);
    return rc;
}

int ckpt_save_tensors(ckpt_save_result *result, ckpt_store *store, const char *file_name, const ckpt_tensor *tensors,
                      size_t count, const ckpt_value *values, size_t value_count, const ckpt_save_options *options,
                      ckpt_error *err)
{
    return save_tensors(result, store, file_name, tensors, count, values, value_count, options, NULL, err);
}
