#include "file_tree.h"

#include "walk.h"

#include "fail.h"

/* here/run/{epoch_1.pt,epoch_2.pt,epoch_10.pt,logs/,last -> epoch_10.pt}, elsewhere/{model.pt,deep/model.pt}; the
 * current folder is here/. */
typedef struct places {
    fixture *f;
    char here[FILE_PATH_MAX], elsewhere[FILE_PATH_MAX], before[FILE_PATH_MAX];
    walk w;
    char notes[8192];
} places;

static int setup(void **state)
{
    places *const p = calloc(1, sizeof *p);
    void *f = NULL;
    if (!p || fixture_setup(&f) || !getcwd(p->before, sizeof p->before))
        return -1;
    p->f = f;
    join(p->here, p->f->root, "here");
    join(p->elsewhere, p->f->root, "elsewhere");
    make_dir(p->here, "run/logs");
    make_dir(p->elsewhere, "deep");
    write_in(p->here, "run/epoch_10.pt", "ten", 3);
    write_in(p->here, "run/epoch_2.pt", "two", 3);
    write_in(p->here, "run/epoch_1.pt", "first", 5);
    write_in(p->elsewhere, "model.pt", "m", 1);
    write_in(p->elsewhere, "deep/model.pt", "deep", 4);
    *state = p;
    return chdir(p->here) || symlink("epoch_10.pt", "run/last");
}

static int teardown(void **state)
{
    places *const p = *state;
    void *f = p->f;
    walk_clear(&p->w);
    const int rc = chdir(p->before);
    free(p);
    return fixture_teardown(&f) || rc;
}

static void note_add(void *payload, const char *note)
{
    places *const p = payload;
    const size_t used = strlen(p->notes);
    snprintf(p->notes + used, sizeof p->notes - used, "%s\n", note);
}

static int walk_to(places *p, const char *const *paths, size_t count, ckpt_error *err)
{
    walk_clear(&p->w);
    return walk_paths(&p->w, paths, count, p->f->store->path, note_add, p, err);
}

/* The walk of these paths gives these names, in this order, joined by blanks. */
static void assert_names(places *p, const char *const *paths, size_t count, const char *expected)
{
    char names[1024] = "";
    MUST(walk_to(p, paths, count, ERR));
    for (size_t i = 0; i < p->w.count; i++) {
        const size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", i ? " " : "", p->w.entries[i].path);
    }
    assert_string_equal(names, expected);
}

static void assert_refused(places *p, const char *const *paths, size_t count, int code, const char *word)
{
    ckpt_error err = {0};
    assert_int_equal(walk_to(p, paths, count, &err), code);
    if (!strstr(err.message, word))
        fail_msg("'%s' does not hold '%s'", err.message, word);
    assert_int_equal(p->w.count, 0);
}

static void folder_is_listed_in_natural_order(void **state)
{
    const char *const paths[] = {"run"};
    assert_names(*state, paths, 1, "run run/epoch_1.pt run/epoch_2.pt run/epoch_10.pt run/last run/logs");
    const places *const p = *state;
    assert_int_equal(p->w.total_bytes, 11);
    assert_int_equal(p->w.entries[0].kind, CKPT_FOLDER);
    assert_int_equal(p->w.entries[1].kind, CKPT_FILE);
    assert_int_equal(p->w.entries[1].size, 5);
    assert_int_equal(p->w.entries[4].kind, CKPT_LINK);
    assert_string_equal(p->w.entries[4].link, "epoch_10.pt");
    assert_int_equal(p->w.entries[5].kind, CKPT_FOLDER);
    assert_true(p->w.entries[0].typed);
    assert_false(p->w.entries[1].typed);
}

static void path_under_the_current_folder_keeps_its_relative_path(void **state)
{
    const char *const dotted[] = {"./run/../run/logs/../epoch_2.pt"};
    assert_names(*state, dotted, 1, "run/epoch_2.pt");
    const places *const p = *state;
    char absolute[FILE_PATH_MAX];
    const char *const paths[] = {absolute};
    join(absolute, p->here, "run/epoch_2.pt");
    assert_names(*state, paths, 1, "run/epoch_2.pt");
}

static void path_elsewhere_keeps_its_last_component(void **state)
{
    const char *const file[] = {"../elsewhere/deep/model.pt"};
    assert_names(*state, file, 1, "model.pt");
    const char *const folder[] = {"../elsewhere/"};
    assert_names(*state, folder, 1, "elsewhere elsewhere/deep elsewhere/deep/model.pt elsewhere/model.pt");
}

static void folder_with_a_longer_name_is_not_the_current_one(void **state)
{
    const places *const p = *state;
    make_dir(p->f->root, "here2");
    write_in(p->f->root, "here2/x", "x", 1);
    const char *const paths[] = {"../here2/x"};
    assert_names(*state, paths, 1, "x");
}

static void current_folder_has_no_name_of_its_own(void **state)
{
    const char *const paths[] = {"."};
    assert_int_equal(chdir("run"), 0);
    assert_names(*state, paths, 1, "epoch_1.pt epoch_2.pt epoch_10.pt last logs");
    const char *const slashes[] = {"./"};
    assert_names(*state, slashes, 1, "epoch_1.pt epoch_2.pt epoch_10.pt last logs");
}

static void two_paths_with_one_name_are_refused(void **state)
{
    const char *const paths[] = {"../elsewhere/model.pt", "../elsewhere/deep/model.pt"};
    assert_refused(*state, paths, 2, CKPT_EUSAGE, "model.pt");
    const char *const twice[] = {"run/epoch_1.pt", "./run/epoch_1.pt"};
    assert_refused(*state, twice, 2, CKPT_EUSAGE, "run/epoch_1.pt");
}

static void name_of_a_file_and_of_a_folder_is_refused(void **state)
{
    const places *const p = *state;
    make_dir(p->here, "model.pt");
    write_in(p->here, "model.pt/x", "x", 1);
    const char *const paths[] = {"../elsewhere/model.pt", "model.pt/x"};
    assert_refused(*state, paths, 2, CKPT_EUSAGE, "as a file and as a folder");
}

static void parent_folders_that_are_not_saved_are_no_clash(void **state)
{
    const char *const paths[] = {"run/epoch_1.pt", "run/epoch_2.pt"};
    assert_names(*state, paths, 2, "run/epoch_1.pt run/epoch_2.pt");
}

static void stores_are_left_out_of_folders(void **state)
{
    const places *const p = *state;
    make_dir(p->here, "run/other");
    char other[FILE_PATH_MAX];
    join(other, p->here, "run/other");
    MUST(ckpt_store_init(NULL, other, ERR));
    const char *const paths[] = {"run/other", ".."};
    assert_names(*state, paths, 1, "run/other");
    MUST(walk_to(*state, paths + 1, 1, ERR));
    assert_true(p->w.count > 8);
    for (size_t i = 0; i < p->w.count; i++)
        if (strstr(p->w.entries[i].path, ".ckpt"))
            fail_msg("%s is part of the walk", p->w.entries[i].path);
}

static void store_is_refused_by_name(void **state)
{
    const char *const paths[] = {"../.ckpt"};
    assert_refused(*state, paths, 1, CKPT_EUSAGE, "store");
}

static void store_is_refused_behind_a_link(void **state)
{
    const char *const paths[] = {"link"};
    assert_int_equal(symlink("../.ckpt", "link"), 0);
    assert_refused(*state, paths, 1, CKPT_EUSAGE, "store");
}

static void part_of_a_store_is_refused(void **state)
{
    const places *const p = *state;
    const char *const elsewhere[] = {"../.ckpt/config.ini"};
    assert_refused(*state, elsewhere, 1, CKPT_EUSAGE, "store");
    assert_int_equal(symlink("../.ckpt/packs", "link"), 0);
    const char *const linked[] = {"link"};
    assert_refused(*state, linked, 1, CKPT_EUSAGE, "store");
    assert_int_equal(chdir(p->f->root), 0);
    const char *const below[] = {".ckpt/packs"};
    assert_refused(*state, below, 1, CKPT_EUSAGE, "store");
    assert_int_equal(chdir(p->f->store->packs_dir), 0);
    const char *const inside[] = {"."};
    assert_refused(*state, inside, 1, CKPT_EUSAGE, "store");
}

static void link_given_by_name_is_followed(void **state)
{
    const places *const p = *state;
    const char *const file[] = {"run/last"};
    assert_names(*state, file, 1, "run/last");
    assert_int_equal(p->w.entries[0].kind, CKPT_FILE);
    assert_int_equal(p->w.entries[0].size, 3);
    assert_int_equal(symlink("run", "best"), 0);
    const char *const folder[] = {"best"};
    assert_names(*state, folder, 1, "best best/epoch_1.pt best/epoch_2.pt best/epoch_10.pt best/last best/logs");
    assert_int_equal(p->w.entries[0].kind, CKPT_FOLDER);
}

static void links_inside_folders_are_kept_as_they_are(void **state)
{
    const places *const p = *state;
    make_dir(p->here, "links");
    assert_int_equal(symlink("/etc/passwd", "links/absolute"), 0);
    assert_int_equal(symlink("nothing", "links/dangling"), 0);
    assert_int_equal(symlink("..", "links/up"), 0);
    const char *const paths[] = {"links"};
    assert_names(*state, paths, 1, "links links/absolute links/dangling links/up");
    assert_string_equal(p->w.entries[1].link, "/etc/passwd");
    assert_string_equal(p->w.entries[2].link, "nothing");
    assert_string_equal(p->w.entries[3].link, "..");
}

static void dangling_link_given_by_name_is_not_found(void **state)
{
    const char *const paths[] = {"nowhere"};
    assert_int_equal(symlink("nothing", "nowhere"), 0);
    assert_refused(*state, paths, 1, CKPT_ENOTFOUND, "nowhere");
}

static void pipes_are_left_out_with_a_note(void **state)
{
    const places *const p = *state;
    assert_int_equal(mkfifo("run/logs/pipe", 0600), 0);
    const char *const paths[] = {"run/logs"};
    assert_names(*state, paths, 1, "run/logs");
    assert_non_null(strstr(p->notes, "run/logs/pipe left out"));
    const char *const typed[] = {"run/logs/pipe"};
    assert_refused(*state, typed, 1, CKPT_EUSAGE, "neither a file nor a folder");
}

static void temporary_files_of_restores_are_left_out_with_a_note(void **state)
{
    places *const p = *state;
    static const char *const PATHS[] = {"run"};
    write_in(p->here, "run/model.pt.4711.0123456789abcdef.tmp", "half", 4);
    write_in(p->here, "run/notes.tmp", "mine", 4);
    assert_names(p, PATHS, 1, "run run/epoch_1.pt run/epoch_2.pt run/epoch_10.pt run/last run/logs run/notes.tmp");
    assert_non_null(strstr(p->notes, "model.pt.4711"));
}

/* Called for the pipe, in the middle of the listing: a program removes all the rest. */
static void remove_the_rest(void *payload, const char *note)
{
    note_add(payload, note);
    for (int i = 0; i < 64; i++) {
        char name[64];
        snprintf(name, sizeof name, "run/many/%d", i);
        (void)unlink(name);
        (void)rmdir(name);
    }
}

static void what_goes_while_a_folder_is_listed_is_left_out(void **state)
{
    places *const p = *state;
    static const char *const PATHS[] = {"run/many"};
    make_dir(p->here, "run/many");
    assert_int_equal(mkfifo("run/many/pipe", 0600), 0);
    for (int i = 0; i < 64; i++) {
        char name[64];
        snprintf(name, sizeof name, "run/many/%d", i);
        if (i % 2)
            assert_int_equal(mkdir(name, 0700), 0);
        else
            write_in(p->here, name, "x", 1);
    }
    MUST(walk_paths(&p->w, PATHS, 1, p->f->store->path, remove_the_rest, p, ERR));
    assert_true(p->w.count >= 1 && p->w.count <= 65);
}

static void missing_and_empty_paths_are_refused(void **state)
{
    const char *const missing[] = {"run/epoch_3.pt"};
    assert_refused(*state, missing, 1, CKPT_ENOTFOUND, "epoch_3.pt");
    const char *const no_folder[] = {"none/epoch_3.pt"};
    assert_refused(*state, no_folder, 1, CKPT_ENOTFOUND, "none");
    const char *const empty[] = {""};
    assert_refused(*state, empty, 1, CKPT_EUSAGE, "empty path");
    assert_refused(*state, NULL, 0, CKPT_EUSAGE, "nothing to save");
}

static void folders_nested_too_deep_are_refused(void **state)
{
    for (int i = 0; i <= WALK_DEPTH_MAX; i++) {
        assert_int_equal(mkdir("d", 0700), 0);
        assert_int_equal(chdir("d"), 0);
    }
    const places *const p = *state;
    assert_int_equal(chdir(p->here), 0);
    const char *const paths[] = {"d"};
    assert_refused(*state, paths, 1, CKPT_EUSAGE, "deep");
}

static void runs_of_digits_count_as_numbers(void **state)
{
    static const char *const ORDER[] = {
        "",
        "a",
        "a/b",
        "a0",
        "a1",
        "a1b",
        "a2",
        "a9",
        "a009z",
        "a10",
        "a100",
        "b",
        "b18446744073709551616",
        "b18446744073709551617",
        "b99999999999999999999",
    };
    (void)state;
    for (size_t i = 0; i < sizeof ORDER / sizeof *ORDER; i++)
        for (size_t j = 0; j < sizeof ORDER / sizeof *ORDER; j++) {
            const int order = natural_compare(ORDER[i], ORDER[j]);
            if ((order < 0) != (i < j) || (order > 0) != (i > j))
                fail_msg("'%s' and '%s' compare as %d", ORDER[i], ORDER[j], order);
        }
    assert_true(natural_compare("7", "007") != 0);
    assert_true((natural_compare("7", "007") < 0) == (natural_compare("007", "7") > 0));
}

#define WALK_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WALK_TEST(folder_is_listed_in_natural_order),
        WALK_TEST(path_under_the_current_folder_keeps_its_relative_path),
        WALK_TEST(path_elsewhere_keeps_its_last_component),
        WALK_TEST(folder_with_a_longer_name_is_not_the_current_one),
        WALK_TEST(current_folder_has_no_name_of_its_own),
        WALK_TEST(two_paths_with_one_name_are_refused),
        WALK_TEST(name_of_a_file_and_of_a_folder_is_refused),
        WALK_TEST(parent_folders_that_are_not_saved_are_no_clash),
        WALK_TEST(stores_are_left_out_of_folders),
        WALK_TEST(store_is_refused_by_name),
        WALK_TEST(store_is_refused_behind_a_link),
        WALK_TEST(part_of_a_store_is_refused),
        WALK_TEST(link_given_by_name_is_followed),
        WALK_TEST(links_inside_folders_are_kept_as_they_are),
        WALK_TEST(dangling_link_given_by_name_is_not_found),
        WALK_TEST(pipes_are_left_out_with_a_note),
        WALK_TEST(temporary_files_of_restores_are_left_out_with_a_note),
        WALK_TEST(what_goes_while_a_folder_is_listed_is_left_out),
        WALK_TEST(missing_and_empty_paths_are_refused),
        WALK_TEST(folders_nested_too_deep_are_refused),
        cmocka_unit_test(runs_of_digits_count_as_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
