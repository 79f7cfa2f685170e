#include "save_internal.h"

#include "fail.h"

#include <stdlib.h>
#include <string.h>

void save_class_of(char out[TENSOR_CLASS_SIZE], const saver *s, const piece *p)
{
    if (p->tensor >= 0)
        tensor_class_of(out, s->file.tensors[p->tensor].name);
    else
        memcpy(out, "other bytes", sizeof "other bytes");
}

pack_transform save_transform_of(const saver *s, const piece *p)
{
    if (!s->above.rounds)
        return TRANSFORM_NONE;
    return p->tensor >= 0                                 ? transform_of(&s->rules, &s->file.tensors[p->tensor])
           : p->number == 0 && p->size == s->source->size ? TRANSFORM_BF16
                                                          : TRANSFORM_NONE;
}

int save_read(saver *s, void *dst, uint64_t offset, size_t size, ckpt_error *err)
{
    int rc = 0;

    if (s->above.below)
        TRY(transform_read(dst, &s->above, &s->account, offset, size, err));
    else
        TRY(s->source->read(s->source, dst, offset, size, err));
    TRY(save_take(s, dst, offset, size, err));
out:
    return rc;
}

const void *save_view(const saver *s, uint64_t offset, size_t size)
{
    return s->source->view && !s->above.below ? s->source->view(s->source, offset, size) : NULL;
}

int save_take(saver *s, const void *bytes, uint64_t offset, size_t size, ckpt_error *err)
{
    sha256_update(s->file_stream, bytes, size);
    save_crc_feed(s, offset, bytes, size);
    return saver_progress(s, size, err);
}

/* Extents, those above PACK_FRAME_BYTES_MAX cut. */
static int pieces_make(saver *s, ckpt_error *err)
{
    int rc = 0;
    extent *extents = NULL;
    size_t count = 0, pieces = 0;

    TRY(extents_make(&extents, &count, &s->file, s->source->size, err));
    for (size_t i = 0; i < count; i++)
        pieces += (size_t)((extents[i].size + PACK_FRAME_BYTES_MAX - 1) / PACK_FRAME_BYTES_MAX);
    s->pieces = calloc(pieces + 1, sizeof *s->pieces);
    FAIL_IF_NULL(s->pieces, err);
    for (size_t i = 0; i < count; i++) {
        const extent *const e = &extents[i];
        uint32_t number = 0;
        for (uint64_t done = 0; done < e->size; number++) {
            const uint64_t left = e->size - done, n = left < PACK_FRAME_BYTES_MAX ? left : PACK_FRAME_BYTES_MAX;
            s->pieces[s->piece_count++] = (piece){
                .offset = e->offset + done, .size = n, .tensor = e->tensor, .dtype = e->dtype, .number = number};
            done += n;
        }
    }
out:
    free(extents);
    return rc;
}

static int pieces_store(saver *s, ckpt_error *err)
{
    int rc = 0;

    if (s->source->size > 0 && s->source->size <= SAVE_GROUP_PIECE_MAX)
        return save_small_file(s, err);
    for (size_t first = 0, last = 0; first < s->piece_count; first = last) {
        uint64_t small_bytes = 0;
        for (; last < s->piece_count; last++) {
            const uint64_t size = s->pieces[last].size;
            if (size <= SAVE_GROUP_PIECE_MAX && (small_bytes += size) > SAVE_BATCH_BYTES_MAX && last > first)
                break;
        }
        TRY(save_batch(s, first, last, err));
    }
out:
    return rc;
}

static int tables_add_tensor(saver *s, const tensor_view *view, ckpt_error *err)
{
    int rc = 0;
    uint32_t ignored;
    pack_tensor row = {.dtype = (uint8_t)view->dtype,
                       .rank = (uint8_t)view->rank,
                       .offset = view->offset,
                       .span_bytes = view->span_bytes,
                       .flags = view->contiguous ? 0 : PACK_TENSOR_STRIDED,
                       .dim_first = s->tables.dim_count};

    TRY(pack_index_add_string(&row.name, &s->tables, view->name, err));
    for (unsigned i = 0; i < view->rank; i++)
        TRY(pack_index_add_dim(&ignored, &s->tables, view->shape[i], err));
    for (unsigned i = 0; i < view->rank && !view->contiguous; i++)
        TRY(pack_index_add_dim(&ignored, &s->tables, (uint64_t)view->stride[i], err));
    TRY(pack_index_add_tensor(&ignored, &s->tables, &row, err));
out:
    return rc;
}

static int tables_add_extents(saver *s, ckpt_error *err)
{
    int rc = 0;

    for (size_t i = 0; i < s->piece_count; i++) {
        const piece *const p = &s->pieces[i];
        uint32_t at = 0;
        FAIL_IF(!p->placed, err, CKPT_EBUG, "%s: a piece was not stored", s->path);
        const pack_extent row = {p->size, p->frame_offset, p->pack, p->frame, p->hash};
        TRY(pack_index_add_extent(&at, &s->tables, &row, err));
        save_remember_extent(s, at);
    }
out:
    return rc;
}

static int tables_add_file(saver *s, const char *path, unsigned mode, ckpt_error *err)
{
    int rc = 0;
    uint32_t ignored;
    pack_file row = {.mode = (uint16_t)mode, .kind = CKPT_FILE, .size = s->source->size};

    TRY(pack_index_add_string(&row.path, &s->tables, path, err));
    TRY(pack_index_add_string(&row.link, &s->tables, "", err));
    TRY(pack_index_add_string(&row.format, &s->tables, s->file.format, err));
    row.extent_first = s->tables.extent_count;
    row.extent_count = (uint32_t)s->piece_count;
    TRY(tables_add_extents(s, err));
    row.tensor_first = s->tables.tensor_count;
    row.tensor_count = (uint32_t)s->file.count;
    for (size_t i = 0; i < s->file.count; i++)
        TRY(tables_add_tensor(s, &s->file.tensors[i], err));
    row.value_first = s->tables.value_count;
    row.value_count = (uint32_t)s->file.value_count;
    for (size_t i = 0; i < s->file.value_count; i++) {
        pack_value value;
        TRY(pack_index_add_string(&value.key, &s->tables, s->file.values[i].key, err));
        TRY(pack_index_add_string(&value.value, &s->tables, s->file.values[i].value, err));
        TRY(pack_index_add_value(&ignored, &s->tables, &value, err));
    }
    sha256_finish(&row.hash, s->file_stream);
    TRY(pack_index_add_file(&ignored, &s->tables, &row, err));
out:
    return rc;
}

/* What a parser refused is saved all the same. A half-written file is no matter of taste, though: it would be the
 * newest checkpoint. */
static void tell_refusal(const saver *s, const char *path, const char *why)
{
    why = tensor_file_refusal(why, s->source->path);
    if (s->file.cut_off)
        store_warn(s->store, "%s looks cut off (%s); saved as it is", path, why);
    else
        store_note(s->store, "%s saved as opaque bytes: %s", path, why);
}

/* Puts the lossy choices of the person between the file and the save. Files that are no tensors stay as they are. */
static int transform_begin(saver *s, const char *path, const char *why, ckpt_error *err)
{
    int rc = 0;
    char refusal[256];

    if (strcmp(s->file.format, "safetensors") != 0) {
        if (s->file.count == 0 && !*why)
            goto out;
        rc = error_set(err, CKPT_EUSAGE, "%s: only in safetensors files can tensors be rounded or left out", path);
        error_hint(err, *why ? "save it as it is" : "`ckpt export FILE --to safetensors` makes one of it; save that");
        goto out;
    }
    TRY(transform_open(&s->above, &s->account, &s->file, s->source, &s->rules, err));
    s->source = &s->above.source;
    tensor_file_clear(&s->file);
    TRY(tensor_file_read(&s->file, refusal, s->source, err));
    FAIL_IF(*refusal, err, CKPT_EBUG, "the transformed file cannot be read: %s", refusal);
out:
    if (rc && rc != CKPT_EUSAGE)
        error_prefix(err, "%s", path);
    return rc;
}

/* Takes s->source apart into pieces, and finds what they could be deltas of. */
static int file_begin(saver *s, const char *path, bool tell, ckpt_error *err)
{
    int rc = 0;
    char why[256] = "";

    s->path = path;
    s->plan_count = 0;
    transform_close(&s->above);
    TRY(tensor_file_read(&s->file, why, s->source, err));
    FAIL_IF(s->whole_only && s->file.cut_off, err, CKPT_EFORMAT, "%s looks cut off: %s", path, why);
    if (why[0] && tell)
        tell_refusal(s, path, why);
    if (transform_rules_any(&s->rules))
        TRY(transform_begin(s, path, why, err));
    s->candidate_count = reference_files(s->candidates, s->library, path, &s->file);
    TRY(pieces_make(s, err));
out:
    return rc;
}

static void file_end(saver *s, const byte_source *below)
{
    tensor_file_clear(&s->file);
    free(s->pieces);
    s->pieces = NULL;
    s->piece_count = 0;
    s->source = below;
}

int save_file(saver *s, const char *path, unsigned mode, ckpt_error *err)
{
    int rc = 0;
    const byte_source *const below = s->source;

    sha256_restart(s->file_stream);
    TRY(file_begin(s, path, true, err));
    save_crc_start(s);
    TRY(pieces_store(s, err));
    save_crc_tell(s);
    TRY(tables_add_file(s, path, mode, err));
    s->tensor_count += s->file.count;
out:
    file_end(s, below);
    return rc;
}

int save_file_estimate(uint64_t *bytes, saver *s, const char *path, ckpt_error *err)
{
    int rc = 0;
    const byte_source *const below = s->source;
    const transform_account account = s->account;

    TRY(file_begin(s, path, false, err));
    TRY(save_pieces_estimate(bytes, s, err));
out:
    file_end(s, below);
    transform_close(&s->above);
    s->account = account;
    return rc;
}
