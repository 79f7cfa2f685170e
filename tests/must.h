/* The call, with ERR as its last argument, must succeed. Behind <cmocka.h>. */
#ifndef TESTS_MUST_H
#define TESTS_MUST_H

#include <ckpt/error.h>

#define MUST(call)                                                                                                     \
    do {                                                                                                               \
        ckpt_error must_err = {0};                                                                                     \
        if (call)                                                                                                      \
            fail_msg("%s: %s", #call, must_err.message);                                                               \
    } while (0)
#define ERR (&must_err) /* inside MUST */

#endif
