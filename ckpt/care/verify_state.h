/* What a verify that was stopped had found good: cache/verify.state, from which a later one goes on.
 *
 *   state := "CKPTVRFY" version:u32 pack_count:u32 file_count:u64 time:u64 pack* file* xxh64:u64
 *   pack  := name:sha256 size:u64 mtime:u64        all of its bytes were read
 *   file  := key:sha256                            decoded; see file_key of verify_file.c
 *
 * xxh64 is XXH3-64 of all before it. A pack that has another size or time than then is read again, and then all files
 * are decoded again, as their bytes may lie in it. */
#ifndef CKPT_VERIFY_STATE_H
#define CKPT_VERIFY_STATE_H

#include "verify.h"

#define VERIFY_STATE_NAME  "verify.state"
#define VERIFY_STATE_BYTES ((uint64_t)1 << 30) /* it is written after so much work, too */
#define VERIFY_STATE_AGE_S (30 * 24 * 60 * 60) /* an older one says too little of the disk of today */
#define VERIFY_STATE_MAX   ((size_t)256 << 20)

/* Takes what is still true into v->read, v->decoded and v->before. None, a damaged one or an old one gives nothing:
 * only CKPT_ENOMEM. */
int verify_state_load(verifier *v, ckpt_error *err);
/* Writes it; where that fails the next verify begins anew, and nothing is said. */
void verify_state_save(const verifier *v);
void verify_state_remove(const verifier *v);

#endif
