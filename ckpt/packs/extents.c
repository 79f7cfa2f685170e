/* Extents: the file as disjoint pieces, each one tensor, several that share bytes, or the bytes between. */
#include "tensor_file.h"

#include "fail.h"

#include <assert.h>
#include <stdlib.h>

/* A tensor's bytes, sorted by where they begin; the larger first, so that it names the extent. */
typedef struct span {
    uint64_t offset, size;
    size_t tensor;
} span;

static int span_compare(const void *a, const void *b)
{
    const span *x = a, *y = b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    if (x->size != y->size)
        return x->size > y->size ? -1 : 1;
    return x->tensor < y->tensor ? -1 : x->tensor > y->tensor;
}

static size_t spans_collect(span *spans, const tensor_file *file)
{
    size_t count = 0;
    for (size_t i = 0; i < file->count; i++)
        if (file->tensors[i].span_bytes)
            spans[count++] = (span){file->tensors[i].offset, file->tensors[i].span_bytes, i};
    qsort(spans, count, sizeof *spans, span_compare);
    return count;
}

/* Unites the span at *at with all that overlap it and moves *at behind them. The extent begins with the first element
 * of its lowest tensor, so the elements of a chunk are whole. A largest tensor off that grid gives no dtype. */
static extent extent_unite(const span *spans, size_t count, size_t *at, const tensor_file *file)
{
    const span *largest = &spans[*at];
    const uint64_t begin = largest->offset;
    uint64_t end = begin + largest->size;

    for (++*at; *at < count && spans[*at].offset < end; ++*at) {
        const span *next = &spans[*at];
        if (next->offset + next->size > end)
            end = next->offset + next->size;
        if (next->size > largest->size)
            largest = next;
    }
    const ckpt_dtype dtype = file->tensors[largest->tensor].dtype;
    const bool on_grid = (largest->offset - begin) % ckpt_dtype_size(dtype) == 0;
    return (extent){begin, end - begin, on_grid ? dtype : CKPT_OPAQUE, (int64_t)largest->tensor};
}

int extents_make(extent **out, size_t *count, const tensor_file *file, uint64_t file_size, ckpt_error *err)
{
    int rc = 0;
    span *spans = malloc((file->count + 1) * sizeof *spans);
    extent *extents = malloc((2 * file->count + 1) * sizeof *extents);
    size_t used = 0;
    uint64_t end = 0;

    *out = NULL;
    *count = 0;
    FAIL_IF_NULL(spans, err);
    FAIL_IF_NULL(extents, err);
    const size_t span_count = spans_collect(spans, file);
    for (size_t i = 0; i < span_count;) {
        const extent next = extent_unite(spans, span_count, &i, file);
        if (next.offset > end)
            extents[used++] = (extent){end, next.offset - end, CKPT_OPAQUE, -1};
        extents[used++] = next;
        end = next.offset + next.size;
    }
    assert(end <= file_size);
    if (end < file_size)
        extents[used++] = (extent){end, file_size - end, CKPT_OPAQUE, -1};
    *out = extents;
    *count = used;
    extents = NULL;
out:
    free(spans);
    free(extents);
    return rc;
}
