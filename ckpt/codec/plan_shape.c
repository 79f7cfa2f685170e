#include "plan_shape.h"

#include "context.h"

/* Elements from one row of a tensor to the next, in the order in which they are stored: of weights, those that make one
 * output. */
static uint32_t view_period(const tensor_view *view)
{
    uint32_t period = 0;

    for (unsigned i = 0; i < view->rank; i++)
        if (view->shape[i] > 1 && view->stride[i] > period && view->stride[i] <= CONTEXT_PERIOD_MAX)
            period = (uint32_t)view->stride[i];
    return period > 1 ? period : 0;
}

/* Places of the kernels of a convolution's weights (outputs, inputs, height, width), and how many elements follow one
 * another at each: one, or all inputs where they are stored last. */
static struct codec_grid view_grid(const tensor_view *view)
{
    uint64_t planes = 1, inner = UINT64_MAX;

    for (unsigned i = 2; i < view->rank; i++)
        if (view->shape[i] > 1) {
            planes = planes * view->shape[i] < CONTEXT_PLANES_MAX ? planes * view->shape[i] : CONTEXT_PLANES_MAX + 1;
            inner = (uint64_t)view->stride[i] < inner ? (uint64_t)view->stride[i] : inner;
        }
    if (planes < 2 || planes > CONTEXT_PLANES_MAX || inner == 0 || inner > CONTEXT_GROUP_MAX / planes)
        return (struct codec_grid){0};
    return (struct codec_grid){.planes = (uint32_t)planes, .inner = (uint32_t)inner};
}

void plan_shape(codec_plan *plan, const tensor_view *view, uint64_t offset)
{
    const bool pays = view && (plan->thorough || plan->mode == CODEC_CONTEXT);

    plan->period = pays ? view_period(view) : 0;
    plan->grid = pays ? view_grid(view) : (struct codec_grid){0};
    plan->grid.first_byte = view ? offset - view->offset : 0;
}
