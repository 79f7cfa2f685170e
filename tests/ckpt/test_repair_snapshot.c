#include "repair_fixture.h"

static ckpt_save_result saved_with_all(char file[FILE_PATH_MAX], fixture *f)
{
    static const ckpt_value META[] = {{"val_acc", "0.93"}, {"note", "two\nlines \"and\" quotes"}};
    ckpt_save_options options = CKPT_SAVE_OPTIONS_INIT;
    ckpt_save_result result;
    const char *paths[1] = {file};
    join(file, f->root, "model.bin");
    write_noise(file, 7, 3000);
    options.message = "before the change";
    options.step = 500;
    options.meta = META;
    options.meta_count = 2;
    options.tag = "good";
    MUST(ckpt_save_files(&result, f->store, paths, 1, &options, ERR));
    return result;
}

static void a_wrong_byte_of_a_snapshot_is_put_right(void **state)
{
    fixture *const f = *state;
    char file[FILE_PATH_MAX], path[FILE_PATH_MAX], good[FILE_PATH_MAX];
    const ckpt_save_result saved = saved_with_all(file, f);
    snapshot_file(path, f, "latest");
    join(good, f->root, "good.json");
    file_copy(good, path);
    char *const text = read_text(good);
    const off_t in_data = strstr(text, ",\"data\":") - text;
    free(text);
    for (off_t at = 0; at < in_data; at += 29) {
        flip_bit(path, at);
        assert_int_equal(verify_at(f, CKPT_VERIFY_NAMES), CKPT_EDATA);
        assert_mends(f, "snapshot", "written as it was");
        assert_restores(f, "good", file);
    }
    assert_restores(f, saved.id, file);
}

static void a_copy_of_a_snapshot_under_another_number_is_set_aside(void **state)
{
    fixture *const f = *state;
    char file[FILE_PATH_MAX], path[FILE_PATH_MAX], copy[2 * FILE_PATH_MAX];
    const ckpt_save_result saved = saved_with_all(file, f);
    snapshot_file(path, f, "latest");
    snprintf(copy, sizeof copy, "%s/10000001%s", f->store->snapshots_dir, path_base(path) + 8);
    file_copy(copy, path);
    assert_int_equal(verify_at(f, CKPT_VERIFY_NAMES), CKPT_EDATA);
    assert_mends(f, "snapshot", "written as it was");
    assert_int_equal(count_files(f->store->snapshots_dir), 1);
    assert_restores(f, saved.id, file);
}

static void a_snapshot_that_lost_the_name_of_its_pack_finds_it_by_its_files(void **state)
{
    fixture *const f = *state;
    char file[FILE_PATH_MAX], path[FILE_PATH_MAX], other[FILE_PATH_MAX];
    noise_saved(other, f, 1, 0);
    const ckpt_save_result saved = saved_with_all(file, f);
    noise_saved(other, f, 2, 0);
    snapshot_file(path, f, saved.id);
    char *text = read_text(path);
    char *const digits = strstr(text, "\"pack\":\"");
    assert_non_null(digits);
    digits[10] = 'x'; /* no digit */
    write_text(path, text);
    assert_mends(f, "snapshot", "its pack was found by its files");
    assert_restores(f, saved.id, file);

    strstr(text, "\"data\"")[3] = 0; /* cut off behind the content */
    write_text(path, text);
    free(text);
    assert_mends(f, "snapshot", "its pack was found by its files");
    assert_restores(f, saved.id, file);
    assert_int_equal(count_files(f->store->damaged_dir), 2);
}

/* Whatever is there instead of the text, the pack has the files. */
static void a_lost_snapshot_is_made_anew_from_the_only_spare_pack(void **state)
{
    fixture *const f = *state;
    static const char *const TEXTS[] = {"", "{}", "not even json", "{\"ckpt\":1,\"content\":{"};
    char file[FILE_PATH_MAX], other[FILE_PATH_MAX], path[FILE_PATH_MAX], id[CKPT_ID_SIZE];
    noise_saved(other, f, 1, 0);
    saved_with_all(file, f);
    for (size_t i = 0; i < sizeof TEXTS / sizeof TEXTS[0]; i++) {
        snapshot_file(path, f, "good");
        write_text(path, TEXTS[i]);
        assert_int_equal(verify_at(f, CKPT_VERIFY_NAMES), CKPT_EDATA);
        assert_mends(f, "snapshot", "message, step, values and time are lost");
        assert_false(exists(path));
        MUST(ckpt_find(id, f->store, "good", ERR)); /* the tag went along */
        assert_restores(f, id, file);
        assert_restores(f, "latest", file); /* its number stayed */
    }
    assert_int_equal(count_files(f->store->snapshots_dir), 2);
}

static void a_checkpoint_made_anew_says_so(void **state)
{
    fixture *const f = *state;
    char file[FILE_PATH_MAX], path[FILE_PATH_MAX];
    ckpt_list *list = NULL;
    const ckpt_save_result saved = saved_with_all(file, f);
    snapshot_file(path, f, "latest");
    write_text(path, "");
    assert_mends(f, "snapshot", "made anew");
    MUST(ckpt_list_new(&list, f->store, ERR));
    assert_int_equal(ckpt_list_count(list), 1);
    const ckpt_info *const info = ckpt_list_get(list, 0);
    char expected[200];
    snprintf(expected, sizeof expected, "rebuilt by `ckpt repair` from the pack of %.8s, whose snapshot was damaged",
             saved.id);
    assert_string_equal(info->message, expected);
    assert_int_equal(info->sequence, saved.sequence);
    assert_int_equal(info->files, 1);
    assert_int_equal(info->raw_bytes, 3000);
    assert_int_equal(info->step, CKPT_STEP_NONE);
    assert_int_equal(info->meta_count, 0);
    ckpt_list_free(list);
}

static void which_of_two_spare_packs_is_not_guessed(void **state)
{
    fixture *const f = *state;
    char file[FILE_PATH_MAX], path[FILE_PATH_MAX], other[FILE_PATH_MAX];
    saved_with_all(file, f);
    noise_saved(other, f, 1, 0);
    snapshot_file(path, f, "latest");
    write_text(path, "");
    snapshot_file(path, f, "good");
    write_text(path, "");
    assert_remains(f, "snapshot", "no pack here is known to hold its files");
    assert_int_equal(count_files(f->store->snapshots_dir), 2);
    assert_true(exists(path));
}

static void a_snapshot_that_still_names_its_pack_finds_it_among_many(void **state)
{
    fixture *const f = *state;
    char file[FILE_PATH_MAX], path[FILE_PATH_MAX], other[FILE_PATH_MAX], text[256], hex[SHA256_HEX_SIZE];
    sha256 name;
    saved_with_all(file, f);
    noise_saved(other, f, 1, 0);
    noise_saved(other, f, 2, 0);
    MUST(ckpt_remove(f->store, "latest", false, ERR));
    own_pack(&name, f, "good");
    sha256_hex(hex, &name);
    snapshot_file(path, f, "good");
    snprintf(text, sizeof text, "?????? \"pack\":\"%s\" ????", hex);
    write_text(path, text);
    assert_mends(f, "snapshot", "made anew");
    assert_restores(f, "good", file);
}

static void packs_without_a_snapshot_are_adopted_when_asked(void **state)
{
    fixture *const f = *state;
    char file[FILE_PATH_MAX], other[FILE_PATH_MAX];
    const ckpt_repair_options adopt = {.size = sizeof adopt, .adopt = true};
    ckpt_repair_result result;
    char path[FILE_PATH_MAX];
    noise_saved(other, f, 1, 0);
    saved_with_all(file, f);
    MUST(ckpt_tag_remove(f->store, "good", ERR));
    snapshot_file(path, f, "latest");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(verify_at(f, CKPT_VERIFY_NAMES), 0); /* as after `rm` */
    assert_int_equal(repair(&result, f), 0);
    assert_int_equal(result.row_count, 0);
    ckpt_repair_result_clear(&result);
    assert_int_equal(count_files(f->store->snapshots_dir), 1);
    assert_mends_with(f, &adopt, "snapshot", "made the checkpoint");
    assert_restores(f, "latest", file);
}

static void a_snapshot_of_a_newer_program_is_left_alone(void **state)
{
    fixture *const f = *state;
    char file[FILE_PATH_MAX], path[FILE_PATH_MAX];
    ckpt_repair_result result;
    saved_with_all(file, f);
    snapshot_file(path, f, "latest");
    char *const text = read_text(path);
    strstr(text, "\"ckpt\":1")[7] = '2';
    write_text(path, text);
    assert_int_equal(repair(&result, f), 0);
    assert_int_equal(result.row_count, 0);
    ckpt_repair_result_clear(&result);
    char *const after = read_text(path);
    assert_string_equal(after, text);
    free(after);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_wrong_byte_of_a_snapshot_is_put_right, tree_setup, tree_teardown),
        cmocka_unit_test_setup_teardown(a_copy_of_a_snapshot_under_another_number_is_set_aside, tree_setup,
                                        tree_teardown),
        cmocka_unit_test_setup_teardown(a_snapshot_that_lost_the_name_of_its_pack_finds_it_by_its_files, tree_setup,
                                        tree_teardown),
        cmocka_unit_test_setup_teardown(a_lost_snapshot_is_made_anew_from_the_only_spare_pack, tree_setup,
                                        tree_teardown),
        cmocka_unit_test_setup_teardown(a_checkpoint_made_anew_says_so, tree_setup, tree_teardown),
        cmocka_unit_test_setup_teardown(which_of_two_spare_packs_is_not_guessed, tree_setup, tree_teardown),
        cmocka_unit_test_setup_teardown(a_snapshot_that_still_names_its_pack_finds_it_among_many, tree_setup,
                                        tree_teardown),
        cmocka_unit_test_setup_teardown(packs_without_a_snapshot_are_adopted_when_asked, tree_setup, tree_teardown),
        cmocka_unit_test_setup_teardown(a_snapshot_of_a_newer_program_is_left_alone, tree_setup, tree_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
