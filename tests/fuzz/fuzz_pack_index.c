/* Tables of a pack: what is accepted can be named, and is written back byte for byte. */
#include "fuzz.h"

#include "pack.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pack_index index;
    if (pack_index_decode(&index, data, size, NULL))
        return 0;

    sha256 tree;
    CHECK(pack_index_tree(&tree, &index, NULL) == 0);
    unsigned char *again = NULL;
    size_t again_size = 0;
    CHECK(pack_index_encode(&again, &again_size, &index, NULL) == 0);
    CHECK(again_size == size && memcmp(again, data, size) == 0);
    free(again);
    pack_index_clear(&index);
    return 0;
}
