/* Parity of a pack: the file parity/<name of the pack>.parity, from which a damaged pack is rebuilt bit by bit.
 *
 *   parity := head block* head head_size:u64
 *   head   := "CKPTPARI" version:u16 block_log2:u8 0:u8 parity_count:u32 group_count:u32 0:u32 pack_size:u64
 *             pack:sha256 check:u64* head_xxh64:u64
 *
 * check is XXH3-64 of each data block, the last one with zeros to its full size, then of each parity block; head_xxh64
 * is XXH3-64 of all of the head before it. The head stands twice, as a damage at one end must not cost it; head_size
 * tells where the second one begins. Blocks are the parity blocks of base/parity.h in their order; see there for the
 * code and which data blocks they are of. */
#ifndef CKPT_PACK_PARITY_H
#define CKPT_PACK_PARITY_H

#include "pack.h"

#include "parity.h"

#define PACK_PARITY_VERSION 1
#define PACK_PARITY_SUFFIX  ".parity"

int pack_parity_path(char out[FILE_PATH_MAX], const char *parity_dir, const sha256 *name, ckpt_error *err);
/* Is `file` the name of one? */
bool pack_parity_name_parse(sha256 *name, const char *file);

/* How many bytes the parity of a pack takes; CKPT_EUSAGE as parity_layout_choose. */
int pack_parity_size(uint64_t *bytes, uint64_t pack_size, double share, ckpt_error *err);
/* Makes the parity of a pack, which is open as fd, in a new temporary file. */
int pack_parity_make(file_tmp *out, const char *tmp_dir, int fd, uint64_t size, const sha256 *name, double share,
                     ckpt_error *err);

typedef struct pack_parity {
    int fd; /* -1: not open */
    sha256 name;
    parity_layout layout;
    uint64_t *checks; /* of data_blocks, then of parity_blocks */
    uint64_t blocks_offset;
    bool whole; /* size and both heads are as they were written */
} pack_parity;

/* Opens the parity of a pack: CKPT_ENOTFOUND, CKPT_EDATA when neither head can be used, CKPT_EVERSION. */
int pack_parity_open(pack_parity *out, const char *parity_dir, const sha256 *name, ckpt_error *err);
/* The same for an open file, which is taken over, also when it fails. */
int pack_parity_take(pack_parity *out, int fd, uint64_t size, const sha256 *name, ckpt_error *err);
void pack_parity_close(pack_parity *p); /* a zeroed one needs fd -1 */

/* What is left of a pack and of its parity. */
typedef struct pack_loss {
    bool *lost; /* data blocks, then parity blocks */
    uint64_t lost_data, lost_parity;
    uint64_t missing; /* how many blocks too many are lost; 0: the pack can be rebuilt */
} pack_loss;

/* Compares all blocks with their checks. `fd` is what is left of the pack, of `size` bytes, or -1: nothing. */
int pack_parity_survey(pack_loss *out, const pack_parity *p, int fd, uint64_t size, ckpt_error *err);
void pack_loss_clear(pack_loss *loss);
/* Writes the pack as it was into a new temporary file. CKPT_EDATA when its SHA-256 is not its name. */
int pack_parity_rebuild(file_tmp *out, const char *tmp_dir, const pack_parity *p, const pack_loss *loss, int fd,
                        ckpt_error *err);

#endif
