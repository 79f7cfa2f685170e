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

/* Is interrupted during its work, says something, and is interrupted again. */
static void be_interrupted_twice(int number)
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
    raise(number);
    _exit(3);
}

static void assert_second_signal_kills(int number)
{
    int status = 0;
    const pid_t pid = fork();
    if (pid == 0)
        be_interrupted_twice(number);
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), number);
}

static void a_second_signal_ends_the_program_whatever_was_noted_between(void **state)
{
    (void)state;
    assert_second_signal_kills(SIGINT);
    assert_second_signal_kills(SIGTERM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_second_signal_ends_the_program_whatever_was_noted_between),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
