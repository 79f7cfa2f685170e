#include "host_memory.h"

#include "checked.h"
#include "fail.h"
#include "file.h"
#include "units.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Large memory lies in pages of this size where the system has them: passes over values of many megabytes would else
 * wait for the translation of addresses. */
#define HUGE_PAGE_BYTES ((size_t)2 << 20)

#define MEMINFO_SIZE_MAX 65536

/* "MemAvailable:   23551692 kB" of /proc/meminfo, in bytes; 0: no such line. */
static uint64_t meminfo_bytes(const char *meminfo, const char *key)
{
    const char *const line = strstr(meminfo, key);
    char *rest;
    const unsigned long long kib = line ? strtoull(line + strlen(key), &rest, 10) : 0;

    return kib <= UINT64_MAX >> 11 ? (uint64_t)kib << 10 : 0;
}

/* What the machine can still give; 0: not known. */
static uint64_t memory_available(void)
{
    char *text = NULL;
    size_t size;
    uint64_t bytes = 0;

    if (file_read_all(&text, &size, "/proc/meminfo", MEMINFO_SIZE_MAX, NULL) == 0 &&
        (bytes = meminfo_bytes(text, "MemAvailable:")) > 0)
        bytes += meminfo_bytes(text, "SwapFree:");
    free(text);
    return bytes;
}

/* Linux promises more memory than there is, and kills whoever takes it at its word. */
static int memory_check(size_t bytes, ckpt_error *err)
{
    int rc = 0;
    char needed[UNITS_TEXT_SIZE], there[UNITS_TEXT_SIZE];
    const uint64_t available = bytes >= HUGE_PAGE_BYTES ? memory_available() : 0;

    if (available == 0 || bytes <= available)
        goto out;
    format_size(needed, bytes);
    format_size(there, available);
    rc =
        error_set(err, CKPT_ENOMEM, "%s of memory are needed at once, of which the machine has %s left", needed, there);
    error_hint(err, "a smaller data.batch or smaller layers need less");
out:
    return rc;
}

int host_memory_new(void **out, backend *b, size_t bytes, ckpt_error *err)
{
    const size_t alignment = bytes >= HUGE_PAGE_BYTES ? HUGE_PAGE_BYTES : BACKEND_ALIGNMENT;
    uint64_t room;
    void *memory = NULL;
    (void)b;

    *out = NULL;
    const int rc = memory_check(bytes, err);
    if (rc)
        return rc;
    /* aligned_alloc wants a multiple of the alignment; and nothing is no memory. */
    if (checked_add(&room, bytes ? bytes : 1, alignment - 1) && room <= SIZE_MAX) {
        room -= room % alignment;
        memory = aligned_alloc(alignment, (size_t)room);
    }
    *out = memory;
    if (!memory)
        return error_memory(err);
    if (alignment == HUGE_PAGE_BYTES)
        madvise(memory, (size_t)room, MADV_HUGEPAGE); /* a wish */
    memset(memory, 0, bytes);                         /* touches every page that is used */
    return 0;
}

void host_memory_free(backend *b, void *memory)
{
    (void)b;
    free(memory);
}

static int copy(void *dst, const void *src, size_t bytes)
{
    if (bytes)
        memcpy(dst, src, bytes);
    return 0;
}

int host_memory_write(backend *b, void *device, const void *host, size_t bytes, ckpt_error *err)
{
    (void)b;
    (void)err;
    return copy(device, host, bytes);
}

int host_memory_read(backend *b, void *host, const void *device, size_t bytes, ckpt_error *err)
{
    (void)b;
    (void)err;
    return copy(host, device, bytes);
}

int host_memory_wait(backend *b, ckpt_error *err)
{
    (void)b;
    (void)err;
    return 0;
}
