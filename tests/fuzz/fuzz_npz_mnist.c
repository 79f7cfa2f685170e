/* mnist.npz: what is read has samples in both parts, and a label for each image. */
#include "fuzz.h"

#include "npz_mnist.h"

#include <string.h>

static void check_part(const samples *s, size_t image_bytes)
{
    CHECK(s->count > 0 && s->images && s->labels);
    uint8_t last = s->images[s->count * image_bytes - 1];
    last ^= s->labels[s->count - 1];
    volatile uint8_t used = last;
    (void)used;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    dataset d;
    if (npz_parse(&d, data, size, "input", NULL) == 0) {
        check_part(&d.train, dims_count(&d.shape));
        check_part(&d.test, dims_count(&d.shape));
    } else {
        CHECK(!d.train.images && !d.train.labels && !d.test.images && !d.test.labels);
    }
    dataset_clear(&d);
    return 0;
}
