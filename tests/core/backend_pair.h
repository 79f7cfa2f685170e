/* A `cpu` backend of two threads, and the reference that it is compared with: setup and teardown of a group of tests.
 * Included by one test each. */
#ifndef TESTS_BACKEND_PAIR_H
#define TESTS_BACKEND_PAIR_H

#include "op_check.h"

typedef struct pair {
    backend *reference, *cpu;
} pair;

static inline backend *backend_open(const char *name, unsigned threads)
{
    ckpt_error err = {0};
    backend *b = NULL;
    op_assert_ok(backend_new(&b, name, &(backend_options){.threads = threads}, &err), &err);
    return b;
}

static inline int pair_setup(void **state)
{
    static pair p;
    p = (pair){backend_open("reference", 0), backend_open("cpu", 2)};
    print_message("%s on %s, %u threads\n", p.cpu->library, p.cpu->isa, p.cpu->threads);
    *state = &p;
    return 0;
}

static inline int pair_teardown(void **state)
{
    const pair *const p = *state;
    backend_free(p->reference);
    backend_free(p->cpu);
    return 0;
}

#endif
