/* Repair, and what others do to the store between its looks: the first time that it waits for the lease `prune`, which
 * is held, the other one acts and then lets it have the lease. */
#include "repair_fixture.h"

#define FLOATS 200000 /* several chunks */

typedef struct meanwhile {
    fixture *f;
    lease *held; /* NULL: it has acted */
    void (*act)(const struct meanwhile *m);
    char at[FILE_PATH_MAX], kept[FILE_PATH_MAX]; /* a file of the store, and its copy outside */
} meanwhile;

static int progress(void *payload, uint64_t done_bytes, uint64_t total_bytes)
{
    meanwhile *const m = payload;
    (void)done_bytes;
    if (total_bytes > 0 || !m->held) /* it reads, and does not wait */
        return 0;
    m->act(m);
    lease_release(m->held);
    m->held = NULL;
    return 0;
}

/* Repairs while the other one acts. */
static int repair_meanwhile_into(ckpt_repair_result *result, meanwhile *m, const ckpt_repair_options *options,
                                 ckpt_error *err)
{
    fixture *const f = m->f;
    const ckpt_open_options open = {.size = sizeof open, .threads = 2, .progress = progress, .payload = m};
    ckpt_store_close(f->store);
    MUST(ckpt_store_open(&f->store, f->root, &open, ERR));
    MUST(prune_lease_take(&m->held, f->store, 0, ERR));
    const int rc = ckpt_repair(result, f->store, options, err);
    assert_null(m->held); /* it has waited */
    fixture_reopen(f);
    return rc;
}

static int repair_meanwhile(ckpt_repair_result *result, meanwhile *m, const ckpt_repair_options *options)
{
    ckpt_error err = {0};
    const int rc = repair_meanwhile_into(result, m, options, &err);
    if (rc != 0 && rc != CKPT_EDATA)
        fail_msg("%s", err.message);
    return rc;
}

/* Called in place of the C library's: before packs/ is listed for the first time, two files go, if they are named. */
static const char *goes_first[2];

DIR *opendir(const char *path)
{
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (size_t i = 0; strcmp(path_base(path), "packs") == 0 && i < 2; i++)
        if (goes_first[i]) {
            assert_int_equal(unlink(goes_first[i]), 0);
            goes_first[i] = NULL;
        }
    return fd < 0 ? NULL : fdopendir(fd);
}

static void file_goes(const meanwhile *m)
{
    assert_int_equal(unlink(m->at), 0);
}

static void file_comes_back(const meanwhile *m)
{
    file_copy(m->at, m->kept);
}

/* Takes a file out of the store, to bring it back later. */
static void take_out(meanwhile *m)
{
    join(m->kept, m->f->root, "kept");
    file_copy(m->kept, m->at);
    assert_int_equal(unlink(m->at), 0);
    m->act = file_comes_back;
}

static void a_checkpoint_that_was_removed_and_pruned_meanwhile_lacks_nothing(void **state)
{
    fixture *const f = *state;
    char file[FILE_PATH_MAX], snapshot_path[FILE_PATH_MAX], pack_path[FILE_PATH_MAX];
    ckpt_repair_result result;
    noise_saved(file, f, 1, 0);
    noise_saved(file, f, 2, 0);
    snapshot_file(snapshot_path, f, "latest");
    own_pack_file(pack_path, f, "latest");
    fixture_reopen(f);
    goes_first[0] = snapshot_path;
    goes_first[1] = pack_path;
    assert_int_equal(ckpt_repair(&result, f->store, NULL, NULL), 0);
    assert_null(goes_first[0]);
    assert_int_equal(result.row_count, 0);
    ckpt_repair_result_clear(&result);
}

static void a_damaged_snapshot_that_was_removed_meanwhile_stays_removed(void **state)
{
    fixture *const f = *state;
    char file[FILE_PATH_MAX];
    ckpt_repair_result result;
    meanwhile m = {.f = f, .act = file_goes};
    noise_saved(file, f, 1, 0);
    snapshot_file(m.at, f, "latest");
    flip_bit(m.at, 30);

    assert_int_equal(repair_meanwhile(&result, &m, NULL), 0);
    assert_true(has_row(&result, "snapshot", "removed meanwhile", true));
    ckpt_repair_result_clear(&result);
    assert_false(exists(m.at));
}

static void one_that_would_be_made_anew_stays_removed_too(void **state)
{
    fixture *const f = *state;
    char file[FILE_PATH_MAX];
    ckpt_repair_result result;
    meanwhile m = {.f = f, .act = file_goes};
    noise_saved(file, f, 1, 0);
    snapshot_file(m.at, f, "latest");
    flip_bit(m.at, 30);
    flip_bit(m.at, 60); /* more than one byte */

    assert_int_equal(repair_meanwhile(&result, &m, NULL), 0);
    assert_true(has_row(&result, "snapshot", "removed meanwhile", true));
    ckpt_repair_result_clear(&result);
    assert_int_equal(count_files(f->store->snapshots_dir), 0);
}

static void a_pack_that_was_pruned_meanwhile_is_not_adopted(void **state)
{
    fixture *const f = *state;
    char file[FILE_PATH_MAX];
    meanwhile m = {.f = f, .act = file_goes};
    const ckpt_repair_options options = {.size = sizeof options, .adopt = true};
    noise_saved(file, f, 1, 0);
    own_pack_file(m.at, f, "latest");
    MUST(ckpt_remove(f->store, "latest", false, ERR));

    assert_int_equal(repair_meanwhile(NULL, &m, &options), 0);
    assert_int_equal(count_files(f->store->snapshots_dir), 0);
}

static void a_damaged_pack_that_a_new_checkpoint_needs_stays(void **state)
{
    fixture *const f = *state;
    char file[FILE_PATH_MAX], pack_path[FILE_PATH_MAX];
    ckpt_repair_result result;
    meanwhile m = {.f = f};
    noise_saved(file, f, 1, 0);
    own_pack_file(pack_path, f, "latest");
    snapshot_file(m.at, f, "latest");
    flip_bit(pack_path, PACK_HEADER_SIZE + 500);
    take_out(&m);

    assert_int_equal(repair_meanwhile(&result, &m, NULL), CKPT_EDATA);
    assert_true(has_row(&result, "pack", "a save may need it", false));
    ckpt_repair_result_clear(&result);
    assert_true(exists(pack_path));
}

static void the_tag_of_a_checkpoint_that_was_saved_meanwhile_stays(void **state)
{
    fixture *const f = *state;
    char file[FILE_PATH_MAX];
    ckpt_repair_result result;
    meanwhile m = {.f = f};
    const ckpt_save_result saved = noise_saved(file, f, 1, 0);
    MUST(ckpt_tag_set(f->store, "good", saved.id, false, ERR));
    snapshot_file(m.at, f, "latest");
    take_out(&m);

    assert_int_equal(repair_meanwhile(&result, &m, NULL), 0);
    assert_int_equal(result.row_count, 0);
    ckpt_repair_result_clear(&result);
    assert_restores(f, "good", file);
}

static ckpt_save_result save_floats(ckpt_store *store, float change)
{
    float *const weight = malloc(FLOATS * sizeof *weight);
    ckpt_save_result result;
    uint64_t x = 1;
    assert_non_null(weight);
    for (size_t i = 0; i < FLOATS; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        weight[i] = (float)(x >> 40) * (1 + change * (float)(i % 7));
    }
    const ckpt_tensor tensor = {"weight", CKPT_F32, 1, {FLOATS}, weight};
    MUST(ckpt_save_tensors(&result, store, NULL, &tensor, 1, NULL, 0, NULL, ERR));
    free(weight);
    return result;
}

/* The damaged frame is in the second store as a difference, so that the pack is written anew, and the one that names
 * it too. */
static void a_checkpoint_that_was_removed_while_its_pack_was_written_anew_stays_removed(void **state)
{
    fixture *const f = *state;
    char path[FILE_PATH_MAX], root[FILE_PATH_MAX];
    ckpt_store *second = NULL;
    ckpt_repair_result result;
    meanwhile m = {.f = f, .act = file_goes};
    join(root, f->root, "second");
    const ckpt_repair_options options = {.size = sizeof options, .from = root};
    make_dir(f->root, "second");
    MUST(ckpt_store_init(NULL, root, ERR));
    MUST(ckpt_store_open(&second, root, NULL, ERR));
    save_floats(second, 1e-7f);
    save_floats(second, 0);
    ckpt_store_close(second);
    const ckpt_save_result base = save_floats(f->store, 0);
    save_floats(f->store, 1e-6f);
    snapshot_file(m.at, f, "latest");
    own_pack_file(path, f, base.id);
    wipe(path, PACK_HEADER_SIZE + 100000, 50);

    assert_int_equal(repair_meanwhile(&result, &m, &options), 0);
    assert_true(has_row(&result, "pack", "written anew with equal frames", true));
    ckpt_repair_result_clear(&result);
    assert_false(exists(m.at));
    assert_int_equal(verify_at(f, CKPT_VERIFY_FULL), 0);
}

/* The damaged pack is a difference itself, so that the new one in its place would name the pack that goes. */
static void packs_that_would_name_a_pack_which_went_meanwhile_do_not_come(void **state)
{
    fixture *const f = *state;
    char path[FILE_PATH_MAX], root[FILE_PATH_MAX];
    ckpt_store *second = NULL;
    ckpt_error err;
    meanwhile m = {.f = f, .act = file_goes};
    join(root, f->root, "second");
    const ckpt_repair_options options = {.size = sizeof options, .from = root};
    make_dir(f->root, "second");
    MUST(ckpt_store_init(NULL, root, ERR));
    MUST(ckpt_store_open(&second, root, NULL, ERR));
    save_floats(second, 1e-6f);
    ckpt_store_close(second);
    save_floats(f->store, 0);
    own_pack_file(m.at, f, "latest");
    save_floats(f->store, 1e-6f);
    own_pack_file(path, f, "latest");
    wipe(path, PACK_HEADER_SIZE + 100000, 50);

    assert_int_equal(repair_meanwhile_into(NULL, &m, &options, &err), CKPT_EBUSY);
    assert_non_null(strstr(err.message, "removed packs meanwhile"));
    assert_int_equal(count_files(f->store->packs_dir), 1);
    assert_int_equal(count_files(f->store->tmp_dir), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_checkpoint_that_was_removed_and_pruned_meanwhile_lacks_nothing, tree_setup,
                                        tree_teardown),
        cmocka_unit_test_setup_teardown(a_damaged_snapshot_that_was_removed_meanwhile_stays_removed, tree_setup,
                                        tree_teardown),
        cmocka_unit_test_setup_teardown(one_that_would_be_made_anew_stays_removed_too, tree_setup, tree_teardown),
        cmocka_unit_test_setup_teardown(a_pack_that_was_pruned_meanwhile_is_not_adopted, tree_setup, tree_teardown),
        cmocka_unit_test_setup_teardown(a_damaged_pack_that_a_new_checkpoint_needs_stays, tree_setup, tree_teardown),
        cmocka_unit_test_setup_teardown(the_tag_of_a_checkpoint_that_was_saved_meanwhile_stays, tree_setup,
                                        tree_teardown),
        cmocka_unit_test_setup_teardown(a_checkpoint_that_was_removed_while_its_pack_was_written_anew_stays_removed,
                                        tree_setup, tree_teardown),
        cmocka_unit_test_setup_teardown(packs_that_would_name_a_pack_which_went_meanwhile_do_not_come, tree_setup,
                                        tree_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
