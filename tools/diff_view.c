#define _GNU_SOURCE /* strverscmp */
#include "diff_view.h"

#include "print.h"

#include "fail.h"
#include "table.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Order ------------------------------------------------------------------------------------------------------ */

const char *diff_change_name(ckpt_change change)
{
    static const char *const NAMES[] = {[CKPT_SAME] = "same",
                                        [CKPT_CHANGED] = "changed",
                                        [CKPT_ADDED] = "added",
                                        [CKPT_REMOVED] = "removed",
                                        [CKPT_RESHAPED] = "reshaped"};
    return NAMES[change];
}

static uint64_t shape_bytes(ckpt_dtype dtype, unsigned rank, const uint64_t *shape)
{
    uint64_t bytes = ckpt_dtype_size(dtype);
    for (unsigned i = 0; i < rank; i++)
        bytes *= shape[i]; /* a tensor that exists: the library has checked that it fits */
    return bytes;
}

uint64_t diff_tensor_bytes(const ckpt_diff_tensor *tensor)
{
    uint64_t a = tensor->change == CKPT_ADDED ? 0 : shape_bytes(tensor->dtype_a, tensor->rank_a, tensor->shape_a);
    uint64_t b = tensor->change == CKPT_REMOVED ? 0 : shape_bytes(tensor->dtype_b, tensor->rank_b, tensor->shape_b);
    return a > b ? a : b;
}

/* Larger first; NaN last. */
static int descending(double a, double b)
{
    if (isnan(a) || isnan(b))
        return isnan(a) - isnan(b);
    return (a < b) - (a > b);
}

static double tensor_change(const ckpt_diff_tensor *t)
{
    return t->change == CKPT_SAME ? -1 : t->change == CKPT_CHANGED ? t->relative_l2 : (double)INFINITY;
}

static int names_compare(const void *a, const void *b)
{
    return strverscmp(((const ckpt_diff_tensor *)a)->name, ((const ckpt_diff_tensor *)b)->name);
}

/* Where a training breaks, in every order: tensors with more NaN or infinities than before stand first. */
static bool broke(uint64_t nan_a, uint64_t inf_a, uint64_t nan_b, uint64_t inf_b)
{
    return nan_b > nan_a || inf_b > inf_a;
}

static int broken_tensors_first(const void *a, const void *b)
{
    const ckpt_diff_tensor *const x = a, *const y = b;
    return broke(y->nan_a, y->inf_a, y->nan_b, y->inf_b) - broke(x->nan_a, x->inf_a, x->nan_b, x->inf_b);
}

static int tensors_by_name(const void *a, const void *b)
{
    const int order = broken_tensors_first(a, b);
    return order ? order : names_compare(a, b);
}

static int tensors_by_change(const void *a, const void *b)
{
    int order = broken_tensors_first(a, b);
    if (!order)
        order = descending(tensor_change(a), tensor_change(b));
    return order ? order : names_compare(a, b);
}

static int tensors_by_size(const void *a, const void *b)
{
    const uint64_t bytes_a = diff_tensor_bytes(a), bytes_b = diff_tensor_bytes(b);
    int order = broken_tensors_first(a, b);
    if (!order)
        order = (bytes_a < bytes_b) - (bytes_a > bytes_b);
    return order ? order : names_compare(a, b);
}

static uint64_t file_size(const ckpt_diff_file *file)
{
    return file->size_a > file->size_b ? file->size_a : file->size_b;
}

static int files_by_name(const void *a, const void *b)
{
    return strverscmp(((const ckpt_diff_file *)a)->path, ((const ckpt_diff_file *)b)->path);
}

static int files_by_change(const void *a, const void *b)
{
    uint64_t changed_a = ((const ckpt_diff_file *)a)->changed_bytes,
             changed_b = ((const ckpt_diff_file *)b)->changed_bytes;
    return changed_a != changed_b ? (changed_a < changed_b) - (changed_a > changed_b) : files_by_name(a, b);
}

static int files_by_size(const void *a, const void *b)
{
    uint64_t size_a = file_size(a), size_b = file_size(b);
    return size_a != size_b ? (size_a < size_b) - (size_a > size_b) : files_by_name(a, b);
}

static int broken_groups_first(const void *a, const void *b)
{
    const diff_group *const x = a, *const y = b;
    return broke(y->nan_a, y->inf_a, y->nan_b, y->inf_b) - broke(x->nan_a, x->inf_a, x->nan_b, x->inf_b);
}

static int groups_by_name(const void *a, const void *b)
{
    const int order = broken_groups_first(a, b);
    return order ? order : strverscmp(((const diff_group *)a)->name, ((const diff_group *)b)->name);
}

static int groups_by_change(const void *a, const void *b)
{
    int order = broken_groups_first(a, b);
    if (!order)
        order = descending(((const diff_group *)a)->relative_l2_max, ((const diff_group *)b)->relative_l2_max);
    return order ? order : groups_by_name(a, b);
}

static int groups_by_size(const void *a, const void *b)
{
    const uint64_t bytes_a = ((const diff_group *)a)->bytes, bytes_b = ((const diff_group *)b)->bytes;
    int order = broken_groups_first(a, b);
    if (!order)
        order = (bytes_a < bytes_b) - (bytes_a > bytes_b);
    return order ? order : groups_by_name(a, b);
}

typedef int (*compare)(const void *a, const void *b);

void diff_sort(ckpt_diff *diff, diff_order order)
{
    static const compare TENSORS[] = {tensors_by_name, tensors_by_change, tensors_by_size};
    static const compare FILES[] = {files_by_name, files_by_change, files_by_size};
    if (diff->tensor_count)
        qsort(diff->tensors, diff->tensor_count, sizeof(*diff->tensors), TENSORS[order]);
    if (diff->file_count)
        qsort(diff->files, diff->file_count, sizeof(*diff->files), FILES[order]);
}

/* ---- Groups ----------------------------------------------------------------------------------------------------- */

/* Bytes of the first `depth` components, parted by dots. The path of a file before a name, "runs/model.pt:", is not one
 * of them but stays in front. */
static size_t prefix_size(const char *name, uint64_t depth)
{
    const size_t path = strcspn(name, ":"), first = name[path] ? path + 1 : 0;
    size_t size = first;

    for (; depth && name[size]; depth--) {
        size += name[size] == '.' && size > first;
        size += strcspn(name + size, ".");
    }
    return size;
}

static void group_add(diff_group *g, const ckpt_diff_tensor *t)
{
    g->tensors++;
    g->tensors_by_change[t->change]++;
    g->bytes += diff_tensor_bytes(t);
    g->nan_a += t->nan_a;
    g->inf_a += t->inf_a;
    g->nan_b += t->nan_b;
    g->inf_b += t->inf_b;
    if (t->change != CKPT_SAME && t->change != CKPT_CHANGED)
        return;
    uint64_t elements = g->elements + t->elements;
    if (elements && !isnan(t->mean_abs))
        g->mean_abs += (t->mean_abs - g->mean_abs) * (double)t->elements / (double)elements;
    g->elements = elements;
    g->changed += t->changed;
    g->max_abs = fmax(g->max_abs, t->max_abs);
    g->relative_l2_max = fmax(g->relative_l2_max, t->relative_l2);
    g->cosine_min = fmin(g->cosine_min, t->cosine); /* of NaN and a number it is the number */
}

static diff_group *group_find(diff_group *groups, size_t count, const char *name)
{
    size_t i = count; /* tensors of one group mostly follow each other */
    while (i > 0 && strcmp(groups[i - 1].name, name) != 0)
        i--;
    return i > 0 ? &groups[i - 1] : NULL;
}

int diff_groups(diff_group **groups, size_t *count, const ckpt_diff *diff, uint64_t depth, diff_order order,
                ckpt_error *err)
{
    static const compare GROUPS[] = {groups_by_name, groups_by_change, groups_by_size};
    int rc = 0;
    char *name = NULL;

    *count = 0;
    *groups = calloc(diff->tensor_count + 1, sizeof(**groups));
    FAIL_IF_NULL(*groups, err);
    for (size_t i = 0; i < diff->tensor_count; i++) {
        const ckpt_diff_tensor *t = &diff->tensors[i];
        name = strndup(t->name, prefix_size(t->name, depth));
        FAIL_IF_NULL(name, err);
        diff_group *g = group_find(*groups, *count, name);
        if (!g) {
            g = &(*groups)[(*count)++];
            *g = (diff_group){.name = name, .cosine_min = (double)NAN};
            name = NULL;
        }
        group_add(g, t);
        free(name);
        name = NULL;
    }
    qsort(*groups, *count, sizeof(**groups), GROUPS[order]);
out:
    free(name);
    return rc;
}

void diff_groups_free(diff_group *groups, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(groups[i].name);
    free(groups);
}

/* ---- Tables ----------------------------------------------------------------------------------------------------- */

static const char *real_text(char out[UNITS_TEXT_SIZE], double value)
{
    if (isnan(value))
        snprintf(out, UNITS_TEXT_SIZE, "-");
    else
        snprintf(out, UNITS_TEXT_SIZE, "%.3g", value);
    return out;
}

/* The numbers of a comparison are over elements finite on both sides; are there any? */
static bool any_finite(uint64_t elements, uint64_t special_a, uint64_t special_b)
{
    return elements == 0 || (special_a < elements && special_b < elements);
}

static const char *cosine_text(char out[UNITS_TEXT_SIZE], double value)
{
    if (isnan(value))
        snprintf(out, UNITS_TEXT_SIZE, "-");
    else
        snprintf(out, UNITS_TEXT_SIZE, "%.5f", value);
    return out;
}

static table_color change_color(ckpt_change change)
{
    static const table_color COLORS[] = {[CKPT_SAME] = TABLE_DIM,
                                         [CKPT_CHANGED] = TABLE_PLAIN,
                                         [CKPT_ADDED] = TABLE_GREEN,
                                         [CKPT_REMOVED] = TABLE_RED,
                                         [CKPT_RESHAPED] = TABLE_YELLOW};
    return COLORS[change];
}

/* "3" on both sides, or "0>3". */
static const char *count_pair(char out[2 * UNITS_TEXT_SIZE], uint64_t a, uint64_t b)
{
    if (a == b)
        snprintf(out, 2 * UNITS_TEXT_SIZE, "%" PRIu64, b);
    else
        snprintf(out, 2 * UNITS_TEXT_SIZE, "%" PRIu64 ">%" PRIu64, a, b);
    return out;
}

/* "f32[64,3]", or "f32[64,3]>f16[64,3]" where the sides differ. */
static const char *type_text(char out[2 * (PRINT_SHAPE_SIZE + UNITS_TEXT_SIZE)], const ckpt_diff_tensor *t)
{
    char a[PRINT_SHAPE_SIZE], b[PRINT_SHAPE_SIZE];
    const size_t size = 2 * (PRINT_SHAPE_SIZE + UNITS_TEXT_SIZE);
    const bool only_a = t->change == CKPT_REMOVED, only_b = t->change == CKPT_ADDED;

    print_shape(a, t->rank_a, t->shape_a);
    print_shape(b, t->rank_b, t->shape_b);
    if (only_a || (!only_b && t->dtype_a == t->dtype_b && strcmp(a, b) == 0))
        snprintf(out, size, "%s%s", ckpt_dtype_name(t->dtype_a), a);
    else if (only_b)
        snprintf(out, size, "%s%s", ckpt_dtype_name(t->dtype_b), b);
    else
        snprintf(out, size, "%s%s>%s%s", ckpt_dtype_name(t->dtype_a), a, ckpt_dtype_name(t->dtype_b), b);
    return out;
}

/* Numbers of a tensor that both sides have; nothing else can be compared. */
static int add_numbers(table *t, const ckpt_diff_tensor *row, bool specials, ckpt_error *err)
{
    int rc = 0;
    const bool both = row->change == CKPT_SAME || row->change == CKPT_CHANGED;
    const bool finite = any_finite(row->elements, row->nan_a + row->inf_a, row->nan_b + row->inf_b);
    char text[2 * UNITS_TEXT_SIZE];

    if (both)
        print_percent(text, row->changed, row->elements);
    TRY(table_add(t, both ? text : diff_change_name(row->change), change_color(row->change), err));
    TRY(table_add(t, both ? real_text(text, finite ? row->max_abs : (double)NAN) : "", TABLE_PLAIN, err));
    TRY(table_add(t, both ? real_text(text, finite ? row->mean_abs : (double)NAN) : "", TABLE_PLAIN, err));
    TRY(table_add(t, both ? real_text(text, finite ? row->relative_l2 : (double)NAN) : "", TABLE_PLAIN, err));
    TRY(table_add(t, both ? cosine_text(text, row->cosine) : "", TABLE_PLAIN, err));
    if (specials) {
        TRY(table_add(t, both ? count_pair(text, row->nan_a, row->nan_b) : "", TABLE_PLAIN, err));
        TRY(table_add(t, both ? count_pair(text, row->inf_a, row->inf_b) : "", TABLE_PLAIN, err));
    }
out:
    return rc;
}

/* Is there a NaN or an infinity anywhere? The columns for them stand only then. */
static bool any_special(const ckpt_diff *diff)
{
    for (size_t i = 0; i < diff->tensor_count; i++) {
        const ckpt_diff_tensor *t = &diff->tensors[i];
        if (t->nan_a || t->nan_b || t->inf_a || t->inf_b)
            return true;
    }
    return false;
}

int diff_write_tensors(FILE *out, const ckpt_diff *diff, bool all, size_t width, bool color, ckpt_error *err)
{
    int rc = 0;
    table *t = NULL;
    table_column columns[9] = {{"CHANGED", TABLE_RIGHT},
                               {"MAX", TABLE_RIGHT},
                               {"MEAN", TABLE_RIGHT},
                               {"REL L2", TABLE_RIGHT},
                               {"COSINE", TABLE_RIGHT}};
    size_t used = 5, rows = 0;
    const bool specials = any_special(diff);

    if (specials) {
        columns[used++] = (table_column){"NAN", TABLE_RIGHT};
        columns[used++] = (table_column){"INF", TABLE_RIGHT};
    }
    columns[used++] = (table_column){"TYPE", TABLE_LEFT};
    columns[used++] = (table_column){"TENSOR", TABLE_NAME};
    TRY(table_new(&t, columns, used, err));
    for (size_t i = 0; i < diff->tensor_count; i++) {
        const ckpt_diff_tensor *row = &diff->tensors[i];
        char type[2 * (PRINT_SHAPE_SIZE + UNITS_TEXT_SIZE)];
        if (row->change == CKPT_SAME && !all)
            continue;
        TRY(add_numbers(t, row, specials, err));
        TRY(table_add(t, type_text(type, row), TABLE_PLAIN, err));
        TRY(table_add(t, row->name, change_color(row->change), err));
        rows++;
    }
    if (rows)
        TRY(table_write(out, t, width, color, err));
out:
    table_free(t);
    return rc;
}

/* "3 changed, 1 added"; "same" when nothing differs. */
static void group_changes(char *out, size_t size, const diff_group *g)
{
    size_t used = 0;
    out[0] = 0;
    for (ckpt_change change = CKPT_CHANGED; change <= CKPT_RESHAPED; change++)
        if (g->tensors_by_change[change] && used < size)
            used += (size_t)snprintf(out + used, size - used, "%s%zu %s", used ? ", " : "",
                                     g->tensors_by_change[change], diff_change_name(change));
    if (!used)
        snprintf(out, size, "same");
}

static int add_group(table *t, const diff_group *g, bool specials, ckpt_error *err)
{
    int rc = 0;
    const bool finite = any_finite(g->elements, g->nan_a + g->inf_a, g->nan_b + g->inf_b);
    char text[2 * UNITS_TEXT_SIZE], changes[4 * UNITS_TEXT_SIZE];

    format_count(text, g->tensors);
    TRY(table_add(t, text, TABLE_PLAIN, err));
    TRY(table_add(t, print_percent(text, g->changed, g->elements), TABLE_PLAIN, err));
    TRY(table_add(t, real_text(text, finite ? g->max_abs : (double)NAN), TABLE_PLAIN, err));
    TRY(table_add(t, real_text(text, finite ? g->mean_abs : (double)NAN), TABLE_PLAIN, err));
    TRY(table_add(t, real_text(text, finite ? g->relative_l2_max : (double)NAN), TABLE_PLAIN, err));
    TRY(table_add(t, cosine_text(text, g->cosine_min), TABLE_PLAIN, err));
    if (specials) {
        TRY(table_add(t, count_pair(text, g->nan_a, g->nan_b), TABLE_PLAIN, err));
        TRY(table_add(t, count_pair(text, g->inf_a, g->inf_b), TABLE_PLAIN, err));
    }
    group_changes(changes, sizeof(changes), g);
    TRY(table_add(t, changes, TABLE_PLAIN, err));
    TRY(table_add(t, g->name, TABLE_PLAIN, err));
out:
    return rc;
}

int diff_write_groups(FILE *out, const diff_group *groups, size_t count, size_t width, bool color, ckpt_error *err)
{
    int rc = 0;
    table *t = NULL;
    table_column columns[10] = {{"TENSORS", TABLE_RIGHT}, {"CHANGED", TABLE_RIGHT}, {"MAX", TABLE_RIGHT},
                                {"MEAN", TABLE_RIGHT},    {"MAX REL", TABLE_RIGHT}, {"MIN COS", TABLE_RIGHT}};
    size_t used = 6;
    bool specials = false;

    if (!count)
        goto out;
    for (size_t i = 0; i < count; i++)
        specials |= groups[i].nan_a || groups[i].inf_a || groups[i].nan_b || groups[i].inf_b;
    if (specials) {
        columns[used++] = (table_column){"NAN", TABLE_RIGHT};
        columns[used++] = (table_column){"INF", TABLE_RIGHT};
    }
    columns[used++] = (table_column){"CHANGES", TABLE_LEFT};
    columns[used++] = (table_column){"GROUP", TABLE_NAME};
    TRY(table_new(&t, columns, used, err));
    for (size_t i = 0; i < count; i++)
        TRY(add_group(t, &groups[i], specials, err));
    TRY(table_write(out, t, width, color, err));
out:
    table_free(t);
    return rc;
}

int diff_write_files(FILE *out, const ckpt_diff *diff, bool all, size_t width, bool color, ckpt_error *err)
{
    static const table_column COLUMNS[] = {{"CHANGE", TABLE_LEFT},
                                           {"BYTES", TABLE_RIGHT},
                                           {"SIZE", TABLE_RIGHT},
                                           {"NEW SIZE", TABLE_RIGHT},
                                           {"FILE", TABLE_NAME}};
    int rc = 0;
    table *t = NULL;
    size_t rows = 0;

    TRY(table_new(&t, COLUMNS, sizeof(COLUMNS) / sizeof(COLUMNS[0]), err));
    for (size_t i = 0; i < diff->file_count; i++) {
        const ckpt_diff_file *f = &diff->files[i];
        char text[UNITS_TEXT_SIZE];
        if (f->change == CKPT_SAME && !all)
            continue;
        TRY(table_add(t, diff_change_name(f->change), change_color(f->change), err));
        TRY(table_add(t, print_size(text, f->changed_bytes), TABLE_PLAIN, err));
        TRY(table_add(t, f->change == CKPT_ADDED ? "" : print_size(text, f->size_a), TABLE_PLAIN, err));
        TRY(table_add(t, f->change == CKPT_REMOVED ? "" : print_size(text, f->size_b), TABLE_PLAIN, err));
        TRY(table_add(t, f->path, TABLE_PLAIN, err));
        rows++;
    }
    if (rows)
        TRY(table_write(out, t, width, color, err));
out:
    table_free(t);
    return rc;
}
