#include "store_fixture.h"

#include "open_packs.h"

static void edit_config(fixture *f, const char *from, const char *to)
{
    char *const text = read_text(f->store->config_path), edited[8192];
    char *const at = strstr(text, from);
    assert_non_null(at);
    snprintf(edited, sizeof edited, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    write_text(f->store->config_path, edited);
    free(text);
}

static int open_code(const char *path, ckpt_error *err)
{
    ckpt_store *store = NULL;
    const int rc = ckpt_store_open(&store, path, NULL, err);
    assert_int_equal(rc == 0, store != NULL);
    ckpt_store_close(store);
    return rc;
}

/* ---- Creating ---- */

static void init_makes_the_folders_and_a_config_that_reads_as_a_manual(void **state)
{
    fixture *const f = *state;
    static const char *const FOLDERS[] = {"packs", "cache", "snapshots", "tags", "intents", "tmp"};
    char path[FILE_PATH_MAX];
    for (size_t i = 0; i < sizeof FOLDERS / sizeof FOLDERS[0]; i++) {
        struct stat st;
        MUST(path_join(path, f->store->path, FOLDERS[i], ERR));
        assert_int_equal(stat(path, &st), 0);
        assert_true(S_ISDIR(st.st_mode));
    }
    assert_int_equal(count_files(f->store->tmp_dir), 0);
    char *value;
    MUST(store_config_get(&value, f->store, "retention", "keep", ERR));
    assert_string_equal(value, "last 5, best 2, every 10000 steps, tagged");
    free(value);
    MUST(store_config_get(&value, f->store, "retention", "best", ERR));
    assert_string_equal(value, "val_acc max");
    free(value);
    MUST(store_config_get(&value, f->store, "store", "id", ERR));
    assert_int_equal(strlen(value), 32);
    assert_int_equal(strspn(value, "0123456789abcdef"), 32);
    free(value);
    MUST(store_config_get(&value, f->store, "store", "nothing", ERR));
    assert_null(value);
}

static void init_leaves_a_complete_store_as_it_is(void **state)
{
    fixture *const f = *state;
    bool existed = false;
    char *const before = read_text(f->store->config_path);
    MUST(ckpt_store_init(&existed, f->root, ERR));
    char *const after = read_text(f->store->config_path);
    assert_true(existed);
    assert_string_equal(before, after);
    free(before);
    free(after);
}

static void init_completes_a_creation_that_was_cut_short(void **state)
{
    fixture *const f = *state;
    ckpt_error err = {0};
    bool existed = true;
    assert_int_equal(unlink(f->store->config_path), 0);
    assert_int_equal(rmdir(f->store->tags_dir), 0);
    assert_int_equal(open_code(f->root, &err), CKPT_ENOSTORE);
    assert_non_null(strstr(err.hint, "ckpt init"));
    MUST(ckpt_store_init(&existed, f->root, ERR));
    assert_false(existed);
    assert_int_equal(open_code(f->root, NULL), 0);
    assert_true(exists(f->store->tags_dir));
}

static void init_takes_the_store_s_own_name_and_makes_parents(void **state)
{
    fixture *const f = *state;
    char path[FILE_PATH_MAX], nested[FILE_PATH_MAX];
    snprintf(path, sizeof path, "%s/a/b/.ckpt", f->root);
    MUST(ckpt_store_init(NULL, path, ERR));
    assert_int_equal(open_code(path, NULL), 0);
    MUST(path_join(nested, path, ".ckpt", ERR));
    assert_false(exists(nested));
}

/* ---- Finding ---- */

static void assert_opens(const char *path, const char *expected)
{
    ckpt_store *store = NULL;
    char *const real = realpath(expected, NULL);
    MUST(ckpt_store_open(&store, path, NULL, ERR));
    assert_string_equal(ckpt_store_path(store), real);
    ckpt_store_close(store);
    free(real);
}

static void a_store_opens_by_itself_and_by_its_parent(void **state)
{
    fixture *const f = *state;
    char slashed[FILE_PATH_MAX];
    snprintf(slashed, sizeof slashed, "%s/", f->root);
    assert_opens(f->store->path, f->store->path);
    assert_opens(f->root, f->store->path);
    assert_opens(slashed, f->store->path);
}

static void without_a_path_the_nearest_store_upwards_opens(void **state)
{
    fixture *const f = *state;
    char deep[FILE_PATH_MAX], inner[FILE_PATH_MAX], before[FILE_PATH_MAX];
    assert_non_null(getcwd(before, sizeof before));
    unsetenv("CKPT_STORE");
    snprintf(inner, sizeof inner, "%s/in", f->root);
    snprintf(deep, sizeof deep, "%s/in/a/b", f->root);
    MUST(dir_make_all(deep, ERR));
    assert_int_equal(chdir(deep), 0);
    assert_opens(NULL, f->store->path);
    assert_int_equal(chdir(f->store->packs_dir), 0);
    assert_opens(NULL, f->store->path);
    MUST(ckpt_store_init(NULL, inner, ERR));
    snprintf(inner, sizeof inner, "%s/in/.ckpt", f->root);
    assert_int_equal(chdir(deep), 0);
    assert_opens(NULL, inner);
    setenv("CKPT_STORE", f->root, 1);
    assert_opens(NULL, f->store->path);
    assert_opens(inner, inner);
    unsetenv("CKPT_STORE");
    assert_int_equal(chdir(before), 0);
}

static void no_store_is_said_with_a_hint(void **state)
{
    fixture *const f = *state;
    ckpt_error err = {0};
    char empty[FILE_PATH_MAX], before[FILE_PATH_MAX];
    assert_non_null(getcwd(before, sizeof before));
    unsetenv("CKPT_STORE");
    assert_int_equal(open_code("/proc/self/nowhere", &err), CKPT_ENOSTORE);
    assert_non_null(strstr(err.hint, "ckpt init"));
    snprintf(empty, sizeof empty, "%s/.ckpt/tmp", f->root);
    assert_int_equal(open_code(empty, &err), CKPT_ENOSTORE);
    assert_int_equal(chdir("/"), 0);
    if (!exists("/.ckpt")) {
        assert_int_equal(open_code(NULL, &err), CKPT_ENOSTORE);
        assert_string_equal(err.message, "no store here or in any folder above");
    }
    assert_int_equal(chdir(before), 0);
}

/* ---- Refusing ---- */

static void a_newer_version_is_refused(void **state)
{
    fixture *const f = *state;
    ckpt_error err = {0};
    edit_config(f, "version = 1", "version = 2");
    assert_int_equal(open_code(f->root, &err), CKPT_EVERSION);
    assert_string_equal(err.hint, "use a newer ckpt");
    assert_string_equal(err.where, f->store->path);
}

static void an_unknown_incompatible_feature_is_refused_by_name(void **state)
{
    fixture *const f = *state;
    ckpt_error err = {0};
    edit_config(f, "incompatible =", "incompatible = holes");
    assert_int_equal(open_code(f->root, &err), CKPT_EVERSION);
    assert_non_null(strstr(err.message, "`holes`"));
}

static void an_unknown_read_only_feature_lets_read_and_not_write(void **state)
{
    fixture *const f = *state;
    ckpt_error err = {0};
    char id[CKPT_ID_SIZE], found[CKPT_ID_SIZE];
    save_step(id, f, 1, 1);
    edit_config(f, "read-only =", "read-only = parity");
    fixture_reopen(f);
    MUST(ckpt_find(found, f->store, "latest", ERR));
    assert_string_equal(found, id);
    assert_int_equal(store_writable(f->store, &err), CKPT_EVERSION);
    assert_int_equal(ckpt_tag_set(f->store, "a", "latest", false, NULL), CKPT_EVERSION);
    assert_int_equal(ckpt_prune(NULL, f->store, NULL, NULL), CKPT_EVERSION);
    assert_int_equal(ckpt_remove(f->store, "latest", true, NULL), CKPT_EVERSION);
}

static void an_unknown_compatible_feature_does_no_harm(void **state)
{
    fixture *const f = *state;
    edit_config(f, "\ncompatible =", "\ncompatible = thumbnails, charts");
    fixture_reopen(f);
    MUST(store_writable(f->store, ERR));
}

static void a_folder_with_another_config_is_not_a_store(void **state)
{
    fixture *const f = *state;
    ckpt_error err = {0};
    write_text(f->store->config_path, "[model]\nlayers = 18\n");
    assert_int_equal(open_code(f->store->path, &err), CKPT_EDATA);
    assert_non_null(strstr(err.message, "is not a store"));
    assert_int_equal(ckpt_store_init(NULL, f->root, NULL), CKPT_EDATA);
}

static void a_version_that_is_no_number_is_damage(void **state)
{
    fixture *const f = *state;
    static const char *const BAD[] = {"version = one", "version = 1x", "version = -1", "version = 0",
                                      "version = +1",  "version = 01", "version ="};
    const char *last = "version = 1";
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
        edit_config(f, last, BAD[i]);
        assert_int_equal(open_code(f->root, NULL), CKPT_EDATA);
        last = BAD[i];
    }
}

static void a_folder_in_place_of_the_config_is_damage(void **state)
{
    fixture *const f = *state;
    assert_int_equal(unlink(f->store->config_path), 0);
    assert_int_equal(mkdir(f->store->config_path, 0777), 0);
    assert_int_equal(open_code(f->root, NULL), CKPT_EDATA);
}

static void folders_that_a_copy_lost_are_made_again_before_writing(void **state)
{
    fixture *const f = *state;
    char id[CKPT_ID_SIZE];
    save_step(id, f, 1, 1);
    assert_int_equal(rmdir(f->store->tags_dir), 0);
    assert_int_equal(rmdir(f->store->intents_dir), 0);
    assert_int_equal(rmdir(f->store->tmp_dir), 0);
    fixture_reopen(f);
    ckpt_list *list;
    MUST(ckpt_list_new(&list, f->store, ERR));
    assert_int_equal(ckpt_list_count(list), 1);
    ckpt_list_free(list);
    MUST(ckpt_verify(NULL, f->store, &VERIFY_FULL, ERR));
    MUST(ckpt_tag_set(f->store, "first", "latest", false, ERR));
}

static void a_store_that_may_not_be_written_is_read(void **state)
{
    fixture *const f = *state;
    ckpt_error err = {0};
    char id[CKPT_ID_SIZE], found[CKPT_ID_SIZE];
    if (geteuid() == 0)
        skip(); /* root may write everywhere */
    save_step(id, f, 1, 1);
    assert_int_equal(chmod(f->store->path, 0500), 0);
    fixture_reopen(f);
    MUST(ckpt_find(found, f->store, "latest", ERR));
    assert_int_equal(store_writable(f->store, &err), CKPT_EIO);
    assert_true(err.hint[0] != 0);
    assert_int_equal(chmod(f->store->path, 0700), 0);
}

/* ---- Options ---- */

static void options_of_other_sizes_are_understood(void **state)
{
    (void)state;
    struct older {
        size_t size;
        unsigned threads;
    } older = {sizeof older, 3};
    struct newer {
        ckpt_open_options known;
        int more;
    } newer = {{.size = sizeof newer, .threads = 5}, 7};
    ckpt_open_options own = {.size = sizeof own, .payload = &own};
    MUST(store_options(&own, sizeof own, &older, ERR));
    assert_int_equal(own.threads, 3);
    assert_ptr_equal(own.payload, &own);
    assert_int_equal(own.size, sizeof own);
    MUST(store_options(&own, sizeof own, &newer, ERR));
    assert_int_equal(own.threads, 5);
    assert_int_equal(own.size, sizeof own);
    assert_int_equal(store_options(&own, sizeof own, &(ckpt_open_options){.threads = 1}, NULL), CKPT_EUSAGE);
}

/* ---- Stores that are open for days ---- */

static void a_store_at_rest_has_no_pack_open(void **state)
{
    fixture *const f = *state;
    char id[CKPT_ID_SIZE];
    ckpt_content *first = NULL, *second = NULL;
    for (uint64_t i = 0; i < 3; i++) {
        save_step(id, f, i, (int64_t)i);
        assert_int_equal(open_packs(), 0);
    }
    MUST(ckpt_content_open(&first, f->store, "step:0", ERR));
    MUST(ckpt_content_open(&second, f->store, "step:2", ERR));
    ckpt_content_close(first);
    assert_true(open_packs() > 0);
    ckpt_content_close(second);
    assert_int_equal(open_packs(), 0);
    assert_int_equal(ckpt_content_open(&first, f->store, "step:7", NULL), CKPT_ENOTFOUND);
    MUST(ckpt_restore_files(NULL, f->store, "latest",
                            &(ckpt_restore_options){.size = sizeof(ckpt_restore_options), .dir = f->root}, ERR));
    assert_int_equal(open_packs(), 0);
}

/* The packs of an open content stay, whatever else its store does meanwhile. */
static void a_content_is_read_after_its_store_saved_much_and_pruned_it(void **state)
{
    fixture *const f = *state;
    char id[CKPT_ID_SIZE];
    ckpt_content *content = NULL;
    ckpt_prune_result pruned;
    float weight[FIXTURE_TENSOR_FLOATS], again[FIXTURE_TENSOR_FLOATS];
    const ckpt_prune_options keep = {.size = sizeof keep, .keep = "last 1"};
    save_noise(id, f, 7);
    save_step(id, f, 0, 0);
    MUST(ckpt_content_open(&content, f->store, id, ERR));
    MUST(ckpt_content_read(weight, content, 0, 0, FIXTURE_TENSOR_FLOATS, ERR));
    ckpt_content_close(content);

    MUST(ckpt_content_open(&content, f->store, id, ERR));
    for (uint64_t i = 1; i < PACK_SET_KEPT_MAX + 4; i++)
        save_noise(id, f, i);
    MUST(ckpt_prune(&pruned, f->store, &keep, ERR));
    assert_true(pruned.removed_packs > PACK_SET_KEPT_MAX);
    ckpt_prune_result_clear(&pruned);
    MUST(ckpt_content_read(again, content, 0, 0, FIXTURE_TENSOR_FLOATS, ERR));
    assert_memory_equal(again, weight, sizeof weight);
    ckpt_content_close(content);
}

static void a_store_whose_config_went_takes_nothing_until_it_is_made_again(void **state)
{
    fixture *const f = *state;
    const ckpt_tensor tensor = {"weight", CKPT_F32, 1, {1}, &(float){1}};
    char id[CKPT_ID_SIZE];
    bool existed = true;
    save_noise(id, f, 1);
    assert_int_equal(unlink(f->store->config_path), 0);
    assert_int_equal(rmdir(f->store->intents_dir), 0);
    assert_int_equal(ckpt_save_tensors(NULL, f->store, NULL, &tensor, 1, NULL, 0, NULL, NULL), CKPT_ENOSTORE);
    assert_int_equal(ckpt_tag_set(f->store, "x", id, false, NULL), CKPT_ENOSTORE);
    assert_int_equal(access(f->store->intents_dir, F_OK), -1);
    MUST(ckpt_store_init(&existed, f->store->path, ERR));
    assert_false(existed);
    MUST(ckpt_save_tensors(NULL, f->store, NULL, &tensor, 1, NULL, 0, NULL, ERR));
    assert_int_equal(count_files(f->store->snapshots_dir), 2);
}

#define STORE_TEST(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(init_makes_the_folders_and_a_config_that_reads_as_a_manual),
        STORE_TEST(a_store_whose_config_went_takes_nothing_until_it_is_made_again),
        STORE_TEST(init_leaves_a_complete_store_as_it_is),
        STORE_TEST(init_completes_a_creation_that_was_cut_short),
        STORE_TEST(init_takes_the_store_s_own_name_and_makes_parents),
        STORE_TEST(a_store_opens_by_itself_and_by_its_parent),
        STORE_TEST(without_a_path_the_nearest_store_upwards_opens),
        STORE_TEST(no_store_is_said_with_a_hint),
        STORE_TEST(a_newer_version_is_refused),
        STORE_TEST(an_unknown_incompatible_feature_is_refused_by_name),
        STORE_TEST(an_unknown_read_only_feature_lets_read_and_not_write),
        STORE_TEST(an_unknown_compatible_feature_does_no_harm),
        STORE_TEST(a_folder_with_another_config_is_not_a_store),
        STORE_TEST(a_version_that_is_no_number_is_damage),
        STORE_TEST(a_folder_in_place_of_the_config_is_damage),
        STORE_TEST(folders_that_a_copy_lost_are_made_again_before_writing),
        STORE_TEST(a_store_that_may_not_be_written_is_read),
        STORE_TEST(options_of_other_sizes_are_understood),
        STORE_TEST(a_store_at_rest_has_no_pack_open),
        STORE_TEST(a_content_is_read_after_its_store_saved_much_and_pruned_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
