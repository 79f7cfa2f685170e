#include "session.h"

#include "clock.h"
#include "fail.h"
#include "json_out.h"
#include "log.h"
#include "output.h"
#include "pool.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#define NOTES_MAX      10   /* of one run; the rest are counted */
#define SAME_SIGNAL_MS 1000 /* what comes within that time is the first signal again */

static volatile sig_atomic_t stop_signal; /* the first that came; 0: none */
static atomic_llong stop_time_ms;         /* when it came; 0: none did */

/* A second signal has its usual effect, should the work not come to its next progress call. But who stops a job often
 * does it twice at once: timeout(1) signals the program and then its group, a wrapper passes on a Ctrl-C that the
 * terminal has given to both. Any thread may be here. */
static void on_signal(int number)
{
    const int kept = errno;
    const long long now = (long long)clock_ms() + 1; /* 0 means that none came */
    long long first = 0;

    if (atomic_compare_exchange_strong(&stop_time_ms, &first, now)) {
        stop_signal = number;
    } else if (now - first > SAME_SIGNAL_MS) {
        (void)signal(number, SIG_DFL);
        (void)raise(number);
    }
    errno = kept;
}

/* A signal that the caller ignores, as a shell does for what runs in the background, stays ignored. */
static void catch_signal(int number)
{
    struct sigaction before, action = {.sa_handler = on_signal};

    sigemptyset(&action.sa_mask);
    if (sigaction(number, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
        sigaction(number, &action, NULL);
}

void session_catch_signals(session *s)
{
    if (s->catches_signals)
        return;
    s->catches_signals = true;
    catch_signal(SIGINT);
    catch_signal(SIGTERM);
}

bool session_stopped(void)
{
    return stop_signal != 0;
}

int session_signal(void)
{
    return stop_signal;
}

static void work_show(session *s, const char *what)
{
    progress_options options = {.out = stderr,
                                .mode = progress_mode_of(stderr, s->quiet),
                                .label = what,
                                .counts = s->work_counts,
                                .begun = s->work_done};
    if (s->work_counts && options.mode == PROGRESS_LINES)
        options.mode = PROGRESS_NONE;
    s->work = what;
    progress_start(&s->progress, &options);
}

void session_work_begin(session *s, const char *what)
{
    session_catch_signals(s);
    s->work_counts = false;
    s->work_done = 0;
    work_show(s, what);
}

void session_count_begin(session *s, const char *what, uint64_t done)
{
    session_catch_signals(s);
    s->work_counts = true;
    s->work_done = done;
    work_show(s, what);
}

void session_count(session *s, uint64_t done, uint64_t total)
{
    s->work_done = done;
    progress_update(&s->progress, done, total);
}

void session_count_left(session *s, double seconds)
{
    progress_left(&s->progress, seconds);
}

void session_work_end(session *s)
{
    progress_finish(&s->progress);
    s->work = NULL;
}

int session_configure(session *s, ckpt_error *err)
{
    int rc = 0;
    int64_t jobs = arguments_count(&s->args, "jobs", 0);
    const char *no_color = getenv("NO_COLOR");

    FAIL_IF(jobs > POOL_THREADS_MAX || (jobs == 0 && arguments_flag(&s->args, "jobs")), err, CKPT_EUSAGE,
            "--jobs %lld: not a number from 1 to %d", (long long)jobs, POOL_THREADS_MAX);
    s->threads = (unsigned)jobs;
    s->store_path = arguments_text(&s->args, "store");
    s->quiet = arguments_flag(&s->args, "quiet");
    s->json = arguments_flag(&s->args, "json");
    s->color = !s->json && isatty(STDOUT_FILENO) && !(no_color && *no_color) && !arguments_flag(&s->args, "no-color");
out:
    return rc;
}

static int on_progress(void *payload, uint64_t done_bytes, uint64_t total_bytes)
{
    session *s = payload;
    session_count(s, done_bytes, total_bytes);
    return session_stopped();
}

void session_library_note(session *s, const char *note)
{
    for (size_t i = 0; i < s->note_count && i < SESSION_NOTES_MAX; i++)
        if (s->notes[i] && strcmp(s->notes[i], note) == 0)
            return;
    if (s->note_count < SESSION_NOTES_MAX)
        s->notes[s->note_count] = strdup(note); /* NULL: it may be told again */
    s->note_count++;
    if (s->notes_are_warnings)
        session_warn(s, "%s", note);
    else if (s->note_count <= SESSION_NOTES_MAX)
        session_note(s, "%s", note);
    else if (s->note_count == SESSION_NOTES_MAX + 1)
        session_note(s, "there are more notes like these");
}

static void on_note(void *payload, const char *note)
{
    session_library_note(payload, note);
}

static void on_warning(void *payload, const char *warning)
{
    session_warn(payload, "%s", warning);
}

int session_open(session *s, ckpt_error *err)
{
    const ckpt_open_options options = {.size = sizeof(options),
                                       .threads = s->threads,
                                       .progress = on_progress,
                                       .note = on_note,
                                       .payload = s,
                                       .warning = on_warning};
    return s->store ? 0 : ckpt_store_open(&s->store, s->store_path, &options, err);
}

void session_close(session *s)
{
    session_work_end(s);
    ckpt_store_close(s->store);
    s->store = NULL;
    arguments_clear(&s->args);
    for (size_t i = 0; i < SESSION_NOTES_MAX; i++)
        free(s->notes[i]);
}

__attribute__((format(printf, 3, 0))) static void say(session *s, log_level level, const char *format, va_list list)
{
    const char *const work = s->work;
    const log_sink sink = {.out = stderr, .least = s->quiet ? LOG_WARNING : LOG_NOTE, .times = s->log_times};

    session_work_end(s); /* the bar makes room */
    log_line_list(&sink, level, format, list);
    if (work)
        work_show(s, work);
}

void session_note(session *s, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    say(s, LOG_NOTE, format, list);
    va_end(list);
}

void session_warn(session *s, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    say(s, LOG_WARNING, format, list);
    va_end(list);
}

static json_t *text_or_null(const char *text)
{
    return *text ? json_out_text(text, strlen(text)) : json_null();
}

/* {"error":"not found","code":40,"exit":4,"message":"...","where":null,"hint":"..."} */
static int report_json(int code, const char *message, const ckpt_error *err)
{
    int rc = 0;
    json_t *object = json_object();

    TRY(json_out_set(object, "error", text_or_null(ckpt_error_name(code)), NULL));
    TRY(json_out_set(object, "code", json_integer(code), NULL));
    TRY(json_out_set(object, "exit", json_integer(ckpt_error_exit_status(code)), NULL));
    TRY(json_out_set(object, "message", text_or_null(message), NULL));
    TRY(json_out_set(object, "where", text_or_null(err->where), NULL));
    TRY(json_out_set(object, "hint", text_or_null(err->hint), NULL));
    TRY(json_out_line(stderr, object, NULL));
out:
    json_decref(object);
    return rc;
}

void session_report(const session *s, int rc, const ckpt_error *err)
{
    const char *const message = err->message[0] ? err->message : ckpt_error_name(rc);

    if (!err->message[0] && rc == CKPT_EDIFFER)
        return; /* the answer is the exit status */
    if (s->json && report_json(rc, message, err) == 0)
        return; /* without the memory for it, in words */
    fputs("ckpt: ", stderr);
    output_text(stderr, message);
    if (err->where[0] && strcmp(err->where, ".") != 0 && !strstr(err->message, err->where)) {
        fputs(" (", stderr);
        output_text(stderr, err->where);
        fputc(')', stderr);
    }
    fputc('\n', stderr);
    if (err->hint[0]) {
        fputs("hint: ", stderr);
        output_text(stderr, err->hint);
        fputc('\n', stderr);
    }
}

bool session_can_ask(void)
{
    return isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
}

bool session_ask(const char *what_is, const char *what_to_do)
{
    char answer[16] = "";

    fflush(stdout);
    output_text(stderr, what_is);
    fprintf(stderr, "; %s? [y/N] ", what_to_do);
    fflush(stderr);
    if (!fgets(answer, sizeof(answer), stdin))
        fputc('\n', stderr);
    answer[strcspn(answer, "\n")] = 0;
    return strcasecmp(answer, "y") == 0 || strcasecmp(answer, "yes") == 0;
}

int session_confirm(session *s, const char *what, ckpt_error *err)
{
    if (arguments_flag(&s->args, "yes"))
        return 0;
    int rc = error_set(err, CKPT_ECONFIRM, "%s: would %s", s->command->name, what);
    error_hint(err, option_find(s->command->options, "dry-run") ? "--yes agrees; --dry-run only shows what would happen"
                                                                : "--yes agrees");
    if (session_can_ask() && session_ask(err->message, "do it")) {
        rc = error_clear(err);
    }
    return rc;
}

static int open_file_instead(ckpt_content **out, const char *name, const ckpt_error *why, int why_rc, ckpt_error *err)
{
    struct stat st;
    if (stat(name, &st) == 0)
        return ckpt_content_open_file(out, name, err);
    if (why_rc == CKPT_ENOSTORE)
        return error_set(err, CKPT_ENOTFOUND, "%s: no such file, and no store in which to look for a checkpoint", name);
    int rc = error_set(err, why_rc, "%s, and no file of that name", why->message);
    if (why->hint[0])
        error_hint(err, "%s", why->hint);
    return rc;
}

int session_open_content(ckpt_content **out, session *s, const char *name, ckpt_error *err)
{
    ckpt_error why = {0};
    int rc = session_open(s, &why);
    if (!rc)
        rc = ckpt_content_open(out, s->store, name, &why);
    /* What is no name of a checkpoint may be one of a file; damage of a checkpoint is not to be papered over. */
    if (rc == CKPT_ENOTFOUND || rc == CKPT_ENOSTORE || rc == CKPT_EUSAGE)
        return open_file_instead(out, name, &why, rc, err);
    if (rc && err)
        *err = why;
    return rc;
}
