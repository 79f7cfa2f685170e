/* Axis: how windows lie along one direction of an image; convolutions and pools have two of them.
 *
 *     input place = output place * stride + place in the window - padding
 *
 * Whichever two of the three are asked about, those that lie inside the image, the output and the window are one span.
 */
#ifndef CORE_REFERENCE_AXIS_H
#define CORE_REFERENCE_AXIS_H

#include "net.h"

typedef struct axis {
    size_t in, out, kernel, stride, padding;
} axis;

typedef struct span {
    size_t first, end; /* empty when first >= end */
} span;

static inline axis axis_of_rows(const layer *l)
{
    return (axis){l->in.height, l->out.height, l->kernel_height, l->stride, l->padding};
}

static inline axis axis_of_columns(const layer *l)
{
    return (axis){l->in.width, l->out.width, l->kernel_width, l->stride, l->padding};
}

static inline size_t axis_min(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* The smallest n with n * step >= from - to; 0 when from <= to. */
static inline size_t axis_steps(size_t from, size_t to, size_t step)
{
    return from > to ? (from - to + step - 1) / step : 0;
}

/* Places in the window of output `o` that lie on the image. */
static inline span axis_places(const axis *a, size_t o)
{
    const size_t at = o * a->stride;
    return (span){axis_steps(a->padding, at, 1), axis_min(a->kernel, axis_steps(a->in + a->padding, at, 1))};
}

/* Outputs whose window has its place `k` on the image. */
static inline span axis_outputs_of_place(const axis *a, size_t k)
{
    return (span){axis_steps(a->padding, k, a->stride), axis_min(a->out, axis_steps(a->in + a->padding, k, a->stride))};
}

/* Outputs whose window covers place `i` of the image. */
static inline span axis_outputs_of_input(const axis *a, size_t i)
{
    const size_t at = i + a->padding;
    return (span){axis_steps(at + 1, a->kernel, a->stride), axis_min(a->out, at / a->stride + 1)};
}

#endif
