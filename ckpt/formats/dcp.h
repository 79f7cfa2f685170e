/* DCP: the file `.metadata` of a folder that torch.distributed.checkpoint wrote; it says what lies where in the .distcp
 * files beside it.
 *
 *   .metadata   a pickle: Metadata(state_dict_metadata, storage_data = {MetadataIndex(fqn, offset): _StorageInfo(...)})
 *   part        a run of bytes of one .distcp file that torch.save wrote: a tensor, a piece of one, or another value
 *
 * Read as inert values (pickle.h), never executed. */
#ifndef CKPT_DCP_H
#define CKPT_DCP_H

#include "tensor_file.h"

#define DCP_METADATA_NAME ".metadata"
#define DCP_SUFFIX        ".distcp"
#define DCP_METADATA_MAX  ((size_t)100 << 20)
#define DCP_NAMES_MAX     ((size_t)100 << 20) /* bytes of all names together */

typedef struct dcp_part {
    char *name; /* of the tensor in the state: model.layer1.0.conv1.weight */
    char *file; /* a name in the same folder */
    uint64_t offset, size;
    unsigned rank;                 /* 0 where the part is no piece of a tensor */
    uint64_t first[CKPT_RANK_MAX]; /* the piece's first element in the whole tensor */
} dcp_part;

typedef struct dcp_metadata {
    size_t count;
    dcp_part *parts; /* by file, then by offset */
} dcp_metadata;

/* CKPT_EFORMAT says why it is no such file. */
int dcp_metadata_read(dcp_metadata *out, const void *data, size_t size, ckpt_error *err);
void dcp_metadata_clear(dcp_metadata *metadata);

#endif
