/* What every caller of a tensor format relies on, for the fuzz targets of the formats. */
#ifndef TESTS_FUZZ_TENSOR_FILE_H
#define TESTS_FUZZ_TENSOR_FILE_H

#include "fuzz.h"

#include "tensor_file.h"

static inline void check_extents(const tensor_file *file, uint64_t size)
{
    extent *extents;
    size_t count;
    uint64_t end = 0;
    CHECK(extents_make(&extents, &count, file, size, NULL) == 0);
    for (size_t i = 0; i < count; i++) {
        CHECK(extents[i].offset == end && extents[i].size > 0 && extents[i].size <= size - end);
        CHECK(extents[i].tensor >= -1 && extents[i].tensor < (int64_t)file->count);
        end += extents[i].size;
    }
    CHECK(end == size);
    free(extents);
}

static inline void check_view(const tensor_view *view, uint64_t size)
{
    char class_name[64];
    uint64_t bytes;
    CHECK(view->rank <= CKPT_RANK_MAX);
    CHECK(view->offset <= size && view->span_bytes <= size - view->offset);
    CHECK(tensor_view_bytes(&bytes, view) && bytes <= size);
    CHECK(tensor_name_valid(view->name));
    CHECK(*tensor_name_canonical(view->name));
    tensor_class_of(class_name, view->name);
    CHECK(class_name[0]);
}

/* Parses the input by the format, whatever its probe says: it is refused with a reason, or what it gives can be used.
 */
static inline void check_format(const tensor_format *format, const uint8_t *data, size_t size)
{
    byte_source source;
    tensor_file file = {0};
    ckpt_error err = {0};

    byte_source_memory(&source, data, size, "input");
    const int rc = format->parse(&file, &source, &err);
    CHECK(rc == 0 || rc == CKPT_EFORMAT || rc == CKPT_ENOTFOUND);
    CHECK(rc == err.code && (rc == 0 || err.message[0]));
    for (size_t i = 0; rc == 0 && i < file.count; i++)
        check_view(&file.tensors[i], size);
    if (rc == 0)
        check_extents(&file, size);
    tensor_file_clear(&file);
}

#endif
