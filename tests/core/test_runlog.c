/* The log of a run and its lease. */
#include "runlog.h"

#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "temp_dir.h"

#define LINES_MAX 16
#define PATH_SIZE (TEMP_PATH_MAX + 64)

typedef struct folder {
    char root[TEMP_PATH_MAX];
    char log[PATH_SIZE];
} folder;

static int setup(void **state)
{
    folder *const f = calloc(1, sizeof *f);
    if (!f || temp_dir_make(f->root))
        return -1;
    snprintf(f->log, sizeof f->log, "%s/runs/exp-1.jsonl", f->root);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    folder *const f = *state;
    const int rc = temp_dir_remove(f->root);
    free(f);
    return rc;
}

static runlog *log_open(const folder *f)
{
    runlog *l = NULL;
    ckpt_error err = {0};
    if (runlog_open(&l, f->root, "exp-1", &err))
        fail_msg("%s", err.message);
    return l;
}

static ckpt_training_event event_of(ckpt_training_event_kind kind, uint64_t step)
{
    return (ckpt_training_event){.kind = kind,
                                 .epoch = 1,
                                 .step = step,
                                 .loss = 0.5,
                                 .accuracy = 0.75,
                                 .val_loss = NAN,
                                 .val_accuracy = 0.625,
                                 .test_loss = 0.25,
                                 .test_accuracy = 0.875,
                                 .images_per_s = 1234.5};
}

static void tell(runlog *l, ckpt_training_event_kind kind, uint64_t step)
{
    const ckpt_training_event event = event_of(kind, step);
    runlog_event(l, &event);
    assert_null(runlog_failure(l));
}

/* All lines of the log, each of them JSON and nothing else; returns how many there are. */
static size_t lines_read(json_t *lines[LINES_MAX], const folder *f)
{
    size_t count = 0, room = 0;
    ssize_t size;
    char *line = NULL;
    FILE *const file = fopen(f->log, "r");
    assert_non_null(file);
    while ((size = getline(&line, &room, file)) > 0) {
        assert_true(count < LINES_MAX && line[size - 1] == '\n');
        lines[count] = json_loadb(line, (size_t)size, 0, NULL);
        assert_non_null(lines[count]);
        count++;
    }
    free(line);
    assert_int_equal(fclose(file), 0);
    return count;
}

static void lines_free(json_t *lines[LINES_MAX], size_t count)
{
    for (size_t i = 0; i < count; i++)
        json_decref(lines[i]);
}

static const char *text_of(const json_t *line, const char *key)
{
    return json_string_value(json_object_get(line, key));
}

static double number_of(const json_t *line, const char *key)
{
    return json_number_value(json_object_get(line, key));
}

static void a_line_of_steps_holds_what_was_measured(void **state)
{
    json_t *lines[LINES_MAX];
    runlog *const l = log_open(*state);
    tell(l, CKPT_TRAINING_STEPS, 50);
    const size_t count = lines_read(lines, *state);
    assert_int_equal(count, 1);
    assert_string_equal(text_of(lines[0], "event"), "steps");
    assert_true(number_of(lines[0], "epoch") == 1 && number_of(lines[0], "step") == 50);
    assert_true(number_of(lines[0], "loss") == 0.5 && number_of(lines[0], "accuracy") == 0.75);
    assert_true(number_of(lines[0], "images_per_s") == 1234.5);
    assert_true(json_is_number(json_object_get(lines[0], "seconds")));
    assert_int_equal(strlen(text_of(lines[0], "time")), strlen("2026-11-30T12:01:05Z"));
    assert_null(json_object_get(lines[0], "val_accuracy"));
    lines_free(lines, count);
    runlog_close(l);
}

static void a_line_of_an_epoch_holds_its_validation_and_null_for_nan(void **state)
{
    json_t *lines[LINES_MAX];
    runlog *const l = log_open(*state);
    tell(l, CKPT_TRAINING_EPOCH, 50);
    const size_t count = lines_read(lines, *state);
    assert_string_equal(text_of(lines[0], "event"), "epoch");
    assert_true(number_of(lines[0], "val_accuracy") == 0.625);
    assert_true(json_is_null(json_object_get(lines[0], "val_loss")));
    assert_true(json_is_false(json_object_get(lines[0], "best")));
    lines_free(lines, count);
    runlog_close(l);
}

static void the_start_tells_where_it_runs_and_the_end_what_it_reached(void **state)
{
    json_t *lines[LINES_MAX];
    char host[65] = "";
    runlog *const l = log_open(*state);
    assert_int_equal(gethostname(host, sizeof host), 0);
    tell(l, CKPT_TRAINING_STARTED, 0);
    tell(l, CKPT_TRAINING_FINISHED, 99);
    const size_t count = lines_read(lines, *state);
    assert_int_equal(count, 2);
    assert_string_equal(text_of(lines[0], "host"), host);
    assert_int_equal((pid_t)number_of(lines[0], "pid"), getpid());
    assert_null(json_object_get(lines[0], "loss"));
    assert_string_equal(text_of(lines[1], "event"), "finished");
    assert_true(number_of(lines[1], "test_accuracy") == 0.875 && number_of(lines[1], "test_loss") == 0.25);
    lines_free(lines, count);
    runlog_close(l);
}

static void any_text_stays_on_its_line(void **state)
{
    json_t *lines[LINES_MAX];
    runlog *const l = log_open(*state);
    ckpt_training_event event = event_of(CKPT_TRAINING_WARNING, 3);
    event.text = "disk \"full\"\nat \xff";
    runlog_event(l, &event);
    const size_t count = lines_read(lines, *state);
    assert_int_equal(count, 1);
    assert_string_equal(text_of(lines[0], "text"), "disk \"full\"\nat \xef\xbf\xbd");
    lines_free(lines, count);
    runlog_close(l);
}

static void batches_are_not_written(void **state)
{
    json_t *lines[LINES_MAX];
    runlog *const l = log_open(*state);
    tell(l, CKPT_TRAINING_BATCH, 1);
    assert_int_equal(lines_read(lines, *state), 0);
    runlog_close(l);
}

/* ---- One training after the other ---- */

static void write_text(const char *path, const char *text)
{
    FILE *const file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void a_new_log_has_no_seconds_before(void **state)
{
    runlog *const l = log_open(*state);
    assert_true(runlog_seconds_before(l) == 0);
    runlog_close(l);
}

/* The last line with seconds counts, whatever stands behind it: a line that a kill cut short, or that is none. */
static void seconds_of_earlier_trainings_are_read_and_go_on(void **state)
{
    const folder *const f = *state;
    json_t *line = NULL;
    char *text = NULL;
    size_t size = 0;
    runlog_close(log_open(f));
    write_text(f->log, "{\"seconds\": 7}\n{\"seconds\": 12.5}\n{\"event\": \"note\"}\nnoise\n{\"seconds\": 99");
    runlog *const l = log_open(f);
    assert_true(runlog_seconds_before(l) == 12.5);
    tell(l, CKPT_TRAINING_STEPS, 1);
    runlog_close(l);
    FILE *const file = fopen(f->log, "r");
    assert_non_null(file);
    while (getline(&text, &size, file) > 0)
        ;
    fclose(file);
    line = json_loads(text, 0, NULL); /* the new line is whole */
    assert_non_null(line);
    assert_true(number_of(line, "seconds") >= 12.5 && number_of(line, "seconds") < 12.5 + 60);
    json_decref(line);
    free(text);
}

static void lines_are_added_behind_those_that_are_there(void **state)
{
    json_t *lines[LINES_MAX];
    for (int i = 0; i < 3; i++) {
        runlog *const l = log_open(*state);
        tell(l, CKPT_TRAINING_NOTE, (uint64_t)i);
        runlog_close(l);
    }
    const size_t count = lines_read(lines, *state);
    assert_int_equal(count, 3);
    for (int i = 0; i < 3; i++)
        assert_true(number_of(lines[i], "step") == i);
    lines_free(lines, count);
}

/* ---- Failures ---- */

/* Opens the log in a child and holds it until told to go. */
static pid_t holder_start(const folder *f, int *go)
{
    int ready[2], end[2];
    char byte = 0;
    assert_int_equal(pipe(ready), 0);
    assert_int_equal(pipe(end), 0);
    const pid_t child = fork();
    if (child == 0) {
        runlog *l = NULL;
        close(end[1]);
        byte = runlog_open(&l, f->root, "exp-1", NULL) == 0;
        if (write(ready[1], &byte, 1) != 1 || read(end[0], &byte, 1) < 0)
            _exit(1);
        runlog_close(l);
        _exit(0);
    }
    close(end[0]);
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(byte, 1);
    close(ready[0]);
    *go = end[1];
    return child;
}

static void a_run_that_another_process_trains_is_busy_until_it_ends(void **state)
{
    const folder *const f = *state;
    runlog *l = NULL;
    ckpt_error err = {0};
    int go, status;
    const pid_t child = holder_start(f, &go);
    assert_int_equal(runlog_open(&l, f->root, "exp-1", &err), CKPT_EBUSY);
    assert_non_null(strstr(err.message, "exp-1"));
    assert_null(l);
    close(go);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    runlog_close(log_open(f));
}

static void another_run_is_not_busy(void **state)
{
    const folder *const f = *state;
    runlog *l = NULL;
    int go, status;
    const pid_t child = holder_start(f, &go);
    assert_int_equal(runlog_open(&l, f->root, "exp-2", NULL), 0);
    runlog_close(l);
    close(go);
    assert_int_equal(waitpid(child, &status, 0), child);
}

static void a_run_whose_trainer_was_killed_is_free(void **state)
{
    const folder *const f = *state;
    int go, status;
    const pid_t child = holder_start(f, &go);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    close(go);
    runlog_close(log_open(f));
}

static void a_log_that_cannot_be_opened_stops_nobody_and_is_told(void **state)
{
    const folder *const f = *state;
    runlog_close(log_open(f));
    (void)remove(f->log);
    assert_int_equal(mkdir(f->log, 0777), 0);
    runlog *const l = log_open(f);
    assert_non_null(runlog_failure(l));
    const ckpt_training_event event = event_of(CKPT_TRAINING_STEPS, 1);
    runlog_event(l, &event);
    runlog_close(l);
}

/* A limit on the size of files stands for a full disk: the first line is cut short. */
static void a_pipe_in_place_of_a_log_keeps_nobody_waiting(void **state)
{
    const folder *const f = *state;
    runlog_close(log_open(f));
    (void)remove(f->log);
    assert_int_equal(mkfifo(f->log, 0666), 0);
    runlog *const l = log_open(f);
    assert_non_null(runlog_failure(l));
    runlog_close(l);
}

static void a_log_that_cannot_be_written_is_told_and_goes_on_with_a_whole_line(void **state)
{
    const folder *const f = *state;
    struct rlimit before, small;
    char *text = NULL;
    size_t size = 0;
    runlog *const l = log_open(f);
    const ckpt_training_event event = event_of(CKPT_TRAINING_STEPS, 1);
    assert_true(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 10;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    runlog_event(l, &event);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_non_null(runlog_failure(l));
    runlog_event(l, &event);
    runlog_close(l);

    FILE *const file = fopen(f->log, "r");
    assert_non_null(file);
    assert_int_equal(getline(&text, &size, file), 10 + 1);
    assert_true(getline(&text, &size, file) > 0);
    fclose(file);
    json_t *const line = json_loads(text, 0, NULL);
    assert_non_null(line);
    json_decref(line);
    free(text);
}

static void a_name_that_leads_elsewhere_is_refused(void **state)
{
    const folder *const f = *state;
    static const char *const BAD[] = {"", ".", "..", "../x", "a/b", ".hidden"};
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
        runlog *l = NULL;
        assert_int_equal(runlog_open(&l, f->root, BAD[i], NULL), CKPT_EUSAGE);
    }
}

static void a_store_that_is_gone_is_an_error(void **state)
{
    const folder *const f = *state;
    char path[PATH_SIZE];
    runlog *l = NULL;
    snprintf(path, sizeof path, "%s/gone/.ckpt", f->root);
    assert_int_equal(runlog_open(&l, path, "exp-1", NULL), CKPT_ENOTFOUND);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_line_of_steps_holds_what_was_measured),
        CASE(a_line_of_an_epoch_holds_its_validation_and_null_for_nan),
        CASE(the_start_tells_where_it_runs_and_the_end_what_it_reached),
        CASE(any_text_stays_on_its_line),
        CASE(batches_are_not_written),
        CASE(a_new_log_has_no_seconds_before),
        CASE(seconds_of_earlier_trainings_are_read_and_go_on),
        CASE(lines_are_added_behind_those_that_are_there),
        CASE(a_run_that_another_process_trains_is_busy_until_it_ends),
        CASE(another_run_is_not_busy),
        CASE(a_run_whose_trainer_was_killed_is_free),
        CASE(a_log_that_cannot_be_opened_stops_nobody_and_is_told),
        CASE(a_pipe_in_place_of_a_log_keeps_nobody_waiting),
        CASE(a_log_that_cannot_be_written_is_told_and_goes_on_with_a_whole_line),
        CASE(a_name_that_leads_elsewhere_is_refused),
        CASE(a_store_that_is_gone_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
