/* Parity: Reed-Solomon erasure code. Of k data blocks and m parity blocks of one size any m may be lost.
 *
 *   parity[i][x] = sum over j of c(i, j) * data[j][x]        c(i, j) = 1 / ((k + i) ^ j), 0 <= i < m, 0 <= j < k
 *
 * in GF(2^8) modulo x^8 + x^4 + x^3 + x^2 + 1. c is a Cauchy matrix, all of whose square submatrices can be inverted
 * (Bloemer et al., "An XOR-based erasure-resilient coding scheme", 1995). Which blocks are lost must be known: checks
 * of the blocks are the caller's.
 *
 * Byte x of one block depends on byte x of the others only, so that blocks of any size are coded a window at a time. */
#ifndef BASE_PARITY_H
#define BASE_PARITY_H

#include <ckpt/error.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PARITY_GROUP_MAX 255 /* k + m */

/* ---- One group of blocks ---------------------------------------------------------------------------------------- */

typedef struct parity_code parity_code;
/* CKPT_EUSAGE unless both counts are at least 1 and at most PARITY_GROUP_MAX together. */
int parity_code_new(parity_code **out, unsigned data_count, unsigned parity_count, ckpt_error *err);
void parity_code_free(parity_code *code); /* NULL is fine */
/* Computes `size` bytes of all m parity blocks from as many of all k data blocks. */
void parity_encode(unsigned char *const *parity, const parity_code *code, unsigned char *const *data, size_t size);

/* Rebuilds a given set of lost blocks. */
typedef struct parity_decoder parity_decoder;
/* `lost` says it of the k data blocks, then of the m parity blocks. CKPT_EDATA when more than m are. */
int parity_decoder_new(parity_decoder **out, const parity_code *code, const bool *lost, ckpt_error *err);
void parity_decoder_free(parity_decoder *d); /* NULL is fine */
/* Which k blocks it reads, parity blocks counted from k on. */
const unsigned char *parity_decoder_sources(const parity_decoder *d);
/* Computes `size` bytes of each lost block, in order, from as many of each source, in their order. */
void parity_decode(unsigned char *const *lost, const parity_decoder *d, unsigned char *const *sources, size_t size);

/* ---- A large run of bytes, as interleaved groups ---------------------------------------------------------------- */

#define PARITY_BLOCK_MIN  256u
#define PARITY_BLOCK_MAX  (64u << 10)
#define PARITY_BLOCKS_MAX ((uint64_t)1 << 26)
#define PARITY_SHARE_MAX  1.0

/* Data block b is number b / group_count of the group b % group_count, and so are parity blocks: that a whole range is
 * lost hurts all groups alike. Blocks that a group lacks, and what the last block lacks, count as zeros. */
typedef struct parity_layout {
    uint64_t size;                       /* of the data */
    uint32_t block_size;                 /* a power of two */
    uint32_t group_count;                /* 1.. */
    unsigned data_count, parity_count;   /* k, of the largest group, and m, of each */
    uint64_t data_blocks, parity_blocks; /* in all */
} parity_layout;

/* Chooses a layout from which any range of `share` of the data can be lost, wherever it begins. CKPT_EUSAGE for a size
 * of 0, one beyond PARITY_BLOCKS_MAX blocks, and a share not above 0 or above PARITY_SHARE_MAX. */
int parity_layout_choose(parity_layout *out, uint64_t size, double share, ckpt_error *err);
/* Fills in the rest from size, block_size, group_count and parity_count, which come from outside: CKPT_EDATA. */
int parity_layout_complete(parity_layout *layout, ckpt_error *err);

/* Where blocks are: data blocks from 0 on, parity blocks behind them. Bytes behind the end of the data read as zeros,
 * and are not to be written. */
typedef struct parity_io {
    int (*read)(void *payload, void *dst, uint64_t block, ckpt_error *err);        /* block_size bytes */
    int (*write)(void *payload, const void *src, uint64_t block, ckpt_error *err); /* the same */
    void *payload;
} parity_io;

/* Reads all data blocks and writes all parity blocks, group by group, in memory for one group. */
int parity_blocks_make(const parity_layout *layout, const parity_io *io, ckpt_error *err);
/* Rebuilds the lost blocks, of data and parity, and writes them. CKPT_EDATA, before anything is written, when a group
 * has lost too many. */
int parity_blocks_rebuild(const parity_layout *layout, const parity_io *io, const bool *lost, ckpt_error *err);
/* Of how many blocks too many are lost, over all groups; 0: all can be rebuilt. */
uint64_t parity_blocks_short(const parity_layout *layout, const bool *lost);

#endif
