/* The fixed parts of a pack's file, for its writer and its reader; the grammar stands in pack.h. */
#ifndef CKPT_PACK_FORMAT_H
#define CKPT_PACK_FORMAT_H

#define PACK_MAGIC        "CKPTPACK"
#define PACK_FOOTER_MAGIC "CKPTFOOT"
#define PACK_MAGIC_SIZE   8
#define PACK_CHUNK_LOG2   20 /* of CODEC_CHUNK_BYTES */

#endif
