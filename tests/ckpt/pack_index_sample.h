/* Tables of every kind, all right: three frames in this pack and another one, a file with tensors, a folder, a link. */
#ifndef TESTS_PACK_INDEX_SAMPLE_H
#define TESTS_PACK_INDEX_SAMPLE_H

#include "pack.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static inline uint32_t string(pack_index *index, const char *text)
{
    uint32_t at = 0;
    assert_int_equal(pack_index_add_string(&at, index, text, NULL), 0);
    return at;
}

static inline void add_frames(pack_index *index)
{
    uint32_t at = 0, other = 0;
    const sha256 pack_name = {{0xaa}}, key_hash = {{1}}, delta_hash = {{2}};
    assert_int_equal(pack_index_add_pack(&other, index, &pack_name, NULL), 0);
    pack_frame frame = {.offset = 16,
                        .size = CODEC_CHUNK_BYTES + 100,
                        .reference_pack = PACK_NONE,
                        .class_name = string(index, "weights"),
                        .dtype = CKPT_F32,
                        .kind = FRAME_TENSOR,
                        .level = 3,
                        .hash = key_hash};
    assert_int_equal(pack_index_add_frame(&at, index, &frame, NULL), 0);
    frame = (pack_frame){.offset = 160,
                         .size = 24,
                         .chunk_first = 2,
                         .reference_frame = 0,
                         .depth = 1,
                         .hash = delta_hash,
                         .reference_hash = key_hash};
    assert_int_equal(pack_index_add_frame(&at, index, &frame, NULL), 0);
    frame =
        (pack_frame){.offset = 170, .size = 8, .chunk_first = 3, .reference_pack = 1, .reference_frame = 7, .depth = 8};
    assert_int_equal(pack_index_add_frame(&at, index, &frame, NULL), 0);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(pack_index_add_chunk(&at, index, &(pack_chunk){10 + i, 0x1111111111111111u * i}, NULL), 0);
}

static inline void add_tensors(pack_index *index)
{
    uint32_t at = 0;
    pack_tensor tensor = {
        .name = string(index, "conv1.weight"), .dtype = CKPT_F32, .rank = 2, .offset = 8, .span_bytes = 2 * 3 * 4};
    assert_int_equal(pack_index_add_tensor(&at, index, &tensor, NULL), 0);
    /* Elements of [3][2] with strides 1, 3 reach to element 2 * 1 + 1 * 3 = 5, the sixth. */
    tensor = (pack_tensor){.name = string(index, "conv1.weight.t"),
                           .dim_first = 2,
                           .dtype = CKPT_F32,
                           .rank = 2,
                           .flags = 1,
                           .offset = 8,
                           .span_bytes = 6 * 4};
    assert_int_equal(pack_index_add_tensor(&at, index, &tensor, NULL), 0);
    static const uint64_t DIMS[] = {2, 3, 3, 2, 1, 3};
    for (size_t i = 0; i < sizeof DIMS / sizeof *DIMS; i++)
        assert_int_equal(pack_index_add_dim(&at, index, DIMS[i], NULL), 0);
    const pack_value value = {string(index, "format"), string(index, "pt")};
    assert_int_equal(pack_index_add_value(&at, index, &value, NULL), 0);
}

/* run/model.pt of 132 bytes in two extents, with two tensors; the folder run; run/last -> model.pt. */
static inline void add_files(pack_index *index)
{
    uint32_t at = 0;
    const pack_extent here = {.size = 32, .frame_offset = 64, .hash = {7, 8}};
    const pack_extent elsewhere = {.size = 100, .frame_offset = 5, .pack = 1, .frame = 3};
    assert_int_equal(pack_index_add_extent(&at, index, &here, NULL), 0);
    assert_int_equal(pack_index_add_extent(&at, index, &elsewhere, NULL), 0);

    pack_file file = {.path = string(index, "run/model.pt"),
                      .format = string(index, "torch"),
                      .mode = 0640,
                      .size = 132,
                      .extent_count = 2,
                      .tensor_count = 2,
                      .value_count = 1};
    for (int i = 0; i < SHA256_SIZE; i++)
        file.hash.bytes[i] = (unsigned char)i;
    assert_int_equal(pack_index_add_file(&at, index, &file, NULL), 0);
    file = (pack_file){.path = string(index, "run"), .mode = 0755, .kind = CKPT_FOLDER};
    assert_int_equal(pack_index_add_file(&at, index, &file, NULL), 0);
    file = (pack_file){
        .path = string(index, "run/last"), .link = string(index, "model.pt"), .mode = 0777, .kind = CKPT_LINK};
    assert_int_equal(pack_index_add_file(&at, index, &file, NULL), 0);
}

static inline pack_index sample(void)
{
    pack_index index = {0};
    add_frames(&index);
    add_tensors(&index);
    add_files(&index);
    return index;
}

#endif
