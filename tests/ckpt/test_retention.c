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

static const metric VAL_ACC = {"val_acc", true};
static const metric VAL_LOSS = {"val_loss", false};

/* Which of the items a policy keeps, newest first: "+" kept, "-" not. */
static void assert_keeps(const char *policy_text, const metric *m, const retention_item *items, size_t count,
                         const char *expected)
{
    retention_policy policy;
    ckpt_prune_row rows[ITEMS_MAX] = {0};
    char kept[ITEMS_MAX + 1] = "";
    assert_int_equal(retention_parse(&policy, policy_text, NULL), 0);
    assert_int_equal(retention_apply(rows, &policy, m, items, count, NULL), 0);
    for (size_t i = 0; i < count; i++)
        kept[i] = rows[i].keep ? '+' : '-';
    assert_string_equal(kept, expected);
}

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
        {.has_value = true, .value = 0.5},       {.has_value = true, .value = 0.9}, {.has_value = false},
        {.has_value = true, .value = -HUGE_VAL}, {.has_value = true, .value = 0.7},
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
    const retention_item items[] = {
        {.has_value = true, .value = 0.1}, {.has_value = true, .value = 0.9}, {.has_value = true, .value = 0.9}};
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
    const retention_item items[] = {
        {.step = 30000}, {.step = 25000, .tagged = true, .has_value = true, .value = 0.93}, {.step = 24000}};
    retention_policy policy;
    ckpt_prune_row rows[3] = {0};
    assert_int_equal(retention_parse(&policy, "last 1, best 2, every 10000 steps, tagged", NULL), 0);
    assert_int_equal(retention_apply(rows, &policy, &VAL_ACC, items, 3, NULL), 0);
    assert_string_equal(rows[0].reason, "last 1, every 10000 steps");
    assert_string_equal(rows[1].reason, "best 2 (val_acc 0.93), tagged");
    assert_string_equal(rows[2].reason, "every 10000 steps");
}

static void what_no_rule_keeps_says_so(void **state)
{
    (void)state;
    const retention_item items[2] = {{.step = 1}, {.step = 2}};
    retention_policy policy;
    ckpt_prune_row rows[2] = {0};
    assert_int_equal(retention_parse(&policy, "last 1", NULL), 0);
    assert_int_equal(retention_apply(rows, &policy, &VAL_ACC, items, 2, NULL), 0);
    assert_false(rows[1].keep);
    assert_string_equal(rows[1].reason, "no rule keeps it");
}

static void many_reasons_are_cut_to_their_room(void **state)
{
    (void)state;
    const retention_item items[1] = {{.tagged = true, .has_value = true, .value = 1}};
    retention_policy policy;
    ckpt_prune_row rows[1] = {0};
    metric m = {.max = true};
    memset(m.key, 'k', METRIC_KEY_MAX);
    assert_int_equal(retention_parse(&policy, "best 1000000000,best 2,best 3,best 4,best 5,last 6,tagged", NULL), 0);
    assert_int_equal(retention_apply(rows, &policy, &m, items, 1, NULL), 0);
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
        {"every 100", "at 10: expected `steps`"},
        {"every 100 step", "at 11: expected `steps`"},
        {"tagged 1", "at 8: expected a comma"},
        {"tagged,tagged,tagged,tagged,tagged,tagged,tagged,tagged,tagged,tagged,tagged,tagged,tagged,tagged,tagged,"
         "tagged,tagged",
         "at 113: too many rules"},
    };
    for (size_t i = 0; i < sizeof MISTAKES / sizeof MISTAKES[0]; i++) {
        retention_policy policy;
        ckpt_error err = {0};
        assert_int_equal(retention_parse(&policy, MISTAKES[i].text, &err), CKPT_EUSAGE);
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
        cmocka_unit_test(what_no_rule_keeps_says_so),
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
