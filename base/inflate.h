/* Inflate: the bytes that a deflate stream stands for. */
#ifndef BASE_INFLATE_H
#define BASE_INFLATE_H

#include <ckpt/error.h>
#include <stddef.h>
#include <stdint.h>

/* No deflate stream stands for more bytes than so many times its own. */
#define INFLATE_RATIO_MAX 1032u

/* Fills `dst` with exactly dst_size bytes. CKPT_EDATA when the stream is damaged or stands for another number. Without
 * any wrapper, as in zip archives. */
int inflate_exactly(void *dst, size_t dst_size, const void *src, size_t src_size, ckpt_error *err);
/* The same with the wrapper of zlib, whose checksum is checked. */
int inflate_zlib_exactly(void *dst, size_t dst_size, const void *src, size_t src_size, ckpt_error *err);

#endif
