/* Content: the files and tensors of one checkpoint, or of one plain file, and any range of their bytes. */
#ifndef CKPT_CONTENT_H
#define CKPT_CONTENT_H

#include "hdf5_object.h"
#include "store_internal.h"
#include "tensor_file.h"

#include "zipdir.h"

/* Decoded chunks kept while the small pieces of a file, which lie in a few groups, are read in the file's order. */
#define CONTENT_CHUNKS_MAX 12
typedef struct content_chunk {
    frame_at at; /* pack is NULL: free */
    uint32_t chunk;
    uint64_t used; /* larger: later */
    unsigned char *data;
} content_chunk;

/* A run of a stored file inside one chunk of one frame: the unit of decoding.
 *
 *   file     | extent 1 | extent 2 |      extent 3      |
 *   chunks   |   of one frame | of another ...
 *   units    |    1     | 2  |  3  |   4    |    5      |                                                          */
typedef struct content_unit {
    frame_at at;
    uint64_t offset; /* in the decoded frame */
    size_t size;
} content_unit;
#define CONTENT_SMALL_BYTES                                                                                            \
    ((size_t)64 << 10) /* smaller units are copied from kept chunks, larger ones are for the pool */

typedef struct content_file {
    ckpt_file_info info;
    uint64_t *extent_starts; /* of a stored file: file offset of each extent, and the size at the end */
    uint32_t row;            /* in the pack's table of files */
} content_file;

/* A file on disk, or one of a folder. */
typedef struct content_plain {
    byte_source source; /* first, so that one is found from the other; opens the file when it is read */
    ckpt_content *content;
    char *path;
    int fd; /* -1: not open */
    tensor_file file;
    char refusal[CKPT_WHY_SIZE];
} content_plain;

/* A tensor that does not lie in the file as it is: a compressed member of an archive, or an HDF5 dataset in chunks. */
typedef struct content_packed {
    char *name;
    bool chunked;
    zip_entry entry;      /* of the member; entry.name is not kept */
    uint64_t first, size; /* of the HDF5 file inside of this one */
    hdf5_object object;
} content_packed;

struct ckpt_content {
    ckpt_store *store; /* NULL for a plain file */
    snapshot snap;
    ckpt_info info;
    pack *pack; /* whose index has the tables; borrowed from the store */
    tag_row *tags;
    size_t tag_count;
    const char **tag_names;

    content_plain *plains; /* of plain files, one for each of `files`; else NULL */
    size_t plain_open;     /* the one whose descriptor is open; SIZE_MAX: none */

    size_t file_count, tensor_count;
    content_file *files;
    ckpt_tensor_info *tensors;
    uint64_t *tensor_offsets; /* of element 0 in its file */

    content_packed **packed; /* of each tensor, NULL for one that lies in the file; NULL when all do */
    unsigned char *unpacked; /* all of the one read last */
    uint64_t unpacked_size;
    size_t unpacked_tensor;

    frame_reader *reader; /* made on first read */
    content_chunk chunks[CONTENT_CHUNKS_MAX];
    uint64_t chunk_clock;
    unsigned char *window; /* bytes of a file around the last scattered read */
    size_t window_file, window_size;
    uint64_t window_offset;
};

/* Opens one given checkpoint without any fallback; every pack it needs is opened, so that what is removed meanwhile can
 * still be read. CKPT_ENOTFOUND when a part of it is missing. */
int content_open_snapshot(ckpt_content **out, ckpt_store *store, const snapshot_name *name, ckpt_error *err);

/* Is all there that the snapshot needs, and do they agree? Gives its own pack. CKPT_ENOTFOUND: a pack is missing. */
int content_snapshot_check(pack **own, ckpt_store *store, const snapshot *snap, ckpt_error *err);
/* Room for so many files and tensors; none are there yet. */
int content_alloc(ckpt_content **out, size_t files, size_t tensors, ckpt_error *err);

/* content_plain.c: what ckpt_content_open_file opens. */
#define CONTENT_PLAIN_FILES_MAX (1u << 16)
#define CONTENT_PLAIN_DEPTH_MAX 128
void content_plain_clear(ckpt_content *c);

/* fallback.c: opens what `name` means and does some work with it. With `latest`, when it cannot be opened or `run`
 * returns CKPT_EDATA, the next older one is opened and `run` called again; *fell_back tells that, and so does a note.
 * `run` may keep the content: it then sets *content to NULL. */
typedef int (*content_work_fn)(void *payload, ckpt_content **content, ckpt_error *err);
int content_work(bool *fell_back, ckpt_store *store, const char *name, content_work_fn run, void *payload,
                 ckpt_error *err);
bool content_may_fall_back(const char *name);

/* content_packed.c: lists the compressed members of .npz files and the datasets in chunks of HDF5 files too, behind the
 * other tensors of their file; those that are no plain numbers are left out. Only for contents that are looked at: it
 * takes time, and they are no part of a restore. */
int content_add_packed(ckpt_content *c, ckpt_error *err);
/* Bytes of what such a tensor lies in, unpacked. */
int content_read_packed(void *dst, ckpt_content *c, size_t tensor, uint64_t offset, size_t size, ckpt_error *err);
void content_packed_clear(ckpt_content *c);

/* Bytes of the unit that begins `inside` an extent, and its place; `own` is the pack whose index has the extent. */
size_t content_unit_size(const pack_extent *e, uint64_t inside);
int content_unit_place(content_unit *out, pack_set *set, pack *own, const pack_extent *e, uint64_t inside,
                       ckpt_error *err);
/* Decodes a unit into `dst`: straight when it is a whole chunk. For any thread, each with its own reader. */
int content_unit_decode(void *dst, frame_reader *reader, const content_unit *u, ckpt_error *err);
/* The unit that begins at `offset` of a stored file, at most `size` bytes long. */
int content_unit_at(content_unit *out, const ckpt_content *c, size_t file, uint64_t offset, uint64_t size,
                    ckpt_error *err);
/* Any range of a file's bytes. */
int content_read_bytes(void *dst, ckpt_content *c, size_t file, uint64_t offset, size_t size, ckpt_error *err);

#endif
