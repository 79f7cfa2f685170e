/* Bytes that the store has already are stored once, found by hash and believed only after comparison; deltas are made
 * of the right references and never too deep. */
#include "file_tree.h"

#include "segment.h"
#include "weights.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

static ckpt_save_result save_golden_as(fixture *f, const char *golden, const char *name)
{
    char from[FILE_PATH_MAX], to[FILE_PATH_MAX];
    join(from, GOLDEN_DIR, golden);
    join(to, f->root, name);
    file_copy(to, from);
    return save_path(f, to);
}

/* ---- The same bytes ---- */

static void same_file_again_adds_nearly_nothing(void **state)
{
    fixture *const f = *state;
    const ckpt_save_result first = save_golden_as(f, "trajectory-tiny/checkpoint_epoch_1.pt", "a.pt");
    fixture_reopen(f);
    const ckpt_save_result again = save_golden_as(f, "trajectory-tiny/checkpoint_epoch_1.pt", "a.pt");
    assert_true(first.stored_bytes > 200000);
    assert_true(again.stored_bytes < 16000); /* tables and snapshot */
    assert_true(again.coded_bytes < 100);
    assert_true(again.shared_bytes > again.raw_bytes * 99 / 100);
}

static void copy_under_another_name_adds_nearly_nothing(void **state)
{
    fixture *const f = *state;
    save_golden_as(f, "trajectory-tiny/checkpoint_epoch_1.pt", "checkpoint.pt");
    const ckpt_save_result copy = save_golden_as(f, "trajectory-tiny/checkpoint_epoch_1.pt", "best model.bin");
    assert_true(copy.coded_bytes < 100);
    assert_true(copy.stored_bytes < 16000);
}

static void noise_under_another_name_adds_nearly_nothing(void **state)
{
    fixture *const f = *state;
    static unsigned char data[3 * MIB + 12345];
    fill_noise(data, sizeof data, 5);
    save_bytes(f, "noise.bin", data, sizeof data);
    const ckpt_save_result copy = save_bytes(f, "other.dat", data, sizeof data);
    assert_int_equal(copy.coded_bytes, 0);
    assert_int_equal(copy.shared_bytes, sizeof data);
}

static void same_file_twice_in_one_save_is_stored_once(void **state)
{
    fixture *const f = *state;
    char in[FILE_PATH_MAX], out[FILE_PATH_MAX], restored[FILE_PATH_MAX];
    join(in, f->root, "in");
    make_dir(in, "deep");
    const file_bytes file = file_load(GOLDEN_DIR "/trajectory-tiny/checkpoint_epoch_1.pt");
    write_in(in, "checkpoint.pt", file.data, file.size);
    const ckpt_save_result one = save_path(f, in);
    write_in(in, "deep/copy.pt", file.data, file.size);
    static unsigned char data[MIB];
    fill_noise(data, sizeof data, 9);
    write_in(in, "noise_1.bin", data, sizeof data);
    write_in(in, "noise_2.bin", data, sizeof data);
    write_in(in, "deep/noise_3.bin", data, sizeof data);
    const ckpt_save_result two = save_path(f, in);
    assert_true(one.coded_bytes > 200000);
    assert_true(two.coded_bytes < MIB + 4096);
    join(out, f->root, "out");
    join(restored, out, "in");
    restore_to(f, "latest", out);
    assert_same_tree(in, restored);
    free(file.data);
}

static void weights_saved_after_their_checkpoint_add_little(void **state)
{
    fixture *const f = *state;
    save_golden_as(f, "trajectory-tiny/checkpoint_epoch_2.pt", "checkpoint_epoch_2.pt");
    const ckpt_save_result model =
        save_golden_as(f, "trajectory-tiny/model_epoch_2.safetensors", "model_epoch_2.safetensors");
    if (model.stored_bytes * 100 > model.raw_bytes * 6)
        fail_msg("added %llu of %llu bytes", (unsigned long long)model.stored_bytes,
                 (unsigned long long)model.raw_bytes);
}

#define FROZEN_FLOATS (300 * KIB)
#define HEAD_FLOATS   (20 * KIB)

static void frozen_tensors_are_stored_once(void **state)
{
    fixture *const f = *state;
    float *const backbone = malloc(FROZEN_FLOATS * sizeof *backbone), *const head = malloc(HEAD_FLOATS * sizeof *head);
    const ckpt_tensor tensors[] = {{"backbone.weight", CKPT_F32, 1, {FROZEN_FLOATS}, backbone},
                                   {"head.weight", CKPT_F32, 1, {HEAD_FLOATS}, head}};
    fill_weights(backbone, FROZEN_FLOATS * sizeof *backbone, 1);
    for (uint64_t epoch = 1; epoch <= 3; epoch++) {
        ckpt_save_result result;
        fill_weights(head, HEAD_FLOATS * sizeof *head, 100 + epoch);
        MUST(ckpt_save_tensors(&result, f->store, NULL, tensors, 2, NULL, 0, NULL, ERR));
        if (epoch > 1)
            assert_true(result.coded_bytes < HEAD_FLOATS * sizeof *head);
        if (epoch > 1)
            assert_true(result.shared_bytes >= FROZEN_FLOATS * sizeof *backbone);
    }
    free(backbone);
    free(head);
}

/* ---- The cache is a hint ---- */

static int remove_file(void *payload, const char *name, ckpt_error *err)
{
    char path[FILE_PATH_MAX];
    join(path, payload, name);
    (void)err;
    return unlink(path);
}

/* Fills the cache with one segment that covers the newest pack; its first entry may be another than the truth. */
static void write_cache(fixture *f, const segment_entry *forged)
{
    segment_builder b = {0};
    segment s;
    sha256 name;
    pack *p;
    own_pack(&name, f, "latest");
    MUST(dir_each(f->store->cache_dir, remove_file, f->store->cache_dir, ERR));
    MUST(pack_set_get(&p, f->store->packs, &name, ERR));
    MUST(segment_add_pack(&b, &name, &p->index, ERR));
    assert_true(b.entry_count > 0);
    if (forged)
        b.entries[0] = *forged;
    MUST(segment_build(&s, &b, ERR));
    MUST(segment_write(&s, f->store->cache_dir, f->store->tmp_dir, ERR));
    segment_close(&s);
    segment_builder_clear(&b);
}

static int fill_with_garbage(void *payload, const char *name, ckpt_error *err)
{
    char path[FILE_PATH_MAX];
    unsigned char garbage[1000];
    fill_noise(garbage, sizeof garbage, 11);
    join(path, payload, name);
    write_bytes(path, garbage, sizeof garbage);
    (void)err;
    return 0;
}

static int cut_in_half(void *payload, const char *name, ckpt_error *err)
{
    char path[FILE_PATH_MAX];
    struct stat st;
    join(path, payload, name);
    (void)err;
    assert_int_equal(stat(path, &st), 0);
    return truncate(path, st.st_size / 2);
}

static int flip_last(void *payload, const char *name, ckpt_error *err)
{
    char path[FILE_PATH_MAX];
    join(path, payload, name);
    (void)err;
    flip_bit(path, -5);
    return 0;
}

static void damaged_cache_changes_nothing_but_size(void **state)
{
    fixture *const f = *state;
    static int (*const DAMAGES[])(void *, const char *, ckpt_error *) = {remove_file, fill_with_garbage, cut_in_half,
                                                                         flip_last};
    static unsigned char data[2 * MIB];
    char path[FILE_PATH_MAX];
    for (size_t i = 0; i < sizeof DAMAGES / sizeof *DAMAGES; i++) {
        fill_noise(data, sizeof data, 20 + i);
        save_bytes(f, "first.bin", data, sizeof data);
        write_cache(f, NULL);
        MUST(dir_each(f->store->cache_dir, DAMAGES[i], f->store->cache_dir, ERR));
        fixture_reopen(f);
        join(path, f->root, "second.bin");
        const ckpt_save_result again = save_bytes(f, "second.bin", data, sizeof data);
        assert_restores(f, again.id, path);
    }
}

static void removed_cache_folder_is_no_error(void **state)
{
    fixture *const f = *state;
    static unsigned char data[MIB];
    char path[FILE_PATH_MAX];
    fill_noise(data, sizeof data, 3);
    save_bytes(f, "first.bin", data, sizeof data);
    MUST(dir_each(f->store->cache_dir, remove_file, f->store->cache_dir, ERR));
    assert_int_equal(rmdir(f->store->cache_dir), 0);
    fixture_reopen(f);
    const ckpt_save_result again = save_bytes(f, "second.bin", data, sizeof data);
    join(path, f->root, "second.bin");
    assert_restores(f, again.id, path);
}

static void hit_with_other_bytes_is_noticed(void **state)
{
    fixture *const f = *state;
    static unsigned char stored[2 * MIB], wanted[2 * MIB];
    static const uint32_t FRAMES[] = {0, 77};
    char path[FILE_PATH_MAX];
    fill_noise(stored, sizeof stored, 1);
    memcpy(wanted, stored, sizeof wanted);
    wanted[sizeof wanted - 1] ^= 1; /* the rest is the same */
    save_bytes(f, "stored.bin", stored, sizeof stored);
    for (size_t i = 0; i < 2; i++) {
        write_cache(f, &(segment_entry){xxh128_of(wanted, sizeof wanted), sizeof wanted, 0, 0, FRAMES[i]});
        fixture_reopen(f);
        const ckpt_save_result saved = save_bytes(f, "wanted.bin", wanted, sizeof wanted);
        join(path, f->root, "wanted.bin");
        assert_restores(f, saved.id, path);
        wanted[0]++;
    }
}

static void forged_hit_on_the_right_bytes_is_taken(void **state)
{
    fixture *const f = *state;
    static unsigned char stored[2 * MIB];
    fill_noise(stored, sizeof stored, 1);
    save_bytes(f, "stored.bin", stored, sizeof stored);
    write_cache(f, &(segment_entry){xxh128_of(stored, sizeof stored), sizeof stored, 0, 0, 0});
    fixture_reopen(f);
    assert_int_equal(save_bytes(f, "again.bin", stored, sizeof stored).coded_bytes, 0);
}

/* ---- References ---- */

typedef struct frame_counts {
    uint32_t frames, deltas, deepest; /* deltas: of tensors, alone or in groups */
} frame_counts;

static frame_counts frames_of(fixture *f, const char *id)
{
    frame_counts n = {0};
    sha256 name;
    pack *p;
    own_pack(&name, f, id);
    MUST(pack_set_get(&p, f->store->packs, &name, ERR));
    for (uint32_t i = 0; i < p->index.frame_count; i++) {
        const pack_frame *const frame = &p->index.frames[i];
        n.frames++;
        n.deltas += frame->reference_pack != PACK_NONE && frame->kind != FRAME_OTHER;
        n.deepest = frame->depth > n.deepest ? frame->depth : n.deepest;
        assert_true((frame->depth > 0) == (frame->reference_pack != PACK_NONE));
    }
    return n;
}

static void neighbours_of_a_training_are_deltas(void **state)
{
    fixture *const f = *state;
    uint64_t first_bytes = 0;
    for (int epoch = 1; epoch <= 3; epoch++) {
        char golden[FILE_PATH_MAX], name[64];
        snprintf(golden, sizeof golden, "trajectory-tiny/checkpoint_epoch_%d.pt", epoch);
        snprintf(name, sizeof name, "checkpoint_epoch_%d.pt", epoch);
        const ckpt_save_result saved = save_golden_as(f, golden, name);
        const frame_counts n = frames_of(f, saved.id);
        if (epoch == 1) {
            assert_int_equal(n.deltas, 0);
            first_bytes = saved.coded_bytes;
        } else {
            assert_true(n.deltas > 0);
            assert_true(saved.coded_bytes < first_bytes);
        }
    }
}

static void neighbours_are_deltas_across_formats(void **state)
{
    fixture *const f = *state;
    save_golden_as(f, "trajectory-tiny/checkpoint_epoch_1.pt", "checkpoint_epoch_1.pt");
    const ckpt_save_result model =
        save_golden_as(f, "trajectory-tiny/model_epoch_2.safetensors", "model_epoch_2.safetensors");
    assert_true(frames_of(f, model.id).deltas > 0);
}

#define ROW_FLOATS (64 * KIB)

/* A training of 12 epochs whose weights change slowly, as one tensor of 256 KiB and one of 8 KiB. */
static void train(float *large, float *small, uint64_t epoch)
{
    if (epoch == 0) {
        fill_weights(large, ROW_FLOATS * sizeof *large, 1);
        fill_weights(small, 2 * KIB * sizeof *small, 2);
        return;
    }
    fill_trained(large, large, ROW_FLOATS * sizeof *large, 1e-4f, 10 + epoch);
    fill_trained(small, small, 2 * KIB * sizeof *small, 1e-4f, 50 + epoch);
}

static void long_rows_of_saves_are_never_deeper_than_the_limit(void **state)
{
    fixture *const f = *state;
    float *const large = malloc(ROW_FLOATS * sizeof *large), *const small = malloc(2 * KIB * sizeof *small);
    const ckpt_tensor tensors[] = {{"large", CKPT_F32, 1, {ROW_FLOATS}, large},
                                   {"small", CKPT_F32, 1, {2 * KIB}, small}};
    char ids[12][CKPT_ID_SIZE];
    uint32_t deepest = 0, deltas = 0;
    for (uint64_t epoch = 0; epoch < 12; epoch++) {
        ckpt_save_result saved;
        train(large, small, epoch);
        MUST(ckpt_save_tensors(&saved, f->store, NULL, tensors, 2, NULL, 0, NULL, ERR));
        memcpy(ids[epoch], saved.id, CKPT_ID_SIZE);
        const frame_counts n = frames_of(f, saved.id);
        deltas += n.deltas;
        deepest = n.deepest > deepest ? n.deepest : deepest;
    }
    assert_int_equal(deepest, PACK_DEPTH_WRITE_MAX);
    assert_true(deltas >= 11);
    fixture_reopen(f);
    float *const got = malloc(ROW_FLOATS * sizeof *got);
    for (uint64_t epoch = 0; epoch < 12; epoch++) {
        const ckpt_tensor wanted = {"large", CKPT_F32, 1, {ROW_FLOATS}, got};
        train(large, small, epoch);
        MUST(ckpt_restore_tensors(f->store, ids[epoch], &wanted, 1, ERR));
        assert_memory_equal(got, large, ROW_FLOATS * sizeof *got);
    }
    free(got);
    free(large);
    free(small);
}

/* A tensor of more than one frame: the second part is a delta of the second part. The first is zeros, which cost
 * nothing. */
static void parts_of_a_large_tensor_are_deltas_of_the_same_parts(void **state)
{
    fixture *const f = *state;
    const size_t size = PACK_FRAME_BYTES_MAX + 2 * MIB;
    unsigned char *const data = calloc(1, size), *const tail = data + PACK_FRAME_BYTES_MAX;
    const ckpt_tensor tensor = {"weight", CKPT_F32, 1, {size / 4}, data};
    ckpt_save_result first, second;
    assert_non_null(data);
    fill_weights(tail, 2 * MIB, 1);
    MUST(ckpt_save_tensors(&first, f->store, NULL, &tensor, 1, NULL, 0, NULL, ERR));
    fill_trained(tail, tail, 2 * MIB, 1e-5f, 2);
    MUST(ckpt_save_tensors(&second, f->store, NULL, &tensor, 1, NULL, 0, NULL, ERR));
    if (second.coded_bytes >= first.coded_bytes * 3 / 4)
        fail_msg("coded %llu bytes, then %llu", (unsigned long long)first.coded_bytes,
                 (unsigned long long)second.coded_bytes);
    assert_int_equal(frames_of(f, second.id).deltas, 1);
    free(data);
}

static void new_tensors_do_not_keep_others_from_their_references(void **state)
{
    fixture *const f = *state;
    float *const new = malloc(ROW_FLOATS * sizeof *new), *const old = malloc(ROW_FLOATS * sizeof *old);
    const ckpt_tensor tensors[] = {{"a_new", CKPT_F32, 1, {ROW_FLOATS}, new}, {"old", CKPT_F32, 1, {ROW_FLOATS}, old}};
    ckpt_save_result second;
    fill_weights(new, ROW_FLOATS * sizeof *new, 1);
    fill_weights(old, ROW_FLOATS * sizeof *old, 2);
    MUST(ckpt_save_tensors(NULL, f->store, NULL, tensors + 1, 1, NULL, 0, NULL, ERR));
    fill_trained(old, old, ROW_FLOATS * sizeof *old, 1e-5f, 3);
    MUST(ckpt_save_tensors(&second, f->store, NULL, tensors, 2, NULL, 0, NULL, ERR));
    assert_int_equal(frames_of(f, second.id).deltas, 1);
    free(new);
    free(old);
}

/* Tensors that take new keyframes at different saves: the packs of old checkpoints still become free, since a
 * checkpoint needs those along its own chains only. */
static void old_packs_become_free_though_chains_overlap(void **state)
{
    fixture *const f = *state;
    const size_t size = ROW_FLOATS * sizeof(float);
    float *const a = malloc(size), *const b = malloc(size), *const c = malloc(size);
    const ckpt_tensor tensors[] = {{"a", CKPT_F32, 1, {ROW_FLOATS}, a},
                                   {"optimizer.state.0.exp_avg", CKPT_F32, 1, {ROW_FLOATS}, b},
                                   {"optimizer.state.0.exp_avg_sq", CKPT_F32, 1, {ROW_FLOATS}, c}};
    const ckpt_prune_options keep = {.size = sizeof keep, .keep = "last 2"};
    fill_weights(a, size, 1);
    fill_weights(b, size, 2);
    fill_weights(c, size, 3);
    for (unsigned i = 0; i < 30; i++) {
        ckpt_prune_result pruned = {0};
        MUST(ckpt_save_tensors(NULL, f->store, NULL, tensors, 3, NULL, 0, NULL, ERR));
        MUST(ckpt_prune(&pruned, f->store, &keep, ERR));
        ckpt_prune_result_clear(&pruned);
        fill_trained(a, a, size, 1e-4f, i);
        fill_trained(b, b, size, 1e-4f, i + 100);
        fill_trained(c, c, size, 1e-4f, i + 200);
        if (i % 3 == 1)
            fill_weights(b, size, i + 300);
        if (i % 5 == 2)
            fill_weights(c, size, i + 400);
        if (i % 7 == 3)
            fill_weights(a, size, i + 500);
    }
    /* Two checkpoints, each with three chains of at most four references. */
    assert_in_range(count_files(f->store->packs_dir), 2, 2 * (1 + 3 * PACK_DEPTH_WRITE_MAX) / 2);
    free(a);
    free(b);
    free(c);
}

static void damaged_reference_does_not_stop_a_save(void **state)
{
    fixture *const f = *state;
    char path[FILE_PATH_MAX];
    save_golden_as(f, "trajectory-tiny/checkpoint_epoch_1.pt", "checkpoint_epoch_1.pt");
    own_pack_file(path, f, "latest");
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    for (off_t at = 64; at < st.st_size * 9 / 10; at += 5000)
        flip_bit(path, at);
    fixture_reopen(f);
    const ckpt_save_result saved = save_golden_as(f, "trajectory-tiny/checkpoint_epoch_2.pt", "checkpoint_epoch_2.pt");
    assert_true(frames_of(f, saved.id).frames > 0);
    join(path, f->root, "checkpoint_epoch_2.pt");
    assert_restores(f, saved.id, path);
}

static void references_without_an_index_do_not_stop_a_save(void **state)
{
    fixture *const f = *state;
    char path[FILE_PATH_MAX];
    save_golden_as(f, "trajectory-tiny/checkpoint_epoch_1.pt", "checkpoint_epoch_1.pt");
    own_pack_file(path, f, "latest");
    assert_int_equal(truncate(path, 100), 0);
    fixture_reopen(f);
    const ckpt_save_result saved = save_golden_as(f, "trajectory-tiny/checkpoint_epoch_2.pt", "checkpoint_epoch_2.pt");
    assert_int_equal(frames_of(f, saved.id).deltas, 0);
    join(path, f->root, "checkpoint_epoch_2.pt");
    assert_restores(f, saved.id, path);
}

/* Same names with other shapes and types, same stems with other content: candidates that must not be taken for more
 * than they are. */
static void candidates_of_the_wrong_kind_do_not_hurt(void **state)
{
    fixture *const f = *state;
    static float a[ROW_FLOATS];
    static unsigned char b[ROW_FLOATS * 4], got[sizeof b];
    fill_weights(a, sizeof a, 1);
    fill_noise(b, sizeof b, 2);
    const ckpt_tensor kinds[] = {
        {"weight", CKPT_F32, 1, {ROW_FLOATS}, a},
        {"weight", CKPT_F32, 2, {256, 256}, b},
        {"weight", CKPT_F64, 1, {ROW_FLOATS / 2}, b},
        {"weight", CKPT_U8, 1, {sizeof b}, a},
        {"module.weight", CKPT_F32, 1, {ROW_FLOATS}, b},
        {"weight", CKPT_F32, 1, {ROW_FLOATS - 1}, a},
        {"weight", CKPT_F32, 0, {0}, a},
        {"weight", CKPT_F32, 1, {0}, a},
        {"weight", CKPT_F32, 1, {ROW_FLOATS}, a},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        ckpt_tensor wanted = kinds[i];
        wanted.data = got;
        size_t size = ckpt_dtype_size(kinds[i].dtype);
        for (unsigned d = 0; d < kinds[i].rank; d++)
            size *= kinds[i].shape[d];
        ckpt_save_result saved;
        MUST(ckpt_save_tensors(&saved, f->store, NULL, &kinds[i], 1, NULL, 0, NULL, ERR));
        memset(got, 0xee, sizeof got);
        MUST(ckpt_restore_tensors(f->store, saved.id, &wanted, 1, ERR));
        assert_memory_equal(got, kinds[i].data, size);
    }
}

static void file_of_another_kind_under_the_same_name_does_not_hurt(void **state)
{
    fixture *const f = *state;
    static const char *const KINDS[] = {
        "trajectory-tiny/checkpoint_epoch_1.pt", "torch/mnist.safetensors", "torch/test.npz",
        "trajectory-tiny/adamw_bf16_step_30.pt", "zip/infozip.zip",         "torch/mnist.pt"};
    char path[FILE_PATH_MAX];
    join(path, f->root, "model.pt");
    for (size_t i = 0; i < sizeof KINDS / sizeof *KINDS; i++) {
        const ckpt_save_result saved = save_golden_as(f, KINDS[i], "model.pt");
        assert_restores(f, saved.id, path);
    }
}

#define SHARE_TEST(name) cmocka_unit_test_setup_teardown(name, tree_setup, tree_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SHARE_TEST(same_file_again_adds_nearly_nothing),
        SHARE_TEST(copy_under_another_name_adds_nearly_nothing),
        SHARE_TEST(noise_under_another_name_adds_nearly_nothing),
        SHARE_TEST(same_file_twice_in_one_save_is_stored_once),
        SHARE_TEST(weights_saved_after_their_checkpoint_add_little),
        SHARE_TEST(frozen_tensors_are_stored_once),
        SHARE_TEST(damaged_cache_changes_nothing_but_size),
        SHARE_TEST(removed_cache_folder_is_no_error),
        SHARE_TEST(hit_with_other_bytes_is_noticed),
        SHARE_TEST(forged_hit_on_the_right_bytes_is_taken),
        SHARE_TEST(neighbours_of_a_training_are_deltas),
        SHARE_TEST(neighbours_are_deltas_across_formats),
        SHARE_TEST(long_rows_of_saves_are_never_deeper_than_the_limit),
        SHARE_TEST(parts_of_a_large_tensor_are_deltas_of_the_same_parts),
        SHARE_TEST(new_tensors_do_not_keep_others_from_their_references),
        SHARE_TEST(old_packs_become_free_though_chains_overlap),
        SHARE_TEST(damaged_reference_does_not_stop_a_save),
        SHARE_TEST(references_without_an_index_do_not_stop_a_save),
        SHARE_TEST(candidates_of_the_wrong_kind_do_not_hurt),
        SHARE_TEST(file_of_another_kind_under_the_same_name_does_not_hurt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
