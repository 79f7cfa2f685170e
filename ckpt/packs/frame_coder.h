/* Frame coder: codes frames into a pack with all cores, in a fixed amount of memory, in order.
 *
 *   caller:  reads a chunk into a slot ──> pool: gets its reference, codes it ──> writer thread: hashes the frame,
 *            appends the chunk to the pack
 *
 * Slots form a ring; the caller blocks when all of them are on their way. An error of a worker or of the writer thread
 * is returned by the next call, and once more by frame_coder_drain. */
#ifndef CKPT_FRAME_CODER_H
#define CKPT_FRAME_CODER_H

#include "kept.h"
#include "pool.h"

#define FRAME_CODER_SLOTS(workers) (2 * (workers) + 4) /* of 2 MiB each */

typedef struct frame_coder frame_coder;

int frame_coder_new(frame_coder **out, pool *p, pack_set *packs, ckpt_error *err);
void frame_coder_free(frame_coder *c); /* waits for what is on its way; NULL is fine */

/* Before the first frame of a save: forgets what was read for an earlier one, whose packs may be gone. Nothing may be
 * on its way. */
void frame_coder_forget(frame_coder *c);
/* From the next chunk on references are taken from `kept` where they are there; NULL: all are decoded. */
void frame_coder_keep(frame_coder *c, const kept_frames *kept);
/* The pack that frames go to from now on. Nothing may be on its way. */
void frame_coder_target(frame_coder *c, pack_writer *writer);

/* Starts a frame whose row is *frame without places and hashes; *number is its number in the pack. `reference` is NULL
 * when the plan needs none. frame->size bytes must follow, in chunks. */
int frame_coder_begin(uint32_t *number, frame_coder *c, const pack_frame *frame, const codec_plan *plan,
                      const frame_at *reference, ckpt_error *err);
/* A slot's memory for the next chunk of CODEC_CHUNK_BYTES (or what is left of the frame). */
int frame_coder_chunk(unsigned char **data, size_t *size, frame_coder *c, ckpt_error *err);
/* Instead of filling it: the chunk's bytes, which stay where they are until frame_coder_drain or _free returns. */
void frame_coder_lend(frame_coder *c, const void *bytes);
/* Hands the slot on. */
int frame_coder_submit(frame_coder *c, ckpt_error *err);
/* Completes a frame that was begun and cannot be filled, with zeros; nothing will refer to it. */
int frame_coder_pad(frame_coder *c, ckpt_error *err);
/* Until everything submitted is in the pack. */
int frame_coder_drain(frame_coder *c, ckpt_error *err);
/* How many chunks, ever, did not come back when they were checked, see codec_faults. Nothing may be on its way. */
size_t frame_coder_faults(const frame_coder *c);

#endif
