#include "fail.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void exit_status_is_the_code_divided_by_ten(void **state)
{
    (void)state;
    /* The table of exit statuses that users rely on. */
    assert_int_equal(ckpt_error_exit_status(CKPT_OK), 0);
    assert_int_equal(ckpt_error_exit_status(CKPT_EDIFFER), 1);
    assert_int_equal(ckpt_error_exit_status(CKPT_ECONFIRM), 2);
    assert_int_equal(ckpt_error_exit_status(CKPT_ECHANGED), 3);
    assert_int_equal(ckpt_error_exit_status(CKPT_ENOSTORE), 4);
    assert_int_equal(ckpt_error_exit_status(CKPT_EQUOTA), 5);
    assert_int_equal(ckpt_error_exit_status(CKPT_EREMOTE), 6);
    assert_int_equal(ckpt_error_exit_status(CKPT_EWINDOW), 7);
    assert_int_equal(ckpt_error_exit_status(CKPT_EBUSY), 8);
    assert_int_equal(ckpt_error_exit_status(CKPT_EVERSION), 9);
    assert_int_equal(ckpt_error_exit_status(CKPT_ENOMEM), 10);
    assert_int_equal(ckpt_error_exit_status(CKPT_EBUG), 70);
    assert_int_equal(ckpt_error_exit_status(CKPT_EINTERRUPTED), 130);
}

static void exit_status_of_an_unknown_code_says_bug(void **state)
{
    (void)state;
    assert_int_equal(ckpt_error_exit_status(5), 70);
    assert_int_equal(ckpt_error_exit_status(-30), 70);
    assert_string_equal(ckpt_error_name(5), "unknown");
}

static void set_fills_the_error_and_returns_the_code(void **state)
{
    (void)state;
    ckpt_error err = {.sys_errno = 9, .hint = "old", .where = "old"};
    assert_int_equal(error_set(&err, CKPT_EDATA, "%s: chunk %d", "a.pack", 7), CKPT_EDATA);
    assert_int_equal(err.code, CKPT_EDATA);
    assert_string_equal(err.message, "a.pack: chunk 7");
    assert_int_equal(err.sys_errno, 0);
    assert_string_equal(err.hint, "");
    assert_string_equal(err.where, "");
}

static void set_without_an_error_returns_the_code(void **state)
{
    (void)state;
    assert_int_equal(error_set(NULL, CKPT_EDATA, "x"), CKPT_EDATA);
    assert_int_equal(error_errno(NULL, ENOSPC, "x"), CKPT_ENOSPC);
    assert_int_equal(error_memory(NULL), CKPT_ENOMEM);
    assert_int_equal(error_clear(NULL), 0);
    error_prefix(NULL, "x");
    error_hint(NULL, "x");
    error_where(NULL, "x");
}

static void set_may_quote_the_error_that_it_replaces(void **state)
{
    (void)state;
    ckpt_error err = {.message = "inner"};
    error_set(&err, CKPT_EIO, "outer (%s)", err.message);
    assert_string_equal(err.message, "outer (inner)");
}

static void message_stays_one_line_whatever_it_quotes(void **state)
{
    (void)state;
    ckpt_error err = {0};
    error_set(&err, CKPT_EIO, "%s", "a\nb\x1b[31m\x7f");
    assert_string_equal(err.message, "a?b?[31m?");
}

static void errno_gives_code_reason_and_hint(void **state)
{
    (void)state;
    ckpt_error err = {0};
    assert_int_equal(error_errno(&err, ENOSPC, "write %s", "x"), CKPT_ENOSPC);
    assert_string_equal(err.message, "write x: no space left on device");
    assert_int_equal(err.sys_errno, ENOSPC);
    assert_string_not_equal(err.hint, "");

    assert_int_equal(error_errno(&err, EDQUOT, "x"), CKPT_ENOSPC);
    assert_string_not_equal(err.hint, "");
    assert_int_equal(error_errno(&err, EROFS, "x"), CKPT_EIO);
    assert_string_not_equal(err.hint, "");
    assert_int_equal(error_errno(&err, EACCES, "x"), CKPT_EIO);
    assert_string_not_equal(err.hint, "");
    assert_int_equal(error_errno(&err, ENOENT, "x"), CKPT_ENOTFOUND);
    assert_string_equal(err.hint, "");
    assert_int_equal(error_errno(&err, ENOMEM, "x"), CKPT_ENOMEM);
    assert_int_equal(error_errno(&err, EINTR, "x"), CKPT_EINTERRUPTED);
    assert_int_equal(error_errno(&err, EIO, "x"), CKPT_EIO);
    assert_string_equal(err.message, "x: input/output error");
}

static void errno_keeps_the_reason_behind_a_long_path(void **state)
{
    (void)state;
    ckpt_error err = {0};
    char path[2000];
    memset(path, 'p', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    error_errno(&err, ENOENT, "open %s", path);
    const size_t size = strlen(err.message);
    assert_int_equal(size, sizeof err.message - 1 - 3); /* cut three early, in case a character was split */
    assert_string_equal(err.message + size - strlen(": no such file or directory"), ": no such file or directory");
}

static void prefix_stands_in_front(void **state)
{
    (void)state;
    ckpt_error err = {0};
    error_errno(&err, ENOSPC, "write pack");
    error_prefix(&err, "save %s", "a.pt");
    assert_string_equal(err.message, "save a.pt: write pack: no space left on device");
    assert_int_equal(err.code, CKPT_ENOSPC);
}

static void prefix_cuts_the_tail_between_characters(void **state)
{
    (void)state;
    ckpt_error err = {0};
    for (size_t i = 0; i + 3 < sizeof err.message; i += 3)
        memcpy(err.message + i, "\xe4\xb8\x96", 3); /* one character of three bytes */
    error_prefix(&err, "save");
    const size_t size = strlen(err.message);
    assert_true(size < sizeof err.message && size > sizeof err.message - 4);
    assert_memory_equal(err.message, "save: ", 6);
    assert_int_equal((size - 6) % 3, 0);
}

static void hint_of_a_lower_layer_is_kept(void **state)
{
    (void)state;
    ckpt_error err = {0};
    error_hint(&err, "first");
    error_hint(&err, "second");
    assert_string_equal(err.hint, "first");
}

static void where_keeps_the_end_of_a_long_path(void **state)
{
    (void)state;
    ckpt_error err = {0};
    char path[300];
    memset(path, 'p', sizeof path - 1);
    memcpy(path + sizeof path - 6, "/a.pt", 6);
    error_where(&err, path);
    assert_int_equal(strlen(err.where), sizeof err.where - 1);
    assert_memory_equal(err.where, "...p", 4);
    assert_string_equal(err.where + strlen(err.where) - 5, "/a.pt");
    error_where(&err, "short");
    assert_string_equal(err.where, "short");
}

static void where_stays_one_line_whatever_it_quotes(void **state)
{
    (void)state;
    ckpt_error err = {0};
    char path[300];
    error_where(&err, "runs/a\nb\x1b[31m\x7f");
    assert_string_equal(err.where, "runs/a?b?[31m?");
    memset(path, '\n', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    error_where(&err, path);
    assert_null(strchr(err.where, '\n'));
}

static void want_of_our_own_means_is_told_from_damage(void **state)
{
    (void)state;
    static const int OWN[] = {ENOMEM, EMFILE, ENFILE, EACCES, EPERM, EINTR}, OTHERS[] = {ENOENT, EIO, ELOOP};
    ckpt_error why = {0}, err = {0};
    for (size_t i = 0; i < sizeof OWN / sizeof OWN[0]; i++) {
        const int code = error_errno(&why, OWN[i], "open x");
        assert_int_equal(error_pass_own(&err, &why), code);
        assert_string_equal(err.message, why.message);
        assert_int_equal(error_pass_own(NULL, &why), code);
    }
    err = (ckpt_error){0};
    for (size_t i = 0; i < sizeof OTHERS / sizeof OTHERS[0]; i++) {
        error_errno(&why, OTHERS[i], "open x");
        assert_int_equal(error_pass_own(&err, &why), 0);
    }
    error_set(&why, CKPT_EDATA, "x");
    assert_int_equal(error_pass_own(&err, &why), 0);
    assert_int_equal(err.code, 0);
}

static void what_a_device_refuses_and_what_is_no_file_is_damage(void **state)
{
    (void)state;
    ckpt_error err = {0};
    assert_int_equal(error_as_damage(error_errno(&err, EIO, "read x"), &err), CKPT_EDATA);
    assert_int_equal(err.code, CKPT_EDATA);
    assert_int_equal(error_as_damage(error_set(&err, CKPT_EUSAGE, "x is a folder"), &err), CKPT_EDATA);
    assert_int_equal(err.code, CKPT_EDATA);
    assert_int_equal(error_as_damage(error_errno(&err, EACCES, "open x"), &err), CKPT_EIO);
    assert_int_equal(error_as_damage(error_errno(&err, ENOENT, "open x"), &err), CKPT_ENOTFOUND);
    assert_int_equal(err.code, CKPT_ENOTFOUND);
    assert_int_equal(error_as_damage(0, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exit_status_is_the_code_divided_by_ten),
        cmocka_unit_test(exit_status_of_an_unknown_code_says_bug),
        cmocka_unit_test(set_fills_the_error_and_returns_the_code),
        cmocka_unit_test(set_without_an_error_returns_the_code),
        cmocka_unit_test(set_may_quote_the_error_that_it_replaces),
        cmocka_unit_test(message_stays_one_line_whatever_it_quotes),
        cmocka_unit_test(errno_gives_code_reason_and_hint),
        cmocka_unit_test(errno_keeps_the_reason_behind_a_long_path),
        cmocka_unit_test(prefix_stands_in_front),
        cmocka_unit_test(prefix_cuts_the_tail_between_characters),
        cmocka_unit_test(hint_of_a_lower_layer_is_kept),
        cmocka_unit_test(where_keeps_the_end_of_a_long_path),
        cmocka_unit_test(where_stays_one_line_whatever_it_quotes),
        cmocka_unit_test(want_of_our_own_means_is_told_from_damage),
        cmocka_unit_test(what_a_device_refuses_and_what_is_no_file_is_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
