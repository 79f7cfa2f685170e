#include "training_summary.h"

#include "print.h"

#include "fail.h"
#include "table.h"
#include "terminal.h"

#include <inttypes.h>
#include <math.h>

/* ---- The result ---- */

/* All that were asked for; each blocks. */
static uint64_t saves_asked(const ckpt_training_result *r)
{
    return r->saves + r->saves_failed + r->saves_skipped;
}

/* Time that the training stood still for one save, on average. */
static double blocked_seconds_mean(const ckpt_training_result *r)
{
    const uint64_t asked = saves_asked(r);
    return asked ? r->blocked_seconds / (double)asked : 0;
}

static void print_accuracy(const ckpt_training_result *r)
{
    const bool tested = isfinite(r->test_accuracy);

    if (tested)
        printf("accuracy     %.2f %% of the test samples\n", 100 * r->test_accuracy);
    if (isfinite(r->best_val_accuracy))
        printf("%-11s  %.2f %% in validation, at best\n", tested ? "" : "accuracy", 100 * r->best_val_accuracy);
}

static void print_saves(const ckpt_training_result *r)
{
    char count[UNITS_TEXT_SIZE], sizes[PRINT_SIZES_SIZE];

    printf("saved        %s", print_count(count, r->saves, "checkpoint"));
    if (r->saves_skipped)
        printf(", %" PRIu64 " replaced by a newer one", r->saves_skipped);
    if (r->saves_failed)
        printf(", %" PRIu64 " failed", r->saves_failed);
    printf("\nwritten      %s\n", print_sizes(sizes, r->raw_bytes, r->stored_bytes));
    printf("blocked      %.1f ms for each save\n", 1000 * blocked_seconds_mean(r));
}

static int print_result_json(const ckpt_training_result *r, ckpt_error *err)
{
    int rc = 0;
    json_t *const object = json_object();

    TRY(json_out_set(object, "event", print_json_text("result"), err));
    TRY(json_out_set(object, "epoch", json_out_count(r->epoch), err));
    TRY(json_out_set(object, "step", json_out_count(r->step), err));
    TRY(json_out_set(object, "test_accuracy", json_out_real(r->test_accuracy), err));
    TRY(json_out_set(object, "best_val_accuracy", json_out_real(r->best_val_accuracy), err));
    TRY(json_out_set(object, "images_per_s", json_out_real(r->images_per_s), err));
    TRY(json_out_set(object, "seconds", json_out_real(r->seconds), err));
    TRY(json_out_set(object, "saves", json_out_count(r->saves), err));
    TRY(json_out_set(object, "saves_skipped", json_out_count(r->saves_skipped), err));
    TRY(json_out_set(object, "saves_failed", json_out_count(r->saves_failed), err));
    TRY(json_out_set(object, "raw_bytes", json_out_count(r->raw_bytes), err));
    TRY(json_out_set(object, "stored_bytes", json_out_count(r->stored_bytes), err));
    TRY(json_out_set(object, "blocked_seconds_mean", json_out_real(blocked_seconds_mean(r)), err));
    TRY(json_out_set(object, "memory_bytes", json_out_count(r->memory_bytes), err));
    TRY(json_out_line(stdout, object, err));
out:
    json_decref(object);
    return rc;
}

int training_summary_print(const session *s, const ckpt_training_result *result, ckpt_error *err)
{
    char text[UNITS_TEXT_SIZE];

    if (s->json)
        return print_result_json(result, err);
    if (s->quiet)
        return 0;
    print_accuracy(result);
    if (result->images_per_s > 0)
        printf("rate         %.0f images/s, %s of training\n", result->images_per_s,
               print_seconds(text, result->seconds));
    if (saves_asked(result))
        print_saves(result);
    printf("memory       %s beside the data\n", print_size(text, result->memory_bytes));
    return 0;
}

/* ---- The profile ---- */

/* What an operation came to, and how near that is to the limit that it meets first. */
typedef struct achieved {
    bool computes; /* the limit is that of arithmetic, not of memory */
    double rate;   /* operations or bytes per second */
    double share;  /* of the machine's limit; NaN when nothing was counted */
} achieved;

static achieved achieved_of(const ckpt_profile_row *row, const ckpt_machine_limits *limits)
{
    const double flops = row->seconds > 0 ? row->flops / row->seconds : 0;
    const double bytes = row->seconds > 0 ? row->bytes / row->seconds : 0;
    const double flops_share = flops / limits->flops_per_s, bytes_share = bytes / limits->bytes_per_s;

    if (flops <= 0 && bytes <= 0)
        return (achieved){.share = (double)NAN};
    return flops_share >= bytes_share ? (achieved){true, flops, flops_share} : (achieved){false, bytes, bytes_share};
}

static int add_row(table *t, const ckpt_profile_row *row, double whole_seconds, const ckpt_machine_limits *limits,
                   ckpt_error *err)
{
    int rc = 0;
    char text[UNITS_TEXT_SIZE] = "";
    const achieved a = achieved_of(row, limits);

    TRY(table_add(t, row->name, TABLE_PLAIN, err));
    format_count(text, row->calls);
    TRY(table_add(t, text, TABLE_PLAIN, err));
    TRY(table_add(t, print_seconds(text, row->seconds), TABLE_PLAIN, err));
    snprintf(text, sizeof text, "%.1f %%", whole_seconds > 0 ? 100 * row->seconds / whole_seconds : 0);
    TRY(table_add(t, text, TABLE_PLAIN, err));
    snprintf(text, sizeof text, "%.1f %s", a.rate / 1e9, a.computes ? "GF/s" : "GB/s");
    TRY(table_add(t, isfinite(a.share) ? text : "", TABLE_PLAIN, err));
    snprintf(text, sizeof text, "%.0f %%", 100 * a.share);
    TRY(table_add(t, isfinite(a.share) ? text : "", TABLE_PLAIN, err));
out:
    return rc;
}

static int print_row_json(const ckpt_profile_row *row, const ckpt_machine_limits *limits, ckpt_error *err)
{
    int rc = 0;
    json_t *const object = json_object();

    TRY(json_out_set(object, "event", print_json_text("profile"), err));
    TRY(json_out_set(object, "operation", print_json_text(row->name), err));
    TRY(json_out_set(object, "calls", json_out_count(row->calls), err));
    TRY(json_out_set(object, "seconds", json_out_real(row->seconds), err));
    TRY(json_out_set(object, "forward_seconds", json_out_real(row->forward_seconds), err));
    TRY(json_out_set(object, "backward_seconds", json_out_real(row->backward_seconds), err));
    TRY(json_out_set(object, "flops", json_out_real(row->flops), err));
    TRY(json_out_set(object, "bytes", json_out_real(row->bytes), err));
    TRY(json_out_set(object, "limit_share", json_out_real(achieved_of(row, limits).share), err));
    TRY(json_out_line(stdout, object, err));
out:
    json_decref(object);
    return rc;
}

static int print_limits_json(const ckpt_machine_limits *limits, ckpt_error *err)
{
    int rc = 0;
    json_t *const object = json_object();

    TRY(json_out_set(object, "event", print_json_text("limits"), err));
    TRY(json_out_set(object, "threads", json_out_count(limits->threads), err));
    TRY(json_out_set(object, "flops_per_s", json_out_real(limits->flops_per_s), err));
    TRY(json_out_set(object, "bytes_per_s", json_out_real(limits->bytes_per_s), err));
    TRY(json_out_line(stdout, object, err));
out:
    json_decref(object);
    return rc;
}

static int print_profile_json(const plugin *p, const ckpt_training *training, const ckpt_machine_limits *limits,
                              ckpt_error *err)
{
    int rc = 0;
    ckpt_profile_row row;

    TRY(print_limits_json(limits, err));
    for (size_t i = 0; p->training_profile_row(&row, training, i) == 0; i++)
        TRY(print_row_json(&row, limits, err));
out:
    return rc;
}

static int print_profile_table(const session *s, const plugin *p, const ckpt_training *training,
                               const ckpt_machine_limits *limits, ckpt_error *err)
{
    static const table_column COLUMNS[] = {{"OPERATION", TABLE_LEFT}, {"CALLS", TABLE_RIGHT},
                                           {"TIME", TABLE_RIGHT},     {"SHARE", TABLE_RIGHT},
                                           {"RATE", TABLE_RIGHT},     {"OF LIMIT", TABLE_RIGHT}};
    int rc = 0;
    table *t = NULL;
    ckpt_profile_row row;
    double whole_seconds = 0;

    for (size_t i = 0; p->training_profile_row(&row, training, i) == 0; i++)
        whole_seconds += row.seconds;
    TRY(table_new(&t, COLUMNS, sizeof COLUMNS / sizeof *COLUMNS, err));
    for (size_t i = 0; p->training_profile_row(&row, training, i) == 0; i++)
        TRY(add_row(t, &row, whole_seconds, limits, err));
    putchar('\n');
    TRY(table_write(stdout, t, terminal_columns(stdout), s->color, err));
    printf("limits with %u threads: %.0f GF/s of arithmetic, %.1f GB/s of memory\n", limits->threads,
           limits->flops_per_s / 1e9, limits->bytes_per_s / 1e9);
out:
    table_free(t);
    return rc;
}

int training_profile_print(const session *s, const plugin *p, const ckpt_training *training, ckpt_error *err)
{
    int rc = 0;
    ckpt_machine_limits limits;

    TRY(p->machine_limits_measure(&limits, s->threads, err));
    if (s->json)
        TRY(print_profile_json(p, training, &limits, err));
    else
        TRY(print_profile_table(s, p, training, &limits, err));
out:
    return rc;
}
