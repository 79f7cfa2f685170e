/* HDF5 files as a whole. */
#include "fuzz_tensor_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    check_format(&FORMAT_HDF5, data, size);
    return 0;
}
