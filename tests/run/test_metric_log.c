#include "metric_log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "must.h"
#include "temp_dir.h"

static char dir[TEMP_PATH_MAX], log_path[TEMP_PATH_MAX + 32];

static int setup(void **state)
{
    (void)state;
    if (temp_dir_make(dir))
        return -1;
    snprintf(log_path, sizeof log_path, "%s/train.log", dir);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    return temp_dir_remove(dir);
}

static void put(const char *mode, const void *text, size_t size)
{
    FILE *const f = fopen(log_path, mode);
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
}

static void write_log(const char *text)
{
    put("w", text, strlen(text));
}

static void append(const char *text)
{
    put("a", text, strlen(text));
}

static metric_log *follow(const char *what)
{
    metric_log *m = NULL;
    const char *const metrics[] = {what}, *const logs[] = {log_path};
    MUST(metric_log_new(&m, metrics, 1, logs, 1, ERR));
    return m;
}

static void expect(metric_log *m, const char *value)
{
    MUST(metric_log_read(m, ERR));
    const char *const got = metric_log_value(m, 0);
    if (value)
        assert_string_equal(got ? got : "(none)", value);
    else
        assert_null(got);
}

static void expect_of(const char *what, const char *text, const char *value)
{
    write_log(text);
    metric_log *const m = follow(what);
    expect(m, value);
    metric_log_free(m);
}

static void an_expression_is_named_by_what_stands_before_its_equals_sign(void **state)
{
    (void)state;
    metric_log *const m = follow("val_acc=([0-9.]+)");
    assert_string_equal(metric_log_key(m, 0), "val_acc");
    write_log("epoch 1 val_acc=0.5\nepoch 2 val_acc=0.75 lr=1\n");
    expect(m, "0.75");
    metric_log_free(m);
}

static void an_expression_can_have_a_name_of_its_own(void **state)
{
    (void)state;
    metric_log *const m = follow("acc~Accuracy: +([0-9.]+)%");
    assert_string_equal(metric_log_key(m, 0), "acc");
    write_log("Test set: Average loss: 0.0283, Accuracy: 99.10%\n");
    expect(m, "99.10");
    metric_log_free(m);
}

static void without_parentheses_all_that_fits_is_the_value(void **state)
{
    (void)state;
    expect_of("when~[0-9]+:[0-9]+", "at 12:30 it ended\n", "12:30");
}

static void the_last_place_of_a_line_counts(void **state)
{
    (void)state;
    expect_of("loss=([0-9.]+)", "loss=3 loss=2 loss=1\n", "1");
}

static void a_plain_key_is_found_in_text(void **state)
{
    (void)state;
    expect_of("val_acc", "epoch 3: loss: 0.31, val_acc: 0.91, best_val_acc: 0.95\n", "0.91");
    expect_of("loss", "{'loss': 0.25, 'epoch': 1.0}\n", "0.25"); /* as the Trainer prints it: no JSON */
    expect_of("lr", "lr=1e-4\n", "1e-4");
}

static void a_plain_key_is_a_member_of_json_lines(void **state)
{
    (void)state;
    expect_of("val_acc", "{\"step\": 1, \"val_acc\": 0.5}\n{\"step\": 2, \"val_acc\": 0.75}\n{\"step\": 3}\n", "0.75");
    expect_of("epoch", "{\"epoch\": 12}\n", "12");
    expect_of("lr", "{\"lr\": 0.1}\n", "0.1");
    expect_of("lr", "{\"lr\": 1e-05}\n", "1e-05");
    expect_of("third", "{\"third\": 0.3333333333333333}\n", "0.3333333333333333");
}

static void dots_go_into_members_of_members(void **state)
{
    (void)state;
    expect_of("eval.loss", "{\"eval\": {\"loss\": 0.5}, \"loss\": 0.25}\n", "0.5");
    expect_of("eval.loss", "{\"eval.loss\": 0.125}\n", "0.125");
}

static void a_plain_key_is_a_column_of_csv(void **state)
{
    (void)state;
    expect_of("val_acc", "epoch,loss,val_acc\n1,0.9,0.5\n2,0.8,0.75\n", "0.75");
    expect_of("val_acc", "epoch,\"val_acc\",loss\n1,\"0.5\",0.9\n", "0.5");
}

static void a_quoted_cell_may_hold_commas_and_quotes(void **state)
{
    (void)state;
    expect_of("val_acc", "note,val_acc\n\"a, b\",0.5\n\"a \"\"b, c\"\" d\",0.75\n", "0.75"); /* by Python's csv */
    expect_of("val_acc", "note,val_acc\nx,0.5\n\"no end, 1\n\"\"\"\n", "0.5");
}

static void an_empty_cell_says_nothing(void **state)
{
    (void)state;
    expect_of("val_acc", "epoch,val_acc\n1,0.5\n2,\n3\n", "0.5"); /* as Lightning writes metrics.csv */
}

static void a_header_may_come_again_with_other_columns(void **state)
{
    (void)state;
    expect_of("val_acc", "epoch,val_acc\n1,0.5\nepoch,loss,val_acc\n1,0.9,0.75\n", "0.75");
}

static void a_line_without_its_end_is_waited_for(void **state)
{
    (void)state;
    metric_log *const m = follow("acc=([0-9.]+)");
    write_log("acc=0.5\nacc=0.");
    expect(m, "0.5");
    append("75\n");
    expect(m, "0.75");
    metric_log_free(m);
}

static void a_progress_bar_ends_lines_without_a_new_one(void **state)
{
    (void)state;
    expect_of("acc=([0-9.]+)", "10% acc=0.25\r20% acc=0.5\r30% acc=0.7", "0.5");
}

static void a_log_that_is_truncated_begins_anew(void **state)
{
    (void)state;
    metric_log *const m = follow("acc=([0-9.]+)");
    write_log("a long first line that the second log is shorter than\nacc=0.75\n");
    expect(m, "0.75");
    write_log("acc=0.5\n");
    expect(m, "0.5");
    metric_log_free(m);
}

static void a_log_that_is_rotated_is_read_to_its_end(void **state)
{
    (void)state;
    char older[TEMP_PATH_MAX + 32];
    metric_log *const m = follow("acc=([0-9.]+)");
    write_log("acc=0.25\n");
    expect(m, "0.25");
    append("acc=0.5\n"); /* right before it is moved away */
    snprintf(older, sizeof older, "%s/train.log.1", dir);
    assert_int_equal(rename(log_path, older), 0);
    write_log("a new log\n");
    expect(m, "0.5");
    append("acc=0.75\n");
    expect(m, "0.75");
    metric_log_free(m);
}

static void a_log_may_come_later(void **state)
{
    (void)state;
    metric_log *const m = follow("acc=([0-9.]+)");
    (void)remove(log_path);
    expect(m, NULL);
    write_log("acc=0.5\n");
    expect(m, "0.5");
    metric_log_free(m);
}

static void a_line_that_is_too_long_says_nothing(void **state)
{
    (void)state;
    char *const text = malloc(METRIC_LINE_MAX + 64);
    assert_non_null(text);
    memset(text, 'x', METRIC_LINE_MAX + 64);
    memcpy(text, "acc=0.25 ", 9);
    put("w", "acc=0.5\n", 8);
    put("a", text, METRIC_LINE_MAX + 64);
    put("a", " acc=0.75\n", 10);
    metric_log *const m = follow("acc=([0-9.]+)");
    expect(m, "0.5");
    append("acc=0.875\n");
    expect(m, "0.875");
    metric_log_free(m);
    free(text);
}

static void of_a_huge_log_the_end_and_the_header_are_read(void **state)
{
    (void)state;
    write_log("epoch,val_acc\n1,0.25\n");
    FILE *const f = fopen(log_path, "a");
    assert_non_null(f);
    for (size_t i = 0; i < 1000000; i++)
        assert_true(fputs("2,0.500000\n", f) >= 0);
    assert_true(fputs("3,0.75\n", f) >= 0);
    assert_int_equal(fclose(f), 0);
    metric_log *const m = follow("val_acc");
    expect(m, "0.75");
    metric_log_free(m);
}

static void a_line_whose_beginning_is_not_read_says_nothing(void **state)
{
    (void)state;
    static const char CUT[] = "acc=0.5\n";
    char *const lines = malloc(METRIC_LOG_TAIL_MAX);
    assert_non_null(lines);
    memset(lines, '\n', METRIC_LOG_TAIL_MAX);
    memcpy(lines, CUT, sizeof CUT - 1);
    write_log("begin\nvalid_");
    put("a", lines, METRIC_LOG_TAIL_MAX);
    metric_log *const m = follow("acc=([0-9.]+)");
    expect(m, NULL);
    metric_log_free(m);
    free(lines);
}

static void of_very_much_that_comes_at_once_the_end_is_read(void **state)
{
    (void)state;
    write_log("epoch,val_acc\n1,0.25\n");
    metric_log *const m = follow("val_acc");
    expect(m, "0.25");
    append("2,0.5\n");
    assert_int_equal(truncate(log_path, 1 << 30), 0); /* a hole, as a disk that is full leaves it */
    append("\n3\n");
    expect(m, "0.25");
    append("4,0.75\n");
    expect(m, "0.75");
    metric_log_free(m);
}

static void hostile_bytes_are_no_value(void **state)
{
    (void)state;
    static const char TEXT[] = "acc=0.5\nacc=\033[31m0.75\nacc=\xff\xfe\nac\0c=1\n{{{{\n\"\n,\n";
    put("w", TEXT, sizeof TEXT - 1);
    metric_log *const m = follow("acc=(.+)");
    expect(m, "0.5");
    metric_log_free(m);
}

static void json_of_a_thousand_brackets_is_passed_over(void **state)
{
    (void)state;
    char text[4096];
    memset(text, '[', sizeof text);
    memcpy(text, "{\"acc\":", 7);
    text[sizeof text - 2] = '\n';
    text[sizeof text - 1] = 0;
    expect_of("acc", text, NULL);
}

static void the_history_of_a_saved_folder_is_taken_over(void **state)
{
    (void)state;
    char path[TEMP_PATH_MAX + 32];
    metric_log *const m = follow("eval_loss");
    snprintf(path, sizeof path, "%s/trainer_state.json", dir);
    FILE *const f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs("{\"global_step\": 500, \"log_history\": [{\"eval_loss\": 2.5, \"step\": 250}, "
                      "{\"eval_loss\": 1.25, \"step\": 500}, {\"loss\": 9, \"step\": 500}]}",
                      f) >= 0);
    assert_int_equal(fclose(f), 0);
    metric_log_history(m, dir);
    assert_string_equal(metric_log_value(m, 0), "1.25");
    metric_log_free(m);
}

static void of_a_long_line_expressions_are_tried_on_the_end(void **state)
{
    (void)state;
    char text[2 * METRIC_TEXT_MAX];
    memset(text, 'x', sizeof text);
    memcpy(text, "acc=0.5 ", 8);
    memcpy(text + sizeof text - 20, " acc=0.75 ", 10);
    text[sizeof text - 2] = '\n';
    text[sizeof text - 1] = 0;
    expect_of("acc=([0-9.]+)", text, "0.75");
    memset(text + sizeof text - 20, 'x', 10);
    expect_of("acc=([0-9.]+)", text, NULL);
}

/* An expression that looks at each line once from each of its places: without a limit this takes hours. */
static void expressions_that_take_long_keep_nothing_from_being_saved(void **state)
{
    (void)state;
    const size_t size = METRIC_LOG_TAIL_MAX;
    char *const text = malloc(size);
    assert_non_null(text);
    memset(text, 'a', size);
    for (size_t i = METRIC_TEXT_MAX; i < size; i += METRIC_TEXT_MAX)
        text[i] = '\n';
    memcpy(text + size - 6, "\naaab\n", 6);
    text[size - 1] = '\n';
    put("w", text, size);
    metric_log *const m = follow("a~(a|a)*b");
    MUST(metric_log_read(m, ERR));
    assert_non_null(metric_log_value(m, 0));
    metric_log_free(m);
    free(text);
}

static void what_is_no_metric_is_refused(void **state)
{
    (void)state;
    static const char *const WRONG[] = {"", "=x", "acc=(", "acc=[", "a b=(x)", "(acc)=1", "acc=(.*)\\1"};
    for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++) {
        metric_log *m = NULL;
        ckpt_error err = {0};
        assert_int_equal(metric_log_new(&m, &WRONG[i], 1, NULL, 0, &err), CKPT_EUSAGE);
        assert_null(m);
    }
}

static void a_column_of_csv_has_exactly_the_name(void **state)
{
    (void)state;
    expect_of("valid", "epoch,train,val,valid\n1,2,3,4\n", "4");
}

static void an_expression_that_fits_nothing_says_nothing(void **state)
{
    (void)state;
    expect_of("n~[0-9]*", "none\n", NULL);
}

static void a_value_may_be_words(void **state)
{
    (void)state;
    expect_of("note~note: (.*)", "note: fine ~ so far\n", "fine ~ so far");
}

static void a_number_of_json_keeps_all_its_digits(void **state)
{
    (void)state;
    expect_of("loss", "{\"loss\": 0.30000000000000004}\n", "0.30000000000000004");
}

static void a_long_line_of_json_is_json(void **state)
{
    (void)state;
    char line[512];
    snprintf(line, sizeof line, "{\"text\": \"%0200d\", \"eval\": {\"loss\": 0.5}}\n", 0);
    expect_of("eval.loss", line, "0.5");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_expression_is_named_by_what_stands_before_its_equals_sign),
        cmocka_unit_test(an_expression_can_have_a_name_of_its_own),
        cmocka_unit_test(without_parentheses_all_that_fits_is_the_value),
        cmocka_unit_test(the_last_place_of_a_line_counts),
        cmocka_unit_test(a_plain_key_is_found_in_text),
        cmocka_unit_test(a_plain_key_is_a_member_of_json_lines),
        cmocka_unit_test(dots_go_into_members_of_members),
        cmocka_unit_test(a_plain_key_is_a_column_of_csv),
        cmocka_unit_test(a_quoted_cell_may_hold_commas_and_quotes),
        cmocka_unit_test(an_empty_cell_says_nothing),
        cmocka_unit_test(a_header_may_come_again_with_other_columns),
        cmocka_unit_test(a_line_without_its_end_is_waited_for),
        cmocka_unit_test(a_progress_bar_ends_lines_without_a_new_one),
        cmocka_unit_test(a_log_that_is_truncated_begins_anew),
        cmocka_unit_test(a_log_that_is_rotated_is_read_to_its_end),
        cmocka_unit_test(a_log_may_come_later),
        cmocka_unit_test(a_line_that_is_too_long_says_nothing),
        cmocka_unit_test(of_a_huge_log_the_end_and_the_header_are_read),
        cmocka_unit_test(a_line_whose_beginning_is_not_read_says_nothing),
        cmocka_unit_test(of_very_much_that_comes_at_once_the_end_is_read),
        cmocka_unit_test(hostile_bytes_are_no_value),
        cmocka_unit_test(json_of_a_thousand_brackets_is_passed_over),
        cmocka_unit_test(the_history_of_a_saved_folder_is_taken_over),
        cmocka_unit_test(of_a_long_line_expressions_are_tried_on_the_end),
        cmocka_unit_test(expressions_that_take_long_keep_nothing_from_being_saved),
        cmocka_unit_test(what_is_no_metric_is_refused),
        cmocka_unit_test(a_column_of_csv_has_exactly_the_name),
        cmocka_unit_test(an_expression_that_fits_nothing_says_nothing),
        cmocka_unit_test(a_value_may_be_words),
        cmocka_unit_test(a_number_of_json_keeps_all_its_digits),
        cmocka_unit_test(a_long_line_of_json_is_json),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
