/* Failing the n-th allocation of a piece of code, in the one source file of a test program that includes this.
 *
 * malloc, calloc and realloc of the program, also as called from libraries, go through here. Not under the address
 * sanitizer, which brings its own: ALLOC_FAIL_WORKS is 0 there. */
#ifndef TESTS_ALLOC_FAIL_H
#define TESTS_ALLOC_FAIL_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ALLOC_FAIL_WORKS 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define ALLOC_FAIL_WORKS 0
#endif
#endif
#if !defined(ALLOC_FAIL_WORKS) && defined(__GLIBC__)
#define ALLOC_FAIL_WORKS 1
#elif !defined(ALLOC_FAIL_WORKS)
#define ALLOC_FAIL_WORKS 0
#endif

/* The number of the allocation to fail, counted from 1; 0: none. */
static long alloc_fail_at, alloc_fail_count;

static inline void alloc_fail_arm(long at)
{
    alloc_fail_at = at;
    alloc_fail_count = 0;
}

/* Disarms, and tells whether an allocation was failed. */
static inline bool alloc_fail_disarm(void)
{
    const bool failed = alloc_fail_at && alloc_fail_count >= alloc_fail_at;
    alloc_fail_at = 0;
    return failed;
}

#if ALLOC_FAIL_WORKS
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);

static bool alloc_fail_now(void)
{
    const bool fail = alloc_fail_at && ++alloc_fail_count == alloc_fail_at;
    if (fail)
        errno = ENOMEM;
    return fail;
}

__attribute__((visibility("default"))) void *malloc(size_t size)
{
    return alloc_fail_now() ? NULL : __libc_malloc(size);
}

__attribute__((visibility("default"))) void *calloc(size_t count, size_t size)
{
    return alloc_fail_now() ? NULL : __libc_calloc(count, size);
}

__attribute__((visibility("default"))) void *realloc(void *old, size_t size)
{
    return alloc_fail_now() ? NULL : __libc_realloc(old, size);
}
#endif

#endif
