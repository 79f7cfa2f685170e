/* What a fuzz target defines; libFuzzer and replay.c call it. */
#ifndef TESTS_FUZZ_H
#define TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* Returns 0; must not fail, leak, hang or read out of bounds for any input. Stops the process with abort() when a
 * property that it checks does not hold. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A property that must hold for every input; checked in builds without assertions too. */
#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            abort();                                                                                                   \
    } while (0)

#endif
