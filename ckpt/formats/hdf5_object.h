/* One object of an HDF5 file: the messages of its header that say where numbers or further objects lie.
 *
 *   header  := messages in one or more blocks; version 1, or version 2 ("OHDR")
 *   dataset := dataspace (its shape), datatype, layout (where its elements lie), filters (how chunks are packed)
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
#define HDF5_FILTERS_MAX  8

typedef enum hdf5_filter { HDF5_DEFLATE = 1, HDF5_SHUFFLE = 2, HDF5_CHECKSUM = 3 } hdf5_filter;

typedef struct hdf5_object {
    bool dataset;        /* its elements are plain numbers in one piece: `view` is all but its name */
    bool chunked;        /* the same in chunks (hdf5_chunks.h): `view` without a place */
    uint64_t tree, heap; /* of a group with a symbol table; HDF5_NO_ADDRESS: none */
    tensor_view view;
    uint64_t chunk_tree;           /* of what is chunked */
    uint64_t chunk[CKPT_RANK_MAX]; /* shape of one */
    unsigned filter_count;
    hdf5_filter filters[HDF5_FILTERS_MAX]; /* in the order in which they were applied */
} hdf5_object;

/* Called for each link that stands in the header itself; a non-zero return ends the reading and is returned. */
typedef int (*hdf5_link_fn)(void *payload, const char *name, size_t name_size, uint64_t address, ckpt_error *err);

/* The bytes of a file of which each is read a few times in an honest one; shared by all who read it. */
typedef struct hdf5_reader {
    const byte_source *source;
    uint64_t left; /* bytes that may still be read */
} hdf5_reader;

/* CKPT_EFORMAT when the range lies outside of the file, or too much was read. */
int hdf5_read(void *dst, hdf5_reader *reader, uint64_t at, uint64_t size, ckpt_error *err);

/* Reads the header at `address`. What is not understood leaves `dataset` false. CKPT_EFORMAT when it is no header. */
int hdf5_object_read(hdf5_object *out, hdf5_reader *reader, uint64_t address, hdf5_link_fn link, void *payload,
                     ckpt_error *err);

#endif
