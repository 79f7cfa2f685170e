/* Bundle: one checkpoint as one file, a zip archive of a store that holds it alone.
 *
 *   .ckpt/config.ini   .ckpt/packs/<sha256>.pack ...   .ckpt/snapshots/<sequence>-<id>.json   .ckpt/tags/<name> ...
 *
 *   bundle_write.c     bundle_import.c */
#ifndef CKPT_BUNDLE_H
#define CKPT_BUNDLE_H

#define BUNDLE_CONFIG    ".ckpt/config.ini"
#define BUNDLE_PACKS     ".ckpt/packs/"
#define BUNDLE_SNAPSHOTS ".ckpt/snapshots/"
#define BUNDLE_TAGS      ".ckpt/tags/"

/* A checkpoint that comes with a larger one would leave too few for the saves behind it. */
#define BUNDLE_SEQUENCE_MAX UINT64_C(50000000)
#define BUNDLE_PIECE_BYTES  ((size_t)1 << 20) /* of a pack in memory at a time */

#endif
