#include "session.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* Is interrupted during its work, says something, and is interrupted again, after so many milliseconds. */
static void be_interrupted_twice(int number, unsigned wait_ms)
{
    session s = {0};
    const int null = open("/dev/null", O_WRONLY);
    if (null < 0 || dup2(null, STDERR_FILENO) < 0 || signal(number, SIG_DFL) == SIG_ERR)
        _exit(1);
    session_work_begin(&s, "work");
    raise(number);
    if (!session_stopped())
        _exit(2);
    session_note(&s, "a note");
    session_work_begin(&s, "more work");
    usleep(wait_ms * 1000);
    raise(number);
    _exit(session_signal() == number ? 0 : 3);
}

static int status_of_interrupted_twice(int number, unsigned wait_ms)
{
    int status = 0;
    const pid_t pid = fork();
    if (pid == 0)
        be_interrupted_twice(number, wait_ms);
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void assert_second_signal_kills(int number)
{
    const int status = status_of_interrupted_twice(number, 1100);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), number);
}

/* As timeout(1) and wrappers do it. */
static void a_signal_that_comes_twice_at_once_is_one(void **state)
{
    (void)state;
    assert_int_equal(status_of_interrupted_twice(SIGINT, 0), 0);
    assert_int_equal(status_of_interrupted_twice(SIGTERM, 0), 0);
}

static void a_second_signal_ends_the_program_whatever_was_noted_between(void **state)
{
    (void)state;
    assert_second_signal_kills(SIGINT);
    assert_second_signal_kills(SIGTERM);
}

/* Ends with the number of the signal that the session knows of. */
static void be_stopped_by(int number)
{
    session s = {0};

    if (signal(number, SIG_DFL) == SIG_ERR || session_signal() != 0)
        _exit(1);
    session_catch_signals(&s);
    raise(number);
    _exit(session_signal());
}

static int known_signal(int number)
{
    int status = 0;
    const pid_t pid = fork();
    if (pid == 0)
        be_stopped_by(number);
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void the_signal_that_stopped_the_work_is_known(void **state)
{
    (void)state;
    assert_int_equal(known_signal(SIGINT), SIGINT);
    assert_int_equal(known_signal(SIGTERM), SIGTERM);
}

static void a_note_of_the_library_is_told_once(void **state)
{
    session s = {0};
    char told[256] = "";
    int ends[2], before = dup(STDERR_FILENO);
    (void)state;

    assert_int_equal(pipe(ends), 0);
    assert_true(dup2(ends[1], STDERR_FILENO) >= 0);
    session_library_note(&s, "one");
    session_library_note(&s, "two");
    session_library_note(&s, "one");
    assert_true(dup2(before, STDERR_FILENO) >= 0);
    assert_true(read(ends[0], told, sizeof(told) - 1) > 0);
    session_close(&s);
    assert_string_equal(told, "note: one\nnote: two\n");
    close(before);
    close(ends[0]);
    close(ends[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_second_signal_ends_the_program_whatever_was_noted_between),
        cmocka_unit_test(a_signal_that_comes_twice_at_once_is_one),
        cmocka_unit_test(the_signal_that_stopped_the_work_is_known),
        cmocka_unit_test(a_note_of_the_library_is_told_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
