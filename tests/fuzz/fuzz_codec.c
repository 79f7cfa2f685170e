/* Decodes the input as a coded chunk, with and without a reference; then codes the input itself and wants it back.
 *
 *   input := size:u16 coded chunk         for the round trip all of it are the bytes to code, and the first two of them
 *                                         choose mode, width, dtype, rotation, level and shape of the plan */
#include "fuzz.h"

#include "codec.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER_SIZE = 2, DECODED_MAX = UINT16_MAX };

static void check(bool holds)
{
    if (!holds)
        abort();
}

static void decode_hostile(codec *c, const uint8_t *data, size_t size)
{
    /* Buffers of exactly the right size, so that a byte too many is seen. */
    const size_t decoded_size = (size_t)data[0] | (size_t)data[1] << 8;
    unsigned char *dst = malloc(decoded_size + 1), *reference = malloc(decoded_size + 1);
    bool needs = false;

    if (dst && reference) {
        for (size_t i = 0; i < decoded_size; i++)
            reference[i] = (unsigned char)(i * 7 ^ i >> 8);
        (void)codec_needs_reference(&needs, data + HEADER_SIZE, size - HEADER_SIZE, NULL);
        (void)codec_decode(dst, decoded_size, c, data + HEADER_SIZE, size - HEADER_SIZE, NULL, NULL);
        (void)codec_decode(dst, decoded_size, c, data + HEADER_SIZE, size - HEADER_SIZE, reference, NULL);
    }
    free(dst);
    free(reference);
}

static codec_plan plan_from(const uint8_t *data)
{
    return (codec_plan){.mode = (codec_mode)(data[0] % (CODEC_SYMBOLS + 1)),
                        .width = 1u << (data[0] >> 3 & 3),
                        .dtype = (ckpt_dtype)(data[1] % 18),
                        .level = data[0] >> 5 & 3,
                        .rotate = data[1] >> 5,
                        .number = data[1] % 3,
                        .period = data[0],
                        .grid = {.planes = data[0] >> 4, .inner = 1 + data[1] % 4u}};
}

/* The reference is the input without its first byte: of the same kind, and different. */
static void check_round_trip(codec *c, const uint8_t *data, size_t size)
{
    const codec_plan plan = plan_from(data);
    unsigned char *coded = malloc(size + size / 1000 + 16), *back = malloc(size);
    size_t coded_size = 0;

    if (coded && back) {
        check(codec_encode(&coded_size, coded, c, &plan, data, size - 1, data + 1, NULL) == 0);
        check(coded_size <= size - 1 + (size - 1) / 1000 + 16);
        check(codec_decode(back, size - 1, c, coded, coded_size, data + 1, NULL) == 0);
        check(memcmp(back, data, size - 1) == 0);
    }
    free(coded);
    free(back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static codec *c; /* made once: that takes longer than most inputs do, and all chunks of a save share one, too */

    if (size <= HEADER_SIZE || size > DECODED_MAX || (!c && codec_new(&c, NULL)))
        return 0;
    decode_hostile(c, data, size);
    check_round_trip(c, data, size);
    return 0;
}
