/* Saves into a store whose packs are damaged: what they give must be good, whatever they find. */
#include "repair_fixture.h"

/* One place in each region of a pack: header, first frame, the middle, tables, footer. */
static off_t place_of(const char *path, int region)
{
    const off_t size = size_of(path);
    const off_t places[] = {3, PACK_HEADER_SIZE + 5, size / 2, -PACK_FOOTER_SIZE - 5, -5};
    return places[region];
}
#define REGIONS 5

/* The very bytes again: where nothing can be shared, the new pack is the damaged one's namesake. */
static void the_same_file_saved_again_makes_a_good_checkpoint(void **state)
{
    fixture *const f = *state;
    char file[FILE_PATH_MAX], path[FILE_PATH_MAX];
    for (int region = 0; region < REGIONS; region++) {
        noise_saved(file, f, (uint64_t)region, 0);
        own_pack_file(path, f, "latest");
        flip_bit(path, place_of(path, region));
        fixture_reopen(f);
        const ckpt_save_result again = save_path(f, file);
        fixture_reopen(f);
        assert_restores(f, again.id, file);
    }
}

static void a_damaged_namesake_is_replaced_kept_and_told(void **state)
{
    fixture *const f = *state;
    char file[FILE_PATH_MAX], path[FILE_PATH_MAX];
    const ckpt_save_result first = noise_saved(file, f, 1, 0);
    own_pack_file(path, f, "latest");
    flip_bit(path, PACK_HEADER_SIZE + 5);
    fixture_reopen(f);
    save_path(f, file);
    assert_non_null(strstr(f->note, "was damaged, and this save has its very bytes"));
    assert_int_equal(count_files(f->store->damaged_dir), 1);
    assert_int_equal(verify_at(f, CKPT_VERIFY_FULL), 0);
    assert_restores(f, first.id, file);
}

static void saves_near_damaged_frames_make_good_checkpoints(void **state)
{
    fixture *const f = *state;
    char id[CKPT_ID_SIZE], path[FILE_PATH_MAX];
    static float weight[FIXTURE_TENSOR_FLOATS];
    ckpt_save_result saved;
    for (int region = 0; region < REGIONS; region++) {
        for (size_t i = 0; i < FIXTURE_TENSOR_FLOATS; i++)
            weight[i] = (float)((i * 2654435761u + (unsigned)region * 77u) % 10007u) * 1e-4f;
        const ckpt_tensor tensor = {"weight", CKPT_F32, 1, {FIXTURE_TENSOR_FLOATS}, weight};
        MUST(ckpt_save_tensors(&saved, f->store, NULL, &tensor, 1, NULL, 0, NULL, ERR));
        memcpy(id, saved.id, sizeof id);
        own_pack_file(path, f, id);
        flip_bit(path, place_of(path, region));
        fixture_reopen(f);
        for (size_t i = 0; i < FIXTURE_TENSOR_FLOATS; i += 2)
            weight[i] += 1e-7f;
        MUST(ckpt_save_tensors(&saved, f->store, NULL, &tensor, 1, NULL, 0, NULL, ERR));
        static float restored[FIXTURE_TENSOR_FLOATS];
        const ckpt_tensor out = {"weight", CKPT_F32, 1, {FIXTURE_TENSOR_FLOATS}, restored};
        fixture_reopen(f);
        MUST(ckpt_restore_tensors(f->store, saved.id, &out, 1, ERR));
        assert_memory_equal(restored, weight, sizeof weight);
    }
}

static void a_checkpoint_saved_after_damage_does_not_need_the_damaged_pack(void **state)
{
    fixture *const f = *state;
    char file[FILE_PATH_MAX], path[FILE_PATH_MAX], name[FILE_PATH_MAX];
    noise_saved(file, f, 1, 0);
    own_pack_file(path, f, "latest");
    flip_bit(path, PACK_HEADER_SIZE + 5);
    join(name, f->root, "another name"); /* so that it is another pack */
    file_copy(name, file);
    fixture_reopen(f);
    const ckpt_save_result again = save_path(f, name);
    assert_int_equal(unlink(path), 0);
    fixture_reopen(f);
    assert_restores(f, again.id, name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_same_file_saved_again_makes_a_good_checkpoint, tree_setup, tree_teardown),
        cmocka_unit_test_setup_teardown(a_damaged_namesake_is_replaced_kept_and_told, tree_setup, tree_teardown),
        cmocka_unit_test_setup_teardown(saves_near_damaged_frames_make_good_checkpoints, tree_setup, tree_teardown),
        cmocka_unit_test_setup_teardown(a_checkpoint_saved_after_damage_does_not_need_the_damaged_pack, tree_setup,
                                        tree_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
