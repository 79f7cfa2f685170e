#define _GNU_SOURCE /* pipe2 */
#include "lease.h"

#include "file.h"
#include "temp_dir.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include <cmocka.h>

static char dir[TEMP_PATH_MAX];
static char path[FILE_PATH_MAX], marker[FILE_PATH_MAX];

static int setup(void **state)
{
    (void)state;
    return temp_dir_make(dir) || path_join(path, dir, "job", NULL) || path_join(marker, dir, "marker", NULL);
}

static int teardown(void **state)
{
    (void)state;
    return temp_dir_remove(dir);
}

/* Living holders move quickly and are given long, so that a slow machine does not make them look dead; dead ones are
 * given little, as waiting for them is what a test does. */
static const lease_options LOCK = {.interval_ms = 5, .stale_ms = 5000};
static const lease_options COUNTER = {.interval_ms = 5, .stale_ms = 5000, .force_counter = true};
static const lease_options COUNTER_SHORT = {.interval_ms = 5, .stale_ms = 100, .force_counter = true};
static const lease_options LOCK_SHORT = {.interval_ms = 5, .stale_ms = 100};

/* Another process that holds the lease. It does what the letters say that it is sent, and answers with one byte:
 * c: lease_check, r: lease_release; at the end of the pipe it exits and leaves the file as a crash would. */
typedef struct other {
    pid_t pid;
    int to, from;
} other;

static void other_run(int from, int to, const lease_options *options)
{
    lease *l = NULL;
    char letter = 'a';
    int rc = lease_acquire(&l, path, options, NULL);
    do {
        if (letter == 'c')
            rc = lease_check(l, NULL);
        if (letter == 'r')
            lease_release(l);
        const char answer = rc == 0 ? 'y' : rc == CKPT_EBUSY ? 'b' : 'n';
        if (write(to, &answer, 1) != 1)
            break;
    } while (read(from, &letter, 1) == 1);
    _exit(0);
}

static char other_answer(const other *o)
{
    char answer = 0;
    assert_int_equal(read(o->from, &answer, 1), 1);
    return answer;
}

static char other_do(const other *o, char letter)
{
    assert_int_equal(write(o->to, &letter, 1), 1);
    return other_answer(o);
}

static other other_start(const lease_options *options)
{
    int down[2], up[2];
    assert_int_equal(pipe2(down, O_CLOEXEC), 0);
    assert_int_equal(pipe2(up, O_CLOEXEC), 0);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        close(down[1]);
        close(up[0]);
        other_run(down[0], up[1], options);
    }
    close(down[0]);
    close(up[1]);
    return (other){.pid = pid, .to = down[1], .from = up[0]};
}

static other other_holds(const lease_options *options)
{
    const other o = other_start(options);
    assert_int_equal(other_answer(&o), 'y');
    return o;
}

static void other_kill(const other *o)
{
    kill(o->pid, SIGKILL);
    assert_int_equal(waitpid(o->pid, NULL, 0), o->pid);
    close(o->to);
    close(o->from);
}

static lease_state probe(const lease_options *options)
{
    lease_state now;
    const char *const paths[] = {path};
    assert_int_equal(lease_probe(&now, paths, 1, options, NULL), 0);
    return now;
}

static int acquire_and_release(const lease_options *options)
{
    lease *l = NULL;
    const int rc = lease_acquire(&l, path, options, NULL);
    lease_release(l);
    return rc;
}

static void assert_held_by(const other *o, const lease_options *options)
{
    lease *l = NULL;
    ckpt_error err = {0};
    char who[64];
    snprintf(who, sizeof who, ": held by process %ld on ", (long)o->pid);
    assert_int_equal(lease_acquire(&l, path, options, &err), CKPT_EBUSY);
    assert_null(l);
    assert_non_null(strstr(err.message, who));
    assert_string_not_equal(err.hint, "");
}

static void put(const char *text)
{
    FILE *const file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* ---- one process ---- */

static void the_file_is_there_while_the_lease_is_held(void **state)
{
    (void)state;
    lease *l = NULL;
    char *text = NULL, mine[32];
    size_t size;
    assert_int_equal(lease_acquire(&l, path, NULL, NULL), 0);
    assert_int_equal(lease_check(l, NULL), 0);
    assert_int_equal(file_read_all(&text, &size, path, 1000, NULL), 0);
    snprintf(mine, sizeof mine, "\npid %ld\n", (long)getpid());
    assert_memory_equal(text, "ckpt lease 1\ncounter 0000000000000000\n", 38);
    assert_non_null(strstr(text, mine));
    free(text);
    lease_release(l);
    assert_int_equal(access(path, F_OK), -1);
}

static void the_record_of_a_shorter_lease_replaces_a_longer_file(void **state)
{
    (void)state;
    lease *l = NULL;
    char text[600], *now = NULL;
    size_t size;
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    put(text);
    assert_int_equal(lease_acquire(&l, path, &LOCK, NULL), 0);
    assert_int_equal(file_read_all(&now, &size, path, 1000, NULL), 0);
    assert_null(strchr(now, 'x'));
    free(now);
    lease_release(l);
}

static void a_missing_folder_is_not_found(void **state)
{
    (void)state;
    lease *l = NULL;
    assert_int_equal(lease_acquire(&l, "/nonexistent/job", NULL, NULL), CKPT_ENOTFOUND);
    assert_null(l);
}

static void a_link_is_not_followed(void **state)
{
    (void)state;
    lease *l = NULL;
    assert_int_equal(symlink(marker, path), 0);
    assert_int_equal(lease_acquire(&l, path, &LOCK, NULL), CKPT_EIO);
    assert_int_equal(access(marker, F_OK), -1);
}

static void check_tells_when_the_file_was_removed(void **state)
{
    (void)state;
    static const lease_options *const KINDS[] = {&LOCK, &COUNTER};
    for (size_t i = 0; i < 2; i++) {
        lease *l = NULL;
        assert_int_equal(lease_acquire(&l, path, KINDS[i], NULL), 0);
        assert_int_equal(unlink(path), 0);
        assert_int_equal(lease_check(l, NULL), CKPT_EBUSY);
        lease_release(l);
    }
}

static void release_of_a_lost_lease_leaves_the_file_of_the_next_holder(void **state)
{
    (void)state;
    static const lease_options *const KINDS[] = {&LOCK, &COUNTER};
    for (size_t i = 0; i < 2; i++) {
        lease *l = NULL;
        assert_int_equal(lease_acquire(&l, path, KINDS[i], NULL), 0);
        assert_int_equal(unlink(path), 0);
        put("another");
        assert_int_equal(lease_check(l, NULL), CKPT_EBUSY);
        lease_release(l);
        assert_int_equal(unlink(path), 0);
    }
}

static void releasing_nothing_is_fine(void **state)
{
    (void)state;
    lease_release(NULL);
}

/* ---- locks ---- */

static void a_held_lock_is_busy_and_says_who(void **state)
{
    (void)state;
    const other o = other_holds(&LOCK);
    assert_held_by(&o, &LOCK);
    const lease_state now = probe(&LOCK);
    assert_int_equal(now.status, LEASE_HELD);
    assert_int_equal(now.pid, o.pid);
    assert_string_not_equal(now.host, "");
    other_kill(&o);
}

static void a_killed_holder_loses_its_lock_at_once(void **state)
{
    (void)state;
    const other o = other_holds(&LOCK);
    other_kill(&o);
    assert_int_equal(access(path, F_OK), 0);
    assert_int_equal(probe(&LOCK).status, LEASE_STALE);
    assert_int_equal(acquire_and_release(&LOCK), 0);
    assert_int_equal(probe(&LOCK).status, LEASE_FREE);
}

static void a_frozen_holder_keeps_its_lock(void **state)
{
    (void)state;
    const other o = other_holds(&LOCK_SHORT);
    kill(o.pid, SIGSTOP);
    usleep(300000);
    assert_int_equal(acquire_and_release(&LOCK_SHORT), CKPT_EBUSY);
    kill(o.pid, SIGCONT);
    assert_int_equal(other_do(&o, 'c'), 'y');
    other_kill(&o);
}

static void waiting_ends_with_the_holder(void **state)
{
    (void)state;
    lease_options patient = LOCK;
    patient.wait_ms = 60000;
    const other first = other_holds(&LOCK);
    const other second = other_start(&patient);
    assert_int_equal(other_do(&first, 'r'), 'y');
    assert_int_equal(other_answer(&second), 'y');
    other_kill(&first);
    other_kill(&second);
}

static void a_file_from_a_crash_before_the_record_is_free(void **state)
{
    (void)state;
    put("");
    assert_int_equal(probe(&LOCK).status, LEASE_STALE);
    assert_int_equal(acquire_and_release(&LOCK), 0);
}

/* ---- counters ---- */

static void a_moving_counter_is_busy_and_says_who(void **state)
{
    (void)state;
    const other o = other_holds(&COUNTER);
    assert_held_by(&o, &COUNTER);
    assert_int_equal(probe(&COUNTER).status, LEASE_HELD);
    assert_int_equal(other_do(&o, 'c'), 'y');
    other_kill(&o);
}

static void a_counter_that_stands_still_is_taken_over(void **state)
{
    (void)state;
    const other o = other_holds(&COUNTER_SHORT);
    other_kill(&o);
    assert_int_equal(probe(&COUNTER_SHORT).status, LEASE_STALE);
    assert_int_equal(acquire_and_release(&COUNTER_SHORT), 0);
    assert_int_equal(probe(&COUNTER_SHORT).status, LEASE_FREE);
}

static void a_frozen_holder_learns_that_its_counter_was_taken_over(void **state)
{
    (void)state;
    lease *l = NULL;
    const other o = other_holds(&COUNTER_SHORT);
    kill(o.pid, SIGSTOP);
    assert_int_equal(lease_acquire(&l, path, &COUNTER_SHORT, NULL), 0);
    kill(o.pid, SIGCONT);
    assert_int_equal(other_do(&o, 'c'), 'b');
    assert_int_equal(other_do(&o, 'r'), 'b');
    assert_int_equal(access(path, F_OK), 0); /* its release left ours alone */
    lease_release(l);
    other_kill(&o);
}

static void the_longer_promise_of_the_holder_counts(void **state)
{
    (void)state;
    const lease_options slow = {.interval_ms = 60000, .stale_ms = 600, .force_counter = true};
    const other o = other_holds(&slow);
    lease_state now;
    const char *const paths[] = {path};
    struct timespec before, after;
    clock_gettime(CLOCK_MONOTONIC, &before);
    assert_int_equal(lease_probe(&now, paths, 1, &COUNTER_SHORT, NULL), 0);
    clock_gettime(CLOCK_MONOTONIC, &after);
    /* A lower bound is no race: it must not be judged earlier. */
    assert_true((after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1000000 >= 599);
    assert_int_equal(now.status, LEASE_STALE);
    other_kill(&o);
}

static void an_unreachable_counter_is_lost_before_others_may_think_so(void **state)
{
    (void)state;
    const lease_options slow = {.interval_ms = 60000, .stale_ms = 100, .force_counter = true};
    lease *l = NULL;
    assert_int_equal(lease_acquire(&l, path, &slow, NULL), 0);
    usleep(60000); /* more than half of stale_ms without advancing */
    assert_int_equal(lease_check(l, NULL), CKPT_EBUSY);
    lease_release(l);
}

/* ---- a server and its network clients see the same file ---- */

static void a_lock_holder_moves_for_those_who_cannot_see_locks(void **state)
{
    (void)state;
    const other o = other_holds(&LOCK);
    assert_held_by(&o, &COUNTER);
    assert_int_equal(probe(&COUNTER).status, LEASE_HELD);
    other_kill(&o);
}

static void a_counter_is_respected_by_those_who_use_locks(void **state)
{
    (void)state;
    const other o = other_holds(&COUNTER);
    assert_held_by(&o, &LOCK);
    assert_int_equal(probe(&LOCK).status, LEASE_HELD);
    other_kill(&o);
}

static void a_dead_counter_is_taken_over_by_those_who_use_locks(void **state)
{
    (void)state;
    const other o = other_holds(&COUNTER_SHORT);
    other_kill(&o);
    assert_int_equal(acquire_and_release(&LOCK_SHORT), 0);
}

/* ---- several ---- */

static void probe_watches_many_at_once(void **state)
{
    (void)state;
    char dead[FILE_PATH_MAX], none[FILE_PATH_MAX];
    lease_state states[3];
    const other killed = other_holds(&COUNTER_SHORT);
    other_kill(&killed);
    assert_int_equal(path_join(dead, dir, "dead", NULL), 0);
    assert_int_equal(path_join(none, dir, "none", NULL), 0);
    assert_int_equal(link(path, dead), 0);
    assert_int_equal(unlink(path), 0);
    const other living = other_holds(&COUNTER);
    const char *const paths[] = {none, path, dead};
    assert_int_equal(lease_probe(states, paths, 3, &COUNTER_SHORT, NULL), 0);
    assert_int_equal(states[0].status, LEASE_FREE);
    assert_int_equal(states[1].status, LEASE_HELD);
    assert_int_equal(states[1].pid, living.pid);
    assert_int_equal(states[2].status, LEASE_STALE);
    assert_int_equal(states[2].pid, killed.pid);
    assert_int_equal(lease_probe(NULL, NULL, 0, NULL, NULL), 0);
    other_kill(&living);
}

/* Takes the lease `times` times; while it is held nobody else may have made the marker. Ends with 0 when that held. */
static pid_t contender_start(const lease_options *options, int times)
{
    const pid_t pid = fork();
    if (pid != 0)
        return pid;
    for (int i = 0; i < times; i++) {
        lease *l = NULL;
        if (lease_acquire(&l, path, options, NULL))
            _exit(1);
        const int fd = open(marker, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
        if (fd < 0)
            _exit(2);
        close(fd);
        usleep(500);
        if (unlink(marker) || lease_check(l, NULL))
            _exit(3);
        lease_release(l);
    }
    _exit(0);
}

#define CONTENDERS 4
static void assert_one_at_a_time(const lease_options *options, int times)
{
    pid_t pids[CONTENDERS];
    int status;
    for (int i = 0; i < CONTENDERS; i++) {
        pids[i] = contender_start(options, times);
        assert_true(pids[i] > 0);
    }
    for (int i = 0; i < CONTENDERS; i++) {
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_int_equal(status, 0);
    }
}

static void one_at_a_time_has_the_lock_while_files_come_and_go(void **state)
{
    (void)state;
    lease_options patient = LOCK;
    patient.wait_ms = 120000;
    assert_one_at_a_time(&patient, 100);
}

static void one_at_a_time_has_the_counter_while_files_come_and_go(void **state)
{
    (void)state;
    lease_options patient = COUNTER;
    patient.wait_ms = 120000;
    assert_one_at_a_time(&patient, 25);
}

static void one_of_many_watchers_takes_over_from_the_dead(void **state)
{
    (void)state;
    const other o = other_holds(&COUNTER_SHORT);
    other_kill(&o);
    /* The dead one is given 100 ms, the living ones long. */
    lease_options patient = COUNTER;
    patient.wait_ms = 120000;
    patient.stale_ms = 2000;
    assert_one_at_a_time(&patient, 2);
}

#define IN_DIR(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_DIR(the_file_is_there_while_the_lease_is_held),
        IN_DIR(the_record_of_a_shorter_lease_replaces_a_longer_file),
        IN_DIR(a_missing_folder_is_not_found),
        IN_DIR(a_link_is_not_followed),
        IN_DIR(check_tells_when_the_file_was_removed),
        IN_DIR(release_of_a_lost_lease_leaves_the_file_of_the_next_holder),
        IN_DIR(releasing_nothing_is_fine),
        IN_DIR(a_held_lock_is_busy_and_says_who),
        IN_DIR(a_killed_holder_loses_its_lock_at_once),
        IN_DIR(a_frozen_holder_keeps_its_lock),
        IN_DIR(waiting_ends_with_the_holder),
        IN_DIR(a_file_from_a_crash_before_the_record_is_free),
        IN_DIR(a_moving_counter_is_busy_and_says_who),
        IN_DIR(a_counter_that_stands_still_is_taken_over),
        IN_DIR(a_frozen_holder_learns_that_its_counter_was_taken_over),
        IN_DIR(the_longer_promise_of_the_holder_counts),
        IN_DIR(an_unreachable_counter_is_lost_before_others_may_think_so),
        IN_DIR(a_lock_holder_moves_for_those_who_cannot_see_locks),
        IN_DIR(a_counter_is_respected_by_those_who_use_locks),
        IN_DIR(a_dead_counter_is_taken_over_by_those_who_use_locks),
        IN_DIR(probe_watches_many_at_once),
        IN_DIR(one_at_a_time_has_the_lock_while_files_come_and_go),
        IN_DIR(one_at_a_time_has_the_counter_while_files_come_and_go),
        IN_DIR(one_of_many_watchers_takes_over_from_the_dead),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
