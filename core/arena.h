/* Arena: where buffers with known lifetimes lie in one piece of memory, decided once.
 *
 * Time is counted in steps of a plan. Two buffers whose lifetimes meet never overlap; others may. Largest first, each
 * goes to the lowest offset that is free during its whole life. */
#ifndef CORE_ARENA_H
#define CORE_ARENA_H

#include <ckpt/error.h>
#include <stddef.h>

#define ARENA_BUFFERS_MAX 8192

typedef struct arena_buffer {
    size_t bytes;       /* 0: no place is needed; offset becomes 0 */
    size_t first, last; /* times at which it is used, both included */
    size_t offset;      /* filled in, a multiple of BACKEND_ALIGNMENT */
} arena_buffer;

/* *total_bytes is the size of the memory that holds them all. CKPT_ENOMEM, also when the sizes add up to more than an
 * address space. */
int arena_place(size_t *total_bytes, arena_buffer *buffers, size_t count, ckpt_error *err);

#endif
