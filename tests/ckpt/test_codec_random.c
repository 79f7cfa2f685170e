/* Chunks at random: every mode, type of elements, shape of tensor, distribution and reference comes back, and every
 * instruction set codes it to the same bytes and decodes what the others coded.
 *
 * CKPT_ROUNDS: how many chunks (default 700); CKPT_SEED: where to begin. What failed is named by its seed. */
#include "codec_internal.h"
#include "plan_shape.h"
#include "weights.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { CODED_MAX = 2 * CODEC_CHUNK_BYTES + 200000, CODECS = 3, SHIFT_MAX = 8 };

static const char *const SETS[CODECS] = {NULL, "avx2", "scalar"};
static codec *codecs[CODECS];
static unsigned char coded[CODED_MAX], again[CODED_MAX], back[CODEC_CHUNK_BYTES + 1];
static unsigned char data_room[CODEC_CHUNK_BYTES + SHIFT_MAX], reference_room[CODEC_CHUNK_BYTES + SHIFT_MAX];

static int open_codecs(void **state)
{
    (void)state;
    for (size_t i = 0; i < CODECS; i++) {
        if (SETS[i] ? setenv("CKPT_CPU", SETS[i], 1) : unsetenv("CKPT_CPU"))
            return -1;
        if (codec_new(&codecs[i], NULL))
            return -1;
        print_message("kernel %s\n", codecs[i]->context_kernel->name);
    }
    return unsetenv("CKPT_CPU");
}

static int close_codecs(void **state)
{
    (void)state;
    for (size_t i = 0; i < CODECS; i++)
        codec_free(codecs[i]);
    return 0;
}

/* ---- Chance ---- */

static uint64_t chance;

static unsigned below(unsigned n)
{
    return (unsigned)((random_next(&chance) >> 16) % n);
}

/* As often of one size as of the next larger power of two. */
static size_t size_by_chance(size_t most)
{
    const unsigned bits = 1 + below(17);
    const size_t size = ((size_t)1 << bits) + below(1u << bits);

    switch (below(40)) {
    case 0:
        return CODEC_CHUNK_BYTES;
    case 1:
        return CODEC_CHUNK_BYTES - below(70);
    case 2:
        return below(10);
    default:
        return size < most ? size : most;
    }
}

/* ---- Elements ---- */

static float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static float special(void)
{
    static const uint32_t SPECIAL[] = {0x7f800000, 0xff800000, 0x7fc00001, 0xffc0beef, 0x7f800001, 0xff800001,
                                       0,          0x80000000, 1,          0x80000001, 0x007fffff, 0x807fffff,
                                       0x00800000, 0x80800000, 0x7f7fffff, 0xff7fffff, 0x60000000, 0x5fffffff,
                                       0xdfffffff, 0x7effffff, 0x3f800000, 0x40000000, 0x407fffff};
    return float_of(SPECIAL[below(sizeof SPECIAL / sizeof *SPECIAL)]);
}

typedef enum kind {
    WEIGHTS,
    KERNELS,
    POSITIVE,
    SPARSE,
    CONSTANT,
    SPECIALS,
    NOISE,
    FEW,
    SHORT,
    HUGE_ONES,
    TINY,
    KINDS
} kind;

/* Element i; `last` are those before it, of `period` columns. */
static float element(kind k, size_t i, float *last, unsigned period)
{
    const float w = weight(&chance);
    float *const before = &last[i % period];

    switch (k) {
    case KERNELS:
        return *before = below(50) ? 0.9f * *before + 0.3f * w : w;
    case POSITIVE:
        return fabsf(w) * expf((float)(i % period % 7) - 3);
    case SPARSE:
        return below(10) ? 0.0f : w;
    case CONSTANT:
        return 0.1f;
    case SPECIALS:
        return below(4) ? w : special();
    case NOISE:
        return float_of((uint32_t)(random_next(&chance) >> 24));
    case FEW:
        return (float)below(5) - 2;
    case SHORT: {
        uint32_t bits;
        memcpy(&bits, &w, sizeof bits);
        return float_of(bits & 0xffff0000);
    }
    case HUGE_ONES:
        return w * (below(2) ? 0x1p64f : 0x1p126f);
    case TINY:
        return w * 0x1p-140f;
    case WEIGHTS:
    case KINDS:
        break;
    }
    return w;
}

static void element_put(unsigned char *dst, ckpt_dtype dtype, float x)
{
    const unsigned width = codec_dtype_width(dtype);
    const double wide = (double)x;
    const int64_t whole = (int64_t)(x > -1e6f && x < 1e6f ? x * 1000 : 0);
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    if (width == 8 && codec_dtype_is_float(dtype))
        memcpy(dst, &wide, sizeof wide);
    else if (!codec_dtype_is_float(dtype))
        memcpy(dst, &whole, width);
    else {
        const unsigned kept = width < sizeof bits ? width : sizeof bits;
        bits >>= 8 * (sizeof bits - kept);
        memcpy(dst, &bits, kept);
    }
}

static void elements_fill(unsigned char *dst, size_t size, ckpt_dtype dtype, kind k, unsigned period)
{
    static float last[64];
    const unsigned width = codec_dtype_width(dtype);
    const float scale = k == NOISE || k == SPECIALS ? 1 : ldexpf(1, (int)below(32) - 20); /* every largest exponent */

    memset(last, 0, sizeof last);
    fill_noise(dst, size, chance | 1); /* what is less than an element stays so */
    for (size_t i = 0; (i + 1) * width <= size; i++)
        element_put(dst + i * width, dtype, scale * element(k, i, last, 1 + period % 64));
}

/* What the data were some steps ago: much alike, grown, a part of it gone to zeros or to something else. */
static void reference_fill(unsigned char *dst, const unsigned char *src, size_t size, ckpt_dtype dtype, unsigned period)
{
    const unsigned width = codec_dtype_width(dtype), how = below(8);
    const float growth = 0.5f + (float)below(100) / 100;

    memcpy(dst, src, size);
    if (how == 0)
        return;
    if (how == 1) {
        elements_fill(dst, size, dtype, (kind)below(KINDS), period);
        return;
    }
    for (size_t i = 0; (i + 1) * width <= size; i++) {
        uint64_t bits = 0;
        memcpy(&bits, src + i * width, width);
        if (width == 4 && how < 5) {
            float x = float_of((uint32_t)bits);
            x = how == 2 ? x * growth : x + 0.02f * weight(&chance);
            memcpy(&bits, &x, 4);
        } else if (how < 7) {
            bits += below(1u << (1 + below(8)));
        } else {
            bits ^= below(3) ? 0 : random_next(&chance);
        }
        memcpy(dst + i * width, &bits, width);
    }
    if (below(4) == 0) /* another tensor was shorter: the reference goes on with zeros */
        memset(dst + size / 2, 0, size - size / 2);
}

/* ---- Plans ---- */

/* A tensor of any shape and order of dimensions, of which the chunk is a part. */
static void shape_by_chance(codec_plan *plan)
{
    static const unsigned KERNEL[] = {1, 2, 3, 3, 3, 5, 7, 8};
    tensor_view view = {.rank = below(7), .offset = 4096};
    unsigned order[CKPT_RANK_MAX];
    int64_t stride = 1;

    for (unsigned i = 0; i < view.rank; i++) {
        view.shape[i] = i < 2 ? 1 + below(below(3) ? 100 : 700) : KERNEL[below(8)];
        order[i] = i;
    }
    for (unsigned i = view.rank; below(2) && i > 1; i--) { /* channels last, and anything else */
        const unsigned other = below(i), kept = order[i - 1];
        order[i - 1] = order[other];
        order[other] = kept;
    }
    for (unsigned i = view.rank; i-- > 0; stride *= (int64_t)view.shape[order[i]])
        view.stride[order[i]] = stride;
    plan_shape(plan, below(8) ? &view : NULL, view.offset + (uint64_t)below(4) * CODEC_CHUNK_BYTES);
    if (below(6) == 0) {
        plan->period = below(below(2) ? 100 : 70000);
        plan->grid.planes = below(70);
        plan->grid.inner = below(3000);
        plan->grid.first_byte = below(1000000);
    }
}

static codec_plan plan_by_chance(ckpt_dtype dtype)
{
    codec_plan plan =
        codec_plan_of((codec_mode)(below(3) ? CODEC_CONTEXT + 2 * below(2) : below(CODEC_SYMBOLS + 1)), dtype);

    plan.number = below(3);
    plan.level = (int)below(3);
    plan.rotate = below(9);
    plan.thorough = true; /* so that shapes count */
    shape_by_chance(&plan);
    plan.thorough = below(20) == 0;
    if (below(10) == 0) /* a guess may be wrong */
        plan.width = 1u << below(4);
    return plan;
}

/* ---- Rounds ---- */

static uint64_t round_seed;

static void assert_decoded(size_t coded_size, size_t size, const unsigned char *data, const unsigned char *reference)
{
    for (size_t i = 0; i < CODECS; i++) {
        ckpt_error err = {0};
        memset(back, 0x5a, size + 1);
        if (codec_decode(back, size, codecs[i], coded, coded_size, reference, &err))
            fail_msg("CKPT_SEED=%llu CKPT_ROUNDS=1: %zu bytes: %s", (unsigned long long)round_seed, size, err.message);
        if (memcmp(back, data, size) || back[size] != 0x5a)
            fail_msg("CKPT_SEED=%llu CKPT_ROUNDS=1: %zu bytes differ", (unsigned long long)round_seed, size);
    }
}

/* Mostly of the usual types, and of those with the most bits. */
static ckpt_dtype dtype_by_chance(void)
{
    static const ckpt_dtype USUAL[] = {CKPT_F32, CKPT_F32, CKPT_F64, CKPT_BF16};
    return below(2) ? USUAL[below(4)] : (ckpt_dtype)below(CKPT_F8_E5M2 + 1);
}

static void assert_round(void)
{
    const ckpt_dtype dtype = dtype_by_chance();
    const size_t size = size_by_chance(100000);
    unsigned char *const data = data_room + below(SHIFT_MAX), *const other = reference_room + below(SHIFT_MAX);
    const codec_plan plan = plan_by_chance(dtype);

    elements_fill(data, size, dtype, (kind)below(KINDS), plan.grid.planes ? plan.grid.inner : plan.period);
    reference_fill(other, data, size, dtype, plan.period);
    const unsigned char *const reference = below(3) ? other : NULL;
    for (unsigned with_room = 0; with_room < 2; with_room++) {
        const codec_chunk chunk = {data, size, reference};
        size_t first = 0;
        for (size_t i = 0; i < CODECS; i++) {
            unsigned char *const dst = i ? again : coded;
            size_t coded_size = 0;
            if (with_room) /* what would grow is not given up */
                assert_int_equal(codec_encode_mode(&coded_size, dst, CODED_MAX, codecs[i], &plan, &chunk, NULL), 0);
            else
                assert_int_equal(codec_encode(&coded_size, dst, codecs[i], &plan, data, size, reference, NULL), 0);
            first = i ? first : coded_size;
            if (coded_size != first || (first != CODEC_NO_GAIN && memcmp(coded, dst, first) != 0))
                fail_msg("CKPT_SEED=%llu CKPT_ROUNDS=1: other bytes by %s", (unsigned long long)round_seed, SETS[i]);
        }
        if (!with_room)
            assert_in_range(first, 1, size + size / 1000 + 16);
        if (first != CODEC_NO_GAIN)
            assert_decoded(first, size, data, reference);
    }
}

static uint64_t number_from(const char *name, uint64_t otherwise)
{
    const char *const text = getenv(name);
    return text ? strtoull(text, NULL, 10) : otherwise;
}

static void chunks_of_all_kinds_come_back_by_every_instruction_set(void **state)
{
    const uint64_t rounds = number_from("CKPT_ROUNDS", 700);
    (void)state;
    round_seed = number_from("CKPT_SEED", 1);
    for (uint64_t i = 0; i < rounds; i++, round_seed++) {
        chance = round_seed * UINT64_C(0x9e3779b97f4a7c15);
        for (unsigned warm = 0; warm < 8; warm++)
            (void)random_next(&chance);
        assert_round();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_of_all_kinds_come_back_by_every_instruction_set),
    };
    return cmocka_run_group_tests(tests, open_codecs, close_codecs);
}
