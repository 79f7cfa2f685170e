/* Byte planes: elements turned into integers that are mostly small or alike, and cut into one plane for each byte.
 *
 *   number(x)  := x                                        without a reference
 *               | x ^ reference                            XOR
 *               | zigzag(ordered(x) - ordered(reference))  SUB, modulo 2^n
 *   ordered(x) := x as an unsigned integer whose order is that of the numbers: for floats negative ones complemented,
 *                 the others with the top bit flipped; for integers x itself
 *   zigzag(d)  := 0, -1, 1, -2, 2 ... become 0, 1, 2, 3, 4 ...
 *   plane[p][i] := byte p, from the lowest, of rotate_left(number(x[i]), rotate)
 *
 * Rotation decides where the cuts between planes fall: by one bit, the exponent of a float32 is a whole byte and the
 * sign stands below the mantissa; where the cuts fall best is found on samples. All steps are bijections on bits.
 *
 *   planar := width:u8 flags:u8 plane{width} tail           flags: bits 0-5 rotate, bit 6 ordered floats
 *   plane  := 0:u8 byte{count}                              stored
 *           | 1:u8 byte                                     that byte, count times
 *           | 2:u8 size:u24 zstd_frame{size}                see zstd_frame.h
 *   tail   := byte{size % width}                            what is less than an element
 *
 * count = size / width; plane 0 is the lowest byte. Integers are little-endian. */
#ifndef CKPT_PLANES_H
#define CKPT_PLANES_H

#include <ckpt/error.h>
#include <stdbool.h>
#include <stddef.h>

#define PLANES_WIDTH_MAX   8
#define PLANES_HEADER_SIZE 2

typedef enum plane_delta { PLANE_DELTA_NONE, PLANE_DELTA_XOR, PLANE_DELTA_SUB } plane_delta;

typedef struct plane_layout {
    plane_delta delta;
    unsigned width;  /* bytes of an element: 1, 2, 4, 8 */
    unsigned rotate; /* less than 8 * width */
    bool ordered;    /* SUB: elements are floats */
} plane_layout;

/* Cutting and merging, in one implementation for each instruction set; all give the same bytes.
 * `reference` is read when delta is not NONE. */
typedef struct plane_kernel {
    const char *name; /* "scalar", "avx2" */
    /* planes: width planes of count bytes, one behind the other. */
    void (*split)(unsigned char *planes, const plane_layout *layout, const void *src, const void *reference,
                  size_t count);
    void (*merge)(void *dst, const plane_layout *layout, const unsigned char *const plane[PLANES_WIDTH_MAX],
                  const void *reference, size_t count);
} plane_kernel;

extern const plane_kernel PLANE_KERNEL_SCALAR;
const plane_kernel *plane_kernel_avx2(void); /* NULL: not this machine */
const plane_kernel *plane_kernel_best(void);

struct codec; /* scratch memory */

/* Appends one coded plane at *used of dst, and moves that on; *fits becomes false when it takes more than `capacity`.
 */
int plane_encode(bool *fits, size_t *used, unsigned char *dst, size_t capacity, struct codec *c, int level,
                 const unsigned char *plane, size_t count, ckpt_error *err);
/* Sets *plane to the `count` bytes of the coded plane at *used, and moves that on: inside the coded bytes, or decoded
 * into `scratch`. CKPT_EDATA. */
int plane_decode(const unsigned char **plane, size_t *used, unsigned char *scratch, struct codec *c,
                 const unsigned char *coded, size_t coded_size, size_t count, ckpt_error *err);

/* Codes `size` bytes as `planar`; *coded_size is SIZE_MAX when that takes more than `capacity`. */
int planes_encode(size_t *coded_size, void *dst, size_t capacity, struct codec *c, const plane_layout *layout,
                  int level, const void *src, size_t size, const void *reference, ckpt_error *err);

/* `delta` is that of the mode; all else is in the coded bytes. CKPT_EDATA. */
int planes_decode(void *dst, size_t size, struct codec *c, plane_delta delta, const void *coded, size_t coded_size,
                  const void *reference, ckpt_error *err);

#endif
