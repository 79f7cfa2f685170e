#include "store_fixture.h"

#include <errno.h>
#include <sys/resource.h>

static int verify(ckpt_verify_result *result, fixture *f, ckpt_verify_level level)
{
    ckpt_error err = {0};
    const ckpt_verify_options options = {.size = sizeof options, .level = level};
    const int rc = ckpt_verify(result, f->store, &options, &err);
    if (rc != 0 && rc != CKPT_EDATA)
        fail_msg("%s", err.message);
    return rc;
}

static bool has_fault(const ckpt_verify_result *result, const char *pack_hex, const char *id, const char *what)
{
    for (size_t i = 0; i < result->fault_count; i++)
        if ((!pack_hex || strcmp(result->faults[i].pack, pack_hex) == 0) &&
            (!id || strcmp(result->faults[i].checkpoint, id) == 0) && strstr(result->faults[i].what, what))
            return true;
    for (size_t i = 0; i < result->fault_count; i++)
        print_message("  %.12s %.12s %s\n", result->faults[i].pack, result->faults[i].checkpoint,
                      result->faults[i].what);
    return false;
}

static void pack_hex(char hex[SHA256_HEX_SIZE], fixture *f, const char *name)
{
    sha256 hash;
    own_pack(&hash, f, name);
    sha256_hex(hex, &hash);
}

static void sound_stores_have_no_faults(void **state)
{
    fixture *const f = *state;
    char id[CKPT_ID_SIZE];
    ckpt_verify_result result;
    assert_int_equal(verify(&result, f, CKPT_VERIFY_FULL), 0);
    assert_int_equal(result.checkpoints, 0);
    ckpt_verify_result_clear(&result);
    for (uint64_t i = 0; i < 3; i++)
        save_step(id, f, i, 1);
    MUST(ckpt_tag_set(f->store, "x", "latest", false, ERR));
    for (ckpt_verify_level level = CKPT_VERIFY_NAMES; level <= CKPT_VERIFY_FULL; level++) {
        fixture_reopen(f);
        assert_int_equal(verify(&result, f, level), 0);
        assert_int_equal(result.fault_count, 0);
        assert_int_equal(result.checkpoints, 3);
        assert_int_equal(result.packs, 3);
        assert_int_equal(result.bytes_read > 0, level > CKPT_VERIFY_NAMES);
        ckpt_verify_result_clear(&result);
    }
}

/* ---- Names, sizes, indexes ---- */

static void a_snapshot_that_is_not_what_its_name_says_is_found(void **state)
{
    fixture *const f = *state;
    char id[CKPT_ID_SIZE], path[FILE_PATH_MAX];
    ckpt_verify_result result;
    save_step(id, f, 1, 1);
    snapshot_file(path, f, "latest");
    char *const text = read_text(path);
    *strstr(text, "\"step\":1") = '"';
    text[strstr(text, "\"step\":1") - text + 7] = '2';
    write_text(path, text);
    free(text);
    assert_int_equal(verify(&result, f, CKPT_VERIFY_NAMES), CKPT_EDATA);
    assert_int_equal(result.fault_count, 1);
    assert_true(has_fault(&result, "", id, "does not hold what its name says"));
    ckpt_verify_result_clear(&result);
}

static void a_missing_pack_is_told_with_its_checkpoint(void **state)
{
    fixture *const f = *state;
    char id[CKPT_ID_SIZE], hex[SHA256_HEX_SIZE], path[FILE_PATH_MAX];
    ckpt_verify_result result;
    save_step(id, f, 1, 1);
    pack_hex(hex, f, "latest");
    own_pack_file(path, f, "latest");
    assert_int_equal(unlink(path), 0);
    fixture_reopen(f);
    assert_int_equal(verify(&result, f, CKPT_VERIFY_NAMES), CKPT_EDATA);
    assert_true(has_fault(&result, hex, id, "missing"));
    ckpt_verify_result_clear(&result);
}

static void a_missing_reference_names_the_tensors_that_it_hurts(void **state)
{
    fixture *const f = *state;
    char first[CKPT_ID_SIZE], again[CKPT_ID_SIZE], hex[SHA256_HEX_SIZE], path[FILE_PATH_MAX];
    ckpt_verify_result result;
    save_step(first, f, 1, 1);
    save_step(again, f, 1, 2); /* the same bytes */
    pack_hex(hex, f, first);
    own_pack_file(path, f, first);
    assert_int_equal(unlink(path), 0);
    fixture_reopen(f);
    assert_int_equal(verify(&result, f, CKPT_VERIFY_NAMES), CKPT_EDATA);
    assert_true(has_fault(&result, hex, first, "missing"));
    assert_true(has_fault(&result, hex, again, "missing"));
    assert_true(has_fault(&result, hex, again, "weight of state.safetensors: "));
    assert_true(has_fault(&result, hex, again, "bias of state.safetensors: "));
    ckpt_verify_result_clear(&result);
}

static void a_truncated_pack_is_found_by_its_size(void **state)
{
    fixture *const f = *state;
    char id[CKPT_ID_SIZE], hex[SHA256_HEX_SIZE], path[FILE_PATH_MAX];
    struct stat st;
    ckpt_verify_result result;
    save_step(id, f, 1, 1);
    pack_hex(hex, f, "latest");
    own_pack_file(path, f, "latest");
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(truncate(path, st.st_size - 1), 0);
    fixture_reopen(f);
    assert_int_equal(verify(&result, f, CKPT_VERIFY_NAMES), CKPT_EDATA);
    assert_true(has_fault(&result, hex, id, ""));
    ckpt_verify_result_clear(&result);
}

static void a_pack_of_other_files_is_found(void **state)
{
    fixture *const f = *state;
    char first[CKPT_ID_SIZE], second[CKPT_ID_SIZE], path[FILE_PATH_MAX], hex[2][SHA256_HEX_SIZE];
    ckpt_verify_result result;
    save_step(first, f, 1, 1);
    save_step(second, f, 2, 2);
    pack_hex(hex[0], f, first);
    pack_hex(hex[1], f, second);
    snapshot_file(path, f, second);
    char *const text = read_text(path);
    memcpy(strstr(text, hex[1]), hex[0], SHA256_HEX_SIZE - 1);
    write_text(path, text);
    free(text);
    assert_int_equal(verify(&result, f, CKPT_VERIFY_NAMES), CKPT_EDATA);
    assert_true(has_fault(&result, hex[0], second, "other files than were saved"));
    ckpt_verify_result_clear(&result);
}

static void tags_without_a_checkpoint_and_damaged_ones_are_faults(void **state)
{
    fixture *const f = *state;
    char id[CKPT_ID_SIZE], path[FILE_PATH_MAX];
    ckpt_verify_result result;
    save_step(id, f, 1, 1);
    save_step(id, f, 2, 2);
    MUST(ckpt_tag_set(f->store, "lost", "latest", false, ERR));
    MUST(ckpt_tag_set(f->store, "kept", "latest~1", false, ERR));
    MUST(path_join(path, f->store->tags_dir, "broken", ERR));
    write_text(path, "x");
    snapshot_file(path, f, "latest");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(verify(&result, f, CKPT_VERIFY_NAMES), CKPT_EDATA);
    assert_int_equal(result.fault_count, 2);
    assert_true(has_fault(&result, "", "", "`lost` is gone"));
    assert_true(has_fault(&result, "", "", "`broken` is damaged"));
    ckpt_verify_result_clear(&result);
}

static void unneeded_packs_are_no_fault_unless_damaged(void **state)
{
    fixture *const f = *state;
    char id[CKPT_ID_SIZE], path[FILE_PATH_MAX];
    ckpt_verify_result result;
    save_step(id, f, 1, 1);
    save_step(id, f, 2, 2);
    own_pack_file(path, f, "latest");
    MUST(ckpt_remove(f->store, "latest", false, ERR));
    assert_int_equal(verify(&result, f, CKPT_VERIFY_FULL), 0);
    assert_int_equal(result.packs, 2);
    assert_non_null(strstr(f->note, "no checkpoint needs"));
    ckpt_verify_result_clear(&result);
    flip_bit(path, -100); /* in the index */
    fixture_reopen(f);
    assert_int_equal(verify(&result, f, CKPT_VERIFY_NAMES), CKPT_EDATA);
    assert_true(has_fault(&result, NULL, "", "no checkpoint needs it"));
    ckpt_verify_result_clear(&result);
}

/* ---- Bytes ---- */

/* The frames begin behind the header; the tensors, which are most of the file, come first. */
#define IN_FIRST_FRAME (PACK_HEADER_SIZE + 200)

static void a_flipped_bit_of_a_frame_names_the_tensor(void **state)
{
    fixture *const f = *state;
    char id[CKPT_ID_SIZE], hex[SHA256_HEX_SIZE], path[FILE_PATH_MAX];
    ckpt_verify_result result;
    save_step(id, f, 1, 1);
    pack_hex(hex, f, "latest");
    own_pack_file(path, f, "latest");
    flip_bit(path, IN_FIRST_FRAME);
    fixture_reopen(f);
    assert_int_equal(verify(&result, f, CKPT_VERIFY_NAMES), 0);
    ckpt_verify_result_clear(&result);
    for (ckpt_verify_level level = CKPT_VERIFY_READ; level <= CKPT_VERIFY_FULL; level++) {
        assert_int_equal(verify(&result, f, level), CKPT_EDATA);
        assert_true(has_fault(&result, hex, "", "its bytes are not those of its name"));
        assert_true(has_fault(&result, hex, id, " of state.safetensors: "));
        ckpt_verify_result_clear(&result);
    }
}

static void a_damaged_pack_hurts_every_checkpoint_that_shares_it(void **state)
{
    fixture *const f = *state;
    char first[CKPT_ID_SIZE], again[CKPT_ID_SIZE], other[CKPT_ID_SIZE], hex[SHA256_HEX_SIZE], path[FILE_PATH_MAX];
    ckpt_verify_result result;
    save_step(first, f, 1, 1);
    save_step(again, f, 1, 2);
    save_step(other, f, 999, 3);
    pack_hex(hex, f, first);
    own_pack_file(path, f, first);
    flip_bit(path, IN_FIRST_FRAME);
    fixture_reopen(f);
    assert_int_equal(verify(&result, f, CKPT_VERIFY_FULL), CKPT_EDATA);
    assert_true(has_fault(&result, hex, first, " of state.safetensors: "));
    assert_true(has_fault(&result, hex, again, " of state.safetensors: "));
    for (size_t i = 0; i < result.fault_count; i++)
        assert_string_not_equal(result.faults[i].checkpoint, other);
    ckpt_verify_result_clear(&result);
}

/* Saves a tensor that is nearly that of the save before, so that it is coded against it. */
static void save_near(char id[CKPT_ID_SIZE], fixture *f, float change)
{
    static float weight[FIXTURE_TENSOR_FLOATS];
    uint64_t x = 1;
    for (size_t i = 0; i < FIXTURE_TENSOR_FLOATS; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        weight[i] = (float)(x >> 40) * (1 + change * (float)(i % 7));
    }
    const ckpt_tensor tensor = {"weight", CKPT_F32, 1, {FIXTURE_TENSOR_FLOATS}, weight};
    ckpt_save_result result;
    MUST(ckpt_save_tensors(&result, f->store, NULL, &tensor, 1, NULL, 0, NULL, ERR));
    memcpy(id, result.id, CKPT_ID_SIZE);
}

static bool refers_to_another_pack(fixture *f, const char *name)
{
    sha256 hash;
    pack *p;
    bool refers = false;
    own_pack(&hash, f, name);
    MUST(pack_open(&p, f->store->packs_dir, &hash, ERR));
    for (uint32_t i = 0; i < p->index.frame_count; i++)
        refers |= p->index.frames[i].kind != FRAME_OTHER && p->index.frames[i].reference_pack != PACK_NONE &&
                  p->index.frames[i].reference_pack != 0;
    pack_close(p);
    return refers;
}

static void damage_in_a_reference_is_told_as_the_reference_s(void **state)
{
    fixture *const f = *state;
    char first[CKPT_ID_SIZE], near[CKPT_ID_SIZE], hex[SHA256_HEX_SIZE], path[FILE_PATH_MAX];
    ckpt_verify_result result;
    save_near(first, f, 0);
    save_near(near, f, 1e-5f);
    assert_true(refers_to_another_pack(f, near));
    pack_hex(hex, f, first);
    own_pack_file(path, f, first);
    flip_bit(path, IN_FIRST_FRAME);
    fixture_reopen(f);
    assert_int_equal(verify(&result, f, CKPT_VERIFY_FULL), CKPT_EDATA);
    assert_true(has_fault(&result, hex, first, "weight of state.safetensors: "));
    assert_true(has_fault(&result, hex, near, "weight of state.safetensors: "));
    ckpt_verify_result_clear(&result);

    assert_int_equal(unlink(path), 0);
    fixture_reopen(f);
    assert_int_equal(verify(&result, f, CKPT_VERIFY_NAMES), CKPT_EDATA);
    assert_true(has_fault(&result, hex, near, "weight of state.safetensors: "));
    ckpt_verify_result_clear(&result);
}

/* A pack with another one's index would pass every check of chunks; only the SHA-256 of the file tells. */
static void bytes_that_decode_well_but_are_others_are_found(void **state)
{
    fixture *const f = *state;
    char id[CKPT_ID_SIZE], path[FILE_PATH_MAX];
    ckpt_verify_result result;
    snapshot_name found;
    snapshot s;
    pack *p = NULL;
    pack_writer w;
    sha256 name;
    file_commit_plan plan = {0};
    static unsigned char chunk[1 + 8] = {CODEC_STORED, 1, 2, 3, 4, 5, 6, 7, 8};
    /* A checkpoint of one file of 8 bytes, whose recorded SHA-256 is that of other bytes. */
    save_step(id, f, 1, 1);
    MUST(name_resolve(&found, f->store, "latest", ERR));
    MUST(snapshot_read(&s, f->store->snapshots_dir, &found, ERR));
    MUST(pack_writer_open(&w, f->store->tmp_dir, ERR));
    uint32_t at, path_at;
    pack_frame frame = {.size = 8, .reference_pack = PACK_NONE};
    sha256_of(&frame.hash, chunk + 1, 8);
    MUST(pack_writer_frame(&at, &w, &frame, ERR));
    MUST(pack_writer_chunk(&w, chunk, sizeof chunk, xxh64_of(chunk + 1, 8), ERR));
    MUST(pack_index_add_string(&path_at, &w.index, "a.bin", ERR));
    pack_file file = {.path = path_at, .mode = 0644, .size = 8, .extent_count = 1};
    sha256_of(&file.hash, "otherone", 8);
    pack_extent extent = {.size = 8, .hash = xxh128_of(chunk + 1, 8)};
    MUST(pack_index_add_file(&at, &w.index, &file, ERR));
    MUST(pack_index_add_extent(&at, &w.index, &extent, ERR));
    MUST(pack_index_tree(&s.tree, &w.index, ERR));
    MUST(pack_writer_finish(&name, &w, ERR));
    MUST(pack_path(path, f->store->packs_dir, &name, ERR));
    MUST(file_commit_add(&plan, &w.tmp, path, false, ERR));
    MUST(file_commit(&plan, ERR));
    file_commit_discard(&plan);
    pack_writer_discard(&w);
    MUST(pack_open(&p, f->store->packs_dir, &name, ERR));
    pack_close(p);

    char *text;
    size_t size;
    s.sequence = 2;
    s.files = 1;
    s.raw_bytes = 8;
    s.pack = name;
    MUST(snapshot_encode(&text, &size, &s, ERR));
    found = (snapshot_name){s.sequence, s.id};
    MUST(snapshot_path(path, f->store->snapshots_dir, &found, ERR));
    write_text(path, text);
    free(text);
    snapshot_clear(&s);

    fixture_reopen(f);
    assert_int_equal(verify(&result, f, CKPT_VERIFY_READ), 0);
    ckpt_verify_result_clear(&result);
    assert_int_equal(verify(&result, f, CKPT_VERIFY_FULL), CKPT_EDATA);
    assert_int_equal(result.fault_count, 1);
    assert_true(has_fault(&result, NULL, NULL, "a.bin: its bytes are not those that were saved"));
    ckpt_verify_result_clear(&result);
}

/* ---- Progress ---- */

typedef struct progress {
    uint64_t calls, stop_at, done, total;
} progress;

static int progress_count(void *payload, uint64_t done, uint64_t total)
{
    progress *const p = payload;
    assert_true(done >= p->done);
    p->done = done;
    p->total = total;
    return ++p->calls == p->stop_at;
}

static void progress_ends_at_its_total_and_can_stop_the_work(void **state)
{
    fixture *const f = *state;
    char id[CKPT_ID_SIZE];
    for (uint64_t i = 0; i < 3; i++)
        save_step(id, f, i, 1);
    progress p = {0};
    const ckpt_open_options options = {.size = sizeof options, .progress = progress_count, .payload = &p};
    ckpt_store *store;
    MUST(ckpt_store_open(&store, f->root, &options, ERR));
    MUST(ckpt_verify(NULL, store, &VERIFY_FULL, ERR));
    assert_true(p.total > 3 * 2 * FIXTURE_TENSOR_FLOATS * sizeof(float));
    assert_int_equal(p.done, p.total);
    const uint64_t calls = p.calls;
    for (uint64_t stop = 1; stop <= calls; stop++) {
        p = (progress){.stop_at = stop};
        const int rc = ckpt_verify(NULL, store, &VERIFY_FULL, NULL);
        assert_true(rc == CKPT_EINTERRUPTED || (rc == 0 && p.calls < stop)); /* it may be told in fewer steps */
    }
    ckpt_store_close(store);
}

/* ---- What is no damage ---- */

/* Lets descriptors of this process be below `count`. */
static void limit_files(rlim_t count)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = count;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static void want_of_descriptors_is_no_damage(void **state)
{
    fixture *const f = *state;
    char id[CKPT_ID_SIZE];
    struct rlimit before;
    ckpt_error err = {0};
    for (uint64_t i = 0; i < 3; i++)
        save_noise(id, f, i);
    fixture_reopen(f);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    const int first_free = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_true(first_free >= 0);
    close(first_free);
    for (rlim_t spare = 0; spare < 4; spare++) {
        limit_files((rlim_t)first_free + spare);
        const int rc = ckpt_verify(NULL, f->store, &VERIFY_FULL, &err);
        limit_files(before.rlim_cur);
        if (rc != 0) {
            assert_int_equal(rc, CKPT_EIO);
            assert_int_equal(err.sys_errno, EMFILE);
        }
    }
}

#define STORE_TEST(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORE_TEST(sound_stores_have_no_faults),
        STORE_TEST(a_snapshot_that_is_not_what_its_name_says_is_found),
        STORE_TEST(a_missing_pack_is_told_with_its_checkpoint),
        STORE_TEST(a_missing_reference_names_the_tensors_that_it_hurts),
        STORE_TEST(a_truncated_pack_is_found_by_its_size),
        STORE_TEST(a_pack_of_other_files_is_found),
        STORE_TEST(tags_without_a_checkpoint_and_damaged_ones_are_faults),
        STORE_TEST(unneeded_packs_are_no_fault_unless_damaged),
        STORE_TEST(a_flipped_bit_of_a_frame_names_the_tensor),
        STORE_TEST(a_damaged_pack_hurts_every_checkpoint_that_shares_it),
        STORE_TEST(damage_in_a_reference_is_told_as_the_reference_s),
        STORE_TEST(bytes_that_decode_well_but_are_others_are_found),
        STORE_TEST(want_of_descriptors_is_no_damage),
        STORE_TEST(progress_ends_at_its_total_and_can_stop_the_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
