#include "store_fixture.h"

static void a_tag_is_a_file_that_holds_the_id(void **state)
{
    fixture *const f = *state;
    char id[CKPT_ID_SIZE], path[FILE_PATH_MAX], expected[CKPT_ID_SIZE + 1];
    save_step(id, f, 1, 1);
    MUST(ckpt_tag_set(f->store, "epoch 12", "latest", false, ERR));
    MUST(path_join(path, f->store->tags_dir, "epoch 12", ERR));
    char *const text = read_text(path);
    snprintf(expected, sizeof expected, "%s\n", id);
    assert_string_equal(text, expected);
    free(text);
    assert_int_equal(count_files(f->store->tmp_dir), 0);
    assert_int_equal(count_files(f->store->intents_dir), 0);
}

static void a_tag_of_another_checkpoint_moves_only_when_asked(void **state)
{
    fixture *const f = *state;
    char first[CKPT_ID_SIZE], second[CKPT_ID_SIZE], found[CKPT_ID_SIZE];
    ckpt_error err = {0};
    save_step(first, f, 1, 1);
    save_step(second, f, 2, 2);
    MUST(ckpt_tag_set(f->store, "x", first, false, ERR));
    MUST(ckpt_tag_set(f->store, "x", first, false, ERR)); /* the same again is fine */
    assert_int_equal(ckpt_tag_set(f->store, "x", second, false, &err), CKPT_ECONFIRM);
    MUST(ckpt_find(found, f->store, "x", ERR));
    assert_string_equal(found, first);
    MUST(ckpt_tag_set(f->store, "x", second, true, ERR));
    MUST(ckpt_find(found, f->store, "x", ERR));
    assert_string_equal(found, second);
}

static void a_tag_can_be_set_by_any_name(void **state)
{
    fixture *const f = *state;
    char first[CKPT_ID_SIZE], second[CKPT_ID_SIZE];
    sha256 id;
    char hex[SHA256_HEX_SIZE];
    save_step(first, f, 1, 100);
    save_step(second, f, 2, 200);
    MUST(ckpt_tag_set(f->store, "a", "latest~1", false, ERR));
    MUST(ckpt_tag_set(f->store, "b", "a", false, ERR));
    MUST(tag_read(&id, f->store, "b", ERR));
    sha256_hex(hex, &id);
    assert_string_equal(hex, first);
    assert_int_equal(ckpt_tag_set(f->store, "c", "step:9", false, NULL), CKPT_ENOTFOUND);
}

static void a_tag_that_hides_an_id_is_told(void **state)
{
    fixture *const f = *state;
    char first[CKPT_ID_SIZE], second[CKPT_ID_SIZE], tag[6], expected[200];
    save_step(first, f, 1, 1);
    save_step(second, f, 2, 2);
    snprintf(tag, sizeof tag, "%.5s", first);
    f->note[0] = 0;
    MUST(ckpt_tag_set(f->store, tag, first, false, ERR)); /* means the same as before */
    assert_string_equal(f->note, "");
    MUST(ckpt_tag_set(f->store, tag, second, true, ERR));
    snprintf(expected, sizeof expected, "`%s` is the tag from now on, and no longer short for the checkpoint %.8s", tag,
             first);
    assert_string_equal(f->note, expected);
    f->note[0] = 0;
    snprintf(tag, sizeof tag, "%.3s", first); /* too short to name a checkpoint */
    MUST(ckpt_tag_set(f->store, tag, second, true, ERR));
    assert_string_equal(f->note, "");
}

static void names_that_would_mislead_cannot_be_tags(void **state)
{
    (void)state;
    static const char *const BAD[] = {
        "",        "latest",  "best", "step",
        "step:5",  "a/b",     "../a", "a~1",
        "-a",      ".hidden", "..",   "a\nb",
        "\x1b[1m", "\xff",    "a:b",  "ad7999a9c964664081f137b63cf175300452acc0f24aec5cd75d61805c88a9b2",
    };
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++)
        if (tag_check(BAD[i], NULL) != CKPT_EUSAGE)
            fail_msg("accepted: %s", BAD[i]);
    char length[CKPT_TAG_BYTES_MAX + 2];
    memset(length, 'a', sizeof length);
    length[CKPT_TAG_BYTES_MAX + 1] = 0;
    assert_int_equal(tag_check(length, NULL), CKPT_EUSAGE);
    length[CKPT_TAG_BYTES_MAX] = 0;
    assert_int_equal(tag_check(length, NULL), 0);
    assert_int_equal(tag_check("\xe6\x9c\x80\xe7\xbb\x88 v1.0 (best)", NULL), 0);
    assert_int_equal(tag_check("latest2", NULL), 0);
    assert_int_equal(tag_check("beef", NULL), 0);
}

static void tags_are_listed_by_name_and_strangers_left_alone(void **state)
{
    fixture *const f = *state;
    char id[CKPT_ID_SIZE], path[FILE_PATH_MAX];
    tag_row *rows;
    size_t count;
    save_step(id, f, 1, 1);
    MUST(ckpt_tag_set(f->store, "b", "latest", false, ERR));
    MUST(ckpt_tag_set(f->store, "a", "latest", false, ERR));
    MUST(path_join(path, f->store->tags_dir, ".DS_Store", ERR));
    write_text(path, "not a tag");
    MUST(path_join(path, f->store->tags_dir, "damaged", ERR));
    write_text(path, "12345\n");
    MUST(tag_rows(&rows, &count, f->store, ERR));
    assert_int_equal(count, 2);
    assert_string_equal(rows[0].name, "a");
    assert_string_equal(rows[1].name, "b");
    tag_rows_free(rows, count);
    sha256 read;
    assert_int_equal(tag_read(&read, f->store, "damaged", NULL), CKPT_EDATA);
}

static void a_removed_tag_is_gone_and_its_checkpoint_is_not(void **state)
{
    fixture *const f = *state;
    char id[CKPT_ID_SIZE], found[CKPT_ID_SIZE];
    save_step(id, f, 1, 1);
    MUST(ckpt_tag_set(f->store, "a", "latest", false, ERR));
    MUST(ckpt_tag_remove(f->store, "a", ERR));
    assert_int_equal(ckpt_find(found, f->store, "a", NULL), CKPT_ENOTFOUND);
    MUST(ckpt_find(found, f->store, "latest", ERR));
    assert_int_equal(ckpt_tag_remove(f->store, "a", NULL), CKPT_ENOTFOUND);
    assert_int_equal(ckpt_tag_remove(f->store, "../config.ini", NULL), CKPT_EUSAGE);
}

/* ---- Removing checkpoints ---- */

static void a_tagged_checkpoint_is_removed_only_with_force(void **state)
{
    fixture *const f = *state;
    char first[CKPT_ID_SIZE], second[CKPT_ID_SIZE], found[CKPT_ID_SIZE];
    ckpt_error err = {0};
    save_step(first, f, 1, 1);
    save_step(second, f, 2, 2);
    MUST(ckpt_tag_set(f->store, "a", first, false, ERR));
    MUST(ckpt_tag_set(f->store, "other", second, false, ERR));
    assert_int_equal(ckpt_remove(f->store, first, false, &err), CKPT_ECONFIRM);
    assert_non_null(strstr(err.message, "`a`"));
    MUST(ckpt_find(found, f->store, first, ERR));
    MUST(ckpt_remove(f->store, first, true, ERR));
    assert_int_equal(ckpt_find(found, f->store, first, NULL), CKPT_ENOTFOUND);
    assert_int_equal(ckpt_find(found, f->store, "a", NULL), CKPT_ENOTFOUND);
    MUST(ckpt_find(found, f->store, "other", ERR));
}

static void removal_forgets_the_snapshot_and_leaves_the_packs(void **state)
{
    fixture *const f = *state;
    char id[CKPT_ID_SIZE];
    save_step(id, f, 1, 1);
    const size_t packs = count_files(f->store->packs_dir);
    MUST(ckpt_remove(f->store, "latest", false, ERR));
    assert_int_equal(count_files(f->store->snapshots_dir), 0);
    assert_int_equal(count_files(f->store->packs_dir), packs);
    assert_int_equal(ckpt_remove(f->store, "latest", false, NULL), CKPT_ENOTFOUND);
}

static void a_damaged_checkpoint_can_be_removed(void **state)
{
    fixture *const f = *state;
    char id[CKPT_ID_SIZE], path[FILE_PATH_MAX];
    save_step(id, f, 1, 1);
    snapshot_file(path, f, "latest");
    write_text(path, "");
    MUST(ckpt_remove(f->store, id, false, ERR));
    assert_false(exists(path));
}

#define STORE_TEST(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(a_tag_is_a_file_that_holds_the_id),
        STORE_TEST(a_tag_of_another_checkpoint_moves_only_when_asked),
        STORE_TEST(a_tag_can_be_set_by_any_name),
        STORE_TEST(a_tag_that_hides_an_id_is_told),
        cmocka_unit_test(names_that_would_mislead_cannot_be_tags),
        STORE_TEST(tags_are_listed_by_name_and_strangers_left_alone),
        STORE_TEST(a_removed_tag_is_gone_and_its_checkpoint_is_not),
        STORE_TEST(a_tagged_checkpoint_is_removed_only_with_force),
        STORE_TEST(removal_forgets_the_snapshot_and_leaves_the_packs),
        STORE_TEST(a_damaged_checkpoint_can_be_removed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
