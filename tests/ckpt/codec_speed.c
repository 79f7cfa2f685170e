/* ckpt-bench-codec FILE [REFERENCE]: how fast the codec alone is on one core, for `ckpt bench codec`.
 *
 * Each tensor of FILE is coded as a save would do it, against that of the same name in REFERENCE, and decoded with the
 * reference at hand, twice: once to warm up, once on the clock. Prints a JSON array with one object for each mode. */
#include "codec_internal.h"
#include "plan_shape.h"

#include "clock.h"
#include "fail.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TENSOR_BYTES_MIN ((size_t)64 << 10) /* smaller ones are coded in groups */
#define WINDOW_BYTES     ((size_t)32 << 10)
#define MODES_MAX        32

typedef struct mode_time {
    uint64_t bytes, coded_bytes;
    double encode_seconds, decode_seconds;
} mode_time;

typedef struct speed {
    codec *c;
    ckpt_content *content, *reference;
    unsigned char *data, *before, *coded, *back; /* a tensor, that of the reference, a chunk, a chunk */
    size_t room;
    mode_time modes[MODES_MAX];
    bool on_clock;
} speed;

static int speed_open(speed *s, const char *path, const char *reference, ckpt_error *err)
{
    int rc = 0;

    TRY(codec_new(&s->c, err));
    TRY(ckpt_content_open_file(&s->content, path, err));
    if (reference)
        TRY(ckpt_content_open_file(&s->reference, reference, err));
    for (size_t i = 0; i < ckpt_content_tensor_count(s->content); i++) {
        const size_t bytes = ckpt_content_tensor(s->content, i)->bytes;
        s->room = s->room < bytes ? bytes : s->room;
    }
    s->data = malloc(s->room + 1);
    s->before = malloc(s->room + 1);
    s->coded = malloc(CODEC_CHUNK_CODED_MAX);
    s->back = malloc(CODEC_CHUNK_BYTES);
    FAIL_IF_NULL(s->data && s->before && s->coded && s->back, err);
out:
    return rc;
}

static void speed_close(speed *s)
{
    ckpt_content_close(s->content);
    ckpt_content_close(s->reference);
    codec_free(s->c);
    free(s->data);
    free(s->before);
    free(s->coded);
    free(s->back);
}

/* Reads the tensor of that name and size of the reference; *found is false where there is none. */
static int reference_read(bool *found, speed *s, const ckpt_tensor_info *tensor, ckpt_error *err)
{
    int rc = 0;

    *found = false;
    for (size_t i = 0; s->reference && !*found && i < ckpt_content_tensor_count(s->reference); i++) {
        const ckpt_tensor_info *const t = ckpt_content_tensor(s->reference, i);
        if (strcmp(t->name, tensor->name) == 0 && t->dtype == tensor->dtype && t->bytes == tensor->bytes) {
            TRY(ckpt_content_read(s->before, s->reference, i, 0, t->bytes / ckpt_dtype_size(t->dtype), err));
            *found = true;
        }
    }
out:
    return rc;
}

/* As save_plan.c does: two windows, from one and from two thirds on. */
static int plan_choose(codec_plan *plan, int *chosen, speed *s, const ckpt_tensor_info *tensor, bool with_reference,
                       ckpt_error *err)
{
    double estimate = 0;
    codec_sample samples[2] = {0};

    for (size_t i = 0; i < 2; i++) {
        const size_t at = (size_t)tensor->bytes / 3 * (i + 1) / 8 * 8, left = (size_t)tensor->bytes - at;
        samples[i].size = left < WINDOW_BYTES ? left : WINDOW_BYTES;
        samples[i].data = s->data + at;
        samples[i].reference[0] = with_reference ? s->before + at : NULL;
    }
    return codec_plan_choose(plan, chosen, &estimate, s->c, tensor->dtype, samples, 2, with_reference, err);
}

/* Elements are read in row-major order. */
static tensor_view view_of(const ckpt_tensor_info *tensor)
{
    tensor_view view = {.dtype = tensor->dtype, .rank = tensor->rank, .contiguous = true};
    int64_t stride = 1;

    for (unsigned i = tensor->rank; i-- > 0; stride *= (int64_t)tensor->shape[i]) {
        view.shape[i] = tensor->shape[i];
        view.stride[i] = stride;
    }
    return view;
}

static int chunk_time(speed *s, const codec_plan *plan, size_t at, size_t size, bool with_reference, ckpt_error *err)
{
    int rc = 0;
    size_t coded_size = 0;
    const unsigned char *const reference = with_reference ? s->before + at : NULL;

    const double begin = clock_seconds();
    TRY(codec_encode(&coded_size, s->coded, s->c, plan, s->data + at, size, reference, err));
    const double middle = clock_seconds();
    TRY(codec_decode(s->back, size, s->c, s->coded, coded_size, reference, err));
    const double end = clock_seconds();
    FAIL_IF(memcmp(s->back, s->data + at, size) != 0, err, CKPT_EBUG, "a chunk does not come back");
    if (s->on_clock && s->coded[0] < MODES_MAX) {
        mode_time *const m = &s->modes[s->coded[0]];
        m->bytes += size;
        m->coded_bytes += coded_size;
        m->encode_seconds += middle - begin;
        m->decode_seconds += end - middle;
    }
out:
    return rc;
}

static int tensor_time(speed *s, size_t number, ckpt_error *err)
{
    int rc = 0, chosen = -1;
    const ckpt_tensor_info *const tensor = ckpt_content_tensor(s->content, number);
    bool with_reference = false;
    codec_plan plan;

    if (tensor->bytes < TENSOR_BYTES_MIN)
        goto out;
    TRY(ckpt_content_read(s->data, s->content, number, 0, tensor->bytes / ckpt_dtype_size(tensor->dtype), err));
    TRY(reference_read(&with_reference, s, tensor, err));
    TRY(plan_choose(&plan, &chosen, s, tensor, with_reference, err));
    const tensor_view view = view_of(tensor);
    for (size_t at = 0; at < tensor->bytes; at += CODEC_CHUNK_BYTES) {
        plan_shape(&plan, &view, at);
        const size_t left = (size_t)tensor->bytes - at;
        TRY(chunk_time(s, &plan, at, left < CODEC_CHUNK_BYTES ? left : CODEC_CHUNK_BYTES, chosen >= 0, err));
    }
out:
    return rc;
}

static void speed_print(const speed *s)
{
    const char *comma = "";

    putchar('[');
    for (unsigned i = 0; i < MODES_MAX; i++) {
        const mode_time *const m = &s->modes[i];
        const unsigned char mode = (unsigned char)i;
        bool needs = false;
        if (m->bytes == 0 || codec_needs_reference(&needs, &mode, 1, NULL))
            continue;
        printf("%s{\"mode\":\"%s\",\"needs_reference\":%s,\"bytes\":%llu,\"coded_bytes\":%llu,"
               "\"encode_seconds\":%.6f,\"decode_seconds\":%.6f}",
               comma, codec_mode_name(i), needs ? "true" : "false", (unsigned long long)m->bytes,
               (unsigned long long)m->coded_bytes, m->encode_seconds, m->decode_seconds);
        comma = ",\n ";
    }
    puts("]");
}

int main(int argc, char **argv)
{
    int rc = 0;
    speed s = {0};
    ckpt_error err = {0};

    if (argc != 2 && argc != 3) {
        fputs("usage: ckpt-bench-codec FILE [REFERENCE]\n", stderr);
        return 2;
    }
    TRY(speed_open(&s, argv[1], argc == 3 ? argv[2] : NULL, &err));
    for (int round = 0; round < 2; round++) {
        s.on_clock = round > 0;
        for (size_t i = 0; i < ckpt_content_tensor_count(s.content); i++)
            TRY(tensor_time(&s, i, &err));
    }
    speed_print(&s);
out:
    if (rc)
        fprintf(stderr, "ckpt-bench-codec: %s\n", err.message);
    speed_close(&s);
    return ckpt_error_exit_status(rc);
}
