/* Segment: an immutable, sorted part of the cache that tells where bytes of a known hash lie (lookup.c).
 *
 *   cache/<XXH3-128 of the file, 32 digits>.segment
 *   segment := header packs entries
 *   header  := "CKPTSEGM" version:u32 pack_count:u32 entry_count:u64 entries_xxh64:u64 head_xxh64:u64          40 bytes
 *              head_xxh64 is XXH3-64 of the 32 bytes before it and the packs behind it
 *   packs   := sha256:32                            the packs all of whose extents are here
 *   entries := hash_high:u64 hash_low:u64 size:u64 frame_offset:u64 pack:u32 frame:u32                         40 bytes
 *              sorted by hash and size; pack is a row of packs
 *
 * The head is checked when a segment is opened, the entries when they are merged: a search in between reads a few
 * blocks only, and what it finds is a hint that the caller compares. Files are read, not mapped: one that is cut short
 * or cannot be read meanwhile has nothing to offer, but harms nobody. */
#ifndef CKPT_SEGMENT_H
#define CKPT_SEGMENT_H

#include "store_internal.h"

#define SEGMENT_SUFFIX      ".segment"
#define SEGMENT_PACKS_MAX   (1u << 20)
#define SEGMENT_ENTRIES_MAX (1u << 24)
#define SEGMENT_NAME_SIZE   (32 + sizeof SEGMENT_SUFFIX)

typedef struct segment_entry {
    hash128 hash;
    uint64_t size, frame_offset;
    uint32_t pack, frame;
} segment_entry;

/* Entries in memory at a time of a segment too large to be read as a whole. */
#define SEGMENT_WHOLE_BYTES_MAX ((size_t)64 << 10)
#define SEGMENT_WINDOW_ROWS     128u

typedef struct segment {
    unsigned char *bytes; /* the head, then entries [window_first, window_first + window_count) */
    uint32_t window_first, window_count;
    bool in_file; /* fd is open, to read other entries from; else all are in memory */
    int fd;
    uint64_t size; /* of the file */
    uint32_t pack_count, entry_count;
    char name[SEGMENT_NAME_SIZE]; /* in cache/ */
} segment;

/* What is to become one segment. */
typedef struct segment_builder {
    sha256 *packs;
    segment_entry *entries;
    uint32_t pack_count, entry_count;
    size_t pack_capacity, entry_capacity;
} segment_builder;

/* Adds the extents of LOOKUP_BYTES_MIN and more that lie in this pack itself. */
int segment_add_pack(segment_builder *b, const sha256 *name, const pack_index *index, ckpt_error *err);
/* Adds those packs of a segment for which wanted[row] is true. CKPT_EDATA when the entries fail their check. */
int segment_add_segment(segment_builder *b, const segment *s, const bool *wanted, ckpt_error *err);
/* Sorts and encodes; the segment is in memory until segment_write. */
int segment_build(segment *out, segment_builder *b, ckpt_error *err);
void segment_builder_clear(segment_builder *b);

/* Writes it under its name; one that is there already has the same bytes or is damaged, and is replaced. */
int segment_write(const segment *s, const char *cache_dir, const char *tmp_dir, ckpt_error *err);
/* Opens a file of cache/. CKPT_EDATA when its head is wrong, CKPT_ENOTFOUND. */
int segment_open(segment *out, const char *cache_dir, const char *name, ckpt_error *err);
void segment_close(segment *s);

void segment_pack(sha256 *name, const segment *s, uint32_t row);
/* False when it cannot be read any more. */
bool segment_entry_get(segment_entry *out, segment *s, uint32_t row);
/* The first entry not below this hash and size; entry_count when there is none, or it cannot be read. */
uint32_t segment_place(segment *s, hash128 hash, uint64_t size);

#endif
