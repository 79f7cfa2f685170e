/* The part of the gradient of small filters that is the same for every instruction set. */
#include "passes.h"

size_t pass_filter_taps(const filter_shape *s)
{
    return s->in_channels * s->kernel_height * s->kernel_width;
}

size_t pass_filter_units(const filter_shape *s)
{
    return (s->batch + PASS_FILTER_SAMPLES - 1) / PASS_FILTER_SAMPLES * ((s->out_channels + s->block - 1) / s->block);
}

size_t pass_filter_sums_bytes(const filter_shape *s)
{
    return pass_filter_units(s) * (pass_filter_taps(s) + 1) * s->block * sizeof(float);
}

void pass_filter_sum(float *weight_grad, float *bias_grad, const filter_grad_job *job)
{
    const filter_shape *const s = &job->shape;
    const size_t blocks = (s->out_channels + s->block - 1) / s->block, taps = pass_filter_taps(s);
    const size_t group = blocks * (taps + 1) * s->block, groups = pass_filter_units(s) / blocks;

    for (size_t channel = 0; channel < s->out_channels; channel++)
        for (size_t t = 0; t <= taps; t++) {
            const float *const sums = job->sums + (channel / s->block * (taps + 1) + t) * s->block + channel % s->block;
            float sum = 0;
            for (size_t g = 0; g < groups; g++)
                sum += sums[g * group];
            if (t < taps)
                weight_grad[channel * taps + t] = sum;
            else
                bias_grad[channel] = sum;
        }
}
