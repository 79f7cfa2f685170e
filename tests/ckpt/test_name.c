#include "store_fixture.h"

static void assert_finds(fixture *f, const char *name, const char *id)
{
    char found[CKPT_ID_SIZE];
    MUST(ckpt_find(found, f->store, name, ERR));
    assert_string_equal(found, id);
}

static int find_code(fixture *f, const char *name, ckpt_error *err)
{
    char found[CKPT_ID_SIZE];
    ckpt_error own = {0};
    return ckpt_find(found, f->store, name, err ? err : &own);
}

static void save_metric(char id[CKPT_ID_SIZE], fixture *f, uint64_t seed, const char *value)
{
    const ckpt_value meta[] = {{"val_acc", value}};
    ckpt_save_options options = CKPT_SAVE_OPTIONS_INIT;
    options.meta = meta;
    options.meta_count = 1;
    save_seed(id, f, seed, &options);
}

static void latest_is_the_newest_and_tilde_counts_back(void **state)
{
    fixture *const f = *state;
    char first[CKPT_ID_SIZE], second[CKPT_ID_SIZE], third[CKPT_ID_SIZE];
    save_step(first, f, 1, 100);
    save_step(second, f, 2, 200);
    save_step(third, f, 3, 300);
    assert_finds(f, "latest", third);
    assert_finds(f, "latest~0", third);
    assert_finds(f, "latest~1", second);
    assert_finds(f, "latest~2", first);
    ckpt_error err = {0};
    assert_int_equal(find_code(f, "latest~3", &err), CKPT_ENOTFOUND);
    assert_string_equal(err.message, "`latest~3`: only 2 checkpoints are before `latest`");
    assert_int_equal(find_code(f, "step:200~2", &err), CKPT_ENOTFOUND);
    assert_string_equal(err.message, "`step:200~2`: only 1 checkpoint is before `step:200`");
    assert_int_equal(find_code(f, "step:100~1", &err), CKPT_ENOTFOUND);
    assert_string_equal(err.message, "`step:100~1`: `step:100` is the oldest checkpoint");
    assert_int_equal(find_code(f, "latest~999999999", NULL), CKPT_ENOTFOUND);
}

static void step_is_the_newest_of_that_step(void **state)
{
    fixture *const f = *state;
    char first[CKPT_ID_SIZE], again[CKPT_ID_SIZE], later[CKPT_ID_SIZE];
    save_step(first, f, 1, 100);
    save_step(again, f, 2, 100);
    save_step(later, f, 3, 1500);
    assert_finds(f, "step:100", again);
    assert_finds(f, "step:100~1", first);
    assert_finds(f, "step:1500", later);
    assert_finds(f, "step:0100", again);
}

static void a_missing_step_hints_at_the_nearest(void **state)
{
    fixture *const f = *state;
    char id[CKPT_ID_SIZE];
    ckpt_error err = {0};
    save_step(id, f, 1, CKPT_STEP_NONE);
    assert_int_equal(find_code(f, "step:100", &err), CKPT_ENOTFOUND);
    assert_non_null(strstr(err.hint, "with a step"));
    save_step(id, f, 1, 100);
    save_step(id, f, 1, 1500);
    assert_int_equal(find_code(f, "step:1200", &err), CKPT_ENOTFOUND);
    assert_non_null(strstr(err.hint, "`step:1500`"));
}

static void best_is_the_largest_value_of_the_key_in_the_config(void **state)
{
    fixture *const f = *state;
    char low[CKPT_ID_SIZE], high[CKPT_ID_SIZE], none[CKPT_ID_SIZE], nan_id[CKPT_ID_SIZE];
    save_metric(low, f, 1, "0.5");
    save_metric(high, f, 2, "0.93");
    save_metric(nan_id, f, 3, "nan");
    save_step(none, f, 4, 1);
    assert_finds(f, "best", high);
    assert_finds(f, "best~1", low);
}

static void best_without_any_value_says_how_to_give_one(void **state)
{
    fixture *const f = *state;
    char id[CKPT_ID_SIZE];
    ckpt_error err = {0};
    save_step(id, f, 1, 1);
    assert_int_equal(find_code(f, "best", &err), CKPT_ENOTFOUND);
    assert_int_equal(ckpt_error_exit_status(err.code), 4);
    assert_non_null(strstr(err.hint, "meta pair val_acc=VALUE"));
    char *const config = read_text(f->store->config_path);
    *strstr(config, "best = val_acc") = '#';
    write_text(f->store->config_path, config);
    free(config);
    assert_int_equal(find_code(f, "best", &err), CKPT_ENOTFOUND);
    assert_non_null(strstr(err.hint, "[retention]"));
}

static void a_prefix_of_four_digits_is_enough_in_either_case(void **state)
{
    fixture *const f = *state;
    char id[CKPT_ID_SIZE], prefix[CKPT_ID_SIZE];
    save_step(id, f, 1, 1);
    assert_finds(f, id, id);
    snprintf(prefix, sizeof prefix, "%.4s", id);
    assert_finds(f, prefix, id);
    for (char *c = prefix; *c; c++)
        *c = (char)(*c >= 'a' ? *c - 'a' + 'A' : *c);
    assert_finds(f, prefix, id);
    prefix[3] = 0;
    assert_int_equal(find_code(f, prefix, NULL), CKPT_ENOTFOUND);
    memcpy(prefix, id, CKPT_ID_SIZE);
    prefix[63] = prefix[63] == '0' ? '1' : '0';
    assert_int_equal(find_code(f, prefix, NULL), CKPT_ENOTFOUND);
}

/* Names alone answer prefixes, so that files without content will do. */
static void a_prefix_of_several_lists_them(void **state)
{
    fixture *const f = *state;
    ckpt_error err = {0};
    char path[FILE_PATH_MAX];
    for (unsigned i = 0; i < 5; i++) {
        snapshot_name name = {.sequence = i + 1, .id.bytes = {0xab, 0xcd, (unsigned char)(0x10 * i)}};
        MUST(snapshot_path(path, f->store->snapshots_dir, &name, ERR));
        write_text(path, "{}");
    }
    assert_int_equal(find_code(f, "abcd", &err), CKPT_EUSAGE);
    assert_string_equal(err.message, "`abcd` fits 5 checkpoints: abcd4000, abcd3000, abcd2000, ...");
    assert_int_equal(find_code(f, "abcd4", NULL), 0);
}

static void tags_come_first(void **state)
{
    fixture *const f = *state;
    char first[CKPT_ID_SIZE], second[CKPT_ID_SIZE], tag[5];
    save_step(first, f, 1, 1);
    save_step(second, f, 2, 2);
    snprintf(tag, sizeof tag, "%.4s", second);
    MUST(ckpt_tag_set(f->store, tag, first, false, ERR));
    MUST(ckpt_tag_set(f->store, "good run", second, false, ERR));
    assert_finds(f, tag, first);
    assert_finds(f, "good run", second);
    assert_finds(f, "good run~1", first);
}

static void an_unknown_name_hints_at_tags_that_look_alike(void **state)
{
    fixture *const f = *state;
    char id[CKPT_ID_SIZE];
    ckpt_error err = {0};
    save_step(id, f, 1, 1);
    assert_int_equal(find_code(f, "basline", &err), CKPT_ENOTFOUND);
    assert_string_equal(err.message, "no checkpoint or tag `basline`");
    assert_non_null(strstr(err.hint, "the newest is"));
    MUST(ckpt_tag_set(f->store, "final", "latest", false, ERR));
    MUST(ckpt_tag_set(f->store, "baseline", "latest", false, ERR));
    assert_int_equal(find_code(f, "basline", &err), CKPT_ENOTFOUND);
    assert_string_equal(err.hint, "there is `baseline`; `ckpt log` lists all");
    assert_int_equal(find_code(f, "something else", &err), CKPT_ENOTFOUND);
    assert_string_equal(err.hint, "there is `baseline`, `final`; `ckpt log` lists all");
}

static void a_name_that_looks_like_one_with_a_meaning_hints_at_it(void **state)
{
    fixture *const f = *state;
    char id[CKPT_ID_SIZE];
    ckpt_error err = {0};
    save_step(id, f, 1, 1);
    assert_int_equal(find_code(f, "lastest", &err), CKPT_ENOTFOUND);
    assert_string_equal(err.hint, "did you mean `latest`?");
    assert_int_equal(find_code(f, "Best", &err), CKPT_ENOTFOUND);
    assert_string_equal(err.hint, "did you mean `best`?");
    assert_int_equal(find_code(f, "12", &err), CKPT_ENOTFOUND);
    assert_string_equal(err.hint, "of an id give at least 4 digits; `ckpt log` lists all");
}

static void an_empty_store_has_no_latest(void **state)
{
    fixture *const f = *state;
    ckpt_error err = {0};
    assert_int_equal(find_code(f, "latest", &err), CKPT_ENOTFOUND);
    assert_string_equal(err.message, "the store has no checkpoints");
    assert_non_null(strstr(err.hint, "ckpt save"));
}

static void a_tag_whose_checkpoint_is_gone_says_so(void **state)
{
    fixture *const f = *state;
    char id[CKPT_ID_SIZE], path[FILE_PATH_MAX];
    ckpt_error err = {0};
    save_step(id, f, 1, 1);
    MUST(ckpt_tag_set(f->store, "lost", "latest", false, ERR));
    snapshot_file(path, f, "latest");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(find_code(f, "lost", &err), CKPT_ENOTFOUND);
    assert_non_null(strstr(err.message, "`lost` is gone"));
}

static void names_that_make_no_sense_are_usage_errors(void **state)
{
    fixture *const f = *state;
    static const char *const BAD[] = {"",
                                      "~1",
                                      "latest~",
                                      "latest~x",
                                      "latest~1~1",
                                      "latest~-1",
                                      "step:",
                                      "step:x",
                                      "step:-5",
                                      "step:99999999999999999999",
                                      "latest~9999999999"};
    char id[CKPT_ID_SIZE];
    save_step(id, f, 1, 1);
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++)
        if (find_code(f, BAD[i], NULL) != CKPT_EUSAGE)
            fail_msg("accepted: %s", BAD[i]);
    char *const endless = malloc(100001);
    memset(endless, 'a', 100000);
    endless[100000] = 0;
    assert_int_equal(find_code(f, endless, NULL), CKPT_EUSAGE);
    free(endless);
    assert_int_equal(find_code(f, "../../etc/passwd", NULL), CKPT_ENOTFOUND);
}

static void a_damaged_snapshot_hides_neither_steps_nor_the_best(void **state)
{
    fixture *const f = *state;
    char good[CKPT_ID_SIZE], bad[CKPT_ID_SIZE], path[FILE_PATH_MAX];
    save_metric(good, f, 1, "0.5");
    save_metric(bad, f, 2, "0.9");
    snapshot_file(path, f, "latest");
    write_text(path, "{");
    assert_finds(f, "best", good);
    assert_finds(f, "latest", bad); /* its name is there; reading it will tell */
}

#define STORE_TEST(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(latest_is_the_newest_and_tilde_counts_back),
        STORE_TEST(step_is_the_newest_of_that_step),
        STORE_TEST(a_missing_step_hints_at_the_nearest),
        STORE_TEST(best_is_the_largest_value_of_the_key_in_the_config),
        STORE_TEST(best_without_any_value_says_how_to_give_one),
        STORE_TEST(a_prefix_of_four_digits_is_enough_in_either_case),
        STORE_TEST(a_prefix_of_several_lists_them),
        STORE_TEST(tags_come_first),
        STORE_TEST(an_unknown_name_hints_at_tags_that_look_alike),
        STORE_TEST(a_name_that_looks_like_one_with_a_meaning_hints_at_it),
        STORE_TEST(an_empty_store_has_no_latest),
        STORE_TEST(a_tag_whose_checkpoint_is_gone_says_so),
        STORE_TEST(names_that_make_no_sense_are_usage_errors),
        STORE_TEST(a_damaged_snapshot_hides_neither_steps_nor_the_best),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
