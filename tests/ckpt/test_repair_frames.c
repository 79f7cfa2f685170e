/* Packs that come back from a second store, or from equal frames elsewhere. */
#include "repair_fixture.h"

#define FLOATS 200000 /* several chunks */

/* Two stores, the second beside the first. */
static void other_open(fixture *other, const fixture *f)
{
    const int size = snprintf(other->root, sizeof other->root, "%s/other", f->root);
    assert_true(size > 0 && (size_t)size < sizeof other->root);
    assert_int_equal(mkdir(other->root, 0700), 0);
    MUST(ckpt_store_init(NULL, other->root, ERR));
    fixture_open(other);
}

static ckpt_save_result save_floats(fixture *f, float change, uint64_t seed)
{
    float *const weight = malloc(FLOATS * sizeof *weight);
    ckpt_save_result result;
    uint64_t x = seed;
    assert_non_null(weight);
    for (size_t i = 0; i < FLOATS; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        weight[i] = (float)(x >> 40) * (1 + change * (float)(i % 7));
    }
    const ckpt_tensor tensor = {"weight", CKPT_F32, 1, {FLOATS}, weight};
    MUST(ckpt_save_tensors(&result, f->store, NULL, &tensor, 1, NULL, 0, NULL, ERR));
    free(weight);
    return result;
}

/* The checkpoint holds what save_floats saved. */
static void assert_holds_floats(fixture *f, const char *id, float change, uint64_t seed)
{
    float *const weight = malloc(FLOATS * sizeof *weight);
    uint64_t x = seed;
    assert_non_null(weight);
    const ckpt_tensor tensor = {"weight", CKPT_F32, 1, {FLOATS}, weight};
    MUST(ckpt_restore_tensors(f->store, id, &tensor, 1, ERR));
    for (size_t i = 0; i < FLOATS; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        const float expected = (float)(x >> 40) * (1 + change * (float)(i % 7));
        assert_memory_equal(&weight[i], &expected, sizeof expected);
    }
    free(weight);
}

static void a_lost_or_damaged_pack_comes_from_a_store_that_has_it(void **state)
{
    fixture *const f = *state;
    fixture other = {0};
    ckpt_repair_result result;
    char file[FILE_PATH_MAX], path[FILE_PATH_MAX], copy[FILE_PATH_MAX];
    other_open(&other, f);
    const ckpt_repair_options options = {.size = sizeof options, .from = other.root};
    const ckpt_save_result saved = noise_saved(file, f, 1, 0);
    own_pack_file(path, f, "latest");
    join(copy, other.store->packs_dir, path_base(path));
    file_copy(copy, path);

    wipe(path, 0, 100000);
    assert_mends_with(f, &options, "pack", "copied from");
    assert_restores(f, saved.id, file);
    assert_int_equal(unlink(path), 0);
    assert_mends_with(f, &options, "pack", "copied from");
    assert_restores(f, saved.id, file);

    assert_int_equal(unlink(path), 0);
    flip_bit(copy, 5000); /* what the other store has must be right, too */
    assert_int_equal(repair_with(&result, f, &options), CKPT_EDATA);
    ckpt_repair_result_clear(&result);
    assert_false(exists(path));
    ckpt_store_close(other.store);
}

/* More packs than there are rounds: all that one checkpoint needs are looked for at once. */
static void all_missing_packs_of_one_checkpoint_come_back(void **state)
{
    fixture *const f = *state;
    fixture other = {0};
    char files[12][FILE_PATH_MAX], from[FILE_PATH_MAX], to[FILE_PATH_MAX], id[CKPT_ID_SIZE];
    const char *paths[12];
    ckpt_save_result all;
    ckpt_repair_result result;
    other_open(&other, f);
    const ckpt_repair_options options = {.size = sizeof options, .from = other.root};
    for (uint64_t i = 0; i < 12; i++) {
        memcpy(id, noise_saved(files[i], f, i, 0).id, sizeof id);
        paths[i] = files[i];
        own_pack_file(from, f, id);
        join(to, other.store->packs_dir, path_base(from));
        file_copy(to, from);
    }
    MUST(ckpt_save_files(&all, f->store, paths, 12, NULL, ERR)); /* shares the bytes of all */
    for (uint64_t i = 0; i < 12; i++) {
        own_pack_file(from, f, "latest~1");
        MUST(ckpt_remove(f->store, "latest~1", false, ERR));
        assert_int_equal(unlink(from), 0);
    }
    assert_int_equal(repair(&result, f), CKPT_EDATA);
    assert_int_equal(result.row_count, 12);
    for (size_t i = 0; i < 12; i++)
        assert_int_equal(result.rows[i].hurt_count, 1);
    ckpt_repair_result_clear(&result);
    assert_mends_with(f, &options, "pack", "copied from");
    ckpt_store_close(other.store);
}

/* The second store has the same tensor in a pack of other files: the coded bytes are the same. */
static void a_frame_whose_coded_bytes_are_elsewhere_makes_its_pack_whole(void **state)
{
    fixture *const f = *state;
    fixture other = {0};
    char path[FILE_PATH_MAX], good[FILE_PATH_MAX];
    other_open(&other, f);
    const ckpt_repair_options options = {.size = sizeof options, .from = other.root};
    const ckpt_save_result saved = save_floats(f, 0, 1);
    own_pack_file(path, f, "latest");
    join(good, f->root, "good.pack");
    file_copy(good, path);
    static const ckpt_value VALUE = {"note", "so that the pack is another one"};
    float *const weight = malloc(FLOATS * sizeof *weight);
    assert_non_null(weight);
    const ckpt_tensor tensor = {"weight", CKPT_F32, 1, {FLOATS}, weight};
    MUST(ckpt_restore_tensors(f->store, "latest", &tensor, 1, ERR));
    MUST(ckpt_save_tensors(NULL, other.store, NULL, &tensor, 1, &VALUE, 1, NULL, ERR));
    free(weight);

    wipe(path, PACK_HEADER_SIZE + 100000, 50);
    assert_remains(f, "pack", "what is good of it still restores");
    assert_mends_with(f, &options, "pack", "made whole with equal frames");
    assert_same_bytes(good, path);
    assert_holds_floats(f, saved.id, 0, 1);
    ckpt_store_close(other.store);
}

/* In the second store the same tensor is a difference from another one, so that its coded bytes do not help, but what
 * they decode to does; and packs of this store name the one that is written anew. */
static void a_frame_whose_decoded_bytes_are_elsewhere_gives_new_packs(void **state)
{
    fixture *const f = *state;
    fixture other = {0};
    char path[FILE_PATH_MAX], kept[FILE_PATH_MAX];
    sha256 damaged, own;
    other_open(&other, f);
    const ckpt_repair_options options = {.size = sizeof options, .from = other.root};
    const ckpt_save_result first = save_floats(f, 0, 1), second = save_floats(f, 1e-6f, 1),
                           third = save_floats(f, 2e-6f, 1), apart = save_floats(f, 0, 99);
    save_floats(&other, 1e-7f, 1);
    save_floats(&other, 0, 1);
    own_pack(&damaged, f, first.id);
    own_pack_file(path, f, first.id);
    wipe(path, PACK_HEADER_SIZE + 100000, 50);
    assert_int_equal(verify_at(f, CKPT_VERIFY_FULL), CKPT_EDATA);

    ckpt_repair_result result;
    assert_int_equal(repair_with(&result, f, &options), 0);
    assert_true(has_row(&result, "pack", "written anew with equal frames", true));
    ckpt_repair_result_clear(&result);
    assert_int_equal(verify_at(f, CKPT_VERIFY_FULL), 0);
    assert_holds_floats(f, first.id, 0, 1); /* the ids are as they were */
    assert_holds_floats(f, second.id, 1e-6f, 1);
    assert_holds_floats(f, third.id, 2e-6f, 1);
    assert_holds_floats(f, apart.id, 0, 99);
    own_pack(&own, f, first.id);
    assert_int_not_equal(sha256_compare(&own, &damaged), 0);
    assert_false(exists(path));
    join(kept, f->store->damaged_dir, path_base(path));
    assert_true(exists(kept));

    MUST(ckpt_prune(NULL, f->store, NULL, ERR)); /* the packs that were written anew have taken the old ones' place */
    assert_int_equal(count_files(f->store->packs_dir), 4);
    assert_int_equal(verify_at(f, CKPT_VERIFY_FULL), 0);
    assert_int_equal(repair_with(&result, f, &options), 0);
    assert_int_equal(result.row_count, 0);
    ckpt_repair_result_clear(&result);
    ckpt_store_close(other.store);
}

/* Saved again after the damage, the bytes are in this store once more. */
static void a_frame_that_was_saved_again_makes_the_old_pack_whole(void **state)
{
    fixture *const f = *state;
    char path[FILE_PATH_MAX];
    const ckpt_save_result first = save_floats(f, 0, 1);
    save_floats(f, 0, 2); /* so that the save below is not the very pack again */
    own_pack_file(path, f, first.id);
    wipe(path, PACK_HEADER_SIZE + 100000, 50);
    fixture_reopen(f);
    const ckpt_save_result again = save_floats(f, 0, 1);
    assert_holds_floats(f, again.id, 0, 1);
    assert_mends(f, "pack", "equal frames from elsewhere");
    assert_holds_floats(f, first.id, 0, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_lost_or_damaged_pack_comes_from_a_store_that_has_it, tree_setup,
                                        tree_teardown),
        cmocka_unit_test_setup_teardown(all_missing_packs_of_one_checkpoint_come_back, tree_setup, tree_teardown),
        cmocka_unit_test_setup_teardown(a_frame_whose_coded_bytes_are_elsewhere_makes_its_pack_whole, tree_setup,
                                        tree_teardown),
        cmocka_unit_test_setup_teardown(a_frame_whose_decoded_bytes_are_elsewhere_gives_new_packs, tree_setup,
                                        tree_teardown),
        cmocka_unit_test_setup_teardown(a_frame_that_was_saved_again_makes_the_old_pack_whole, tree_setup,
                                        tree_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
