#include "dataset.h"

#include "idx.h"
#include "npz_mnist.h"

#include "bytes.h"
#include "fail.h"
#include "file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define NPZ_NAME  "mnist.npz"
#define ZIP_MAGIC "PK"
#define FILES     4
#define SPELLINGS 4

#define HINT_DEBIAN                                                                                                    \
    "Fashion-MNIST is in Debian's package dataset-fashion-mnist, its files in /usr/share/datasets/fashion-mnist"

enum { TRAIN_IMAGES, TRAIN_LABELS, TEST_IMAGES, TEST_LABELS };

/* Each file by the names that it is found by, the usual one first. */
static const char *const NAMES[FILES][SPELLINGS] = {
    {"train-images-idx3-ubyte", "train-images-idx3-ubyte.gz", "train-images.idx3-ubyte", "train-images.idx3-ubyte.gz"},
    {"train-labels-idx1-ubyte", "train-labels-idx1-ubyte.gz", "train-labels.idx1-ubyte", "train-labels.idx1-ubyte.gz"},
    {"t10k-images-idx3-ubyte", "t10k-images-idx3-ubyte.gz", "t10k-images.idx3-ubyte", "t10k-images.idx3-ubyte.gz"},
    {"t10k-labels-idx1-ubyte", "t10k-labels-idx1-ubyte.gz", "t10k-labels.idx1-ubyte", "t10k-labels.idx1-ubyte.gz"},
};

/* Where the files of a folder are. */
typedef struct listing {
    char paths[FILES][FILE_PATH_MAX]; /* "": missing */
    size_t found;
    char npz[FILE_PATH_MAX]; /* "": none */
} listing;

/* ---- Finding files ---------------------------------------------------------------------------------------------- */

/* The path of the file, "" where there is none. */
static int find_one(char out[FILE_PATH_MAX], const char *dir, const char *name, ckpt_error *err)
{
    int rc = 0;
    struct stat st;

    TRY(path_join(out, dir, name, err));
    const bool found = stat(out, &st) == 0;
    if (!found && errno != ENOENT) { /* a folder that may not be looked into is not an empty one */
        rc = error_errno(err, errno, "look for %s", out);
        goto out;
    }
    if (!found || !S_ISREG(st.st_mode))
        out[0] = 0;
out:
    return rc;
}

static int listing_make(listing *out, const char *dir, ckpt_error *err)
{
    int rc = 0;

    *out = (listing){0};
    for (size_t i = 0; i < FILES; i++) {
        for (size_t k = 0; k < SPELLINGS && !out->paths[i][0]; k++)
            TRY(find_one(out->paths[i], dir, NAMES[i][k], err));
        out->found += out->paths[i][0] != 0;
    }
    TRY(find_one(out->npz, dir, NPZ_NAME, err));
out:
    return rc;
}

static int complain_of_missing(const listing *l, const char *dir, ckpt_error *err)
{
    char missing[FILES * 32] = "";
    size_t used = 0;

    for (size_t i = 0; i < FILES; i++)
        if (!l->paths[i][0])
            used += (size_t)snprintf(missing + used, sizeof missing - used, "%s%s", used ? ", " : "", NAMES[i][0]);
    if (l->found == 0)
        error_set(err, CKPT_ENOTFOUND, "%s: no data set: neither %s (plain or .gz) nor " NPZ_NAME, dir, missing);
    else
        error_set(err, CKPT_ENOTFOUND, "%s: missing of the four files of a data set: %s (plain or .gz)", dir, missing);
    error_hint(err, HINT_DEBIAN);
    return CKPT_ENOTFOUND;
}

/* Is it a zip archive, by its first bytes? */
static int zip_detect(bool *out, const char *path, ckpt_error *err)
{
    int rc = 0, fd = -1;
    uint64_t size;
    char magic[sizeof ZIP_MAGIC - 1] = "";

    TRY(file_open(&fd, &size, path, err));
    if (size >= sizeof magic)
        TRY(file_read_at(magic, fd, 0, sizeof magic, path, err));
    *out = memcmp(magic, ZIP_MAGIC, sizeof magic) == 0;
out:
    file_close(&fd);
    return rc;
}

/* Is it one of the four files, by its name? */
static bool is_idx_name(const char *name)
{
    for (size_t i = 0; i < FILES; i++)
        for (size_t k = 0; k < SPELLINGS; k++)
            if (strcmp(name, NAMES[i][k]) == 0)
                return true;
    return false;
}

/* ---- Reading ---------------------------------------------------------------------------------------------------- */

/* The images of one part with their labels. */
static int part_read(samples *out, dims *shape, const char *images_path, const char *labels_path, ckpt_error *err)
{
    int rc = 0;
    idx images = {0}, labels = {0};

    TRY(idx_read(&images, images_path, 3, err));
    TRY(idx_read(&labels, labels_path, 1, err));
    if (labels.shape[0] != images.shape[0]) {
        rc = error_set(err, CKPT_EFORMAT, "%s: %zu labels, but %zu images in %s", labels_path, labels.shape[0],
                       images.shape[0], path_base(images_path));
        error_hint(err, "images and labels of one part belong together: get both again from the same place");
        goto out;
    }
    *shape = (dims){1, images.shape[1], images.shape[2]};
    *out = (samples){images.data, labels.data, images.shape[0]};
    images = labels = (idx){0};
out:
    idx_clear(&images);
    idx_clear(&labels);
    return rc;
}

/* `path` and `array` tell in messages where the labels are. */
static int labels_check(const samples *s, size_t classes, const char *path, const char *array, ckpt_error *err)
{
    for (size_t i = 0; i < s->count; i++) {
        if (s->labels[i] < classes)
            continue;
        error_set(err, CKPT_EFORMAT, "%s%s: label %u at index %zu, but there are %zu classes (0 to %zu)", path, array,
                  s->labels[i], i, classes, classes - 1);
        error_hint(err, "is it the right file? If so, set data.classes and the last layer to at least %u",
                   s->labels[i] + 1u);
        return CKPT_EFORMAT;
    }
    return 0;
}

static int files_read(dataset *out, const listing *l, size_t classes, ckpt_error *err)
{
    int rc = 0;
    dims test;

    TRY(part_read(&out->train, &out->shape, l->paths[TRAIN_IMAGES], l->paths[TRAIN_LABELS], err));
    TRY(part_read(&out->test, &test, l->paths[TEST_IMAGES], l->paths[TEST_LABELS], err));
    TRY(labels_check(&out->train, classes, l->paths[TRAIN_LABELS], "", err));
    TRY(labels_check(&out->test, classes, l->paths[TEST_LABELS], "", err));
    if (test.height != out->shape.height || test.width != out->shape.width) {
        rc = error_set(err, CKPT_EFORMAT, "%s: images of %zu x %zu, but %zu x %zu in %s", l->paths[TEST_IMAGES],
                       test.height, test.width, out->shape.height, out->shape.width, path_base(l->paths[TRAIN_IMAGES]));
        error_hint(err, "the four files belong together: get all of them again from the same place");
    }
out:
    return rc;
}

static int archive_read(dataset *out, const char *path, size_t classes, ckpt_error *err)
{
    int rc = 0;

    TRY(npz_read(out, path, err));
    TRY(labels_check(&out->train, classes, path, ": y_train", err));
    TRY(labels_check(&out->test, classes, path, ": y_test", err));
out:
    return rc;
}

static int folder_read(dataset *out, const char *dir, size_t classes, ckpt_error *err)
{
    int rc = 0;
    listing *l = malloc(sizeof *l);

    FAIL_IF_NULL(l, err);
    TRY(listing_make(l, dir, err));
    if (l->found == FILES)
        TRY(files_read(out, l, classes, err));
    else if (l->npz[0])
        TRY(archive_read(out, l->npz, classes, err));
    else
        TRY(complain_of_missing(l, dir, err));
out:
    free(l);
    return rc;
}

/* A file: one of the four, whose folder is meant then, or an archive. */
static int file_read(dataset *out, const char *path, size_t classes, ckpt_error *err)
{
    int rc = 0;
    char dir[FILE_PATH_MAX];
    bool is_zip;

    if (is_idx_name(path_base(path))) {
        TRY(path_parent(dir, path, err));
        TRY(folder_read(out, dir, classes, err));
        goto out;
    }
    TRY(zip_detect(&is_zip, path, err));
    if (!is_zip) {
        rc = error_set(err, CKPT_EFORMAT,
                       "%s: no data set: neither a folder, nor an .npz, nor one of MNIST's four files", path);
        error_hint(err, HINT_DEBIAN);
        goto out;
    }
    TRY(archive_read(out, path, classes, err));
out:
    return rc;
}

static int digest_make(char out[SHA256_HEX_SIZE], const dataset *d, ckpt_error *err)
{
    int rc = 0;
    const uint64_t sizes[] = {d->shape.channels, d->shape.height, d->shape.width, d->train.count, d->test.count};
    unsigned char head[sizeof sizes];
    const samples *const parts[] = {&d->train, &d->test};
    sha256 hash;
    sha256_stream *stream = sha256_new();

    FAIL_IF_NULL(stream, err);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        store_u64(head + i * sizeof sizes[0], sizes[i]);
    sha256_update(stream, head, sizeof head);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        sha256_update(stream, parts[i]->images, parts[i]->count * dims_count(&d->shape));
        sha256_update(stream, parts[i]->labels, parts[i]->count);
    }
    sha256_finish(&hash, stream);
    sha256_hex(out, &hash);
out:
    sha256_free(stream);
    return rc;
}

static int path_read(dataset *out, const char *path, size_t classes, ckpt_error *err)
{
    int rc = 0;
    struct stat st;

    if (stat(path, &st)) {
        rc = error_errno(err, errno, "data set %s", path);
        error_hint(err, HINT_DEBIAN);
        goto out;
    }
    TRY(S_ISDIR(st.st_mode) ? folder_read(out, path, classes, err) : file_read(out, path, classes, err));
out:
    return rc;
}

int dataset_open(dataset **out, const char *path, size_t classes, ckpt_error *err)
{
    int rc = 0;
    dataset *d = calloc(1, sizeof *d);

    *out = NULL;
    FAIL_IF_NULL(d, err);
    FAIL_IF(classes == 0 || classes > DATASET_CLASSES_MAX, err, CKPT_EUSAGE,
            "data of %zu classes: 1 to %d are possible", classes, DATASET_CLASSES_MAX);
    TRY(path_read(d, path, classes, err));
    d->classes = classes;
    TRY(digest_make(d->digest, d, err));
    *out = d;
    d = NULL;
out:
    dataset_free(d);
    return rc;
}

void dataset_clear(dataset *d)
{
    free(d->train.images);
    free(d->train.labels);
    free(d->test.images);
    free(d->test.labels);
    *d = (dataset){0};
}

void dataset_free(dataset *d)
{
    if (d)
        dataset_clear(d);
    free(d);
}
