/* Snapshots. The ids and texts were computed with Python:
 *   c = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
 *   hashlib.sha256(c.encode()).hexdigest()                                                                          */
#include "snapshot.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "alloc_fail.h"
#include "temp_dir.h"

#define TREE         "dc9c5edb8b2d479e697b4b0b8ab874f32b325138598ce9e7b759eb8292110622" /* SHA-256 of "tree" */
#define PACK         "4862f447f2c7f272fa2f4aaf89dadb3b1ac09105bd5864f8d1a0c9452bb0a226" /* of "pack" */
#define DATA(stored) "\"data\":{\"pack\":\"" PACK "\",\"stored_bytes\":" stored "}"

#define FULL_ID      "ad7999a9c964664081f137b63cf175300452acc0f24aec5cd75d61805c88a9b2"
#define FULL_MESSAGE "\xc3\xa9pochs \"12\"\tdone\nsecond line / \\ \xe8\xae\xad\xe7\xbb\x83"
#define FULL_CONTENT                                                                                                   \
    "{\"files\":2,\"message\":\"\xc3\xa9pochs \\\"12\\\"\\tdone\\nsecond line / \\\\ \xe8\xae\xad\xe7\xbb\x83\","      \
    "\"meta\":{\"lr\":\"1e-3\",\"val_acc\":\"0.93\"},\"raw_bytes\":841092,\"sequence\":3,\"step\":500,"                \
    "\"time\":1700000000,\"tree\":\"" TREE "\"}"
#define FULL_TEXT "{\"ckpt\":1,\"content\":" FULL_CONTENT "," DATA("612345") "}"

#define BARE_ID "73d37522c51ef11a78f53c388c1a1eb5b9e4474dbf29231f6093f32607b5af5d"
#define BARE_TEXT                                                                                                      \
    "{\"ckpt\":1,\"content\":{\"files\":0,\"message\":\"\",\"meta\":{},\"raw_bytes\":0,\"sequence\":1,\"step\":null,"  \
    "\"time\":-1,\"tree\":\"" TREE "\"}," DATA("0") "}"

#define FUTURE_ID "9e4ad74dc0dec598d9aa1686ab6e397891b0b25ee8996c31530476bd331d3964"
#define FUTURE_OF(object)                                                                                              \
    "{\"files\":1,\"future\":[1," object "],\"message\":\"m\",\"meta\":{},"                                            \
    "\"raw_bytes\":5,\"sequence\":7,\"step\":0,\"time\":1,\"tree\":\"" TREE "\"}"
#define FUTURE_CONTENT FUTURE_OF("{\"a\":null,\"b\":2}") /* as it is written */
#define FUTURE_TEXT    "{\"ckpt\":1,\"content\":" FUTURE_OF("{\"b\":2,\"a\":null}") "," DATA("9") "}"

static void set_hashes(snapshot *s)
{
    assert_int_equal(sha256_parse(&s->tree, TREE, NULL), 0);
    assert_int_equal(sha256_parse(&s->pack, PACK, NULL), 0);
}

static void assert_id(const snapshot *s, const char *id)
{
    char hex[SHA256_HEX_SIZE];
    sha256_hex(hex, &s->id);
    assert_string_equal(hex, id);
}

static void full_make(snapshot *s)
{
    const ckpt_value meta[] = {{"val_acc", "0.93"}, {"lr", "1e-3"}};
    *s = (snapshot){.sequence = 3, .files = 2, .raw_bytes = 841092, .stored_bytes = 612345, .time = 1700000000};
    s->step = 500;
    set_hashes(s);
    assert_int_equal(snapshot_set_meta(s, FULL_MESSAGE, meta, 2, NULL), 0);
}

static void text_and_id_are_those_of_python(void **state)
{
    (void)state;
    snapshot s;
    char *text;
    size_t size;
    full_make(&s);
    assert_int_equal(snapshot_encode(&text, &size, &s, NULL), 0);
    assert_string_equal(text, FULL_TEXT);
    assert_int_equal(size, strlen(FULL_TEXT));
    assert_id(&s, FULL_ID);
    free(text);
    snapshot_clear(&s);
}

static void without_step_message_and_meta_it_is_python_s_too(void **state)
{
    (void)state;
    snapshot s = {.sequence = 1, .time = -1, .step = CKPT_STEP_NONE};
    char *text;
    size_t size;
    set_hashes(&s);
    assert_int_equal(snapshot_set_meta(&s, NULL, NULL, 0, NULL), 0);
    assert_int_equal(snapshot_encode(&text, &size, &s, NULL), 0);
    assert_string_equal(text, BARE_TEXT);
    assert_id(&s, BARE_ID);
    free(text);
    snapshot_clear(&s);
}

static void reading_gives_back_every_member(void **state)
{
    (void)state;
    snapshot s;
    assert_int_equal(snapshot_decode(&s, FULL_TEXT, strlen(FULL_TEXT), NULL), 0);
    assert_id(&s, FULL_ID);
    assert_int_equal(s.sequence, 3);
    assert_int_equal(s.files, 2);
    assert_int_equal(s.raw_bytes, 841092);
    assert_int_equal(s.stored_bytes, 612345);
    assert_int_equal(s.time, 1700000000);
    assert_int_equal(s.step, 500);
    assert_string_equal(s.message, FULL_MESSAGE);
    assert_int_equal(s.meta_count, 2);
    assert_string_equal(s.meta[0].key, "lr");
    assert_string_equal(s.meta[0].value, "1e-3");
    assert_string_equal(s.meta[1].key, "val_acc");
    assert_string_equal(s.meta[1].value, "0.93");
    char hex[SHA256_HEX_SIZE];
    sha256_hex(hex, &s.tree);
    assert_string_equal(hex, TREE);
    sha256_hex(hex, &s.pack);
    assert_string_equal(hex, PACK);
    snapshot_clear(&s);
}

static void null_is_read_as_no_step(void **state)
{
    (void)state;
    snapshot s;
    assert_int_equal(snapshot_decode(&s, BARE_TEXT, strlen(BARE_TEXT), NULL), 0);
    assert_int_equal(s.step, CKPT_STEP_NONE);
    snapshot_clear(&s);
}

static void members_of_later_versions_take_part_in_the_id(void **state)
{
    (void)state;
    snapshot s;
    assert_int_equal(snapshot_decode(&s, FUTURE_TEXT, strlen(FUTURE_TEXT), NULL), 0);
    assert_id(&s, FUTURE_ID);
    snapshot_clear(&s);
}

static void blanks_and_order_in_the_file_do_not_change_the_id(void **state)
{
    (void)state;
    static const char TEXT[] = "{ " DATA("7") ",\n \"content\" : " FULL_CONTENT ",\"ckpt\":1 }\n";
    snapshot s;
    assert_int_equal(snapshot_decode(&s, TEXT, strlen(TEXT), NULL), 0);
    assert_id(&s, FULL_ID);
    assert_int_equal(s.stored_bytes, 7);
    snapshot_clear(&s);
}

static void another_pack_changes_the_part_data_alone(void **state)
{
    (void)state;
    static const char TEXT[] = "{\"later\":[1],\"data\":{\"pack\":\"" PACK "\",\"parts\":2,\"stored_bytes\":9},\n"
                               "\"content\":" FUTURE_CONTENT ",\"ckpt\":1}";
    static const char EXPECTED[] = "{\"ckpt\":1,\"content\":" FUTURE_CONTENT ",\"data\":{\"pack\":\"" TREE
                                   "\",\"parts\":2,\"stored_bytes\":%zu},\"later\":[1]}";
    char expected[SNAPSHOT_BYTES_MAX], *moved = NULL;
    size_t size = 0;
    sha256 name;
    snapshot s;
    snprintf(expected, sizeof expected, EXPECTED, 1000 + strlen(TEXT));
    assert_int_equal(sha256_parse(&name, TREE, NULL), 0);
    assert_int_equal(snapshot_repoint(&moved, &size, TEXT, strlen(TEXT), &name, 1000, NULL), 0);
    assert_string_equal(moved, expected);
    assert_int_equal(snapshot_decode(&s, moved, size, NULL), 0);
    assert_id(&s, FUTURE_ID);
    snapshot_clear(&s);
    free(moved);
}

/* ---- Refusing ---- */

static int decode_code(const char *text)
{
    snapshot s;
    ckpt_error err = {0};
    const int rc = snapshot_decode(&s, text, strlen(text), &err);
    assert_int_equal(err.code, rc);
    assert_null(s.message); /* nothing is left to clear */
    return rc;
}

#define CONTENT(files, message, meta, sequence, step, tree)                                                            \
    "{\"ckpt\":1,\"content\":{\"files\":" files ",\"message\":" message ",\"meta\":" meta                              \
    ",\"raw_bytes\":0,\"sequence\":" sequence ",\"step\":" step ",\"time\":0,\"tree\":" tree "}," DATA("0") "}"

static void broken_files_are_refused_as_damaged(void **state)
{
    (void)state;
    static const char *const BROKEN[] = {
        "",
        "null",
        "[]",
        "{}",
        "{\"ckpt\":1}",
        "{\"ckpt\":0,\"content\":{},\"data\":{}}",
        "{\"ckpt\":\"1\",\"content\":{},\"data\":{}}",
        "{\"ckpt\":1,\"content\":{},\"data\":{}}",
        "{\"ckpt\":1,\"content\":" FULL_CONTENT "}",
        "{\"ckpt\":1,\"content\":" FULL_CONTENT ",\"data\":{\"pack\":\"" PACK "\",\"stored_bytes\":-1}}",
        "{\"ckpt\":1,\"content\":" FULL_CONTENT ",\"data\":{\"pack\":\"4862\",\"stored_bytes\":1}}",
        "{\"ckpt\":1,\"ckpt\":1,\"content\":" FULL_CONTENT "," DATA("0") "}",
        "{\"ckpt\":1,\"content\":" FULL_CONTENT "," DATA("0") "} x",
        CONTENT("-1", "\"\"", "{}", "1", "null", "\"" TREE "\""),
        CONTENT("1.0", "\"\"", "{}", "1", "null", "\"" TREE "\""),
        CONTENT("99999999999999999999", "\"\"", "{}", "1", "null", "\"" TREE "\""),
        CONTENT("1", "null", "{}", "1", "null", "\"" TREE "\""),
        CONTENT("1", "\"\\u001b[2J\"", "{}", "1", "null", "\"" TREE "\""),
        CONTENT("1", "\"\\u0000\"", "{}", "1", "null", "\"" TREE "\""),
        CONTENT("1", "\"\xff\"", "{}", "1", "null", "\"" TREE "\""),
        CONTENT("1", "\"\"", "[]", "1", "null", "\"" TREE "\""),
        CONTENT("1", "\"\"", "{\"a\":1}", "1", "null", "\"" TREE "\""),
        CONTENT("1", "\"\"", "{\"a b\":\"1\"}", "1", "null", "\"" TREE "\""),
        CONTENT("1", "\"\"", "{}", "100000000", "null", "\"" TREE "\""),
        CONTENT("1", "\"\"", "{}", "1", "-1", "\"" TREE "\""),
        CONTENT("1", "\"\"", "{}", "1", "null", "null"),
        CONTENT("1,\"new\":1.0", "\"\"", "{}", "1", "null", "\"" TREE "\""),
        CONTENT("1,\"new\":[{\"in\":1e2}]", "\"\"", "{}", "1", "null", "\"" TREE "\""),
    };
    for (size_t i = 0; i < sizeof BROKEN / sizeof BROKEN[0]; i++)
        if (decode_code(BROKEN[i]) != CKPT_EDATA)
            fail_msg("accepted: %s", BROKEN[i]);
}

static void a_newer_format_is_told_from_damage(void **state)
{
    (void)state;
    assert_int_equal(decode_code("{\"ckpt\":2,\"anything\":true}"), CKPT_EVERSION);
}

static void more_than_4_kib_are_refused(void **state)
{
    (void)state;
    char *const text = malloc(SNAPSHOT_BYTES_MAX + 2);
    memset(text, ' ', SNAPSHOT_BYTES_MAX + 1);
    memcpy(text, FULL_TEXT, strlen(FULL_TEXT));
    snapshot s;
    assert_int_equal(snapshot_decode(&s, text, SNAPSHOT_BYTES_MAX + 1, NULL), CKPT_EDATA);
    assert_int_equal(snapshot_decode(&s, text, SNAPSHOT_BYTES_MAX, NULL), 0);
    snapshot_clear(&s);
    free(text);
}

static void deep_nesting_ends_in_an_error_not_in_the_stack(void **state)
{
    (void)state;
    char text[SNAPSHOT_BYTES_MAX];
    memset(text, '[', sizeof text);
    snapshot s;
    assert_int_equal(snapshot_decode(&s, text, sizeof text, NULL), CKPT_EDATA);
}

/* ---- Without memory ---- */

static void writing_without_memory_fails_or_writes_the_same(void **state)
{
    (void)state;
    if (!ALLOC_FAIL_WORKS)
        skip(); /* sanitizers bring their own malloc */
    snapshot s;
    bool failed = true;
    full_make(&s);
    for (long n = 1; failed; n++) {
        char *text = NULL;
        size_t size;
        alloc_fail_arm(n);
        const int rc = snapshot_encode(&text, &size, &s, NULL);
        failed = alloc_fail_disarm();
        if (rc == 0) /* the last round, and where a library does without what it did not get */
            assert_string_equal(text, FULL_TEXT);
        else
            assert_int_equal(rc, CKPT_ENOMEM);
        free(text);
    }
    snapshot_clear(&s);
}

/* ---- Message and meta ---- */

static void meta_is_checked(void **state)
{
    (void)state;
    snapshot s = {0};
    char *const many = malloc(CKPT_META_BYTES_MAX + 2);
    memset(many, 'a', CKPT_META_BYTES_MAX + 1);
    many[CKPT_META_BYTES_MAX + 1] = 0;
    assert_int_equal(snapshot_set_meta(&s, many, NULL, 0, NULL), CKPT_EUSAGE);
    assert_int_equal(snapshot_set_meta(&s, "bell \a", NULL, 0, NULL), CKPT_EUSAGE);
    assert_int_equal(snapshot_set_meta(&s, "", (ckpt_value[]){{"", "1"}}, 1, NULL), CKPT_EUSAGE);
    assert_int_equal(snapshot_set_meta(&s, "", (ckpt_value[]){{"a=b", "1"}}, 1, NULL), CKPT_EUSAGE);
    assert_int_equal(snapshot_set_meta(&s, "", (ckpt_value[]){{"a", "\x1b[0m"}}, 1, NULL), CKPT_EUSAGE);
    assert_int_equal(snapshot_set_meta(&s, "", (ckpt_value[]){{"a", "1"}, {"a", "2"}}, 2, NULL), CKPT_EUSAGE);
    assert_null(s.message);
    many[CKPT_META_BYTES_MAX] = 0;
    assert_int_equal(snapshot_set_meta(&s, many, NULL, 0, NULL), 0);
    snapshot_clear(&s);
    free(many);
}

static void the_largest_meta_fits_into_a_snapshot(void **state)
{
    (void)state;
    snapshot s = {.sequence = 99999999, .files = INT64_MAX, .raw_bytes = INT64_MAX, .stored_bytes = INT64_MAX};
    char keys[CKPT_META_PAIRS_MAX][4], message[CKPT_META_BYTES_MAX + 1], *text;
    ckpt_value meta[CKPT_META_PAIRS_MAX];
    size_t size;
    s.time = INT64_MIN;
    s.step = INT64_MAX;
    set_hashes(&s);
    for (int i = 0; i < CKPT_META_PAIRS_MAX; i++) {
        snprintf(keys[i], sizeof keys[i], "k%02d", i);
        meta[i] = (ckpt_value){keys[i], ""};
    }
    /* As many quotes, which take two bytes each, as are let in. */
    size_t quotes = 0;
    do {
        memset(message, '"', ++quotes);
        message[quotes] = 0;
    } while (quotes < CKPT_META_BYTES_MAX && snapshot_set_meta(&s, message, meta, CKPT_META_PAIRS_MAX, NULL) == 0);
    assert_true(quotes > 1000);
    assert_int_equal(snapshot_encode(&text, &size, &s, NULL), 0);
    free(text);
    snapshot_clear(&s);
}

/* ---- Files ---- */

static int dir_setup(void **state)
{
    char *const dir = malloc(TEMP_PATH_MAX);
    *state = dir;
    return temp_dir_make(dir);
}

static int dir_teardown(void **state)
{
    const int rc = temp_dir_remove(*state);
    free(*state);
    return rc;
}

static void put_file(const char *dir, const char *name, const char *text)
{
    char path[FILE_PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *const file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void names_come_newest_first_and_others_are_passed_over(void **state)
{
    put_file(*state, "00000002-" TREE ".json", "");
    put_file(*state, "00000010-" PACK ".json", "");
    put_file(*state, "00000010-" TREE ".json", "");
    put_file(*state, "00000003-" TREE ".json.tmp", "");
    put_file(*state, "0000004-" TREE ".json", "");
    put_file(*state, "00000005_" TREE ".json", "");
    put_file(*state, "README", "");
    snapshot_name *names;
    size_t count;
    assert_int_equal(snapshot_names(&names, &count, *state, NULL), 0);
    assert_int_equal(count, 3);
    assert_int_equal(names[0].sequence, 10);
    assert_int_equal(names[1].sequence, 10);
    assert_int_equal(names[2].sequence, 2);
    char hex[SHA256_HEX_SIZE];
    sha256_hex(hex, &names[0].id);
    assert_string_equal(hex, TREE); /* dc... is above 48... */
    bool any = false;
    snapshot_name newest;
    assert_int_equal(snapshot_newest(&any, &newest, *state, NULL), 0);
    assert_true(any);
    assert_int_equal(newest.sequence, names[0].sequence);
    assert_int_equal(sha256_compare(&newest.id, &names[0].id), 0);
    free(names);
}

static uint64_t next_sequence(const char *dir)
{
    snapshot_name *names = NULL;
    size_t count;
    uint64_t next = 0;
    assert_int_equal(snapshot_names(&names, &count, dir, NULL), 0);
    assert_int_equal(snapshot_next_sequence(&next, names, count, dir, NULL), 0);
    free(names);
    return next;
}

static void the_next_sequence_follows_the_newest_readable_one(void **state)
{
    assert_int_equal(next_sequence(*state), 1);
    put_file(*state, "99999999-" TREE ".json", "");
    assert_int_equal(next_sequence(*state), 1);
    put_file(*state, "00000003-" FULL_ID ".json", FULL_TEXT);
    assert_int_equal(next_sequence(*state), 4);
    put_file(*state, "00000004-" TREE ".json", ""); /* its own, or a stranger's: never two of one number */
    put_file(*state, "00000005-" TREE ".json", "");
    assert_int_equal(next_sequence(*state), 6);
}

static void a_folder_in_place_of_a_snapshot_is_damage(void **state)
{
    snapshot s;
    snapshot_name name = {.sequence = 3};
    char path[FILE_PATH_MAX];
    assert_int_equal(sha256_parse(&name.id, FULL_ID, NULL), 0);
    assert_int_equal(snapshot_path(path, *state, &name, NULL), 0);
    assert_int_equal(mkdir(path, 0777), 0);
    assert_int_equal(snapshot_read(&s, *state, &name, NULL), CKPT_EDATA);
}

static void a_file_is_read_under_its_own_name_only(void **state)
{
    snapshot s;
    snapshot_name name = {.sequence = 3};
    char path[FILE_PATH_MAX];
    assert_int_equal(sha256_parse(&name.id, FULL_ID, NULL), 0);
    put_file(*state, "00000003-" FULL_ID ".json", FULL_TEXT);
    put_file(*state, "00000004-" FULL_ID ".json", FULL_TEXT);
    put_file(*state, "00000003-" TREE ".json", FULL_TEXT);
    assert_int_equal(snapshot_path(path, *state, &name, NULL), 0);
    assert_string_equal(strrchr(path, '/'), "/00000003-" FULL_ID ".json");
    assert_int_equal(snapshot_read(&s, *state, &name, NULL), 0);
    snapshot_clear(&s);
    name.sequence = 4;
    assert_int_equal(snapshot_read(&s, *state, &name, NULL), CKPT_EDATA);
    name.sequence = 3;
    assert_int_equal(sha256_parse(&name.id, TREE, NULL), 0);
    assert_int_equal(snapshot_read(&s, *state, &name, NULL), CKPT_EDATA);
    name.sequence = 9;
    assert_int_equal(snapshot_read(&s, *state, &name, NULL), CKPT_ENOTFOUND);
}

/* The JSON library takes some of its own failures for bad syntax, so that CKPT_EDATA is right too; and it loses
 * letters, which the id tells. */
static void reading_without_memory_fails_or_reads_the_same(void **state)
{
    if (!ALLOC_FAIL_WORKS)
        skip();
    snapshot_name name = {.sequence = 3};
    bool failed = true;
    assert_int_equal(sha256_parse(&name.id, FULL_ID, NULL), 0);
    put_file(*state, "00000003-" FULL_ID ".json", FULL_TEXT);
    for (long n = 1; failed; n++) {
        snapshot s;
        alloc_fail_arm(n);
        const int rc = snapshot_read(&s, *state, &name, NULL);
        failed = alloc_fail_disarm();
        if (rc == 0)
            assert_string_equal(s.message, FULL_MESSAGE);
        else
            assert_true(failed && (rc == CKPT_ENOMEM || rc == CKPT_EDATA));
        snapshot_clear(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_and_id_are_those_of_python),
        cmocka_unit_test(without_step_message_and_meta_it_is_python_s_too),
        cmocka_unit_test(reading_gives_back_every_member),
        cmocka_unit_test(null_is_read_as_no_step),
        cmocka_unit_test(members_of_later_versions_take_part_in_the_id),
        cmocka_unit_test(blanks_and_order_in_the_file_do_not_change_the_id),
        cmocka_unit_test(another_pack_changes_the_part_data_alone),
        cmocka_unit_test(broken_files_are_refused_as_damaged),
        cmocka_unit_test(a_newer_format_is_told_from_damage),
        cmocka_unit_test(more_than_4_kib_are_refused),
        cmocka_unit_test(deep_nesting_ends_in_an_error_not_in_the_stack),
        cmocka_unit_test(writing_without_memory_fails_or_writes_the_same),
        cmocka_unit_test(meta_is_checked),
        cmocka_unit_test(the_largest_meta_fits_into_a_snapshot),
        cmocka_unit_test_setup_teardown(names_come_newest_first_and_others_are_passed_over, dir_setup, dir_teardown),
        cmocka_unit_test_setup_teardown(reading_without_memory_fails_or_reads_the_same, dir_setup, dir_teardown),
        cmocka_unit_test_setup_teardown(a_file_is_read_under_its_own_name_only, dir_setup, dir_teardown),
        cmocka_unit_test_setup_teardown(the_next_sequence_follows_the_newest_readable_one, dir_setup, dir_teardown),
        cmocka_unit_test_setup_teardown(a_folder_in_place_of_a_snapshot_is_damage, dir_setup, dir_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
