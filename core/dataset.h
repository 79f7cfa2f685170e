/* Data set: images as bytes and their labels, whole in memory.
 *
 * MNIST and its kin (Fashion-MNIST, KMNIST, EMNIST digits) come as four IDX files, plain or .gz,
 *
 *     train-images-idx3-ubyte  train-labels-idx1-ubyte  t10k-images-idx3-ubyte  t10k-labels-idx1-ubyte
 *
 * in one folder ("train-images.idx3-ubyte", as some unpackers write it, is found too), or as mnist.npz, the file of
 * Keras (x_train, y_train, x_test, y_test).
 *
 *     IDX := 0 0 type rank  size{rank}  element*      numbers big-endian, type 8 is unsigned byte
 * (yann.lecun.com/exdb/mnist)
 */
#ifndef CORE_DATASET_H
#define CORE_DATASET_H

#include "net.h"

#include "hash.h"

#define DATASET_SAMPLES_MAX (1u << 24)
#define DATASET_BYTES_MAX   ((uint64_t)16 << 30)
#define DATASET_CLASSES_MAX 256
#define DATASET_SCALE       (1 / 255.0f) /* makes a byte a number from 0 to 1 */

typedef struct samples {
    uint8_t *images; /* [count][channels][height][width] */
    uint8_t *labels; /* [count] */
    size_t count;
} samples;

typedef struct dataset {
    dims shape;
    size_t classes; /* as the caller wants it: labels are below */
    samples train, test;
    char digest[SHA256_HEX_SIZE];
} dataset;

/* The digest is the SHA-256 of channels, height, width, training samples and test samples, each as 8 bytes
 * little-endian, then the training images, training labels, test images and test labels: the same however the files
 * were packed, and whatever `classes` is.
 *
 * `path` is a folder with the four files or mnist.npz, an .npz, or one of the four files. Errors, each with the file's
 * name and a hint: CKPT_ENOTFOUND (which files were looked for; Debian's package dataset-fashion-mnist), CKPT_EFORMAT
 * (wrong magic, labels and images that do not match in number, a label out of range and where, bytes missing or left
 * over, a .gz that ends early or fails its check), CKPT_ENOMEM. */
int dataset_open(dataset **out, const char *path, size_t classes, ckpt_error *err);
void dataset_free(dataset *d);  /* NULL is fine */
void dataset_clear(dataset *d); /* what it holds; a zeroed one is fine */

/* One IDX file, plain or .gz (by its first bytes, not its name), of the rank wanted. `data` is malloc'ed. */
typedef struct idx {
    uint8_t *data;
    unsigned rank;
    size_t shape[3];
} idx;
int idx_read(idx *out, const char *path, unsigned rank, ckpt_error *err);
void idx_clear(idx *file);
/* The same from memory, for tests of hostile input; `path` is for messages. */
int idx_parse(idx *out, const void *data, size_t size, const char *path, unsigned rank, ckpt_error *err);

/* mnist.npz: stored or deflated members, u8 images [n][28][28] (or of another size) and labels of any integer type.
 * Fills in shape, train and test. */
int npz_read(dataset *out, const char *path, ckpt_error *err);
int npz_parse(dataset *out, const void *data, size_t size, const char *path, ckpt_error *err); /* from memory */

#endif
