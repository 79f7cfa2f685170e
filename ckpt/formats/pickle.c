#include "pickle_machine.h"

#include "fail.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define NAME_BYTES_MAX 4096 /* a module or a name */

/* ---- Operands --------------------------------------------------------------------------------------------------- */

/* Bytes of a fixed operand, or of the length in front of a text. */
static const unsigned char OPERAND_SIZES[] = {
    [OPERAND_NONE] = 0, [OPERAND_U8] = 1,    [OPERAND_U16] = 2,    [OPERAND_U32] = 4,    [OPERAND_I32] = 4,
    [OPERAND_U64] = 8,  [OPERAND_TEXT8] = 1, [OPERAND_TEXT32] = 4, [OPERAND_TEXT64] = 8, [OPERAND_LINES] = 0,
};

static uint64_t number_load(const unsigned char *at, size_t size)
{
    uint64_t number = 0;
    for (size_t i = size; i-- > 0;)
        number = number << 8 | at[i];
    return number;
}

static int line_read(size_t *at, size_t *size, pickle_machine *m, ckpt_error *err)
{
    const size_t left = m->size - m->at;
    const size_t limit = left < NAME_BYTES_MAX ? left : NAME_BYTES_MAX;
    const unsigned char *start = m->data + m->at;
    const unsigned char *end = limit ? memchr(start, '\n', limit) : NULL;
    m->graph->cut_off = !end && limit == left;
    if (!end)
        return error_set(err, CKPT_EFORMAT, "a name has no end");
    *at = m->at;
    *size = (size_t)(end - start);
    m->at += *size + 1;
    return 0;
}

static int operand_read(pickle_operand *out, pickle_machine *m, pickle_operand_kind kind, ckpt_error *err)
{
    int rc = 0;
    const size_t size = OPERAND_SIZES[kind];

    *out = (pickle_operand){0};
    m->graph->cut_off = size > m->size - m->at;
    FAIL_IF(m->graph->cut_off, err, CKPT_EFORMAT, "the stream ends inside");
    const uint64_t number = number_load(m->data + m->at, size);
    out->number = kind == OPERAND_I32 ? (int32_t)(uint32_t)number : (int64_t)number;
    m->at += size;
    if (kind == OPERAND_TEXT8 || kind == OPERAND_TEXT32 || kind == OPERAND_TEXT64) {
        m->graph->cut_off = number > m->size - m->at;
        FAIL_IF(m->graph->cut_off, err, CKPT_EFORMAT, "%llu bytes are announced, %zu are left",
                (unsigned long long)number, m->size - m->at);
        out->at = m->at;
        out->size = (size_t)number;
        m->at += out->size;
    } else if (kind == OPERAND_LINES) {
        TRY(line_read(&out->at, &out->size, m, err));
        TRY(line_read(&out->name_at, &out->name_size, m, err));
    }
out:
    return rc;
}

/* ---- Reading ---------------------------------------------------------------------------------------------------- */

static int opcode_step(pickle_machine *m, ckpt_error *err)
{
    int rc = 0;
    const size_t at = m->at;
    pickle_operand arg;

    m->graph->cut_off = at >= m->size;
    if (at >= m->size)
        return error_set(err, CKPT_EFORMAT, "the stream ends without STOP");
    const unsigned code = m->data[m->at++];
    FAIL_IF(!PICKLE_OPCODES[code].run, err, CKPT_EFORMAT, "not an opcode of protocols 2 to %d", PICKLE_PROTOCOL_MAX);
    TRY(operand_read(&arg, m, PICKLE_OPCODES[code].operand, err));
    TRY(PICKLE_OPCODES[code].run(m, &arg, PICKLE_OPCODES[code].parameter, err));
out:
    if (rc == CKPT_EFORMAT)
        error_prefix(err, "opcode 0x%02x at %zu", code, at);
    return rc;
}

/* The values that are shared by all their uses, at their fixed places. */
static int shared_add(pickle_machine *m, ckpt_error *err)
{
    static const pickle_node SHARED[NODE_SHARED_COUNT] = {
        [NODE_MARK] = {.kind = PICKLE_MARK},
        [NODE_UNKNOWN] = {.kind = PICKLE_UNKNOWN},
        [NODE_FALSE] = {.kind = PICKLE_BOOL, .as.integer = 0},
        [NODE_TRUE] = {.kind = PICKLE_BOOL, .as.integer = 1},
    };
    int rc = 0;
    pickle_ref ref;
    for (unsigned i = 0; i < NODE_SHARED_COUNT; i++) {
        TRY(pickle_node_add(&ref, m, SHARED[i], err));
        assert(ref == i);
    }
out:
    return rc;
}

int pickle_read(pickle *out, const void *data, size_t size, ckpt_error *err)
{
    int rc = 0;
    pickle_machine m = {.graph = out, .data = data, .size = size};

    *out = (pickle){.data = data};
    FAIL_IF(size > PICKLE_BYTES_MAX, err, CKPT_EFORMAT, "larger than %u MiB", PICKLE_BYTES_MAX >> 20);
    TRY(shared_add(&m, err));
    while (!m.stopped)
        TRY(opcode_step(&m, err));
    out->size = m.at;
out:
    free(m.stack.items);
    free(m.memo.items);
    if (rc) {
        const bool cut_off = out->cut_off;
        pickle_clear(out);
        out->cut_off = cut_off;
    }
    return rc;
}

void pickle_clear(pickle *p)
{
    free(p->nodes);
    free(p->cells);
    *p = (pickle){0};
}

/* ---- Looking ---------------------------------------------------------------------------------------------------- */

pickle_ref pickle_item(const pickle *p, pickle_ref sequence, size_t i)
{
    const pickle_node *node = &p->nodes[sequence];
    if ((node->kind != PICKLE_TUPLE && node->kind != PICKLE_LIST) || i >= node->count)
        return 0;
    uint32_t cell = node->as.items.first;
    for (; i > 0; i--)
        cell = p->cells[cell].next;
    return p->cells[cell].value;
}

bool pickle_text_is(const pickle *p, pickle_ref ref, const char *text)
{
    const pickle_node *node = &p->nodes[ref];
    return node->kind == PICKLE_TEXT && node->count == strlen(text) &&
           memcmp(p->data + node->as.at, text, node->count) == 0;
}

bool pickle_global_is(const pickle *p, pickle_ref ref, const char *module, const char *name)
{
    const pickle_node *node = &p->nodes[ref];
    return node->kind == PICKLE_GLOBAL && pickle_text_is(p, node->callee, module) &&
           pickle_text_is(p, node->arguments, name);
}

bool pickle_count(uint64_t *out, const pickle *p, pickle_ref ref)
{
    const pickle_node *node = &p->nodes[ref];
    if (node->kind != PICKLE_INT || node->as.integer < 0)
        return false;
    *out = (uint64_t)node->as.integer;
    return true;
}
