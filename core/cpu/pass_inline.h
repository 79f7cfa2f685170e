/* What the files of passes have in common. */
#ifndef CORE_PASS_INLINE_H
#define CORE_PASS_INLINE_H

#include "passes.h"

#define PASS_INLINE static inline __attribute__((always_inline))

/* call(block) with the usual blocks as constants, so that the loops over them become straight code. */
#define WITH_BLOCK(block, call)                                                                                        \
    do {                                                                                                               \
        if ((block) == 16)                                                                                             \
            call(16);                                                                                                  \
        else if ((block) == 8)                                                                                         \
            call(8);                                                                                                   \
        else                                                                                                           \
            call(block);                                                                                               \
    } while (0)

PASS_INLINE float raised(float number, float floor)
{
    return number < floor ? floor : number;
}

#endif
