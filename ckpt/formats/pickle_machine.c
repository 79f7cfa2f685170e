#include "pickle_machine.h"

#include "fail.h"

#include <stdlib.h>

#define GROWTH_FIRST 256

/* ---- Memory ----------------------------------------------------------------------------------------------------- */

/* Makes room for `need` items, at most `max`. */
static int grow(void **items, size_t *capacity, size_t need, size_t max, size_t item_size, const char *what,
                ckpt_error *err)
{
    if (need <= *capacity)
        return 0;
    if (need > max)
        return error_set(err, CKPT_EFORMAT, "more than %zu %s", max, what);
    size_t larger = *capacity ? *capacity : GROWTH_FIRST;
    while (larger < need)
        larger *= 2;
    if (larger > max)
        larger = max;
    void *moved = realloc(*items, larger * item_size);
    if (!moved)
        return error_memory(err);
    *items = moved;
    *capacity = larger;
    return 0;
}

static int refs_reserve(pickle_refs *r, size_t need, size_t max, const char *what, ckpt_error *err)
{
    void *items = r->items;
    const int rc = grow(&items, &r->capacity, need, max, sizeof *r->items, what, err);
    r->items = items;
    return rc;
}

int pickle_node_add(pickle_ref *out, pickle_machine *m, pickle_node node, ckpt_error *err)
{
    pickle *g = m->graph;
    void *items = g->nodes;
    const int rc =
        grow(&items, &m->node_capacity, g->node_count + 1, PICKLE_NODES_MAX, sizeof *g->nodes, "values", err);
    g->nodes = items;
    if (rc)
        return rc;
    *out = (pickle_ref)g->node_count;
    g->nodes[g->node_count++] = node;
    return 0;
}

int pickle_cell_append(pickle_machine *m, pickle_ref container, pickle_ref value, ckpt_error *err)
{
    pickle *g = m->graph;
    void *items = g->cells;
    const int rc = grow(&items, &m->cell_capacity, g->cell_count + 1, PICKLE_CELLS_MAX, sizeof *g->cells, "items", err);
    g->cells = items;
    if (rc)
        return rc;
    pickle_node *node = &g->nodes[container];
    const uint32_t cell = (uint32_t)g->cell_count++;
    g->cells[cell] = (pickle_cell){value, 0};
    if (node->count)
        g->cells[node->as.items.last].next = cell;
    else
        node->as.items.first = cell;
    node->as.items.last = cell;
    node->count++;
    return 0;
}

/* ---- Stack ------------------------------------------------------------------------------------------------------ */

int pickle_push(pickle_machine *m, pickle_ref ref, ckpt_error *err)
{
    const int rc = refs_reserve(&m->stack, m->stack.count + 1, PICKLE_STACK_MAX, "values on the stack", err);
    if (rc == 0)
        m->stack.items[m->stack.count++] = ref;
    return rc;
}

int pickle_push_node(pickle_machine *m, pickle_node node, ckpt_error *err)
{
    pickle_ref ref;
    const int rc = pickle_node_add(&ref, m, node, err);
    return rc ? rc : pickle_push(m, ref, err);
}

int pickle_peek(pickle_ref *out, const pickle_machine *m, ckpt_error *err)
{
    if (m->stack.count == 0 || m->stack.items[m->stack.count - 1] == NODE_MARK)
        return error_set(err, CKPT_EFORMAT, "the stack has no value");
    *out = m->stack.items[m->stack.count - 1];
    return 0;
}

int pickle_pop(pickle_ref *out, pickle_machine *m, ckpt_error *err)
{
    const int rc = pickle_peek(out, m, err);
    if (rc == 0)
        m->stack.count--;
    return rc;
}

int pickle_mark_find(size_t *first, const pickle_machine *m, ckpt_error *err)
{
    size_t at = m->stack.count;
    while (at > 0 && m->stack.items[at - 1] != NODE_MARK)
        at--;
    if (at == 0)
        return error_set(err, CKPT_EFORMAT, "the stack has no mark");
    *first = at;
    return 0;
}

int pickle_top(size_t *first, const pickle_machine *m, size_t count, ckpt_error *err)
{
    if (m->stack.count < count)
        return error_set(err, CKPT_EFORMAT, "the stack has no value");
    *first = m->stack.count - count;
    for (size_t i = *first; i < m->stack.count; i++)
        if (m->stack.items[i] == NODE_MARK)
            return error_set(err, CKPT_EFORMAT, "the stack has no value");
    return 0;
}

/* ---- Memo ------------------------------------------------------------------------------------------------------- */

int pickle_memo_put(pickle_machine *m, uint64_t key, ckpt_error *err)
{
    int rc = 0;
    pickle_ref top = 0;

    TRY(pickle_peek(&top, m, err));
    FAIL_IF(key >= PICKLE_MEMO_MAX, err, CKPT_EFORMAT, "memo key %llu is too large", (unsigned long long)key);
    TRY(refs_reserve(&m->memo, (size_t)key + 1, PICKLE_MEMO_MAX, "memo keys", err));
    for (; m->memo.count <= key; m->memo.count++)
        m->memo.items[m->memo.count] = 0;
    m->memo.items[key] = top;
out:
    return rc;
}
