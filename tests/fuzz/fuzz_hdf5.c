/* HDF5 files as a whole, and their datasets in chunks. */
#include "fuzz_tensor_file.h"

#include "hdf5.h"
#include "hdf5_chunks.h"

#define DATASET_MAX ((uint64_t)1 << 20) /* larger ones only take time */

static int check_dataset(void *payload, const char *name, const hdf5_object *object, ckpt_error *err)
{
    const byte_source *const source = payload;
    hdf5_budget left = {1000, source->size};
    unsigned char *data = NULL;
    (void)err;

    CHECK(tensor_name_valid(name));
    if (!object->chunked || object->view.span_bytes > DATASET_MAX || hdf5_chunks_check(&left, source, object, NULL))
        return 0;
    if (hdf5_chunks_read(&data, source, object, NULL) == 0)
        CHECK(data);
    free(data);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    byte_source source;

    check_format(&FORMAT_HDF5, data, size);
    byte_source_memory(&source, data, size, "input");
    (void)hdf5_datasets(&source, check_dataset, &source, NULL);
    return 0;
}
