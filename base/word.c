#include "word.h"

#include <stdint.h>
#include <string.h>

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

size_t word_distance(const char *a, const char *b)
{
    const size_t a_size = strlen(a), b_size = strlen(b);
    size_t rows[3][WORD_SIZE_MAX + 1];
    size_t *before = rows[0], *above = rows[1], *row = rows[2];

    if (a_size > WORD_SIZE_MAX || b_size > WORD_SIZE_MAX)
        return SIZE_MAX;
    for (size_t j = 0; j <= b_size; j++)
        above[j] = j;
    for (size_t i = 1; i <= a_size; i++) {
        row[0] = i;
        for (size_t j = 1; j <= b_size; j++) {
            row[j] = above[j - 1] + (a[i - 1] != b[j - 1]);
            row[j] = smaller(row[j], smaller(above[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = smaller(row[j], before[j - 2] + 1);
        }
        size_t *const spare = before;
        before = above;
        above = row;
        row = spare;
    }
    return above[b_size];
}

const char *word_nearest(const char *word, const char *const *list)
{
    const char *nearest = NULL;
    const size_t length = strlen(word);
    size_t nearest_distance = 1 + (length > 9 ? 3 : length / 3);

    for (; *list; list++) {
        size_t distance = word_distance(word, *list);
        if (length >= 2 && strncmp(word, *list, length) == 0)
            distance = 0; /* an abbreviation */
        if (distance < nearest_distance) {
            nearest_distance = distance;
            nearest = *list;
        }
    }
    return nearest;
}
