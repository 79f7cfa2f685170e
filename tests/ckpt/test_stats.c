#include "store_fixture.h"

static const ckpt_stats_class *class_of(const ckpt_stats *stats, const char *name)
{
    for (size_t i = 0; i < stats->class_count; i++)
        if (strcmp(stats->classes[i].name, name) == 0)
            return &stats->classes[i];
    return NULL;
}

typedef struct folder {
    const char *dir;
    uint64_t bytes;
} folder;

static int add_size(void *payload, const char *name, ckpt_error *err)
{
    folder *const f = payload;
    char path[FILE_PATH_MAX];
    struct stat st;
    (void)err;
    MUST(path_join(path, f->dir, name, ERR));
    assert_int_equal(stat(path, &st), 0);
    f->bytes += (uint64_t)st.st_size;
    return 0;
}

static uint64_t folder_bytes(const char *dir)
{
    folder f = {dir, 0};
    MUST(dir_each(dir, add_size, &f, ERR));
    return f.bytes;
}

static void sizes_are_those_of_the_files(void **state)
{
    fixture *const f = *state;
    char id[CKPT_ID_SIZE];
    ckpt_stats stats;
    save_step(id, f, 1, 1);
    save_step(id, f, 2, 2);
    MUST(ckpt_stats_get(&stats, f->store, ERR));
    assert_int_equal(stats.checkpoints, 2);
    assert_int_equal(stats.packs, 2);
    assert_int_equal(stats.pack_bytes, folder_bytes(f->store->packs_dir));
    assert_int_equal(stats.snapshot_bytes, folder_bytes(f->store->snapshots_dir));
    assert_int_equal(stats.cache_bytes, folder_bytes(f->store->cache_dir));
    assert_int_equal(stats.unreachable_bytes, 0);
    assert_true(stats.disk_free_bytes > 0);
    ckpt_stats_clear(&stats);
}

static void shared_tensors_are_counted_once(void **state)
{
    fixture *const f = *state;
    char id[CKPT_ID_SIZE];
    ckpt_list *list;
    ckpt_stats stats;
    save_step(id, f, 1, 1);
    save_step(id, f, 1, 2); /* the same bytes */
    MUST(ckpt_list_new(&list, f->store, ERR));
    MUST(ckpt_stats_get(&stats, f->store, ERR));
    assert_int_equal(stats.raw_bytes, 2 * ckpt_list_get(list, 0)->raw_bytes);
    const ckpt_stats_class *const weights = class_of(&stats, "weights");
    assert_non_null(weights);
    assert_int_equal(weights->tensors, 2);
    assert_int_equal(weights->raw_bytes, 2 * FIXTURE_TENSOR_FLOATS * sizeof(float));
    assert_true(weights->coded_bytes > 0 && weights->coded_bytes <= weights->raw_bytes + 64);
    assert_ptr_equal(weights, &stats.classes[0]); /* the largest first */
    ckpt_list_free(list);
    ckpt_stats_clear(&stats);
}

/* A safetensors file of one tensor of noise. */
static void write_safetensors(const char *path)
{
    static const char HEADER[] = "\x48\0\0\0\0\0\0\0"
                                 "{\"weight\":{\"dtype\":\"F32\",\"shape\":[300000],\"data_offsets\":[0,1200000]}}  ";
    FILE *const file = fopen(path, "w");
    uint64_t x = 1;
    assert_non_null(file);
    assert_int_equal(sizeof HEADER - 1, 8 + 0x48);
    fwrite(HEADER, 1, sizeof HEADER - 1, file);
    for (size_t i = 0; i < 1200000; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        fputc((int)(x >> 56), file);
    }
    assert_int_equal(fclose(file), 0);
}

static void a_tensor_in_two_files_of_a_checkpoint_is_counted_once(void **state)
{
    fixture *const f = *state;
    char a[FILE_PATH_MAX], b[FILE_PATH_MAX];
    const char *const paths[] = {a, b};
    ckpt_stats stats;
    MUST(path_join(a, f->root, "a.safetensors", ERR));
    MUST(path_join(b, f->root, "b.safetensors", ERR));
    write_safetensors(a);
    write_safetensors(b);
    MUST(ckpt_save_files(NULL, f->store, paths, 2, NULL, ERR));
    MUST(ckpt_stats_get(&stats, f->store, ERR));
    const ckpt_stats_class *const weights = class_of(&stats, "weights");
    assert_non_null(weights);
    assert_int_equal(weights->tensors, 1);
    assert_int_equal(weights->raw_bytes, 1200000);
    ckpt_stats_clear(&stats);
}

static void what_prune_would_remove_is_unreachable(void **state)
{
    fixture *const f = *state;
    char id[CKPT_ID_SIZE], path[FILE_PATH_MAX];
    struct stat st;
    ckpt_stats stats;
    save_noise(id, f, 1);
    own_pack_file(path, f, "latest");
    assert_int_equal(stat(path, &st), 0);
    save_noise(id, f, 2);
    MUST(ckpt_remove(f->store, "latest~1", false, ERR));
    MUST(ckpt_stats_get(&stats, f->store, ERR));
    assert_int_equal(stats.unreachable_bytes, st.st_size);
    ckpt_stats_clear(&stats);
}

static void a_damaged_checkpoint_may_need_anything(void **state)
{
    fixture *const f = *state;
    char id[CKPT_ID_SIZE], path[FILE_PATH_MAX];
    ckpt_stats stats;
    save_noise(id, f, 1);
    save_noise(id, f, 2);
    snapshot_file(path, f, "latest");
    write_text(path, "{}");
    MUST(ckpt_stats_get(&stats, f->store, ERR));
    assert_int_equal(stats.checkpoints, 2);
    assert_int_equal(stats.unreachable_bytes, 0);
    ckpt_stats_clear(&stats);
}

static void an_empty_store_without_cache_is_all_zeros(void **state)
{
    fixture *const f = *state;
    ckpt_stats stats;
    assert_int_equal(rmdir(f->store->cache_dir), 0);
    MUST(ckpt_stats_get(&stats, f->store, ERR));
    assert_int_equal(stats.checkpoints + stats.packs + stats.pack_bytes + stats.cache_bytes + stats.class_count, 0);
    ckpt_stats_clear(&stats);
}

#define STORE_TEST(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(sizes_are_those_of_the_files),
        STORE_TEST(shared_tensors_are_counted_once),
        STORE_TEST(a_tensor_in_two_files_of_a_checkpoint_is_counted_once),
        STORE_TEST(what_prune_would_remove_is_unreachable),
        STORE_TEST(a_damaged_checkpoint_may_need_anything),
        STORE_TEST(an_empty_store_without_cache_is_all_zeros),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
