/* Inflow: bytes of a file or of memory, read once from front to back and unpacked on the way.
 *
 * What is read goes straight into the caller's buffer; only packed bytes stand in a window of INFLOW_WINDOW before they
 * are unpacked, so that a large data set is in memory once. */
#ifndef CORE_INFLOW_H
#define CORE_INFLOW_H

#include "zipdir.h"

#define INFLOW_WINDOW    ((size_t)64 << 10)
#define INFLOW_HINT      "the file was damaged or not copied whole: copy or download it again"
#define INFLOW_RATIO_MAX 1032u /* deflate makes no byte into more than that (zlib.net/zlib_tech.html) */

/* Where the packed bytes lie. `source` points into it: an origin stays where it was opened. */
typedef struct origin {
    zip_source source;
    int fd; /* -1: memory */
    const unsigned char *memory;
} origin;

int origin_open(origin *out, const char *path, ckpt_error *err);
/* `data` stays the caller's; `path` is for messages. */
void origin_of_memory(origin *out, const void *data, size_t size, const char *path);
void origin_close(origin *o); /* one of memory is fine */

typedef enum inflow_packing {
    INFLOW_PLAIN,
    INFLOW_DEFLATE, /* a member of a zip */
    INFLOW_GZIP     /* one or several members one behind the other, as gzip(1) reads them */
} inflow_packing;

typedef struct inflow inflow;

/* The `size` packed bytes at `offset`, which lie inside of the source. `source` and `name`, for messages, outlive it.
 */
int inflow_open(inflow **out, const zip_source *source, uint64_t offset, uint64_t size, inflow_packing packing,
                const char *name, ckpt_error *err);
/* Is it gzip? By the first two bytes. */
int inflow_detect(inflow_packing *out, const zip_source *source, ckpt_error *err);

/* Reads `size` bytes; *got is less only where the data end. CKPT_EFORMAT when packed data are damaged, fail their
 * check or are cut off, or when bytes stand behind them: all that is known when *got is less than `size`, so a reader
 * that knows its end asks for one byte more. */
int inflow_read(size_t *got, inflow *in, void *dst, size_t size, ckpt_error *err);
/* The most bytes that there can be in all. */
uint64_t inflow_size_max(const inflow *in);
void inflow_close(inflow *in); /* NULL is fine */

#endif
