#include "job.h"
#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "must.h"
#include "temp_dir.h"

#define KIND    "test"
#define WAIT_MS 20000

static char dir[TEMP_PATH_MAX];

static int setup(void **state)
{
    (void)state;
    return temp_dir_make(dir) || setenv("XDG_STATE_HOME", dir, 1);
}

static int teardown(void **state)
{
    (void)state;
    return temp_dir_remove(dir);
}

static void read_log(char *text, size_t size, const char *subject)
{
    char path[FILE_PATH_MAX];
    MUST(job_log_path(path, KIND, subject, ERR));
    FILE *const f = fopen(path, "r");
    assert_non_null(f);
    text[fread(text, 1, size - 1, f)] = 0;
    assert_int_equal(fclose(f), 0);
}

/* A job in a process of its own, that publishes and waits for its end. */
static pid_t start_job(const char *subject)
{
    int ready[2];
    char byte;
    assert_int_equal(pipe(ready), 0);
    const pid_t pid = fork();
    if (pid == 0) {
        job *j = NULL;
        (void)signal(SIGTERM, SIG_DFL);
        if (job_open(&j, KIND, subject, NULL) || write(ready[1], "x", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    assert_true(pid > 0);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return pid;
}

static void the_status_tells_what_was_published(void **state)
{
    (void)state;
    job *j = NULL;
    job_status status;
    MUST(job_open(&j, KIND, "/one", ERR));
    job_count(j, "saved", 2);
    job_count(j, "failed", 1);
    job_count(j, "saved", 1);
    job_failure(j, "the disk is \"full\"\n");
    job_of(j)->last_success = 1234567890;
    MUST(job_publish(j, ERR));
    MUST(job_read(&status, KIND, "/one", ERR));
    assert_int_equal(status.state, JOB_RUNNING);
    assert_string_equal(status.subject, "/one");
    assert_int_equal(status.pid, getpid());
    assert_int_equal(job_counter_of(&status, "saved"), 3);
    assert_int_equal(job_counter_of(&status, "failed"), 1);
    assert_int_equal(job_counter_of(&status, "other"), 0);
    assert_string_equal(status.last_error, "the disk is \"full\"\n");
    assert_int_equal(status.last_success, 1234567890);
    job_close(j, 0, NULL);
}

static void a_job_that_has_ended_says_how(void **state)
{
    (void)state;
    job *j = NULL;
    job_status status;
    const ckpt_error err = {.code = CKPT_EIO, .message = "no such device"};
    MUST(job_open(&j, KIND, "/ended", ERR));
    job_close(j, 0, NULL);
    MUST(job_read(&status, KIND, "/ended", ERR));
    assert_int_equal(status.state, JOB_ENDED);
    MUST(job_open(&j, KIND, "/ended", ERR));
    job_close(j, CKPT_EIO, &err);
    MUST(job_read(&status, KIND, "/ended", ERR));
    assert_int_equal(status.state, JOB_FAILED);
    assert_string_equal(status.last_error, "no such device");
}

static void there_is_one_of_a_kind_for_a_subject(void **state)
{
    (void)state;
    job *j = NULL, *other = NULL;
    ckpt_error err = {0};
    const pid_t pid = start_job("/busy");
    assert_int_equal(job_open(&other, KIND, "/busy", &err), CKPT_EBUSY);
    assert_null(other);
    MUST(job_open(&j, KIND, "/free", ERR));
    job_close(j, 0, NULL);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    MUST(job_open(&j, KIND, "/busy", ERR)); /* the dead hold nothing */
    job_close(j, 0, NULL);
}

static void a_killed_job_is_not_taken_for_a_running_one(void **state)
{
    (void)state;
    job_status status;
    const pid_t pid = start_job("/killed");
    MUST(job_read(&status, KIND, "/killed", ERR));
    assert_int_equal(status.state, JOB_RUNNING);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    MUST(job_read(&status, KIND, "/killed", ERR));
    assert_int_equal(status.state, JOB_KILLED);
}

static void another_process_of_the_same_number_is_not_the_job(void **state)
{
    (void)state;
    job *j = NULL;
    job_status status;
    ckpt_error err = {0};
    MUST(job_open(&j, KIND, "/recycled", ERR));
    job_of(j)->pid_start--; /* as one that had our number and began before us */
    MUST(job_publish(j, ERR));
    MUST(job_read(&status, KIND, "/recycled", ERR));
    assert_int_equal(status.state, JOB_KILLED);
    assert_int_equal(job_stop(KIND, "/recycled", 0, &err), CKPT_ENOTFOUND); /* else this test would end here */
    job_close(j, 0, NULL);
}

static void a_job_is_stopped_with_sigterm(void **state)
{
    (void)state;
    int how = 0;
    const pid_t pid = start_job("/stopped");
    MUST(job_stop(KIND, "/stopped", WAIT_MS, ERR));
    assert_int_equal(waitpid(pid, &how, 0), pid);
    assert_true(WIFSIGNALED(how));
    assert_int_equal(WTERMSIG(how), SIGTERM);
}

static void what_has_never_run_is_not_found(void **state)
{
    (void)state;
    job_status status;
    ckpt_error err = {0};
    assert_int_equal(job_read(&status, KIND, "/never", &err), CKPT_ENOTFOUND);
    assert_int_equal(job_stop(KIND, "/never", 0, &err), CKPT_ENOTFOUND);
}

static void a_status_file_of_garbage_is_damage(void **state)
{
    (void)state;
    job *j = NULL;
    job_status status;
    ckpt_error err = {0};
    char path[FILE_PATH_MAX];
    MUST(job_open(&j, KIND, "/garbage", ERR));
    MUST(path_join(path, job_folder(j), "status.json", ERR));
    FILE *const f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs("{\"job\": ", f) >= 0);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(job_read(&status, KIND, "/garbage", &err), CKPT_EDATA);
    job_close(j, 0, NULL);
}

static void a_status_that_names_no_process_is_not_that_of_a_running_one(void **state)
{
    (void)state;
    job *j = NULL;
    job_status status;
    ckpt_error err = {0};
    MUST(job_open(&j, KIND, "/nobody", ERR));
    job_of(j)->host[0] = 0;
    job_of(j)->pid = 0;
    MUST(job_publish(j, ERR));
    MUST(job_read(&status, KIND, "/nobody", ERR));
    assert_int_equal(status.state, JOB_KILLED);
    assert_int_equal(job_stop(KIND, "/nobody", 0, &err), CKPT_ENOTFOUND);
    job_close(j, 0, NULL);
}

static void a_log_that_is_no_file_is_not_waited_for(void **state)
{
    (void)state;
    char path[FILE_PATH_MAX], folder[FILE_PATH_MAX];
    job_birth birth;
    ckpt_error err = {0};
    MUST(job_log_path(path, KIND, "/fifo", ERR));
    MUST(path_parent(folder, path, ERR));
    MUST(dir_make_all(folder, ERR));
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(job_detach(&birth, KIND, "/fifo", &err), CKPT_EIO);
}

static void a_folder_that_cannot_be_made_is_told_with_a_way_out(void **state)
{
    (void)state;
    job *j = NULL;
    ckpt_error err = {0};
    assert_int_equal(setenv("XDG_STATE_HOME", "/dev/null", 1), 0);
    assert_int_equal(job_open(&j, KIND, "/nowhere", &err), CKPT_EIO);
    assert_non_null(strstr(err.hint, "XDG_STATE_HOME"));
    assert_int_equal(setenv("XDG_STATE_HOME", dir, 1), 0);
}

/* In the new process: whether it has left the terminal, to its log; then it ends as `rc` says. */
static void be_detached(job_birth *birth, int rc)
{
    const ckpt_error err = {.code = rc, .message = "it cannot begin"};
    char byte;
    printf("session %d, input %d\n", getsid(0) == getpid(), (int)read(STDIN_FILENO, &byte, 1));
    fflush(stdout);
    job_report(birth, rc, &err);
    _exit(0);
}

static void a_detached_job_has_a_session_and_a_log_of_its_own(void **state)
{
    (void)state;
    job_birth birth;
    char text[256];
    MUST(job_detach(&birth, KIND, "/detached", ERR));
    if (birth.pid == 0)
        be_detached(&birth, 0);
    assert_int_equal(waitpid((pid_t)birth.pid, NULL, 0), birth.pid);
    read_log(text, sizeof text, "/detached");
    assert_string_equal(text, "session 1, input 0\n");
}

static void a_detached_job_keeps_no_file_of_its_caller_open(void **state)
{
    (void)state;
    job_birth birth;
    int ends[2];
    char byte;
    assert_int_equal(pipe(ends), 0);
    MUST(job_detach(&birth, KIND, "/inherited", ERR));
    if (birth.pid == 0) {
        job_report(&birth, 0, NULL);
        pause();
    }
    assert_int_equal(close(ends[1]), 0);
    assert_int_equal(read(ends[0], &byte, 1), 0); /* its end, while that job lives */
    assert_int_equal(close(ends[0]), 0);
    assert_int_equal(kill((pid_t)birth.pid, SIGKILL), 0);
    assert_int_equal(waitpid((pid_t)birth.pid, NULL, 0), birth.pid);
}

static void a_detached_job_that_cannot_begin_tells_its_caller(void **state)
{
    (void)state;
    job_birth birth;
    ckpt_error err = {0};
    const int rc = job_detach(&birth, KIND, "/stillborn", &err);
    if (birth.pid == 0)
        be_detached(&birth, CKPT_EBUSY);
    assert_int_equal(rc, CKPT_EBUSY);
    assert_string_equal(err.message, "it cannot begin");
    assert_int_equal(waitpid((pid_t)birth.pid, NULL, 0), birth.pid);
}

static void a_full_log_is_moved_aside_under_whoever_writes_to_it(void **state)
{
    (void)state;
    job *j = NULL;
    char path[FILE_PATH_MAX], text[64];
    struct stat st;
    MUST(job_open(&j, KIND, "/log", ERR));
    MUST(path_join(path, job_folder(j), "log", ERR));
    const int fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, JOB_LOG_BYTES_MAX), 0);
    assert_int_equal(write(fd, "last\n", 5), 5);
    MUST(job_log_trim(j, ERR));
    assert_int_equal(write(fd, "next\n", 5), 5);
    read_log(text, sizeof text, "/log");
    assert_string_equal(text, "next\n");
    MUST(path_join(path, job_folder(j), "log.1", ERR));
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, JOB_LOG_BYTES_MAX);
    MUST(job_log_trim(j, ERR)); /* is small now */
    read_log(text, sizeof text, "/log");
    assert_string_equal(text, "next\n");
    close(fd);
    job_close(j, 0, NULL);
}

static void a_process_knows_when_it_began(void **state)
{
    (void)state;
    assert_int_not_equal(process_start((uint64_t)getpid()), 0);
    assert_int_equal(process_start((uint64_t)getpid()), process_start((uint64_t)getpid()));
    const pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    assert_int_equal(process_start((uint64_t)pid), 0); /* ended, and nobody has asked yet */
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_int_equal(process_start((uint64_t)pid), 0);
}

static void the_start_of_a_process_is_field_22_of_its_status(void **state)
{
    (void)state;
    uint64_t start = 0;
    FILE *const f = fopen("/proc/self/stat", "r");
    assert_non_null(f);
    for (int field = 1; field < 22; field++) /* this program has no blank in its name */
        assert_int_equal(fscanf(f, "%*s"), 0);
    assert_int_equal(fscanf(f, "%" SCNu64, &start), 1);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(process_start((uint64_t)getpid()), start);
}

static void state_is_kept_where_xdg_state_home_or_home_says(void **state)
{
    (void)state;
    char path[FILE_PATH_MAX], home[FILE_PATH_MAX];
    const char *const before = getenv("HOME");
    snprintf(home, sizeof home, "%s", before ? before : "/");
    assert_int_equal(setenv("HOME", "/somewhere", 1), 0);
    MUST(job_log_path(path, KIND, "a", ERR));
    assert_memory_equal(path, dir, strlen(dir));
    assert_int_equal(setenv("XDG_STATE_HOME", "relative", 1), 0); /* which the specification wants ignored */
    MUST(job_log_path(path, KIND, "a", ERR));
    assert_non_null(strstr(path, "/somewhere/.local/state/ckpt/jobs/" KIND "-"));
    assert_int_equal(setenv("HOME", "relative", 1), 0);
    assert_int_equal(job_log_path(path, KIND, "a", NULL), CKPT_EUSAGE);
    assert_int_equal(unsetenv("HOME"), 0);
    assert_int_equal(job_log_path(path, KIND, "a", NULL), CKPT_EUSAGE);
    assert_int_equal(setenv("HOME", home, 1), 0);
    assert_int_equal(setenv("XDG_STATE_HOME", dir, 1), 0);
}

static void names_that_are_too_long_are_refused(void **state)
{
    (void)state;
    char path[FILE_PATH_MAX], subject[FILE_PATH_MAX + 1], kind[JOB_KIND_SIZE + 1];
    memset(subject, 'x', sizeof subject);
    memset(kind, 'x', sizeof kind);
    subject[FILE_PATH_MAX] = kind[JOB_KIND_SIZE] = 0;
    assert_int_equal(job_log_path(path, KIND, subject, NULL), CKPT_EUSAGE);
    assert_int_equal(job_log_path(path, kind, "a", NULL), CKPT_EUSAGE);
    subject[FILE_PATH_MAX - 1] = kind[JOB_KIND_SIZE - 1] = 0;
    MUST(job_log_path(path, kind, subject, ERR));
}

static void a_failure_without_a_message_has_the_name_of_its_code(void **state)
{
    (void)state;
    job *j = NULL;
    job_status status;
    MUST(job_open(&j, KIND, "nameless", ERR));
    job_close(j, CKPT_EIO, NULL);
    MUST(job_read(&status, KIND, "nameless", ERR));
    assert_int_equal(status.state, JOB_FAILED);
    assert_string_equal(status.last_error, ckpt_error_name(CKPT_EIO));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_status_tells_what_was_published),
        cmocka_unit_test(a_job_that_has_ended_says_how),
        cmocka_unit_test(there_is_one_of_a_kind_for_a_subject),
        cmocka_unit_test(a_killed_job_is_not_taken_for_a_running_one),
        cmocka_unit_test(another_process_of_the_same_number_is_not_the_job),
        cmocka_unit_test(a_job_is_stopped_with_sigterm),
        cmocka_unit_test(what_has_never_run_is_not_found),
        cmocka_unit_test(a_status_file_of_garbage_is_damage),
        cmocka_unit_test(a_status_that_names_no_process_is_not_that_of_a_running_one),
        cmocka_unit_test(a_log_that_is_no_file_is_not_waited_for),
        cmocka_unit_test(a_folder_that_cannot_be_made_is_told_with_a_way_out),
        cmocka_unit_test(a_detached_job_has_a_session_and_a_log_of_its_own),
        cmocka_unit_test(a_detached_job_keeps_no_file_of_its_caller_open),
        cmocka_unit_test(a_detached_job_that_cannot_begin_tells_its_caller),
        cmocka_unit_test(a_full_log_is_moved_aside_under_whoever_writes_to_it),
        cmocka_unit_test(a_process_knows_when_it_began),
        cmocka_unit_test(the_start_of_a_process_is_field_22_of_its_status),
        cmocka_unit_test(state_is_kept_where_xdg_state_home_or_home_says),
        cmocka_unit_test(names_that_are_too_long_are_refused),
        cmocka_unit_test(a_failure_without_a_message_has_the_name_of_its_code),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
