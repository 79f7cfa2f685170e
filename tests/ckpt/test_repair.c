#include "repair_fixture.h"

#include "bytes.h"

/* ---- Without a second source: what follows from the rest ---- */

static void a_sound_store_is_left_as_it_is(void **state)
{
    fixture *const f = *state;
    char path[FILE_PATH_MAX];
    ckpt_repair_result result;
    noise_saved(path, f, 1, 0.05);
    noise_saved(path, f, 2, 0);
    assert_int_equal(repair(&result, f), 0);
    assert_int_equal(result.row_count, 0);
    assert_int_equal(result.packs, 2);
    assert_int_equal(result.checkpoints, 2);
    ckpt_repair_result_clear(&result);
    assert_false(exists(f->store->damaged_dir));
    assert_nothing_left(f);
}

/* What each region of a pack is worth: its ends follow from the rest, its frames and tables do not. */
static void a_damaged_header_or_footer_is_written_anew(void **state)
{
    fixture *const f = *state;
    static const off_t PLACES[] = {0, 9, 10, PACK_HEADER_SIZE - 1, -1, -9, -24, -PACK_FOOTER_SIZE};
    char file[FILE_PATH_MAX], path[FILE_PATH_MAX];
    const ckpt_save_result saved = noise_saved(file, f, 1, 0);
    own_pack_file(path, f, "latest");
    for (size_t i = 0; i < sizeof PLACES / sizeof PLACES[0]; i++) {
        flip_bit(path, PLACES[i]);
        assert_int_equal(verify_at(f, CKPT_VERIFY_NAMES), CKPT_EDATA);
        assert_mends(f, "pack", "header and footer written anew");
        assert_restores(f, saved.id, file);
    }
    wipe(path, 0, PACK_HEADER_SIZE);
    wipe(path, -PACK_FOOTER_SIZE, PACK_FOOTER_SIZE);
    assert_mends(f, "pack", "header and footer written anew");
    assert_restores(f, saved.id, file);
}

static void a_pack_cut_inside_its_footer_is_completed(void **state)
{
    fixture *const f = *state;
    char file[FILE_PATH_MAX], path[FILE_PATH_MAX];
    const ckpt_save_result saved = noise_saved(file, f, 1, 0);
    own_pack_file(path, f, "latest");
    const off_t size = size_of(path);
    for (off_t cut = 1; cut <= PACK_FOOTER_SIZE; cut += 47) {
        assert_int_equal(truncate(path, size - cut), 0);
        assert_mends(f, "pack", "header and footer written anew");
        assert_int_equal(size_of(path), size);
        assert_restores(f, saved.id, file);
    }
}

static void what_nothing_gives_back_is_kept_and_told(void **state)
{
    fixture *const f = *state;
    char file[FILE_PATH_MAX], path[FILE_PATH_MAX], good[FILE_PATH_MAX];
    noise_saved(file, f, 1, 0);
    own_pack_file(path, f, "latest");
    join(good, f->root, "good.pack");
    file_copy(good, path);

    flip_bit(path, PACK_HEADER_SIZE + 200); /* in a frame */
    assert_int_equal(verify_at(f, CKPT_VERIFY_NAMES), 0);
    assert_int_equal(verify_at(f, CKPT_VERIFY_READ), CKPT_EDATA);
    assert_remains(f, "pack", "what is good of it still restores");

    file_copy(path, good);
    flip_bit(path, -PACK_FOOTER_SIZE - 20); /* in the tables */
    assert_int_equal(verify_at(f, CKPT_VERIFY_NAMES), CKPT_EDATA);
    assert_remains(f, "pack", "only its tables tell where they are");

    assert_int_equal(unlink(path), 0);
    assert_int_equal(verify_at(f, CKPT_VERIFY_NAMES), CKPT_EDATA);
    assert_remains(f, "pack", "nothing here gives it back");
    assert_false(exists(f->store->damaged_dir));
}

static void a_row_names_the_checkpoints_that_a_pack_hurts(void **state)
{
    fixture *const f = *state;
    char file[FILE_PATH_MAX], path[FILE_PATH_MAX], name[FILE_PATH_MAX];
    ckpt_repair_result result;
    const ckpt_save_result first = noise_saved(file, f, 1, 0);
    own_pack_file(path, f, first.id);
    join(name, f->root, "again");
    file_copy(name, file);
    const ckpt_save_result second = save_path(f, name); /* shares the bytes */
    noise_saved(name, f, 2, 0);
    flip_bit(path, PACK_HEADER_SIZE + 200);
    assert_int_equal(repair(&result, f), CKPT_EDATA);
    assert_int_equal(result.row_count, 1);
    assert_int_equal(result.rows[0].hurt_count, 2);
    assert_string_equal(result.rows[0].hurt[0], second.id);
    assert_string_equal(result.rows[0].hurt[1], first.id);
    ckpt_repair_result_clear(&result);
}

/* ---- Parity ---- */

static void damage_up_to_the_share_of_parity_is_rebuilt_to_the_last_bit(void **state)
{
    fixture *const f = *state;
    char file[FILE_PATH_MAX], path[FILE_PATH_MAX], good[FILE_PATH_MAX];
    const ckpt_save_result saved = noise_saved(file, f, 1, 0.05);
    own_pack_file(path, f, "latest");
    join(good, f->root, "good.pack");
    file_copy(good, path);
    const off_t size = size_of(path), share = size / 20;
    for (off_t from = 0; from + share <= size; from += size / 9) {
        wipe(path, from, (size_t)share);
        assert_mends(f, "pack", "rebuilt from its parity");
        assert_same_bytes(good, path);
    }
    for (off_t at = 7; at < size; at += size / 5) /* scattered */
        flip_bit(path, at);
    assert_mends(f, "pack", "rebuilt from its parity");
    assert_same_bytes(good, path);
    assert_int_equal(truncate(path, size - share), 0);
    assert_mends(f, "pack", "rebuilt from its parity");
    assert_same_bytes(good, path);
    assert_restores(f, saved.id, file);
}

static void more_damage_than_parity_is_left_alone(void **state)
{
    fixture *const f = *state;
    char file[FILE_PATH_MAX], path[FILE_PATH_MAX], before[FILE_PATH_MAX];
    ckpt_repair_result result;
    noise_saved(file, f, 1, 0.05);
    own_pack_file(path, f, "latest");
    wipe(path, 1000, NOISE_BYTES / 5);
    join(before, f->root, "before.pack");
    file_copy(before, path);
    assert_int_equal(repair(&result, f), CKPT_EDATA);
    assert_non_null(strstr(result.rows[0].state, "too many for its parity"));
    ckpt_repair_result_clear(&result);
    assert_same_bytes(before, path);
}

static void a_lost_pack_is_rebuilt_from_as_much_parity(void **state)
{
    fixture *const f = *state;
    char file[FILE_PATH_MAX], path[FILE_PATH_MAX];
    const ckpt_save_result saved = noise_saved(file, f, 1, 1);
    own_pack_file(path, f, "latest");
    assert_int_equal(unlink(path), 0);
    assert_mends(f, "pack", "rebuilt from its parity");
    assert_restores(f, saved.id, file);
}

static void damage_of_pack_and_parity_together_is_rebuilt(void **state)
{
    fixture *const f = *state;
    char file[FILE_PATH_MAX], path[FILE_PATH_MAX], parity[FILE_PATH_MAX];
    sha256 name;
    const ckpt_save_result saved = noise_saved(file, f, 1, 0.2);
    own_pack(&name, f, "latest");
    own_pack_file(path, f, "latest");
    MUST(pack_parity_path(parity, f->store->parity_dir, &name, ERR));
    wipe(path, 5000, NOISE_BYTES / 20);
    wipe(parity, 0, 6000); /* the first head, and some blocks */
    assert_mends(f, "parity", "made anew");
    assert_restores(f, saved.id, file);
}

/* Lets the parity say of the block with that byte of the pack that it is good as it is. */
static void parity_lie(const char *path, const sha256 *name, const char *of_pack, off_t byte)
{
    size_t size, pack_size;
    char *text, *pack_text;
    pack_parity p;
    MUST(file_read_all(&text, &size, path, PACK_INDEX_MAX, ERR));
    MUST(file_read_all(&pack_text, &pack_size, of_pack, PACK_INDEX_MAX, ERR));
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    MUST(pack_parity_take(&p, fd, size, name, ERR));
    const uint64_t block = (uint64_t)byte / p.layout.block_size;
    unsigned char *const head = (unsigned char *)text;
    store_u64(head + 64 + 8 * block, xxh64_of(pack_text + block * p.layout.block_size, p.layout.block_size));
    store_u64(head + p.blocks_offset - 8, xxh64_of(head, p.blocks_offset - 8));
    memcpy(text + p.blocks_offset + p.layout.parity_blocks * p.layout.block_size, head, p.blocks_offset);
    write_bytes(path, text, size);
    pack_parity_close(&p);
    free(pack_text);
    free(text);
}

static void parity_that_lies_gives_nothing_and_keeps_nothing_else_from_being_mended(void **state)
{
    fixture *const f = *state;
    char file[FILE_PATH_MAX], path[FILE_PATH_MAX], other[FILE_PATH_MAX], parity[FILE_PATH_MAX];
    char before[FILE_PATH_MAX];
    sha256 name;
    ckpt_repair_result result;
    noise_saved(file, f, 1, 0.2);
    own_pack(&name, f, "latest");
    own_pack_file(path, f, "latest");
    MUST(pack_parity_path(parity, f->store->parity_dir, &name, ERR));
    const ckpt_save_result honest = noise_saved(file, f, 2, 0.2);
    own_pack_file(other, f, "latest");
    flip_bit(path, 5000);
    flip_bit(other, 5000);
    parity_lie(parity, &name, path, 5000);
    join(before, f->root, "before.pack");
    file_copy(before, path);
    assert_int_equal(repair(&result, f), CKPT_EDATA);
    assert_int_equal(result.damaged, 2);
    assert_int_equal(result.mended, 1);
    ckpt_repair_result_clear(&result);
    assert_same_bytes(before, path);
    assert_restores(f, honest.id, file);
    assert_int_equal(count_files(f->store->tmp_dir), 0);
}

static void damaged_parity_of_a_sound_pack_is_found_and_made_anew(void **state)
{
    fixture *const f = *state;
    char file[FILE_PATH_MAX], parity[FILE_PATH_MAX], good[FILE_PATH_MAX];
    sha256 name;
    noise_saved(file, f, 1, 0.05);
    own_pack(&name, f, "latest");
    MUST(pack_parity_path(parity, f->store->parity_dir, &name, ERR));
    join(good, f->root, "good.parity");
    file_copy(good, parity);
    const off_t places[] = {0, 70, size_of(parity) / 2, -1, -40};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        flip_bit(parity, places[i]);
        assert_int_equal(verify_at(f, CKPT_VERIFY_NAMES), 0);
        assert_int_equal(verify_at(f, CKPT_VERIFY_READ), CKPT_EDATA);
        assert_mends(f, "parity", "made anew");
        assert_same_bytes(good, parity);
    }
    wipe(parity, 0, 100);
    wipe(parity, -100, 100);
    assert_mends(f, "parity", "made anew");
}

static void parity_is_added_to_packs_that_have_none(void **state)
{
    fixture *const f = *state;
    char file[FILE_PATH_MAX], path[FILE_PATH_MAX];
    const ckpt_repair_options options = {.size = sizeof options, .parity = 0.1};
    const ckpt_repair_options only_look = {.size = sizeof options, .parity = 0.1, .dry_run = true};
    ckpt_repair_result result;
    const ckpt_save_result saved = noise_saved(file, f, 1, 0);
    noise_saved(path, f, 2, 0.05);
    assert_int_equal(repair_with(&result, f, &only_look), 0);
    const uint64_t bytes = result.parity_bytes;
    ckpt_repair_result_clear(&result);
    assert_int_equal(count_files(f->store->parity_dir), 1);
    assert_int_equal(repair_with(&result, f, &options), 0);
    assert_int_equal(result.parity_packs, 1);
    assert_true(result.parity_bytes > NOISE_BYTES / 10);
    assert_int_equal(result.parity_bytes, bytes);
    ckpt_repair_result_clear(&result);
    assert_int_equal(count_files(f->store->parity_dir), 2);
    own_pack_file(path, f, saved.id);
    wipe(path, 3000, NOISE_BYTES / 11);
    assert_mends(f, "pack", "rebuilt from its parity");
    char *config = read_text(f->store->config_path);
    assert_non_null(strstr(config, "compatible = parity"));
    free(config);
}

/* Called while packs are read: another program removes one that nothing needs. */
static int prune_meanwhile(void *payload, uint64_t done_bytes, uint64_t total_bytes)
{
    const char *const path = payload;
    (void)total_bytes;
    if (done_bytes > NOISE_BYTES * 3 / 2)
        (void)unlink(path);
    return 0;
}

static void a_pack_that_is_pruned_while_parity_is_added_gets_none(void **state)
{
    fixture *const f = *state;
    char file[FILE_PATH_MAX], path[FILE_PATH_MAX];
    const ckpt_repair_options options = {.size = sizeof options, .parity = 0.1};
    ckpt_repair_result result;
    ckpt_store *store = NULL;
    const ckpt_save_result first = noise_saved(file, f, 1, 0);
    own_pack_file(path, f, "latest");
    noise_saved(file, f, 2, 0);
    MUST(ckpt_remove(f->store, first.id, true, ERR));
    const ckpt_open_options open = {.size = sizeof open, .threads = 1, .progress = prune_meanwhile, .payload = path};
    MUST(ckpt_store_open(&store, f->store->path, &open, ERR));
    MUST(ckpt_repair(&result, store, &options, ERR));
    assert_int_equal(result.parity_packs, 1);
    ckpt_repair_result_clear(&result);
    ckpt_store_close(store);
    assert_int_equal(count_files(f->store->parity_dir), 1);
    assert_int_equal(verify_at(f, CKPT_VERIFY_READ), 0);
}

static void parity_of_the_config_is_written_by_every_save_and_goes_with_its_pack(void **state)
{
    fixture *const f = *state;
    char id[CKPT_ID_SIZE];
    const ckpt_prune_options policy = {.size = sizeof policy, .keep = "last 1"};
    ckpt_prune_result pruned;
    MUST(ckpt_setting_set(f->store, "parity", "5%", ERR));
    fixture_reopen(f);
    save_noise(id, f, 1);
    save_noise(id, f, 2);
    assert_int_equal(count_files(f->store->parity_dir), 2);
    MUST(ckpt_prune(&pruned, f->store, &policy, ERR));
    assert_int_equal(pruned.removed_packs, 1);
    assert_true(pruned.freed_bytes > FIXTURE_TENSOR_FLOATS + FIXTURE_TENSOR_FLOATS / 20);
    ckpt_prune_result_clear(&pruned);
    assert_int_equal(count_files(f->store->parity_dir), 1);
    assert_int_equal(count_files(f->store->packs_dir), 1);
}

static void settings_that_make_no_sense_are_refused(void **state)
{
    fixture *const f = *state;
    assert_int_equal(ckpt_setting_set(f->store, "parity", "5", NULL), CKPT_EUSAGE);
    assert_int_equal(ckpt_setting_set(f->store, "parity", "500%", NULL), CKPT_EUSAGE);
    assert_int_equal(ckpt_setting_set(f->store, "version", "2", NULL), CKPT_EUSAGE);
}

/* ---- Files of other names ---- */

/* A name that is the SHA-256 of something else. */
static void other_name(char out[FILE_PATH_MAX], const fixture *f, const char *what)
{
    sha256 hash;
    sha256_of(&hash, what, strlen(what));
    MUST(pack_path(out, f->store->packs_dir, &hash, ERR));
}

static void a_pack_under_a_wrong_name_gets_its_own(void **state)
{
    fixture *const f = *state;
    char file[FILE_PATH_MAX], path[FILE_PATH_MAX], wrong[FILE_PATH_MAX];
    ckpt_repair_result result;
    const ckpt_save_result saved = noise_saved(file, f, 1, 0);
    own_pack_file(path, f, "latest");
    for (int i = 0; i < 2; i++) { /* one that sorts before it and one that sorts behind it, very likely */
        other_name(wrong, f, i ? "a" : "c");
        assert_int_equal(rename(path, wrong), 0);
        assert_int_equal(verify_at(f, CKPT_VERIFY_NAMES), CKPT_EDATA);
        assert_int_equal(repair(&result, f), 0);
        assert_true(has_row(&result, "pack", "a file of another name", true));
        assert_true(has_row(&result, "pack", "moved to damaged/", true));
        ckpt_repair_result_clear(&result);
        assert_int_equal(verify_at(f, CKPT_VERIFY_FULL), 0);
        assert_restores(f, saved.id, file);
    }
}

static void packs_that_have_each_others_names_change_them(void **state)
{
    fixture *const f = *state;
    char file[FILE_PATH_MAX], a[FILE_PATH_MAX], b[FILE_PATH_MAX], between[FILE_PATH_MAX];
    ckpt_repair_result result;
    noise_saved(file, f, 1, 0);
    own_pack_file(a, f, "latest");
    noise_saved(file, f, 2, 0);
    own_pack_file(b, f, "latest");
    join(between, f->root, "between.pack");
    assert_int_equal(rename(a, between), 0);
    assert_int_equal(rename(b, a), 0);
    assert_int_equal(rename(between, b), 0);
    assert_int_equal(repair(&result, f), 0);
    assert_int_equal(result.mended, 2);
    ckpt_repair_result_clear(&result);
    assert_int_equal(verify_at(f, CKPT_VERIFY_FULL), 0);
}

static void a_link_that_leads_to_itself_is_no_pack_and_hurts_no_other(void **state)
{
    fixture *const f = *state;
    char file[FILE_PATH_MAX], path[FILE_PATH_MAX];
    const ckpt_save_result first = noise_saved(file, f, 1, 0);
    noise_saved(path, f, 2, 1);
    own_pack_file(path, f, "latest");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink(path_base(path), path), 0);
    assert_int_equal(verify_at(f, CKPT_VERIFY_FULL), CKPT_EDATA);
    assert_restores(f, first.id, file);
    assert_mends(f, "pack", "rebuilt from its parity");
}

static void a_second_copy_under_a_wrong_name_is_set_aside(void **state)
{
    fixture *const f = *state;
    char file[FILE_PATH_MAX], path[FILE_PATH_MAX], wrong[FILE_PATH_MAX];
    noise_saved(file, f, 1, 0);
    own_pack_file(path, f, "latest");
    other_name(wrong, f, "copy");
    file_copy(wrong, path);
    assert_int_equal(verify_at(f, CKPT_VERIFY_NAMES), 0); /* but for a note */
    assert_int_equal(verify_at(f, CKPT_VERIFY_READ), CKPT_EDATA);
    assert_mends(f, "pack", "moved to damaged/");
    assert_false(exists(wrong));
    assert_int_equal(count_files(f->store->damaged_dir), 1);
}

static void a_damaged_pack_that_nothing_needs_is_set_aside_and_never_deleted(void **state)
{
    fixture *const f = *state;
    char file[FILE_PATH_MAX], path[FILE_PATH_MAX];
    noise_saved(file, f, 1, 0);
    noise_saved(file, f, 2, 0);
    own_pack_file(path, f, "latest");
    MUST(ckpt_remove(f->store, "latest", false, ERR));
    flip_bit(path, PACK_HEADER_SIZE + 100);
    assert_mends(f, "pack", "moved to damaged/");
    assert_false(exists(path));
    MUST(ckpt_prune(NULL, f->store, NULL, ERR));
    assert_int_equal(count_files(f->store->damaged_dir), 1);
}

static void damaged_files_of_one_name_are_all_kept(void **state)
{
    fixture *const f = *state;
    char file[FILE_PATH_MAX], path[FILE_PATH_MAX];
    noise_saved(file, f, 1, 0.05);
    own_pack_file(path, f, "latest");
    for (size_t i = 1; i <= 3; i++) {
        flip_bit(path, (off_t)(1000 * i));
        assert_mends(f, "pack", "rebuilt from its parity");
        assert_int_equal(count_files(f->store->damaged_dir), i);
    }
}

static void a_good_pack_that_lies_in_damaged_comes_back(void **state)
{
    fixture *const f = *state;
    char file[FILE_PATH_MAX], path[FILE_PATH_MAX];
    noise_saved(file, f, 1, 0);
    own_pack_file(path, f, "latest");
    MUST(damaged_move(f->store, path, ERR));
    assert_mends(f, "pack", "copied from damaged/");
}

/* ---- Dry run, room ---- */

static void a_dry_run_changes_nothing_and_tells_the_same(void **state)
{
    fixture *const f = *state;
    char file[FILE_PATH_MAX], path[FILE_PATH_MAX], before[FILE_PATH_MAX];
    const ckpt_repair_options dry = {.size = sizeof dry, .dry_run = true};
    ckpt_repair_result result;
    noise_saved(file, f, 1, 0.05);
    own_pack_file(path, f, "latest");
    wipe(path, 1000, 500);
    join(before, f->root, "before.pack");
    file_copy(before, path);
    assert_int_equal(repair_with(&result, f, &dry), 0);
    assert_true(has_row(&result, "pack", "rebuilt from its parity", true));
    ckpt_repair_result_clear(&result);
    assert_same_bytes(before, path);
    assert_false(exists(f->store->damaged_dir));
    assert_mends(f, "pack", "rebuilt from its parity");
}

static void two_repairs_at_once_are_one_too_many(void **state)
{
    fixture *const f = *state;
    char path[FILE_PATH_MAX];
    struct lease *held = NULL;
    join(path, f->store->intents_dir, "repair.lease");
    MUST(lease_acquire(&held, path, NULL, ERR));
    assert_int_equal(ckpt_repair(NULL, f->store, NULL, NULL), CKPT_EBUSY);
    lease_release(held);
    MUST(ckpt_repair(NULL, f->store, NULL, ERR));
}

/* ---- Tags, cache ---- */

static void tags_that_name_nothing_are_set_aside(void **state)
{
    fixture *const f = *state;
    char file[FILE_PATH_MAX], path[FILE_PATH_MAX];
    ckpt_repair_result result;
    noise_saved(file, f, 1, 0);
    noise_saved(file, f, 2, 0);
    MUST(ckpt_tag_set(f->store, "lost", "latest", false, ERR));
    MUST(ckpt_tag_set(f->store, "kept", "latest~1", false, ERR));
    join(path, f->store->tags_dir, "broken");
    write_text(path, "x");
    snapshot_file(path, f, "latest");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(verify_at(f, CKPT_VERIFY_NAMES), CKPT_EDATA);
    assert_int_equal(repair(&result, f), 0);
    assert_int_equal(result.row_count, 2);
    assert_true(has_row(&result, "tag", "moved to damaged/", true));
    ckpt_repair_result_clear(&result);
    assert_int_equal(count_files(f->store->tags_dir), 1);
    assert_int_equal(verify_at(f, CKPT_VERIFY_FULL), 0);
}

static void a_damaged_cache_is_made_anew(void **state)
{
    fixture *const f = *state;
    char id[CKPT_ID_SIZE], path[FILE_PATH_MAX];
    join(path, f->store->cache_dir, "0123456789abcdef0123456789abcdef.segment");
    for (uint64_t i = 0; i < 12; i++) /* so many that the cache is written */
        save_noise(id, f, i);
    write_text(path, "nonsense");
    assert_int_equal(verify_at(f, CKPT_VERIFY_FULL), 0); /* it is only a hint */
    assert_mends(f, "cache", "made anew");
    assert_true(count_files(f->store->cache_dir) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_sound_store_is_left_as_it_is, tree_setup, tree_teardown),
        cmocka_unit_test_setup_teardown(a_damaged_header_or_footer_is_written_anew, tree_setup, tree_teardown),
        cmocka_unit_test_setup_teardown(a_pack_cut_inside_its_footer_is_completed, tree_setup, tree_teardown),
        cmocka_unit_test_setup_teardown(what_nothing_gives_back_is_kept_and_told, tree_setup, tree_teardown),
        cmocka_unit_test_setup_teardown(a_row_names_the_checkpoints_that_a_pack_hurts, tree_setup, tree_teardown),
        cmocka_unit_test_setup_teardown(damage_up_to_the_share_of_parity_is_rebuilt_to_the_last_bit, tree_setup,
                                        tree_teardown),
        cmocka_unit_test_setup_teardown(more_damage_than_parity_is_left_alone, tree_setup, tree_teardown),
        cmocka_unit_test_setup_teardown(a_lost_pack_is_rebuilt_from_as_much_parity, tree_setup, tree_teardown),
        cmocka_unit_test_setup_teardown(damage_of_pack_and_parity_together_is_rebuilt, tree_setup, tree_teardown),
        cmocka_unit_test_setup_teardown(parity_that_lies_gives_nothing_and_keeps_nothing_else_from_being_mended,
                                        tree_setup, tree_teardown),
        cmocka_unit_test_setup_teardown(damaged_parity_of_a_sound_pack_is_found_and_made_anew, tree_setup,
                                        tree_teardown),
        cmocka_unit_test_setup_teardown(parity_is_added_to_packs_that_have_none, tree_setup, tree_teardown),
        cmocka_unit_test_setup_teardown(a_pack_that_is_pruned_while_parity_is_added_gets_none, tree_setup,
                                        tree_teardown),
        cmocka_unit_test_setup_teardown(parity_of_the_config_is_written_by_every_save_and_goes_with_its_pack,
                                        tree_setup, tree_teardown),
        cmocka_unit_test_setup_teardown(settings_that_make_no_sense_are_refused, tree_setup, tree_teardown),
        cmocka_unit_test_setup_teardown(a_pack_under_a_wrong_name_gets_its_own, tree_setup, tree_teardown),
        cmocka_unit_test_setup_teardown(packs_that_have_each_others_names_change_them, tree_setup, tree_teardown),
        cmocka_unit_test_setup_teardown(a_link_that_leads_to_itself_is_no_pack_and_hurts_no_other, tree_setup,
                                        tree_teardown),
        cmocka_unit_test_setup_teardown(a_second_copy_under_a_wrong_name_is_set_aside, tree_setup, tree_teardown),
        cmocka_unit_test_setup_teardown(a_damaged_pack_that_nothing_needs_is_set_aside_and_never_deleted, tree_setup,
                                        tree_teardown),
        cmocka_unit_test_setup_teardown(damaged_files_of_one_name_are_all_kept, tree_setup, tree_teardown),
        cmocka_unit_test_setup_teardown(a_good_pack_that_lies_in_damaged_comes_back, tree_setup, tree_teardown),
        cmocka_unit_test_setup_teardown(a_dry_run_changes_nothing_and_tells_the_same, tree_setup, tree_teardown),
        cmocka_unit_test_setup_teardown(two_repairs_at_once_are_one_too_many, tree_setup, tree_teardown),
        cmocka_unit_test_setup_teardown(tags_that_name_nothing_are_set_aside, tree_setup, tree_teardown),
        cmocka_unit_test_setup_teardown(a_damaged_cache_is_made_anew, tree_setup, tree_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
