/* The index of a model in shards. */
#include "fuzz.h"

#include "shard_index.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    shard_index index;
    ckpt_error err = {0};
    const int rc = shard_index_read(&index, (const char *)data, size, &err);

    CHECK(rc == 0 || rc == CKPT_EFORMAT);
    CHECK(index.count <= index.tensors);
    for (size_t i = 0; i < index.count; i++) {
        CHECK(!strchr(index.shards[i], '/') && index.shards[i][0]);
        CHECK(i == 0 || strcmp(index.shards[i - 1], index.shards[i]) < 0);
    }
    shard_index_clear(&index);
    return 0;
}
