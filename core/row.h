/* Row: the numbers of one sample, one for each class: logits or probabilities. */
#ifndef CORE_ROW_H
#define CORE_ROW_H

#include <stddef.h>

/* The class that is predicted: that of the largest number, of equal ones the first. */
static inline size_t row_largest(const float *row /* [classes] */, size_t classes)
{
    size_t best = 0;

    for (size_t j = 1; j < classes; j++)
        if (row[j] > row[best])
            best = j;
    return best;
}

#endif
