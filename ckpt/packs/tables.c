#include "tables.h"

#include "fail.h"

#include <stdlib.h>

static int copy_string(uint32_t *offset, pack_index *to, const pack_index *from, ckpt_error *err)
{
    return pack_index_add_string(offset, to, pack_string(from, *offset), err);
}

/* map[i] is the number in `to` of pack number i of `from`. */
static int map_packs(uint32_t **map, pack_index *to, const pack_index *from, ckpt_error *err)
{
    int rc = 0;
    uint32_t *const numbers = calloc((size_t)from->pack_count + 1, sizeof *numbers);

    FAIL_IF_NULL(numbers, err);
    for (uint32_t i = 0; i < from->pack_count; i++)
        TRY(pack_index_add_pack(&numbers[i + 1], to, &from->packs[i], err));
out:
    *map = numbers;
    return rc;
}

static int copy_extents(pack_file *row, pack_index *to, const pack_index *from, const uint32_t *map, ckpt_error *err)
{
    int rc = 0;
    uint32_t ignored;
    const uint32_t first = row->extent_first;

    row->extent_first = to->extent_count;
    for (uint32_t i = 0; i < row->extent_count; i++) {
        pack_extent e = from->extents[first + i];
        e.pack = map[e.pack];
        TRY(pack_index_add_extent(&ignored, to, &e, err));
    }
out:
    return rc;
}

static int copy_tensors(pack_file *row, pack_index *to, const pack_index *from, ckpt_error *err)
{
    int rc = 0;
    uint32_t ignored;
    const uint32_t first = row->tensor_first;

    row->tensor_first = to->tensor_count;
    for (uint32_t i = 0; i < row->tensor_count; i++) {
        pack_tensor t = from->tensors[first + i];
        const uint32_t dims = t.flags & PACK_TENSOR_STRIDED ? 2u * t.rank : t.rank, dim_first = t.dim_first;
        t.dim_first = to->dim_count;
        for (uint32_t k = 0; k < dims; k++)
            TRY(pack_index_add_dim(&ignored, to, from->dims[dim_first + k], err));
        TRY(copy_string(&t.name, to, from, err));
        TRY(pack_index_add_tensor(&ignored, to, &t, err));
    }
out:
    return rc;
}

static int copy_values(pack_file *row, pack_index *to, const pack_index *from, ckpt_error *err)
{
    int rc = 0;
    uint32_t ignored;
    const uint32_t first = row->value_first;

    row->value_first = to->value_count;
    for (uint32_t i = 0; i < row->value_count; i++) {
        pack_value v = from->values[first + i];
        TRY(copy_string(&v.key, to, from, err));
        TRY(copy_string(&v.value, to, from, err));
        TRY(pack_index_add_value(&ignored, to, &v, err));
    }
out:
    return rc;
}

int tables_copy(pack_index *to, const pack_index *from, uint32_t first, uint32_t last, ckpt_error *err)
{
    int rc = 0;
    uint32_t ignored, *map = NULL;

    TRY(map_packs(&map, to, from, err));
    for (uint32_t i = first; i < last; i++) {
        pack_file row = from->files[i];
        TRY(copy_string(&row.path, to, from, err));
        TRY(copy_string(&row.link, to, from, err));
        TRY(copy_string(&row.format, to, from, err));
        TRY(copy_extents(&row, to, from, map, err));
        TRY(copy_tensors(&row, to, from, err));
        TRY(copy_values(&row, to, from, err));
        TRY(pack_index_add_file(&ignored, to, &row, err));
    }
out:
    free(map);
    return rc;
}
