#include "store_fixture.h"

#include <ckpt/stats.h>

static const ckpt_stats_row *class_of(const ckpt_stats *stats, const char *name)
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
    MUST(ckpt_stats_get(&stats, f->store, NULL, ERR));
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
    MUST(ckpt_stats_get(&stats, f->store, NULL, ERR));
    assert_int_equal(stats.raw_bytes, 2 * ckpt_list_get(list, 0)->raw_bytes);
    const ckpt_stats_row *const weights = class_of(&stats, "weights");
    assert_non_null(weights);
    assert_int_equal(weights->count, 2);
    assert_int_equal(weights->raw_bytes, 2 * FIXTURE_TENSOR_FLOATS * sizeof(float));
    assert_true(weights->coded_bytes > 0 && weights->coded_bytes <= weights->raw_bytes + 64);
    assert_ptr_equal(weights, &stats.classes[0]); /* the largest first */
    ckpt_list_free(list);
    ckpt_stats_clear(&stats);
}

/* Adds a file of 8 bytes, which is one tensor in frame 0 of this pack. */
static void add_file(pack_writer *w, const char *path, uint32_t number)
{
    uint32_t at, path_at, name_at, dim_at;
    MUST(pack_index_add_string(&path_at, &w->index, path, ERR));
    MUST(pack_index_add_string(&name_at, &w->index, "weight", ERR));
    MUST(pack_index_add_dim(&dim_at, &w->index, 2, ERR));
    const pack_file file = {.path = path_at,
                            .mode = 0644,
                            .size = 8,
                            .extent_first = number,
                            .extent_count = 1,
                            .tensor_first = number,
                            .tensor_count = 1};
    const pack_extent extent = {.size = 8, .hash = {1, 1}};
    const pack_tensor tensor = {.name = name_at, .dim_first = dim_at, .dtype = CKPT_F32, .rank = 1, .span_bytes = 8};
    MUST(pack_index_add_file(&at, &w->index, &file, ERR));
    MUST(pack_index_add_extent(&at, &w->index, &extent, ERR));
    MUST(pack_index_add_tensor(&at, &w->index, &tensor, ERR));
}

/* Noise is stored as it is, in chunks of one byte more. */
static void frames_that_no_checkpoint_needs_in_a_pack_that_some_do_are_dead(void **state)
{
    enum { NOISE_BYTES = 100000 };
    fixture *const f = *state;
    static uint8_t noise[2][NOISE_BYTES];
    uint64_t x = 1;
    ckpt_stats stats;
    ckpt_save_result both;
    for (size_t i = 0; i < sizeof noise; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        noise[i / NOISE_BYTES][i % NOISE_BYTES] = (uint8_t)(x >> 56);
    }
    const ckpt_tensor tensors[] = {{"a", CKPT_U8, 1, {NOISE_BYTES}, noise[0]},
                                   {"b", CKPT_U8, 1, {NOISE_BYTES}, noise[1]}};
    MUST(ckpt_save_tensors(&both, f->store, NULL, tensors, 2, NULL, 0, NULL, ERR));
    MUST(ckpt_save_tensors(NULL, f->store, NULL, tensors, 1, NULL, 0, NULL, ERR)); /* shares the first */
    MUST(ckpt_stats_get(&stats, f->store, NULL, ERR));
    assert_int_equal(stats.dead_bytes, 0);
    ckpt_stats_clear(&stats);
    MUST(ckpt_remove(f->store, both.id, false, ERR));
    MUST(ckpt_stats_get(&stats, f->store, NULL, ERR));
    assert_in_range(stats.dead_bytes, NOISE_BYTES + 1, NOISE_BYTES + 300); /* and the header of the file */
    ckpt_stats_clear(&stats);
}

static void a_tensor_in_two_files_of_a_pack_is_counted_once(void **state)
{
    fixture *const f = *state;
    static const unsigned char CHUNK[1 + 8] = {CODEC_STORED, 1, 2, 3, 4, 5, 6, 7, 8};
    char path[FILE_PATH_MAX];
    uint32_t at;
    pack_writer w;
    sha256 name;
    file_commit_plan plan = {0};
    ckpt_stats stats;
    pack_frame frame = {.size = 8, .kind = FRAME_TENSOR, .dtype = CKPT_F32, .reference_pack = PACK_NONE};
    MUST(pack_writer_open(&w, f->store->tmp_dir, ERR));
    MUST(pack_index_add_string(&frame.class_name, &w.index, "weights", ERR));
    MUST(pack_writer_frame(&at, &w, &frame, ERR));
    MUST(pack_writer_chunk(&w, CHUNK, sizeof CHUNK, xxh64_of(CHUNK + 1, 8), ERR));
    add_file(&w, "a.safetensors", 0);
    add_file(&w, "b.safetensors", 1);
    MUST(pack_writer_finish(&name, &w, ERR));
    MUST(pack_path(path, f->store->packs_dir, &name, ERR));
    MUST(file_commit_add(&plan, &w.tmp, path, false, ERR));
    MUST(file_commit(&plan, ERR));
    file_commit_discard(&plan);
    pack_writer_discard(&w);

    MUST(ckpt_stats_get(&stats, f->store, NULL, ERR));
    const ckpt_stats_row *const weights = class_of(&stats, "weights");
    assert_non_null(weights);
    assert_int_equal(weights->count, 1);
    assert_int_equal(weights->raw_bytes, 8);
    assert_int_equal(weights->coded_bytes, sizeof CHUNK);
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
    MUST(ckpt_stats_get(&stats, f->store, NULL, ERR));
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
    MUST(ckpt_stats_get(&stats, f->store, NULL, ERR));
    assert_int_equal(stats.checkpoints, 2);
    assert_int_equal(stats.unreachable_bytes, 0);
    ckpt_stats_clear(&stats);
}

static void an_empty_store_without_cache_is_all_zeros(void **state)
{
    fixture *const f = *state;
    ckpt_stats stats;
    assert_int_equal(rmdir(f->store->cache_dir), 0);
    MUST(ckpt_stats_get(&stats, f->store, NULL, ERR));
    assert_int_equal(stats.checkpoints + stats.packs + stats.pack_bytes + stats.cache_bytes + stats.class_count, 0);
    ckpt_stats_clear(&stats);
}

#define STORE_TEST(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(sizes_are_those_of_the_files),
        STORE_TEST(shared_tensors_are_counted_once),
        STORE_TEST(a_tensor_in_two_files_of_a_pack_is_counted_once),
        STORE_TEST(frames_that_no_checkpoint_needs_in_a_pack_that_some_do_are_dead),
        STORE_TEST(what_prune_would_remove_is_unreachable),
        STORE_TEST(a_damaged_checkpoint_may_need_anything),
        STORE_TEST(an_empty_store_without_cache_is_all_zeros),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
