/* Saves two states through the background writer into the store of the current folder, both too important to be
 * replaced, and ends like `ckpt save`: 0, or the error and its exit status. */
#include <ckpt/store.h>
#include <stdint.h>
#include <stdio.h>

#define ELEMENTS 60000

/* Weights as a training has them: small numbers of both signs; a step changes each a little. */
static void state_fill(float *weights, unsigned step)
{
    uint32_t x = 12345;

    for (size_t i = 0; i < ELEMENTS; i++) {
        x = x * 1664525u + 1013904223u;
        weights[i] = ((float)(x >> 8) / 16777216.0f - 0.5f) * (1.0f + 0.001f * (float)step);
    }
}

static int submit(ckpt_writer *writer, unsigned step, ckpt_error *err)
{
    static float weights[ELEMENTS];
    const ckpt_tensor tensor = {"weights", CKPT_F32, 1, {ELEMENTS}, weights};
    ckpt_save_options options = CKPT_SAVE_OPTIONS_INIT;

    options.step = step;
    state_fill(weights, step);
    return ckpt_writer_submit(writer, NULL, &tensor, 1, NULL, 0, &options, CKPT_KEEP, err);
}

int main(void)
{
    ckpt_writer *writer = NULL;
    ckpt_error err = {0}, later = {0};
    int rc = ckpt_writer_open(&writer, ".", NULL, &err);

    if (rc == 0)
        rc = submit(writer, 1, &err);
    if (rc == 0)
        rc = submit(writer, 2, &err);
    const int closed = ckpt_writer_close(writer, rc ? &later : &err);
    rc = rc ? rc : closed;
    if (rc)
        fprintf(stderr, "ckpt: %s\n", err.message);
    if (rc && err.hint[0])
        fprintf(stderr, "hint: %s\n", err.hint);
    return ckpt_error_exit_status(rc);
}
