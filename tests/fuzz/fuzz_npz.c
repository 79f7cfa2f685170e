/* .npz archives as a whole, and their compressed members. */
#include "fuzz_tensor_file.h"

#include "npy.h"
#include "zip_member.h"

static void check_packed(const uint8_t *data, size_t size)
{
    byte_source source, member;
    tensor_file ignored = {0};
    zip_dir dir = {0};

    byte_source_memory(&source, data, size, "input");
    if (zip_member_directory(&dir, &ignored, &source, NULL) == 0)
        for (size_t i = 0; i < dir.count; i++) {
            unsigned char *unpacked = NULL;
            tensor_view view = {0};
            if (zip_member_unpack(&unpacked, &dir.entries[i], &source, NULL))
                continue;
            byte_source_memory(&member, unpacked, dir.entries[i].size, "member");
            if (npy_view(&view, &member, 0, dir.entries[i].size, NULL) == 0)
                CHECK(view.offset <= member.size && view.span_bytes <= member.size - view.offset);
            free(unpacked);
        }
    zip_dir_clear(&dir);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    check_format(&FORMAT_NPZ, data, size);
    check_packed(data, size);
    return 0;
}
