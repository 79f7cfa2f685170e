/* The loops of passes.h, compiled once for each instruction set by a file that defines PASS_TABLE and PASS_NAME. They
 * are written so that the compiler turns them into vectors: innermost loops run over neighbours, conditions choose
 * between values at hand, and nothing is added up across a vector. */
#ifndef CORE_PASS_LOOPS_H
#define CORE_PASS_LOOPS_H

#include "pass_inline.h"

#include <math.h>
#include <string.h>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

/* ---- ReLU -------------------------------------------------------------------------------------------------------- */

static void relu(void *job, size_t begin, size_t end)
{
    const relu_job *const j = job;
    float *restrict const out = j->out;
    const float *restrict const in = j->in;

    for (size_t i = begin; i < end; i++)
        out[i] = raised(in[i], 0);
}

static void relu_grad(void *job, size_t begin, size_t end)
{
    const relu_grad_job *const j = job;
    float *restrict const in_grad = j->in_grad;
    const float *restrict const out = j->out, *restrict const out_grad = j->out_grad;

    for (size_t i = begin; i < end; i++)
        in_grad[i] = out[i] <= 0 ? 0 : out_grad[i];
}

/* ---- Max-pool ---------------------------------------------------------------------------------------------------- */

/* Vectors in the words of the compiler, which makes of them what the instruction set has. Loops would do, did it see
 * that numbers and the places where they stood can be chosen by one mask. */
#if defined(__AVX2__)
#define VECTOR 8
#else
#define VECTOR 4
#endif
typedef float numbers __attribute__((vector_size(VECTOR * sizeof(float))));
typedef int32_t masks __attribute__((vector_size(VECTOR * sizeof(int32_t)))); /* and masks: all bits or none */
typedef uint8_t bytes __attribute__((vector_size(VECTOR)));

/* call(first, count) for the channels of a block in vectors, and the rest. */
#define FOR_PARTS(block, call)                                                                                         \
    do {                                                                                                               \
        size_t first_ = 0;                                                                                             \
        for (; first_ + VECTOR <= (block); first_ += VECTOR)                                                           \
            call(first_, VECTOR);                                                                                      \
        if (first_ + 1 == (block))                                                                                     \
            call(first_, 1);                                                                                           \
        else if (first_ < (block))                                                                                     \
            call(first_, (block)-first_);                                                                              \
    } while (0)

/* The first `count` of a vector; the others are 0. */
PASS_INLINE numbers numbers_load(const float *from, const size_t count)
{
    numbers v = {0};
    memcpy(&v, from, count * sizeof *from);
    return v;
}

PASS_INLINE numbers chosen(masks mask, numbers yes, numbers no)
{
    return (numbers)((mask & (masks)yes) | (~mask & (masks)no));
}

/* Rows of windows that are asked for before they are needed: the processor foresees one row that is read, but not the
 * several that windows are read from at once. Asking beyond the end does no harm. */
#define POOL_ROWS_AHEAD 2

/* `count` channels of one window; the first place is the best until another is better. */
PASS_INLINE void pool_window(float *out /* [count] */, uint8_t *winner /* [count], or NULL */,
                             const float *in /* [kernel_height][in_width][block], from the corner on */,
                             const pool_job *j, const size_t block, const size_t count)
{
    const pool_shape *const s = &j->shape;
    const numbers floor = (numbers){0} + j->floor;
    const size_t ahead = POOL_ROWS_AHEAD * s->kernel_height * s->in_width * block;
    numbers best = numbers_load(in, count);
    masks best_place = {0}, place = {0};

    best = chosen(best < floor, floor, best);
    for (size_t r = 0; r < s->kernel_height; r++, in += s->in_width * block)
        for (size_t q = 0; q < s->kernel_width; q++, place += 1) {
            __builtin_prefetch(in + q * block + ahead);
            numbers number = numbers_load(in + q * block, count);
            number = chosen(number < floor, floor, number);
            const masks better = (number > best) | (number != number);
            best = chosen(better, number, best);
            best_place = (better & place) | (~better & best_place);
        }
    memcpy(out, &best, count * sizeof *out);
    if (winner) {
        const bytes won = __builtin_convertvector(best_place, bytes);
        memcpy(winner, &won, count);
    }
}

PASS_INLINE void pool_planes(const pool_job *j, size_t begin, size_t end, const size_t block)
{
    const pool_shape *const s = &j->shape;

    for (size_t y = begin * s->out_height; y < end * s->out_height; y++) {
        const size_t plane = y / s->out_height, row = y % s->out_height * s->stride;
        const float *in = j->in + (plane * s->in_height + row) * s->in_width * block;
        size_t at = y * s->out_width * block;
        for (size_t x = 0; x < s->out_width; x++, at += block, in += s->stride * block) {
#define POOL_WINDOW(first, count)                                                                                      \
    pool_window(j->out + at + (first), j->winner ? j->winner + at + (first) : NULL, in + (first), j, block, (count))
            FOR_PARTS(block, POOL_WINDOW);
#undef POOL_WINDOW
        }
    }
}

static void pool(void *job, size_t begin, size_t end)
{
    const pool_job *const j = job;
#define POOL_PLANES(block) pool_planes(j, begin, end, (block))
    WITH_BLOCK(j->shape.block, POOL_PLANES);
#undef POOL_PLANES
}

static void zero(float *from, size_t count)
{
    memset(from, 0, count * sizeof *from);
}

/* What one row of a window gets back, where windows do not overlap: `count` channels of the output at `at`. Adding 0
 * makes 0 of -0, as a sum does that begins with 0. */
PASS_INLINE void pool_grad_window(float *in_grad /* [kernel_width][block] */, const pool_grad_job *j, size_t at,
                                  size_t row, const size_t block, const size_t count)
{
    const size_t width = j->shape.kernel_width;
    numbers back = numbers_load(j->out_grad + at, count) + 0.0f;
    bytes won = {0};

    memcpy(&won, j->winner + at, count);
    if (j->out)
        back = chosen(numbers_load(j->out + at, count) <= 0.0f, (numbers){0}, back);
    masks place = (masks){0} + (int32_t)(row * width) - __builtin_convertvector(won, masks); /* less the winner's */
    for (size_t q = 0; q < width; q++, place += 1) {
        const numbers got = chosen(place == 0, back, (numbers){0});
        memcpy(in_grad + q * block, &got, count * sizeof *in_grad);
    }
}

/* Row `row` of windows whose output begins at `at`. */
PASS_INLINE void pool_grad_row(float *in_grad /* [in_width][block] */, const pool_grad_job *j, size_t at, size_t row,
                               const size_t block)
{
    const pool_shape *const s = &j->shape;

    for (size_t x = 0; x < s->out_width; x++, at += block) {
        const size_t next = x + 1 < s->out_width ? s->stride : s->in_width - x * s->stride;
#define POOL_GRAD_WINDOW(first, count) pool_grad_window(in_grad + (first), j, at + (first), row, block, (count))
        FOR_PARTS(block, POOL_GRAD_WINDOW);
#undef POOL_GRAD_WINDOW
        if (next > s->kernel_width)
            zero(in_grad + s->kernel_width * block, (next - s->kernel_width) * block);
        in_grad += next * block;
    }
}

PASS_INLINE void pool_grad_planes(const pool_grad_job *j, size_t begin, size_t end, const size_t block)
{
    const pool_shape *const s = &j->shape;
    float *in_grad = j->in_grad + begin * s->in_height * s->in_width * block;

    for (size_t plane = begin; plane < end; plane++)
        for (size_t i = 0; i < s->in_height; i++, in_grad += s->in_width * block) {
            const size_t y = i / s->stride, row = i % s->stride;
            if (y < s->out_height && row < s->kernel_height)
                pool_grad_row(in_grad, j, (plane * s->out_height + y) * s->out_width * block, row, block);
            else
                zero(in_grad, s->in_width * block);
        }
}

/* The first output whose window reaches place i, along one axis. */
PASS_INLINE size_t window_first(size_t i, size_t kernel, size_t stride)
{
    return i < kernel ? 0 : (i - kernel) / stride + 1;
}

/* And one past the last. */
PASS_INLINE size_t window_end(size_t i, size_t stride, size_t out)
{
    return i / stride < out ? i / stride + 1 : out;
}

/* Channel c of place (i, k) of a plane whose windows overlap: a sum in double over the windows that it won. */
PASS_INLINE float pool_grad_sum(const pool_grad_job *j, size_t plane, size_t i, size_t k, size_t c)
{
    const pool_shape *const s = &j->shape;
    const size_t y_end = window_end(i, s->stride, s->out_height), x_end = window_end(k, s->stride, s->out_width);
    double sum = 0;

    for (size_t y = window_first(i, s->kernel_height, s->stride); y < y_end; y++)
        for (size_t x = window_first(k, s->kernel_width, s->stride); x < x_end; x++) {
            const size_t at = ((plane * s->out_height + y) * s->out_width + x) * s->block + c;
            const size_t place = (i - y * s->stride) * s->kernel_width + k - x * s->stride;
            if (j->winner[at] == place && !(j->out && j->out[at] <= 0))
                sum += (double)j->out_grad[at];
        }
    return (float)sum;
}

static void pool_grad_overlapping(const pool_grad_job *j, size_t begin, size_t end)
{
    const pool_shape *const s = &j->shape;
    float *in_grad = j->in_grad + begin * s->in_height * s->in_width * s->block;

    for (size_t plane = begin; plane < end; plane++)
        for (size_t i = 0; i < s->in_height; i++)
            for (size_t k = 0; k < s->in_width; k++)
                for (size_t c = 0; c < s->block; c++)
                    *in_grad++ = pool_grad_sum(j, plane, i, k, c);
}

static void pool_grad(void *job, size_t begin, size_t end)
{
    const pool_grad_job *const j = job;
    const pool_shape *const s = &j->shape;

    if (s->stride < s->kernel_height || s->stride < s->kernel_width) {
        pool_grad_overlapping(j, begin, end);
        return;
    }
#define POOL_GRAD_PLANES(block) pool_grad_planes(j, begin, end, (block))
    WITH_BLOCK(s->block, POOL_GRAD_PLANES);
#undef POOL_GRAD_PLANES
}

/* ---- Convolution of few numbers ---------------------------------------------------------------------------------- */

/* Adds what a row of outputs gives to the taps of one row of the window. */
PASS_INLINE void filter_row(numbers *sums /* [width] */, const filter_shape *s, const float *in /* [in_width] */,
                            const float *out_grad /* [out_width][block] */, const size_t width)
{
    numbers row[PASS_FILTER_TAPS_MAX];

    memcpy(row, sums, width * sizeof row[0]);
    for (size_t x = 0; x < s->out_width; x++) {
        const numbers grad = numbers_load(out_grad + x * s->block, VECTOR);
        for (size_t q = 0; q < width; q++) {
            const size_t place = x * s->stride + q - s->padding; /* a huge number before the edge */
            if (place < s->in_width)
                row[q] += grad * in[place];
        }
    }
    memcpy(sums, row, width * sizeof row[0]);
}

/* `sums` of VECTOR output channels get what one sample gives. */
PASS_INLINE void filter_sample(numbers *sums /* [taps + 1] */, const filter_shape *s,
                               const float *in /* [in_channels][in_height][in_width] */,
                               const float *out_grad /* [out_height][out_width][block] */)
{
    const size_t rows = s->in_channels * s->kernel_height; /* of all windows' channels */

    for (size_t y = 0; y < s->out_height; y++, out_grad += s->out_width * s->block) {
        for (size_t r = 0; r < rows; r++) {
            const size_t channel = r / s->kernel_height;
            const size_t place = y * s->stride + r % s->kernel_height - s->padding;
            if (place >= s->in_height)
                continue;
            const float *const row = in + (channel * s->in_height + place) * s->in_width;
            if (s->kernel_width == 3) /* a constant, so that the sums stay in registers */
                filter_row(sums + r * 3, s, row, out_grad, 3);
            else
                filter_row(sums + r * s->kernel_width, s, row, out_grad, s->kernel_width);
        }
        for (size_t x = 0; x < s->out_width; x++)
            sums[rows * s->kernel_width] += numbers_load(out_grad + x * s->block, VECTOR);
    }
}

static void filter_grad(void *job, size_t begin, size_t end)
{
    const filter_grad_job *const j = job;
    const filter_shape *const s = &j->shape;
    const size_t blocks = (s->out_channels + s->block - 1) / s->block, taps = pass_filter_taps(s);
    const size_t plane = s->out_height * s->out_width * s->block, sample = s->in_channels * s->in_height * s->in_width;

    for (size_t unit = begin; unit < end; unit++) {
        const size_t first = unit / blocks * PASS_FILTER_SAMPLES, left = s->batch - first;
        const size_t count = left < PASS_FILTER_SAMPLES ? left : PASS_FILTER_SAMPLES;
        for (size_t lane = 0; lane < s->block; lane += VECTOR) {
            numbers sums[PASS_FILTER_TAPS_MAX + 1] = {{0}};
            for (size_t n = first; n < first + count; n++)
                filter_sample(sums, s, j->in + n * sample, j->out_grad + (n * blocks + unit % blocks) * plane + lane);
            for (size_t t = 0; t <= taps; t++)
                memcpy(j->sums + (unit * (taps + 1) + t) * s->block + lane, &sums[t], sizeof sums[t]);
        }
    }
}

/* ---- Dense layers ------------------------------------------------------------------------------------------------ */

static void bias(void *job, size_t begin, size_t end)
{
    const bias_job *const j = job;
    const float *restrict const add = j->bias;

    for (size_t row = begin; row < end; row++) {
        float *restrict const out = j->out + row * j->columns;
        for (size_t i = 0; i < j->columns; i++)
            out[i] = raised(out[i] + add[i], j->floor);
    }
}

/* `count` columns from `first` on, at most PASS_LINE. */
PASS_INLINE void bias_grad_columns(const bias_grad_job *j, size_t first, const size_t count)
{
    float sum[PASS_LINE] = {0};

    for (size_t row = 0; row < j->rows; row++) {
        const size_t at = row * j->columns + first;
        const float *restrict const out_grad = j->out_grad + at;
        if (j->masked) {
            const float *restrict const out = j->out + at;
            float *restrict const masked = j->masked + at;
            for (size_t i = 0; i < count; i++)
                masked[i] = out[i] <= 0 ? 0 : out_grad[i];
            for (size_t i = 0; i < count; i++)
                sum[i] += masked[i];
        } else {
            for (size_t i = 0; i < count; i++)
                sum[i] += out_grad[i];
        }
    }
    memcpy(j->bias_grad + first, sum, count * sizeof sum[0]);
}

static void bias_grad(void *job, size_t begin, size_t end)
{
    const bias_grad_job *const j = job;

    for (size_t group = begin; group < end; group++) {
        const size_t first = group * PASS_LINE;
        if (j->columns - first >= PASS_LINE)
            bias_grad_columns(j, first, PASS_LINE);
        else
            bias_grad_columns(j, first, j->columns - first);
    }
}

/* ---- Batches and weights ----------------------------------------------------------------------------------------- */

static void gather(void *job, size_t begin, size_t end)
{
    const gather_job *const j = job;

    for (size_t row = begin; row < end; row++) {
        float *restrict const out = j->rows + row * j->size;
        if (row >= j->count) {
            memset(out, 0, j->size * sizeof *out);
            continue;
        }
        const uint8_t *restrict const in = j->samples + j->indices[row] * j->size;
        for (size_t i = 0; i < j->size; i++)
            out[i] = (float)in[i] * j->scale;
    }
}

/* All bits of the exponent are set in NaN and infinity, and nowhere else. */
PASS_INLINE uint32_t exponent_full(float number)
{
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    return (bits & 0x7f800000u) == 0x7f800000u;
}

static void adam(void *job, size_t begin, size_t end)
{
    adam_job *const j = job;
    const adam_memory *const m = j->memory;
    float *restrict const weights = m->weights, *restrict const exp_avg = m->exp_avg;
    float *restrict const exp_avg_sq = m->exp_avg_sq;
    const float *restrict const grads = m->grads;
    const adam_rounded f = j->rounded;
    uint32_t bad = 0;

    for (size_t i = begin; i < end; i++) {
        const float g = grads[i];
        const float avg = exp_avg[i] + f.grad_share * (g - exp_avg[i]);
        const float avg_sq = f.square_decay * exp_avg_sq[i] + f.square_share * g * g;
        const float weight = weights[i] - f.step_size * avg / (sqrtf(avg_sq) / f.correction + f.eps);

        exp_avg[i] = avg;
        exp_avg_sq[i] = avg_sq;
        weights[i] = weight;
        bad |= exponent_full(weight);
    }
    if (bad)
        atomic_store(&j->bad, true);
}

/* ---- The machine's limit ----------------------------------------------------------------------------------------- */

/* As many chains as hide the latency of a multiply-add on the machines of today (4 cycles, 2 a cycle), and fit into
 * registers. */
#define CHAINS 12

#if defined(__AVX512F__)
typedef __m512 lanes;
#define LANES                       16
#define lanes_set(x)                _mm512_set1_ps(x)
#define lanes_multiply_add(a, b, c) _mm512_fmadd_ps((a), (b), (c))
#elif defined(__AVX2__)
typedef __m256 lanes;
#define LANES                       8
#define lanes_set(x)                _mm256_set1_ps(x)
#define lanes_multiply_add(a, b, c) _mm256_fmadd_ps((a), (b), (c))
#else
typedef float lanes __attribute__((vector_size(16)));
#define LANES                       4
#define lanes_set(x)                ((lanes){(x), (x), (x), (x)})
#define lanes_multiply_add(a, b, c) ((a) * (b) + (c))
#endif

/* Without the address sanitizer: the stack that gcc puts in place of the real one is not aligned for such vectors. */
__attribute__((no_sanitize("address"))) static void multiply_add(void *job, size_t begin, size_t end)
{
    multiply_add_job *const j = job;
    const lanes factor = lanes_set(0.5f), term = lanes_set(1);
    lanes chains[CHAINS];
    unsigned sink = 0;

    for (size_t c = 0; c < CHAINS; c++)
        chains[c] = lanes_set((float)c);
    for (size_t round = 0; round < (end - begin) * j->rounds; round++)
        for (size_t c = 0; c < CHAINS; c++)
            chains[c] = lanes_multiply_add(chains[c], factor, term);
    for (size_t c = 0; c < CHAINS; c++)
        sink += (unsigned)((const float *)&chains[c])[0];
    atomic_fetch_add(&j->sink, sink);
}

const pass_table PASS_TABLE = {
    .name = PASS_NAME,
    .relu = relu,
    .relu_grad = relu_grad,
    .pool = pool,
    .pool_grad = pool_grad,
    .filter_grad = filter_grad,
    .flatten = pass_flatten,
    .flatten_grad = pass_flatten_grad,
    .bias = bias,
    .bias_grad = bias_grad,
    .gather = gather,
    .adam = adam,
    .multiply_add = multiply_add,
    .flops_per_round = (size_t)2 * CHAINS * LANES,
};

#endif
