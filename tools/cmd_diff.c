#include "diff_view.h"
#include "print.h"
#include "session.h"

#include "fail.h"
#include "terminal.h"

#include <stdlib.h>
#include <string.h>

static const option OPTIONS[] = {
    {"depth", 0, OPT_COUNT, "N", "sum up tensors whose names begin with the same N parts"},
    {"sort", 0, OPT_CHOICE, "name|change|size", "order of rows; name without it"},
    {"only", 0, OPT_LIST, "PATTERN",
     "tensors of such names, as 'model.*', and other files; may be given several times"},
    {"all", 'a', OPT_FLAG, NULL, "also show what is the same"},
    {"exit-code", 0, OPT_FLAG, NULL, "exit with 1 when anything differs"},
    {0},
};

static diff_order order_read(const arguments *args)
{
    const char *sort = arguments_text(args, "sort");
    return !sort || strcmp(sort, "name") == 0 ? DIFF_BY_NAME
           : strcmp(sort, "change") == 0      ? DIFF_BY_CHANGE
                                              : DIFF_BY_SIZE;
}

/* ---- For people ------------------------------------------------------------------------------------------------- */

/* "62 tensors: 40 changed, 22 same". */
static void print_summary(const char *noun, const size_t counts[CKPT_RESHAPED + 1])
{
    static const ckpt_change ORDER[] = {CKPT_CHANGED, CKPT_RESHAPED, CKPT_ADDED, CKPT_REMOVED, CKPT_SAME};
    char text[UNITS_TEXT_SIZE];
    const char *separator = ": ";
    size_t total = 0;

    for (size_t i = 0; i <= CKPT_RESHAPED; i++)
        total += counts[i];
    if (!total)
        return;
    fputs(print_count(text, total, noun), stdout);
    for (size_t i = 0; i < sizeof(ORDER) / sizeof(ORDER[0]); i++)
        if (counts[ORDER[i]]) {
            printf("%s%zu %s", separator, counts[ORDER[i]], diff_change_name(ORDER[i]));
            separator = ", ";
        }
    fputc('\n', stdout);
}

static int print_diff(const session *s, const ckpt_diff *diff, const diff_group *groups, size_t group_count,
                      ckpt_error *err)
{
    int rc = 0;
    size_t tensors[CKPT_RESHAPED + 1] = {0}, files[CKPT_RESHAPED + 1] = {0};
    const bool all = arguments_flag(&s->args, "all");
    const size_t width = terminal_columns(stdout);

    if (groups)
        TRY(diff_write_groups(stdout, groups, group_count, width, s->color, err));
    else
        TRY(diff_write_tensors(stdout, diff, all, width, s->color, err));
    TRY(diff_write_files(stdout, diff, all, width, s->color, err));
    for (size_t i = 0; i < diff->tensor_count; i++)
        tensors[diff->tensors[i].change]++;
    for (size_t i = 0; i < diff->file_count; i++)
        files[diff->files[i].change]++;
    print_summary("tensor", tensors);
    print_summary("other file", files);
    if (!diff->tensor_count && !diff->file_count)
        puts("nothing to compare");
out:
    return rc;
}

/* ---- For programs ----------------------------------------------------------------------------------------------- */

static int json_side(json_t *row, const char *dtype_key, const char *shape_key, bool there, ckpt_dtype dtype,
                     unsigned rank, const uint64_t *shape, ckpt_error *err)
{
    int rc = 0;
    TRY(json_out_set(row, dtype_key, there ? print_json_text(ckpt_dtype_name(dtype)) : json_null(), err));
    TRY(json_out_set(row, shape_key, there ? print_json_shape(rank, shape) : json_null(), err));
out:
    return rc;
}

static int json_tensor(json_t *row, const ckpt_diff_tensor *t, ckpt_error *err)
{
    int rc = 0;

    TRY(json_out_set(row, "name", print_json_text(t->name), err));
    TRY(json_out_set(row, "change", print_json_text(diff_change_name(t->change)), err));
    TRY(json_side(row, "dtype_a", "shape_a", t->change != CKPT_ADDED, t->dtype_a, t->rank_a, t->shape_a, err));
    TRY(json_side(row, "dtype_b", "shape_b", t->change != CKPT_REMOVED, t->dtype_b, t->rank_b, t->shape_b, err));
    if (t->change == CKPT_SAME || t->change == CKPT_CHANGED) {
        TRY(json_out_set(row, "elements", json_out_count(t->elements), err));
        TRY(json_out_set(row, "changed", json_out_count(t->changed), err));
        TRY(json_out_set(row, "max_abs", json_out_real(t->max_abs), err));
        TRY(json_out_set(row, "mean_abs", json_out_real(t->mean_abs), err));
        TRY(json_out_set(row, "relative_l2", json_out_real(t->relative_l2), err));
        TRY(json_out_set(row, "cosine", json_out_real(t->cosine), err));
        TRY(json_out_set(row, "nan_a", json_out_count(t->nan_a), err));
        TRY(json_out_set(row, "nan_b", json_out_count(t->nan_b), err));
        TRY(json_out_set(row, "inf_a", json_out_count(t->inf_a), err));
        TRY(json_out_set(row, "inf_b", json_out_count(t->inf_b), err));
    }
out:
    return rc;
}

static int json_group(json_t *row, const diff_group *g, ckpt_error *err)
{
    int rc = 0;

    TRY(json_out_set(row, "name", print_json_text(g->name), err));
    TRY(json_out_set(row, "tensors", json_out_count(g->tensors), err));
    for (ckpt_change change = CKPT_SAME; change <= CKPT_RESHAPED; change++)
        TRY(json_out_set(row, diff_change_name(change), json_out_count(g->tensors_by_change[change]), err));
    TRY(json_out_set(row, "bytes", json_out_count(g->bytes), err));
    TRY(json_out_set(row, "elements", json_out_count(g->elements), err));
    TRY(json_out_set(row, "changed_elements", json_out_count(g->changed), err));
    TRY(json_out_set(row, "max_abs", json_out_real(g->max_abs), err));
    TRY(json_out_set(row, "mean_abs", json_out_real(g->mean_abs), err));
    TRY(json_out_set(row, "relative_l2_max", json_out_real(g->relative_l2_max), err));
    TRY(json_out_set(row, "cosine_min", json_out_real(g->cosine_min), err));
    TRY(json_out_set(row, "nan_a", json_out_count(g->nan_a), err));
    TRY(json_out_set(row, "nan_b", json_out_count(g->nan_b), err));
    TRY(json_out_set(row, "inf_a", json_out_count(g->inf_a), err));
    TRY(json_out_set(row, "inf_b", json_out_count(g->inf_b), err));
out:
    return rc;
}

static int json_diff_file(json_t *row, const ckpt_diff_file *f, ckpt_error *err)
{
    int rc = 0;

    TRY(json_out_set(row, "path", print_json_text(f->path), err));
    TRY(json_out_set(row, "change", print_json_text(diff_change_name(f->change)), err));
    TRY(json_out_set(row, "size_a", f->change == CKPT_ADDED ? json_null() : json_out_count(f->size_a), err));
    TRY(json_out_set(row, "size_b", f->change == CKPT_REMOVED ? json_null() : json_out_count(f->size_b), err));
    TRY(json_out_set(row, "changed_bytes", json_out_count(f->changed_bytes), err));
out:
    return rc;
}

/* Adds an empty array of `key`. */
static int json_list(json_t **list, json_t *object, const char *key, ckpt_error *err)
{
    *list = json_array();
    return json_out_set(object, key, *list, err);
}

/* Adds an empty object at the end of a list. */
static int json_row(json_t **row, json_t *list, ckpt_error *err)
{
    *row = json_object();
    return json_out_append(list, *row, err);
}

static int print_json(const ckpt_diff *diff, const diff_group *groups, size_t group_count, ckpt_error *err)
{
    int rc = 0;
    json_t *object = json_object(), *list, *row;

    TRY(json_out_set(object, "equal", json_boolean(diff->equal), err));
    TRY(json_list(&list, object, "tensors", err));
    for (size_t i = 0; i < diff->tensor_count; i++) {
        TRY(json_row(&row, list, err));
        TRY(json_tensor(row, &diff->tensors[i], err));
    }
    if (groups)
        TRY(json_list(&list, object, "groups", err));
    for (size_t i = 0; i < group_count; i++) {
        TRY(json_row(&row, list, err));
        TRY(json_group(row, &groups[i], err));
    }
    TRY(json_list(&list, object, "files", err));
    for (size_t i = 0; i < diff->file_count; i++) {
        TRY(json_row(&row, list, err));
        TRY(json_diff_file(row, &diff->files[i], err));
    }
    TRY(json_out_value(stdout, object, err));
out:
    json_decref(object);
    return rc;
}

/* ---- The command ------------------------------------------------------------------------------------------------ */

static int cmd_diff(session *s, ckpt_error *err)
{
    int rc = 0;
    ckpt_content *a = NULL, *b = NULL;
    ckpt_diff *diff = NULL;
    diff_group *groups = NULL;
    size_t group_count = 0;
    const int64_t depth = arguments_count(&s->args, "depth", 0);
    const size_t words = s->args.word_count;
    const diff_order order = order_read(&s->args);
    const char **only = NULL;
    ckpt_diff_options options = {.size = sizeof(options)};

    TRY(arguments_list(&only, &options.only_count, &s->args, "only", err));
    options.only = only;
    FAIL_IF(depth == 0 && arguments_flag(&s->args, "depth"), err, CKPT_EUSAGE, "diff: --depth counts from 1");
    s->notes_are_warnings = true;
    TRY(session_open_content(&a, s, words > 0 ? s->args.words[0] : "latest~1", err));
    TRY(session_open_content(&b, s, words > 1 ? s->args.words[1] : "latest", err));
    TRY(ckpt_diff_new(&diff, a, b, &options, err));
    diff_sort(diff, order);
    if (depth)
        TRY(diff_groups(&groups, &group_count, diff, (uint64_t)depth, order, err));
    if (s->json)
        TRY(print_json(diff, groups, group_count, err));
    else if (!s->quiet)
        TRY(print_diff(s, diff, groups, group_count, err));
    if (!diff->equal && arguments_flag(&s->args, "exit-code"))
        rc = CKPT_EDIFFER;
out:
    diff_groups_free(groups, group_count);
    ckpt_diff_free(diff);
    ckpt_content_close(a);
    ckpt_content_close(b);
    free(only);
    return rc;
}

const command CMD_DIFF = {
    .name = "diff",
    .args = "[A [B]]",
    .summary = "Compare two checkpoints or files, tensor by tensor",
    .about =
        "A and B are checkpoints, or files or folders on disk, also of different formats; tensors are paired by name. "
        "Without B it is `latest`; without both, `latest~1` and `latest` are compared.\n\n"
        "CHANGED is the share of elements whose bits differ, MAX and MEAN are of the absolute change, REL L2 is |B - "
        "A| / |A|. NAN and INF count what is not finite, as before>after where the counts differ; "
        "tensors that have more of them than before come first in every order. A number over no finite element is "
        "-.\n\n"
        "With --depth a row is a group of tensors: CHANGED and MEAN are over all its elements, MAX and MAX REL "
        "(relative "
        "L2) are the largest of its tensors, MIN COS is the smallest cosine. Tensors that are added, removed or "
        "reshaped "
        "are counted only.",
    .examples = "ckpt diff\twhat the last save changed\n"
                "ckpt diff best latest --depth 2 --sort change\tlayers that moved most, first\n"
                "ckpt diff model.pt model.safetensors --exit-code\tare these two the same?\n",
    .options = OPTIONS,
    .exits = EXITS(0, 1, 2, 3, 4, 9, 10),
    .words_max = 2,
    .group = GROUP_LOOK,
    .completes = COMPLETES_NAMES_AND_PATHS,
    .run = cmd_diff,
};
