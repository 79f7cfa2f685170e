/* References: stored frames that the frames of a file about to be saved could be deltas of.
 *
 * Files are paired first, by path: the same path, then the same path but for its numbers (epoch_12.pt and epoch_13.pt),
 * then the file that shares the most tensor names. Within paired files tensors are paired by canonical name, dtype and
 * shape, and the bytes between tensors by their order. Which candidate is taken is decided by coding samples. */
#ifndef CKPT_REFERENCE_H
#define CKPT_REFERENCE_H

#include "pack.h"
#include "tensor_file.h"

#define REFERENCE_SNAPSHOTS 6 /* the newest ones are looked at */
#define REFERENCE_FILES_MAX 3 /* candidates for one file */

/* One file whose frames may serve, seen through the tables that describe it. */
typedef struct reference_file reference_file;

/* All files that may serve for one save. */
typedef struct reference_library reference_library;

int reference_library_new(reference_library **out, pack_set *packs, ckpt_error *err);
void reference_library_free(reference_library *l);

/* Adds the files [first, last) of some tables; `self` is the pack that pack number 0 stands for, NULL where 0 does not
 * occur. The tables must outlive the library and may only grow. Later additions are newer. */
int reference_library_add(reference_library *l, const pack_index *index, pack *self, uint32_t first, uint32_t last,
                          ckpt_error *err);

/* Candidates for a file, best first; returns their number. */
size_t reference_files(const reference_file *out[REFERENCE_FILES_MAX], const reference_library *l, const char *path,
                       const tensor_file *file);

/* Frame of the piece `piece` of the extent that holds the tensor paired with `view`; false when there is none that
 * starts a frame of its own. */
bool reference_tensor(frame_at *out, const reference_library *l, const reference_file *f, const tensor_view *view,
                      uint32_t piece);
/* The same for the group frame that holds the tensor paired with `view`. */
bool reference_group(frame_at *out, const reference_library *l, const reference_file *f, const tensor_view *view);
/* Frame of kind FRAME_OTHER that holds byte `offset` of the file, or else the first such frame of the file. */
bool reference_other(frame_at *out, const reference_library *l, const reference_file *f, uint64_t offset);

/* The packs that decoding a frame touches: its own, then those along its chain of references, each once. */
#define REFERENCE_CHAIN_MAX (PACK_DEPTH_READ_MAX + 1)
int reference_chain(const pack *out[REFERENCE_CHAIN_MAX], size_t *count, pack_set *packs, frame_at at, ckpt_error *err);

/* Makes a candidate's depth acceptable for a new delta: a frame at the writer's limit is replaced by the root of its
 * chain. False when the chain cannot be followed. */
bool reference_usable(frame_at *at, pack_set *packs);

#endif
