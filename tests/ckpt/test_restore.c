#include "file_tree.h"

#include "bytes.h"
#include "weights.h"

#include <zstd.h>

typedef struct restore_case {
    fixture *f;
    char in[FILE_PATH_MAX], out[FILE_PATH_MAX], restored[FILE_PATH_MAX];
} restore_case;

/* A checkpoint of in/{a.bin,b.bin,link -> a.bin,sub/c.bin}; to be restored to out/. */
static restore_case saved_folder(void **state)
{
    restore_case c = {.f = *state};
    static unsigned char data[200000];
    char link[FILE_PATH_MAX];
    join(c.in, c.f->root, "in");
    join(c.out, c.f->root, "out");
    join(c.restored, c.out, "in");
    make_dir(c.in, "sub");
    fill_noise(data, sizeof data, 1);
    write_in(c.in, "a.bin", data, 70000);
    write_in(c.in, "b.bin", data + 70000, 130000);
    write_in(c.in, "sub/c.bin", data, 100);
    join(link, c.in, "link");
    assert_int_equal(symlink("a.bin", link), 0);
    save_path(c.f, c.in);
    return c;
}

static int restore_with(ckpt_restore_result *result, const restore_case *c, bool overwrite, bool dry_run,
                        ckpt_error *err)
{
    const ckpt_restore_options options = {
        .size = sizeof options, .dir = c->out, .overwrite = overwrite, .dry_run = dry_run};
    return ckpt_restore_files(result, c->f->store, "latest", &options, err);
}

static bool exists_in(const char *dir, const char *name)
{
    char path[FILE_PATH_MAX];
    join(path, dir, name);
    return exists(path);
}

/* ---- What is there already ---- */

static void differing_file_is_not_overwritten_and_nothing_is_written(void **state)
{
    const restore_case c = saved_folder(state);
    ckpt_restore_result result;
    ckpt_error err = {0};
    make_dir(c.restored, "");
    write_in(c.restored, "b.bin", "mine", 4);
    assert_int_equal(restore_with(&result, &c, false, false, &err), CKPT_ECONFIRM);
    assert_non_null(strstr(err.message, "in/b.bin"));
    assert_int_equal(count_files(c.restored), 1);
    assert_int_equal(stat_in(c.restored, "b.bin").st_size, 4);
}

static void differing_link_is_not_overwritten(void **state)
{
    const restore_case c = saved_folder(state);
    ckpt_error err = {0};
    char link[FILE_PATH_MAX];
    make_dir(c.restored, "");
    join(link, c.restored, "link");
    assert_int_equal(symlink("elsewhere", link), 0);
    assert_int_equal(restore_with(NULL, &c, false, false, &err), CKPT_ECONFIRM);
    assert_non_null(strstr(err.message, "in/link"));
    assert_int_equal(count_files(c.restored), 1);
    MUST(restore_with(NULL, &c, true, false, ERR));
    assert_same_tree(c.in, c.restored);
}

static void several_differing_files_are_counted(void **state)
{
    const restore_case c = saved_folder(state);
    ckpt_error err = {0};
    make_dir(c.restored, "");
    write_in(c.restored, "a.bin", "mine", 4);
    write_in(c.restored, "b.bin", "mine", 4);
    assert_int_equal(restore_with(NULL, &c, false, false, &err), CKPT_ECONFIRM);
    assert_non_null(strstr(err.message, "2 files"));
}

static void overwriting_replaces_what_differs(void **state)
{
    const restore_case c = saved_folder(state);
    ckpt_restore_result result;
    make_dir(c.restored, "");
    write_in(c.restored, "b.bin", "mine", 4);
    write_in(c.restored, "c.bin", "stays", 5);
    MUST(restore_with(&result, &c, true, false, ERR));
    assert_true(exists_in(c.restored, "c.bin"));
    char extra[FILE_PATH_MAX];
    join(extra, c.restored, "c.bin");
    assert_int_equal(unlink(extra), 0);
    assert_same_tree(c.in, c.restored);
    assert_int_equal(result.files, 3);
    assert_int_equal(result.bytes, 200100);
    assert_int_equal(result.unchanged_files, 0);
}

static void unchanged_files_are_left_alone(void **state)
{
    const restore_case c = saved_folder(state);
    ckpt_restore_result result;
    MUST(restore_with(&result, &c, false, false, ERR));
    assert_int_equal(result.unchanged_files, 0);
    const struct stat a = stat_in(c.restored, "a.bin"), link = stat_in(c.restored, "link");
    char b[FILE_PATH_MAX];
    join(b, c.restored, "b.bin");
    assert_int_equal(unlink(b), 0);
    MUST(restore_with(&result, &c, false, false, ERR));
    assert_int_equal(result.unchanged_files, 2);
    assert_int_equal(result.files, 3);
    assert_true(stat_in(c.restored, "a.bin").st_ino == a.st_ino);
    assert_true(stat_in(c.restored, "a.bin").st_mtim.tv_nsec == a.st_mtim.tv_nsec);
    assert_true(stat_in(c.restored, "link").st_ino == link.st_ino);
    assert_same_tree(c.in, c.restored);
}

static void dry_run_writes_nothing_and_still_refuses(void **state)
{
    const restore_case c = saved_folder(state);
    ckpt_restore_result result;
    MUST(restore_with(&result, &c, false, true, ERR));
    assert_int_equal(result.files, 3);
    assert_false(exists(c.out));
    make_dir(c.restored, "");
    write_in(c.restored, "b.bin", "mine", 4);
    assert_int_equal(restore_with(&result, &c, false, true, NULL), CKPT_ECONFIRM);
    MUST(restore_with(&result, &c, true, true, ERR));
    assert_int_equal(stat_in(c.restored, "b.bin").st_size, 4);
}

static void folder_in_the_place_of_a_file_is_refused(void **state)
{
    const restore_case c = saved_folder(state);
    ckpt_error err = {0};
    make_dir(c.restored, "b.bin");
    assert_int_equal(restore_with(NULL, &c, true, false, &err), CKPT_EUSAGE);
    assert_non_null(strstr(err.message, "b.bin"));
    assert_int_equal(count_files(c.restored), 1);
}

static void file_in_the_place_of_a_folder_is_refused(void **state)
{
    const restore_case c = saved_folder(state);
    ckpt_error err = {0};
    make_dir(c.restored, "");
    write_in(c.restored, "sub", "file", 4);
    assert_int_equal(restore_with(NULL, &c, true, false, &err), CKPT_EUSAGE);
    assert_non_null(strstr(err.message, "sub"));
    assert_int_equal(count_files(c.restored), 1);
}

/* What stands there as a link to a file elsewhere is replaced, never written through. */
static void link_in_the_place_of_a_file_is_not_written_through(void **state)
{
    const restore_case c = saved_folder(state);
    char link[FILE_PATH_MAX], precious[FILE_PATH_MAX];
    make_dir(c.restored, "");
    write_in(c.f->root, "precious", "keep me", 7);
    join(precious, c.f->root, "precious");
    join(link, c.restored, "b.bin");
    assert_int_equal(symlink(precious, link), 0);
    assert_int_equal(restore_with(NULL, &c, false, false, NULL), CKPT_ECONFIRM);
    MUST(restore_with(NULL, &c, true, false, ERR));
    assert_same_tree(c.in, c.restored);
    assert_int_equal(stat_in(c.f->root, "precious").st_size, 7);
}

static void without_a_folder_files_go_under_the_current_one(void **state)
{
    const restore_case c = saved_folder(state);
    MUST(ckpt_restore_files(NULL, c.f->store, "latest", NULL, ERR));
    char here[FILE_PATH_MAX];
    join(here, c.f->root, "here/in");
    assert_same_tree(c.in, here);
}

static void options_of_other_versions_are_understood(void **state)
{
    const restore_case c = saved_folder(state);
    const struct {
        ckpt_restore_options known;
        char unknown[16];
    } newer = {{.size = sizeof newer, .dir = c.out, .dry_run = true}, "newer"};
    const ckpt_restore_options older = {
        .size = offsetof(ckpt_restore_options, overwrite), .dir = c.out, .overwrite = true, .dry_run = true};
    MUST(ckpt_restore_files(NULL, c.f->store, "latest", &newer.known, ERR));
    assert_false(exists(c.out));
    MUST(ckpt_restore_files(NULL, c.f->store, "latest", &older, ERR));
    assert_same_tree(c.in, c.restored);
    write_in(c.restored, "b.bin", "mine", 4);
    assert_int_equal(ckpt_restore_files(NULL, c.f->store, "latest", &older, NULL), CKPT_ECONFIRM);
    const ckpt_restore_options none = {.dir = c.out};
    assert_int_equal(ckpt_restore_files(NULL, c.f->store, "latest", &none, NULL), CKPT_EUSAGE);
}

static void folders_are_synced_once_however_many_files_they_hold(void **state)
{
    fixture *const f = *state;
    char in[FILE_PATH_MAX], out[FILE_PATH_MAX], name[32];
    join(in, f->root, "in");
    join(out, f->root, "out");
    make_dir(in, "sub");
    for (int i = 0; i < 50; i++) {
        snprintf(name, sizeof name, "%s%d", i % 2 ? "sub/" : "", i);
        write_in(in, name, name, strlen(name));
    }
    save_path(f, in);
    folders_synced = 0;
    restore_to(f, "latest", out);
    /* Made: out, in and sub, for each its parent; filled: in and sub; given their modes: in and sub. */
    assert_int_equal(folders_synced, 3 + 2 + 2);
    assert_int_equal(count_files(out), 1);
}

/* ---- Interruption ---- */

typedef struct progress_seen {
    uint64_t done, total;
    uint64_t stop_at; /* 0: never */
} progress_seen;

static int see_progress(void *payload, uint64_t done, uint64_t total)
{
    progress_seen *const seen = payload;
    assert_true(done >= seen->done && done <= total);
    seen->done = done;
    seen->total = total;
    return seen->stop_at && done >= seen->stop_at;
}

static void progress_reaches_the_end_when_files_are_there_already(void **state)
{
    const restore_case c = saved_folder(state);
    progress_seen seen = {0};
    char b[FILE_PATH_MAX];
    MUST(restore_with(NULL, &c, false, false, ERR));
    join(b, c.restored, "b.bin");
    assert_int_equal(unlink(b), 0);
    c.f->store->progress = see_progress;
    c.f->store->payload = &seen;
    MUST(restore_with(NULL, &c, false, false, ERR));
    assert_int_equal(seen.done, 200100);
    assert_int_equal(seen.total, 200100);
}

static void looking_for_damage_can_be_stopped(void **state)
{
    const restore_case c = saved_folder(state);
    progress_seen seen = {.stop_at = 1};
    make_dir(c.restored, "");
    write_in(c.restored, "b.bin", "mine", 4);
    c.f->store->progress = see_progress;
    c.f->store->payload = &seen;
    assert_int_equal(restore_with(NULL, &c, false, false, NULL), CKPT_EINTERRUPTED);
}

static int stop_now(void *payload, uint64_t done, uint64_t total)
{
    (void)payload;
    return done > 100000 && done <= total;
}

static void restore_stopped_by_the_callback_leaves_no_half_file(void **state)
{
    const restore_case c = saved_folder(state);
    c.f->store->progress = stop_now;
    assert_int_equal(restore_with(NULL, &c, false, false, NULL), CKPT_EINTERRUPTED);
    c.f->store->progress = NULL;
    assert_false(exists_in(c.restored, "b.bin"));
    assert_int_equal(count_files(c.restored), 1); /* the folder sub */
    MUST(restore_with(NULL, &c, false, false, ERR));
    assert_same_tree(c.in, c.restored);
}

static void unknown_names_are_not_found(void **state)
{
    fixture *const f = *state;
    char id[CKPT_ID_SIZE];
    assert_int_equal(ckpt_restore_files(NULL, f->store, "latest", NULL, NULL), CKPT_ENOTFOUND);
    save_step(id, f, 1, 1);
    assert_int_equal(ckpt_restore_files(NULL, f->store, "step:2", NULL, NULL), CKPT_ENOTFOUND);
    assert_int_equal(ckpt_restore_files(NULL, f->store, "none", NULL, NULL), CKPT_ENOTFOUND);
    assert_int_equal(count_files("."), 0);
}

/* ---- Hostile stores ---- */

static void replace_all(unsigned char *bytes, size_t size, const void *from, const void *to, size_t n)
{
    size_t found = 0;
    for (size_t i = 0; i + n <= size; i++)
        if (memcmp(bytes + i, from, n) == 0) {
            memcpy(bytes + i, to, n);
            found++;
        }
    assert_true(found > 0);
}

/* SHA-256 of the records of files as docs/format.md describes them, for one regular file. */
static void tree_of_one_file(sha256 *out, const pack_file *file, const char *path)
{
    char record[512], hex[SHA256_HEX_SIZE];
    sha256_hex(hex, &file->hash);
    const int n = snprintf(record, sizeof record, "F %o %llu %s %c%s%c", (unsigned)file->mode,
                           (unsigned long long)file->size, hex, 0, path, 0);
    assert_true(n > 0 && (size_t)n < sizeof record);
    sha256_of(out, record, (size_t)n);
}

/* Writes a pack whose index is that of `from` with other bytes in it, everything else in order. */
static void pack_rewrite(sha256 *name, fixture *f, const char *from, const void *was, const void *is, size_t n)
{
    file_bytes file = file_load(from);
    unsigned char *const footer = (unsigned char *)file.data + file.size - PACK_FOOTER_SIZE;
    const uint64_t offset = load_u64(footer), coded_size = load_u64(footer + 8), size = load_u64(footer + 16);
    unsigned char *const index = malloc(size), *const coded = malloc(ZSTD_compressBound(size));
    assert_int_equal(ZSTD_decompress(index, size, file.data + offset, coded_size), size);
    replace_all(index, size, was, is, n);
    const size_t new_size = ZSTD_compress(coded, ZSTD_compressBound(size), index, size, 3);
    assert_false(ZSTD_isError(new_size));

    const size_t total = offset + new_size + PACK_FOOTER_SIZE;
    unsigned char *const out = malloc(total);
    memcpy(out, file.data, offset);
    memcpy(out + offset, coded, new_size);
    memcpy(out + offset + new_size, footer, PACK_FOOTER_SIZE);
    unsigned char *const end = out + offset + new_size;
    store_u64(end + 8, new_size);
    store_u64(end + 24, xxh64_of(coded, new_size));
    store_u64(end + 32, total);
    sha256_of(name, out, total);
    char path[FILE_PATH_MAX];
    MUST(pack_path(path, f->store->packs_dir, name, ERR));
    write_bytes(path, out, total);
    free(out);
    free(coded);
    free(index);
    free(file.data);
}

typedef struct forgery {
    char own[FILE_PATH_MAX]; /* the honest pack */
    snapshot snap;
    pack_file file; /* the first one */
} forgery;

static void forgery_begin(forgery *g, fixture *f)
{
    pack *p;
    snapshot_name found;
    own_pack_file(g->own, f, "latest");
    MUST(name_resolve(&found, f->store, "latest", ERR));
    MUST(snapshot_read(&g->snap, f->store->snapshots_dir, &found, ERR));
    MUST(pack_set_get(&p, f->store->packs, &g->snap.pack, ERR));
    g->file = p->index.files[0];
}

/* Puts the snapshot into the store as a newer one. */
static void forgery_end(forgery *g, fixture *f)
{
    char path[FILE_PATH_MAX], *text;
    size_t size;
    g->snap.sequence++;
    MUST(snapshot_encode(&text, &size, &g->snap, ERR));
    const snapshot_name newer = {g->snap.sequence, g->snap.id};
    MUST(snapshot_path(path, f->store->snapshots_dir, &newer, ERR));
    write_bytes(path, text, size);
    free(text);
    snapshot_clear(&g->snap);
    fixture_reopen(f);
}

/* A checkpoint whose only file is named `path` instead of `file.bin`, with a snapshot that fits. */
static void hostile_checkpoint(fixture *f, const char *path)
{
    forgery g;
    sha256 same;
    assert_int_equal(strlen(path), strlen("file.bin"));
    save_bytes(f, "file.bin", "hostile bytes", 13);
    forgery_begin(&g, f);
    tree_of_one_file(&same, &g.file, "file.bin");
    assert_memory_equal(&same, &g.snap.tree, sizeof same); /* so this is how a tree is made */
    pack_rewrite(&g.snap.pack, f, g.own, "file.bin", path, strlen(path));
    tree_of_one_file(&g.snap.tree, &g.file, path);
    forgery_end(&g, f);
}

/* Every chunk passes its check, and yet they are not the bytes that the checkpoint promises. */
static void file_with_another_hash_gets_no_name(void **state)
{
    fixture *const f = *state;
    char out[FILE_PATH_MAX];
    forgery g;
    ckpt_error err = {0};
    save_bytes(f, "file.bin", "honest bytes", 12);
    forgery_begin(&g, f);
    const sha256 was = g.file.hash;
    g.file.hash.bytes[31] ^= 1;
    pack_rewrite(&g.snap.pack, f, g.own, &was, &g.file.hash, sizeof was);
    tree_of_one_file(&g.snap.tree, &g.file, "file.bin");
    forgery_end(&g, f);
    join(out, f->root, "out");
    const ckpt_restore_options options = {.size = sizeof options, .dir = out};
    assert_int_equal(ckpt_restore_files(NULL, f->store, "latest~0", &options, &err), CKPT_EDATA);
    assert_non_null(strstr(err.message, "restore file.bin: the decoded bytes"));
    assert_int_equal(count_files(out), 0);
}

static void paths_that_lead_out_of_the_folder_are_refused(void **state)
{
    fixture *const f = *state;
    static const char *const PATHS[] = {"../x.bin", "/tmp/xbn", "a/../../", "a/../x.b",
                                        "./ab.bin", "a//b.bin", "ab.bin/.", "........"};
    char out[FILE_PATH_MAX];
    join(out, f->root, "out");
    make_dir(out, "");
    const ckpt_restore_options options = {.size = sizeof options, .dir = out, .overwrite = true};
    for (size_t i = 0; i < sizeof PATHS / sizeof *PATHS; i++) {
        ckpt_error err = {0};
        hostile_checkpoint(f, PATHS[i]);
        const bool good = i + 1 == sizeof PATHS / sizeof *PATHS; /* the last one is an odd but honest name */
        const int rc = ckpt_restore_files(NULL, f->store, "latest~0", &options, &err);
        if (rc != (good ? 0 : CKPT_EDATA))
            fail_msg("%s: %d %s", PATHS[i], rc, err.message);
        assert_int_equal(count_files(out), good ? 1 : 0);
        assert_false(exists_in(f->root, "x.bin"));
    }
}

/* A link that a checkpoint makes must not carry later files of it elsewhere, nor one that stands there already. */
static void files_below_a_link_of_the_checkpoint_are_refused(void **state)
{
    fixture *const f = *state;
    char in[FILE_PATH_MAX], path[FILE_PATH_MAX], out[FILE_PATH_MAX];
    join(in, f->root, "in");
    make_dir(in, "");
    join(path, in, "aa");
    assert_int_equal(symlink("/tmp", path), 0);
    make_dir(in, "bb");
    write_in(in, "bb/cc", "below", 5);
    save_path(f, in);

    forgery g;
    forgery_begin(&g, f);
    pack_rewrite(&g.snap.pack, f, g.own, "in/bb/cc", "in/aa/cc", strlen("in/bb/cc"));
    forgery_end(&g, f);

    join(out, f->root, "out");
    ckpt_error err = {0};
    const ckpt_restore_options options = {.size = sizeof options, .dir = out};
    assert_int_equal(ckpt_restore_files(NULL, f->store, "latest~0", &options, &err), CKPT_EDATA);
    assert_non_null(strstr(err.message, "in/aa/cc lies below"));
    assert_false(exists(out));
    assert_false(exists("/tmp/cc"));
}

/* ---- Some of the files ---- */

static int restore_only(ckpt_restore_result *result, const restore_case *c, const char *pattern, ckpt_error *err)
{
    const ckpt_restore_options options = {.size = sizeof options, .dir = c->out, .only = &pattern, .only_count = 1};
    return ckpt_restore_files(result, c->f->store, "latest", &options, err);
}

static void only_files_that_fit_are_restored_and_others_left_alone(void **state)
{
    const restore_case c = saved_folder(state);
    ckpt_restore_result result;
    make_dir(c.restored, "");
    write_in(c.restored, "b.bin", "mine", 4);
    MUST(restore_only(&result, &c, "in/[al]*", ERR));
    assert_int_equal(result.files, 1); /* and a link */
    assert_int_equal(result.bytes, 70000);
    assert_int_equal(count_files(c.restored), 3);
    assert_int_equal(stat_in(c.restored, "a.bin").st_size, 70000);
    assert_int_equal(stat_in(c.restored, "b.bin").st_size, 4);
    assert_true(exists_in(c.restored, "link"));
}

static void a_pattern_of_a_folder_restores_all_below_it(void **state)
{
    const restore_case c = saved_folder(state);
    MUST(restore_only(NULL, &c, "in/sub", ERR));
    assert_int_equal(count_files(c.restored), 1);
    assert_int_equal(stat_in(c.restored, "sub/c.bin").st_size, 100);
}

static void a_pattern_that_nothing_fits_is_not_found(void **state)
{
    const restore_case c = saved_folder(state);
    assert_int_equal(restore_only(NULL, &c, "*.pt", NULL), CKPT_ENOTFOUND);
    assert_false(exists(c.out));
}

#define RESTORE_TEST(name) cmocka_unit_test_setup_teardown(name, tree_setup, tree_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        RESTORE_TEST(differing_file_is_not_overwritten_and_nothing_is_written),
        RESTORE_TEST(differing_link_is_not_overwritten),
        RESTORE_TEST(several_differing_files_are_counted),
        RESTORE_TEST(overwriting_replaces_what_differs),
        RESTORE_TEST(unchanged_files_are_left_alone),
        RESTORE_TEST(dry_run_writes_nothing_and_still_refuses),
        RESTORE_TEST(options_of_other_versions_are_understood),
        RESTORE_TEST(folders_are_synced_once_however_many_files_they_hold),
        RESTORE_TEST(progress_reaches_the_end_when_files_are_there_already),
        RESTORE_TEST(looking_for_damage_can_be_stopped),
        RESTORE_TEST(folder_in_the_place_of_a_file_is_refused),
        RESTORE_TEST(file_in_the_place_of_a_folder_is_refused),
        RESTORE_TEST(link_in_the_place_of_a_file_is_not_written_through),
        RESTORE_TEST(without_a_folder_files_go_under_the_current_one),
        RESTORE_TEST(restore_stopped_by_the_callback_leaves_no_half_file),
        RESTORE_TEST(unknown_names_are_not_found),
        RESTORE_TEST(paths_that_lead_out_of_the_folder_are_refused),
        RESTORE_TEST(file_with_another_hash_gets_no_name),
        RESTORE_TEST(files_below_a_link_of_the_checkpoint_are_refused),
        RESTORE_TEST(only_files_that_fit_are_restored_and_others_left_alone),
        RESTORE_TEST(a_pattern_of_a_folder_restores_all_below_it),
        RESTORE_TEST(a_pattern_that_nothing_fits_is_not_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
