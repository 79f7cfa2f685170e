/* IDX files: those of Fashion-MNIST, whose first labels Zalando's own reader gives, and damaged ones. */
#include "alloc_fail.h"
#include "idx.h"
#include "file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include <cmocka.h>

#define HINT_AGAIN   "the file was damaged or not copied whole: copy or download it again"
#define GZIP_BITS    (15 + 16)
#define GZIP_TRAILER 8 /* CRC-32 and size of the data, 4 bytes each */

typedef struct bytes {
    unsigned char *data;
    size_t size;
} bytes;

static bytes bytes_golden(const char *name)
{
    bytes b;
    char path[FILE_PATH_MAX], *data = NULL;
    ckpt_error err = {0};
    if (path_join(path, GOLDEN_DIR, name, &err) || file_read_all(&data, &b.size, path, 16 << 20, &err))
        fail_msg("%s", err.message);
    b.data = (unsigned char *)data;
    return b;
}

static bytes bytes_gzipped(const void *data, size_t size)
{
    bytes b = {malloc(size + 1024), size + 1024};
    z_stream z = {0};
    assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, GZIP_BITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in = (Bytef *)(uintptr_t)data;
    z.avail_in = (uInt)size;
    z.next_out = b.data;
    z.avail_out = (uInt)b.size;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    b.size = z.total_out;
    deflateEnd(&z);
    return b;
}

static void assert_refused(const void *data, size_t size, unsigned rank, const char *message, const char *hint)
{
    idx file;
    ckpt_error err = {0};
    assert_int_equal(idx_parse(&file, data, size, "x", rank, &err), CKPT_EFORMAT);
    assert_string_equal(err.message, message);
    assert_string_equal(err.hint, hint);
    assert_null(file.data);
}

/* Two images of 1 x 3, two labels. */
static const unsigned char IMAGES[] = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 3, 10, 11, 12, 20, 21, 22};
static const unsigned char LABELS[] = {0, 0, 8, 1, 0, 0, 0, 2, 7, 9};

static void labels_are_those_of_the_data_set(void **state)
{
    static const unsigned char TRAIN[] = {9, 0, 0, 3, 0, 2, 7, 2, 5, 5}, TEST[] = {9, 2, 1, 1, 6, 1, 4, 6, 5, 7};
    idx train, test;
    (void)state;
    assert_int_equal(idx_read(&train, GOLDEN_DIR "/fashion-20/train-labels-idx1-ubyte", 1, NULL), 0);
    assert_int_equal(idx_read(&test, GOLDEN_DIR "/fashion-2000/t10k-labels-idx1-ubyte.gz", 1, NULL), 0);
    assert_int_equal(train.shape[0], 20);
    assert_int_equal(test.shape[0], 500);
    assert_memory_equal(train.data, TRAIN, sizeof TRAIN);
    assert_memory_equal(test.data, TEST, sizeof TEST);
    idx_clear(&train);
    idx_clear(&test);
}

static void images_have_their_shape_and_bytes(void **state)
{
    idx file;
    (void)state;
    assert_int_equal(idx_parse(&file, IMAGES, sizeof IMAGES, "x", 3, NULL), 0);
    assert_int_equal(file.rank, 3);
    assert_int_equal(file.shape[0], 2);
    assert_int_equal(file.shape[1], 1);
    assert_int_equal(file.shape[2], 3);
    assert_memory_equal(file.data, IMAGES + 16, 6);
    idx_clear(&file);
}

static void a_gz_gives_the_bytes_of_the_plain_file(void **state)
{
    idx plain, packed;
    (void)state;
    assert_int_equal(idx_read(&plain, GOLDEN_DIR "/fashion-20/train-images-idx3-ubyte", 3, NULL), 0);
    assert_int_equal(idx_read(&packed, GOLDEN_DIR "/fashion-2000/train-images-idx3-ubyte.gz", 3, NULL), 0);
    assert_int_equal(packed.shape[0], 2000);
    assert_int_equal(packed.shape[1], 28);
    assert_int_equal(packed.shape[2], 28);
    assert_memory_equal(packed.data, plain.data, (size_t)20 * 28 * 28);
    idx_clear(&plain);
    idx_clear(&packed);
}

static void members_of_a_gz_are_read_one_behind_the_other(void **state)
{
    bytes first = bytes_gzipped(IMAGES, 9), second = bytes_gzipped(IMAGES + 9, sizeof IMAGES - 9);
    unsigned char both[2048];
    idx file;
    (void)state;
    memcpy(both, first.data, first.size);
    memcpy(both + first.size, second.data, second.size);
    assert_int_equal(idx_parse(&file, both, first.size + second.size, "x", 3, NULL), 0);
    assert_memory_equal(file.data, IMAGES + 16, 6);
    idx_clear(&file);
    free(first.data);
    free(second.data);
}

static void a_wrong_magic_is_refused(void **state)
{
    (void)state;
    assert_refused("<html>", 6, 3, "x: no IDX file of images: begins with 3c 68 74 6d, not 00 00 08 03",
                   "is this the right file? MNIST's four files are named train-images-idx3-ubyte, "
                   "train-labels-idx1-ubyte, t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte");
}

static void elements_that_are_no_bytes_are_refused(void **state)
{
    static const unsigned char FLOATS[] = {0, 0, 13, 1, 0, 0, 0, 1, 0, 0, 0, 0};
    ckpt_error err = {0};
    idx file;
    (void)state;
    assert_int_equal(idx_parse(&file, FLOATS, sizeof FLOATS, "x", 1, &err), CKPT_EFORMAT);
    assert_string_equal(err.message, "x: no IDX file of labels: begins with 00 00 0d 01, not 00 00 08 01");
}

static void exchanged_files_are_refused(void **state)
{
    static const char HINT[] = "images have 3 dimensions and labels 1: were two files exchanged?";
    (void)state;
    assert_refused(LABELS, sizeof LABELS, 3, "x: no IDX file of images: begins with 00 00 08 01, not 00 00 08 03",
                   HINT);
    assert_refused(IMAGES, sizeof IMAGES, 1, "x: no IDX file of labels: begins with 00 00 08 03, not 00 00 08 01",
                   HINT);
}

static void a_file_that_ends_in_its_header_is_refused(void **state)
{
    (void)state;
    for (size_t size = 0; size < 16; size++)
        assert_refused(IMAGES, size, 3, "x: ends inside of its header", HINT_AGAIN);
}

static void missing_and_left_over_bytes_are_refused(void **state)
{
    unsigned char longer[sizeof IMAGES + 1] = {0};
    (void)state;
    memcpy(longer, IMAGES, sizeof IMAGES);
    assert_refused(longer, sizeof longer, 3, "x: bytes are left over behind the 6 that its header tells of",
                   HINT_AGAIN);
    assert_refused(IMAGES, sizeof IMAGES - 1, 3, "x: ends after 5 of 6 bytes of data", HINT_AGAIN);
}

static void missing_and_left_over_bytes_in_a_gz_are_refused(void **state)
{
    unsigned char longer[sizeof IMAGES + 1] = {0};
    (void)state;
    memcpy(longer, IMAGES, sizeof IMAGES);
    bytes more = bytes_gzipped(longer, sizeof longer), less = bytes_gzipped(IMAGES, sizeof IMAGES - 1);
    assert_refused(more.data, more.size, 3, "x: bytes are left over behind the 6 that its header tells of", HINT_AGAIN);
    assert_refused(less.data, less.size, 3, "x: ends after 5 of 6 bytes of data", HINT_AGAIN);
    free(more.data);
    free(less.data);
}

static void sizes_out_of_range_are_refused(void **state)
{
    static const unsigned char NONE[] = {0, 0, 8, 1, 0, 0, 0, 0}, MANY[] = {0, 0, 8, 1, 1, 0, 0, 1},
                               WIDE[] = {0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 1, 0, 1, 0, 1},
                               ALL[] = {0, 0, 8, 3, 1, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0};
    (void)state;
    assert_refused(NONE, sizeof NONE, 1, "x: size 0 of dimension 1 is not from 1 to 16777216", HINT_AGAIN);
    assert_refused(MANY, sizeof MANY, 1, "x: size 16777217 of dimension 1 is not from 1 to 16777216", HINT_AGAIN);
    assert_refused(WIDE, sizeof WIDE, 3, "x: size 65537 of dimension 3 is not from 1 to 65536", HINT_AGAIN);
    assert_refused(ALL, sizeof ALL, 3, "x: more than 17179869184 bytes", HINT_AGAIN);
}

/* 2^24 labels: more than deflate can make of so few bytes. */
static void what_a_gz_cannot_hold_is_not_allocated(void **state)
{
    static const unsigned char BOMB[] = {0, 0, 8, 1, 1, 0, 0, 0, 1};
    bytes packed = bytes_gzipped(BOMB, sizeof BOMB);
    char message[80];
    (void)state;
    snprintf(message, sizeof message, "x: holds at most %zu of 16777216 bytes of data", 1032 * packed.size - 8);
    assert_refused(packed.data, packed.size, 1, message, HINT_AGAIN);
    free(packed.data);
}

static void a_gz_that_is_cut_off_anywhere_is_refused(void **state)
{
    bytes file = bytes_golden("fashion-2000/t10k-labels-idx1-ubyte.gz");
    (void)state;
    for (size_t size = 2; size < file.size; size++) {
        unsigned char *const cut = malloc(size); /* so that a sanitizer sees a read past the end */
        memcpy(cut, file.data, size);
        assert_refused(cut, size, 1, "x: packed data end early", HINT_AGAIN);
        free(cut);
    }
    free(file.data);
}

static void a_gz_that_fails_its_check_is_refused(void **state)
{
    bytes file = bytes_golden("fashion-2000/t10k-labels-idx1-ubyte.gz");
    (void)state;
    file.data[file.size - GZIP_TRAILER] ^= 1;
    assert_refused(file.data, file.size, 1, "x: packed data are damaged: incorrect data check", HINT_AGAIN);
    file.data[file.size - GZIP_TRAILER] ^= 1;
    file.data[file.size - 1] ^= 1;
    assert_refused(file.data, file.size, 1, "x: packed data are damaged: incorrect length check", HINT_AGAIN);
    free(file.data);
}

static void no_flipped_bit_of_a_gz_gives_other_labels(void **state)
{
    bytes file = bytes_golden("fashion-2000/t10k-labels-idx1-ubyte.gz");
    idx whole, flipped;
    (void)state;
    assert_int_equal(idx_parse(&whole, file.data, file.size, "x", 1, NULL), 0);
    for (size_t bit = 0; bit < 8 * file.size; bit++) {
        file.data[bit / 8] ^= (unsigned char)(1u << bit % 8);
        if (idx_parse(&flipped, file.data, file.size, "x", 1, NULL) == 0)
            assert_memory_equal(flipped.data, whole.data, 500); /* a bit of the time, say */
        idx_clear(&flipped);
        file.data[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
    idx_clear(&whole);
    free(file.data);
}

static void bytes_behind_a_gz_are_refused(void **state)
{
    bytes file = bytes_gzipped(LABELS, sizeof LABELS);
    (void)state;
    memcpy(file.data + file.size, "behind", 6);
    assert_refused(file.data, file.size + 6, 1, "x: packed data are followed by other bytes", HINT_AGAIN);
    free(file.data);
}

static void a_missing_file_is_not_found(void **state)
{
    idx file;
    ckpt_error err = {0};
    (void)state;
    assert_int_equal(idx_read(&file, GOLDEN_DIR "/fashion-20/none", 1, &err), CKPT_ENOTFOUND);
    assert_null(file.data);
}

static void each_allocation_that_fails_is_survived(void **state)
{
    bytes file = bytes_golden("fashion-2000/t10k-labels-idx1-ubyte.gz");
    idx out = {0};
    long at = 0;
    bool failed = ALLOC_FAIL_WORKS;
    (void)state;
    while (failed) {
        alloc_fail_arm(++at);
        const int rc = idx_parse(&out, file.data, file.size, "x", 1, NULL);
        failed = alloc_fail_disarm();
        assert_int_equal(rc, failed ? CKPT_ENOMEM : 0);
        assert_true(failed == !out.data);
        idx_clear(&out);
    }
    assert_true(!ALLOC_FAIL_WORKS || at > 3); /* the stream, zlib's state and window, the labels */
    free(file.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(labels_are_those_of_the_data_set),
        cmocka_unit_test(images_have_their_shape_and_bytes),
        cmocka_unit_test(a_gz_gives_the_bytes_of_the_plain_file),
        cmocka_unit_test(members_of_a_gz_are_read_one_behind_the_other),
        cmocka_unit_test(a_wrong_magic_is_refused),
        cmocka_unit_test(elements_that_are_no_bytes_are_refused),
        cmocka_unit_test(exchanged_files_are_refused),
        cmocka_unit_test(a_file_that_ends_in_its_header_is_refused),
        cmocka_unit_test(missing_and_left_over_bytes_are_refused),
        cmocka_unit_test(missing_and_left_over_bytes_in_a_gz_are_refused),
        cmocka_unit_test(sizes_out_of_range_are_refused),
        cmocka_unit_test(what_a_gz_cannot_hold_is_not_allocated),
        cmocka_unit_test(a_gz_that_is_cut_off_anywhere_is_refused),
        cmocka_unit_test(a_gz_that_fails_its_check_is_refused),
        cmocka_unit_test(no_flipped_bit_of_a_gz_gives_other_labels),
        cmocka_unit_test(bytes_behind_a_gz_are_refused),
        cmocka_unit_test(a_missing_file_is_not_found),
        cmocka_unit_test(each_allocation_that_fails_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
