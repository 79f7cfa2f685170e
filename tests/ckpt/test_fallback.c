#include "file_tree.h"

static void damage_newest(fixture *f)
{
    char path[FILE_PATH_MAX];
    own_pack_file(path, f, "latest");
    flip_bit(path, 1000);
    fixture_reopen(f);
}

static void damaged_pack_names_the_file_and_leaves_none(void **state)
{
    fixture *const f = *state;
    char id[CKPT_ID_SIZE], out[FILE_PATH_MAX];
    ckpt_error err = {0};
    save_noise(id, f, 1);
    damage_newest(f);
    join(out, f->root, "out");
    const ckpt_restore_options options = {.size = sizeof options, .dir = out};
    assert_int_equal(ckpt_restore_files(NULL, f->store, id, &options, &err), CKPT_EDATA);
    assert_non_null(strstr(err.message, "noise.bin"));
    assert_int_equal(count_files(out), 0);
}

static void damage_keeps_the_file_that_was_there(void **state)
{
    fixture *const f = *state;
    char id[CKPT_ID_SIZE], out[FILE_PATH_MAX];
    save_noise(id, f, 1);
    damage_newest(f);
    join(out, f->root, "out");
    make_dir(out, "");
    write_in(out, "noise.bin", "mine", 4);
    const ckpt_restore_options options = {.size = sizeof options, .dir = out, .overwrite = true};
    assert_int_equal(ckpt_restore_files(NULL, f->store, id, &options, NULL), CKPT_EDATA);
    assert_int_equal(count_files(out), 1);
    assert_int_equal(stat_in(out, "noise.bin").st_size, 4);
}

static void latest_falls_back_to_the_newest_good_one_with_a_note(void **state)
{
    fixture *const f = *state;
    char good[CKPT_ID_SIZE], damaged[CKPT_ID_SIZE], out[FILE_PATH_MAX];
    ckpt_restore_result result;
    save_noise(good, f, 1);
    join(out, f->root, "expected");
    restore_to(f, good, out);
    save_noise(damaged, f, 2);
    damage_newest(f);
    save_noise(damaged, f, 3);
    damage_newest(f);
    join(out, f->root, "out");
    const ckpt_restore_options options = {.size = sizeof options, .dir = out};
    MUST(ckpt_restore_files(&result, f->store, "latest", &options, ERR));
    assert_true(result.fell_back);
    assert_string_equal(result.id, good);
    assert_non_null(strstr(f->note, "damaged"));
    char expected[FILE_PATH_MAX];
    join(expected, f->root, "expected");
    assert_same_tree(expected, out);
}

static void missing_pack_of_the_newest_falls_back(void **state)
{
    fixture *const f = *state;
    char good[CKPT_ID_SIZE], damaged[CKPT_ID_SIZE], out[FILE_PATH_MAX], path[FILE_PATH_MAX];
    ckpt_restore_result result;
    save_noise(good, f, 1);
    save_noise(damaged, f, 2);
    own_pack_file(path, f, "latest");
    assert_int_equal(unlink(path), 0);
    fixture_reopen(f);
    join(out, f->root, "out");
    const ckpt_restore_options options = {.size = sizeof options, .dir = out};
    MUST(ckpt_restore_files(&result, f->store, "latest", &options, ERR));
    assert_string_equal(result.id, good);
    assert_int_equal(ckpt_restore_files(&result, f->store, damaged, &options, NULL), CKPT_EDATA);
}

static void damaged_snapshot_of_the_newest_falls_back(void **state)
{
    fixture *const f = *state;
    char good[CKPT_ID_SIZE], damaged[CKPT_ID_SIZE], out[FILE_PATH_MAX], path[FILE_PATH_MAX];
    ckpt_restore_result result;
    save_noise(good, f, 1);
    save_noise(damaged, f, 2);
    snapshot_file(path, f, "latest");
    flip_bit(path, 40);
    fixture_reopen(f);
    join(out, f->root, "out");
    const ckpt_restore_options options = {.size = sizeof options, .dir = out};
    MUST(ckpt_restore_files(&result, f->store, "latest", &options, ERR));
    assert_true(result.fell_back);
    assert_string_equal(result.id, good);
}

static void other_names_do_not_fall_back(void **state)
{
    fixture *const f = *state;
    char good[CKPT_ID_SIZE], damaged[CKPT_ID_SIZE], out[FILE_PATH_MAX];
    save_noise(good, f, 1);
    save_noise(damaged, f, 2);
    MUST(ckpt_tag_set(f->store, "tagged", damaged, false, ERR));
    damage_newest(f);
    join(out, f->root, "out");
    const ckpt_restore_options options = {.size = sizeof options, .dir = out};
    assert_int_equal(ckpt_restore_files(NULL, f->store, damaged, &options, NULL), CKPT_EDATA);
    assert_int_equal(ckpt_restore_files(NULL, f->store, "tagged", &options, NULL), CKPT_EDATA);
    assert_int_equal(ckpt_restore_files(NULL, f->store, "latest~0", &options, NULL), CKPT_EDATA);
    MUST(ckpt_restore_files(NULL, f->store, "latest~1", &options, ERR));
}

static void all_damaged_is_an_error_that_names_the_newest(void **state)
{
    fixture *const f = *state;
    char id[CKPT_ID_SIZE], out[FILE_PATH_MAX];
    ckpt_error err = {0};
    save_noise(id, f, 1);
    damage_newest(f);
    join(out, f->root, "out");
    const ckpt_restore_options options = {.size = sizeof options, .dir = out};
    assert_int_equal(ckpt_restore_files(NULL, f->store, "latest", &options, &err), CKPT_EDATA);
    assert_non_null(strstr(err.message, "noise.bin"));
    assert_int_equal(count_files(out), 0);
}

/* Nobody is asked about overwriting with what is damaged; the question is about the one that is good. */
static void damage_is_found_before_overwriting_is_asked_for(void **state)
{
    fixture *const f = *state;
    char good[CKPT_ID_SIZE], damaged[CKPT_ID_SIZE], out[FILE_PATH_MAX];
    ckpt_error err = {0};
    save_noise(good, f, 1);
    save_noise(damaged, f, 2);
    damage_newest(f);
    join(out, f->root, "out");
    make_dir(out, "");
    write_in(out, "noise.bin", "mine", 4);
    const ckpt_restore_options options = {.size = sizeof options, .dir = out};
    assert_int_equal(ckpt_restore_files(NULL, f->store, "latest", &options, &err), CKPT_ECONFIRM);
    good[8] = 0;
    assert_non_null(strstr(err.message, good));
    assert_non_null(strstr(err.message, "noise.bin exists and differs"));
}

#define FALLBACK_TEST(name) cmocka_unit_test_setup_teardown(name, tree_setup, tree_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FALLBACK_TEST(damaged_pack_names_the_file_and_leaves_none),
        FALLBACK_TEST(damage_keeps_the_file_that_was_there),
        FALLBACK_TEST(latest_falls_back_to_the_newest_good_one_with_a_note),
        FALLBACK_TEST(missing_pack_of_the_newest_falls_back),
        FALLBACK_TEST(damaged_snapshot_of_the_newest_falls_back),
        FALLBACK_TEST(other_names_do_not_fall_back),
        FALLBACK_TEST(all_damaged_is_an_error_that_names_the_newest),
        FALLBACK_TEST(damage_is_found_before_overwriting_is_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
