/* Softmax and cross-entropy:
 *
 *     p[j] = exp(x[j] - max x) / sum over k of exp(x[k] - max x)
 *     loss = -log p[label] = log(sum over k of exp(x[k] - max x)) - (x[label] - max x)
 *     d(mean loss) / dx[j] = (p[j] - (j == label)) / count
 *
 * The largest logit is taken off first, so that no exp overflows (Goodfellow et al., "Deep Learning", 2016, section
 * 4.1). NaN is left to spread. */
#include "reference_backend.h"

#include "row.h"

#include <assert.h>
#include <math.h>
#include <string.h>

int reference_loss(loss_result *out, backend *b, const loss_memory *m, ckpt_error *err)
{
    const size_t classes = m->classes;
    const float *logits = m->logits;        /* [batch][classes] */
    float *const grad = m->logits_grad;     /* [batch][classes] */
    float *const shares = m->probabilities; /* [batch][classes] */
    (void)b;
    (void)err;

    assert(m->count <= m->batch);
    *out = (loss_result){0};
    for (size_t n = 0; n < m->count; n++, logits += classes) {
        const size_t label = m->labels[n], best = row_largest(logits, classes);
        const double top = (double)logits[best];
        double sum = 0;

        assert(label < classes);
        for (size_t j = 0; j < classes; j++)
            sum += exp((double)logits[j] - top);
        out->sum += log(sum) - ((double)logits[label] - top);
        out->correct += best == label;
        for (size_t j = 0; j < classes; j++) {
            const double share = exp((double)logits[j] - top) / sum;
            if (shares)
                shares[n * classes + j] = (float)share;
            if (grad)
                grad[n * classes + j] = (float)((share - (j == label ? 1 : 0)) / (double)m->count);
        }
    }
    const size_t done = m->count * classes, filler_bytes = (m->batch - m->count) * classes * sizeof(float);
    if (grad)
        memset(grad + done, 0, filler_bytes);
    if (shares)
        memset(shares + done, 0, filler_bytes);
    return 0;
}
