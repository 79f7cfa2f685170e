/* Softmax and cross-entropy, see loss_memory:
 *
 *     p[j] = exp(x[j] - max x) / sum over k of exp(x[k] - max x)
 *     loss = log(sum over k of exp(x[k] - max x)) - (x[label] - max x)
 *     d(mean loss) / dx[j] = (p[j] - (j == label)) / count
 *
 * in double (Goodfellow et al., "Deep Learning", 2016, section 4.1). Rows are done by all threads; their losses are
 * added in their order. */
#include "cpu_backend.h"

#include "row.h"

#include <assert.h>
#include <math.h>

#define LOSS_GRAIN ((size_t)16) /* rows that one thread takes at least */

typedef struct loss_job {
    const loss_memory *m;
    size_t first; /* row that unit 0 stands for */
    double *loss; /* of units */
    bool *correct;
} loss_job;

/* Gradient and probabilities of a row that is no filler. */
static void shares_write(const loss_memory *m, size_t row, const float *logits, double top, double sum)
{
    const size_t at = row * m->classes;
    float *const grad = m->logits_grad;

    for (size_t j = 0; j < m->classes; j++) {
        const double share = exp((double)logits[j] - top) / sum;
        if (m->probabilities)
            m->probabilities[at + j] = (float)share;
        if (grad)
            grad[at + j] = (float)((share - (j == m->labels[row] ? 1 : 0)) / (double)m->count);
    }
}

static void filler_write(const loss_memory *m, size_t row)
{
    const size_t at = row * m->classes;
    float *const grad = m->logits_grad;

    for (size_t j = 0; j < m->classes; j++) {
        if (m->probabilities)
            m->probabilities[at + j] = 0;
        if (grad)
            grad[at + j] = 0;
    }
}

static void loss_rows(void *job, size_t begin, size_t end)
{
    const loss_job *const j = job;
    const loss_memory *const m = j->m;

    for (size_t unit = begin; unit < end; unit++) {
        const size_t row = j->first + unit;
        if (row >= m->count) {
            filler_write(m, row);
            continue;
        }
        const float *const logits = (const float *)m->logits + row * m->classes;
        const size_t label = m->labels[row], best = row_largest(logits, m->classes);
        const double top = (double)logits[best];
        double sum = 0;
        assert(label < m->classes);
        for (size_t k = 0; k < m->classes; k++)
            sum += exp((double)logits[k] - top);
        j->loss[unit] = log(sum) - ((double)logits[label] - top);
        j->correct[unit] = best == label;
        if (m->logits_grad || m->probabilities)
            shares_write(m, row, logits, top, sum);
    }
}

int cpu_loss(loss_result *out, backend *b, const loss_memory *m, ckpt_error *err)
{
    cpu_backend *const c = (cpu_backend *)b;
    loss_job job = {m, 0, c->row_loss, c->row_correct};
    (void)err;

    assert(m->count <= m->batch);
    *out = (loss_result){0};
    for (; job.first < m->batch; job.first += CPU_LOSS_ROWS) {
        const size_t left = m->batch - job.first, rows = left < CPU_LOSS_ROWS ? left : CPU_LOSS_ROWS;
        cpu_run(c, loss_rows, &job, rows, LOSS_GRAIN);
        for (size_t i = 0; i < rows && job.first + i < m->count; i++) {
            out->sum += c->row_loss[i];
            out->correct += c->row_correct[i];
        }
    }
    return 0;
}
