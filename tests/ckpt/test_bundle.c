#include "file_tree.h"

#include "bundle.h"
#include "bytes.h"
#include "lease.h"
#include "zip_member.h"
#include "zip_writer.h"

#include <ckpt/export.h>
#include <unistd.h>

/* A second store beside that of the fixture. */
typedef struct two_stores {
    fixture *f;
    char other_root[FILE_PATH_MAX], bundle[FILE_PATH_MAX];
    ckpt_store *other;
    char first[CKPT_ID_SIZE], second[CKPT_ID_SIZE]; /* in the fixture's store; the second is a difference */
} two_stores;

static void other_anew(two_stores *t)
{
    ckpt_store_close(t->other);
    t->other = NULL;
    assert_int_equal(temp_dir_remove(t->other_root), 0);
    make_dir(t->other_root, "");
    MUST(ckpt_store_init(NULL, t->other_root, ERR));
    MUST(ckpt_store_open(&t->other, t->other_root, NULL, ERR));
}

static int two_setup(void **state)
{
    two_stores *const t = calloc(1, sizeof *t);
    void *f = NULL;
    if (!t || fixture_setup(&f))
        return -1;
    t->f = f;
    join(t->other_root, t->f->root, "other");
    join(t->bundle, t->f->root, "one.ckpt.zip");
    make_dir(t->other_root, "");
    MUST(ckpt_store_init(NULL, t->other_root, ERR));
    MUST(ckpt_store_open(&t->other, t->other_root, NULL, ERR));
    ckpt_save_options options = CKPT_SAVE_OPTIONS_INIT;
    options.tag = "kept";
    save_step(t->first, t->f, 1, 1);
    save_seed(t->second, t->f, 1, &options); /* shares all bytes of the first */
    *state = t;
    return 0;
}

static int two_teardown(void **state)
{
    two_stores *const t = *state;
    void *f = t->f;
    ckpt_store_close(t->other);
    free(t);
    return fixture_teardown(&f);
}

static void assert_verifies(ckpt_store *store)
{
    ckpt_verify_result verified;
    MUST(ckpt_verify(&verified, store, &VERIFY_FULL, ERR));
    ckpt_verify_result_clear(&verified);
}

/* The one file of a checkpoint is the same in both stores. */
static void assert_same_checkpoint(two_stores *t, const char *id)
{
    char a[FILE_PATH_MAX], b[FILE_PATH_MAX];
    join(a, t->f->root, "a");
    join(b, t->f->root, "b");
    const ckpt_restore_options to_a = {.size = sizeof to_a, .dir = a}, to_b = {.size = sizeof to_b, .dir = b};
    MUST(ckpt_restore_files(NULL, t->f->store, id, &to_a, ERR));
    MUST(ckpt_restore_files(NULL, t->other, id, &to_b, ERR));
    assert_same_tree(a, b);
}

static void a_bundle_brings_a_checkpoint_with_its_tags_into_another_store(void **state)
{
    two_stores *const t = *state;
    ckpt_bundle_result written, done;
    char id[CKPT_ID_SIZE];
    MUST(ckpt_bundle_write(&written, t->f->store, "kept", t->bundle, false, ERR));
    assert_string_equal(written.id, t->second);
    assert_int_equal(written.tags, 1);
    MUST(ckpt_bundle_import(&done, t->other, t->bundle, ERR));
    assert_string_equal(done.id, t->second);
    assert_int_equal(done.packs, written.packs);
    assert_int_equal(done.packs_there, 0);
    MUST(ckpt_find(id, t->other, "kept", ERR));
    assert_string_equal(id, t->second);
    assert_verifies(t->other);
    assert_same_checkpoint(t, t->second);
    assert_int_equal(count_files(t->other->tmp_dir) + count_files(t->other->intents_dir), 0);
}

static void what_is_there_already_is_not_brought_again(void **state)
{
    two_stores *const t = *state;
    ckpt_bundle_result done;
    ckpt_list *list = NULL;
    MUST(ckpt_bundle_write(NULL, t->f->store, "kept", t->bundle, false, ERR));
    MUST(ckpt_bundle_import(NULL, t->other, t->bundle, ERR));
    MUST(ckpt_bundle_import(&done, t->other, t->bundle, ERR));
    assert_int_equal(done.packs, 0);
    assert_true(done.packs_there > 0);
    MUST(ckpt_list_new(&list, t->other, ERR));
    assert_int_equal(ckpt_list_count(list), 1);
    ckpt_list_free(list);
}

static void a_tag_of_another_checkpoint_stays_where_it_is(void **state)
{
    two_stores *const t = *state;
    ckpt_bundle_result done;
    char id[CKPT_ID_SIZE], mine[CKPT_ID_SIZE];
    ckpt_save_options options = CKPT_SAVE_OPTIONS_INIT;
    const float number = 3;
    const ckpt_tensor tensor = {"mine", CKPT_F32, 0, {0}, (void *)(uintptr_t)&number};
    ckpt_save_result saved;
    options.tag = "kept";
    MUST(ckpt_save_tensors(&saved, t->other, NULL, &tensor, 1, NULL, 0, &options, ERR));
    memcpy(mine, saved.id, sizeof mine);
    MUST(ckpt_bundle_write(NULL, t->f->store, "kept", t->bundle, false, ERR));
    MUST(ckpt_bundle_import(&done, t->other, t->bundle, ERR));
    assert_int_equal(done.tags_there, 1);
    MUST(ckpt_find(id, t->other, "kept", ERR));
    assert_string_equal(id, mine);
    assert_same_checkpoint(t, t->second);
}

static void an_existing_file_is_not_overwritten(void **state)
{
    two_stores *const t = *state;
    write_text(t->bundle, "before");
    assert_int_equal(ckpt_bundle_write(NULL, t->f->store, "kept", t->bundle, false, NULL), CKPT_ECONFIRM);
    char *const text = read_text(t->bundle);
    assert_string_equal(text, "before");
    free(text);
    MUST(ckpt_bundle_write(NULL, t->f->store, "kept", t->bundle, true, ERR));
    MUST(ckpt_bundle_import(NULL, t->other, t->bundle, ERR));
}

static void a_damaged_pack_is_not_bundled(void **state)
{
    two_stores *const t = *state;
    char path[FILE_PATH_MAX];
    own_pack_file(path, t->f, t->first);
    flip_bit(path, 1000);
    fixture_reopen(t->f);
    assert_int_equal(ckpt_bundle_write(NULL, t->f->store, t->first, t->bundle, false, NULL), CKPT_EDATA);
    assert_false(exists(t->bundle));
}

/* A bit turned over somewhere in the file: it is refused, or it is the same checkpoint. */
static void a_damaged_bundle_brings_nothing_wrong(void **state)
{
    two_stores *const t = *state;
    struct stat st;
    ckpt_list *list = NULL;
    MUST(ckpt_bundle_write(NULL, t->f->store, "kept", t->bundle, false, ERR));
    assert_int_equal(stat(t->bundle, &st), 0);
    for (off_t at = 0; at < st.st_size; at += st.st_size / 97 + 1) {
        flip_bit(t->bundle, at);
        const int rc = ckpt_bundle_import(NULL, t->other, t->bundle, NULL);
        assert_true(rc == 0 || rc == CKPT_EDATA || rc == CKPT_EFORMAT || rc == CKPT_EVERSION || rc == CKPT_EUSAGE);
        assert_verifies(t->other);
        flip_bit(t->bundle, at);
        other_anew(t);
    }
    MUST(ckpt_bundle_import(NULL, t->other, t->bundle, ERR));
    MUST(ckpt_list_new(&list, t->other, ERR));
    assert_int_equal(ckpt_list_count(list), 1);
    ckpt_list_free(list);
    assert_same_checkpoint(t, t->second);
}

static void a_bundle_that_is_cut_off_is_refused(void **state)
{
    two_stores *const t = *state;
    struct stat st;
    MUST(ckpt_bundle_write(NULL, t->f->store, "kept", t->bundle, false, ERR));
    assert_int_equal(stat(t->bundle, &st), 0);
    assert_int_equal(truncate(t->bundle, st.st_size - 100), 0);
    assert_int_equal(ckpt_bundle_import(NULL, t->other, t->bundle, NULL), CKPT_EFORMAT);
    assert_int_equal(count_files(t->other->packs_dir), 0);
}

static void other_files_are_no_bundles(void **state)
{
    static const char *const FILES[] = {"state/state.pt", "state/state.safetensors", "zip/infozip.zip"};
    two_stores *const t = *state;
    for (size_t i = 0; i < 3; i++) {
        char path[FILE_PATH_MAX];
        ckpt_error err = {0};
        join(path, GOLDEN_DIR, FILES[i]);
        assert_int_equal(ckpt_bundle_import(NULL, t->other, path, &err), CKPT_EFORMAT);
        assert_non_null(strstr(err.message, "is no bundle"));
    }
}

static void features_of_its_packs_are_noted_where_it_comes(void **state)
{
    static const char *const paths[] = {GOLDEN_DIR "/state/state.safetensors"};
    two_stores *const t = *state;
    ckpt_save_options options = CKPT_SAVE_OPTIONS_INIT;
    options.optimizer_bf16 = true;
    MUST(ckpt_save_files(NULL, t->f->store, paths, 1, &options, ERR));
    MUST(ckpt_bundle_write(NULL, t->f->store, "latest", t->bundle, false, ERR));
    MUST(ckpt_bundle_import(NULL, t->other, t->bundle, ERR));
    char *const config = read_text(t->other->config_path);
    assert_non_null(strstr(config, "transforms"));
    free(config);
}

/* Holds the lease `prune` from the first piece that is copied, so that noting features has to wait for it. */
typedef struct holder {
    const ckpt_store *store;
    lease *held;
    const char *pack; /* file of the pack that has features */
    bool pack_was_there, waited;
} holder;

static int hold(void *payload, uint64_t done_bytes, uint64_t total_bytes)
{
    holder *const h = payload;
    (void)done_bytes;
    if (total_bytes > 0 && !h->held && !h->waited)
        MUST(prune_lease_take(&h->held, h->store, 0, ERR));
    else if (total_bytes == 0 && h->held) {
        h->pack_was_there = access(h->pack, F_OK) == 0;
        h->waited = true;
        lease_release(h->held);
        h->held = NULL;
    }
    return 0;
}

static void features_are_noted_before_the_pack_that_has_them_appears(void **state)
{
    static const char *const paths[] = {GOLDEN_DIR "/state/state.safetensors"};
    two_stores *const t = *state;
    char saved[FILE_PATH_MAX], imported[FILE_PATH_MAX];
    ckpt_save_options options = CKPT_SAVE_OPTIONS_INIT;
    options.optimizer_bf16 = true;
    MUST(ckpt_save_files(NULL, t->f->store, paths, 1, &options, ERR));
    MUST(ckpt_bundle_write(NULL, t->f->store, "latest", t->bundle, false, ERR));
    own_pack_file(saved, t->f, "latest");
    join(imported, t->other->packs_dir, path_base(saved));
    holder h = {.pack = imported};
    const ckpt_open_options open = {.size = sizeof open, .progress = hold, .payload = &h};
    ckpt_store_close(t->other);
    MUST(ckpt_store_open(&t->other, t->other_root, &open, ERR));
    h.store = t->other;
    MUST(ckpt_bundle_import(NULL, t->other, t->bundle, ERR));
    assert_true(h.waited);
    assert_false(h.pack_was_there);
    assert_int_equal(access(imported, F_OK), 0);
}

static void a_damaged_pack_that_a_bundle_replaces_is_kept(void **state)
{
    two_stores *const t = *state;
    fixture other = {.store = t->other};
    char path[FILE_PATH_MAX], kept[FILE_PATH_MAX], before[FILE_PATH_MAX];
    MUST(ckpt_bundle_write(NULL, t->f->store, "kept", t->bundle, false, ERR));
    MUST(ckpt_bundle_import(NULL, t->other, t->bundle, ERR));
    own_pack_file(path, &other, "latest");
    flip_bit(path, -20); /* in its footer */
    join(before, t->f->root, "before.pack");
    file_copy(before, path);
    ckpt_store_close(t->other);
    MUST(ckpt_store_open(&t->other, t->other_root, NULL, ERR));
    MUST(ckpt_bundle_import(NULL, t->other, t->bundle, ERR));
    assert_verifies(t->other);
    join(kept, t->other->damaged_dir, path_base(path));
    assert_same_bytes(before, kept);
}

static void packs_of_a_bundle_get_the_parity_of_the_store(void **state)
{
    two_stores *const t = *state;
    MUST(ckpt_setting_set(t->other, "parity", "10%", ERR));
    MUST(ckpt_bundle_write(NULL, t->f->store, "kept", t->bundle, false, ERR));
    MUST(ckpt_bundle_import(NULL, t->other, t->bundle, ERR));
    assert_int_equal(count_files(t->other->parity_dir), count_files(t->other->packs_dir));
    assert_verifies(t->other);
}

static void a_bundle_that_the_quota_has_no_room_for_is_refused(void **state)
{
    two_stores *const t = *state;
    MUST(ckpt_bundle_write(NULL, t->f->store, "kept", t->bundle, false, ERR));
    MUST(ckpt_setting_set(t->other, "quota", "4k", ERR));
    assert_int_equal(ckpt_bundle_import(NULL, t->other, t->bundle, NULL), CKPT_EQUOTA);
    assert_int_equal(count_files(t->other->packs_dir), 0);
}

/* Writes the bundle anew without its tags: the snapshot changed, and a pack of these bytes beside the others. */
static void bundle_rewrite(two_stores *t, void (*change)(snapshot *s), const char *more)
{
    int fd = -1;
    uint64_t size = 0, offset;
    byte_source source;
    zip_dir dir;
    tensor_file ignored = {0};
    file_tmp tmp = {.fd = -1};
    file_commit_plan plan = {0};
    zip_writer zip = {.out = &tmp};
    char path[FILE_PATH_MAX], hex[SHA256_HEX_SIZE];
    sha256 hash;
    MUST(file_open(&fd, &size, t->bundle, ERR));
    byte_source_fd(&source, fd, size, t->bundle);
    MUST(zip_member_directory(&dir, &ignored, &source, ERR));
    MUST(file_tmp_open(&tmp, t->f->root, "bundle", ERR));
    for (size_t i = 0; i < dir.count; i++) {
        const zip_entry *const entry = &dir.entries[i];
        const bool is_snapshot = strstr(entry->name, BUNDLE_SNAPSHOTS) != NULL;
        char *data = malloc(entry->size + 1);
        size_t data_size = entry->size;
        assert_non_null(data);
        if (strstr(entry->name, BUNDLE_TAGS)) {
            free(data);
            continue;
        }
        MUST(zip_member_locate(&offset, entry, &source, ERR));
        MUST(source.read(&source, data, offset, data_size, ERR));
        snprintf(path, sizeof path, "%s", entry->name);
        if (is_snapshot && change) {
            snapshot s;
            MUST(snapshot_decode(&s, data, data_size, ERR));
            free(data);
            change(&s);
            MUST(snapshot_encode(&data, &data_size, &s, ERR));
            sha256_hex(hex, &s.id);
            snprintf(path, sizeof path, BUNDLE_SNAPSHOTS "%08u-%s.json", (unsigned)s.sequence, hex);
            snapshot_clear(&s);
        }
        MUST(zip_writer_begin(&zip, path, data_size, 1, ERR));
        MUST(zip_writer_data(&zip, data, data_size, ERR));
        MUST(zip_writer_end(&zip, ERR));
        free(data);
    }
    if (more) {
        sha256_of(&hash, more, strlen(more));
        sha256_hex(hex, &hash);
        snprintf(path, sizeof path, BUNDLE_PACKS "%s.pack", hex);
        MUST(zip_writer_begin(&zip, path, strlen(more), 1, ERR));
        MUST(zip_writer_data(&zip, more, strlen(more), ERR));
        MUST(zip_writer_end(&zip, ERR));
    }
    MUST(zip_writer_finish(&zip, ERR));
    MUST(file_commit_add(&plan, &tmp, t->bundle, true, ERR));
    MUST(file_commit(&plan, ERR));
    zip_writer_clear(&zip);
    zip_dir_clear(&dir);
    file_close(&fd);
}

/* It is refused, and the store is as sound as before. */
static void assert_refused(two_stores *t, const char *message)
{
    ckpt_error err = {0};
    assert_int_equal(ckpt_bundle_import(NULL, t->other, t->bundle, &err), CKPT_EDATA);
    assert_non_null(strstr(err.message, message));
    assert_verifies(t->other);
    assert_int_equal(count_files(t->other->snapshots_dir), 0);
}

static void what_is_no_pack_is_refused_though_its_hash_is_right(void **state)
{
    two_stores *const t = *state;
    MUST(ckpt_bundle_write(NULL, t->f->store, "kept", t->bundle, false, ERR));
    bundle_rewrite(t, NULL, "no pack at all, but long enough to have had a header and a footer: 48 bytes and 16");
    assert_refused(t, "does not begin like a pack");
}

static void is_of_the_last_number(snapshot *s)
{
    s->sequence = 99999999;
}

static void a_checkpoint_that_would_take_the_last_number_is_refused(void **state)
{
    two_stores *const t = *state;
    MUST(ckpt_bundle_write(NULL, t->f->store, "kept", t->bundle, false, ERR));
    bundle_rewrite(t, is_of_the_last_number, NULL);
    assert_refused(t, "which saves do not come to");
    assert_int_equal(count_files(t->other->packs_dir), 0);
}

static void has_more_files(snapshot *s)
{
    s->files++;
}

static void has_more_bytes(snapshot *s)
{
    s->raw_bytes++;
}

static void a_snapshot_that_its_pack_contradicts_is_refused(void **state)
{
    static void (*const CHANGES[])(snapshot * s) = {has_more_files, has_more_bytes};
    two_stores *const t = *state;
    for (size_t i = 0; i < 2; i++) {
        MUST(ckpt_bundle_write(NULL, t->f->store, "kept", t->bundle, true, ERR));
        bundle_rewrite(t, CHANGES[i], NULL);
        assert_refused(t, "snapshot and pack disagree");
    }
}

int main(void)
{
#define BUNDLE_TEST(name) cmocka_unit_test_setup_teardown(name, two_setup, two_teardown)
    const struct CMUnitTest tests[] = {
        BUNDLE_TEST(a_bundle_brings_a_checkpoint_with_its_tags_into_another_store),
        BUNDLE_TEST(what_is_there_already_is_not_brought_again),
        BUNDLE_TEST(a_tag_of_another_checkpoint_stays_where_it_is),
        BUNDLE_TEST(an_existing_file_is_not_overwritten),
        BUNDLE_TEST(a_damaged_pack_is_not_bundled),
        BUNDLE_TEST(a_damaged_bundle_brings_nothing_wrong),
        BUNDLE_TEST(a_bundle_that_is_cut_off_is_refused),
        BUNDLE_TEST(other_files_are_no_bundles),
        BUNDLE_TEST(a_bundle_that_the_quota_has_no_room_for_is_refused),
        BUNDLE_TEST(what_is_no_pack_is_refused_though_its_hash_is_right),
        BUNDLE_TEST(a_checkpoint_that_would_take_the_last_number_is_refused),
        BUNDLE_TEST(a_snapshot_that_its_pack_contradicts_is_refused),
        BUNDLE_TEST(features_of_its_packs_are_noted_where_it_comes),
        BUNDLE_TEST(features_are_noted_before_the_pack_that_has_them_appears),
        BUNDLE_TEST(a_damaged_pack_that_a_bundle_replaces_is_kept),
        BUNDLE_TEST(packs_of_a_bundle_get_the_parity_of_the_store),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
