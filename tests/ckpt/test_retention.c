#include "retention.h"

#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ITEMS_MAX 16
#define DAY       INT64_C(86400)

static const metric VAL_ACC = {"val_acc", true};
static const metric VAL_LOSS = {"val_loss", false};

/* Which of the items a policy keeps, newest first: "+" kept, "-" not. */
static void assert_keeps_at(int64_t now, const char *policy_text, const metric *m, const retention_item *items,
                            size_t count, const char *expected)
{
    retention_policy policy;
    ckpt_prune_row rows[ITEMS_MAX] = {0};
    char kept[ITEMS_MAX + 1] = "";
    assert_int_equal(retention_parse(&policy, policy_text, m, NULL), 0);
    assert_int_equal(retention_apply(rows, &policy, items, count, now, NULL), 0);
    for (size_t i = 0; i < count; i++)
        kept[i] = rows[i].keep ? '+' : '-';
    assert_string_equal(kept, expected);
}

static void assert_keeps(const char *policy_text, const metric *m, const retention_item *items, size_t count,
                         const char *expected)
{
    assert_keeps_at(0, policy_text, m, items, count, expected);
}

/* What the metric of the config says of a checkpoint. */
#define VALUE(number) .values = {{true, number}}

/* ---- Rules ---- */

static void last_keeps_the_newest(void **state)
{
    (void)state;
    const retention_item items[4] = {{.step = CKPT_STEP_NONE}};
    assert_keeps("last 1", &VAL_ACC, items, 4, "+---");
    assert_keeps("last 3", &VAL_ACC, items, 4, "+++-");
    assert_keeps("last 9", &VAL_ACC, items, 4, "++++");
    assert_keeps("last 1", &VAL_ACC, items, 0, "");
}

static void best_keeps_the_largest_or_smallest_values(void **state)
{
    (void)state;
    const retention_item items[] = {
        {VALUE(0.5)}, {VALUE(0.9)}, {.step = 0}, {VALUE(-HUGE_VAL)}, {VALUE(0.7)},
    };
    assert_keeps("best 1", &VAL_ACC, items, 5, "-+---");
    assert_keeps("best 2", &VAL_ACC, items, 5, "-+--+");
    assert_keeps("best 1", &VAL_LOSS, items, 5, "---+-");
    assert_keeps("best 2", &VAL_LOSS, items, 5, "+--+-");
    assert_keeps("best 9", &VAL_ACC, items, 5, "++-++");
}

static void of_equal_values_the_newer_is_the_best(void **state)
{
    (void)state;
    const retention_item items[] = {{VALUE(0.1)}, {VALUE(0.9)}, {VALUE(0.9)}};
    assert_keeps("best 1", &VAL_ACC, items, 3, "-+-");
}

static void every_keeps_the_first_step_of_each_range(void **state)
{
    (void)state;
    const retention_item items[] = {{.step = 3100}, {.step = 2999}, {.step = 2500}, {.step = 1001},
                                    {.step = 1000}, {.step = 999},  {.step = 0},    {.step = CKPT_STEP_NONE}};
    assert_keeps("every 1000 steps", &VAL_ACC, items, 8, "+-+-+---");
}

static void of_equal_steps_every_keeps_the_newer(void **state)
{
    (void)state;
    const retention_item items[] = {{.step = 1200}, {.step = 1000}, {.step = 1000}};
    assert_keeps("every 1000 steps", &VAL_ACC, items, 3, "-+-");
}

static void every_applied_after_each_save_keeps_what_it_kept_before(void **state)
{
    (void)state;
    /* After step 2391 is saved, 1173 of the range before and 2000 of its own stay. */
    const retention_item before[] = {{.step = 2000}, {.step = 1564}, {.step = 1173}};
    const retention_item after[] = {{.step = 2391}, {.step = 2000}, {.step = 1173}};
    assert_keeps("every 1000 steps", &VAL_ACC, before, 3, "+-+");
    assert_keeps("every 1000 steps", &VAL_ACC, after, 3, "-++");
}

static void tagged_keeps_the_tagged(void **state)
{
    (void)state;
    const retention_item items[] = {{.tagged = false}, {.tagged = true}, {.tagged = false}};
    assert_keeps("tagged", &VAL_ACC, items, 3, "-+-");
}

static void rules_add_up_and_reasons_tell_which(void **state)
{
    (void)state;
    const retention_item items[] = {{.step = 30000}, {.step = 25000, .tagged = true, VALUE(0.93)}, {.step = 24000}};
    retention_policy policy;
    ckpt_prune_row rows[3] = {0};
    assert_int_equal(retention_parse(&policy, "last 1, best 2, every 10000 steps, tagged", &VAL_ACC, NULL), 0);
    assert_int_equal(retention_apply(rows, &policy, items, 3, 0, NULL), 0);
    assert_string_equal(rows[0].reason, "last 1, every 10000 steps");
    assert_string_equal(rows[1].reason, "best 2 (val_acc 0.93), tagged");
    assert_string_equal(rows[2].reason, "every 10000 steps");
}

/* Why the last of the items goes. */
static void assert_passed_over(const char *policy_text, const retention_item *items, size_t count, const char *reason)
{
    retention_policy policy;
    ckpt_prune_row rows[ITEMS_MAX] = {0};
    assert_int_equal(retention_parse(&policy, policy_text, &VAL_ACC, NULL), 0);
    assert_int_equal(retention_apply(rows, &policy, items, count, 30 * DAY, NULL), 0);
    assert_false(rows[count - 1].keep);
    assert_string_equal(rows[count - 1].reason, reason);
}

static void what_no_rule_keeps_says_by_how_much(void **state)
{
    (void)state;
    const retention_item items[] = {{VALUE(0.9)}, {VALUE(0.93)}, {VALUE(0.92)}, {VALUE(0.91)}, {VALUE(0.905)}};
    assert_passed_over("last 1", items, 2, "2nd of last 1");
    assert_passed_over("last 2, best 2", items, 4, "4th of last 2; val_acc 0.91 is 3rd of best 2");
    assert_passed_over("within 7d, every 5 steps", items, 3, "older than 7d");
    assert_passed_over("tagged", items, 5, "no rule keeps it");
}

static void ranks_read_as_people_say_them(void **state)
{
    (void)state;
    const retention_item items[13] = {{.step = 1}};
    assert_passed_over("last 1", items, 3, "3rd of last 1");
    assert_passed_over("last 1", items, 11, "11th of last 1");
    assert_passed_over("last 1", items, 12, "12th of last 1");
    assert_passed_over("last 1", items, 13, "13th of last 1");
}

static void each_best_may_have_a_value_of_its_own(void **state)
{
    (void)state;
    const retention_item items[] = {
        {.values = {{true, 1}, {true, 5}, {false, 0}}},
        {.values = {{true, 2}, {true, 3}, {true, 7}}},
        {.values = {{true, 3}, {true, 4}, {true, 8}}},
    };
    assert_keeps("best 1 by val_loss min, best 1 by top5 max", &VAL_ACC, items, 3, "-++");
    assert_keeps("best 1", &VAL_ACC, items, 3, "--+");
    assert_keeps("best 1,best 2 by val_loss max", &VAL_ACC, items, 3, "+-+");
}

static void every_counts_epochs_too(void **state)
{
    (void)state;
    const retention_item items[] = {
        {.has_epoch = true, .epoch = 21},
        {.has_epoch = true, .epoch = 20.5},
        {.has_epoch = true, .epoch = 20},
        {.has_epoch = true, .epoch = 19.5},
        {.has_epoch = true, .epoch = 10.5},
        {.has_epoch = true, .epoch = 9},
        {.step = 10},
    };
    assert_keeps("every 10 epochs", &VAL_ACC, items, 7, "--+-+--");
}

static void within_keeps_what_is_young_enough(void **state)
{
    (void)state;
    const retention_item items[] = {
        {.time = 100 * DAY}, {.time = 99 * DAY}, {.time = 93 * DAY}, {.time = 93 * DAY - 1}};
    assert_keeps_at(100 * DAY, "within 7d", &VAL_ACC, items, 4, "+++-");
    assert_keeps_at(100 * DAY, "within 1w", &VAL_ACC, items, 4, "+++-");
    assert_keeps_at(100 * DAY, "within 24h", &VAL_ACC, items, 4, "++--");
}

static void a_wrong_clock_never_makes_within_drop_the_newest(void **state)
{
    (void)state;
    const retention_item items[] = {{.time = 100 * DAY}, {.time = 50 * DAY}};
    assert_keeps_at(10000 * DAY, "within 7d", &VAL_ACC, items, 2, "+-");
    assert_keeps_at(INT64_MAX, "within 7d", &VAL_ACC, items, 2, "+-");
    assert_keeps_at(20 * DAY, "within 7d", &VAL_ACC, items, 2, "++"); /* of times to come: not old */
    assert_keeps_at(INT64_MIN, "within 7d", &VAL_ACC, items, 2, "++");
}

static void what_the_rules_look_at_comes_from_the_snapshot(void **state)
{
    (void)state;
    retention_policy policy;
    retention_item item;
    snapshot s = {.step = 7, .time = 5 * DAY};
    const ckpt_value meta[] = {{"epoch", "2.0"}, {"loss", "0.5"}, {"val_acc", "high"}};
    assert_int_equal(retention_parse(&policy, "best 1 by loss min", &VAL_ACC, NULL), 0);
    assert_int_equal(snapshot_set_meta(&s, NULL, meta, 3, NULL), 0);
    retention_item_read(&item, &policy, &s);
    snapshot_clear(&s);
    assert_int_equal(item.step, 7);
    assert_int_equal(item.time, 5 * DAY);
    assert_true(item.has_epoch && item.epoch == 2);
    assert_false(item.values[0].has);
    assert_true(item.values[1].has && item.values[1].value == 0.5);
}

static void many_reasons_are_cut_to_their_room(void **state)
{
    (void)state;
    const retention_item items[1] = {{.tagged = true, VALUE(1)}};
    retention_policy policy;
    ckpt_prune_row rows[1] = {0};
    metric m = {.max = true};
    memset(m.key, 'k', METRIC_KEY_MAX);
    assert_int_equal(retention_parse(&policy, "best 1000000000,best 2,best 3,best 4,best 5,last 6,tagged", &m, NULL),
                     0);
    assert_int_equal(retention_apply(rows, &policy, items, 1, 0, NULL), 0);
    assert_true(rows[0].keep);
    assert_true(strlen(rows[0].reason) < sizeof rows[0].reason);
}

/* ---- Text ---- */

static void blanks_in_a_policy_do_not_matter(void **state)
{
    (void)state;
    const retention_item items[2] = {{.step = 1}};
    assert_keeps("  last\t1  ,tagged ", &VAL_ACC, items, 2, "+-");
    assert_keeps("last 1,every  5   steps", &VAL_ACC, items, 2, "+-");
}

static void mistakes_in_a_policy_name_their_place(void **state)
{
    (void)state;
    static const struct {
        const char *text, *where;
    } MISTAKES[] = {
        {"", "at 1: expected `last N`"},
        {"last", "at 5: a number is missing"},
        {"last five", "at 6: a number is missing"},
        {"last 5x", "at 6: a number is missing"},
        {"last -5", "at 6: a number is missing"},
        {"last 0", "at 6: the number is out of range"},
        {"last 99999999999999999999999", "at 6: the number is out of range"},
        {"last 5 best 2", "at 8: expected a comma"},
        {"last 5,", "at 8: expected `last N`"},
        {"last 5,,tagged", "at 8: expected `last N`"},
        {"best 2, newest", "at 9: expected `last N`"},
        {"lasts 5", "at 1: expected `last N`"},
        {"every 100", "at 10: expected `steps` or `epochs`"},
        {"every 100steps", "at 7: a number is missing"},
        {"within 7", "at 9: expected `h`, `d` or `w`"},
        {"within 7 d", "at 9: expected `h`, `d` or `w`"},
        {"within 7m", "at 9: expected `h`, `d` or `w`"},
        {"within 7d2h", "at 9: expected `h`, `d` or `w`"},
        {"within d", "at 8: a number is missing"},
        {"best 2 by", "at 10: expected the key of a value"},
        {"best 2 by loss", "at 15: expected `max` or `min`"},
        {"best 2 by loss maximum", "at 16: expected `max` or `min`"},
        {"best 2 by loss min max", "at 20: expected a comma"},
        {"last 2 by loss min", "at 8: expected a comma"},
        {"best 1 by a max,best 1 by b max,best 1 by c max,best 1 by d max,best 1 by e max,best 1 by f max,"
         "best 1 by g max,best 1 by h max",
         "at 128: too many values"},
        {"every 100 step", "at 11: expected `steps`"},
        {"tagged 1", "at 8: expected a comma"},
        {"tagged,tagged,tagged,tagged,tagged,tagged,tagged,tagged,tagged,tagged,tagged,tagged,tagged,tagged,tagged,"
         "tagged,tagged",
         "at 113: too many rules"},
    };
    for (size_t i = 0; i < sizeof MISTAKES / sizeof MISTAKES[0]; i++) {
        retention_policy policy;
        ckpt_error err = {0};
        assert_int_equal(retention_parse(&policy, MISTAKES[i].text, &VAL_ACC, &err), CKPT_EUSAGE);
        if (!strstr(err.message, MISTAKES[i].where))
            fail_msg("%s: %s", MISTAKES[i].text, err.message);
        assert_non_null(strstr(err.hint, "last 5"));
    }
}

/* ---- The metric ---- */

static void a_policy_can_be_checked_before_it_is_needed(void **state)
{
    ckpt_error err = {0};
    (void)state;
    assert_int_equal(ckpt_policy_check("last 5, best 2, every 10000 steps, tagged", &err), 0);
    assert_int_equal(ckpt_policy_check("last five", &err), CKPT_EUSAGE);
    assert_string_equal(err.message, "policy `last five`: at 6: a number is missing");
}

static void a_metric_is_a_key_and_a_way(void **state)
{
    (void)state;
    metric m;
    assert_int_equal(metric_parse(&m, " val.loss  min ", NULL), 0);
    assert_string_equal(m.key, "val.loss");
    assert_false(m.max);
    assert_int_equal(metric_parse(&m, "val_acc max", NULL), 0);
    assert_true(m.max);
    assert_int_equal(metric_parse(&m, NULL, NULL), 0);
    assert_string_equal(m.key, "");
    assert_int_equal(metric_parse(&m, "val_acc", NULL), CKPT_EUSAGE);
    assert_int_equal(metric_parse(&m, "val_acc best", NULL), CKPT_EUSAGE);
    assert_int_equal(metric_parse(&m, "val_acc max min", NULL), CKPT_EUSAGE);
}

static bool value_of(double *value, const char *text)
{
    ckpt_value pair = {"val_acc", text};
    const snapshot s = {.meta = &pair, .meta_count = 1};
    return metric_value(value, &VAL_ACC, &s);
}

static void values_that_are_no_numbers_do_not_count(void **state)
{
    (void)state;
    double value;
    assert_true(value_of(&value, "0.93"));
    assert_true(value == 0.93);
    assert_true(value_of(&value, " -1e-3 "));
    assert_true(value == -1e-3);
    assert_true(value_of(&value, "0x1.8p1"));
    assert_true(value == 3.0);
    assert_false(value_of(&value, "nan"));
    assert_false(value_of(&value, "-NaN"));
    assert_false(value_of(&value, ""));
    assert_false(value_of(&value, "93 %"));
    assert_false(value_of(&value, "0,93"));
    assert_false(metric_value(&value, &VAL_LOSS, &(snapshot){0}));
}

static void the_decimal_point_is_the_same_in_every_locale(void **state)
{
    (void)state;
    static const char *const COMMA[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE.utf8", "fr_FR.utf8"};
    bool set = false;
    double value;
    for (size_t i = 0; i < sizeof COMMA / sizeof COMMA[0] && !set; i++)
        set = setlocale(LC_NUMERIC, COMMA[i]) != NULL;
    if (!set)
        skip(); /* no such locale is installed */
    const bool counts = value_of(&value, "0.93");
    setlocale(LC_NUMERIC, "C");
    assert_true(counts);
    assert_true(value == 0.93);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(last_keeps_the_newest),
        cmocka_unit_test(best_keeps_the_largest_or_smallest_values),
        cmocka_unit_test(of_equal_values_the_newer_is_the_best),
        cmocka_unit_test(every_keeps_the_first_step_of_each_range),
        cmocka_unit_test(of_equal_steps_every_keeps_the_newer),
        cmocka_unit_test(every_applied_after_each_save_keeps_what_it_kept_before),
        cmocka_unit_test(tagged_keeps_the_tagged),
        cmocka_unit_test(rules_add_up_and_reasons_tell_which),
        cmocka_unit_test(what_no_rule_keeps_says_by_how_much),
        cmocka_unit_test(ranks_read_as_people_say_them),
        cmocka_unit_test(each_best_may_have_a_value_of_its_own),
        cmocka_unit_test(every_counts_epochs_too),
        cmocka_unit_test(within_keeps_what_is_young_enough),
        cmocka_unit_test(a_wrong_clock_never_makes_within_drop_the_newest),
        cmocka_unit_test(what_the_rules_look_at_comes_from_the_snapshot),
        cmocka_unit_test(many_reasons_are_cut_to_their_room),
        cmocka_unit_test(blanks_in_a_policy_do_not_matter),
        cmocka_unit_test(mistakes_in_a_policy_name_their_place),
        cmocka_unit_test(a_policy_can_be_checked_before_it_is_needed),
        cmocka_unit_test(a_metric_is_a_key_and_a_way),
        cmocka_unit_test(values_that_are_no_numbers_do_not_count),
        cmocka_unit_test(the_decimal_point_is_the_same_in_every_locale),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
