/* Data set: images as bytes and their labels, whole in memory.
 *
 * MNIST and its kin (Fashion-MNIST, KMNIST, EMNIST digits) come as four IDX files, plain or .gz,
 *
 *     train-images-idx3-ubyte  train-labels-idx1-ubyte  t10k-images-idx3-ubyte  t10k-labels-idx1-ubyte
 *
 * in one folder ("train-images.idx3-ubyte", as some unpackers write it, is found too), or as mnist.npz, the file of
 * Keras (x_train, y_train, x_test, y_test). */
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

#endif
