#include "export_internal.h"

#include "fail.h"

#include <stdlib.h>
#include <string.h>

static int write_data(void *payload, const void *data, size_t size, ckpt_error *err)
{
    exporter *const e = payload;

    return file_tmp_write(&e->tmp, data, size, err);
}

int export_safetensors(exporter *e, ckpt_error *err)
{
    int rc = 0;
    char *header = NULL;
    size_t size = 0;
    ckpt_tensor *const tensors = calloc(e->count + 1, sizeof *tensors);

    FAIL_IF_NULL(tensors, err);
    for (size_t i = 0; i < e->count; i++) {
        const ckpt_tensor_info *const info = export_info(e, &e->rows[i]);
        if (e->rows[i].dtype == CKPT_C128 || e->rows[i].dtype == CKPT_OPAQUE)
            TRY(export_type_missing(&e->rows[i], "safetensors", err));
        tensors[i] = (ckpt_tensor){.name = e->rows[i].name, .dtype = e->rows[i].dtype, .rank = info->rank};
        memcpy(tensors[i].shape, info->shape, sizeof tensors[i].shape);
        tensors[i].data = e; /* it has some, elsewhere */
    }
    TRY(safetensors_header(&header, &size, tensors, e->count, e->values, e->value_count, err));
    TRY(file_tmp_write(&e->tmp, header, size, err));
    for (size_t i = 0; i < e->count; i++)
        TRY(export_data(e, &e->rows[i], write_data, e, err));
out:
    free(tensors);
    free(header);
    return rc;
}
