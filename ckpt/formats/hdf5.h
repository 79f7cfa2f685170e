/* The datasets of an HDF5 file. */
#ifndef CKPT_HDF5_H
#define CKPT_HDF5_H

#include "hdf5_object.h"

/* Called for each dataset of plain numbers, with its path in dots; a non-zero return ends the reading and is returned.
 */
typedef int (*hdf5_dataset_fn)(void *payload, const char *name, const hdf5_object *object, ckpt_error *err);

/* CKPT_EFORMAT for what is no such file, and for one whose places lie. */
int hdf5_datasets(const byte_source *source, hdf5_dataset_fn each, void *payload, ckpt_error *err);

#endif
