/* What each opcode does to the stack, the memo and the graph. */
#include "pickle_machine.h"

#include "fail.h"

/* ---- Opcodes: plain values -------------------------------------------------------------------------------------- */

static int run_protocol(pickle_machine *m, const pickle_operand *arg, unsigned parameter, ckpt_error *err)
{
    (void)m, (void)parameter;
    return arg->number <= PICKLE_PROTOCOL_MAX
               ? 0
               : error_set(err, CKPT_EFORMAT, "protocol %d is too new", (int)arg->number);
}

static int run_nothing(pickle_machine *m, const pickle_operand *arg, unsigned parameter, ckpt_error *err)
{
    (void)m, (void)arg, (void)parameter, (void)err;
    return 0;
}

static int run_stop(pickle_machine *m, const pickle_operand *arg, unsigned parameter, ckpt_error *err)
{
    (void)arg, (void)parameter;
    m->stopped = true;
    return pickle_pop(&m->graph->root, m, err);
}

static int run_shared(pickle_machine *m, const pickle_operand *arg, unsigned parameter, ckpt_error *err)
{
    (void)arg;
    return pickle_push(m, parameter, err);
}

static int run_int(pickle_machine *m, const pickle_operand *arg, unsigned parameter, ckpt_error *err)
{
    (void)parameter;
    return pickle_push_node(m, (pickle_node){.kind = PICKLE_INT, .as.integer = arg->number}, err);
}

/* LONG1, LONG4: two's complement, little-endian, any length; what does not fit 64 bits is of no use here. */
static int run_long(pickle_machine *m, const pickle_operand *arg, unsigned parameter, ckpt_error *err)
{
    (void)parameter;
    if (arg->size > sizeof(uint64_t))
        return pickle_push(m, NODE_UNKNOWN, err);
    const bool negative = arg->size && (m->data[arg->at + arg->size - 1] & 0x80);
    uint64_t bits = negative ? UINT64_MAX : 0;
    for (size_t i = arg->size; i-- > 0;)
        bits = bits << 8 | m->data[arg->at + i];
    return pickle_push_node(m, (pickle_node){.kind = PICKLE_INT, .as.integer = (int64_t)bits}, err);
}

static int run_text(pickle_machine *m, const pickle_operand *arg, unsigned parameter, ckpt_error *err)
{
    return pickle_push_node(
        m, (pickle_node){.kind = (uint8_t)parameter, .count = (uint32_t)arg->size, .as.at = (uint32_t)arg->at}, err);
}

/* ---- Opcodes: containers ---------------------------------------------------------------------------------------- */

static int run_empty(pickle_machine *m, const pickle_operand *arg, unsigned parameter, ckpt_error *err)
{
    (void)arg;
    return pickle_push_node(m, (pickle_node){.kind = (uint8_t)parameter, .pairs = parameter == PICKLE_DICT}, err);
}

/* Moves the values from stack index `first` up into the container, and cuts the stack to `keep`. */
static int items_move(pickle_machine *m, pickle_ref container, size_t first, size_t keep, ckpt_error *err)
{
    int rc = 0;
    FAIL_IF(m->graph->nodes[container].pairs && (m->stack.count - first) % 2, err, CKPT_EFORMAT, "a key has no value");
    for (size_t i = first; i < m->stack.count; i++)
        TRY(pickle_cell_append(m, container, m->stack.items[i], err));
    m->stack.count = keep;
out:
    return rc;
}

/* TUPLE, LIST, DICT, FROZENSET: all above the mark becomes one container. */
static int run_collect(pickle_machine *m, const pickle_operand *arg, unsigned parameter, ckpt_error *err)
{
    int rc = 0;
    size_t first;
    pickle_ref made;
    (void)arg;

    TRY(pickle_mark_find(&first, m, err));
    TRY(pickle_node_add(&made, m, (pickle_node){.kind = (uint8_t)parameter, .pairs = parameter == PICKLE_DICT}, err));
    TRY(items_move(m, made, first, first - 1, err));
    TRY(pickle_push(m, made, err));
out:
    return rc;
}

/* TUPLE1 to TUPLE3 */
static int run_tuple(pickle_machine *m, const pickle_operand *arg, unsigned parameter, ckpt_error *err)
{
    int rc = 0;
    size_t first;
    pickle_ref made;
    (void)arg;

    TRY(pickle_top(&first, m, parameter, err));
    TRY(pickle_node_add(&made, m, (pickle_node){.kind = PICKLE_TUPLE}, err));
    TRY(items_move(m, made, first, first, err));
    TRY(pickle_push(m, made, err));
out:
    return rc;
}

/* Adds the values from `first` up to the container below them. Objects take items too: OrderedDict is one. */
static int items_add(pickle_machine *m, size_t first, size_t keep, bool pairs, ckpt_error *err)
{
    int rc = 0;
    FAIL_IF(keep == 0 || m->stack.items[keep - 1] == NODE_MARK, err, CKPT_EFORMAT, "the stack has no container");
    const pickle_ref container = m->stack.items[keep - 1];
    pickle_node *node = &m->graph->nodes[container];
    if (node->kind == PICKLE_OBJECT && node->count == 0)
        node->pairs = pairs;
    const bool takes = pairs ? node->kind == PICKLE_DICT || node->kind == PICKLE_OBJECT
                             : node->kind == PICKLE_LIST || node->kind == PICKLE_SET || node->kind == PICKLE_OBJECT;
    FAIL_IF(!takes || node->pairs != pairs, err, CKPT_EFORMAT, "items are added to what cannot have them");
    TRY(items_move(m, container, first, keep, err));
out:
    return rc;
}

/* APPEND and SETITEM; `parameter` is the number of values. */
static int run_add(pickle_machine *m, const pickle_operand *arg, unsigned parameter, ckpt_error *err)
{
    int rc = 0;
    size_t first;
    (void)arg;
    TRY(pickle_top(&first, m, parameter, err));
    TRY(items_add(m, first, first, parameter == 2, err));
out:
    return rc;
}

/* APPENDS, ADDITEMS, SETITEMS; `parameter` is 2 for pairs. */
static int run_add_marked(pickle_machine *m, const pickle_operand *arg, unsigned parameter, ckpt_error *err)
{
    int rc = 0;
    size_t first;
    (void)arg;
    TRY(pickle_mark_find(&first, m, err));
    TRY(items_add(m, first, first - 1, parameter == 2, err));
out:
    return rc;
}

/* ---- Opcodes: stack and memo ------------------------------------------------------------------------------------ */

/* A lone POP may take a mark away too. */
static int run_pop(pickle_machine *m, const pickle_operand *arg, unsigned parameter, ckpt_error *err)
{
    (void)arg, (void)parameter;
    if (m->stack.count == 0)
        return error_set(err, CKPT_EFORMAT, "the stack has no value");
    m->stack.count--;
    return 0;
}

static int run_pop_mark(pickle_machine *m, const pickle_operand *arg, unsigned parameter, ckpt_error *err)
{
    size_t first;
    const int rc = pickle_mark_find(&first, m, err);
    (void)arg, (void)parameter;
    if (rc == 0)
        m->stack.count = first - 1;
    return rc;
}

static int run_dup(pickle_machine *m, const pickle_operand *arg, unsigned parameter, ckpt_error *err)
{
    pickle_ref top = 0;
    const int rc = pickle_peek(&top, m, err);
    (void)arg, (void)parameter;
    return rc ? rc : pickle_push(m, top, err);
}

static int run_put(pickle_machine *m, const pickle_operand *arg, unsigned parameter, ckpt_error *err)
{
    (void)parameter;
    return pickle_memo_put(m, (uint64_t)arg->number, err);
}

static int run_get(pickle_machine *m, const pickle_operand *arg, unsigned parameter, ckpt_error *err)
{
    (void)parameter;
    const uint64_t key = (uint64_t)arg->number;
    if (key >= m->memo.count || m->memo.items[key] == 0)
        return error_set(err, CKPT_EFORMAT, "memo key %llu was never put", (unsigned long long)key);
    return pickle_push(m, m->memo.items[key], err);
}

static int run_memoize(pickle_machine *m, const pickle_operand *arg, unsigned parameter, ckpt_error *err)
{
    (void)arg, (void)parameter;
    return pickle_memo_put(m, m->memo.count, err);
}

/* ---- Opcodes: names and calls, all inert ------------------------------------------------------------------------ */

static int run_global(pickle_machine *m, const pickle_operand *arg, unsigned parameter, ckpt_error *err)
{
    int rc = 0;
    pickle_node node = {.kind = PICKLE_GLOBAL};
    const pickle_node module = {.kind = PICKLE_TEXT, .count = (uint32_t)arg->size, .as.at = (uint32_t)arg->at};
    const pickle_node name = {.kind = PICKLE_TEXT, .count = (uint32_t)arg->name_size, .as.at = (uint32_t)arg->name_at};
    (void)parameter;

    TRY(pickle_node_add(&node.callee, m, module, err));
    TRY(pickle_node_add(&node.arguments, m, name, err));
    TRY(pickle_push_node(m, node, err));
out:
    return rc;
}

static int run_stack_global(pickle_machine *m, const pickle_operand *arg, unsigned parameter, ckpt_error *err)
{
    int rc = 0;
    pickle_node node = {.kind = PICKLE_GLOBAL};
    (void)arg, (void)parameter;

    TRY(pickle_pop(&node.arguments, m, err));
    TRY(pickle_pop(&node.callee, m, err));
    TRY(pickle_push_node(m, node, err));
out:
    return rc;
}

static int run_persistent(pickle_machine *m, const pickle_operand *arg, unsigned parameter, ckpt_error *err)
{
    int rc = 0;
    pickle_node node = {.kind = PICKLE_PERSISTENT};
    (void)arg, (void)parameter;

    TRY(pickle_pop(&node.arguments, m, err));
    TRY(pickle_push_node(m, node, err));
out:
    return rc;
}

/* REDUCE, NEWOBJ (`parameter` 0) and NEWOBJ_EX (1: keyword arguments on top, which are dropped). */
static int run_call(pickle_machine *m, const pickle_operand *arg, unsigned parameter, ckpt_error *err)
{
    int rc = 0;
    pickle_ref keywords;
    pickle_node node = {.kind = PICKLE_OBJECT};
    (void)arg;

    if (parameter)
        TRY(pickle_pop(&keywords, m, err));
    TRY(pickle_pop(&node.arguments, m, err));
    TRY(pickle_pop(&node.callee, m, err));
    TRY(pickle_push_node(m, node, err));
out:
    return rc;
}

/* BUILD: the last state stands. What is not an object takes its state along unseen. */
static int run_build(pickle_machine *m, const pickle_operand *arg, unsigned parameter, ckpt_error *err)
{
    int rc = 0;
    pickle_ref state, object;
    (void)arg, (void)parameter;

    TRY(pickle_pop(&state, m, err));
    TRY(pickle_peek(&object, m, err));
    if (m->graph->nodes[object].kind == PICKLE_OBJECT)
        m->graph->nodes[object].state = state;
out:
    return rc;
}

/* ---- The table -------------------------------------------------------------------------------------------------- */

const pickle_opcode PICKLE_OPCODES[256] = {
    [0x80] = {run_protocol, OPERAND_U8, 0},            /* PROTO */
    [0x95] = {run_nothing, OPERAND_U64, 0},            /* FRAME */
    ['.'] = {run_stop, OPERAND_NONE, 0},               /* STOP */
    ['N'] = {run_shared, OPERAND_NONE, NODE_UNKNOWN},  /* NONE */
    [0x88] = {run_shared, OPERAND_NONE, NODE_TRUE},    /* NEWTRUE */
    [0x89] = {run_shared, OPERAND_NONE, NODE_FALSE},   /* NEWFALSE */
    ['('] = {run_shared, OPERAND_NONE, NODE_MARK},     /* MARK */
    ['G'] = {run_shared, OPERAND_U64, NODE_UNKNOWN},   /* BINFLOAT */
    ['J'] = {run_int, OPERAND_I32, 0},                 /* BININT */
    ['K'] = {run_int, OPERAND_U8, 0},                  /* BININT1 */
    ['M'] = {run_int, OPERAND_U16, 0},                 /* BININT2 */
    [0x8a] = {run_long, OPERAND_TEXT8, 0},             /* LONG1 */
    [0x8b] = {run_long, OPERAND_TEXT32, 0},            /* LONG4 */
    ['X'] = {run_text, OPERAND_TEXT32, PICKLE_TEXT},   /* BINUNICODE */
    [0x8c] = {run_text, OPERAND_TEXT8, PICKLE_TEXT},   /* SHORT_BINUNICODE */
    [0x8d] = {run_text, OPERAND_TEXT64, PICKLE_TEXT},  /* BINUNICODE8 */
    ['T'] = {run_text, OPERAND_TEXT32, PICKLE_TEXT},   /* BINSTRING, of Python 2 */
    ['U'] = {run_text, OPERAND_TEXT8, PICKLE_TEXT},    /* SHORT_BINSTRING */
    ['B'] = {run_text, OPERAND_TEXT32, PICKLE_BYTES},  /* BINBYTES */
    ['C'] = {run_text, OPERAND_TEXT8, PICKLE_BYTES},   /* SHORT_BINBYTES */
    [0x8e] = {run_text, OPERAND_TEXT64, PICKLE_BYTES}, /* BINBYTES8 */
    [0x96] = {run_text, OPERAND_TEXT64, PICKLE_BYTES}, /* BYTEARRAY8 */
    [']'] = {run_empty, OPERAND_NONE, PICKLE_LIST},    /* EMPTY_LIST */
    [')'] = {run_empty, OPERAND_NONE, PICKLE_TUPLE},   /* EMPTY_TUPLE */
    ['}'] = {run_empty, OPERAND_NONE, PICKLE_DICT},    /* EMPTY_DICT */
    [0x8f] = {run_empty, OPERAND_NONE, PICKLE_SET},    /* EMPTY_SET */
    ['t'] = {run_collect, OPERAND_NONE, PICKLE_TUPLE}, /* TUPLE */
    ['l'] = {run_collect, OPERAND_NONE, PICKLE_LIST},  /* LIST */
    ['d'] = {run_collect, OPERAND_NONE, PICKLE_DICT},  /* DICT */
    [0x91] = {run_collect, OPERAND_NONE, PICKLE_SET},  /* FROZENSET */
    [0x85] = {run_tuple, OPERAND_NONE, 1},             /* TUPLE1 */
    [0x86] = {run_tuple, OPERAND_NONE, 2},             /* TUPLE2 */
    [0x87] = {run_tuple, OPERAND_NONE, 3},             /* TUPLE3 */
    ['a'] = {run_add, OPERAND_NONE, 1},                /* APPEND */
    ['s'] = {run_add, OPERAND_NONE, 2},                /* SETITEM */
    ['e'] = {run_add_marked, OPERAND_NONE, 1},         /* APPENDS */
    [0x90] = {run_add_marked, OPERAND_NONE, 1},        /* ADDITEMS */
    ['u'] = {run_add_marked, OPERAND_NONE, 2},         /* SETITEMS */
    ['0'] = {run_pop, OPERAND_NONE, 0},                /* POP */
    ['1'] = {run_pop_mark, OPERAND_NONE, 0},           /* POP_MARK */
    ['2'] = {run_dup, OPERAND_NONE, 0},                /* DUP */
    ['q'] = {run_put, OPERAND_U8, 0},                  /* BINPUT */
    ['r'] = {run_put, OPERAND_U32, 0},                 /* LONG_BINPUT */
    ['h'] = {run_get, OPERAND_U8, 0},                  /* BINGET */
    ['j'] = {run_get, OPERAND_U32, 0},                 /* LONG_BINGET */
    [0x94] = {run_memoize, OPERAND_NONE, 0},           /* MEMOIZE */
    ['c'] = {run_global, OPERAND_LINES, 0},            /* GLOBAL */
    [0x93] = {run_stack_global, OPERAND_NONE, 0},      /* STACK_GLOBAL */
    [0x82] = {run_shared, OPERAND_U8, NODE_UNKNOWN},   /* EXT1 */
    [0x83] = {run_shared, OPERAND_U16, NODE_UNKNOWN},  /* EXT2 */
    [0x84] = {run_shared, OPERAND_U32, NODE_UNKNOWN},  /* EXT4 */
    ['Q'] = {run_persistent, OPERAND_NONE, 0},         /* BINPERSID */
    ['R'] = {run_call, OPERAND_NONE, 0},               /* REDUCE */
    [0x81] = {run_call, OPERAND_NONE, 0},              /* NEWOBJ */
    [0x92] = {run_call, OPERAND_NONE, 1},              /* NEWOBJ_EX */
    ['b'] = {run_build, OPERAND_NONE, 0},              /* BUILD */
};
