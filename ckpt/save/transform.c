#include "transform.h"

#include "bytes.h"
#include "fail.h"
#include "pattern.h"
#include "text.h"
#include "units.h"
#include "utf8.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WIDTH         ((size_t)4)   /* bytes of an f32, the only type that is rounded */
#define PREFIX_SIZE   ((uint64_t)8) /* of a safetensors file: how long the header is */
#define PATTERN_SHOWN ((size_t)80)  /* bytes of the first pattern in the text */

/* A run of the file above that comes from one place below. */
struct transform_run {
    uint64_t at, size;
    uint64_t below; /* where it begins there; of the written header nothing */
    bool rounded;
};

/* ---- Rules ------------------------------------------------------------------------------------------------------ */

transform_rules transform_rules_of(const ckpt_save_options *options)
{
    return (transform_rules){options->optimizer_bf16, options->weights_only, options->drop, options->drop_count};
}

bool transform_rules_any(const transform_rules *rules)
{
    return rules->optimizer_bf16 || rules->weights_only || rules->drop_count > 0;
}

int transform_rules_check(const transform_rules *rules, ckpt_error *err)
{
    int rc = 0;

    for (size_t i = 0; i < rules->drop_count; i++)
        FAIL_IF(!rules->drop[i] || !*rules->drop[i] || !text_is_clean(rules->drop[i], false), err, CKPT_EUSAGE,
                "'%.200s' is no pattern for names of tensors", rules->drop[i] ? rules->drop[i] : "");
out:
    return rc;
}

static bool is_weights(const tensor_view *view)
{
    char class_name[TENSOR_CLASS_SIZE];

    tensor_class_of(class_name, view->name);
    return strcmp(class_name, "weights") == 0;
}

pack_transform transform_of(const transform_rules *rules, const tensor_view *view)
{
    const bool rounded =
        rules->optimizer_bf16 && view->dtype == CKPT_F32 && view->span_bytes > WIDTH && !is_weights(view);

    return rounded ? TRANSFORM_BF16 : TRANSFORM_NONE;
}

/* Is the tensor dropped? Then it is counted. */
static bool drops(transform_account *account, const transform_rules *rules, const tensor_view *view)
{
    if (rules->weights_only && !is_weights(view)) {
        account->stripped_tensors++;
        account->stripped_bytes += view->span_bytes;
        return true;
    }
    if (pattern_any(rules->drop, rules->drop_count, view->name)) {
        account->dropped_tensors++;
        account->dropped_bytes += view->span_bytes;
        return true;
    }
    return false;
}

/* ---- The account ------------------------------------------------------------------------------------------------ */

/* Appends a sentence. */
__attribute__((format(printf, 2, 3))) static void text_add(char out[CKPT_LOSSY_SIZE], const char *format, ...)
{
    const size_t used = strlen(out);
    va_list args;

    const size_t joined = used + (size_t)snprintf(out + used, CKPT_LOSSY_SIZE - used, "%s", used ? "; " : "");
    if (joined >= CKPT_LOSSY_SIZE)
        return;
    va_start(args, format);
    vsnprintf(out + joined, CKPT_LOSSY_SIZE - joined, format, args);
    va_end(args);
}

void transform_text(char out[CKPT_LOSSY_SIZE], const transform_account *account, const transform_rules *rules)
{
    char bytes[UNITS_TEXT_SIZE];
    const transform_account *const a = account;

    out[0] = 0;
    if (a->rounded_tensors)
        text_add(out, "optimizer bf16: %" PRIu64 " tensors, largest relative error %.2g, rms %.2g", a->rounded_tensors,
                 a->error.max, numbers_error_rms(&a->error));
    if (a->stripped_tensors) {
        format_size(bytes, a->stripped_bytes);
        text_add(out, "weights only: %" PRIu64 " tensors left out, %s", a->stripped_tensors, bytes);
    }
    if (a->dropped_tensors) {
        const char *const first = rules->drop[0];
        const size_t shown = utf8_cut(first, strlen(first), PATTERN_SHOWN);
        format_size(bytes, a->dropped_bytes);
        text_add(out, "drop %.*s%s: %" PRIu64 " tensors left out, %s", (int)shown, first,
                 rules->drop_count > 1 || first[shown] ? " ..." : "", a->dropped_tensors, bytes);
    }
}

/* ---- Rounding --------------------------------------------------------------------------------------------------- */

/* The nearest number whose lower 16 bits are 0, of two the even one; a NaN stays one. */
static uint32_t bf16_nearest(uint32_t bits)
{
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (bits | 0x00400000u) & 0xffff0000u;
    return (bits + 0x7fffu + (bits >> 16 & 1)) & 0xffff0000u;
}

static float float_of(uint32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

static void round_all(unsigned char *values, size_t count, transform_account *account)
{
    for (size_t i = 0; i < count; i++) {
        const uint32_t exact = load_u32(values + i * WIDTH), rounded = bf16_nearest(exact);
        store_u32(values + i * WIDTH, rounded);
        if (account)
            numbers_error_add(&account->error, (double)float_of(exact), (double)float_of(rounded));
    }
}

/* ---- The file above --------------------------------------------------------------------------------------------- */

static void run_add(transform *t, uint64_t size, uint64_t below, bool rounded)
{
    const uint64_t at = t->source.size;
    transform_run *const last = t->run_count ? &t->runs[t->run_count - 1] : NULL;
    const bool last_is_header = t->header && t->run_count == 1;

    if (size == 0)
        return;
    t->source.size += size;
    if (last && !last_is_header && !last->rounded && !rounded && last->below + last->size == below)
        last->size += size;
    else
        t->runs[t->run_count++] = (transform_run){at, size, below, rounded};
}

static int by_offset(const void *a, const void *b)
{
    const tensor_view *const x = *(const tensor_view *const *)a, *const y = *(const tensor_view *const *)b;

    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return x->span_bytes < y->span_bytes ? -1 : x->span_bytes > y->span_bytes;
}

/* A header for what is left of the file. `kept` is in the order of the bytes. */
static int header_write(transform *t, const tensor_view *const *kept, size_t count, const tensor_file *file,
                        ckpt_error *err)
{
    int rc = 0;
    size_t size = 0;
    ckpt_tensor *const tensors = calloc(count + 1, sizeof *tensors);

    FAIL_IF_NULL(tensors, err);
    for (size_t i = 0; i < count; i++) {
        tensors[i] = (ckpt_tensor){.name = kept[i]->name, .dtype = kept[i]->dtype, .rank = kept[i]->rank};
        memcpy(tensors[i].shape, kept[i]->shape, sizeof tensors[i].shape);
        tensors[i].data = t; /* it has some, elsewhere */
    }
    TRY(safetensors_header(&t->header, &size, tensors, count, file->values, file->value_count, err));
    run_add(t, size, 0, false);
out:
    free(tensors);
    return rc;
}

/* Where the bytes of tensors begin in the file below. */
static int buffer_offset(uint64_t *offset, const byte_source *below, ckpt_error *err)
{
    int rc = 0;
    unsigned char prefix[PREFIX_SIZE];

    TRY(below->read(below, prefix, 0, sizeof prefix, err));
    *offset = PREFIX_SIZE + load_u64(prefix);
out:
    return rc;
}

/* With a tensor of a type that we do not know its bytes would be lost. */
static int all_known(const tensor_file *file, uint64_t buffer_bytes, ckpt_error *err)
{
    int rc = 0;
    uint64_t sum = 0;

    for (size_t i = 0; i < file->count; i++)
        sum += file->tensors[i].span_bytes;
    FAIL_IF(sum != buffer_bytes, err, CKPT_EUSAGE, "it has tensors of unknown types, so none can be left out");
out:
    return rc;
}

static int above_read(const byte_source *source, void *dst, uint64_t offset, size_t size, ckpt_error *err)
{
    return transform_read(dst, (const transform *)source, NULL, offset, size, err);
}

int transform_open(transform *t, transform_account *account, const tensor_file *file, const byte_source *below,
                   const transform_rules *rules, ckpt_error *err)
{
    int rc = 0;
    size_t kept_count = 0;
    uint64_t end = 0;
    const tensor_view **const kept = calloc(file->count + 1, sizeof *kept);

    *t = (transform){.source = {.read = above_read, .path = below->path, .fd = -1}, .below = below};
    t->runs = calloc(2 * file->count + 2, sizeof *t->runs); /* the header, each tensor, and what is between */
    FAIL_IF_NULL(kept && t->runs, err);
    for (size_t i = 0; i < file->count; i++)
        if (!drops(account, rules, &file->tensors[i]))
            kept[kept_count++] = &file->tensors[i];
    qsort(kept, kept_count, sizeof *kept, by_offset);
    TRY(buffer_offset(&end, below, err));
    if (kept_count < file->count) {
        TRY(all_known(file, below->size - end, err));
        TRY(header_write(t, kept, kept_count, file, err));
    } else {
        run_add(t, end, 0, false);
    }
    for (size_t i = 0; i < kept_count; i++) {
        const bool rounded = transform_of(rules, kept[i]) != TRANSFORM_NONE;
        if (!t->header && kept[i]->offset > end)
            run_add(t, kept[i]->offset - end, end, false);
        run_add(t, kept[i]->span_bytes, kept[i]->offset, rounded);
        end = kept[i]->offset + kept[i]->span_bytes;
        account->rounded_tensors += rounded;
        t->rounds |= rounded;
    }
    if (!t->header)
        run_add(t, below->size - end, end, false);
out:
    free(kept);
    return rc;
}

void transform_close(transform *t)
{
    free(t->header);
    free(t->runs);
    *t = (transform){0};
}

/* The run that holds the byte at an offset inside the file. */
static const transform_run *run_at(const transform *t, uint64_t offset)
{
    size_t low = 0, high = t->run_count;

    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        if (t->runs[middle].at <= offset)
            low = middle;
        else
            high = middle;
    }
    return &t->runs[low];
}

bool transform_origin(uint64_t *below, const transform *t, uint64_t offset)
{
    const transform_run *const run = run_at(t, offset);

    if (run->rounded || (t->header && run == t->runs))
        return false;
    *below = run->below + (offset - run->at);
    return true;
}

/* Part of one element: it is rounded whole, and counted by who reads its first byte. */
static int read_part(unsigned char *dst, const transform *t, transform_account *account, uint64_t element, size_t first,
                     size_t count, ckpt_error *err)
{
    int rc = 0;
    unsigned char value[WIDTH];

    TRY(t->below->read(t->below, value, element, WIDTH, err));
    round_all(value, 1, first == 0 ? account : NULL);
    memcpy(dst, value + first, count);
out:
    return rc;
}

/* `size` bytes of a rounded tensor from its byte `inside` on. */
static int read_rounded(unsigned char *dst, const transform *t, const transform_run *run, transform_account *account,
                        uint64_t inside, size_t size, ckpt_error *err)
{
    int rc = 0;
    const size_t first = (size_t)(inside % WIDTH);

    if (first > 0) {
        const size_t n = WIDTH - first < size ? WIDTH - first : size;
        TRY(read_part(dst, t, account, run->below + inside - first, first, n, err));
        dst += n;
        inside += n;
        size -= n;
    }
    const size_t whole = size / WIDTH * WIDTH;
    if (whole > 0) {
        TRY(t->below->read(t->below, dst, run->below + inside, whole, err));
        round_all(dst, whole / WIDTH, account);
    }
    if (size > whole)
        TRY(read_part(dst + whole, t, account, run->below + inside + whole, 0, size - whole, err));
out:
    return rc;
}

int transform_read(void *dst, const transform *t, transform_account *account, uint64_t offset, size_t size,
                   ckpt_error *err)
{
    int rc = 0;
    unsigned char *to = dst;

    while (size > 0) {
        const transform_run *const run = run_at(t, offset);
        const uint64_t inside = offset - run->at, left = run->size - inside;
        const size_t n = left < size ? (size_t)left : size;
        if (t->header && run == t->runs)
            memcpy(to, t->header + inside, n);
        else if (run->rounded)
            TRY(read_rounded(to, t, run, account, inside, n, err));
        else
            TRY(t->below->read(t->below, to, run->below + inside, n, err));
        to += n;
        offset += n;
        size -= n;
    }
out:
    return rc;
}
