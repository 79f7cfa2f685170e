#include "content.h"

#include "fail.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define CONTENT_WINDOW_BYTES ((size_t)256 << 10)
#define CONTENT_OPEN_TRIES   8

/* ---- Opening ---- */

int content_alloc(ckpt_content **out, size_t files, size_t tensors, ckpt_error *err)
{
    int rc = 0;
    ckpt_content *c = calloc(1, sizeof *c);

    FAIL_IF_NULL(c, err);
    c->plain_open = SIZE_MAX;
    c->files = calloc(files + 1, sizeof *c->files);
    c->tensors = calloc(tensors + 1, sizeof *c->tensors);
    c->tensor_offsets = calloc(tensors + 1, sizeof *c->tensor_offsets);
    FAIL_IF_NULL(c->files && c->tensors && c->tensor_offsets, err);
    *out = c;
    c = NULL;
out:
    ckpt_content_close(c);
    return rc;
}

static uint64_t elements_of(const uint64_t *shape, unsigned rank)
{
    uint64_t n = 1; /* parsers and pack checks have made sure that it fits */

    for (unsigned i = 0; i < rank; i++)
        n *= shape[i];
    return n;
}

static void fill_row_major(ckpt_tensor_info *t)
{
    int64_t stride = 1;

    for (unsigned i = t->rank; i-- > 0;) {
        t->stride[i] = stride;
        stride *= (int64_t)(t->shape[i] ? t->shape[i] : 1);
    }
}

static void stored_tensor(ckpt_tensor_info *t, const pack_index *index, const pack_tensor *row, size_t file)
{
    *t = (ckpt_tensor_info){.name = pack_string(index, row->name),
                            .dtype = (ckpt_dtype)row->dtype,
                            .rank = row->rank,
                            .contiguous = !(row->flags & PACK_TENSOR_STRIDED),
                            .file = file};
    for (unsigned i = 0; i < t->rank; i++)
        t->shape[i] = index->dims[row->dim_first + i];
    fill_row_major(t);
    for (unsigned i = 0; i < t->rank && !t->contiguous; i++)
        t->stride[i] = (int64_t)index->dims[row->dim_first + t->rank + i];
    t->bytes = elements_of(t->shape, t->rank) * ckpt_dtype_size(t->dtype);
}

static int stored_file(ckpt_content *c, uint32_t number, ckpt_error *err)
{
    int rc = 0;
    const pack_index *const index = &c->pack->index;
    const pack_file *const row = &index->files[number];
    content_file *const f = &c->files[number];

    f->row = number;
    f->info = (ckpt_file_info){.path = pack_string(index, row->path),
                               .kind = (ckpt_file_kind)row->kind,
                               .mode = row->mode,
                               .size = row->size,
                               .link_target = pack_string(index, row->link),
                               .format = pack_string(index, row->format),
                               .tensor_first = c->tensor_count,
                               .tensor_count = row->tensor_count};
    if (row->kind == CKPT_FILE)
        sha256_hex(f->info.sha256, &row->hash);
    f->extent_starts = calloc((size_t)row->extent_count + 1, sizeof *f->extent_starts);
    FAIL_IF_NULL(f->extent_starts, err);
    c->file_count = (size_t)number + 1;
    for (uint32_t i = 0; i < row->extent_count; i++)
        f->extent_starts[i + 1] = f->extent_starts[i] + index->extents[row->extent_first + i].size;
    for (uint32_t i = 0; i < row->tensor_count; i++, c->tensor_count++) {
        const pack_tensor *const t = &index->tensors[row->tensor_first + i];
        stored_tensor(&c->tensors[c->tensor_count], index, t, number);
        c->tensor_offsets[c->tensor_count] = t->offset;
    }
out:
    return rc;
}

static int content_tags(ckpt_content *c, ckpt_error *err)
{
    int rc = 0;

    TRY(tag_rows(&c->tags, &c->tag_count, c->store, err));
    c->tag_names = calloc(c->tag_count + 1, sizeof *c->tag_names);
    FAIL_IF_NULL(c->tag_names, err);
    for (size_t i = 0; i < c->tag_count; i++)
        if (sha256_compare(&c->tags[i].id, &c->snap.id) == 0)
            c->tag_names[c->info.tag_count++] = c->tags[i].name;
out:
    return rc;
}

static bool counts_agree(const snapshot *snap, const pack_index *index)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < index->file_count; i++)
        bytes += index->files[i].size;
    return snap->files == index->file_count && snap->raw_bytes == bytes;
}

int content_snapshot_check(pack **own, ckpt_store *store, const snapshot *snap, ckpt_error *err)
{
    int rc = 0;
    pack *p = NULL, *other = NULL;
    sha256 tree;

    TRY(pack_set_get(&p, store->packs, &snap->pack, err));
    TRY(pack_index_tree(&tree, &p->index, err));
    FAIL_IF(sha256_compare(&tree, &snap->tree) != 0, err, CKPT_EDATA,
            "the files in the pack are not those of the snapshot");
    FAIL_IF(!counts_agree(snap, &p->index), err, CKPT_EDATA, "snapshot and pack disagree on files or bytes");
    for (uint32_t i = 0; i < p->index.pack_count; i++)
        TRY(pack_set_get(&other, store->packs, &p->index.packs[i], err));
    *own = p;
out:
    return rc;
}

/* Takes the snapshot over, but for a failure. */
static int content_of(ckpt_content **out, ckpt_store *store, snapshot *snap, ckpt_error *err)
{
    int rc = 0;
    ckpt_content *c = NULL;
    pack *p = NULL;

    TRY(content_snapshot_check(&p, store, snap, err));
    TRY(content_alloc(&c, p->index.file_count, p->index.tensor_count, err));
    c->store = store;
    store_packs_borrow(store);
    c->pack = p;
    c->snap = *snap;
    *snap = (snapshot){0};
    info_fill(&c->info, &c->snap);
    for (uint32_t i = 0; i < p->index.file_count; i++)
        TRY(stored_file(c, i, err));
    TRY(content_tags(c, err));
    c->info.tags = c->tag_names;
    *out = c;
    c = NULL;
out:
    ckpt_content_close(c);
    return rc;
}

int content_open_snapshot(ckpt_content **out, ckpt_store *store, const snapshot_name *name, ckpt_error *err)
{
    int rc = 0;
    bool moved = true;

    /* Repacking may give a checkpoint another pack between a look at its snapshot and one at its pack. */
    for (int tries = 0; moved && tries < CONTENT_OPEN_TRIES; tries++) {
        snapshot snap, now;
        TRY(snapshot_read(&snap, store->snapshots_dir, name, err));
        const sha256 pack_name = snap.pack;
        rc = content_of(out, store, &snap, err);
        snapshot_clear(&snap);
        moved = rc == CKPT_ENOTFOUND && snapshot_read(&now, store->snapshots_dir, name, NULL) == 0;
        if (moved) {
            moved = sha256_compare(&now.pack, &pack_name) != 0;
            snapshot_clear(&now);
        }
    }
out:
    return rc;
}

void ckpt_content_close(ckpt_content *c)
{
    if (!c)
        return;
    for (size_t i = 0; c->files && i < c->file_count; i++)
        free(c->files[i].extent_starts);
    frame_reader_free(c->reader);
    if (c->store)
        store_packs_return(c->store);
    content_packed_clear(c);
    content_plain_clear(c);
    snapshot_clear(&c->snap);
    tag_rows_free(c->tags, c->tag_count);
    free(c->tag_names);
    free(c->files);
    free(c->tensors);
    free(c->tensor_offsets);
    for (size_t i = 0; i < CONTENT_CHUNKS_MAX; i++)
        free(c->chunks[i].data);
    free(c->window);
    free(c);
}

/* ---- Looking ---- */

const ckpt_info *ckpt_content_info(const ckpt_content *content)
{
    return content->store ? &content->info : NULL;
}

size_t ckpt_content_file_count(const ckpt_content *content)
{
    return content->file_count;
}

/* SHA-256 of all bytes of a plain file. */
static int plain_hash(char hex[CKPT_ID_SIZE], const byte_source *source, ckpt_error *err)
{
    int rc = 0;
    sha256 hash;
    sha256_stream *const stream = sha256_new();
    unsigned char *const buffer = malloc(CODEC_CHUNK_BYTES);

    FAIL_IF_NULL(stream && buffer, err);
    for (uint64_t done = 0; done < source->size;) {
        const uint64_t left = source->size - done;
        const size_t n = left < CODEC_CHUNK_BYTES ? (size_t)left : CODEC_CHUNK_BYTES;
        TRY(source->read(source, buffer, done, n, err));
        sha256_update(stream, buffer, n);
        done += n;
    }
    sha256_finish(&hash, stream);
    sha256_hex(hex, &hash);
out:
    free(buffer);
    sha256_free(stream);
    return rc;
}

/* At which level the frames of one kind, tensors or all others, of a stored file were saved; NULL: there are none. */
static const char *frames_level(const ckpt_content *content, size_t file, bool others)
{
    const pack_index *const index = &content->pack->index;
    const pack_file *const row = &index->files[content->files[file].row];
    const char *level = NULL;

    for (uint32_t i = 0; i < row->extent_count; i++) {
        const pack_extent *const e = &index->extents[row->extent_first + i];
        frame_at at;
        if (pack_set_follow(&at, content->store->packs, content->pack, e->pack, e->frame, NULL))
            continue; /* whoever reads the file will hear of it */
        const pack_frame *const frame = &at.pack->index.frames[at.frame];
        if ((frame->kind == FRAME_OTHER) != others)
            continue;
        if (level && strcmp(level, pack_frame_level(frame)) != 0)
            return "mixed";
        level = pack_frame_level(frame);
    }
    return level;
}

/* Of tensors, if there are any: the bytes between them are few, and often those of an earlier save. */
static const char *stored_level(const ckpt_content *content, size_t file)
{
    const char *level = frames_level(content, file, false);

    if (!level)
        level = frames_level(content, file, true);
    return level ? level : "";
}

const ckpt_file_info *ckpt_content_file(const ckpt_content *content, size_t i)
{
    assert(i < content->file_count);
    ckpt_file_info *const info = &content->files[i].info;
    if (!info->level)
        info->level = content->store ? stored_level(content, i) : "";
    info->refusal = content->store ? "" : content->plains[i].refusal;
    if (!content->store && !info->sha256[0])
        (void)plain_hash(info->sha256, &content->plains[i].source, NULL); /* "" says that it could not be read */
    return info;
}

size_t ckpt_content_tensor_count(const ckpt_content *content)
{
    return content->tensor_count;
}

const ckpt_tensor_info *ckpt_content_tensor(const ckpt_content *content, size_t i)
{
    assert(i < content->tensor_count);
    return &content->tensors[i];
}

size_t ckpt_content_value_count(const ckpt_content *content, size_t file)
{
    if (file >= content->file_count)
        return 0;
    return content->store ? content->pack->index.files[content->files[file].row].value_count
                          : content->plains[file].file.value_count;
}

int ckpt_content_value(ckpt_value *out, const ckpt_content *content, size_t file, size_t i)
{
    if (i >= ckpt_content_value_count(content, file))
        return CKPT_ENOTFOUND;
    if (!content->store) {
        *out = content->plains[file].file.values[i];
        return 0;
    }
    const pack_index *const index = &content->pack->index;
    const pack_value *const v = &index->values[index->files[content->files[file].row].value_first + i];
    *out = (ckpt_value){pack_string(index, v->key), pack_string(index, v->value)};
    return 0;
}

/* ---- Reading ---- */

size_t content_unit_size(const pack_extent *e, uint64_t inside)
{
    const uint64_t left = e->size - inside;
    const uint64_t room = CODEC_CHUNK_BYTES - (e->frame_offset + inside) % CODEC_CHUNK_BYTES;

    return (size_t)(left < room ? left : room);
}

int content_unit_place(content_unit *out, pack_set *set, pack *own, const pack_extent *e, uint64_t inside,
                       ckpt_error *err)
{
    int rc = 0;

    TRY(pack_set_follow(&out->at, set, own, e->pack, e->frame, err));
    out->offset = e->frame_offset + inside;
    out->size = content_unit_size(e, inside);
    const uint64_t frame_size = out->at.pack->index.frames[out->at.frame].size;
    FAIL_IF(out->offset > frame_size || out->size > frame_size - out->offset, err, CKPT_EDATA,
            "a part lies outside its frame");
out:
    return rc;
}

int content_unit_decode(void *dst, frame_reader *reader, const content_unit *u, ckpt_error *err)
{
    return frame_read(dst, reader, u->at, u->offset, u->size, err);
}

int content_unit_at(content_unit *out, const ckpt_content *c, size_t file, uint64_t offset, uint64_t size,
                    ckpt_error *err)
{
    int rc = 0;
    const content_file *const f = &c->files[file];
    const pack_index *const index = &c->pack->index;
    const pack_file *const row = &index->files[f->row];
    uint32_t low = 0, high = row->extent_count;

    assert(offset < row->size && size > 0);
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if (f->extent_starts[middle] <= offset)
            low = middle;
        else
            high = middle;
    }
    const pack_extent *const e = &index->extents[row->extent_first + low];
    TRY(content_unit_place(out, c->store->packs, c->pack, e, offset - f->extent_starts[low], err));
    out->size = out->size < size ? out->size : (size_t)size;
out:
    if (rc)
        error_prefix(err, "%s", f->info.path);
    return rc;
}

/* The decoded chunk of a unit, from the few kept ones or decoded into the longest unused. */
static int chunk_get(const unsigned char **data, ckpt_content *c, const content_unit *u, ckpt_error *err)
{
    int rc = 0;
    const uint32_t chunk = (uint32_t)(u->offset / CODEC_CHUNK_BYTES);
    content_chunk *oldest = &c->chunks[0];

    for (size_t i = 0; i < CONTENT_CHUNKS_MAX; i++) {
        content_chunk *const k = &c->chunks[i];
        if (k->at.pack == u->at.pack && k->at.frame == u->at.frame && k->chunk == chunk) {
            oldest = k;
            goto found;
        }
        if (k->used < oldest->used)
            oldest = k;
    }
    oldest->at.pack = NULL;
    if (!oldest->data) {
        oldest->data = malloc(CODEC_CHUNK_BYTES);
        FAIL_IF_NULL(oldest->data, err);
    }
    if (!c->reader)
        TRY(frame_reader_new(&c->reader, c->store->packs, err));
    TRY(frame_read_chunk(oldest->data, c->reader, u->at, chunk, err));
    oldest->at = u->at;
    oldest->chunk = chunk;
found:
    oldest->used = ++c->chunk_clock;
    *data = oldest->data;
out:
    return rc;
}

int content_read_bytes(void *dst, ckpt_content *c, size_t file, uint64_t offset, size_t size, ckpt_error *err)
{
    int rc = 0;
    unsigned char *to = dst;

    if (!c->store)
        return c->plains[file].source.read(&c->plains[file].source, dst, offset, size, err);
    while (size > 0) {
        content_unit u;
        const unsigned char *chunk = NULL;
        TRY(content_unit_at(&u, c, file, offset, size, err));
        TRY(chunk_get(&chunk, c, &u, err));
        memcpy(to, chunk + u.offset % CODEC_CHUNK_BYTES, u.size);
        to += u.size;
        offset += u.size;
        size -= u.size;
    }
out:
    return rc;
}

/* Bytes behind the beginning of the file that holds a tensor, or of the member where that is packed. */
static int read_place(void *dst, ckpt_content *c, size_t tensor, uint64_t offset, size_t size, ckpt_error *err)
{
    if (c->packed && c->packed[tensor])
        return content_read_packed(dst, c, tensor, offset, size, err);
    return content_read_bytes(dst, c, c->tensors[tensor].file, offset, size, err);
}

/* One element at a byte offset, through a window on the file, since neighbours are read next. */
static int read_element(void *dst, ckpt_content *c, size_t file, uint64_t offset, size_t width, ckpt_error *err)
{
    int rc = 0;

    FAIL_IF(offset > c->files[file].info.size || width > c->files[file].info.size - offset, err, CKPT_EDATA,
            "%s: a tensor reaches beyond the file", c->files[file].info.path);
    if (!c->window) {
        c->window = malloc(CONTENT_WINDOW_BYTES);
        FAIL_IF_NULL(c->window, err);
    }
    if (c->window_size == 0 || c->window_file != file || offset < c->window_offset ||
        offset + width > c->window_offset + c->window_size) {
        const uint64_t file_size = c->files[file].info.size;
        const uint64_t start = offset - offset % (CONTENT_WINDOW_BYTES / 2);
        const uint64_t left = file_size - start;
        c->window_size = 0;
        const size_t n = left < CONTENT_WINDOW_BYTES ? (size_t)left : CONTENT_WINDOW_BYTES;
        TRY(content_read_bytes(c->window, c, file, start, n, err));
        c->window_size = n;
        c->window_file = file;
        c->window_offset = start;
    }
    memcpy(dst, c->window + (offset - c->window_offset), width);
out:
    return rc;
}

static int read_strided(unsigned char *dst, ckpt_content *c, size_t tensor, uint64_t first, uint64_t count,
                        ckpt_error *err)
{
    int rc = 0;
    const ckpt_tensor_info *const t = &c->tensors[tensor];
    const size_t width = ckpt_dtype_size(t->dtype);
    uint64_t at[CKPT_RANK_MAX] = {0}, rest = first;

    for (unsigned d = t->rank; d-- > 0;) {
        at[d] = rest % t->shape[d];
        rest /= t->shape[d];
    }
    for (uint64_t i = 0; i < count; i++) {
        uint64_t element = 0;
        for (unsigned d = 0; d < t->rank; d++)
            element += at[d] * (uint64_t)t->stride[d];
        const uint64_t offset = c->tensor_offsets[tensor] + element * width;
        if (c->packed && c->packed[tensor])
            TRY(content_read_packed(dst + i * width, c, tensor, offset, width, err));
        else
            TRY(read_element(dst + i * width, c, t->file, offset, width, err));
        for (unsigned d = t->rank; d-- > 0 && ++at[d] == t->shape[d];)
            at[d] = 0;
    }
out:
    return rc;
}

int ckpt_content_read(void *dst, ckpt_content *content, size_t tensor, uint64_t first, uint64_t count, ckpt_error *err)
{
    int rc = 0;

    FAIL_IF(tensor >= content->tensor_count, err, CKPT_ENOTFOUND, "no tensor %zu", tensor);
    const ckpt_tensor_info *const t = &content->tensors[tensor];
    const size_t width = ckpt_dtype_size(t->dtype);
    const uint64_t elements = t->bytes / width;
    FAIL_IF(first > elements || count > elements - first, err, CKPT_EUSAGE, "%s has only %llu elements", t->name,
            (unsigned long long)elements);
    if (count == 0)
        goto out;
    if (t->contiguous)
        TRY(read_place(dst, content, tensor, content->tensor_offsets[tensor] + first * width, (size_t)(count * width),
                       err));
    else
        TRY(read_strided(dst, content, tensor, first, count, err));
out:
    return rc;
}
