#include "watch.h"

#include "clock.h"
#include "fail.h"
#include "watch_internal.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SCAN_MS_MIN    250
#define SCAN_MS_MAX    10000
#define SCAN_SHARE     2000 /* looking around takes at most one part in so many of the time */
#define SCAN_SOON_MS   100  /* after a folder came or went */
#define SLEEP_MS_MAX   1000 /* a signal that comes right before a sleep is seen so late */
#define EVENT_PAUSE_MS 5    /* so that a program that writes in small pieces does not wake us for each */
#define LOOKS_MAX      3    /* at a file that is written on while it is looked at */
#define PUBLISH_MS     60000

static uint64_t sooner(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* ---- Looking ---- */

static int add_folder(void *payload, const char *path, ckpt_error *err)
{
    watch *const w = payload;

    (void)err;
    if (!w->events || watch_events_add(w->events, path, NULL) == 0 || w->folders_told)
        return 0;
    struct stat st;
    if (stat(path, &st) == 0) { /* and is not gone */
        w->folders_told = true;
        w->options->note(w->options->payload,
                         "the system tells nothing of some folders; they are looked at now and then");
    }
    return 0;
}

static watch_item *item_for(watch *w, const char *path, ckpt_error *err);

static void on_event(void *payload, watch_event event, const char *path)
{
    watch *const w = payload;
    const uint64_t now_ms = clock_ms();

    if (event == WATCH_EVENT_FOLDER || event == WATCH_EVENT_LOST)
        w->scan_ms = sooner(w->scan_ms, now_ms + SCAN_SOON_MS);
    for (size_t i = 0; event == WATCH_EVENT_LOST && i < watch_track_count(w->track); i++)
        watch_track_at(w->track, i)->open = false; /* that it was closed may be among what is lost */
    watch_item *item = watch_track_around(w->track, path);
    for (size_t i = 0; !item && event == WATCH_EVENT_CLOSED && i < w->glob_count; i++)
        if (watch_glob_fits(w->globs[i], path))
            item = item_for(w, path, NULL);
    if (!item)
        return;
    item->event = true;
    item->event_closed = event == WATCH_EVENT_CLOSED;
    if (event != WATCH_EVENT_CLOSED)
        watch_item_written(item, event == WATCH_EVENT_WRITTEN, now_ms);
}

static int take_events(watch *w, ckpt_error *err)
{
    return w->events ? watch_events_take(w->events, on_event, w, err) : 0;
}

int watch_look(watch *w, watch_item *item, ckpt_error *err)
{
    int rc = 0;
    watch_mark mark = {0};
    bool folder = false, closed = false;

    TRY(take_events(w, err));
    for (int i = 0; i < LOOKS_MAX; i++) {
        item->event = false;
        rc = watch_mark_take(&mark, &folder, item->path, add_folder, w, err);
        if (rc == CKPT_ENOTFOUND) {
            watch_item_gone(item, clock_ms());
            rc = error_clear(err);
            goto out;
        }
        TRY(rc);
        /* An event that comes after the look may tell of a write that the look has not seen. */
        TRY(take_events(w, err));
        closed = item->event_closed;
        if (!item->event)
            break;
    }
    item->event_closed = false;
    watch_item_look(w->track, item, &mark, folder, closed && !item->event, clock_ms());
out:
    return rc;
}

/* The item of a path that fits a pattern, made where there is none; NULL when memory is exhausted. */
static watch_item *item_for(watch *w, const char *path, ckpt_error *err)
{
    watch_item *item = watch_track_find(w->track, path);
    watch_mark mark;

    if (item || watch_track_add(&item, w->track, path, err))
        return item;
    item->doubt = w->scans == 0; /* it was there before us: an earlier watch may have saved it */
    if (watch_state_get(&mark, w->state, path))
        watch_item_known(item, &mark);
    return item;
}

/* A path that cannot be looked at is told once and passed over. */
static int look_or_tell(watch *w, watch_item *item, ckpt_error *err)
{
    ckpt_error why = {0};
    const int rc = watch_look(w, item, &why);

    if (rc == 0)
        return 0;
    if (rc == CKPT_ENOMEM) {
        if (err)
            *err = why;
        return rc;
    }
    watch_item_gone(item, clock_ms());
    if (item->told != rc)
        w->options->warning(w->options->payload, why.message);
    item->told = rc;
    return 0;
}

static int on_found(void *payload, const char *path, const struct stat *st, ckpt_error *err)
{
    int rc = 0;
    watch *const w = payload;
    watch_item *const around = watch_track_around(w->track, path);

    (void)st;
    w->found++;
    if (around && !around->gone && strcmp(around->path, path) != 0)
        goto out; /* part of a folder that is watched as a whole */
    watch_item *const item = item_for(w, path, err);
    FAIL_IF_NULL(item, err);
    item->scan = w->scans + 1;
    TRY(look_or_tell(w, item, err));
out:
    return rc;
}

/* What the look around did not find is gone, or was found by an event since. Of what is gone for long nothing is kept.
 */
static int look_at_rest(watch *w, ckpt_error *err)
{
    int rc = 0;
    const uint64_t kept_ms = 2 * w->timing.every_ms + PUBLISH_MS;

    for (size_t i = 0; i < watch_track_count(w->track);) {
        watch_item *const item = watch_track_at(w->track, i);
        if (item->scan != w->scans)
            TRY(look_or_tell(w, item, err));
        if (item->gone && clock_ms() - item->since_ms > kept_ms)
            watch_track_forget(w->track, item);
        else
            i++;
    }
out:
    return rc;
}

static int look_around(watch *w, ckpt_error *err)
{
    int rc = 0;
    const uint64_t begin_ms = clock_ms(), third_ms = w->timing.every_ms / 3;
    const watch_scan scan = {.found = on_found, .folder = add_folder, .payload = w};

    w->scan_ms = WATCH_NEVER;
    w->found = 0;
    for (size_t i = 0; i < w->glob_count; i++) {
        ckpt_error why = {0};
        rc = watch_glob_scan(w->globs[i], &scan, &why);
        if (rc == CKPT_EUSAGE) { /* more than can be watched fits: what was found until then is watched */
            if (!w->scan_told)
                w->options->warning(w->options->payload, why.message);
            w->scan_told = true;
            rc = 0;
        }
        if (rc && err)
            *err = why;
        TRY(rc);
    }
    w->scans++;
    TRY(look_at_rest(w, err));
    const uint64_t now_ms = clock_ms(), took_ms = now_ms - begin_ms;
    uint64_t wait_ms = third_ms < SCAN_MS_MIN ? SCAN_MS_MIN : third_ms > SCAN_MS_MAX ? SCAN_MS_MAX : third_ms;
    if (took_ms * SCAN_SHARE > wait_ms)
        wait_ms = took_ms * SCAN_SHARE;
    w->scan_ms = sooner(w->scan_ms, now_ms + wait_ms);
out:
    return rc;
}

/* ---- Saving ---- */

static bool is_ready(watch_verdict verdict)
{
    return verdict == WATCH_SAVE || verdict == WATCH_COPY || verdict == WATCH_FORCED;
}

/* All together. *at_ms: when to ask again. */
static int save_all(uint64_t *at_ms, watch *w, ckpt_error *err)
{
    int rc = 0;
    watch_item **items = NULL;
    size_t count = 0;

    if (!is_ready(watch_track_judge_all(at_ms, w->track, clock_ms())))
        goto out;
    for (size_t i = 0; i < watch_track_count(w->track); i++)
        TRY(look_or_tell(w, watch_track_at(w->track, i), err));
    const watch_verdict verdict = watch_track_judge_all(at_ms, w->track, clock_ms());
    if (!is_ready(verdict))
        goto out;
    items = calloc(watch_track_count(w->track) + 1, sizeof *items);
    FAIL_IF_NULL(items, err);
    for (size_t i = 0; i < watch_track_count(w->track); i++)
        if (!watch_track_at(w->track, i)->gone)
            items[count++] = watch_track_at(w->track, i);
    TRY(watch_save(w, items, count, verdict, err));
    *at_ms = 0;
out:
    free(items);
    return rc;
}

static int save_one(uint64_t *at_ms, watch *w, ckpt_error *err)
{
    int rc = 0;
    watch_verdict verdict;
    uint64_t ignored;
    watch_item *item = watch_track_next(&verdict, at_ms, w->track, clock_ms());

    if (!item)
        goto out;
    *at_ms = 0; /* there may be more */
    TRY(look_or_tell(w, item, err));
    verdict = watch_item_judge(&ignored, w->track, item, clock_ms());
    if (is_ready(verdict))
        TRY(watch_save(w, &item, 1, verdict, err));
out:
    return rc;
}

/* ---- The loop ---- */

/* Non-zero ends a save that is under way. */
static int on_progress(void *payload, uint64_t done_bytes, uint64_t total_bytes)
{
    watch *const w = payload;
    const int stopped = w->options->stopped(w->options->payload);

    (void)done_bytes;
    (void)total_bytes;
    if (stopped && w->stop_ms == WATCH_NEVER)
        w->stop_ms = clock_ms() + WATCH_GRACE_MS;
    return stopped == SIGINT || clock_ms() >= w->stop_ms;
}

static void on_note(void *payload, const char *note)
{
    const watch *const w = payload;
    w->options->note(w->options->payload, note);
}

static void on_warning(void *payload, const char *warning)
{
    const watch *const w = payload;
    w->options->warning(w->options->payload, warning);
}

static int add_pattern(watch *w, const char *pattern, ckpt_error *err)
{
    int rc = 0;
    char full[FILE_PATH_MAX];
    const size_t store = strlen(w->options->store_path);

    TRY(watch_glob_new(&w->globs[w->glob_count], pattern, err));
    w->glob_count++;
    if (pattern[0] == '/')
        snprintf(full, sizeof full, "%s/", pattern);
    else
        FAIL_IF(snprintf(full, sizeof full, "%s/%s/", w->here, pattern) >= (int)sizeof full, err, CKPT_EUSAGE,
                "%s: the path is too long", pattern);
    FAIL_IF(strncmp(full, w->options->store_path, store) == 0 && full[store] == '/', err, CKPT_EUSAGE,
            "%s is inside a store, which is never part of a save", pattern);
out:
    return rc;
}

static int watch_open(watch *w, const watch_options *options, ckpt_error *err)
{
    int rc = 0;
    const ckpt_open_options open = {.size = sizeof open,
                                    .threads = options->threads,
                                    .progress = on_progress,
                                    .note = on_note,
                                    .payload = w,
                                    .warning = on_warning};

    FAIL_IF(options->pattern_count > WATCH_PATTERNS_MAX, err, CKPT_EUSAGE, "more than %d patterns", WATCH_PATTERNS_MAX);
    if (!getcwd(w->here, sizeof w->here)) {
        rc = error_errno(err, errno, "the current folder");
        goto out;
    }
    for (size_t i = 0; i < options->pattern_count; i++)
        TRY(add_pattern(w, options->patterns[i], err));
    for (size_t i = 0; options->metrics && i < metric_log_count(options->metrics); i++) {
        const char *const key = metric_log_key(options->metrics, i);
        FAIL_IF(strcmp(key, WATCH_META_FOLDER) == 0 || strcmp(key, CKPT_META_LOSSY) == 0, err, CKPT_EUSAGE,
                "metric %s: that name has a meaning of its own", key);
    }
    w->timing = (watch_timing){.every_ms = options->every_ms, .settle_ms = options->settle_ms, .start_ms = clock_ms()};
    TRY(watch_track_new(&w->track, &w->timing, err));
    TRY(ckpt_store_open(&w->store, options->store_path, &open, err));
    TRY(watch_state_open(&w->state, options->job ? job_folder(options->job) : NULL, w->store, err));
    if (watch_events_new(&w->events, NULL))
        options->note(options->payload, "the system tells nothing of files; they are looked at now and then");
out:
    return rc;
}

static void watch_close(watch *w)
{
    for (size_t i = 0; i < w->glob_count; i++)
        watch_glob_free(w->globs[i]);
    watch_events_free(w->events);
    watch_track_free(w->track);
    watch_state_close(w->state);
    ckpt_store_close(w->store);
}

static int publish(watch *w, ckpt_error *err)
{
    int rc = 0;
    job *const j = w->options->job;
    const uint64_t now_ms = clock_ms();

    w->publish_ms = now_ms + PUBLISH_MS;
    if (!j)
        goto out;
    TRY(job_check(j, err));
    job_of(j)->next_round = (int64_t)time(NULL) + (int64_t)((watch_timing_next(&w->timing, now_ms) - now_ms) / 1000);
    (void)job_publish(j, NULL); /* a full disk: what it says is old then */
out:
    return rc;
}

/* Should this fail, or the process be killed before, the next watch compares with the store. */
static void state_write(watch *w)
{
    w->state_due = false;
    (void)watch_state_put(w->state, w->track, NULL);
}

/* Everything that is whole is saved once more, whatever its interval; what is not whole gets until the end. */
static int begin_last_round(watch *w, ckpt_error *err)
{
    w->end_ms = clock_ms() + (w->options->once ? WATCH_GRACE_MS + w->timing.every_ms : WATCH_GRACE_MS);
    const int rc = look_around(w, err);
    for (size_t i = 0; i < watch_track_count(w->track); i++)
        watch_track_at(w->track, i)->due_ms = 0;
    return rc;
}

static bool is_time_for_the_last_round(const watch *w, uint64_t begin_ms)
{
    const watch_options *const o = w->options;

    return w->end_ms == WATCH_NEVER &&
           (o->once || o->stopped(o->payload) || (o->for_ms && clock_ms() - begin_ms >= o->for_ms));
}

static bool is_over(const watch *w, uint64_t at_ms)
{
    const watch_options *const o = w->options;

    if (o->saves_max && w->saves >= o->saves_max)
        return true;
    return w->end_ms != WATCH_NEVER && (at_ms >= w->end_ms || clock_ms() >= w->end_ms);
}

static void sleep_until(const watch *w, uint64_t at_ms)
{
    const uint64_t now_ms = clock_ms();
    uint64_t wait_ms = at_ms > now_ms ? at_ms - now_ms : 0;
    struct pollfd poller = {.fd = w->events ? watch_events_fd(w->events) : -1, .events = POLLIN};

    if (wait_ms > SLEEP_MS_MAX)
        wait_ms = SLEEP_MS_MAX;
    if (poll(&poller, 1, (int)wait_ms) > 0)
        nanosleep(&(struct timespec){.tv_nsec = EVENT_PAUSE_MS * 1000000L}, NULL);
}

static int look_at_events(watch *w, ckpt_error *err)
{
    int rc = 0;

    TRY(take_events(w, err));
    for (size_t i = 0; i < watch_track_count(w->track); i++)
        if (watch_track_at(w->track, i)->event)
            TRY(look_or_tell(w, watch_track_at(w->track, i), err));
out:
    return rc;
}

static int loop(watch *w, ckpt_error *err)
{
    int rc = 0;
    const watch_options *const o = w->options;
    const uint64_t begin_ms = clock_ms();

    for (;;) {
        uint64_t at_ms = 0;
        const uint64_t tries = w->saves + w->failures;
        FAIL_IF(o->stopped(o->payload) == SIGINT, err, CKPT_EINTERRUPTED, "interrupted");
        TRY(look_at_events(w, err));
        if (is_time_for_the_last_round(w, begin_ms))
            TRY(begin_last_round(w, err));
        else if (clock_ms() >= w->scan_ms)
            TRY(look_around(w, err));
        TRY(o->together ? save_all(&at_ms, w, err) : save_one(&at_ms, w, err));
        if (w->saves + w->failures > tries || clock_ms() >= w->publish_ms)
            TRY(publish(w, err));
        if (w->state_due && at_ms) /* nothing is to be saved now */
            state_write(w);
        if (is_over(w, at_ms))
            break;
        if (at_ms) {
            at_ms = sooner(sooner(at_ms, w->scan_ms), w->end_ms);
            if (o->for_ms)
                at_ms = sooner(at_ms, begin_ms + o->for_ms);
            sleep_until(w, at_ms);
        }
    }
out:
    if (w->state_due)
        state_write(w);
    return rc;
}

/* Of --once: what came of it. */
static int once_result(const watch *w, ckpt_error *err)
{
    int rc = 0;
    const watch_options *const o = w->options;

    if (w->failed && err)
        *err = w->failure;
    TRY(w->failed);
    FAIL_IF(!w->found, err, CKPT_ENOTFOUND, "%s: no such file or folder",
            o->pattern_count == 1 ? o->patterns[0] : "the patterns");
    for (size_t i = 0; !o->saves_max && i < watch_track_count(w->track); i++) {
        const watch_item *const item = watch_track_at(w->track, i);
        FAIL_IF(!item->gone && !item->has_saved, err, CKPT_ECHANGED, "%s is not whole and was not saved", item->path);
    }
    if (!w->saves)
        o->note(o->payload, "nothing is new: what is there was saved before");
out:
    return rc;
}

int watch_run(const watch_options *options, ckpt_error *err)
{
    int rc = 0;
    watch w = {.options = options, .end_ms = WATCH_NEVER, .stop_ms = WATCH_NEVER};

    TRY(watch_open(&w, options, err));
    options->started(options->payload);
    TRY(loop(&w, err));
    if (options->once)
        TRY(once_result(&w, err));
out:
    watch_close(&w);
    return rc;
}
