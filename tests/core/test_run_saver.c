/* Checkpoints of a run: what stands in them, and what happens when they cannot be made. */
#include "run_sample.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/* So many of the next writes find the disk full; the store's writes come through here. */
static atomic_uint writes_refused;

__attribute__((visibility("default"))) ssize_t write(int fd, const void *data, size_t size)
{
    if (atomic_load(&writes_refused) > 0) {
        atomic_fetch_sub(&writes_refused, 1);
        errno = ENOSPC;
        return -1;
    }
    return syscall(SYS_write, fd, data, size);
}

static ckpt_list *list_open(run_sample *r)
{
    ckpt_list *list = NULL;
    MUST(ckpt_list_new(&list, r->s->store, ERR));
    return list;
}

static size_t checkpoint_count(run_sample *r)
{
    ckpt_list *const list = list_open(r);
    const size_t count = ckpt_list_count(list);
    ckpt_list_free(list);
    return count;
}

/* Saves once, closes, and gives the only checkpoint. */
static const ckpt_info *save_one(ckpt_list **list, run_sample *r, save_reason reason)
{
    run_save(r, reason);
    run_close(r);
    *list = list_open(r);
    assert_int_equal(ckpt_list_count(*list), 1);
    return ckpt_list_get(*list, 0);
}

/* ---- What stands in a checkpoint ---- */

static void a_checkpoint_tells_where_it_comes_from(void **test)
{
    run_sample *const r = *test;
    ckpt_list *list;
    char host[65] = "";
    assert_int_equal(gethostname(host, sizeof host), 0);
    run_open(r, DATA_FOLDER);
    const ckpt_info *const info = save_one(&list, r, SAVE_RHYTHM);
    assert_int_equal(info->step, 23);
    assert_string_equal(run_meta_get(info, "run"), "exp-1");
    assert_string_equal(run_meta_get(info, "epoch"), "2");
    assert_string_equal(run_meta_get(info, "data"), DATA_FOLDER);
    assert_string_equal(run_meta_get(info, "host"), host);
    assert_string_equal(run_meta_get(info, "reason"), "rhythm");
    assert_non_null(run_meta_get(info, "seconds"));
    assert_null(run_meta_get(info, "images_per_s")); /* no step was made */
    assert_null(run_meta_get(info, "val_acc"));
    assert_null(run_meta_get(info, "test_acc"));
    assert_int_equal(info->tag_count, 0);
    ckpt_list_free(list);
}

static void its_file_is_the_state(void **test)
{
    run_sample *const r = *test;
    ckpt_content *content = NULL;
    size_t file;
    state back = {0};
    run_open(r, NULL);
    run_save(r, SAVE_RHYTHM);
    run_close(r);
    MUST(ckpt_content_open(&content, r->s->store, "latest", ERR));
    assert_string_equal(ckpt_content_file(content, 0)->path, "exp-1/state.safetensors");
    MUST(state_find(&file, content, ERR));
    MUST(state_read_values(&back, content, file, ERR));
    assert_int_equal(back.step, 23);
    state_clear(&back);
    ckpt_content_close(content);
}

static void an_epoch_and_a_best_one_tell_their_validation(void **test)
{
    run_sample *const r = *test;
    run_open(r, NULL);
    run_save(r, SAVE_BEST);
    run_settle(r, 1);
    run_advance(r);
    run_save(r, SAVE_EPOCH);
    run_close(r);
    ckpt_list *const list = list_open(r);
    assert_int_equal(ckpt_list_count(list), 2);
    assert_string_equal(run_meta_get(ckpt_list_get(list, 1), "reason"), "best");
    assert_string_equal(run_meta_get(ckpt_list_get(list, 1), "val_acc"), "0.937500");
    assert_string_equal(run_meta_get(ckpt_list_get(list, 0), "reason"), "epoch");
    assert_string_equal(run_meta_get(ckpt_list_get(list, 0), "val_acc"), "0.937500");
    ckpt_list_free(list);
}

static void the_final_one_is_tagged_and_on_disk_when_the_call_returns(void **test)
{
    run_sample *const r = *test;
    run_open(r, NULL);
    run_save(r, SAVE_FINAL);
    ckpt_list *const list = list_open(r);
    assert_int_equal(ckpt_list_count(list), 1);
    const ckpt_info *const info = ckpt_list_get(list, 0);
    assert_string_equal(run_meta_get(info, "reason"), "final");
    assert_string_equal(run_meta_get(info, "test_acc"), "0.875000");
    assert_null(run_meta_get(info, "val_acc"));
    assert_int_equal(info->tag_count, 1);
    assert_string_equal(info->tags[0], "exp-1-final");
    ckpt_list_free(list);
}

static void a_stopped_one_is_on_disk_when_the_call_returns(void **test)
{
    run_sample *const r = *test;
    run_open(r, NULL);
    run_save(r, SAVE_STOPPED);
    ckpt_list *const list = list_open(r);
    assert_int_equal(ckpt_list_count(list), 1);
    assert_string_equal(run_meta_get(ckpt_list_get(list, 0), "reason"), "stopped");
    ckpt_list_free(list);
}

static void the_state_is_saved_as_it_stands_at_the_call(void **test)
{
    run_sample *const r = *test;
    ckpt_content *content = NULL;
    const size_t count = r->s->net->weight_count;
    float *const saved = malloc(count * sizeof *saved), *const read = malloc(count * sizeof *read);
    assert_true(saved && read);
    memcpy(saved, r->s->state.weights, count * sizeof *saved);
    run_open(r, NULL);
    run_save(r, SAVE_RHYTHM);
    run_advance(r);
    run_close(r);
    MUST(ckpt_content_open(&content, r->s->store, "step:23", ERR));
    MUST(state_read_tensors(read, NULL, NULL, content, 0, r->s->net, ERR));
    assert_memory_equal(read, saved, count * sizeof *saved);
    ckpt_content_close(content);
    free(saved);
    free(read);
}

/* A path of quotes is written twice as long. */
static void a_path_of_data_that_does_not_fit_is_left_out(void **test)
{
    run_sample *const r = *test;
    ckpt_list *list;
    char path[1026];
    memset(path, '"', sizeof path - 1);
    path[sizeof path - 1] = 0;
    run_open(r, path);
    assert_null(run_meta_get(save_one(&list, r, SAVE_RHYTHM), "data"));
    ckpt_list_free(list);
}

static void the_longest_path_of_data_fits(void **test)
{
    run_sample *const r = *test;
    ckpt_list *list;
    char path[1025];
    memset(path, '"', sizeof path - 1);
    path[sizeof path - 1] = 0;
    memset(r->s->state.recipe.name, 'n', RECIPE_NAME_SIZE - 1);
    r->s->state.epoch = UINT64_MAX;
    run_open(r, path);
    assert_string_equal(run_meta_get(save_one(&list, r, SAVE_FINAL), "data"), path);
    ckpt_list_free(list);
}

static void a_path_of_data_that_is_no_text_is_left_out(void **test)
{
    run_sample *const r = *test;
    ckpt_list *list;
    run_open(r, "data\xff");
    assert_null(run_meta_get(save_one(&list, r, SAVE_RHYTHM), "data"));
    ckpt_list_free(list);
}

static void the_result_adds_up_what_was_written(void **test)
{
    run_sample *const r = *test;
    ckpt_training_result result = {0};
    uint64_t raw_bytes = 0, stored_bytes = 0;
    run_open(r, NULL);
    for (int i = 0; i < 3; i++) {
        run_save(r, SAVE_STOPPED);
        run_advance(r);
    }
    run_saver_result(&result, r->saver);
    ckpt_list *const list = list_open(r);
    for (size_t i = 0; i < ckpt_list_count(list); i++) {
        raw_bytes += ckpt_list_get(list, i)->raw_bytes;
        stored_bytes += ckpt_list_get(list, i)->stored_bytes;
    }
    ckpt_list_free(list);
    assert_int_equal(result.saves, 3);
    assert_int_equal(result.saves_failed, 0);
    assert_int_equal(result.raw_bytes, raw_bytes);
    assert_int_equal(result.stored_bytes, stored_bytes);
    assert_true(result.blocked_seconds > 0);
}

/* ---- Devices ---- */

#define DEVICE_KEY 0x5au /* on this device bytes are kept in disguise */

static int device_read(backend *b, void *host, const void *device, size_t bytes, ckpt_error *err)
{
    (void)b;
    (void)err;
    for (size_t i = 0; i < bytes; i++)
        ((unsigned char *)host)[i] = ((const unsigned char *)device)[i] ^ DEVICE_KEY;
    return 0;
}

static void vectors_that_the_host_cannot_see_are_read_from_the_device(void **test)
{
    run_sample *const r = *test;
    ckpt_content *content = NULL;
    const size_t bytes = 3 * r->s->net->weight_count * sizeof(float);
    float *const plain = malloc(bytes), *const read = malloc(bytes);
    assert_true(plain && read);
    memcpy(plain, r->s->state.weights, bytes);
    MUST(device_read(NULL, r->s->state.weights, plain, bytes, ERR));
    r->backend.memory_is_host = false;
    r->backend.read = device_read;
    run_open(r, NULL);
    run_save(r, SAVE_STOPPED);
    MUST(ckpt_content_open(&content, r->s->store, "latest", ERR));
    MUST(state_read_tensors(read, read + r->s->net->weight_count, read + 2 * r->s->net->weight_count, content, 0,
                            r->s->net, ERR));
    assert_memory_equal(read, plain, bytes);
    ckpt_content_close(content);
    free(plain);
    free(read);
}

static int device_lost(backend *b, ckpt_error *err)
{
    (void)b;
    err->code = CKPT_EMISSING;
    return CKPT_EMISSING;
}

static void a_device_that_fails_is_an_error(void **test)
{
    run_sample *const r = *test;
    ckpt_error err = {0};
    run_open(r, NULL);
    r->backend.wait = device_lost;
    assert_int_equal(run_saver_save(r->saver, SAVE_RHYTHM, 0, 0, &err), CKPT_EMISSING);
    run_close(r);
    assert_int_equal(checkpoint_count(r), 0);
}

static void store_path(char out[ROOT_PATH], const run_sample *r, const char *name)
{
    snprintf(out, ROOT_PATH, "%s/%s", r->store_path, name);
}

/* ---- Old ones go ---- */

static void save_eight(run_sample *r, uint64_t prune, const char *keep)
{
    r->s->state.recipe.prune = prune;
    snprintf(r->s->state.recipe.keep, sizeof r->s->state.recipe.keep, "%s", keep);
    run_open(r, NULL);
    for (int i = 0; i < 8; i++) {
        run_save(r, SAVE_STOPPED);
        run_advance(r);
    }
    run_close(r);
}

static void the_policy_of_the_recipe_is_applied_in_its_rhythm(void **test)
{
    run_sample *const r = *test;
    save_eight(r, 3, "last 2");
    assert_int_equal(checkpoint_count(r), 2 + 2); /* pruned after the third and the sixth */
}

static void without_a_policy_of_its_own_that_of_the_store_is_applied(void **test)
{
    run_sample *const r = *test;
    save_eight(r, 8, "");
    assert_int_equal(checkpoint_count(r), 5); /* a new store keeps the last 5 */
}

static void the_policy_of_a_run_removes_nothing_of_another(void **test)
{
    run_sample *const r = *test;
    save_eight(r, 8, "last 3");
    snprintf(r->s->state.recipe.name, sizeof r->s->state.recipe.name, "another");
    save_eight(r, 8, "last 1");
    assert_int_equal(checkpoint_count(r), 3 + 1);
}

static void a_recipe_that_prunes_never_keeps_all(void **test)
{
    run_sample *const r = *test;
    save_eight(r, 0, "last 2");
    assert_int_equal(checkpoint_count(r), 8);
}

static void a_policy_that_is_none_is_a_warning(void **test)
{
    run_sample *const r = *test;
    save_eight(r, 4, "everything");
    assert_int_equal(r->warnings, 1);
    assert_int_equal(checkpoint_count(r), 8);
}

/* Makes each prune by the store's policy fail. */
static void policy_break(const run_sample *r)
{
    char path[ROOT_PATH];
    store_path(path, r, "config.ini");
    FILE *const config = fopen(path, "a");
    assert_non_null(config);
    assert_true(fputs("[retention]\nkeep = everything\n", config) >= 0);
    assert_int_equal(fclose(config), 0);
}

static void a_prune_that_fails_is_told_once_and_not_as_a_save(void **test)
{
    run_sample *const r = *test;
    policy_break(r);
    save_eight(r, 2, "");
    assert_int_equal(r->warnings, 1);
    assert_non_null(strstr(r->warning, "old checkpoints not removed: policy"));
    assert_int_equal(r->notes, 0);
}

/* Saves in the rhythm until a prune has failed and the save after it told so. */
static void save_until_warned(run_sample *r)
{
    for (uint64_t count = 1; r->warnings == 0 && count < SETTLE_MS; count++) {
        run_save(r, SAVE_RHYTHM);
        run_settle(r, count);
        run_advance(r);
    }
}

static void a_prune_that_fails_between_saves_is_not_told_as_one_of_them(void **test)
{
    run_sample *const r = *test;
    policy_break(r);
    r->s->state.recipe.prune = 1;
    r->s->state.recipe.keep[0] = 0;
    run_open(r, NULL);
    save_until_warned(r);
    assert_non_null(strstr(r->warning, "old checkpoints not removed: policy"));
    run_close(r);
    assert_int_equal(r->warnings, 1);
}

/* ---- When it fails ---- */

/* Puts a file in the place of the folder for new files, so that none can be made, and the folder back. */
static void store_break(const run_sample *r)
{
    char tmp[ROOT_PATH], away[ROOT_PATH];
    store_path(tmp, r, "tmp");
    store_path(away, r, "away");
    assert_int_equal(rename(tmp, away), 0);
    FILE *const file = fopen(tmp, "w");
    assert_non_null(file);
    fclose(file);
}

static void store_mend(const run_sample *r)
{
    char tmp[ROOT_PATH], away[ROOT_PATH];
    store_path(tmp, r, "tmp");
    store_path(away, r, "away");
    assert_int_equal(remove(tmp), 0);
    assert_int_equal(rename(away, tmp), 0);
}

/* Saves so many times and waits for each. */
static void save_in_rhythm(run_sample *r, uint64_t *count, int times)
{
    for (int i = 0; i < times; i++) {
        run_save(r, SAVE_RHYTHM);
        run_settle(r, ++*count);
        run_advance(r);
    }
}

static void a_store_that_is_removed_stops_nobody_and_is_told_once(void **test)
{
    run_sample *const r = *test;
    uint64_t count = 0;
    run_open(r, NULL);
    save_in_rhythm(r, &count, 1);
    assert_int_equal(temp_dir_remove(r->store_path), 0);
    save_in_rhythm(r, &count, 4);
    assert_int_equal(r->warnings, 1);
    assert_non_null(strstr(r->warning, "checkpoint not saved: the store is gone: "));
    assert_non_null(strstr(r->warning, "; training goes on and tries again"));
    assert_null(strstr(r->warning, "an earlier save failed"));
}

static void the_last_save_returns_its_error(void **test)
{
    run_sample *const r = *test;
    ckpt_error err = {0};
    run_open(r, NULL);
    assert_int_equal(temp_dir_remove(r->store_path), 0);
    assert_true(run_saver_save(r->saver, SAVE_STOPPED, 0, 0, &err) != 0);
    assert_non_null(strstr(err.message, "checkpoint of step 23: "));
}

static void the_last_save_does_not_return_the_error_of_another(void **test)
{
    run_sample *const r = *test;
    run_open(r, NULL);
    store_break(r);
    run_save(r, SAVE_RHYTHM);
    run_settle(r, 1);
    store_mend(r);
    run_save(r, SAVE_STOPPED);
    assert_int_equal(r->warnings, 1);
    assert_int_equal(checkpoint_count(r), 1);
}

static void it_is_told_when_saves_succeed_again_and_then_when_they_fail_again(void **test)
{
    run_sample *const r = *test;
    uint64_t count = 0;
    run_open(r, NULL);
    store_break(r);
    save_in_rhythm(r, &count, 3);
    assert_int_equal(r->warnings, 1);
    assert_int_equal(r->notes, 0);
    store_mend(r);
    save_in_rhythm(r, &count, 3);
    assert_int_equal(r->warnings, 1);
    assert_int_equal(r->notes, 1);
    assert_string_equal(r->note, "checkpoints are saved again");
    store_break(r);
    save_in_rhythm(r, &count, 2);
    assert_int_equal(r->warnings, 2);
    store_mend(r);
}

static void another_cause_is_told_too(void **test)
{
    run_sample *const r = *test;
    uint64_t count = 0;
    run_open(r, NULL);
    store_break(r);
    save_in_rhythm(r, &count, 3);
    assert_int_equal(r->warnings, 1);
    assert_null(strstr(r->warning, "the store is gone"));
    assert_int_equal(temp_dir_remove(r->store_path), 0);
    save_in_rhythm(r, &count, 3);
    assert_int_equal(r->warnings, 2);
    assert_non_null(strstr(r->warning, "checkpoint not saved: the store is gone: "));
}

/* With a rhythm of pruning that is never reached. */
static void save_four(run_sample *r, uint64_t prune)
{
    r->s->state.recipe.prune = prune;
    snprintf(r->s->state.recipe.keep, sizeof r->s->state.recipe.keep, "last 1");
    run_open(r, NULL);
    for (int i = 0; i < 4; i++) {
        run_save(r, SAVE_STOPPED);
        run_advance(r);
    }
}

static void on_a_full_disk_old_checkpoints_make_room(void **test)
{
    run_sample *const r = *test;
    uint64_t count = 4;
    save_four(r, 100);
    atomic_store(&writes_refused, 1);
    save_in_rhythm(r, &count, 1); /* fails */
    assert_int_equal(checkpoint_count(r), 4);
    save_in_rhythm(r, &count, 1); /* tells, and has the others removed when it is done */
    run_close(r);
    assert_int_equal(r->warnings, 1);
    assert_non_null(strstr(r->warning, "checkpoint not saved: the disk is full: "));
    assert_int_equal(checkpoint_count(r), 1);
}

static void the_last_save_has_room_made_and_tries_again(void **test)
{
    run_sample *const r = *test;
    save_four(r, 100);
    atomic_store(&writes_refused, 1);
    run_save(r, SAVE_FINAL);
    assert_int_equal(checkpoint_count(r), 1 + 1);
}

static void the_last_save_fails_where_nothing_may_be_removed(void **test)
{
    run_sample *const r = *test;
    ckpt_error err = {0};
    save_four(r, 0);
    atomic_store(&writes_refused, 1);
    assert_int_equal(run_saver_save(r->saver, SAVE_FINAL, 0, 0, &err), CKPT_ENOSPC);
    assert_int_equal(atomic_load(&writes_refused), 0);
    assert_int_equal(checkpoint_count(r), 4);
}

static void in_a_quota_old_checkpoints_make_room_too(void **test)
{
    run_sample *const r = *test;
    uint64_t count = 4;
    save_four(r, 100);
    MUST(ckpt_setting_set(r->s->store, "quota", "1", ERR)); /* `keep` of its config.ini wants all of them kept */
    save_in_rhythm(r, &count, 1);                           /* fails */
    MUST(ckpt_setting_set(r->s->store, "quota", "0", ERR));
    save_in_rhythm(r, &count, 1); /* tells, and has the others removed when it is done */
    run_close(r);
    assert_non_null(strstr(r->warning, "quota"));
    assert_int_equal(checkpoint_count(r), 1);
}

static void a_store_that_may_only_be_read_is_told(void **test)
{
    run_sample *const r = *test;
    char path[ROOT_PATH];
    uint64_t count = 0;
    if (geteuid() == 0) /* may write anywhere */
        skip();
    store_path(path, r, "tmp");
    assert_int_equal(chmod(path, 0555), 0);
    run_open(r, NULL);
    save_in_rhythm(r, &count, 2);
    assert_int_equal(r->warnings, 1);
    assert_int_equal(chmod(path, 0777), 0);
}

static void without_a_store_it_does_not_open(void **test)
{
    run_sample *const r = *test;
    assert_int_equal(temp_dir_remove(r->store_path), 0);
    assert_int_equal(
        run_saver_open(&r->saver, r->store_path, &r->s->state, r->s->net, &r->backend, NULL, &r->report, NULL),
        CKPT_ENOSTORE);
    assert_null(r->saver);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, run_setup, run_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_checkpoint_tells_where_it_comes_from),
        CASE(its_file_is_the_state),
        CASE(an_epoch_and_a_best_one_tell_their_validation),
        CASE(the_final_one_is_tagged_and_on_disk_when_the_call_returns),
        CASE(a_stopped_one_is_on_disk_when_the_call_returns),
        CASE(the_state_is_saved_as_it_stands_at_the_call),
        CASE(a_path_of_data_that_does_not_fit_is_left_out),
        CASE(the_longest_path_of_data_fits),
        CASE(a_path_of_data_that_is_no_text_is_left_out),
        CASE(the_result_adds_up_what_was_written),
        CASE(vectors_that_the_host_cannot_see_are_read_from_the_device),
        CASE(a_device_that_fails_is_an_error),
        CASE(the_policy_of_the_recipe_is_applied_in_its_rhythm),
        CASE(without_a_policy_of_its_own_that_of_the_store_is_applied),
        CASE(the_policy_of_a_run_removes_nothing_of_another),
        CASE(a_recipe_that_prunes_never_keeps_all),
        CASE(a_policy_that_is_none_is_a_warning),
        CASE(a_prune_that_fails_is_told_once_and_not_as_a_save),
        CASE(a_prune_that_fails_between_saves_is_not_told_as_one_of_them),
        CASE(a_store_that_is_removed_stops_nobody_and_is_told_once),
        CASE(the_last_save_returns_its_error),
        CASE(the_last_save_does_not_return_the_error_of_another),
        CASE(it_is_told_when_saves_succeed_again_and_then_when_they_fail_again),
        CASE(another_cause_is_told_too),
        CASE(on_a_full_disk_old_checkpoints_make_room),
        CASE(in_a_quota_old_checkpoints_make_room_too),
        CASE(the_last_save_has_room_made_and_tries_again),
        CASE(the_last_save_fails_where_nothing_may_be_removed),
        CASE(a_store_that_may_only_be_read_is_told),
        CASE(without_a_store_it_does_not_open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
