/* Levels of saving: what each writes, and that it comes back. */
#include "store_fixture.h"
#include "weights.h"

#include "pack.h"

enum { FLOATS = 400000, LEVELS = CKPT_LEVEL_MAX + 1 };

static float weights[FLOATS], later[FLOATS], back[FLOATS];

static void fill(void)
{
    fill_weights(weights, sizeof weights, 31);
    fill_trained(later, weights, sizeof later, 0.01f, 32);
}

static ckpt_save_result save(fixture *f, const ckpt_tensor *tensors, size_t count, ckpt_level level)
{
    ckpt_save_options options = CKPT_SAVE_OPTIONS_INIT;
    ckpt_save_result saved;

    options.level = level;
    MUST(ckpt_save_tensors(&saved, f->store, NULL, tensors, count, NULL, 0, &options, ERR));
    return saved;
}

static ckpt_save_result save_floats(fixture *f, float *data, ckpt_level level)
{
    return save(f, &(ckpt_tensor){"weight", CKPT_F32, 1, {FLOATS}, data}, 1, level);
}

static void assert_latest_is(fixture *f, const float *expected)
{
    MUST(ckpt_restore_tensors(f->store, "latest", &(ckpt_tensor){"weight", CKPT_F32, 1, {FLOATS}, back}, 1, ERR));
    assert_memory_equal(back, expected, sizeof back);
}

/* The pack of the newest checkpoint; borrowed. */
static const pack_index *latest_index(fixture *f)
{
    sha256 name;
    pack *p = NULL;

    own_pack(&name, f, "latest");
    MUST(pack_set_get(&p, f->store->packs, &name, ERR));
    return &p->index;
}

static void levels_have_names(void **state)
{
    (void)state;
    assert_string_equal(ckpt_level_name(CKPT_LEVEL_DEFAULT), "default");
    assert_string_equal(ckpt_level_name(CKPT_LEVEL_FAST), "fast");
    assert_string_equal(ckpt_level_name(CKPT_LEVEL_MAX), "max");
    assert_null(ckpt_level_name((ckpt_level)LEVELS));
    assert_null(ckpt_level_name((ckpt_level)-1));
}

static void a_level_that_does_not_exist_is_refused(void **state)
{
    fixture *const f = *state;
    ckpt_save_options options = CKPT_SAVE_OPTIONS_INIT;

    options.level = (ckpt_level)LEVELS;
    assert_int_equal(ckpt_save_tensors(NULL, f->store, NULL, NULL, 0, NULL, 0, &options, NULL), CKPT_EUSAGE);
    assert_int_equal(count_files(f->store->snapshots_dir), 0);
}

static void every_level_gives_the_same_bytes_back(void **state)
{
    fixture *const f = *state;

    fill();
    for (int level = 0; level < LEVELS; level++) {
        save_floats(f, weights, (ckpt_level)level);
        assert_latest_is(f, weights);
        save_floats(f, later, (ckpt_level)level);
        assert_latest_is(f, later);
        later[level] += 1; /* not what the store has already */
        weights[level] += 1;
    }
    ckpt_verify_result result;
    MUST(ckpt_verify(&result, f->store, &VERIFY_FULL, ERR));
    ckpt_verify_result_clear(&result);
}

static void frames_tell_their_level(void **state)
{
    fixture *const f = *state;

    fill();
    for (int level = 0; level < LEVELS; level++) {
        weights[0] += 1;
        save_floats(f, weights, (ckpt_level)level);
        const pack_index *const index = latest_index(f);
        for (uint32_t i = 0; i < index->frame_count; i++)
            assert_string_equal(pack_frame_level(&index->frames[i]), ckpt_level_name((ckpt_level)level));
        ckpt_content *content = NULL;
        MUST(ckpt_content_open(&content, f->store, "latest", ERR));
        assert_string_equal(ckpt_content_file(content, 0)->level, ckpt_level_name((ckpt_level)level));
        ckpt_content_close(content);
    }
    const pack_frame before = {.level = 3}; /* of a store before there were levels */
    assert_string_equal(pack_frame_level(&before), "");
}

/* Sign and exponent take 3.507 bits of 32 (expect_entropy.py), so 0.828 of raw is what a keyframe must take. */
static void fast_writes_keyframes_of_at_most_86_hundredths(void **state)
{
    fixture *const f = *state;

    fill();
    save_floats(f, weights, CKPT_LEVEL_FAST);
    const ckpt_save_result saved = save_floats(f, later, CKPT_LEVEL_FAST);
    assert_in_range(saved.stored_bytes, 1, (uint64_t)(sizeof later * 0.86));
    const pack_index *const index = latest_index(f);
    for (uint32_t i = 0; i < index->frame_count; i++)
        assert_int_equal(index->frames[i].depth, 0);
}

static void fast_shares_bytes_that_are_there(void **state)
{
    fixture *const f = *state;

    fill();
    save_floats(f, weights, CKPT_LEVEL_DEFAULT);
    const ckpt_save_result saved = save_floats(f, weights, CKPT_LEVEL_FAST);
    assert_in_range(saved.shared_bytes, sizeof weights, saved.raw_bytes);
    assert_in_range(saved.stored_bytes, 1, 4096);
    assert_latest_is(f, weights);
}

static void more_time_never_takes_more_bytes(void **state)
{
    fixture *const f = *state;
    ckpt_save_result saved[LEVELS];
    ckpt_prune_result pruned = {0};
    const ckpt_prune_options all = {.size = sizeof all, .keep = "last 100"};

    fill();
    for (int level = 0; level < LEVELS; level++) {
        save_floats(f, weights, CKPT_LEVEL_DEFAULT);
        saved[level] = save_floats(f, later, (ckpt_level)level);
        MUST(ckpt_remove(f->store, "latest", true, ERR)); /* else it is the next one's reference, or shared */
        MUST(ckpt_prune(&pruned, f->store, &all, ERR));
        ckpt_prune_result_clear(&pruned);
        fixture_reopen(f);
    }
    assert_in_range(saved[CKPT_LEVEL_MAX].coded_bytes, 1, saved[CKPT_LEVEL_DEFAULT].coded_bytes);
    assert_in_range(saved[CKPT_LEVEL_DEFAULT].coded_bytes, 1, saved[CKPT_LEVEL_FAST].coded_bytes - 1);
}

/* Two names for the same numbers, as tied embeddings have. */
static void tied_tensors_are_stored_once_at_every_level(void **state)
{
    fixture *const f = *state;

    fill();
    for (int level = 0; level < LEVELS; level++) {
        weights[0] += 1;
        const ckpt_tensor tied[] = {{"encoder.weight", CKPT_F32, 1, {FLOATS}, weights},
                                    {"decoder.weight", CKPT_F32, 1, {FLOATS}, weights}};
        const ckpt_save_result saved = save(f, tied, 2, (ckpt_level)level);
        assert_in_range(saved.shared_bytes, sizeof weights, saved.raw_bytes - sizeof weights);
        assert_in_range(saved.stored_bytes, 1, sizeof weights);
        MUST(ckpt_restore_tensors(f->store, "latest", &(ckpt_tensor){"decoder.weight", CKPT_F32, 1, {FLOATS}, back}, 1,
                                  ERR));
        assert_memory_equal(back, weights, sizeof back);
    }
}

static void the_background_writer_takes_a_level(void **state)
{
    fixture *const f = *state;
    ckpt_writer *writer = NULL;
    ckpt_save_options options = CKPT_SAVE_OPTIONS_INIT;
    const ckpt_tensor tensor = {"weight", CKPT_F32, 1, {FLOATS}, weights};

    fill();
    options.level = CKPT_LEVEL_FAST;
    MUST(ckpt_writer_open(&writer, f->root, NULL, ERR));
    MUST(ckpt_writer_submit(writer, NULL, &tensor, 1, NULL, 0, &options, CKPT_KEEP, ERR));
    MUST(ckpt_writer_close(writer, ERR));
    assert_string_equal(pack_frame_level(&latest_index(f)->frames[0]), "fast");
    assert_latest_is(f, weights);
}

#define LEVEL_TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_have_names),
        LEVEL_TEST(a_level_that_does_not_exist_is_refused),
        LEVEL_TEST(every_level_gives_the_same_bytes_back),
        LEVEL_TEST(frames_tell_their_level),
        LEVEL_TEST(fast_writes_keyframes_of_at_most_86_hundredths),
        LEVEL_TEST(fast_shares_bytes_that_are_there),
        LEVEL_TEST(more_time_never_takes_more_bytes),
        LEVEL_TEST(tied_tensors_are_stored_once_at_every_level),
        LEVEL_TEST(the_background_writer_takes_a_level),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
