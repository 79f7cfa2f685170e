/* Parts of a plan; private to plan.c and plan_run.c.
 *
 * Of a chain of n operations, operation i reads value i and writes value i + 1; value 0 is the batch, value n are the
 * logits. */
#ifndef CORE_PLAN_INTERNAL_H
#define CORE_PLAN_INTERNAL_H

#include "arena.h"
#include "plan.h"

typedef struct plan_time {
    uint64_t calls;
    double forward_seconds, backward_seconds;
} plan_time;

typedef struct plan_node {
    op *op;
    size_t layer;                /* the first that it does */
    bool has_backward;           /* it has parameters, or an operation before it has */
    op_memory forward, backward; /* filled in by plan_bind */
    plan_time time;
} plan_node;

/* Buffers of one value and of the operation that writes it; what is not needed has 0 bytes. */
typedef enum plan_place {
    PLACE_VALUE,
    PLACE_GRAD,
    PLACE_KEEP,
    PLACE_FORWARD_SCRATCH,
    PLACE_BACKWARD_SCRATCH,
    PLACES
} plan_place;

struct plan {
    backend *backend;
    const net *net;
    plan_mode mode;
    value batch;
    plan_node *nodes;
    size_t node_count;
    arena_buffer (*buffers)[PLACES]; /* [node_count + 1]: one row for each value */
    size_t bytes;
    char *arena;
    bool profile;
    plan_time loss_time;
};

/* NULL when the buffer is not needed. */
void *plan_memory(const plan *p, size_t value, plan_place place);
const value *plan_value(const plan *p, size_t v);

#endif
