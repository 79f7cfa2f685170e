/* IDX files, plain and .gz, of each rank: what is read has as many bytes as its shape says. */
#include "fuzz.h"

#include "idx.h"

#include <string.h>

static void check_rank(const uint8_t *data, size_t size, unsigned rank)
{
    idx file;
    if (idx_parse(&file, data, size, "input", rank, NULL)) {
        CHECK(!file.data);
        return;
    }
    uint8_t sum = 0;
    size_t count = 1;
    for (unsigned i = 0; i < rank; i++)
        count *= file.shape[i];
    for (size_t i = 0; i < count; i++)
        sum ^= file.data[i]; /* so that a sanitizer sees bytes that nobody wrote */
    volatile uint8_t used = sum;
    (void)used;
    CHECK(file.rank == rank && count > 0);
    idx_clear(&file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (unsigned rank = 1; rank <= 3; rank += 2)
        check_rank(data, size, rank);
    return 0;
}
