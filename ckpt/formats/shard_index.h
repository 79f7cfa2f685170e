/* Shard index: `model.safetensors.index.json`, which says in which of several files each tensor of a model lies.
 *
 *   {"metadata": {"total_size": 123}, "weight_map": {"layer.weight": "model-00001-of-00002.safetensors", ...}}
 *
 * `pytorch_model.bin.index.json` is the same. */
#ifndef CKPT_SHARD_INDEX_H
#define CKPT_SHARD_INDEX_H

#include <ckpt/error.h>
#include <stdbool.h>
#include <stddef.h>

#define SHARD_INDEX_SUFFIX    ".index.json"
#define SHARD_INDEX_BYTES_MAX ((size_t)64 << 20)

typedef struct shard_index {
    size_t count;
    char **shards; /* names of files in the same folder, sorted, each once */
    size_t tensors;
    bool cut_off; /* after CKPT_EFORMAT: the text ends too early */
} shard_index;

/* Has a file of this name such an index? */
bool shard_index_named(const char *path);
/* CKPT_EFORMAT says why the text is no index. */
int shard_index_read(shard_index *out, const char *text, size_t size, ckpt_error *err);
void shard_index_clear(shard_index *index);

#endif
