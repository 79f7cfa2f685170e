#include "content.h"
#include "numbers.h"
#include "pattern.h"

#include "fail.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIFF_ELEMENTS ((size_t)16 << 10) /* of each side in memory at a time */
#define DIFF_BYTES    (DIFF_ELEMENTS * 16)

typedef struct differ {
    ckpt_content *a, *b;
    ckpt_diff *out;
    char **names; /* owned by the result */
    unsigned char *bytes_a, *bytes_b;
    double *numbers_a, *numbers_b;
    size_t only_a, only_b; /* the one file of that side that is compared; SIZE_MAX: all */
    ckpt_diff_options options;
    bool named_by_file; /* more than one file has tensors: names carry the file's path */
} differ;

/* ---- Pairing ---- */

typedef struct name_entry {
    uint64_t hash; /* of the canonical name */
    size_t tensor;
} name_entry;

static int name_entry_compare(const void *a, const void *b)
{
    const name_entry *const x = a, *const y = b;

    if (x->hash != y->hash)
        return x->hash < y->hash ? -1 : 1;
    return x->tensor < y->tensor ? -1 : 1;
}

static uint64_t canonical_hash(const char *name)
{
    const char *const canonical = tensor_name_canonical(name);
    return xxh64_of(canonical, strlen(canonical));
}

static int names_sorted(name_entry **out, const ckpt_content *c, ckpt_error *err)
{
    name_entry *const names = calloc(c->tensor_count + 1, sizeof *names);

    if (!names)
        return error_memory(err);
    for (size_t i = 0; i < c->tensor_count; i++)
        names[i] = (name_entry){canonical_hash(c->tensors[i].name), i};
    qsort(names, c->tensor_count, sizeof *names, name_entry_compare);
    *out = names;
    return 0;
}

/* How well tensor i of a and tensor j of b fit by name: 0 not at all. */
static int name_fit(const ckpt_content *a, size_t i, const ckpt_content *b, size_t j)
{
    const char *const x = a->tensors[i].name, *const y = b->tensors[j].name;

    if (strcmp(x, y) != 0)
        return strcmp(tensor_name_canonical(x), tensor_name_canonical(y)) == 0 ? 1 : 0;
    const char *const path_a = a->files[a->tensors[i].file].info.path;
    const char *const path_b = b->files[b->tensors[j].file].info.path;
    return strcmp(path_a, path_b) == 0 ? 3 : 2;
}

static bool in_scope(const ckpt_content *c, size_t tensor, size_t only)
{
    return only == SIZE_MAX || c->tensors[tensor].file == only;
}

/* Does somebody want to know of a tensor of this name? */
static bool is_asked(const differ *d, const ckpt_content *c, size_t tensor)
{
    return d->options.only_count == 0 || pattern_any(d->options.only, d->options.only_count, c->tensors[tensor].name);
}

/* partner[i] is the tensor of b for tensor i of a, or SIZE_MAX; taken[j] says that j has one. */
static int pair_tensors(size_t *partner, bool *taken, const differ *d, ckpt_error *err)
{
    int rc = 0;
    const ckpt_content *const a = d->a, *const b = d->b;
    name_entry *names = NULL;

    TRY(names_sorted(&names, b, err));
    for (int wanted = 3; wanted >= 1; wanted--) { /* exact pairs first, so that looser ones cannot take their place */
        for (size_t i = 0; i < a->tensor_count; i++) {
            if (partner[i] != SIZE_MAX || !in_scope(a, i, d->only_a))
                continue;
            const uint64_t hash = canonical_hash(a->tensors[i].name);
            size_t low = 0, high = b->tensor_count;
            while (low < high) {
                const size_t middle = low + (high - low) / 2;
                if (names[middle].hash < hash)
                    low = middle + 1;
                else
                    high = middle;
            }
            for (; low < b->tensor_count && names[low].hash == hash; low++) {
                const size_t j = names[low].tensor;
                if (!taken[j] && in_scope(b, j, d->only_b) && name_fit(a, i, b, j) == wanted) {
                    partner[i] = j;
                    taken[j] = true;
                    break;
                }
            }
        }
    }
out:
    free(names);
    return rc;
}

/* ---- One tensor ---- */

typedef struct sums {
    double difference, a, b, dot, absolute; /* of squares, of products, of |b - a| */
    uint64_t finite;
} sums;

static void count_number(ckpt_diff_tensor *t, sums *s, double a, double b)
{
    t->nan_a += isnan(a) != 0;
    t->nan_b += isnan(b) != 0;
    t->inf_a += isinf(a) != 0;
    t->inf_b += isinf(b) != 0;
    if (!isfinite(a) || !isfinite(b))
        return;
    const double d = b - a, absolute = fabs(d);
    if (absolute > t->max_abs)
        t->max_abs = absolute;
    s->absolute += absolute;
    s->difference += d * d;
    s->a += a * a;
    s->b += b * b;
    s->dot += a * b;
    s->finite++;
}

static void finish_tensor(ckpt_diff_tensor *t, const sums *s)
{
    t->mean_abs = s->finite ? s->absolute / (double)s->finite : 0;
    t->relative_l2 = s->difference == 0 ? 0 : s->a > 0 ? sqrt(s->difference / s->a) : (double)INFINITY;
    t->cosine = s->a > 0 && s->b > 0 ? s->dot / (sqrt(s->a) * sqrt(s->b)) : (double)NAN;
    t->change = t->changed ? CKPT_CHANGED : CKPT_SAME;
}

static int compare_values(ckpt_diff_tensor *t, differ *d, size_t i, size_t j, ckpt_error *err)
{
    int rc = 0;
    sums s = {0};
    const size_t width_a = ckpt_dtype_size(t->dtype_a), width_b = ckpt_dtype_size(t->dtype_b);
    const unsigned per_a = numbers_per_element(t->dtype_a), per_b = numbers_per_element(t->dtype_b);

    for (uint64_t done = 0; done < t->elements;) {
        const size_t n = t->elements - done < DIFF_ELEMENTS ? (size_t)(t->elements - done) : DIFF_ELEMENTS;
        TRY(ckpt_content_read(d->bytes_a, d->a, i, done, n, err));
        TRY(ckpt_content_read(d->bytes_b, d->b, j, done, n, err));
        numbers_read(d->numbers_a, d->bytes_a, n, t->dtype_a);
        numbers_read(d->numbers_b, d->bytes_b, n, t->dtype_b);
        for (size_t k = 0; k < n; k++) {
            const bool same_bits =
                t->dtype_a == t->dtype_b && memcmp(d->bytes_a + k * width_a, d->bytes_b + k * width_b, width_a) == 0;
            bool same_values = true;
            for (unsigned part = 0; part < per_a || part < per_b; part++) {
                const double a = part < per_a ? d->numbers_a[k * per_a + part] : 0;
                const double b = part < per_b ? d->numbers_b[k * per_b + part] : 0;
                same_values = same_values && (a == b || (isnan(a) && isnan(b)));
                count_number(t, &s, a, b);
            }
            t->changed += t->dtype_a == t->dtype_b ? !same_bits : !same_values;
        }
        done += n;
    }
    finish_tensor(t, &s);
out:
    return rc;
}

static void side_fill(ckpt_dtype *dtype, unsigned *rank, uint64_t shape[CKPT_RANK_MAX], const ckpt_tensor_info *t)
{
    *dtype = t->dtype;
    *rank = t->rank;
    memcpy(shape, t->shape, sizeof t->shape);
}

static int tensor_name(const char **out, differ *d, const ckpt_content *c, size_t i, ckpt_error *err)
{
    int rc = 0;
    const char *const name = c->tensors[i].name, *const path = c->files[c->tensors[i].file].info.path;
    const size_t size = strlen(path) + strlen(name) + 2;
    char *const text = malloc(size);

    FAIL_IF_NULL(text, err);
    if (d->named_by_file)
        snprintf(text, size, "%s:%s", path, name);
    else
        snprintf(text, size, "%s", name);
    d->names[d->out->tensor_count] = text;
    *out = text;
out:
    return rc;
}

/* i or j is SIZE_MAX for a tensor that one side lacks. */
static int add_tensor(differ *d, size_t i, size_t j, ckpt_error *err)
{
    int rc = 0;
    ckpt_diff_tensor *const t = &d->out->tensors[d->out->tensor_count];

    *t = (ckpt_diff_tensor){.cosine = (double)NAN};
    TRY(tensor_name(&t->name, d, i != SIZE_MAX ? d->a : d->b, i != SIZE_MAX ? i : j, err));
    d->out->tensor_count++;
    if (i != SIZE_MAX)
        side_fill(&t->dtype_a, &t->rank_a, t->shape_a, &d->a->tensors[i]);
    if (j != SIZE_MAX)
        side_fill(&t->dtype_b, &t->rank_b, t->shape_b, &d->b->tensors[j]);
    const ckpt_tensor_info *const shown = i != SIZE_MAX ? &d->a->tensors[i] : &d->b->tensors[j];
    t->elements = shown->bytes / ckpt_dtype_size(shown->dtype);
    if (i == SIZE_MAX || j == SIZE_MAX)
        t->change = i == SIZE_MAX ? CKPT_ADDED : CKPT_REMOVED;
    else if (t->rank_a != t->rank_b || memcmp(t->shape_a, t->shape_b, t->rank_a * sizeof *t->shape_a) != 0)
        t->change = CKPT_RESHAPED;
    else
        TRY(compare_values(t, d, i, j, err));
    d->out->equal = d->out->equal && t->change == CKPT_SAME && t->dtype_a == t->dtype_b;
out:
    return rc;
}

static size_t files_with_tensors(const ckpt_content *c, size_t only)
{
    size_t n = 0;

    for (size_t i = 0; i < c->file_count; i++)
        n += c->files[i].info.tensor_count > 0 && (only == SIZE_MAX || only == i);
    return n;
}

static int diff_tensors(differ *d, ckpt_error *err)
{
    int rc = 0;
    const size_t count_a = d->a->tensor_count, count_b = d->b->tensor_count;
    size_t *const partner = malloc((count_a + 1) * sizeof *partner);
    bool *const taken = calloc(count_b + 1, sizeof *taken);

    FAIL_IF_NULL(partner && taken, err);
    for (size_t i = 0; i < count_a; i++)
        partner[i] = SIZE_MAX;
    TRY(pair_tensors(partner, taken, d, err));
    d->out->tensors = calloc(count_a + count_b + 1, sizeof *d->out->tensors);
    d->names = calloc(count_a + count_b + 1, sizeof *d->names);
    d->out->owned = d->names;
    FAIL_IF_NULL(d->out->tensors && d->names, err);
    d->named_by_file = files_with_tensors(d->a, d->only_a) > 1 || files_with_tensors(d->b, d->only_b) > 1;
    for (size_t i = 0; i < count_a; i++)
        if (in_scope(d->a, i, d->only_a) &&
            (is_asked(d, d->a, i) || (partner[i] != SIZE_MAX && is_asked(d, d->b, partner[i]))))
            TRY(add_tensor(d, i, partner[i], err));
    for (size_t j = 0; j < count_b; j++)
        if (!taken[j] && in_scope(d->b, j, d->only_b) && is_asked(d, d->b, j))
            TRY(add_tensor(d, SIZE_MAX, j, err));
out:
    free(partner);
    free(taken);
    return rc;
}

/* ---- Files without tensors ---- */

static bool is_plain(const differ *d, const ckpt_content *c, size_t i, size_t only)
{
    return c->files[i].info.kind != CKPT_FOLDER && c->files[i].info.tensor_count == 0 &&
           (only == SIZE_MAX || only == i) &&
           (d->options.only_count == 0 ||
            pattern_any_path(d->options.only, d->options.only_count, c->files[i].info.path));
}

static int count_changed_bytes(uint64_t *changed, differ *d, size_t i, size_t j, ckpt_error *err)
{
    int rc = 0;
    const uint64_t size_a = d->a->files[i].info.size, size_b = d->b->files[j].info.size;
    const uint64_t common = size_a < size_b ? size_a : size_b;

    *changed = (size_a > size_b ? size_a : size_b) - common;
    for (uint64_t done = 0; done < common;) {
        const size_t n = common - done < DIFF_BYTES ? (size_t)(common - done) : DIFF_BYTES;
        TRY(content_read_bytes(d->bytes_a, d->a, i, done, n, err));
        TRY(content_read_bytes(d->bytes_b, d->b, j, done, n, err));
        for (size_t k = 0; k < n; k++)
            *changed += d->bytes_a[k] != d->bytes_b[k];
        done += n;
    }
out:
    return rc;
}

static int add_file(differ *d, size_t i, size_t j, ckpt_error *err)
{
    int rc = 0;
    ckpt_diff_file *const f = &d->out->files[d->out->file_count++];
    const ckpt_file_info *const a = i != SIZE_MAX ? &d->a->files[i].info : NULL;
    const ckpt_file_info *const b = j != SIZE_MAX ? &d->b->files[j].info : NULL;

    *f = (ckpt_diff_file){.path = a ? a->path : b->path, .size_a = a ? a->size : 0, .size_b = b ? b->size : 0};
    if (!a || !b) {
        f->change = a ? CKPT_REMOVED : CKPT_ADDED;
        f->changed_bytes = f->size_a + f->size_b;
    } else if (a->kind != b->kind || strcmp(a->link_target, b->link_target) != 0) {
        f->change = CKPT_CHANGED;
    } else if (a->size != b->size ||
               strcmp(ckpt_content_file(d->a, i)->sha256, ckpt_content_file(d->b, j)->sha256) != 0) {
        f->change = CKPT_CHANGED;
        TRY(count_changed_bytes(&f->changed_bytes, d, i, j, err));
    }
    d->out->equal = d->out->equal && f->change == CKPT_SAME;
out:
    return rc;
}

static size_t file_by_path(const differ *d, const ckpt_content *c, const char *path, size_t only)
{
    for (size_t i = 0; i < c->file_count; i++)
        if (is_plain(d, c, i, only) && strcmp(c->files[i].info.path, path) == 0)
            return i;
    return SIZE_MAX;
}

static int diff_files(differ *d, ckpt_error *err)
{
    int rc = 0;
    const size_t one_a = d->a->file_count == 1 ? 0 : d->only_a, one_b = d->b->file_count == 1 ? 0 : d->only_b;

    d->out->files = calloc(d->a->file_count + d->b->file_count + 1, sizeof *d->out->files);
    FAIL_IF_NULL(d->out->files, err);
    if (one_a != SIZE_MAX && one_b != SIZE_MAX) { /* two files are compared whatever their names */
        const bool plain_a = is_plain(d, d->a, one_a, one_a), plain_b = is_plain(d, d->b, one_b, one_b);
        if (plain_a || plain_b)
            TRY(add_file(d, plain_a ? one_a : SIZE_MAX, plain_b ? one_b : SIZE_MAX, err));
        goto out;
    }
    for (size_t i = 0; i < d->a->file_count; i++)
        if (is_plain(d, d->a, i, d->only_a))
            TRY(add_file(d, i, file_by_path(d, d->b, d->a->files[i].info.path, d->only_b), err));
    for (size_t j = 0; j < d->b->file_count; j++)
        if (is_plain(d, d->b, j, d->only_b) && file_by_path(d, d->a, d->b->files[j].info.path, d->only_a) == SIZE_MAX)
            TRY(add_file(d, SIZE_MAX, j, err));
out:
    return rc;
}

/* A plain file is compared with its own saved version: the file of that path, or the only one of that name. */
static size_t counterpart(const ckpt_content *many, const ckpt_content *plain)
{
    size_t found = SIZE_MAX, same_base = 0;

    if (!many->store || plain->store || many->file_count == 1 || plain->file_count != 1)
        return SIZE_MAX;
    const char *const path = plain->files[0].info.path, *const base = path_base(path);
    for (size_t i = 0; i < many->file_count; i++) {
        const ckpt_file_info *const f = &many->files[i].info;
        if (f->kind != CKPT_FILE)
            continue;
        if (strcmp(f->path, path) == 0)
            return i;
        if (strcmp(path_base(f->path), base) == 0) {
            found = i;
            same_base++;
        }
    }
    return same_base == 1 ? found : SIZE_MAX;
}

int ckpt_diff_new(ckpt_diff **out, ckpt_content *a, ckpt_content *b, const ckpt_diff_options *options, ckpt_error *err)
{
    int rc = 0;
    differ d = {.a = a, .b = b, .out = calloc(1, sizeof *d.out), .options = {.size = sizeof d.options}};

    d.bytes_a = malloc(DIFF_BYTES);
    d.bytes_b = malloc(DIFF_BYTES);
    d.numbers_a = malloc(2 * DIFF_ELEMENTS * sizeof *d.numbers_a);
    d.numbers_b = malloc(2 * DIFF_ELEMENTS * sizeof *d.numbers_b);
    FAIL_IF_NULL(d.out && d.bytes_a && d.bytes_b && d.numbers_a && d.numbers_b, err);
    TRY(store_options(&d.options, sizeof d.options, options, err));
    d.out->equal = true;
    d.only_a = counterpart(a, b);
    d.only_b = counterpart(b, a);
    TRY(diff_tensors(&d, err));
    TRY(diff_files(&d, err));
    *out = d.out;
    d.out = NULL;
out:
    ckpt_diff_free(d.out);
    free(d.bytes_a);
    free(d.bytes_b);
    free(d.numbers_a);
    free(d.numbers_b);
    return rc;
}

void ckpt_diff_free(ckpt_diff *diff)
{
    if (!diff)
        return;
    char **const names = diff->owned;
    for (size_t i = 0; names && i < diff->tensor_count; i++)
        free(names[i]);
    free(names);
    free(diff->tensors);
    free(diff->files);
    free(diff);
}
