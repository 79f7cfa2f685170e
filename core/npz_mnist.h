/* mnist.npz: MNIST as Keras keeps it, a zip of the arrays x_train, y_train, x_test and y_test (npy_head.h). */
#ifndef CORE_NPZ_MNIST_H
#define CORE_NPZ_MNIST_H

#include "dataset.h"

/* Stored or deflated members, u8 images [n][28][28] (or of another size) and labels of any integer type.
 * Fills in shape, train and test. Errors as of dataset_open. */
int npz_read(dataset *out, const char *path, ckpt_error *err);
int npz_parse(dataset *out, const void *data, size_t size, const char *path, ckpt_error *err); /* from memory */

#endif
