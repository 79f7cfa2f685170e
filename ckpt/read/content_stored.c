/* How the tensors of a checkpoint lie in the store: for people who want to see what became of which. */
#include "content.h"

#include "fail.h"

#include <string.h>

#define MODES_MAX 256

/* What is known so far of one tensor. */
typedef struct account {
    uint64_t bytes_by_mode[MODES_MAX]; /* decoded */
    double coded_bytes;
    unsigned depth;
} account;

/* Bytes [first, end) of a frame. A chunk that other tensors share counts by the share of its bytes. */
static int frame_account(account *a, frame_at at, uint64_t first, uint64_t end, ckpt_error *err)
{
    int rc = 0;
    const pack_frame *const frame = &at.pack->index.frames[at.frame];
    uint64_t offset = frame->offset, begin = 0;

    for (uint32_t i = 0; i < pack_frame_chunks(frame) && begin < end; i++) {
        const uint32_t coded = at.pack->index.chunks[frame->chunk_first + i].coded_size;
        const uint64_t left = frame->size - begin, size = left < CODEC_CHUNK_BYTES ? left : CODEC_CHUNK_BYTES;
        const uint64_t low = first > begin ? first : begin, high = end < begin + size ? end : begin + size;
        if (low < high) {
            unsigned char mode = 0;
            TRY(pack_read_bytes(&mode, at.pack, offset, 1, err));
            a->bytes_by_mode[mode] += high - low;
            a->coded_bytes += (double)coded * (double)(high - low) / (double)size;
        }
        offset += coded;
        begin += size;
    }
    if (frame->depth > a->depth)
        a->depth = frame->depth;
out:
    return rc;
}

/* Bytes [first, end) of a file. */
static int range_account(account *a, const ckpt_content *c, size_t file, uint64_t first, uint64_t end, ckpt_error *err)
{
    int rc = 0;
    const content_file *const f = &c->files[file];
    const pack_index *const index = &c->pack->index;
    const pack_file *const row = &index->files[f->row];

    for (uint32_t i = 0; i < row->extent_count && f->extent_starts[i] < end; i++) {
        const uint64_t start = f->extent_starts[i], stop = f->extent_starts[i + 1];
        const pack_extent *const e = &index->extents[row->extent_first + i];
        frame_at at;
        if (stop <= first)
            continue;
        const uint64_t low = first > start ? first : start, high = end < stop ? end : stop;
        TRY(pack_set_follow(&at, c->store->packs, c->pack, e->pack, e->frame, err));
        TRY(frame_account(a, at, e->frame_offset + (low - start), e->frame_offset + (high - start), err));
    }
out:
    return rc;
}

/* From element 0 to the end of the last one. */
static uint64_t span_of(const ckpt_tensor_info *t)
{
    uint64_t last = 0;

    if (t->contiguous || t->bytes == 0)
        return t->bytes;
    for (unsigned d = 0; d < t->rank; d++)
        last += (t->shape[d] - 1) * (uint64_t)t->stride[d];
    return (last + 1) * ckpt_dtype_size(t->dtype);
}

int ckpt_content_stored(ckpt_stored_tensor *out, ckpt_content *content, size_t tensor, ckpt_error *err)
{
    int rc = 0;
    account a = {0};
    unsigned most = 0;

    *out = (ckpt_stored_tensor){.mode = ""};
    FAIL_IF(tensor >= content->tensor_count, err, CKPT_ENOTFOUND, "no tensor %zu", tensor);
    const ckpt_tensor_info *const t = &content->tensors[tensor];
    if (!content->store || t->bytes == 0 || (content->packed && content->packed[tensor]))
        goto out;
    const uint64_t first = content->tensor_offsets[tensor];
    TRY(range_account(&a, content, t->file, first, first + span_of(t), err));
    for (unsigned i = 1; i < MODES_MAX; i++)
        if (a.bytes_by_mode[i] > a.bytes_by_mode[most])
            most = i;
    const char *const mode = codec_mode_name(most);
    out->mode = mode ? mode : "";
    out->coded_bytes = (uint64_t)(a.coded_bytes + 0.5);
    out->depth = a.depth;
out:
    return rc;
}
