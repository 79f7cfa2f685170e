/* Saves of files that another program overwrites again and again: ckpt_save_options.from_copy and whole_only. */
#include <ckpt/store.h>

#include "file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "must.h"
#include "temp_dir.h"

#define SIZE 100000

static char dir[TEMP_PATH_MAX];

static int setup(void **state)
{
    (void)state;
    return temp_dir_make(dir) || chdir(dir);
}

static int teardown(void **state)
{
    (void)state;
    return chdir("/") || temp_dir_remove(dir);
}

static void fill(const char *path, char byte)
{
    char *const text = malloc(SIZE);
    FILE *const f = fopen(path, "w");
    assert_non_null(text);
    assert_non_null(f);
    memset(text, byte, SIZE);
    assert_int_equal(fwrite(text, 1, SIZE, f), SIZE);
    assert_int_equal(fclose(f), 0);
    free(text);
}

/* Another program at work: overwrites the file whenever the save makes progress with it. */
static int overwrite(void *payload, uint64_t done_bytes, uint64_t total_bytes)
{
    char *const byte = payload;
    (void)done_bytes;
    (void)total_bytes;
    fill("model.bin", ++*byte);
    return 0;
}

static ckpt_store *store_with(char *byte)
{
    ckpt_store *store = NULL;
    const ckpt_open_options options = {
        .size = sizeof options, .threads = 1, .progress = byte ? overwrite : NULL, .payload = byte};
    MUST(ckpt_store_init(NULL, dir, ERR));
    MUST(ckpt_store_open(&store, dir, &options, ERR));
    return store;
}

static int save(ckpt_save_result *result, ckpt_store *store, const char *path, bool from_copy, bool whole_only,
                ckpt_error *err)
{
    ckpt_save_options options = CKPT_SAVE_OPTIONS_INIT;
    options.from_copy = from_copy;
    options.whole_only = whole_only;
    return ckpt_save_files(result, store, &path, 1, &options, err);
}

static int count_name(void *payload, const char *name, ckpt_error *err)
{
    (void)name;
    (void)err;
    ++*(unsigned *)payload;
    return 0;
}

static unsigned leftovers(void)
{
    unsigned count = 0;
    MUST(dir_each(".ckpt/tmp", count_name, &count, ERR));
    return count;
}

static void a_file_that_changes_during_the_save_is_refused(void **state)
{
    (void)state;
    char byte = 'a';
    ckpt_save_result saved;
    ckpt_error err = {0};
    fill("model.bin", byte);
    ckpt_store *const store = store_with(&byte);
    assert_int_equal(save(&saved, store, "model.bin", false, false, &err), CKPT_ECHANGED);
    ckpt_store_close(store);
}

static void its_copy_is_saved_as_it_was(void **state)
{
    (void)state;
    char byte = 'a', *text = NULL;
    size_t size = 0;
    ckpt_save_result saved;
    const ckpt_restore_options elsewhere = {.size = sizeof elsewhere, .dir = "out"};
    fill("model.bin", byte);
    ckpt_store *const store = store_with(&byte);
    MUST(save(&saved, store, "model.bin", true, false, ERR));
    assert_int_not_equal(byte, 'a'); /* it was overwritten meanwhile */
    MUST(ckpt_restore_files(NULL, store, saved.id, &elsewhere, ERR));
    MUST(file_read_all(&text, &size, "out/model.bin", SIZE, ERR));
    assert_int_equal(size, SIZE);
    for (size_t i = 0; i < size; i++)
        assert_int_equal(text[i], 'a');
    assert_int_equal(leftovers(), 0);
    free(text);
    ckpt_store_close(store);
}

static void names_and_modes_are_those_of_the_file(void **state)
{
    (void)state;
    ckpt_save_result saved;
    ckpt_content *content = NULL;
    MUST(dir_make("runs", ERR));
    fill("runs/a.bin", 'x');
    assert_int_equal(chmod("runs/a.bin", 0640), 0);
    ckpt_store *const store = store_with(NULL);
    MUST(save(&saved, store, "runs/a.bin", true, false, ERR));
    MUST(ckpt_content_open(&content, store, saved.id, ERR));
    assert_string_equal(ckpt_content_file(content, 0)->path, "runs/a.bin");
    assert_int_equal(ckpt_content_file(content, 0)->mode, 0640);
    ckpt_content_close(content);
    ckpt_store_close(store);
}

/* The first half of a file of PyTorch. */
static void cut(const char *path)
{
    char *data = NULL;
    size_t size = 0;
    MUST(file_read_all(&data, &size, GOLDEN_DIR "/trajectory-tiny/checkpoint_epoch_1.pt", 1 << 20, ERR));
    FILE *const f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, size / 2, f), size / 2);
    assert_int_equal(fclose(f), 0);
    free(data);
}

static void what_is_cut_off_can_be_refused(void **state)
{
    (void)state;
    ckpt_save_result saved;
    ckpt_error err = {0};
    cut("cut.pt");
    ckpt_store *const store = store_with(NULL);
    assert_int_equal(save(&saved, store, "cut.pt", false, true, &err), CKPT_EFORMAT);
    assert_int_equal(save(&saved, store, "cut.pt", true, true, &err), CKPT_EFORMAT);
    assert_string_equal(saved.id, "");
    assert_int_equal(leftovers(), 0);
    MUST(save(&saved, store, "cut.pt", false, false, ERR)); /* else it is kept, with a warning */
    ckpt_store_close(store);
}

static void a_file_in_another_state_than_expected_is_refused(void **state)
{
    (void)state;
    struct stat st;
    ckpt_save_result saved;
    ckpt_error err = {0};
    const char *const path = "expected.bin";
    ckpt_save_options options = CKPT_SAVE_OPTIONS_INIT;
    fill(path, 'x');
    assert_int_equal(stat(path, &st), 0);
    const ckpt_file_mark mark = {(uint64_t)st.st_size, (uint64_t)st.st_ino,
                                 (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec};
    options.expected = &mark;
    ckpt_store *const store = store_with(NULL);
    MUST(ckpt_save_files(&saved, store, &path, 1, &options, ERR));
    assert_int_equal(truncate(path, 0), 0); /* stands still, but is not what was looked at */
    assert_int_equal(ckpt_save_files(&saved, store, &path, 1, &options, &err), CKPT_ECHANGED);
    ckpt_store_close(store);
}

/* Another program at work: puts another file into place whenever the save makes progress. */
static int replace(void *payload, uint64_t done_bytes, uint64_t total_bytes)
{
    (void)payload;
    (void)done_bytes;
    (void)total_bytes;
    fill("next.bin", 'z');
    return rename("next.bin", "replaced.bin");
}

static void an_expected_file_that_loses_its_name_is_saved_as_it_was(void **state)
{
    (void)state;
    struct stat st;
    ckpt_store *store = NULL;
    ckpt_save_result saved;
    char first = 0;
    const char *const path = "replaced.bin";
    const ckpt_open_options open = {.size = sizeof open, .threads = 1, .progress = replace};
    ckpt_save_options options = CKPT_SAVE_OPTIONS_INIT;
    fill(path, 'a');
    assert_int_equal(stat(path, &st), 0);
    const ckpt_file_mark mark = {(uint64_t)st.st_size, (uint64_t)st.st_ino,
                                 (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec};
    options.expected = &mark;
    MUST(ckpt_store_init(NULL, dir, ERR));
    MUST(ckpt_store_open(&store, dir, &open, ERR));
    MUST(ckpt_save_files(&saved, store, &path, 1, &options, ERR));
    ckpt_store_close(store);
    store = store_with(NULL);
    const ckpt_restore_options elsewhere = {.size = sizeof elsewhere, .dir = "whole"};
    MUST(ckpt_restore_files(NULL, store, saved.id, &elsewhere, ERR));
    FILE *const f = fopen("whole/replaced.bin", "r");
    assert_non_null(f);
    assert_int_equal(fread(&first, 1, 1, f), 1);
    assert_int_equal(first, 'a');
    assert_int_equal(fclose(f), 0);
    ckpt_store_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_that_changes_during_the_save_is_refused),
        cmocka_unit_test(its_copy_is_saved_as_it_was),
        cmocka_unit_test(names_and_modes_are_those_of_the_file),
        cmocka_unit_test(what_is_cut_off_can_be_refused),
        cmocka_unit_test(a_file_in_another_state_than_expected_is_refused),
        cmocka_unit_test(an_expected_file_that_loses_its_name_is_saved_as_it_was),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
