/* One object of an HDF5 file: the messages of its header that say where numbers or further objects lie.
 *
 *   header  := messages in one or more blocks; version 1, or version 2 ("OHDR")
 *   dataset := dataspace (its shape), datatype, layout (where its elements lie)
 *   group   := symbol table (the address of a tree of names), or links
 *
 * Format: HDF5 File Format Specification 3.0, in which offsets and lengths have 8 bytes and the base address is 0. */
#ifndef CKPT_HDF5_OBJECT_H
#define CKPT_HDF5_OBJECT_H

#include "tensor_file.h"

#define HDF5_NO_ADDRESS   UINT64_MAX
#define HDF5_BLOCKS_MAX   64          /* of one header */
#define HDF5_BLOCK_MAX    (64u << 10) /* bytes of one */
#define HDF5_MESSAGES_MAX (1u << 16)  /* of one header */
#define HDF5_LINK_MAX     1024        /* bytes of a name */

typedef struct hdf5_object {
    bool dataset;        /* its elements are plain numbers in one piece: `view` is all but its name */
    bool group;          /* it has a symbol table or links */
    uint64_t tree, heap; /* of the symbol table; HDF5_NO_ADDRESS: none */
    tensor_view view;
} hdf5_object;

/* Called for each link that stands in the header itself; a non-zero return ends the reading and is returned. */
typedef int (*hdf5_link_fn)(void *payload, const char *name, size_t name_size, uint64_t address, ckpt_error *err);

/* Reads the header at `address`. What is not understood leaves `dataset` false. CKPT_EFORMAT when it is no header. */
int hdf5_object_read(hdf5_object *out, const byte_source *source, uint64_t address, hdf5_link_fn link, void *payload,
                     ckpt_error *err);

#endif
