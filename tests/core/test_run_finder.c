/* Which checkpoint of a run to go on from. */
#include "run_sample.h"

#include <dirent.h>
#include <fcntl.h>

#define NAME_SIZE 256

/* What was taken. */
typedef struct taking {
    const net *net;
    float *vectors;
    state state;
    char id[CKPT_ID_SIZE];
    unsigned calls;
    int rc; /* returned instead of reading, unless 0 */
} taking;

static int take(void *payload, ckpt_content *content, size_t file, const ckpt_info *info, ckpt_error *err)
{
    taking *const t = payload;
    const size_t count = t->net->weight_count;
    int rc = t->rc;
    t->calls++;
    if (rc == 0)
        rc = state_read_values(&t->state, content, file, err);
    if (rc == 0)
        rc = state_read_tensors(t->vectors, t->vectors + count, t->vectors + 2 * count, content, file, t->net, err);
    memcpy(t->id, info->id, sizeof t->id);
    return rc;
}

/* A training of the program comes as a process of its own: it opens the store. */
static int find(taking *t, run_sample *r, const char *run, ckpt_error *err)
{
    ckpt_store *store = NULL;
    MUST(ckpt_store_open(&store, r->store_path, NULL, ERR));
    *t = (taking){.net = r->s->net, .vectors = calloc(3 * r->s->net->weight_count, sizeof(float)), .rc = t->rc};
    assert_non_null(t->vectors);
    const int rc = run_find(store, run, &r->report, take, t, err);
    ckpt_store_close(store);
    free(t->vectors);
    state_clear(&t->state);
    return rc;
}

static void save_run(run_sample *r, const char *run)
{
    run_advance(r);
    snprintf(r->s->state.recipe.name, sizeof r->s->state.recipe.name, "%s", run);
    run_open(r, NULL);
    run_save(r, SAVE_RHYTHM);
    run_close(r);
}

/* ---- Damage ---- */

static void newest_id(char id[CKPT_ID_SIZE], run_sample *r)
{
    MUST(ckpt_find(id, r->s->store, "latest", ERR));
}

/* The path of the only file of a folder of the store that is not in `known`, which it is put into. */
typedef struct known_files {
    char names[8][NAME_SIZE];
    size_t count;
} known_files;

static bool is_known(const known_files *known, const char *name)
{
    for (size_t i = 0; i < known->count; i++)
        if (strcmp(known->names[i], name) == 0)
            return true;
    return false;
}

static void new_file(char out[ROOT_PATH], known_files *known, const run_sample *r, const char *folder)
{
    char path[ROOT_PATH];
    snprintf(path, sizeof path, "%s/%s", r->store_path, folder);
    DIR *const dir = opendir(path);
    assert_non_null(dir);
    out[0] = 0;
    for (const struct dirent *entry; (entry = readdir(dir));)
        if (entry->d_name[0] != '.' && !is_known(known, entry->d_name)) {
            assert_true(out[0] == 0 && known->count < 8);
            snprintf(known->names[known->count++], NAME_SIZE, "%s", entry->d_name);
            snprintf(out, ROOT_PATH, "%s/%s/%s", r->store_path, folder, entry->d_name);
        }
    closedir(dir);
    assert_true(out[0] != 0);
}

/* Turns a byte over, `percent` of the way through the file. */
static void flip_byte(const char *path, off_t percent)
{
    unsigned char byte;
    const int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    const off_t at = lseek(fd, 0, SEEK_END) * percent / 100;
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 0x40;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

/* Saves and damages the pack of it. */
static void save_damaged(run_sample *r, known_files *packs, const char *run, off_t percent)
{
    char pack[ROOT_PATH];
    save_run(r, run);
    new_file(pack, packs, r, "packs");
    flip_byte(pack, percent);
}

static void save_good(run_sample *r, known_files *packs, const char *run)
{
    char pack[ROOT_PATH];
    save_run(r, run);
    new_file(pack, packs, r, "packs");
}

/* ---- Finding ---- */

static void the_newest_checkpoint_of_the_run_is_taken(void **test)
{
    run_sample *const r = *test;
    taking t = {0};
    char newest[CKPT_ID_SIZE];
    save_run(r, "exp-1");
    save_run(r, "exp-1");
    newest_id(newest, r);
    MUST(find(&t, r, "exp-1", ERR));
    assert_string_equal(t.id, newest);
    assert_int_equal(t.calls, 1);
    assert_int_equal(r->warnings, 0);
}

static void of_two_runs_in_a_store_each_finds_its_own(void **test)
{
    run_sample *const r = *test;
    taking t = {0};
    char one[CKPT_ID_SIZE], two[CKPT_ID_SIZE];
    save_run(r, "exp-1");
    newest_id(one, r);
    save_run(r, "exp-2");
    newest_id(two, r);
    MUST(find(&t, r, "exp-1", ERR));
    assert_string_equal(t.id, one);
    MUST(find(&t, r, "exp-2", ERR));
    assert_string_equal(t.id, two);
    MUST(find(&t, r, NULL, ERR));
    assert_string_equal(t.id, two);
}

/* At different places damage shows when the checkpoint is opened, or when a tensor is read. */
static void a_damaged_newest_one_is_passed_over_with_a_warning(void **test)
{
    run_sample *const r = *test;
    static const struct {
        off_t percent;
        unsigned calls;
    } ROWS[] = {{2, 2}, {98, 1}}; /* in the frames, in the index */
    char good[CKPT_ID_SIZE], bad[CKPT_ID_SIZE];
    known_files packs = {0};
    save_good(r, &packs, "exp-1");
    newest_id(good, r);
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        taking t = {0};
        r->warnings = 0;
        save_damaged(r, &packs, "exp-1", ROWS[i].percent);
        newest_id(bad, r);
        bad[8] = 0;
        MUST(find(&t, r, "exp-1", ERR));
        assert_string_equal(t.id, good);
        assert_int_equal(t.calls, ROWS[i].calls);
        assert_int_equal(r->warnings, 1);
        assert_non_null(strstr(r->warning, bad));
        MUST(ckpt_remove(r->s->store, "latest", true, ERR));
    }
}

static void values_that_make_no_sense_are_damage_too(void **test)
{
    run_sample *const r = *test;
    taking t = {0};
    char good[CKPT_ID_SIZE];
    save_run(r, "exp-1");
    newest_id(good, r);
    r->s->state.correct = r->s->state.seen + 1;
    save_run(r, "exp-1");
    MUST(find(&t, r, "exp-1", ERR));
    assert_string_equal(t.id, good);
    assert_non_null(strstr(r->warning, "correct"));
}

static void when_all_are_damaged_that_is_the_error(void **test)
{
    run_sample *const r = *test;
    taking t = {0};
    ckpt_error err = {0};
    known_files packs = {0};
    save_damaged(r, &packs, "exp-1", 98);
    save_damaged(r, &packs, "exp-1", 98);
    assert_int_equal(find(&t, r, "exp-1", &err), CKPT_EDATA);
    assert_non_null(strstr(err.message, "all checkpoints of the run are damaged"));
    assert_true(err.hint[0] != 0);
    assert_int_equal(r->warnings, 2);
}

/* Then it is not in the list at all. */
static void an_unreadable_snapshot_is_damage_and_not_the_absence_of_a_run(void **test)
{
    run_sample *const r = *test;
    taking t = {0};
    ckpt_error err = {0};
    known_files snapshots = {0};
    char path[ROOT_PATH];
    save_run(r, "exp-1");
    new_file(path, &snapshots, r, "snapshots");
    flip_byte(path, 50);
    assert_int_equal(find(&t, r, "exp-1", &err), CKPT_EDATA);
    assert_int_equal(t.calls, 0);
}

static void a_run_that_is_not_there_is_not_found_and_others_are_named(void **test)
{
    run_sample *const r = *test;
    taking t = {0};
    ckpt_error err = {0};
    save_run(r, "exp-2");
    save_run(r, "exp-2");
    save_run(r, "exp-3");
    assert_int_equal(find(&t, r, "exp-1", &err), CKPT_ENOTFOUND);
    assert_non_null(strstr(err.message, "exp-1"));
    assert_string_equal(err.hint, "its runs: exp-3, exp-2");
}

static void an_empty_store_has_no_run(void **test)
{
    run_sample *const r = *test;
    taking t = {0};
    ckpt_error err = {0};
    assert_int_equal(find(&t, r, NULL, &err), CKPT_ENOTFOUND);
    assert_true(err.hint[0] != 0);
}

/* Saves what is no state of a training, though its meta says so. */
static void save_claim(run_sample *r, const ckpt_value *claim, size_t count)
{
    const ckpt_tensor tensor = {"weight", CKPT_F32, 1, {3}, r->s->state.weights};
    ckpt_save_options options = CKPT_SAVE_OPTIONS_INIT;
    options.meta = claim;
    options.meta_count = count;
    MUST(ckpt_save_tensors(NULL, r->s->store, NULL, &tensor, 1, NULL, 0, &options, ERR));
}

static void what_others_call_a_run_is_none(void **test)
{
    run_sample *const r = *test;
    const ckpt_value claim = {"run", "theirs"};
    ckpt_error err = {0};
    taking t = {0};
    bool exists = true;
    save_run(r, "exp-1");
    save_claim(r, &claim, 1);
    MUST(run_exists(&exists, r->s->store, "theirs", ERR));
    assert_false(exists);
    assert_int_equal(find(&t, r, "theirs", &err), CKPT_ENOTFOUND);
    assert_null(strstr(err.hint, "theirs"));
}

static void checkpoints_without_a_state_are_no_runs(void **test)
{
    run_sample *const r = *test;
    taking t = {0};
    char good[CKPT_ID_SIZE];
    const ckpt_value claim[] = {{"run", "exp-1"}, {"reason", "none"}};
    save_run(r, "exp-1");
    newest_id(good, r);
    save_claim(r, NULL, 0);
    save_claim(r, claim, 1);
    save_claim(r, claim, 2);
    MUST(find(&t, r, NULL, ERR));
    assert_string_equal(t.id, good);
    assert_int_equal(r->warnings, 0);
}

static void other_errors_are_not_passed_over(void **test)
{
    run_sample *const r = *test;
    taking t = {.rc = CKPT_ENOMEM};
    save_run(r, "exp-1");
    save_run(r, "exp-1");
    assert_int_equal(find(&t, r, "exp-1", NULL), CKPT_ENOMEM);
    assert_int_equal(t.calls, 1);
    assert_int_equal(r->warnings, 0);
}

static void whether_a_run_exists_is_known_by_its_checkpoints(void **test)
{
    run_sample *const r = *test;
    bool exists = true;
    MUST(run_exists(&exists, r->s->store, "exp-1", ERR));
    assert_false(exists);
    save_run(r, "exp-1");
    MUST(run_exists(&exists, r->s->store, "exp-1", ERR));
    assert_true(exists);
    MUST(run_exists(&exists, r->s->store, "exp-10", ERR));
    assert_false(exists);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, run_setup, run_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(the_newest_checkpoint_of_the_run_is_taken),
        CASE(of_two_runs_in_a_store_each_finds_its_own),
        CASE(a_damaged_newest_one_is_passed_over_with_a_warning),
        CASE(values_that_make_no_sense_are_damage_too),
        CASE(when_all_are_damaged_that_is_the_error),
        CASE(an_unreadable_snapshot_is_damage_and_not_the_absence_of_a_run),
        CASE(a_run_that_is_not_there_is_not_found_and_others_are_named),
        CASE(an_empty_store_has_no_run),
        CASE(what_others_call_a_run_is_none),
        CASE(checkpoints_without_a_state_are_no_runs),
        CASE(other_errors_are_not_passed_over),
        CASE(whether_a_run_exists_is_known_by_its_checkpoints),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
