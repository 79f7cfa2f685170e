/* Pickle: the opcodes of Python's serialisation, read as a graph of inert values. Nothing is ever imported, called or
 * executed; a call in the stream (REDUCE, NEWOBJ, BUILD ...) is only a node that says what would have been called.
 * What the names mean is for the caller to know.
 *
 *   stream := opcode* STOP             protocols 2 to 5; the text opcodes of protocol 0 are refused
 *
 * Time is linear in the bytes of the stream, memory is bounded by the limits below. The graph may have cycles and
 * shared values, so whoever walks it has to bound the walk. */
#ifndef CKPT_PICKLE_H
#define CKPT_PICKLE_H

#include <ckpt/error.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PICKLE_BYTES_MAX (100u << 20)
#define PICKLE_NODES_MAX (1u << 21)
#define PICKLE_CELLS_MAX (1u << 22) /* items of containers */
#define PICKLE_STACK_MAX (1u << 21)
#define PICKLE_MEMO_MAX  (1u << 21)

typedef enum pickle_kind {
    PICKLE_MARK,    /* node 0; never inside a value */
    PICKLE_UNKNOWN, /* None, floats, large integers and whatever else has no use here */
    PICKLE_BOOL,
    PICKLE_INT,
    PICKLE_TEXT,
    PICKLE_BYTES,
    PICKLE_LIST,
    PICKLE_TUPLE,
    PICKLE_DICT, /* cells are key, value, key, value ... */
    PICKLE_SET,
    PICKLE_GLOBAL,     /* a name in a module */
    PICKLE_PERSISTENT, /* stands for an object outside of the stream */
    PICKLE_OBJECT      /* what a call would give */
} pickle_kind;

typedef uint32_t pickle_ref; /* index into nodes */

/* A list of refs that may grow at its end; 0 is no cell. */
typedef struct pickle_cell {
    pickle_ref value;
    uint32_t next;
} pickle_cell;

typedef struct pickle_node {
    uint8_t kind;   /* pickle_kind */
    uint8_t marks;  /* for the caller's walk, 0 at first */
    bool pairs;     /* the items are keys and values */
    uint32_t count; /* bytes of a text; cells of a container or object */
    union {
        int64_t integer; /* BOOL, INT */
        uint32_t at;     /* TEXT, BYTES: offset in the stream */
        struct {
            uint32_t first, last; /* cells of LIST, TUPLE, DICT, SET; of an OBJECT: what was appended or set later */
        } items;
    } as;
    pickle_ref callee;    /* OBJECT: what is called; GLOBAL: TEXT of the module */
    pickle_ref arguments; /* OBJECT: its arguments; GLOBAL: TEXT of the name; PERSISTENT: the id */
    pickle_ref state;     /* OBJECT: of BUILD, 0 for none */
} pickle_node;

typedef struct pickle {
    const unsigned char *data; /* borrowed: texts are places in it */
    pickle_node *nodes;
    size_t node_count;
    pickle_cell *cells;
    size_t cell_count;
    pickle_ref root;
    size_t size;  /* bytes of the stream, with STOP */
    bool cut_off; /* after CKPT_EFORMAT: for want of more bytes */
} pickle;

/* Reads one stream; bytes behind STOP are not looked at. `data` must outlive `out`.
 * Errors: CKPT_EFORMAT ("opcode 0x8c at 1234: ..."), CKPT_ENOMEM. */
int pickle_read(pickle *out, const void *data, size_t size, ckpt_error *err);
void pickle_clear(pickle *p);

/* The i-th item of a tuple or list, 0 when there is none; takes i steps. */
pickle_ref pickle_item(const pickle *p, pickle_ref sequence, size_t i);
/* Is it the TEXT `text`? */
bool pickle_text_is(const pickle *p, pickle_ref ref, const char *text);
/* Is it the global `name` of `module`? */
bool pickle_global_is(const pickle *p, pickle_ref ref, const char *module, const char *name);
/* The value of an INT that is not negative; false otherwise. */
bool pickle_count(uint64_t *out, const pickle *p, pickle_ref ref);

#endif
