/* Data sets: found and put together, and told from what is none. Expected digests: Python's hashlib over what NumPy has
 * (tests/golden/fashion-2000/make_fashion.py). */
#include "alloc_fail.h"
#include "dataset.h"
#include "file.h"
#include "temp_dir.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define DIGEST_20   "15887378d65f7273855f3080f437c0d8a21c3917d8c68f4b712070733f4c0d76"
#define DIGEST_2000 "e2c6d033e6b2fded516f9f7e8194b49dc0b3eac5559844396200776fb942649a"
#define HINT_DEBIAN                                                                                                    \
    "Fashion-MNIST is in Debian's package dataset-fashion-mnist, its files in /usr/share/datasets/fashion-mnist"

static char dir[TEMP_PATH_MAX];

static int dir_setup(void **state)
{
    (void)state;
    return temp_dir_make(dir);
}

static int dir_teardown(void **state)
{
    (void)state;
    return temp_dir_remove(dir);
}

static void file_put(const char *name, const void *data, size_t size)
{
    char path[FILE_PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *const file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static void file_copy(const char *name, const char *golden)
{
    char path[FILE_PATH_MAX], *data;
    size_t size;
    snprintf(path, sizeof path, "%s/%s", GOLDEN_DIR, golden);
    assert_int_equal(file_read_all(&data, &size, path, 16 << 20, NULL), 0);
    file_put(name, data, size);
    free(data);
}

/* The plain files of 20 and 10 samples. */
static void files_copy(void)
{
    file_copy("train-images-idx3-ubyte", "fashion-20/train-images-idx3-ubyte");
    file_copy("train-labels-idx1-ubyte", "fashion-20/train-labels-idx1-ubyte");
    file_copy("t10k-images-idx3-ubyte", "fashion-20/t10k-images-idx3-ubyte");
    file_copy("t10k-labels-idx1-ubyte", "fashion-20/t10k-labels-idx1-ubyte");
}

static void assert_digest(const char *path, const char *digest)
{
    dataset *d;
    ckpt_error err = {0};
    if (dataset_open(&d, path, 10, &err))
        fail_msg("%s", err.message);
    assert_string_equal(d->digest, digest);
    dataset_free(d);
}

/* `message` goes on behind the folder's path. */
static void assert_refused(const char *path, size_t classes, int code, const char *message, const char *hint)
{
    dataset *d;
    ckpt_error err = {0};
    char expected[2048];
    assert_int_equal(dataset_open(&d, path, classes, &err), code);
    snprintf(expected, sizeof expected, "%s%s", dir, message);
    assert_string_equal(err.message, expected);
    assert_string_equal(err.hint, hint);
    assert_null(d);
}

static void four_files_make_a_data_set(void **state)
{
    dataset *d;
    (void)state;
    assert_int_equal(dataset_open(&d, GOLDEN_DIR "/fashion-2000", 10, NULL), 0);
    assert_int_equal(d->shape.channels, 1);
    assert_int_equal(d->shape.height, 28);
    assert_int_equal(d->shape.width, 28);
    assert_int_equal(d->classes, 10);
    assert_int_equal(d->train.count, 2000);
    assert_int_equal(d->test.count, 500);
    assert_string_equal(d->digest, DIGEST_2000);
    dataset_free(d);
}

static void the_digest_is_the_same_however_the_files_are_packed(void **state)
{
    (void)state;
    assert_digest(GOLDEN_DIR "/fashion-20", DIGEST_20);
    assert_digest(GOLDEN_DIR "/fashion-20/stored.npz", DIGEST_20);
    assert_digest(GOLDEN_DIR "/fashion-20/compressed.npz", DIGEST_20);
}

static void the_digest_does_not_depend_on_classes(void **state)
{
    dataset *d;
    (void)state;
    assert_int_equal(dataset_open(&d, GOLDEN_DIR "/fashion-20", 256, NULL), 0);
    assert_string_equal(d->digest, DIGEST_20);
    dataset_free(d);
}

static void one_of_the_four_files_stands_for_its_folder(void **state)
{
    (void)state;
    assert_digest(GOLDEN_DIR "/fashion-20/t10k-labels-idx1-ubyte", DIGEST_20);
    assert_digest(GOLDEN_DIR "/fashion-2000/train-images-idx3-ubyte.gz", DIGEST_2000);
}

static void a_folder_with_mnist_npz_is_a_data_set(void **state)
{
    (void)state;
    file_copy("mnist.npz", "fashion-20/compressed.npz");
    assert_digest(dir, DIGEST_20);
}

static void names_of_other_unpackers_are_found(void **state)
{
    (void)state;
    file_copy("train-images.idx3-ubyte", "fashion-20/train-images-idx3-ubyte");
    file_copy("train-labels.idx1-ubyte", "fashion-20/train-labels-idx1-ubyte");
    file_copy("t10k-images.idx3-ubyte", "fashion-20/t10k-images-idx3-ubyte");
    file_copy("t10k-labels-idx1-ubyte", "fashion-20/t10k-labels-idx1-ubyte");
    assert_digest(dir, DIGEST_20);
}

static void a_gz_is_known_by_its_bytes_and_not_by_its_name(void **state)
{
    (void)state;
    file_copy("train-images-idx3-ubyte", "fashion-2000/train-images-idx3-ubyte.gz");
    file_copy("train-labels-idx1-ubyte", "fashion-2000/train-labels-idx1-ubyte.gz");
    file_copy("t10k-images-idx3-ubyte", "fashion-2000/t10k-images-idx3-ubyte.gz");
    file_copy("t10k-labels-idx1-ubyte.gz", "fashion-2000/t10k-labels-idx1-ubyte.gz");
    assert_digest(dir, DIGEST_2000);
}

static void an_empty_folder_is_told_what_was_looked_for(void **state)
{
    (void)state;
    assert_refused(dir, 10, CKPT_ENOTFOUND,
                   ": no data set: neither train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte, "
                   "t10k-labels-idx1-ubyte (plain or .gz) nor mnist.npz",
                   HINT_DEBIAN);
}

static void files_that_are_missing_are_named(void **state)
{
    (void)state;
    file_copy("train-images-idx3-ubyte.gz", "fashion-2000/train-images-idx3-ubyte.gz");
    file_copy("t10k-images-idx3-ubyte", "fashion-20/t10k-images-idx3-ubyte");
    assert_refused(dir, 10, CKPT_ENOTFOUND,
                   ": missing of the four files of a data set: train-labels-idx1-ubyte, t10k-labels-idx1-ubyte "
                   "(plain or .gz)",
                   HINT_DEBIAN);
}

static void a_path_that_does_not_exist_is_not_found(void **state)
{
    dataset *d;
    ckpt_error err = {0};
    (void)state;
    assert_int_equal(dataset_open(&d, GOLDEN_DIR "/none", 10, &err), CKPT_ENOTFOUND);
    assert_string_equal(err.message, "data set " GOLDEN_DIR "/none: no such file or directory");
    assert_string_equal(err.hint, HINT_DEBIAN);
    assert_null(d);
}

static void another_file_is_no_data_set(void **state)
{
    char path[FILE_PATH_MAX];
    (void)state;
    file_put("notes.txt", "hello", 5);
    snprintf(path, sizeof path, "%s/notes.txt", dir);
    assert_refused(path, 10, CKPT_EFORMAT,
                   "/notes.txt: no data set: neither a folder, nor an .npz, nor one of MNIST's four files",
                   HINT_DEBIAN);
}

static void too_few_labels_are_refused(void **state)
{
    (void)state;
    files_copy();
    file_copy("train-labels-idx1-ubyte", "fashion-20/t10k-labels-idx1-ubyte");
    assert_refused(dir, 10, CKPT_EFORMAT,
                   "/train-labels-idx1-ubyte: 10 labels, but 20 images in train-images-idx3-ubyte",
                   "images and labels of one part belong together: get both again from the same place");
}

static void a_label_out_of_range_is_told_with_its_place(void **state)
{
    static const unsigned char LABELS[] = {0, 0, 8, 1, 0, 0, 0, 10, 9, 2, 1, 1, 6, 10, 4, 6, 5, 7};
    (void)state;
    files_copy();
    file_put("t10k-labels-idx1-ubyte", LABELS, sizeof LABELS);
    assert_refused(dir, 10, CKPT_EFORMAT,
                   "/t10k-labels-idx1-ubyte: label 10 at index 5, but there are 10 classes (0 to 9)",
                   "is it the right file? If so, set data.classes and the last layer to at least 11");
}

static void a_label_out_of_range_in_an_archive_is_told_with_its_array(void **state)
{
    dataset *d;
    ckpt_error err = {0};
    (void)state;
    assert_int_equal(dataset_open(&d, GOLDEN_DIR "/fashion-20/stored.npz", 9, &err), CKPT_EFORMAT);
    assert_string_equal(err.message, GOLDEN_DIR
                        "/fashion-20/stored.npz: y_train: label 9 at index 0, but there are 9 classes (0 to 8)");
    assert_null(d);
}

static void images_of_two_sizes_are_refused(void **state)
{
    static const unsigned char IMAGES[] = {0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 2, 7, 7};
    static const unsigned char LABELS[] = {0, 0, 8, 1, 0, 0, 0, 1, 0};
    (void)state;
    files_copy();
    file_put("t10k-images-idx3-ubyte", IMAGES, sizeof IMAGES);
    file_put("t10k-labels-idx1-ubyte", LABELS, sizeof LABELS);
    assert_refused(dir, 10, CKPT_EFORMAT,
                   "/t10k-images-idx3-ubyte: images of 1 x 2, but 28 x 28 in train-images-idx3-ubyte",
                   "the four files belong together: get all of them again from the same place");
}

static void damage_in_one_file_names_it(void **state)
{
    (void)state;
    files_copy();
    file_put("t10k-images-idx3-ubyte", "\x1f\x8b\x08\0", 4);
    assert_refused(dir, 10, CKPT_EFORMAT, "/t10k-images-idx3-ubyte: packed data end early",
                   "the file was damaged or not copied whole: copy or download it again");
}

static void a_number_of_classes_that_labels_cannot_have_is_refused(void **state)
{
    dataset *d;
    (void)state;
    assert_int_equal(dataset_open(&d, GOLDEN_DIR "/fashion-20", 0, NULL), CKPT_EUSAGE);
    assert_int_equal(dataset_open(&d, GOLDEN_DIR "/fashion-20", 257, NULL), CKPT_EUSAGE);
}

static void each_allocation_that_fails_is_survived(void **state)
{
    dataset *d = NULL;
    long at = 0;
    bool failed = ALLOC_FAIL_WORKS;
    (void)state;
    while (failed) {
        alloc_fail_arm(++at);
        const int rc = dataset_open(&d, GOLDEN_DIR "/fashion-20", 10, NULL);
        failed = alloc_fail_disarm();
        assert_true(failed || rc == 0);
        assert_true(rc == 0 || rc == CKPT_ENOMEM);
        assert_true((rc == 0) == (d != NULL));
        dataset_free(d);
    }
    assert_true(!ALLOC_FAIL_WORKS || at > 8);
}

#define IN_DIR(test) cmocka_unit_test_setup_teardown(test, dir_setup, dir_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(four_files_make_a_data_set),
        cmocka_unit_test(the_digest_is_the_same_however_the_files_are_packed),
        cmocka_unit_test(the_digest_does_not_depend_on_classes),
        cmocka_unit_test(one_of_the_four_files_stands_for_its_folder),
        IN_DIR(a_folder_with_mnist_npz_is_a_data_set),
        IN_DIR(names_of_other_unpackers_are_found),
        IN_DIR(a_gz_is_known_by_its_bytes_and_not_by_its_name),
        IN_DIR(an_empty_folder_is_told_what_was_looked_for),
        IN_DIR(files_that_are_missing_are_named),
        cmocka_unit_test(a_path_that_does_not_exist_is_not_found),
        IN_DIR(another_file_is_no_data_set),
        IN_DIR(too_few_labels_are_refused),
        IN_DIR(a_label_out_of_range_is_told_with_its_place),
        cmocka_unit_test(a_label_out_of_range_in_an_archive_is_told_with_its_array),
        IN_DIR(images_of_two_sizes_are_refused),
        IN_DIR(damage_in_one_file_names_it),
        cmocka_unit_test(a_number_of_classes_that_labels_cannot_have_is_refused),
        cmocka_unit_test(each_allocation_that_fails_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
