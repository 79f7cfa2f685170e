#include "store_fixture.h"

static void the_list_is_newest_first_with_all_that_was_said(void **state)
{
    fixture *const f = *state;
    char first[CKPT_ID_SIZE], second[CKPT_ID_SIZE];
    const ckpt_value meta[] = {{"val_acc", "0.93"}, {"lr", "0.1"}};
    ckpt_save_options options = CKPT_SAVE_OPTIONS_INIT;
    ckpt_list *list;
    save_step(first, f, 1, CKPT_STEP_NONE);
    options.message = "after warm-up";
    options.step = 500;
    options.meta = meta;
    options.meta_count = 2;
    options.tag = "warm";
    save_seed(second, f, 2, &options);
    MUST(ckpt_tag_set(f->store, "also", "warm", false, ERR));
    MUST(ckpt_list_new(&list, f->store, ERR));
    assert_int_equal(ckpt_list_count(list), 2);
    const ckpt_info *info = ckpt_list_get(list, 0);
    assert_string_equal(info->id, second);
    assert_string_equal(info->message, "after warm-up");
    assert_int_equal(info->step, 500);
    assert_int_equal(info->files, 1);
    assert_int_equal(info->meta_count, 2);
    assert_string_equal(info->meta[0].key, "lr");
    assert_string_equal(info->meta[1].value, "0.93");
    assert_int_equal(info->tag_count, 2);
    assert_string_equal(info->tags[0], "also");
    assert_string_equal(info->tags[1], "warm");
    info = ckpt_list_get(list, 1);
    assert_string_equal(info->id, first);
    assert_string_equal(info->message, "");
    assert_int_equal(info->step, CKPT_STEP_NONE);
    assert_int_equal(info->tag_count, 0);
    assert_null(ckpt_list_get(list, 2));
    ckpt_list_free(list);
}

static void a_damaged_snapshot_is_left_out_with_a_note(void **state)
{
    fixture *const f = *state;
    char id[CKPT_ID_SIZE], path[FILE_PATH_MAX];
    ckpt_list *list;
    save_step(id, f, 1, 1);
    save_step(id, f, 2, 2);
    snapshot_file(path, f, "latest");
    write_text(path, "{}");
    MUST(ckpt_list_new(&list, f->store, ERR));
    assert_int_equal(ckpt_list_count(list), 1);
    assert_int_equal(ckpt_list_get(list, 0)->step, 1);
    assert_non_null(strstr(f->note, "left out: snapshot 00000002"));
    ckpt_list_free(list);
}

static void an_empty_store_gives_an_empty_list(void **state)
{
    fixture *const f = *state;
    ckpt_list *list;
    MUST(ckpt_list_new(&list, f->store, ERR));
    assert_int_equal(ckpt_list_count(list), 0);
    assert_null(ckpt_list_get(list, 0));
    ckpt_list_free(list);
    ckpt_list_free(NULL);
}

#define STORE_TEST(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(the_list_is_newest_first_with_all_that_was_said),
        STORE_TEST(a_damaged_snapshot_is_left_out_with_a_note),
        STORE_TEST(an_empty_store_gives_an_empty_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
