/* Growing arrays.
 *
 *     row *grown = array_room(rows, &capacity, count + 1, sizeof *grown);
 *     FAIL_IF_NULL(grown, err);
 *     rows = grown; */
#ifndef BASE_ARRAY_H
#define BASE_ARRAY_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define ARRAY_ROWS_FIRST ((size_t)16)

/* Returns `rows` with room for `need` rows, moved and doubled where it was too small; NULL when there is no memory:
 * `rows` is then as it was. */
static inline void *array_room(void *rows, size_t *capacity, size_t need, size_t row_size)
{
    if (rows && need <= *capacity)
        return rows;
    size_t room = *capacity ? *capacity : ARRAY_ROWS_FIRST;
    while (room < need && room <= SIZE_MAX / 2)
        room *= 2;
    if (room < need || room > SIZE_MAX / row_size)
        return NULL;
    void *grown = realloc(rows, room * row_size);
    if (grown)
        *capacity = room;
    return grown;
}

#endif
