#define _GNU_SOURCE /* pthread_setattr_default_np */
#include "thread.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

static void *note_mask(void *payload)
{
    pthread_sigmask(SIG_BLOCK, NULL, payload);
    return NULL;
}

static void a_thread_leaves_signals_to_the_program(void **state)
{
    pthread_t thread;
    sigset_t mask;
    (void)state;
    sigemptyset(&mask);
    assert_int_equal(thread_start(&thread, note_mask, &mask, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(sigismember(&mask, SIGINT) && sigismember(&mask, SIGTERM) && sigismember(&mask, SIGUSR1));
}

static void the_thread_that_starts_it_keeps_its_own_mask(void **state)
{
    pthread_t thread;
    sigset_t ignored, usr1, mask;
    (void)state;
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &usr1, NULL);
    assert_int_equal(thread_start(&thread, note_mask, &ignored, NULL), 0);
    pthread_sigmask(SIG_UNBLOCK, &usr1, &mask);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(sigismember(&mask, SIGUSR1));
    assert_false(sigismember(&mask, SIGINT));
}

/* A stack that no address space has room for. */
static void a_thread_that_cannot_start_says_why(void **state)
{
    pthread_t thread;
    pthread_attr_t before, huge;
    sigset_t mask;
    ckpt_error err = {0};
    (void)state;
    assert_int_equal(pthread_getattr_default_np(&before), 0);
    assert_int_equal(pthread_attr_init(&huge), 0);
    assert_int_equal(pthread_attr_setstacksize(&huge, (size_t)1 << 60), 0);
    assert_int_equal(pthread_setattr_default_np(&huge), 0);
    assert_int_equal(thread_start(&thread, note_mask, &mask, &err), CKPT_EIO);
    assert_int_equal(pthread_setattr_default_np(&before), 0);
    assert_string_equal(err.message, "start a thread: resource temporarily unavailable");
    pthread_sigmask(SIG_BLOCK, NULL, &mask);
    assert_false(sigismember(&mask, SIGINT));
    pthread_attr_destroy(&huge);
    pthread_attr_destroy(&before);
}

/* Of the calling thread alone. */
static int nice_value(void)
{
    return getpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid));
}

static void *note_nice(void *payload)
{
    *(int *)payload = nice_value();
    return NULL;
}

static void *give_way_and_note_nice(void *payload)
{
    pthread_t child;
    int *const nice = payload;
    thread_give_way();
    nice[0] = nice_value();
    if (thread_start(&child, note_nice, &nice[1], NULL) == 0)
        pthread_join(child, NULL);
    return NULL;
}

static void a_thread_that_gives_way_takes_those_it_starts_along_and_no_other(void **state)
{
    pthread_t thread;
    int nice[2] = {0};
    (void)state;
    const int before = nice_value();
    if (before == 19)
        skip(); /* nothing is below */
    assert_int_equal(thread_start(&thread, give_way_and_note_nice, nice, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(nice[0] > before);
    assert_int_equal(nice[1], nice[0]);
    assert_int_equal(nice_value(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thread_leaves_signals_to_the_program),
        cmocka_unit_test(the_thread_that_starts_it_keeps_its_own_mask),
        cmocka_unit_test(a_thread_that_cannot_start_says_why),
        cmocka_unit_test(a_thread_that_gives_way_takes_those_it_starts_along_and_no_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
