#include "lease_record.h"

#include "clock.h"
#include "fail.h"
#include "file.h"
#include "random.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FIRST_LINE "ckpt lease 1\n"

int lease_record_new(lease_record *out, bool by_lock, uint32_t stale_ms, ckpt_error *err)
{
    int rc = 0;
    uint64_t high, low;

    *out = (lease_record){.by_lock = by_lock, .stale_ms = stale_ms, .pid = (uint64_t)getpid()};
    TRY(random_u64(&high, err));
    TRY(random_u64(&low, err));
    snprintf(out->token, sizeof out->token, "%016" PRIx64 "%016" PRIx64, high, low);
    if (gethostname(out->host, sizeof out->host))
        out->host[0] = '\0'; /* too long or not to be had: only people miss it */
    out->host[sizeof out->host - 1] = '\0';
    lease_record_format(out);
out:
    return rc;
}

void lease_record_format(lease_record *record)
{
    const int size = snprintf(record->text, sizeof record->text,
                              FIRST_LINE "counter %016" PRIx64 "\nkind %s\ntoken %s\nstale_ms %" PRIu32 "\npid %" PRIu64
                                         "\nhost %s\n",
                              record->counter, record->by_lock ? "lock" : "counter", record->token, record->stale_ms,
                              record->pid, record->host);
    assert(size > 0 && (size_t)size < sizeof record->text);
    record->size = (size_t)size;
}

/* Copies the value of "key value\n"; empty when it is not there or does not fit. */
static void value_of(char *value, size_t value_size, const char *text, const char *key)
{
    char pattern[16];
    value[0] = '\0';
    snprintf(pattern, sizeof pattern, "\n%s ", key);
    const char *at = strstr(text, pattern);
    if (!at)
        return;
    at += strlen(pattern);
    const size_t size = strcspn(at, "\n");
    if (at[size] != '\n' || size >= value_size)
        return;
    memcpy(value, at, size);
    value[size] = '\0';
}

static uint64_t number_of(const char *text, const char *key, uint64_t limit)
{
    char value[24], *end;
    value_of(value, sizeof value, text, key);
    if (value[0] < '0' || value[0] > '9')
        return 0;
    errno = 0;
    const unsigned long long number = strtoull(value, &end, 10);
    if (*end || errno)
        return 0;
    return number < limit ? number : limit;
}

int lease_record_read(lease_record *out, int fd, const char *path, ckpt_error *err)
{
    int rc = 0;
    char kind[16];

    *out = (lease_record){0};
    while (out->size < LEASE_RECORD_SIZE_MAX) {
        const ssize_t n = pread(fd, out->text + out->size, LEASE_RECORD_SIZE_MAX - out->size, (off_t)out->size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            rc = error_errno(err, errno, "read %s", path);
            goto out;
        }
        if (n == 0)
            break;
        out->size += (size_t)n;
    }
    out->text[out->size] = '\0';
    if (strncmp(out->text, FIRST_LINE, strlen(FIRST_LINE)) != 0)
        goto out;
    value_of(kind, sizeof kind, out->text, "kind");
    value_of(out->token, sizeof out->token, out->text, "token");
    value_of(out->host, sizeof out->host, out->text, "host");
    out->by_lock = strcmp(kind, "lock") == 0;
    out->stale_ms = (uint32_t)number_of(out->text, "stale_ms", LEASE_STALE_MS_MAX);
    out->pid = number_of(out->text, "pid", UINT64_MAX);
out:
    return rc;
}

bool lease_watch_stale(lease_watch *watch, const lease_record *now, uint32_t stale_ms)
{
    const uint64_t now_ms = clock_ms();
    if (!watch->started || watch->seen.size != now->size || memcmp(watch->seen.text, now->text, now->size) != 0) {
        watch->changed = watch->started;
        watch->started = true;
        watch->since_ms = now_ms;
        watch->seen = *now;
        return false;
    }
    /* The holder promised to move within its own limit, which may be longer than ours. */
    return now_ms - watch->since_ms >= (now->stale_ms > stale_ms ? now->stale_ms : stale_ms);
}

int lease_record_break(const char *path, const lease_record *dead, ckpt_error *err)
{
    int rc = 0, fd = -1;
    char aside[FILE_PATH_MAX];
    lease_record moved;

    rc = file_move_aside(aside, path, err);
    if (rc) {
        if (rc == CKPT_ENOTFOUND) /* another one did it */
            rc = error_clear(err);
        goto out;
    }
    const bool read = file_open(&fd, NULL, aside, NULL) == 0 && lease_record_read(&moved, fd, aside, NULL) == 0;
    const bool same = read && moved.size == dead->size && memcmp(moved.text, dead->text, dead->size) == 0;
    /* If its place is taken meanwhile, or links are not to be had, its holder finds out by lease_check. */
    if (!same && link(aside, path) && errno != EEXIST)
        rc = error_errno(err, errno, "put %s back", path);
    (void)unlink(aside);
out:
    file_close(&fd);
    return rc;
}
