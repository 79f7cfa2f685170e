/* Content: the files and tensors of one checkpoint, or of one plain file, and any range of their bytes. */
#ifndef CKPT_CONTENT_H
#define CKPT_CONTENT_H

#include "store_internal.h"
#include "tensor_file.h"

/* Decoded chunks kept while the small pieces of a file, which lie in a few groups, are read in the file's order. */
#define CONTENT_CHUNKS_MAX 12
typedef struct content_chunk {
    frame_at at; /* pack is NULL: free */
    uint32_t chunk;
    uint64_t used; /* larger: later */
    unsigned char *data;
} content_chunk;

/* A run of a stored file inside one chunk of one frame: the unit of restoring. */
typedef struct content_unit {
    frame_at at;
    uint32_t chunk;
    size_t from, size; /* inside the decoded chunk */
    uint64_t file_offset;
} content_unit;

typedef struct content_file {
    ckpt_file_info info;
    uint64_t *extent_starts; /* of a stored file: file offset of each extent, and the size at the end */
    uint32_t row;            /* in the pack's table of files */
} content_file;

struct ckpt_content {
    ckpt_store *store; /* NULL for a plain file */
    snapshot snap;
    ckpt_info info;
    pack *pack; /* whose index has the tables; borrowed from the store */
    tag_row *tags;
    size_t tag_count;
    const char **tag_names;

    int fd; /* of a plain file, else -1 */
    byte_source source;
    tensor_file plain;

    size_t file_count, tensor_count;
    content_file *files;
    ckpt_tensor_info *tensors;
    uint64_t *tensor_offsets; /* of element 0 in its file */

    frame_reader *reader; /* made on first read */
    content_chunk chunks[CONTENT_CHUNKS_MAX];
    uint64_t chunk_clock;
    unsigned char *window; /* bytes of a file around the last scattered read */
    size_t window_file, window_size;
    uint64_t window_offset;
};

/* Opens one given checkpoint without any fallback; every pack it needs is opened, so that what is removed meanwhile can
 * still be read. */
int content_open_snapshot(ckpt_content **out, ckpt_store *store, const snapshot_name *name, ckpt_error *err);
/* Is `name` one of those for which a damaged newest checkpoint falls back to an older one? */
bool content_may_fall_back(const char *name);
/* Is this snapshot no longer there? Then what failed to open was pruned since it was listed, and is not damaged. */
bool content_was_removed(const ckpt_store *store, const snapshot_name *name);
#define CONTENT_RESOLVE_TRIES 8 /* so often a name is resolved anew when a prune was quicker */

/* The unit that begins at `offset` of a stored file, at most `size` bytes long. */
int content_unit_at(content_unit *out, const ckpt_content *c, size_t file, uint64_t offset, uint64_t size,
                    ckpt_error *err);
/* Any range of a file's bytes. */
int content_read_bytes(void *dst, ckpt_content *c, size_t file, uint64_t offset, size_t size, ckpt_error *err);

#endif
