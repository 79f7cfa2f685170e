/* mnist.npz: archives that NumPy wrote, damaged ones, and arrays that are no data set. What the whole ones hold is what
 * the IDX files of the same samples hold. */
#include "alloc_fail.h"
#include "bytes.h"
#include "file.h"
#include "idx.h"
#include "npz_mnist.h"
#include "zipdir.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include <cmocka.h>

#define FOLDER     GOLDEN_DIR "/fashion-20/"
#define HINT_AGAIN "the file was damaged or is another one: copy or download it again"

/* ---- Archives in memory: stored members, made here ---- */

#define ARCHIVE_SIZE 4096
#define LOCAL_SIZE   30
#define CENTRAL_SIZE 46
#define END_SIZE     22
#define NPY_SIZE     512

typedef struct archive {
    size_t size, directory_size;
    uint16_t count;
    unsigned char bytes[ARCHIVE_SIZE], directory[ARCHIVE_SIZE];
} archive;

/* `packed` is what stands in the archive for `size` bytes with that check. */
static void member_add_packed(archive *a, const char *name, uint16_t method, const void *packed, size_t packed_size,
                              uint32_t crc, size_t size)
{
    unsigned char local[LOCAL_SIZE] = "PK\3\4", central[CENTRAL_SIZE] = "PK\1\2";
    const size_t name_size = strlen(name);
    assert_true(a->size + LOCAL_SIZE + name_size + packed_size + a->directory_size + END_SIZE < ARCHIVE_SIZE);
    store_u16(local + 8, method);
    store_u32(local + 14, crc);
    store_u32(local + 18, (uint32_t)packed_size);
    store_u32(local + 22, (uint32_t)size);
    store_u16(local + 26, (uint16_t)name_size);
    memcpy(central + 10, local + 8, 20);
    store_u32(central + 42, (uint32_t)a->size);
    memcpy(a->directory + a->directory_size, central, CENTRAL_SIZE);
    memcpy(a->directory + a->directory_size + CENTRAL_SIZE, name, name_size);
    a->directory_size += CENTRAL_SIZE + name_size;
    memcpy(a->bytes + a->size, local, LOCAL_SIZE);
    memcpy(a->bytes + a->size + LOCAL_SIZE, name, name_size);
    memcpy(a->bytes + a->size + LOCAL_SIZE + name_size, packed, packed_size);
    a->size += LOCAL_SIZE + name_size + packed_size;
    a->count++;
}

static void member_add(archive *a, const char *name, const void *data, size_t size)
{
    member_add_packed(a, name, ZIP_METHOD_STORED, data, size, crc32_of(0, data, size), size);
}

static void archive_end(archive *a)
{
    unsigned char end[END_SIZE] = "PK\5\6";
    store_u16(end + 8, a->count);
    store_u16(end + 10, a->count);
    store_u32(end + 12, (uint32_t)a->directory_size);
    store_u32(end + 16, (uint32_t)a->size);
    memcpy(a->bytes + a->size, a->directory, a->directory_size);
    memcpy(a->bytes + a->size + a->directory_size, end, END_SIZE);
    a->size += a->directory_size + END_SIZE;
}

/* The bytes of an array with the header `text`, to which a line's end is added; returns how many. */
static size_t npy_make(unsigned char out[NPY_SIZE], const char *text, size_t text_size, const void *data, size_t size)
{
    memcpy(out, "\x93NUMPY\1", 8);
    store_u16(out + 8, (uint16_t)(text_size + 1));
    memcpy(out + 10, text, text_size);
    out[10 + text_size] = '\n';
    memcpy(out + 11 + text_size, data, size);
    return 11 + text_size + size;
}

static void array_add(archive *a, const char *name, const char *text, const void *data, size_t size)
{
    unsigned char npy[NPY_SIZE];
    char member[32];
    const size_t npy_size = npy_make(npy, text, strlen(text), data, size);
    snprintf(member, sizeof member, "%s.npy", name);
    member_add(a, member, npy, npy_size);
}

#define IMAGES_HEAD "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 1, 3), }"
#define LABELS_HEAD "{'descr': '|u1', 'fortran_order': False, 'shape': (2,), }"

static const unsigned char IMAGES[6] = {1, 2, 3, 4, 5, 6}, LABELS[2] = {0, 9};

/* A whole archive but for one array of the training part. */
static void archive_with_images(archive *a, const char *head, const void *data, size_t size)
{
    *a = (archive){0};
    array_add(a, "x_train", head, data, size);
    array_add(a, "y_train", LABELS_HEAD, LABELS, sizeof LABELS);
    array_add(a, "x_test", IMAGES_HEAD, IMAGES, sizeof IMAGES);
    array_add(a, "y_test", LABELS_HEAD, LABELS, sizeof LABELS);
    archive_end(a);
}

static void archive_with_labels(archive *a, const char *head, const void *data, size_t size)
{
    *a = (archive){0};
    array_add(a, "x_train", IMAGES_HEAD, IMAGES, sizeof IMAGES);
    array_add(a, "y_train", head, data, size);
    array_add(a, "x_test", IMAGES_HEAD, IMAGES, sizeof IMAGES);
    array_add(a, "y_test", LABELS_HEAD, LABELS, sizeof LABELS);
    archive_end(a);
}

static void assert_refused(const archive *a, const char *message)
{
    dataset d;
    ckpt_error err = {0};
    assert_int_equal(npz_parse(&d, a->bytes, a->size, "x.npz", &err), CKPT_EFORMAT);
    assert_string_equal(err.message, message);
    assert_true(err.hint[0]);
    assert_null(d.train.images);
}

static void assert_images_refused(const char *head, size_t size, const char *message)
{
    static const unsigned char DATA[64] = {0};
    archive a;
    archive_with_images(&a, head, DATA, size);
    assert_refused(&a, message);
}

static void assert_train_labels(const char *head, const void *data, size_t size, unsigned first, unsigned second)
{
    archive a;
    dataset d;
    ckpt_error err = {0};
    archive_with_labels(&a, head, data, size);
    if (npz_parse(&d, a.bytes, a.size, "x.npz", &err))
        fail_msg("%s", err.message);
    assert_int_equal(d.train.labels[0], first);
    assert_int_equal(d.train.labels[1], second);
    dataset_clear(&d);
}

static void assert_label_refused(const char *head, const void *data, size_t size)
{
    archive a;
    archive_with_labels(&a, head, data, size);
    assert_refused(&a, "x.npz: y_train: the label at index 1 is not from 0 to 255");
}

/* ---- Archives by NumPy ---- */

static char *golden_read(size_t *size, const char *name)
{
    char path[FILE_PATH_MAX], *data;
    snprintf(path, sizeof path, FOLDER "%s", name);
    assert_int_equal(file_read_all(&data, size, path, 1 << 20, NULL), 0);
    return data;
}

static void assert_same_as_idx_files(const char *name)
{
    char path[FILE_PATH_MAX];
    dataset d;
    idx images, labels;
    ckpt_error err = {0};
    snprintf(path, sizeof path, FOLDER "%s", name);
    if (npz_read(&d, path, &err))
        fail_msg("%s", err.message);
    assert_int_equal(idx_read(&images, FOLDER "train-images-idx3-ubyte", 3, NULL), 0);
    assert_int_equal(idx_read(&labels, FOLDER "t10k-labels-idx1-ubyte", 1, NULL), 0);
    assert_int_equal(d.shape.height, 28);
    assert_int_equal(d.shape.width, 28);
    assert_int_equal(d.train.count, 20);
    assert_int_equal(d.test.count, 10);
    assert_memory_equal(d.train.images, images.data, 20 * 28 * 28);
    assert_memory_equal(d.test.labels, labels.data, 10);
    idx_clear(&images);
    idx_clear(&labels);
    dataset_clear(&d);
}

static void archives_of_numpy_hold_what_the_idx_files_hold(void **state)
{
    (void)state;
    assert_same_as_idx_files("stored.npz");
    assert_same_as_idx_files("compressed.npz");
    assert_same_as_idx_files("labels_i8.npz");
    assert_same_as_idx_files("labels_big_endian.npz");
}

static void labels_may_be_of_any_integer_type(void **state)
{
    static const unsigned char LITTLE[] = {3, 0, 0, 0, 255, 0, 0, 0}, BIG[] = {0, 3, 0, 255};
    static const unsigned char BYTES[] = {3, 127}, LONG[16] = {[0] = 3, [8] = 200};
    (void)state;
    assert_train_labels("{'descr': '<u4', 'fortran_order': False, 'shape': (2,), }", LITTLE, 8, 3, 255);
    assert_train_labels("{'descr': '>i2', 'fortran_order': False, 'shape': (2,), }", BIG, 4, 3, 255);
    assert_train_labels("{'descr': '|i1', 'fortran_order': False, 'shape': (2,), }", BYTES, 2, 3, 127);
    assert_train_labels("{'descr': '<i8', 'fortran_order': False, 'shape': (2,), }", LONG, 16, 3, 200);
}

static void labels_that_are_no_classes_are_refused(void **state)
{
    static const unsigned char LARGE[16] = {[9] = 1}, VAST[16] = {[12] = 1}, BIG[] = {0, 3, 1, 0};
    static const unsigned char MINUS[] = {3, 255}, MINUS_LONG[] = {3, 0, 0, 0, 255, 255, 255, 255};
    (void)state;
    assert_label_refused("{'descr': '<i8', 'fortran_order': False, 'shape': (2,), }", LARGE, 16);
    assert_label_refused("{'descr': '<u8', 'fortran_order': False, 'shape': (2,), }", VAST, 16);
    assert_label_refused("{'descr': '>u2', 'fortran_order': False, 'shape': (2,), }", BIG, 4);
    assert_label_refused("{'descr': '|i1', 'fortran_order': False, 'shape': (2,), }", MINUS, 2);
    assert_label_refused("{'descr': '<i4', 'fortran_order': False, 'shape': (2,), }", MINUS_LONG, 8);
}

static void fortrans_order_is_refused_with_a_way_out(void **state)
{
    dataset d;
    ckpt_error err = {0};
    (void)state;
    assert_int_equal(npz_read(&d, FOLDER "fortran.npz", &err), CKPT_EFORMAT);
    assert_string_equal(err.message, FOLDER "fortran.npz: x_test: is in Fortran's order");
    assert_string_equal(err.hint, "numpy.ascontiguousarray() gives an array in C's order");
}

static void arrays_of_another_type_or_shape_are_refused(void **state)
{
    (void)state;
    assert_images_refused("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1, 3), }", 24,
                          "x.npz: x_train: elements of type '<f4' are no integers");
    assert_images_refused("{'descr': '<u2', 'fortran_order': False, 'shape': (2, 1, 3), }", 12,
                          "x.npz: x_train: pixels are not unsigned bytes");
    assert_images_refused("{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3), }", 6,
                          "x.npz: x_train: has 2 dimensions, not 3");
    assert_images_refused("{'descr': '|u1', 'fortran_order': False, 'shape': (2, 0, 3), }", 0,
                          "x.npz: x_train: size 0 of dimension 2 is not from 1 to 65536");
    assert_images_refused("{'descr': '|u1', 'fortran_order': False, 'shape': (3, 1, 2), }", 6,
                          "x.npz: y_train: 2 labels for 3 images");
}

static void headers_that_numpy_does_not_write_are_refused(void **state)
{
    static const char MESSAGE[] = "x.npz: x_train: header is not as NumPy writes it, or not of plain numbers";
    (void)state;
    assert_images_refused("", 6, MESSAGE);
    assert_images_refused("{'descr': '|u1', 'fortran_order': False, 'shape': (2, 1, 3), 'more': 1}", 6, MESSAGE);
    assert_images_refused("{'descr': '|u1', 'fortran_order': False, 'shape': (2, 1, 3), } behind", 6, MESSAGE);
    assert_images_refused("{'descr': '|u1', 'fortran_order': False, 'shape': (2, 1, -3), }", 6, MESSAGE);
    assert_images_refused("{'descr': '|u1', 'fortran_order': False, 'shape': (1, 1, 1, 2, 3), }", 6, MESSAGE);
    assert_images_refused("{'descr': '|u1', 'fortran_order': False, 'shape': (18446744073709551617, 1, 3), }", 6,
                          MESSAGE);
    assert_images_refused("{'descr': [('a', '|u1')], 'fortran_order': False, 'shape': (2, 1, 3), }", 6, MESSAGE);
    assert_images_refused("{'descr': '|u1', 'fortran_order': None, 'shape': (2, 1, 3), }", 6, MESSAGE);
}

static void bytes_behind_the_line_of_a_header_are_refused(void **state)
{
    static const char HEAD[] = IMAGES_HEAD "\n\0more";
    unsigned char npy[NPY_SIZE];
    archive a = {0};
    (void)state;
    assert_images_refused(IMAGES_HEAD "\nmore", 6,
                          "x.npz: x_train: header is not as NumPy writes it, or not of plain numbers");
    member_add(&a, "x_train.npy", npy, npy_make(npy, HEAD, sizeof HEAD - 1, IMAGES, sizeof IMAGES));
    archive_end(&a);
    assert_refused(&a, "x.npz: x_train: header is not as NumPy writes it, or not of plain numbers");
}

static void bytes_behind_the_end_of_deflated_data_are_refused(void **state)
{
    unsigned char npy[NPY_SIZE], packed[NPY_SIZE] = {0};
    const size_t size = npy_make(npy, IMAGES_HEAD, strlen(IMAGES_HEAD), IMAGES, sizeof IMAGES);
    archive a = {0};
    z_stream z = {0};
    (void)state;
    assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in = npy;
    z.avail_in = (uInt)size;
    z.next_out = packed;
    z.avail_out = sizeof packed - 1;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    member_add_packed(&a, "x_train.npy", ZIP_METHOD_DEFLATE, packed, z.total_out + 1, crc32_of(0, npy, size), size);
    deflateEnd(&z);
    archive_end(&a);
    assert_refused(&a, "x.npz: x_train: packed data are followed by other bytes");
}

static void a_member_packed_by_another_method_is_refused(void **state)
{
    archive a = {0};
    (void)state;
    member_add_packed(&a, "x_train.npy", 14, "packed", 6, 1, 100);
    archive_end(&a);
    assert_refused(&a, "x.npz: x_train: is packed by method 14, which is not known");
}

static void missing_and_left_over_bytes_are_refused(void **state)
{
    (void)state;
    assert_images_refused(IMAGES_HEAD, 5, "x.npz: x_train: ends early");
    assert_images_refused(IMAGES_HEAD, 7, "x.npz: x_train: bytes are left over behind its elements");
}

static void an_array_that_is_missing_or_there_twice_is_named(void **state)
{
    archive a = {0};
    (void)state;
    array_add(&a, "x_train", IMAGES_HEAD, IMAGES, sizeof IMAGES);
    archive_end(&a);
    assert_refused(&a, "x.npz: has no array y_train");

    a = (archive){0};
    array_add(&a, "x_train", IMAGES_HEAD, IMAGES, sizeof IMAGES);
    array_add(&a, "x_train", IMAGES_HEAD, IMAGES, sizeof IMAGES);
    archive_end(&a);
    assert_refused(&a, "x.npz: has more than one array x_train");
}

static void a_member_that_is_no_array_is_refused(void **state)
{
    archive a = {0}, b = {0};
    (void)state;
    member_add(&a, "x_train.npy", "no array at all", 15);
    archive_end(&a);
    assert_refused(&a, "x.npz: x_train: is no .npy array");
    member_add(&b, "x_train.npy", "\x93NUMPY\3\0 and so on", 18);
    archive_end(&b);
    assert_refused(&b, "x.npz: x_train: version 3.0 of .npy is unknown");
}

static void images_of_two_sizes_are_refused(void **state)
{
    archive a;
    (void)state;
    archive_with_images(&a, "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3, 1), }", IMAGES, sizeof IMAGES);
    assert_refused(&a, "x.npz: images of x_train are 3 x 1, those of x_test 1 x 3");
}

static void no_flipped_bit_gives_other_data(void **state)
{
    size_t size;
    char *const bytes = golden_read(&size, "compressed.npz");
    dataset whole, flipped;
    (void)state;
    assert_int_equal(npz_parse(&whole, bytes, size, "x", NULL), 0);
    for (size_t at = 0; at < size; at += 7) {
        bytes[at] = (char)(bytes[at] ^ 1 << at % 8);
        if (npz_parse(&flipped, bytes, size, "x", NULL) == 0) {
            assert_int_equal(flipped.train.count, 20);
            assert_memory_equal(flipped.train.images, whole.train.images, 20 * 28 * 28);
            assert_memory_equal(flipped.test.labels, whole.test.labels, 10);
        }
        dataset_clear(&flipped);
        bytes[at] = (char)(bytes[at] ^ 1 << at % 8);
    }
    dataset_clear(&whole);
    free(bytes);
}

static void a_stored_member_that_fails_its_check_is_refused(void **state)
{
    size_t size;
    char *const bytes = golden_read(&size, "stored.npz");
    dataset d;
    ckpt_error err = {0};
    (void)state;
    bytes[5000] ^= 1; /* a pixel */
    assert_int_equal(npz_parse(&d, bytes, size, "x", &err), CKPT_EFORMAT);
    assert_string_equal(err.message, "x: x_train: fails its check (CRC-32)");
    assert_string_equal(err.hint, HINT_AGAIN);
    free(bytes);
}

static void an_archive_that_is_cut_off_is_refused(void **state)
{
    size_t size;
    char *const bytes = golden_read(&size, "stored.npz");
    dataset d;
    ckpt_error err = {0};
    (void)state;
    assert_int_equal(npz_parse(&d, bytes, size - 1, "x", &err), CKPT_EFORMAT);
    assert_string_equal(err.message, "x: no end record of a zip archive");
    assert_string_equal(err.hint, HINT_AGAIN);
    free(bytes);
}

static void each_allocation_that_fails_is_survived(void **state)
{
    size_t size;
    char *const bytes = golden_read(&size, "compressed.npz");
    dataset d;
    long at = 0;
    bool failed = ALLOC_FAIL_WORKS;
    (void)state;
    while (failed) {
        alloc_fail_arm(++at);
        const int rc = npz_parse(&d, bytes, size, "x", NULL);
        failed = alloc_fail_disarm();
        assert_int_equal(rc, failed ? CKPT_ENOMEM : 0);
        assert_true(failed == !d.train.images);
        dataset_clear(&d);
    }
    assert_true(!ALLOC_FAIL_WORKS || at > 12);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(archives_of_numpy_hold_what_the_idx_files_hold),
        cmocka_unit_test(labels_may_be_of_any_integer_type),
        cmocka_unit_test(labels_that_are_no_classes_are_refused),
        cmocka_unit_test(fortrans_order_is_refused_with_a_way_out),
        cmocka_unit_test(arrays_of_another_type_or_shape_are_refused),
        cmocka_unit_test(headers_that_numpy_does_not_write_are_refused),
        cmocka_unit_test(bytes_behind_the_line_of_a_header_are_refused),
        cmocka_unit_test(bytes_behind_the_end_of_deflated_data_are_refused),
        cmocka_unit_test(a_member_packed_by_another_method_is_refused),
        cmocka_unit_test(missing_and_left_over_bytes_are_refused),
        cmocka_unit_test(an_array_that_is_missing_or_there_twice_is_named),
        cmocka_unit_test(a_member_that_is_no_array_is_refused),
        cmocka_unit_test(images_of_two_sizes_are_refused),
        cmocka_unit_test(no_flipped_bit_gives_other_data),
        cmocka_unit_test(a_stored_member_that_fails_its_check_is_refused),
        cmocka_unit_test(an_archive_that_is_cut_off_is_refused),
        cmocka_unit_test(each_allocation_that_fails_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
