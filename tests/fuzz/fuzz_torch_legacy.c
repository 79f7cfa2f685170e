/* PyTorch files from before 1.6 as a whole. */
#include "fuzz_tensor_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    check_format(&FORMAT_TORCH_LEGACY, data, size);
    return 0;
}
