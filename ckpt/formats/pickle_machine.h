/* The machine that reads a pickle: a stack, a memo, and the graph that grows. Private to pickle.c and its opcodes. */
#ifndef CKPT_PICKLE_MACHINE_H
#define CKPT_PICKLE_MACHINE_H

#include "pickle.h"

#define PICKLE_PROTOCOL_MAX 5

/* Nodes that all their uses share, at fixed places. */
enum { NODE_MARK, NODE_UNKNOWN, NODE_FALSE, NODE_TRUE, NODE_SHARED_COUNT };

typedef struct pickle_refs {
    pickle_ref *items;
    size_t count, capacity;
} pickle_refs;

typedef struct pickle_machine {
    pickle *graph;
    size_t node_capacity, cell_capacity;
    pickle_refs stack, memo; /* memo: 0 where nothing was put */
    const unsigned char *data;
    size_t size, at;
    bool stopped;
} pickle_machine;

/* What stands behind an opcode in the stream. */
typedef enum pickle_operand_kind {
    OPERAND_NONE,
    OPERAND_U8,
    OPERAND_U16,
    OPERAND_U32,
    OPERAND_I32,
    OPERAND_U64,
    OPERAND_TEXT8, /* a length of 1 byte, then so many bytes */
    OPERAND_TEXT32,
    OPERAND_TEXT64,
    OPERAND_LINES /* two lines: module and name */
} pickle_operand_kind;

typedef struct pickle_operand {
    int64_t number;
    size_t at, size;           /* of the text */
    size_t name_at, name_size; /* of the second line */
} pickle_operand;

typedef struct pickle_opcode {
    /* NULL: not an opcode of protocols 2 to 5 */
    int (*run)(pickle_machine *m, const pickle_operand *arg, unsigned parameter, ckpt_error *err);
    pickle_operand_kind operand;
    unsigned parameter;
} pickle_opcode;

extern const pickle_opcode PICKLE_OPCODES[256];

/* All errors are CKPT_EFORMAT (a limit, or a stack that does not have what is asked for) or CKPT_ENOMEM. */
int pickle_node_add(pickle_ref *out, pickle_machine *m, pickle_node node, ckpt_error *err);
int pickle_cell_append(pickle_machine *m, pickle_ref container, pickle_ref value, ckpt_error *err);
int pickle_push(pickle_machine *m, pickle_ref ref, ckpt_error *err);
int pickle_push_node(pickle_machine *m, pickle_node node, ckpt_error *err);
/* The topmost value, which may not be a mark. */
int pickle_peek(pickle_ref *out, const pickle_machine *m, ckpt_error *err);
int pickle_pop(pickle_ref *out, pickle_machine *m, ckpt_error *err);
/* Index of the first of the topmost `count` values, none of them a mark. */
int pickle_top(size_t *first, const pickle_machine *m, size_t count, ckpt_error *err);
/* Index of the first value above the topmost mark. */
int pickle_mark_find(size_t *first, const pickle_machine *m, ckpt_error *err);
int pickle_memo_put(pickle_machine *m, uint64_t key, ckpt_error *err);

#endif
