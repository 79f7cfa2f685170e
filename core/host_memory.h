/* Host memory: the members of a backend that computes in plain memory, which the host reads and writes where it lies.
 * See memory_new, memory_free, write, read and wait of backend.h. */
#ifndef CORE_HOST_MEMORY_H
#define CORE_HOST_MEMORY_H

#include "backend.h"

int host_memory_new(void **out, backend *b, size_t bytes, ckpt_error *err);
void host_memory_free(backend *b, void *memory);
int host_memory_write(backend *b, void *device, const void *host, size_t bytes, ckpt_error *err);
int host_memory_read(backend *b, void *host, const void *device, size_t bytes, ckpt_error *err);
int host_memory_wait(backend *b,
                     ckpt_error *err); /* calls return when the work is done: there is nothing to wait for */

#endif
