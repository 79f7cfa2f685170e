/* Distributed checkpoints: the size of `.metadata` (4 bytes, little-endian), `.metadata`, and the file `f` that it
 * names. */
#include "fuzz_tensor_file.h"

#include "bytes.h"
#include "dcp.h"
#include "fail.h"

typedef struct pair {
    byte_source file; /* first, so that one is found from the other */
    const uint8_t *metadata;
    size_t metadata_size;
} pair;

static int beside(const byte_source *source, char **data, size_t *size, const char *name, size_t size_max,
                  ckpt_error *err)
{
    const pair *const p = (const pair *)source;
    (void)size_max;
    CHECK(strcmp(name, DCP_METADATA_NAME) == 0);
    *data = malloc(p->metadata_size + 1);
    if (!*data)
        return error_memory(err);
    memcpy(*data, p->metadata, p->metadata_size);
    *size = p->metadata_size;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pair p;
    tensor_file file = {0};
    ckpt_error err = {0};

    if (size < 4 || load_u32(data) > size - 4)
        return 0;
    p.metadata = data + 4;
    p.metadata_size = load_u32(data);
    const uint64_t file_size = size - 4 - p.metadata_size;
    byte_source_memory(&p.file, data + 4 + p.metadata_size, file_size, "folder/f");
    p.file.beside = beside;
    const int rc = FORMAT_DISTCP.parse(&file, &p.file, &err);
    CHECK(rc == 0 || rc == CKPT_EFORMAT || rc == CKPT_ENOTFOUND);
    for (size_t i = 0; rc == 0 && i < file.count; i++)
        check_view(&file.tensors[i], file_size);
    if (rc == 0)
        check_extents(&file, file_size);
    tensor_file_clear(&file);
    return 0;
}
