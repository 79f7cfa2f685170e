/* Saves as a whole: every kind of file comes back as it was, whatever stands in the store already. */
#include "file_tree.h"

#include "weights.h"

#include <zstd.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

/* ---- Golden inputs ---- */

static const char *const GOLDEN_FOLDERS[] = {"torch", "trajectory-tiny", "cases", "zip"};
#define GOLDEN_FOLDER_COUNT (sizeof GOLDEN_FOLDERS / sizeof *GOLDEN_FOLDERS)
#define SAVES_MAX           128

typedef struct save_log {
    fixture *f;
    char sources[SAVES_MAX][FILE_PATH_MAX]; /* the files, under the names of their saves */
    char ids[SAVES_MAX][CKPT_ID_SIZE];
    size_t count;
} save_log;

static void save_under_a_new_name(void *payload, const char *path)
{
    save_log *const log = payload;
    char name[64];
    assert_true(log->count < SAVES_MAX);
    snprintf(name, sizeof name, "state_%zu.bin", log->count + 1);
    join(log->sources[log->count], log->f->root, name);
    file_copy(log->sources[log->count], path);
    memcpy(log->ids[log->count], save_path(log->f, log->sources[log->count]).id, CKPT_ID_SIZE);
    log->count++;
}

static void assert_all_restore(save_log *log)
{
    fixture_reopen(log->f);
    for (size_t i = 0; i < log->count; i++)
        assert_restores(log->f, log->ids[i], log->sources[i]);
}

static void golden_files_saved_under_changing_names_come_back(void **state)
{
    save_log *const log = calloc(1, sizeof *log);
    assert_non_null(log);
    log->f = *state;
    for (size_t i = 0; i < GOLDEN_FOLDER_COUNT; i++) {
        char dir[FILE_PATH_MAX];
        join(dir, GOLDEN_DIR, GOLDEN_FOLDERS[i]);
        files_each(dir, save_under_a_new_name, log);
    }
    assert_true(log->count >= 50);
    assert_all_restore(log);
    assert_nothing_left(log->f);
    free(log);
}

static void golden_folders_saved_at_once_come_back(void **state)
{
    fixture *const f = *state;
    char dirs[GOLDEN_FOLDER_COUNT][FILE_PATH_MAX], out[FILE_PATH_MAX], restored[FILE_PATH_MAX];
    const char *paths[GOLDEN_FOLDER_COUNT];
    ckpt_save_result saved;
    for (size_t i = 0; i < GOLDEN_FOLDER_COUNT; i++) {
        join(dirs[i], GOLDEN_DIR, GOLDEN_FOLDERS[i]);
        paths[i] = dirs[i];
    }
    MUST(ckpt_save_files(&saved, f->store, paths, GOLDEN_FOLDER_COUNT, NULL, ERR));
    assert_true(saved.files >= 50);
    fixture_reopen(f);
    join(out, f->root, "out");
    restore_to(f, saved.id, out);
    for (size_t i = 0; i < GOLDEN_FOLDER_COUNT; i++) {
        join(restored, out, GOLDEN_FOLDERS[i]);
        assert_same_tree(dirs[i], restored);
    }
}

static void samples_saved_under_changing_names_come_back(void **state)
{
    const char *const samples = getenv("CKPT_SAMPLES");
    static const char *const FOLDERS[] = {"trajectory", "torch"};
    if (!samples)
        skip();
    save_log *const log = calloc(1, sizeof *log);
    assert_non_null(log);
    log->f = *state;
    for (size_t i = 0; i < 2; i++) {
        char dir[FILE_PATH_MAX];
        join(dir, samples, FOLDERS[i]);
        files_each(dir, save_under_a_new_name, log);
    }
    assert_all_restore(log);
    free(log);
}

/* ---- Sizes and bytes ---- */

static void zeros(unsigned char *data, size_t size)
{
    memset(data, 0, size);
}

static void noise(unsigned char *data, size_t size)
{
    fill_noise(data, size, 7);
}

static void weights(unsigned char *data, size_t size)
{
    memset(data, 1, size);
    fill_weights(data, size, 7);
}

static void files_of_all_sizes_come_back(void **state)
{
    fixture *const f = *state;
    static const size_t SIZES[] = {
        0, 1, 2, 1023, 1024, 1025, 64 * KIB - 1, 64 * KIB, 64 * KIB + 1, MIB - 1, MIB, MIB + 1, 4 * MIB, 4 * MIB + 1};
    static void (*const FILLS[])(unsigned char *, size_t) = {zeros, noise, weights};
    char in[FILE_PATH_MAX], out[FILE_PATH_MAX], restored[FILE_PATH_MAX];
    unsigned char *const data = malloc(4 * MIB + 1);
    join(in, f->root, "in");
    make_dir(f->root, "in");
    for (size_t i = 0; i < sizeof SIZES / sizeof *SIZES; i++)
        for (size_t k = 0; k < 3; k++) {
            char name[64];
            snprintf(name, sizeof name, "%zu_%zu", k, SIZES[i]);
            FILLS[k](data, SIZES[i]);
            write_in(in, name, data, SIZES[i]);
        }
    free(data);
    save_path(f, in);
    fixture_reopen(f);
    join(out, f->root, "out");
    join(restored, out, "in");
    restore_to(f, "latest", out);
    assert_same_tree(in, restored);
}

static void same_sizes_saved_one_after_the_other_come_back(void **state)
{
    static const size_t SIZES[] = {1, 64 * KIB - 1, 64 * KIB, 64 * KIB + 1, MIB + 1, MIB, MIB - 1, 2, 0};
    save_log *const log = calloc(1, sizeof *log);
    unsigned char *const data = malloc(MIB + 1);
    assert_non_null(log);
    log->f = *state;
    for (size_t i = 0; i < sizeof SIZES / sizeof *SIZES; i++) {
        char name[64];
        snprintf(name, sizeof name, "growing_%zu.bin", i);
        weights(data, SIZES[i]);
        join(log->sources[i], log->f->root, name);
        memcpy(log->ids[i], save_bytes(log->f, name, data, SIZES[i]).id, CKPT_ID_SIZE);
        log->count++;
    }
    free(data);
    assert_all_restore(log);
    free(log);
}

/* A frame holds 64 MiB; the files are holes but for their ends. */
static void files_around_the_size_of_a_frame_come_back(void **state)
{
    fixture *const f = *state;
    for (off_t size = 64 * (off_t)MIB - 1; size <= 64 * (off_t)MIB + 1; size++) {
        char path[FILE_PATH_MAX];
        join(path, f->root, "sparse.bin");
        const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
        assert_true(fd >= 0);
        assert_int_equal(ftruncate(fd, size), 0);
        assert_int_equal(pwrite(fd, "begin", 5, 3), 5);
        assert_int_equal(pwrite(fd, "end", 3, size - 3), 3);
        close(fd);
        const ckpt_save_result saved = save_path(f, path);
        assert_int_equal(saved.raw_bytes, size);
        assert_true(saved.stored_bytes < 64 * KIB);
        assert_restores(f, saved.id, path);
    }
}

/* ---- Names, links, modes ---- */

static void any_name_that_a_file_may_have_comes_back(void **state)
{
    fixture *const f = *state;
    static const char *const NAMES[] = {
        "with space",
        " leading",
        "trailing ",
        "new\nline",
        "tab\there",
        "quote\"s",
        "apostrophe's",
        "back\\slash",
        "-dash",
        "$(echo)",
        "*",
        "#",
        "\xc3\xa9\xe6\xa8\xa1\xe5\x9e\x8b.pt",
        "\xff\xfe not UTF-8",
        "\x01\x1b[31m",
        "...",
        ".hidden",
        "..two",
        "CON",
        "a:b",
    };
    char in[FILE_PATH_MAX], out[FILE_PATH_MAX], restored[FILE_PATH_MAX], longest[256];
    join(in, f->root, "in \xff\n");
    make_dir(f->root, "in \xff\n");
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        write_in(in, NAMES[i], NAMES[i], strlen(NAMES[i]));
    memset(longest, 'n', 255);
    longest[255] = 0;
    write_in(in, longest, "long", 4);
    save_path(f, in);
    fixture_reopen(f);
    join(out, f->root, "out");
    join(restored, out, "in \xff\n");
    restore_to(f, "latest", out);
    assert_same_tree(in, restored);
}

static void links_and_empty_folders_and_modes_come_back(void **state)
{
    fixture *const f = *state;
    char in[FILE_PATH_MAX], path[FILE_PATH_MAX], out[FILE_PATH_MAX], restored[FILE_PATH_MAX];
    join(in, f->root, "in");
    make_dir(in, "empty/inner");
    make_dir(in, "closed");
    static const struct {
        const char *name;
        mode_t mode;
    } FILES[] = {{"private", 0600}, {"readable", 0444}, {"program", 0755}, {"closed/inside", 0640}, {"none", 0}};
    for (size_t i = 0; i < sizeof FILES / sizeof *FILES; i++) {
        write_in(in, FILES[i].name, FILES[i].name, strlen(FILES[i].name));
        join(path, in, FILES[i].name);
        if (geteuid() != 0 && !(FILES[i].mode & 0400))
            assert_int_equal(unlink(path), 0); /* nobody but root could read it */
        else
            assert_int_equal(chmod(path, FILES[i].mode), 0);
    }
    static const char *const LINKS[][2] = {{"relative", "closed/inside"},
                                           {"absolute", "/etc/hostname"},
                                           {"dangling", "no\nwhere"},
                                           {"to_folder", "closed"}};
    for (size_t i = 0; i < sizeof LINKS / sizeof *LINKS; i++) {
        join(path, in, LINKS[i][0]);
        assert_int_equal(symlink(LINKS[i][1], path), 0);
    }
    join(path, in, "closed");
    assert_int_equal(chmod(path, 0555), 0);
    join(path, in, "empty");
    assert_int_equal(chmod(path, 0700), 0);

    save_path(f, in);
    fixture_reopen(f);
    join(out, f->root, "out");
    join(restored, out, "in");
    restore_to(f, "latest", out);
    assert_same_tree(in, restored);
    join(path, in, "closed");
    assert_int_equal(chmod(path, 0755), 0); /* so that they can be removed */
    join(path, restored, "closed");
    assert_int_equal(chmod(path, 0755), 0);
}

/* ---- Size ---- */

static void assert_coded_well(void *payload, const char *path)
{
    char root[TEMP_PATH_MAX];
    fixture f = {0};
    (void)payload;
    assert_int_equal(temp_dir_make(root), 0);
    memcpy(f.root, root, sizeof root);
    MUST(ckpt_store_init(NULL, root, ERR));
    fixture_open(&f);
    const file_bytes file = file_load(path);
    const size_t bound = ZSTD_compressBound(file.size);
    void *const coded = malloc(bound);
    const size_t zstd_bytes = ZSTD_compress(coded, bound, file.data, file.size, 3);
    assert_false(ZSTD_isError(zstd_bytes));
    const ckpt_save_result saved = save_path(&f, path);
    if ((double)saved.coded_bytes > (double)zstd_bytes * 1.01 + 64)
        fail_msg("%s: coded %llu, zstd -3 %zu", path, (unsigned long long)saved.coded_bytes, zstd_bytes);
    assert_true(saved.coded_bytes > 0);
    free(coded);
    free(file.data);
    ckpt_store_close(f.store);
    assert_int_equal(temp_dir_remove(root), 0);
}

static void golden_files_are_coded_at_least_as_well_as_by_zstd(void **state)
{
    (void)state;
    for (size_t i = 0; i < 3; i++) { /* not zip/, whose members are compressed */
        char dir[FILE_PATH_MAX];
        join(dir, GOLDEN_DIR, GOLDEN_FOLDERS[i]);
        files_each(dir, assert_coded_well, NULL);
    }
}

/* ---- The result ---- */

static void result_tells_what_was_saved(void **state)
{
    fixture *const f = *state;
    char path[FILE_PATH_MAX], packs[FILE_PATH_MAX];
    struct stat st, pack_stat, snap;
    join(path, GOLDEN_DIR, "trajectory-tiny/model_epoch_1.safetensors");
    assert_int_equal(stat(path, &st), 0);
    const ckpt_save_result first = save_path(f, path), second = save_path(f, path);
    assert_int_equal(first.files, 1);
    assert_int_equal(first.raw_bytes, st.st_size);
    assert_int_equal(first.tensors, 122); /* as the expected/ of the file has lines */
    assert_int_equal(first.shared_bytes, 0);
    assert_int_equal(second.sequence, first.sequence + 1);
    assert_string_not_equal(second.id, first.id);
    own_pack_file(packs, f, first.id);
    assert_int_equal(stat(packs, &pack_stat), 0);
    snapshot_file(path, f, first.id);
    assert_int_equal(stat(path, &snap), 0);
    assert_true(first.coded_bytes < (uint64_t)pack_stat.st_size);
    const uint64_t on_disk = (uint64_t)pack_stat.st_size + (uint64_t)snap.st_size;
    assert_true(first.stored_bytes + 1 >= on_disk && first.stored_bytes <= on_disk + 1);
}

/* ---- Options that are refused, with the store as it was ---- */

static void assert_save_refused(fixture *f, const ckpt_save_options *options, const char *word)
{
    char path[FILE_PATH_MAX];
    const char *const paths[] = {path};
    ckpt_save_result result;
    ckpt_error err = {0};
    join(path, f->root, "file.bin");
    write_bytes(path, "bytes", 5);
    const size_t packs = count_files(f->store->packs_dir), snapshots = count_files(f->store->snapshots_dir);
    assert_int_equal(ckpt_save_files(&result, f->store, paths, 1, options, &err), CKPT_EUSAGE);
    if (!strstr(err.message, word))
        fail_msg("'%s' does not hold '%s'", err.message, word);
    assert_int_equal(count_files(f->store->packs_dir), packs);
    assert_int_equal(count_files(f->store->snapshots_dir), snapshots);
    assert_nothing_left(f);
}

static void messages_beyond_the_limits_are_refused(void **state)
{
    ckpt_save_options options = CKPT_SAVE_OPTIONS_INIT;
    char text[CKPT_META_BYTES_MAX + 2];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = 0;
    options.message = text;
    assert_save_refused(*state, &options, "2048");
    options.message = "bell \a";
    assert_save_refused(*state, &options, "control");
    options.message = "\xff";
    assert_save_refused(*state, &options, "UTF-8");
}

static void pairs_beyond_the_limits_are_refused(void **state)
{
    ckpt_save_options options = CKPT_SAVE_OPTIONS_INIT;
    static ckpt_value many[CKPT_META_PAIRS_MAX + 1];
    static char keys[CKPT_META_PAIRS_MAX + 1][8];
    for (int i = 0; i <= CKPT_META_PAIRS_MAX; i++) {
        snprintf(keys[i], sizeof keys[i], "k%d", i);
        many[i] = (ckpt_value){keys[i], "v"};
    }
    options.meta = many;
    options.meta_count = CKPT_META_PAIRS_MAX + 1;
    assert_save_refused(*state, &options, "64");
    const ckpt_value twice[] = {{"a", "1"}, {"a", "2"}}, bad_key[] = {{"a b", "1"}}, empty_key[] = {{"", "1"}},
                     control[] = {{"a", "\x1b"}};
    options.meta = twice;
    options.meta_count = 2;
    assert_save_refused(*state, &options, "a");
    options.meta_count = 1;
    options.meta = bad_key;
    assert_save_refused(*state, &options, "letters");
    options.meta = empty_key;
    assert_save_refused(*state, &options, "key");
    options.meta = control;
    assert_save_refused(*state, &options, "control");
}

static void steps_and_tags_that_make_no_sense_are_refused(void **state)
{
    static const char *const TAGS[] = {"", "latest", "best", "a/b", "a:b", "a~1", "new\nline"};
    ckpt_save_options options = CKPT_SAVE_OPTIONS_INIT;
    options.step = -2;
    assert_save_refused(*state, &options, "step");
    options.step = CKPT_STEP_NONE;
    for (size_t i = 0; i < sizeof TAGS / sizeof *TAGS; i++) {
        options.tag = TAGS[i];
        assert_save_refused(*state, &options, "tag");
    }
}

static void all_that_is_said_is_kept(void **state)
{
    fixture *const f = *state;
    const ckpt_value meta[] = {{"val_acc", "0.93"}, {"lr", "1e-3"}};
    ckpt_save_options options = CKPT_SAVE_OPTIONS_INIT;
    options.message = "caf\xc3\xa9\n\ttwo lines";
    options.step = INT64_MAX;
    options.meta = meta;
    options.meta_count = 2;
    options.tag = "good";
    char id[CKPT_ID_SIZE], found[CKPT_ID_SIZE];
    save_seed(id, f, 1, &options);
    fixture_reopen(f);
    ckpt_content *content;
    MUST(ckpt_find(found, f->store, "good", ERR));
    assert_string_equal(found, id);
    MUST(ckpt_content_open(&content, f->store, "good", ERR));
    const ckpt_info *const info = ckpt_content_info(content);
    assert_string_equal(info->message, options.message);
    assert_true(info->step == INT64_MAX);
    assert_int_equal(info->meta_count, 2);
    assert_string_equal(info->meta[1].value, "0.93");
    ckpt_content_close(content);
}

/* ---- Interruption ---- */

typedef struct stopper {
    uint64_t at; /* bytes */
    uint64_t last_done, total;
} stopper;

static int stop_at(void *payload, uint64_t done, uint64_t total)
{
    stopper *const s = payload;
    assert_true(done >= s->last_done && done <= total);
    s->last_done = done;
    s->total = total;
    return done >= s->at;
}

static void save_stopped_by_the_callback_leaves_the_store_as_it_was(void **state)
{
    fixture *const f = *state;
    static const uint64_t STOPS[] = {1, 100000, 420546, 700000, 841092};
    char in[FILE_PATH_MAX], id[CKPT_ID_SIZE], latest[CKPT_ID_SIZE];
    const char *const paths[] = {in};
    save_step(id, f, 1, 1);
    join(in, f->root, "in");
    make_dir(f->root, "in");
    for (int i = 1; i <= 2; i++) {
        char from[FILE_PATH_MAX], to[FILE_PATH_MAX], name[64];
        snprintf(name, sizeof name, "checkpoint_epoch_%d.pt", i);
        join(from, GOLDEN_DIR "/trajectory-tiny", name);
        join(to, in, name);
        file_copy(to, from);
    }
    for (size_t i = 0; i < sizeof STOPS / sizeof *STOPS; i++) {
        stopper s = {.at = STOPS[i]};
        ckpt_error err = {0};
        f->store->progress = stop_at;
        f->store->payload = &s;
        assert_int_equal(ckpt_save_files(NULL, f->store, paths, 1, NULL, &err), CKPT_EINTERRUPTED);
        assert_int_equal(s.total, 841092);
        f->store->progress = NULL;
        f->store->payload = f;
        assert_int_equal(count_files(f->store->snapshots_dir), 1);
        assert_nothing_left(f);
        MUST(ckpt_find(latest, f->store, "latest", ERR));
        assert_string_equal(latest, id);
    }
    save_path(f, in);
}

static void missing_file_is_not_found(void **state)
{
    fixture *const f = *state;
    const char *const paths[] = {"no/such/file.pt"};
    ckpt_error err = {0};
    assert_int_equal(ckpt_save_files(NULL, f->store, paths, 1, NULL, &err), CKPT_ENOTFOUND);
    assert_int_equal(count_files(f->store->snapshots_dir), 0);
    assert_nothing_left(f);
}

static void a_file_from_memory_may_stand_in_folders(void **state)
{
    fixture *const f = *state;
    char path[FILE_PATH_MAX];
    float x = 1;
    const ckpt_tensor tensor = {"x", CKPT_F32, 0, {0}, &x};
    const ckpt_restore_options elsewhere = {.size = sizeof elsewhere, .dir = f->root};
    MUST(ckpt_save_tensors(NULL, f->store, "runs/a.b/x.safetensors", &tensor, 1, NULL, 0, NULL, ERR));
    MUST(ckpt_restore_files(NULL, f->store, "latest", &elsewhere, ERR));
    MUST(path_join(path, f->root, "runs/a.b/x.safetensors", ERR));
    assert_true(exists(path));
}

static void file_names_from_memory_are_checked(void **state)
{
    fixture *const f = *state;
    char long_name[300];
    const char *const NAMES[] = {"",     ".",   "..",    "/a",    "a/",        "a//b", "../a",
                                 "a/..", "./a", "a/./b", ".ckpt", "a/.ckpt/b", "a\nb", long_name};
    float x = 1;
    const ckpt_tensor tensor = {"x", CKPT_F32, 0, {0}, &x};
    memset(long_name, 'a', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = 0;
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        assert_int_equal(ckpt_save_tensors(NULL, f->store, NAMES[i], &tensor, 1, NULL, 0, NULL, NULL), CKPT_EUSAGE);
    const ckpt_tensor twice[] = {tensor, tensor};
    assert_int_equal(ckpt_save_tensors(NULL, f->store, NULL, twice, 2, NULL, 0, NULL, NULL), CKPT_EUSAGE);
    assert_int_equal(count_files(f->store->snapshots_dir), 0);
}

/* A library and a caller of different versions: what the shorter struct lacks has its default. */
static void options_of_other_versions_are_understood(void **state)
{
    fixture *const f = *state;
    float x = 1;
    const ckpt_tensor tensor = {"x", CKPT_F32, 0, {0}, &x};
    struct {
        ckpt_save_options known;
        char more[64];
    } newer = {.known = CKPT_SAVE_OPTIONS_INIT};
    ckpt_save_options older = CKPT_SAVE_OPTIONS_INIT;
    newer.known.size = sizeof newer;
    newer.known.step = 7;
    older.size = offsetof(ckpt_save_options, step);
    older.step = -99; /* behind what it claims to have */
    MUST(ckpt_save_tensors(NULL, f->store, NULL, &tensor, 1, NULL, 0, &newer.known, ERR));
    MUST(ckpt_save_tensors(NULL, f->store, NULL, &tensor, 1, NULL, 0, &older, ERR));
    ckpt_list *list = NULL;
    MUST(ckpt_list_new(&list, f->store, ERR));
    assert_int_equal(ckpt_list_get(list, 0)->step, CKPT_STEP_NONE);
    assert_int_equal(ckpt_list_get(list, 1)->step, 7);
    ckpt_list_free(list);
}

#define SAVE_TEST(name) cmocka_unit_test_setup_teardown(name, tree_setup, tree_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SAVE_TEST(golden_files_saved_under_changing_names_come_back),
        SAVE_TEST(golden_folders_saved_at_once_come_back),
        SAVE_TEST(samples_saved_under_changing_names_come_back),
        SAVE_TEST(files_of_all_sizes_come_back),
        SAVE_TEST(same_sizes_saved_one_after_the_other_come_back),
        SAVE_TEST(files_around_the_size_of_a_frame_come_back),
        SAVE_TEST(any_name_that_a_file_may_have_comes_back),
        SAVE_TEST(links_and_empty_folders_and_modes_come_back),
        SAVE_TEST(golden_files_are_coded_at_least_as_well_as_by_zstd),
        SAVE_TEST(result_tells_what_was_saved),
        SAVE_TEST(messages_beyond_the_limits_are_refused),
        SAVE_TEST(pairs_beyond_the_limits_are_refused),
        SAVE_TEST(steps_and_tags_that_make_no_sense_are_refused),
        SAVE_TEST(all_that_is_said_is_kept),
        SAVE_TEST(save_stopped_by_the_callback_leaves_the_store_as_it_was),
        SAVE_TEST(missing_file_is_not_found),
        SAVE_TEST(a_file_from_memory_may_stand_in_folders),
        SAVE_TEST(file_names_from_memory_are_checked),
        SAVE_TEST(options_of_other_versions_are_understood),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
